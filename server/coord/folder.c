/* folder.c: folders of checkpoints on a file system. */
#include "server/coord/folder.h"
#include "proto/base/time.h"
#include "proto/job/manifest.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static int failed(struct err *e, const char *what, const char *path)
{
    int why = errno;
    int code = why == ENOENT                                     ? SHOAL_E_NOINPUT
               : why == EEXIST || why == ENOTEMPTY               ? SHOAL_E_EXISTS
               : why == ENOSPC || why == EDQUOT                  ? SHOAL_E_NO_SPACE
               : why == EACCES || why == EROFS || why == ENOTDIR ? SHOAL_E_CANTCREATE
                                                                 : SHOAL_E_IO;

    return err_set(e, code, "cannot %s %s: %s", what, path, strerror(why));
}

static bool path_join(char out[LIMIT_PATH], const char *a, const char *b)
{
    return snprintf(out, LIMIT_PATH, "%s/%s", a, b) < (int)LIMIT_PATH;
}

static int folder_sync(const char *path, struct err *e)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0)
        return failed(e, "open", path);
    int status = fsync(fd) == 0 ? 0 : failed(e, "sync", path);
    close(fd);
    return status;
}

/* ---- locks ----------------------------------------------------------------------------------- */

static int folder_lock(const char *path, int how, int *hold, struct err *e)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0)
        return failed(e, "open", path);
    if (flock(fd, how | LOCK_NB) != 0) {
        int status = errno == EWOULDBLOCK ? err_set(e, SHOAL_E_BUSY, "%s is in use", path)
                                          : failed(e, "lock", path);
        close(fd);
        return status;
    }
    *hold = fd;
    return 0;
}

static int disk_hold(const char *path, int *hold, struct err *e)
{
    return folder_lock(path, LOCK_SH, hold, e);
}

static void disk_let_go(int *hold)
{
    if (*hold != COORD_FOLDER_NONE)
        close(*hold);
    *hold = COORD_FOLDER_NONE;
}

/* ---- files ----------------------------------------------------------------------------------- */

static int disk_put(const char *path, const char *file, const void *bytes, size_t count,
                    struct err *e)
{
    char whole[LIMIT_PATH];
    size_t done = 0;
    int status = 0;

    if (!path_join(whole, path, file))
        return err_set(e, SHOAL_E_TOO_BIG, "the path %s is too long", path);
    int fd = open(whole, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0640);
    if (fd < 0)
        return failed(e, "make", whole);
    while (done < count && status == 0) {
        ssize_t n = write(fd, (const char *)bytes + done, count - done);
        if (n > 0)
            done += (size_t)n;
        else if (n == 0 || errno != EINTR)
            status = failed(e, "write", whole);
    }
    if (status == 0 && fsync(fd) != 0)
        status = failed(e, "sync", whole);
    if (close(fd) != 0 && status == 0)
        status = failed(e, "write", whole);
    return status;
}

/* ---- removing -------------------------------------------------------------------------------- */

static int entry_remove(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)st;
    (void)kind;
    (void)at;
    return remove(path);
}

static bool unfinished(const char *name)
{
    size_t bytes = strlen(name);

    return bytes > 4 && strcmp(name + bytes - 4, ".tmp") == 0;
}

static const char mark_text[] =
    "A checkpoint of Shoal, which may remove this folder and all in it.\n";

/* A link is not taken for a file that we made. */
static bool marked(const char *path)
{
    char file[LIMIT_PATH], text[sizeof mark_text];

    if (!path_join(file, path, COORD_FOLDER_MARK))
        return false;
    int fd = open(file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return false;
    ssize_t n = read(fd, text, sizeof text);
    close(fd);
    return n == (ssize_t)sizeof mark_text - 1 && memcmp(text, mark_text, (size_t)n) == 0;
}

static bool has_manifest(const char *path)
{
    char file[LIMIT_PATH];

    return path_join(file, path, MANIFEST_FILE) && access(file, F_OK) == 0;
}

/* All of it, its mark last: what a crash leaves is known again. */
static int emptied_remove(const char *path, struct err *e)
{
    DIR *d = opendir(path);
    const struct dirent *entry;
    char file[LIMIT_PATH];
    int status = d == NULL ? failed(e, "read", path) : 0;

    while (status == 0 && (entry = readdir(d)) != NULL)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
            strcmp(entry->d_name, COORD_FOLDER_MARK) != 0 &&
            (!path_join(file, path, entry->d_name) ||
             nftw(file, entry_remove, 16, FTW_DEPTH | FTW_PHYS) != 0))
            status = failed(e, "remove", path);
    if (d != NULL)
        closedir(d);
    if (status == 0 && path_join(file, path, COORD_FOLDER_MARK) && unlink(file) != 0 &&
        errno != ENOENT)
        status = failed(e, "remove", file);
    if (status == 0 && rmdir(path) != 0)
        status = failed(e, "remove", path);
    return status;
}

