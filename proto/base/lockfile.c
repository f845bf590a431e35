/* lockfile.c: flock on a file that stays; a file that is removed could be held twice. */
#include "proto/base/lockfile.h"
#include "proto/base/file.h"
#include "proto/base/limits.h"
#include "proto/base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

enum { LOOK_MS = 20 };

static void path_of(const char *dir, char out[LIMIT_PATH + 8])
{
    (void)snprintf(out, LIMIT_PATH + 8, "%.*s/lock", LIMIT_PATH, dir);
}

int lockfile_take(const char *dir)
{
    char path[LIMIT_PATH + 8];
    path_of(dir, path);
    int fd = file_open(path, O_RDWR | O_CREAT, 0600);
    if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) == 0)
        return fd;
    int why = errno;
    close(fd);
    errno = why;
    return -1;
}

/* Whether another process has it. */
static bool is_held(const char *path)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return false;
    bool held = flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    close(fd);
    return held;
}

bool lockfile_await(const char *dir, uint32_t wait_ms)
{
    char path[LIMIT_PATH + 8];
    const struct timespec look = {.tv_nsec = LOOK_MS * 1000000};
    path_of(dir, path);
    for (uint32_t waited = 0; is_held(path); waited += LOOK_MS) {
        if (waited >= wait_ms)
            return false;
        if (waited == 0)
            log_info("another process uses %s: waiting for its end, at most %.0f s", dir,
                     (double)wait_ms / 1000);
        nanosleep(&look, NULL);
    }
    return true;
}
