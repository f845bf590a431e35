/* notify.c: talks to systemd through sd_notify; outside systemd (no NOTIFY_SOCKET) every call
 * returns at once. */
#include "proto/net/notify.h"
#include "proto/base/file.h"
#include "proto/base/limits.h"
#include "proto/base/text.h"
#include "proto/base/time.h"
#include "proto/net/starts.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

/* A line break would begin another assignment: a status is one line. */
static void one_line(char *text)
{
    for (char *c = strpbrk(text, "\r\n"); c != NULL; c = strpbrk(c, "\r\n"))
        *c = ' ';
}

/* ---- the pulse ---- */

static bool pulse_path(char path[LIMIT_PATH])
{
    const char *folder = getenv("RUNTIME_DIRECTORY");
    return folder != NULL && notify_watchdog_ns() != 0 &&
           snprintf(path, LIMIT_PATH, "%s/pulse", folder) < (int)LIMIT_PATH;
}

void notify_begin(void)
{
    char path[LIMIT_PATH];
    if (pulse_path(path))
        (void)file_unlink(path);
}

static void pulse_make(void)
{
    char path[LIMIT_PATH];
    int fd = -1;
    if (pulse_path(path))
        fd = file_open(path, O_WRONLY | O_CREAT, 0640);
    if (fd >= 0)
        close(fd);
}

/* Touches the pulse; only a daemon that is ready has one. */
static void pulse_touch(void)
{
    char path[LIMIT_PATH];
    if (pulse_path(path))
        (void)utimensat(AT_FDCWD, path, NULL, 0);
}

/* ---- messages to systemd ---- */

/* The status that was sent last. */
static char told[256];

void notify_ready(const char *status)
{
    char line[256];
    text_copy(line, sizeof(line), status);
    one_line(line);
    memcpy(told, line, sizeof told);
    starts_over();
    pulse_make();
    sd_notifyf(0, "READY=1\nSTATUS=%s", line);
}

/* Called on one thread. An unchanged status is not sent again: a message waits for its reader. */
void notify_status(const char *format, ...)
{
    char line[256] = "";
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    one_line(line);
    if (strcmp(line, told) == 0)
        return;
    memcpy(told, line, sizeof told);
    sd_notifyf(0, "STATUS=%s", line);
}

void notify_stopping(void)
{
    starts_over();
    sd_notify(0, "STOPPING=1");
}

/* The time lets systemd 253 and newer (Type=notify-reload) tell this reload from an earlier one. */
void notify_reloading(void)
{
    sd_notifyf(0, "RELOADING=1\nMONOTONIC_USEC=%" PRIu64, time_monotonic_ns() / 1000);
}

void notify_extend_timeout(uint64_t usec)
{
    sd_notifyf(0, "EXTEND_TIMEOUT_USEC=%" PRIu64, usec);
}

/* One watchdog a process, as in systemd. It is pinged six times in its interval: a pause of the
 * loop of less than five sixths of it is not a hang. */
static struct {
    struct env *env; /* borrowed */
    struct env_timer timer;
    uint64_t every_ns;
} watchdog;

uint64_t notify_watchdog_ns(void)
{
    uint64_t usec = 0;
    if (sd_watchdog_enabled(0, &usec) <= 0)
        return 0;
    return usec * 1000 / 6;
}

void notify_watchdog_ping(void)
{
    pulse_touch();
    sd_notify(0, "WATCHDOG=1");
}

static void watchdog_fire(struct env_timer *t)
{
    notify_watchdog_ping();
    env_timer_start(watchdog.env, t, watchdog.every_ns);
}

void notify_watchdog_start(struct env *env)
{
    uint64_t every_ns = notify_watchdog_ns();
    if (every_ns == 0)
        return;
    watchdog.env = env;
    watchdog.every_ns = every_ns;
    watchdog.timer = (struct env_timer){.fire = watchdog_fire}; /* an earlier env is gone */
    watchdog_fire(&watchdog.timer);
}
