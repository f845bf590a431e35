/* notify.h: sd_notify: READY, STATUS, WATCHDOG. No-ops outside systemd. The one door to
 * systemd/sd-daemon.h.
 *
 * Where there is no systemd to hear the watchdog's ping (a container), the file `pulse` of
 * $RUNTIME_DIRECTORY tells it: made by notify_ready, touched by each ping, gone at the next
 * notify_begin. Its age says whether the daemon gets on (deploy/healthy), and nobody is asked for
 * it. */
#ifndef PROTO_NET_NOTIFY_H
#define PROTO_NET_NOTIFY_H

#include "proto/base/env.h"

#include <stdint.h>

/* Before anything else: what a process before this one has said counts no more. */
void notify_begin(void);
void notify_ready(const char *status);
void notify_status(const char *format, ...) __attribute__((format(printf, 1, 2)));
void notify_stopping(void);
/* Settings are read again; notify_ready says that they have been. */
void notify_reloading(void);
/* Pings the watchdog from the loop of env, six times in its interval, when systemd asked for one. A
 * hung loop stops pinging. */
void notify_watchdog_start(struct env *env);
/* For a process of several loops, whose main thread pings: how often it should; 0: nobody asks. */
uint64_t notify_watchdog_ns(void);
void notify_watchdog_ping(void);
void notify_extend_timeout(uint64_t usec); /* while a long start or stop moves */

#endif
