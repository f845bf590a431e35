/* asked.h: a text that a loop makes for a page, only while it is asked for, about once a second.
 *
 *     http:  asked_read: the newest text, and that it is asked for
 *     loop:  about once a second, when asked_wants: asked_put
 *
 * When the loop has not been asked for a while, a reader waits for the new text, ASKED_WAIT_NS at
 * most. If none comes, later readers do not wait until the loop puts a text again: they get the old
 * text with its age. So a loop that hangs delays one answer. */
#ifndef PROTO_HTTP_ASKED_H
#define PROTO_HTTP_ASKED_H

#include "proto/base/err.h"

#include <stdbool.h>
#include <stdint.h>

#define ASKED_NS UINT64_C(60000000000) /* for so long after a reader the text is made */
#define ASKED_FRESH_NS UINT64_C(2500000000)
#define ASKED_WAIT_NS UINT64_C(1500000000)

struct asked;

/* NOMEM. */
int asked_open(struct asked **out, struct err *e);
void asked_close(struct asked *a); /* no thread uses it any more; NULL is fine */
/* The loop's: true when the text was asked for lately. now_ns: time_monotonic_ns. */
bool asked_wants(struct asked *a, uint64_t now_ns);
/* Takes the text (malloc); NULL, where there was no memory: the last one stays. */
void asked_put(struct asked *a, char *text, uint64_t now_ns);
/* Returns a copy that the caller frees, and its age; NULL: there is none yet, or no memory. */
char *asked_read(struct asked *a, double *age_s);

#endif
