/* starts.h: counts the failed starts of a unit in a row, with their cause, in the file `starts` of
 * its $RUNTIME_DIRECTORY. systemd keeps that folder over its own restarts
 * (RuntimeDirectoryPreserve=) and removes it at a stop. So the count begins again when an
 * administrator starts the unit.
 *
 *     starts_begin();
 *     ... what may fail; READY=1 is said: notify_ready ends the count
 *     return starts_end("shoal-server", rc, &e);
 *
 * systemd retries after a second. Once a unit has failed for five minutes, each failed start lasts
 * half a minute longer: systemd 252 has no growing delay, and that of 257 counts all restarts since
 * the unit was started. The wait is at the end of a start, where a SIGTERM ends it, so `systemctl
 * restart` retries at once. If a signal ended a start, the next start waits in its place. Outside a
 * unit (no $RUNTIME_DIRECTORY) nothing is counted. Single thread. */
#ifndef PROTO_NET_STARTS_H
#define PROTO_NET_STARTS_H

#include "proto/base/err.h"

#include <stdbool.h>
#include <stdint.h>

#define STARTS_PATIENCE_NS UINT64_C(300000000000)

struct starts {
    uint32_t count;    /* failed starts, the last of them with `cause` */
    uint64_t since_ns; /* start time of the first of them (time_monotonic_ns) */
    bool waited;       /* the last one has waited at its end, or needs no wait */
    char cause[ERR_TEXT_MAX];
};

void starts_begin(void);
void starts_over(void); /* called by notify_ready and notify_stopping: this start has not failed */
/* Returns the exit status of a daemon that ends with rc. It logs the error and, before READY=1,
 * counts it and reports it to systemd. */
int starts_end(int rc, const struct err *e);
/* Records why this start fails; for a thread that is about to end the process. */
void starts_cause(const char *sentence);
/* Reads the failed starts of the unit that owns the folder, without one that goes on, which may
 * take minutes. False: it has not failed to start, or its file cannot be read. */
bool starts_read(const char *folder, struct starts *s);

#endif
