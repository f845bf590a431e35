/* server_keys.h: what coordinator and servers do about keys at their start, and the coordinator's
 * allow-list while it runs. */
#ifndef SERVER_SERVER_KEYS_H
#define SERVER_SERVER_KEYS_H

#include "proto/base/err.h"
#include "proto/net/keyfile.h"
#include "proto/net/keylist.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

struct server_keys_ask { /* what a daemon's file says */
    const char *listen, *keys, *allow;
    const char *coordinator; /* a server's; "": none, so that the list is this daemon's own */
    bool insecure;
    const char *signers; /* of checkpoints; "": none */
};

/* Reads the keys (*out NULL: none), and refuses what does not go together, and a list of signers
 * that could not be gone by later, in words: CONFIG, and what keyfile.h and signature.h say.
 * Without keys over tcp it is said, each time. */
int server_keys_open(const struct server_keys_ask *ask, struct keyfile **out, struct err *e);
/* --check: the same without a word in the log, and the list; prints "ok" to stdout after 0. A key
 * that only the unit can hand over is not missed (keyfile.h). */
int server_keys_check(const struct server_keys_ask *ask, struct err *e);
/* Whether such a daemon listens on tcp without keys. */
bool server_keys_insecure(const struct server_keys_ask *ask, const struct keyfile *keys);

struct server_list {  /* the file of an allow-list */
    const char *path; /* borrowed */
    const char *last; /* borrowed; a copy of the list that was taken last; NULL: none is kept */
    struct stat was, seen; /* when it was last read, looked at */
};

/* Reads it in any case. *list and *text (bytes) are the caller's. */
int server_keys_list_read(struct server_list *s, struct keylist **list, char **text, size_t *bytes,
                          struct err *e);
/* Keeps the text of a list that is taken, with the mode of the list. A failure is logged: the list
 * counts all the same. */
void server_keys_list_keep(const struct server_list *s, const char *text, size_t bytes);
/* At a start, where the list is missing or wrong (e says why): reads the copy, which then counts
 * until the list is mended, and adds that to e. A start without a copy fails with rc; e stays. */
int server_keys_list_last(const struct server_list *s, int rc, struct keylist **list, char **text,
                          size_t *bytes, struct err *e);
/* Whether it looks otherwise than when it was last read, and as it did at the last look: who writes
 * it is done. */
bool server_keys_list_changed(struct server_list *s);

#endif
