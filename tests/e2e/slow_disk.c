/* slow_disk.c: a slow disk, loaded before the C library (LD_PRELOAD) for e2e/test_stop.py.
 * SHOAL_SLOW_READS is the additional time in milliseconds of each pread below a folder `journal`,
 * SHOAL_SLOW_SYNCS that of each fdatasync below a folder `rows`. While the file exists that
 * SHOAL_HUNG_SYNCS names, no fdatasync below a folder `journal` ends (tests/sight). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

static int lies_below(int fd, const char *folder)
{
    char link[64], path[4096];
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    path[n > 0 ? n : 0] = 0;
    return n > 0 && strstr(path, folder) != NULL;
}

static void wait_for(int fd, const char *folder, const char *variable)
{
    const char *ms = getenv(variable);
    if (ms == NULL || !lies_below(fd, folder))
        return;
    long most = strtol(ms, NULL, 10);
    nanosleep(&(struct timespec){most / 1000, most % 1000 * 1000000}, NULL);
}

static void hang(int fd, const char *folder, const char *variable)
{
    const char *while_there = getenv(variable);
    while (while_there != NULL && access(while_there, F_OK) == 0 && lies_below(fd, folder))
        nanosleep(&(struct timespec){0, 10000000}, NULL);
}

ssize_t pread(int fd, void *bytes, size_t count, off_t at)
{
    wait_for(fd, "/journal/", "SHOAL_SLOW_READS");
    return (ssize_t)syscall(SYS_pread64, fd, bytes, count, at);
}

int fdatasync(int fd)
{
    wait_for(fd, "/rows/", "SHOAL_SLOW_SYNCS");
    hang(fd, "/journal/", "SHOAL_HUNG_SYNCS");
    return (int)syscall(SYS_fdatasync, fd);
}
