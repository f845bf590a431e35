/* export_folder.c: the folder of an export: made as PATH.tmp and renamed when it is complete.
 *
 * PATH.tmp has a file that its maker keeps locked until all others are on disk. An export that
 * finds PATH.tmp removes it if that file is there and its lock is free, if export.json is there,
 * which is written last, or if the folder is empty. Nothing else is removed. [test:
 * a_killed_export_leaves_nothing_that_counts, a_disk_that_fails_leaves_nothing_that_counts] */
#include "deploy/cli/export.h"
#include "proto/base/file.h"
#include "proto/base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define UNFINISHED "export.unfinished"

static void path_in(const struct export_folder *f, const char *name, char out[2 * LIMIT_PATH])
{
    (void)snprintf(out, 2 * LIMIT_PATH, "%s/%s", f->temporary, name);
}

static int exists(const char *path, struct err *e)
{
    struct stat st;
    if (lstat(path, &st) != 0)
        return 0;
    return err_set(e, SHOAL_E_EXISTS, "%s exists already: remove it, or name another folder", path);
}

/* Makes the file and locks it. EWOULDBLOCK: another process holds it. */
static int lock_take(const char *path, int flags)
{
    int fd = file_open(path, O_RDWR | flags, 0600);
    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
        close(fd);
        errno = EWOULDBLOCK;
        return -1;
    }
    return fd;
}

/* Removes what a broken-off export left. */
static int leftover_remove(const struct export_folder *f, struct err *e)
{
    char path[2 * LIMIT_PATH];
    if (file_rmdir(f->temporary) == 0)
        return 0;
    path_in(f, UNFINISHED, path);
    int fd = lock_take(path, 0);
    if (fd < 0 && errno == EWOULDBLOCK)
        return err_set(e, SHOAL_E_CANTCREATE,
                       "another `shoal export` writes %s now: wait for its end, or name another "
                       "folder",
                       f->path);
    path_in(f, EXPORT_TOLD, path);
    if (fd < 0 && access(path, F_OK) != 0)
        return err_set(e, SHOAL_E_CANTCREATE,
                       "%s is in the way, and no export has left it: move it, or name another "
                       "folder than %s",
                       f->temporary, f->path);
    int rc = 0;
    if (file_remove_tree(f->temporary) != 0)
        rc = err_set(e, SHOAL_E_CANTCREATE, "cannot remove %s, which a broken-off export left: %s",
                     f->temporary, strerror(errno));
    if (fd >= 0)
        close(fd);
    if (rc == 0)
        fprintf(stderr, "note: %s is removed: an export was broken off and left it\n",
                f->temporary);
    return rc;
}

static int temporary_make(struct export_folder *f, struct err *e)
{
    int made = file_mkdir(f->temporary, 0777);
    if (made != 0 && errno == EEXIST) {
        int rc = leftover_remove(f, e);
        if (rc != 0)
            return rc;
        made = file_mkdir(f->temporary, 0777);
    }
    if (made != 0)
        return err_set(e, SHOAL_E_CANTCREATE, "cannot make %s: %s", f->temporary, strerror(errno));
    return 0;
}

int export_folder_begin(struct export_folder *f, const char *path, struct err *e)
{
    char lock[2 * LIMIT_PATH];
    f->lock = -1;
    f->temporary[0] = 0;
    size_t bytes = strlen(path);
    while (bytes > 1 && path[bytes - 1] == '/')
        bytes--;
    if (bytes == 0 || bytes >= sizeof f->path)
        return err_set(e, SHOAL_E_USAGE, "--out: a path has 1 to %u bytes", LIMIT_PATH - 1);
    (void)snprintf(f->path, sizeof f->path, "%.*s", (int)bytes, path);
    if (bytes >= 4 && strcmp(f->path + bytes - 4, ".tmp") == 0)
        return err_set(
            e, SHOAL_E_USAGE,
            "--out %s: an export to %.*s would remove it; use a name that does not end in "
            ".tmp",
            f->path, (int)(bytes - 4), f->path);
    int rc = exists(f->path, e);
    if (rc != 0)
        return rc;

    (void)snprintf(f->temporary, sizeof f->temporary, "%s.tmp", f->path);
    rc = temporary_make(f, e);
    if (rc != 0) {
        f->temporary[0] = 0;
        return rc;
    }
    path_in(f, UNFINISHED, lock);
    f->lock = lock_take(lock, O_CREAT | O_EXCL);
    if (f->lock < 0)
        return err_set(e, SHOAL_E_CANTCREATE, "cannot make %s: %s", lock, strerror(errno));
    return 0;
}

int export_folder_end(struct export_folder *f, struct err *e)
{
    char lock[2 * LIMIT_PATH];
    int rc = exists(f->path, e);
    if (rc != 0)
        return rc;
    path_in(f, UNFINISHED, lock);
    if (file_unlink(lock) != 0 || file_sync_folder(f->temporary) != 0 ||
        file_rename(f->temporary, f->path) != 0) {
        if (errno == EEXIST || errno == ENOTEMPTY)
            return err_set(e, SHOAL_E_EXISTS,
                           "%s exists already: remove it, or name another folder", f->path);
        return err_set(e, SHOAL_E_CANTCREATE, "cannot name %s: %s", f->path, strerror(errno));
    }
    f->temporary[0] = 0;
    if (file_sync_name(f->path) != 0)
        return err_set(e, SHOAL_E_IO, "cannot sync the name of %s: %s", f->path, strerror(errno));
    return 0;
}

void export_folder_free(struct export_folder *f)
{
    if (f->temporary[0] != 0 && file_remove_tree(f->temporary) != 0)
        fprintf(stderr, "note: %s stays: %s; the next export to %s removes it\n", f->temporary,
                strerror(errno), f->path);
    f->temporary[0] = 0;
    if (f->lock >= 0)
        close(f->lock);
    f->lock = -1;
}
