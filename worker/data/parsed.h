/* parsed.h: the slices of a split in the order of its log: lines parsed, or event files unpacked.
 * One thread at a time; the source stays as it is. */
#ifndef WORKER_DATA_PARSED_H
#define WORKER_DATA_PARSED_H

#include "worker/data/events.h"
#include "worker/data/slice.h"

struct parsed; /* opaque */

/* events: its files are event files, and have the features' columns. CONFIG, and as events_open;
 * NOMEM. */
int parsed_open(const struct source *s, const struct features *f, bool events, struct parsed **out,
                struct err *e);
void parsed_close(struct parsed *p);
/* The features' columns. */
const struct columns *parsed_columns(const struct parsed *p);
/* Of event files: all rows, and a digest of their content. */
uint64_t parsed_rows(const struct parsed *p);
uint64_t parsed_digest(const struct parsed *p);
/* The next slice, good until the next call: 0, END, IO, CHECKSUM, CORRUPT, NOMEM. context: p. */
int parsed_next(void *context, struct slice **b, struct err *e);

#endif
