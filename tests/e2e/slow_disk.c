/* slow_disk.c: a slow disk, loaded before the C library (LD_PRELOAD) for e2e/test_stop.py.
 * SHOAL_SLOW_READS is the additional time in milliseconds of each pread below a folder `journal`,
 * SHOAL_SLOW_SYNCS that of each fdatasync below a folder `rows`. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

static void wait_for(int fd, const char *folder, const char *variable)
{
    char link[64], path[4096];
    const char *ms = getenv(variable);
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = ms == NULL ? -1 : readlink(link, path, sizeof path - 1);
    path[n > 0 ? n : 0] = 0;
    if (n <= 0 || strstr(path, folder) == NULL)
        return;
    long most = strtol(ms, NULL, 10);
    nanosleep(&(struct timespec){most / 1000, most % 1000 * 1000000}, NULL);
}

ssize_t pread(int fd, void *bytes, size_t count, off_t at)
{
    wait_for(fd, "/journal/", "SHOAL_SLOW_READS");
    return (ssize_t)syscall(SYS_pread64, fd, bytes, count, at);
}

int fdatasync(int fd)
{
    wait_for(fd, "/rows/", "SHOAL_SLOW_SYNCS");
    return (int)syscall(SYS_fdatasync, fd);
}
