/* notify.h: sd_notify: READY, STATUS, WATCHDOG. No-ops outside systemd. The one door to
 * systemd/sd-daemon.h. */
#ifndef PROTO_NET_NOTIFY_H
#define PROTO_NET_NOTIFY_H

#include "proto/base/env.h"

#include <stdint.h>

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
