/* rights.c: access(2) on a run's folders, and errors that name a remedy. */
#include "deploy/cli/rights.h"
#include "deploy/cli/begin.h"
#include "proto/base/file.h"
#include "proto/base/limits.h"
#include "proto/base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

static bool may(const char *path, int how)
{
    return faccessat(AT_FDCWD, path, how, AT_EACCESS) == 0;
}

int rights_read(const char *folder, struct err *e)
{
    if (may(folder, R_OK | X_OK) || errno != EACCES)
        return 0;
    return err_set(e, SHOAL_E_DENIED,
                   "%s may not be read by this user: run this as its owner, or let the owner give "
                   "this user the right to read all of it",
                   folder);
}

/* True when a folder and its file `lock` can be written; else *path is the one that cannot, and
 * errno says why. */
static bool folder_writes(const char *folder, char path[2 * LIMIT_PATH])
{
    text_copy(path, 2 * LIMIT_PATH, folder);
    if (!may(path, W_OK | X_OK))
        return false;
    (void)snprintf(path, 2 * LIMIT_PATH, "%.*s/lock", LIMIT_PATH, folder);
    return may(path, R_OK | W_OK) || errno == ENOENT;
}

/* Checks all entries of a folder whose names begin with `begins`, and those in them: server-N, and
 * its shard-N. */
static bool inner_write(const char *folder, const char *begins, char path[2 * LIMIT_PATH])
{
    char inner[LIMIT_PATH + 256];
    struct file_walk w;
    const char *name;
    bool good = true;
    int why = 0;
    if (!file_walk_open(&w, folder)) {
        text_copy(path, 2 * LIMIT_PATH, folder);
        return errno == ENOENT;
    }
    while (good && (name = file_walk_next(&w)) != NULL) {
        if (strncmp(name, begins, strlen(begins)) != 0 || strchr(name, '.') != NULL)
            continue;
        (void)snprintf(inner, sizeof inner, "%.*s/%.200s", LIMIT_PATH, folder, name);
        good = folder_writes(inner, path) &&
               (strcmp(begins, "shard-") == 0 || inner_write(inner, "shard-", path));
        why = errno;
    }
    file_walk_close(&w);
    errno = why;
    return good;
}

static bool in_use(const char *run)
{
    char path[LIMIT_PATH + 8];
    (void)snprintf(path, sizeof path, "%.*s/lock", LIMIT_PATH, run);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    bool held = fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    if (fd >= 0)
        close(fd);
    return held;
}

int rights_write(const char *run, struct err *e)
{
    char path[2 * LIMIT_PATH], coordinator[LIMIT_PATH + 16];
    struct begin newest;
    struct err silent;
    (void)snprintf(coordinator, sizeof coordinator, "%.*s/coordinator", LIMIT_PATH, run);
    if (folder_writes(run, path) && inner_write(run, "server-", path) &&
        (folder_writes(coordinator, path) || errno == ENOENT))
        return 0;
    const char *why = strerror(errno);
    if (in_use(run))
        return err_set(e, SHOAL_E_CANTCREATE,
                       "%s is in use by another process: wait for its end; then copy it, as %s "
                       "cannot be written (%s)",
                       run, path, why);
    bool kept = begin_find(run, true, &newest, &silent) == 0;
    return err_set(e, SHOAL_E_DENIED,
                   "%s cannot be written (%s), which opening the rows of a run needs: take a copy, "
                   "cp -a %s COPY && chmod -R u+w COPY%s%s%s",
                   path, why, run, text_if(kept, "; or its checkpoint: shoal export "),
                   text_if(kept, newest.path), text_if(kept, " --out FOLDER"));
}