static int disk_remove(const char *path, struct err *e)
{
    char gone[LIMIT_PATH];
    int hold = COORD_FOLDER_NONE;

    int status = folder_lock(path, LOCK_EX, &hold, e);
    if (status != 0)
        return status;
    bool whole = !unfinished(path);
    (void)snprintf(gone, sizeof gone, "%s", path);
    if (!marked(path) && !(whole && has_manifest(path)))
        status = err_set(
            e, SHOAL_E_DENIED,
            "%s is not removed: it is no checkpoint of ours, it has no file " COORD_FOLDER_MARK,
            path);
    if (status == 0 && whole && !marked(path)) /* without its name the manifest is not enough */
        status = disk_put(path, COORD_FOLDER_MARK, mark_text, sizeof mark_text - 1, e);
    if (status == 0 && whole) { /* what has the name is whole: first it loses the name */
        if (snprintf(gone, sizeof gone, "%s.gone.tmp", path) >= (int)sizeof gone)
            status = err_set(e, SHOAL_E_TOO_BIG, "the path %s is too long", path);
        else if (rename(path, gone) != 0)
            status = failed(e, "rename", path);
    }
    if (status == 0)
        status = emptied_remove(gone, e);
    disk_let_go(&hold);
    return status;
}

/* ---- the folder of all ----------------------------------------------------------------------- */

static int folder_make(const char *path, struct err *e)
{
    char part[LIMIT_PATH];

    if (snprintf(part, sizeof part, "%s", path) >= (int)sizeof part || path[0] == 0)
        return err_set(e, SHOAL_E_CANTCREATE, "the path '%s' cannot be made", path);
    for (char *p = part + 1;; p++) {
        if (*p != '/' && *p != 0)
            continue;
        char keep = *p;
        *p = 0;
        if (mkdir(part, 0750) != 0 && errno != EEXIST) {
            int why = errno;
            return err_set(e, SHOAL_E_CANTCREATE, "cannot make %s: %s", part, strerror(why));
        }
        *p = keep;
        if (keep == 0)
            return 0;
    }
}

/* NAME.XXXXXX.tmp, as a checkpoint is called while it is made, or NAME.gone.tmp. */
static bool leftover(const char *name)
{
    size_t bytes = strlen(name);

    if (!unfinished(name))
        return false;
    if (bytes > 9 && strcmp(name + bytes - 9, ".gone.tmp") == 0)
        return true;
    return bytes > 11 && name[bytes - 11] == '.' &&
           strspn(name + bytes - 10, "0123456789abcdef") == 6;
}

static void leftovers_remove(const char *dir)
{
    DIR *d = opendir(dir);
    const struct dirent *entry;
    char path[LIMIT_PATH];

    while (d != NULL && (entry = readdir(d)) != NULL)
        if (leftover(entry->d_name) && path_join(path, dir, entry->d_name))
            /* held: somebody is at it; without a mark: somebody else's */
            (void)disk_remove(path, NULL);
    if (d != NULL)
        closedir(d);
}

