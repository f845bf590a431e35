/* lockfile.c: flock on a file that is never removed: otherwise two processes could hold locks on
 * two files of the same name. */
#include "proto/base/lockfile.h"
#include "proto/base/file.h"
#include "proto/base/limits.h"
#include "proto/base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

enum { LOOK_MS = 20 };

static bool is_told_to_end(void)
{
    sigset_t pending;
    return sigpending(&pending) == 0 &&
           (sigismember(&pending, SIGTERM) == 1 || sigismember(&pending, SIGINT) == 1);
}

/* Waits until the lock of fd is ours; -1: errno. */
static int lock_within(int fd, const char *dir, uint32_t wait_ms)
{
    const struct timespec look = {.tv_nsec = LOOK_MS * 1000000};
    for (uint32_t waited = 0; flock(fd, LOCK_EX | LOCK_NB) != 0; waited += LOOK_MS) {
        if (errno != EWOULDBLOCK || waited >= wait_ms)
            return -1;
        if (waited == 0)
            log_info("another process uses %s: waiting for its end, at most %.0f s", dir,
                     (double)wait_ms / 1000);
        if (is_told_to_end() || nanosleep(&look, NULL) != 0) {
            errno = EINTR;
            return -1;
        }
    }
    return 0;
}

int lockfile_take(const char *dir, uint32_t wait_ms)
{
    char path[LIMIT_PATH + 8];
    (void)snprintf(path, sizeof path, "%.*s/lock", LIMIT_PATH, dir);
    int fd = file_open(path, O_RDWR | O_CREAT, 0600);
    if (fd < 0 || lock_within(fd, dir, wait_ms) == 0)
        return fd;
    int why = errno;
    close(fd);
    errno = why;
    return -1;
}

int lockfile_take_data(const char *dir, uint32_t wait_ms, const char *program, int *fd,
                       struct err *e)
{
    *fd = lockfile_take(dir, wait_ms);
    if (*fd >= 0)
        return 0;
    switch (errno) {
    case EWOULDBLOCK:
        return err_set(e, SHOAL_E_CANTCREATE,
                       "%s is in use by another %s; stop it or choose another data_dir", dir,
                       program);
    case EINTR:
        return err_set(e, SHOAL_E_STOPPED, "stopped while it waited for another %s", program);
    case EACCES:
        return err_set(e, SHOAL_E_CANTCREATE,
                       "cannot lock %s/lock: %s; is `data_dir` writable for this user?", dir,
                       strerror(errno));
    default:
        return err_set(
            e, SHOAL_E_CANTCREATE,
            "cannot lock %s/lock: %s; `data_dir` must be writable, on a file system that "
            "has locks (flock)",
            dir, strerror(errno));
    }
}
