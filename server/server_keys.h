/* server_keys.h: how coordinator and servers handle keys at their start, and the coordinator's
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

struct server_keys_ask { /* the settings of a daemon's file */
    const char *listen, *keys, *allow;
    const char *coordinator; /* a server's; "": none, so that the allow-list is this daemon's own */
    bool insecure;
    const char *signers; /* file of the keys that may sign checkpoints; "": none */
};

/* Reads the keys (*out NULL: none). Refuses settings that contradict each other, and a list of
 * signers that could not be used later: CONFIG, and the errors of keyfile.h and signature.h. A
 * daemon on tcp without keys logs a warning at each start. */
int server_keys_open(const struct server_keys_ask *ask, struct keyfile **out, struct err *e);
/* --check: the same checks and those of the allow-list, without logging; prints "ok" to stdout when
 * it returns 0. A key that only the systemd unit can hand over is not missed (keyfile.h). */
int server_keys_check(const struct server_keys_ask *ask, struct err *e);
/* True when such a daemon listens on tcp without keys. */
bool server_keys_insecure(const struct server_keys_ask *ask, const struct keyfile *keys);

struct server_list {  /* the file of an allow-list */
    const char *path; /* borrowed */
    /* borrowed; path of the copy of the last accepted list; NULL: no copy is kept */
    const char *last;
    struct stat was, seen; /* the file when it was last read, and at the last look */
};

/* Reads the list, changed or not. The caller owns *list and *text (bytes). */
int server_keys_list_read(struct server_list *s, struct keylist **list, char **text, size_t *bytes,
                          struct err *e);
/* Keeps a copy of an accepted list, with the mode of the list. A failure is logged: the list counts
 * all the same. */
void server_keys_list_keep(const struct server_list *s, const char *text, size_t bytes);
/* Called at a start when the list is missing or wrong (e says why). Reads the copy, which counts
 * until the list is repaired, and adds that to e. Without a copy the start fails with rc, and e
 * stays. */
int server_keys_list_last(const struct server_list *s, int rc, struct keylist **list, char **text,
                          size_t *bytes, struct err *e);
/* True when the file differs from when it was last read and is the same as at the last look: its
 * writer has finished. */
bool server_keys_list_changed(struct server_list *s);

#endif
