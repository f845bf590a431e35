/* live.h: the file of a daemon, read again while it runs (SIGHUP): keys that may change then do, of
 * others it is said that they count from the next start. The key `log`, which every daemon's file
 * has, is set here. */
#ifndef PROTO_JOB_LIVE_H
#define PROTO_JOB_LIVE_H

#include "proto/job/config.h"

struct live {
    const char *path; /* borrowed, as all here but now; NULL: no file, there is nothing to read */
    const struct string_list *set;
    const struct config_key *keys;
    const char *const
        *may;           /* paths of the keys that may change, ended by NULL, or NULL; `log` may */
    struct config *now; /* owned: as it was read last */
};

/* The caller has filled in all but `now`. CONFIG, NOINPUT, IO, NOMEM. */
int live_open(struct live *l, struct err *e);
/* Reads it again, and says in the log what has changed. A file that is refused changes nothing. */
int live_read(struct live *l, struct err *e);
void live_close(struct live *l);

#endif
