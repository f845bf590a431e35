/* notify.h: sd_notify: READY, STATUS, WATCHDOG. The calls do nothing outside systemd. Only notify.c
 * includes systemd/sd-daemon.h.
 *
 * Where no systemd listens to the watchdog's ping (a container), the file `pulse` in
 * $RUNTIME_DIRECTORY replaces it: notify_ready creates it, each ping touches it, and the next
 * notify_begin removes it. Its age says whether the daemon makes progress (deploy/healthy), and
 * reading it sends no request to the daemon. */
#ifndef PROTO_NET_NOTIFY_H
#define PROTO_NET_NOTIFY_H

#include "proto/base/env.h"

#include <stdint.h>

/* Called before anything else: removes the pulse of an earlier process. */
void notify_begin(void);
void notify_ready(const char *status);
void notify_status(const char *format, ...) __attribute__((format(printf, 1, 2)));
void notify_stopping(void);
/* The daemon reads its settings again; notify_ready says that it has done so. */
void notify_reloading(void);
/* Pings the watchdog from the loop of env, six times in its interval, when systemd asked for one. A
 * hung loop stops pinging. */
void notify_watchdog_start(struct env *env);
/* For a process of several loops, whose main thread pings: the interval; 0: no watchdog is
 * wanted. */
uint64_t notify_watchdog_ns(void);
void notify_watchdog_ping(void);
void notify_extend_timeout(uint64_t usec); /* while a long start or stop makes progress */

#endif