static int disk_open(const char *dir, char absolute[LIMIT_PATH], struct err *e)
{
    int status = folder_make(dir, e);

    if (status != 0)
        return status;
    char *path = realpath(dir, NULL);
    if (path == NULL)
        return failed(e, "find", dir);
    if (strlen(path) >= LIMIT_PATH - 2 * LIMIT_NAME)
        status = err_set(e, SHOAL_E_CANTCREATE, "the path %.200s... is too long", path);
    else
        memcpy(absolute, path, strlen(path) + 1);
    free(path);
    if (status == 0 && access(absolute, W_OK | X_OK) != 0)
        status = failed(e, "write into", absolute);
    if (status == 0)
        leftovers_remove(absolute);
    return status;
}

static int disk_list(const char *dir, coord_folder_visit visit, void *context, struct err *e)
{
    DIR *d = opendir(dir);
    const struct dirent *entry;
    char file[LIMIT_PATH];

    if (d == NULL)
        return failed(e, "read", dir);
    while ((entry = readdir(d)) != NULL)
        if (manifest_name_ok(entry->d_name) &&
            snprintf(file, sizeof file, "%s/%s/" MANIFEST_FILE, dir, entry->d_name) <
                (int)sizeof file &&
            access(file, F_OK) == 0)
            visit(context, entry->d_name);
    closedir(d);
    return 0;
}

/* ---- one folder ------------------------------------------------------------------------------ */

static int disk_begin(const char *path, int *hold, struct err *e)
{
    if (mkdir(path, 0770) != 0) /* the servers put their parts into it */
        return failed(e, "make", path);
    int status = folder_lock(path, LOCK_EX, hold, e);
    if (status == 0)
        status = disk_put(path, COORD_FOLDER_MARK, mark_text, sizeof mark_text - 1, e);
    if (status != 0) {
        disk_let_go(hold);
        (void)emptied_remove(path, NULL);
    }
    return status;
}

static int disk_get(const char *path, const char *file, size_t most, void **bytes, size_t *count,
                    struct err *e)
{
    char whole[LIMIT_PATH];
    struct stat st;
    size_t done = 0;
    int status = 0;

    if (!path_join(whole, path, file))
        return err_set(e, SHOAL_E_TOO_BIG, "the path %s is too long", path);
    int fd = open(whole, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) != 0) {
        status = failed(e, "read", whole);
        if (fd >= 0)
            close(fd);
        return status;
    }
    if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size > most)
        status = err_set(e, SHOAL_E_TOO_BIG, "%s has %lld bytes, at most %zu are read", whole,
                         (long long)st.st_size, most);
    char *to = status == 0 ? malloc((size_t)st.st_size + 1) : NULL;
    if (status == 0 && to == NULL)
        status = err_set(e, SHOAL_E_NOMEM, "no memory to read %s", whole);
    while (status == 0 && done < (size_t)st.st_size) {
        ssize_t n = read(fd, to + done, (size_t)st.st_size - done);
        if (n > 0)
            done += (size_t)n;
        else if (n == 0)
            break; /* it became shorter: checksums tell */
        else if (errno != EINTR)
            status = failed(e, "read", whole);
    }
    close(fd);
    if (status != 0) {
        free(to);
        return status;
    }
    to[done] = 0;
    *bytes = to;
    *count = done;
    return 0;
}

static int disk_publish(const char *tmp, const char *path, struct err *e)
{
    char parent[LIMIT_PATH];
    int status = folder_sync(tmp, e);

    if (status != 0)
        return status;
    if (access(path, F_OK) == 0)
        return err_set(e, SHOAL_E_EXISTS, "%s exists already", path);
    if (rename(tmp, path) != 0)
        return failed(e, "name", path);
    /* From here on its manifest says whose it is. One that a crash leaves inside does no harm. */
    if (path_join(parent, path, COORD_FOLDER_MARK) && unlink(parent) == 0 &&
        (status = folder_sync(path, e)) != 0)
        return status;
    (void)snprintf(parent, sizeof parent, "%s", path);
    char *slash = strrchr(parent, '/');
    if (slash != NULL && slash != parent)
        *slash = 0;
    return folder_sync(parent, e);
}

static uint64_t disk_wall_s(void)
{
    return time_wall_ns() / 1000000000u;
}

const struct coord_folder_ops coord_folder_disk = {
    disk_open, disk_begin,  disk_put,    disk_get,  disk_publish,
    disk_hold, disk_let_go, disk_remove, disk_list, disk_wall_s};
