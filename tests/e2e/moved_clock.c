/* moved_clock.c: a machine with a wrong calendar, loaded before the C library (LD_PRELOAD) for
 * e2e/test_clock.py: in the daemon named by SHOAL_CLOCK_OF the time of day is SHOAL_CLOCK_BY
 * seconds ahead. The monotonic clock, which leases use, is unchanged. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long moved_by; /* seconds */

/* True when `word` of the command line names the daemon, or its configuration. */
static int names(const char *word, const char *of)
{
    char file[64];
    (void)snprintf(file, sizeof file, "/%s.yaml", of);
    size_t bytes = strlen(word), end = strlen(file);
    return strcmp(word, of) == 0 || (bytes > end && strcmp(word + bytes - end, file) == 0);
}

__attribute__((constructor)) static void look(void)
{
    char line[4096];
    const char *of = getenv("SHOAL_CLOCK_OF"), *by = getenv("SHOAL_CLOCK_BY");
    int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, line, sizeof line - 1);
    if (fd >= 0)
        close(fd);
    line[n > 0 ? n : 0] = 0;
    for (ssize_t at = 0; of != NULL && by != NULL && at < n; at += (ssize_t)strlen(line + at) + 1)
        if (names(line + at, of))
            moved_by = strtol(by, NULL, 10);
}

int clock_gettime(clockid_t clock, struct timespec *out)
{
    int rc = (int)syscall(SYS_clock_gettime, clock, out);
    if (rc == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        out->tv_sec += moved_by;
    return rc;
}

int gettimeofday(struct timeval *restrict out, void *restrict zone)
{
    struct timespec now;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &now) != 0)
        return -1;
    out->tv_sec = now.tv_sec;
    out->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *out)
{
    struct timespec now;
    if (clock_gettime(CLOCK_REALTIME, &now) != 0)
        return -1;
    if (out != NULL)
        *out = now.tv_sec;
    return now.tv_sec;
}
