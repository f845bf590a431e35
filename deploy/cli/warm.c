/* warm.c: copies of what an ended run left. */
#include "deploy/cli/warm.h"
#include "proto/base/file.h"
#include "proto/base/limits.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static int failed(struct err *e, const char *what, const char *path)
{
    return err_set(e, errno == ENOSPC || errno == EACCES ? SHOAL_E_CANTCREATE : SHOAL_E_IO,
                   "warm start: cannot %s %s: %s", what, path, strerror(errno));
}

static int copy_one(const char *from, const char *to, struct err *e)
{
    struct stat st;
    int in = open(from, O_RDONLY | O_CLOEXEC), out = -1, status = 0;
    if (in < 0 || fstat(in, &st) != 0)
        status = failed(e, "read", from);
    if (status == 0 && (out = file_open(to, O_WRONLY | O_CREAT | O_EXCL, st.st_mode & 0777)) < 0)
        status = failed(e, "make", to);
    /* blocks that two files may share are not copied */
    ssize_t n = status == 0 ? 1 : 0;
    while (n > 0)
        n = copy_file_range(in, NULL, out, NULL, 1 << 30, 0);
    if (n < 0 && (errno == EXDEV || errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP))
        n = file_copy(in, out, UINT64_MAX);
    if (n < 0)
        status = failed(e, "copy", from);
    if (in >= 0)
        close(in);
    if (out >= 0 && close(out) != 0 && status == 0)
        status = failed(e, "write", to);
    return status;
}

/* Locks are the process's own, spare segments of a journal hold nothing. */
static bool left_out(const char *name)
{
    return strcasecmp(name, "lock") == 0 || strncmp(name, "free-", 5) == 0;
}

static int tree_copy(const char *from, const char *to, struct err *e)
{
    struct file_walk walk;
    const char *entry;
    int rc = 0;
    if (!file_walk_open(&walk, from))
        return failed(e, "read", from);
    if (file_mkdir(to, 0750) != 0)
        rc = failed(e, "make", to);
    while (rc == 0 && (entry = file_walk_next(&walk)) != NULL) {
        char a[LIMIT_PATH], b[LIMIT_PATH];
        struct stat st;
        if (left_out(entry))
            continue;
        int n = snprintf(a, sizeof a, "%s/%s", from, entry),
            m = snprintf(b, sizeof b, "%s/%s", to, entry);
        if (n >= (int)sizeof a || m >= (int)sizeof b)
            rc = err_set(e, SHOAL_E_CANTCREATE, "warm start: the path of %s is too long", entry);
        else if (lstat(a, &st) != 0)
            rc = failed(e, "read", a);
        else if (S_ISDIR(st.st_mode))
            rc = tree_copy(a, b, e);
        else if (S_ISREG(st.st_mode))
            rc = copy_one(a, b, e);
    }
    file_walk_close(&walk);
    return rc;
}

/* A daemon of the earlier run that still has its folder holds its lock. */
static int idle_check(const char *from, const char *part, struct err *e)
{
    char path[LIMIT_PATH];
    (void)snprintf(path, sizeof path, "%s/%s/lock", from, part);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return err_set(e, SHOAL_E_NOINPUT,
                       "warm start: %s/%s is not there: %s is no folder of a run of shoal local",
                       from, part, from);
    int busy = flock(fd, LOCK_EX | LOCK_NB);
    close(fd);
    return busy == 0
               ? 0
               : err_set(e, SHOAL_E_BUSY,
                         "warm start: the run in %s is still going on; wait for its end", from);
}

static bool exists(const char *from, const char *name)
{
    char path[LIMIT_PATH];
    (void)snprintf(path, sizeof path, "%s/%s", from, name);
    return access(path, F_OK) == 0;
}

static int run_check(const char *from, int servers, struct err *e)
{
    char name[48];
    int found = 0, rc = 0;
    if (!exists(from, "report.json"))
        return err_set(e, SHOAL_E_NOINPUT,
                       "warm start: %s has no report.json: it holds no run whose job has ended",
                       from);
    for (;; found++) {
        (void)snprintf(name, sizeof name, "server-%d", found);
        if (!exists(from, name))
            break;
        if (rc == 0)
            rc = idle_check(from, name, e);
        (void)snprintf(name, sizeof name, "server-%d/shard-0/rows", found);
        if (rc == 0 && !exists(from, name))
            rc = err_set(e, SHOAL_E_CONFIG,
                         "warm start: the servers of %s kept nothing (durability: memory)", from);
    }
    if (rc == 0)
        rc = idle_check(from, "coordinator", e);
    if (rc == 0 && found != servers)
        rc = err_set(e, SHOAL_E_CONFIG,
                     "warm start: the run in %s had %d servers, this one is to have %d: its "
                     "tables lie on as many; give --servers %d",
                     from, found, servers, found);
    return rc;
}

int warm_copy(const char *from, const char *to, int servers, struct err *e)
{
    int rc = run_check(from, servers, e);
    for (int i = -1; i < servers && rc == 0; i++) {
        char name[32], a[LIMIT_PATH], b[LIMIT_PATH];
        (void)snprintf(name, sizeof name, i < 0 ? "coordinator" : "server-%d", i);
        (void)snprintf(a, sizeof a, "%s/%s", from, name);
        (void)snprintf(b, sizeof b, "%s/%s", to, name);
        rc = tree_copy(a, b, e);
    }
    return rc;
}
