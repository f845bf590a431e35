/* live.h: a daemon's file, read again while the daemon runs (SIGHUP): changes of keys that may
 * change count at once; a change of another key is logged as counting from the next start. The key
 * `log`, which every daemon's file has, is applied here. */
#ifndef PROTO_JOB_LIVE_H
#define PROTO_JOB_LIVE_H

#include "proto/job/config.h"

struct live {
    const char *path; /* borrowed, as all members except now; NULL: no file, and nothing to read */
    const struct string_list *set;
    const struct config_key *keys;
    const char *const
        *may;           /* paths of the keys that may change, ended by NULL, or NULL; `log` may */
    struct config *now; /* owned: the file as it was last read */
};

/* The caller has filled in all members except now. CONFIG, NOINPUT, IO, NOMEM. */
int live_open(struct live *l, struct err *e);
/* Reads the file again, and logs the changes. A file that is refused changes nothing. */
int live_read(struct live *l, struct err *e);
void live_close(struct live *l);

#endif
