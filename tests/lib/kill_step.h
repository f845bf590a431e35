/* kill_step.h: ends the process, or fails, at the n-th step that changes a file. A test that
 * includes it defines link, rename, mkdir, unlink, fsync, fdatasync, write and pwritev for the
 * whole program, librocksdb included: each call is a step while the count runs. Include it in one
 * file of a program. */
#ifndef TESTS_LIB_KILL_STEP_H
#define TESTS_LIB_KILL_STEP_H

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static atomic_long kill_steps; /* since kill_begin */
static atomic_long kill_at;    /* 0: never */
static atomic_int kill_code;   /* 0: the process ends; else the call fails with this errno */

/* Starts the count. at: the step before which the process ends, or that fails; 0: only count. */
static inline void kill_begin(long at, int code)
{
    atomic_store(&kill_steps, 0);
    atomic_store(&kill_code, code);
    atomic_store(&kill_at, at == 0 ? -1 : at);
}

static inline long kill_end(void)
{
    atomic_store(&kill_at, 0);
    return atomic_load(&kill_steps);
}

/* Returns the distance between two tested steps: SHOAL_KILL_POINTS, else `points`, is the number of
 * tested steps, 0: all. */
static inline long kill_stride(long steps, long points)
{
    const char *text = getenv("SHOAL_KILL_POINTS");
    if (text != NULL)
        points = strtol(text, NULL, 10);
    return points == 0 || points > steps ? 1 : steps / points;
}

/* True when the call must fail. */
static inline int kill_step(void)
{
    if (atomic_load(&kill_at) == 0 || atomic_fetch_add(&kill_steps, 1) + 1 != atomic_load(&kill_at))
        return 0;
    if (atomic_load(&kill_code) == 0)
        _exit(0);
    errno = atomic_load(&kill_code);
    return 1;
}

#define KILL_STEP(call) (kill_step() ? -1 : (call))

int link(const char *from, const char *to)
{
    return (int)KILL_STEP(syscall(SYS_linkat, AT_FDCWD, from, AT_FDCWD, to, 0));
}
int rename(const char *from, const char *to)
{
    return (int)KILL_STEP(syscall(SYS_renameat, AT_FDCWD, from, AT_FDCWD, to));
}
int mkdir(const char *path, mode_t mode)
{
    return (int)KILL_STEP(syscall(SYS_mkdirat, AT_FDCWD, path, mode));
}
int unlink(const char *path)
{
    return (int)KILL_STEP(syscall(SYS_unlinkat, AT_FDCWD, path, 0));
}
int fsync(int fd)
{
    return (int)KILL_STEP(syscall(SYS_fsync, fd));
}
int fdatasync(int fd)
{
    return (int)KILL_STEP(syscall(SYS_fdatasync, fd));
}
ssize_t write(int fd, const void *bytes, size_t count)
{
    return (ssize_t)KILL_STEP(syscall(SYS_write, fd, bytes, count));
}
ssize_t pwritev(int fd, const struct iovec *piece, int count, off_t at)
{
    return (ssize_t)KILL_STEP(syscall(SYS_pwritev, fd, piece, count, at, 0));
}

#endif
