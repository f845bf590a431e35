/* starts.h: how often a unit has failed to start in a row, and why: in the file `starts` of its
 * $RUNTIME_DIRECTORY. systemd keeps that folder over its own restarts (RuntimeDirectoryPreserve=)
 * and removes it at a stop, so a count begins anew where an administrator starts the unit.
 *
 *     starts_begin();
 *     ... what may fail; READY=1 is said: notify_ready ends the count
 *     return starts_end("shoal-server", rc, &e);
 *
 * systemd tries again after a second. Once a unit has failed for five minutes, each failed start
 * lasts half a minute longer: systemd 252 has no delay that grows, and 257 has one that counts all
 * restarts since the unit was started. The wait is at the end of a start, where a SIGTERM ends it,
 * so `systemctl restart` tries at once; a start that a signal ended is waited for by the next one.
 * Outside a unit (no $RUNTIME_DIRECTORY) nothing is counted. Of one thread. */
#ifndef PROTO_NET_STARTS_H
#define PROTO_NET_STARTS_H

#include "proto/base/err.h"

#include <stdbool.h>
#include <stdint.h>

#define STARTS_PATIENCE_NS UINT64_C(300000000000)

struct starts {
    uint32_t count;    /* that failed, the last of them with `cause` */
    uint64_t since_ns; /* of time_monotonic_ns: the first of them began */
    bool waited;       /* the last one has, at its end, or needs no wait */
    char cause[ERR_TEXT_MAX];
};

void starts_begin(void);
void starts_over(void); /* by notify_ready and notify_stopping: this start is no failure */
/* The exit status of a daemon that ends with rc: its error is logged, and, before READY=1, counted
 * and told to systemd. */
int starts_end(int rc, const struct err *e);
/* The sentence is why this start fails, of a thread that is about to end the process. */
void starts_cause(const char *sentence);
/* Of the unit whose folder that is; false: it has not failed to start, or may not be looked at. */
bool starts_read(const char *folder, struct starts *s);

#endif
