/* file.c: the system's calls, and functions made of several of them. */
#include "proto/base/file.h"
#include "proto/base/assert.h"
#include "proto/base/err.h"
#include "proto/base/minmax.h"
#include "proto/base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define CHUNK (1u << 20)

static int system_open(const char *path, int flags, mode_t mode)
{
    return open(path, flags, mode);
}

static const char OPEN_FILES[] = "/proc/self/fd";

/* A name in /proc/self/fd is a symbolic link; plain link() would link to the symbolic link
 * itself. */
static int system_link(const char *from, const char *to)
{
    size_t n = sizeof OPEN_FILES - 1;
    if (strncmp(from, OPEN_FILES, n) == 0 && from[n] == '/')
        return linkat(AT_FDCWD, from, AT_FDCWD, to, AT_SYMLINK_FOLLOW);
    return link(from, to);
}

static int system_room(const char *path, struct file_room *out)
{
    struct statvfs fs;
    if (statvfs(path, &fs) != 0)
        return -1;
    *out = (struct file_room){.bytes = (uint64_t)fs.f_blocks * fs.f_frsize,
                              .left = (uint64_t)fs.f_bavail * fs.f_frsize};
    return 0;
}

static const struct file_ops of_system = {.open = system_open,
                                          .write = write,
                                          .sync = fsync,
                                          .sync_data = fdatasync,
                                          .truncate = truncate,
                                          .rename = rename,
                                          .link = system_link,
                                          .unlink = unlink,
                                          .mkdir = mkdir,
                                          .rmdir = rmdir,
                                          .room = system_room};
static const struct file_ops *ops = &of_system;

void file_ops_set(const struct file_ops *other)
{
    ops = other != NULL ? other : &of_system;
}

/* ---- the reserve ---- */

#define RESERVE 32u

static _Atomic int reserve[RESERVE]; /* a descriptor + 1; 0: none */

void file_reserve_fill(void)
{
    for (uint32_t i = 0; i < RESERVE; i++) {
        int none = 0;
        if (atomic_load(&reserve[i]) != 0)
            continue;
        int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
        if (fd < 0)
            return;
        if (!atomic_compare_exchange_strong(&reserve[i], &none, fd + 1))
            close(fd); /* another thread was here */
    }
}

/* After a failed call: returns true when it failed for want of a descriptor and the reserve gave
 * one back. */
static bool reserve_spend(void)
{
    if (errno != EMFILE && errno != ENFILE)
        return false;
    for (uint32_t i = 0; i < RESERVE; i++) {
        int fd = atomic_exchange(&reserve[i], 0) - 1;
        if (fd >= 0) {
            close(fd);
            return true;
        }
    }
    errno = EMFILE;
    return false;
}

int file_open(const char *path, int flags, mode_t mode)
{
    int fd = ops->open(path, flags | O_CLOEXEC, mode);
    while (fd < 0 && reserve_spend())
        fd = ops->open(path, flags | O_CLOEXEC, mode);
    return fd;
}

int file_dup(int fd)
{
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    while (copy < 0 && reserve_spend())
        copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    return copy;
}

int file_folder(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    while (fd < 0 && reserve_spend())
        fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd;
}

ssize_t file_write(int fd, const void *data, size_t bytes)
{
    return ops->write(fd, data, bytes);
}

int file_sync(int fd)
{
    return ops->sync(fd);
}

int file_sync_data(int fd)
{
    return ops->sync_data(fd);
}

int file_truncate(const char *path, uint64_t bytes)
{
    return ops->truncate(path, (off_t)bytes);
}

int file_rename(const char *from, const char *to)
{
    return ops->rename(from, to);
}

int file_link(const char *from, const char *to)
{
    return ops->link(from, to);
}

int file_unlink(const char *path)
{
    return ops->unlink(path);
}

int file_mkdir(const char *path, mode_t mode)
{
    return ops->mkdir(path, mode);
}

int file_rmdir(const char *path)
{
    return ops->rmdir(path);
}

int file_room(const char *path, struct file_room *out)
{
    return ops->room(path, out);
}

/* Closes fd and keeps the errno from before. */
static int closed(int fd, int rc)
{
    int why = errno;
    if (fd >= 0)
        close(fd);
    errno = why;
    return rc;
}

/* ---- small files ---- */

int file_write_status(void)
{
    if (errno == ENOSPC || errno == EDQUOT || errno == EFBIG)
        return SHOAL_E_CANTCREATE;
    return SHOAL_E_IO;
}

int file_write_all(int fd, const void *data, size_t bytes)
{
    const char *from = data;
    while (bytes > 0) {
        ssize_t n = file_write(fd, from, bytes);
        if (n < 0 && errno == EINTR)
            continue;
        if (n == 0)
            errno = EIO;
        if (n <= 0)
            return -1;
        from += n;
        bytes -= (size_t)n;
    }
    return 0;
}

int file_copy(int from, int to, uint64_t most)
{
    char *chunk = malloc(CHUNK);
    int rc = chunk == NULL ? -1 : 0;
    while (rc == 0 && most > 0) {
        ssize_t n = read(from, chunk, (size_t)MIN(most, CHUNK));
        if (n < 0 && errno == EINTR)
            continue;
        if (n == 0 && most == UINT64_MAX)
            break;
        if (n == 0)
            errno = EIO;
        rc = -1;
        if (n > 0)
            rc = file_write_all(to, chunk, (size_t)n);
        if (n > 0 && most != UINT64_MAX)
            most -= (uint64_t)n;
    }
    free(chunk);
    return rc;
}

static int folder_of(const char *path, char folder[PATH_MAX])
{
    const char *slash = strrchr(path, '/');
    int n;
    if (slash == NULL)
        n = snprintf(folder, PATH_MAX, ".");
    else if (slash == path)
        n = snprintf(folder, PATH_MAX, "/");
    else
        n = snprintf(folder, PATH_MAX, "%.*s", (int)(slash - path), path);
    if (n < PATH_MAX)
        return 0;
    errno = ENAMETOOLONG;
    return -1;
}

int file_sync_name(const char *path)
{
    char folder[PATH_MAX];
    if (folder_of(path, folder) != 0)
        return -1;
    return file_sync_folder(folder);
}

int file_temporary(char *path)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz012345";
    char *end = path + strlen(path) - 6;
    SHOAL_ASSERT(strcmp(end, "XXXXXX") == 0);
    for (int attempt = 0; attempt < 100; attempt++) {
        uint8_t random[6];
        if (getrandom(random, sizeof random, 0) != sizeof random)
            return -1;
        for (int i = 0; i < 6; i++)
            end[i] = letters[random[i] % 32];
        int fd = file_open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
        if (fd >= 0 || errno != EEXIST)
            return fd;
    }
    return -1;
}

int file_nameless(char *path, size_t bytes)
{
    char folder[PATH_MAX];
    bool can = folder_of(path, folder) == 0 && access(OPEN_FILES, X_OK) == 0;
    int fd = -1;
    if (can)
        fd = file_open(folder, O_RDWR | O_TMPFILE, 0600);
    if (fd < 0) /* such files are not supported here (NFS) */
        return file_temporary(path);
    (void)snprintf(path, bytes, "%s/%d", OPEN_FILES, fd);
    return fd;
}

int file_place(const char *from, const char *to)
{
    if (file_link(from, to) == 0) {
        (void)file_unlink(from); /* a second name does no harm */
        return 0;
    }
    if (errno != EPERM && errno != EOPNOTSUPP && errno != ENOSYS && errno != EMLINK)
        return -1;
    /* a file system without links (vfat): another process may take the name before the rename */
    if (access(to, F_OK) == 0) {
        errno = EEXIST;
        return -1;
    }
    return file_rename(from, to);
}

FILE *file_stream(const char *path, bool append)
{
    int how = O_TRUNC;
    const char *mode = "w";
    if (append) {
        how = O_APPEND;
        mode = "a";
    }

    int fd = file_open(path, O_WRONLY | O_CREAT | how, 0666);
    if (fd < 0)
        return NULL;
    FILE *made = fdopen(fd, mode);
    if (made == NULL)
        close(fd);
    return made;
}

int file_write_whole(const char *path, const char *temporary, const void *data, size_t bytes,
                     mode_t mode, enum file_lasts lasts)
{
    int fd = file_open(temporary, O_WRONLY | O_CREAT | O_TRUNC, mode);
    if (fd < 0)
        return -1;
    int rc = file_write_all(fd, data, bytes);
    if (rc == 0 && lasts >= FILE_LASTS_CRASH)
        rc = file_sync(fd);
    if (rc == 0)
        rc = close(fd);
    else
        rc = closed(fd, rc);
    if (rc == 0)
        rc = file_rename(temporary, path);
    if (rc != 0) {
        int why = errno;
        (void)file_unlink(temporary);
        errno = why;
        return -1;
    }
    if (lasts == FILE_LASTS_ALL)
        return file_sync_name(path);
    return 0;
}

/* Reads up to `bytes` into `to` (bytes + 1) and appends a NUL. Returns the count, or -1. */
static ssize_t read_most(int fd, char *to, size_t bytes)
{
    size_t done = 0;
    while (done < bytes) {
        ssize_t n = read(fd, to + done, bytes - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        if (n == 0)
            break; /* the file became shorter */
        done += (size_t)n;
    }
    to[done] = '\0';
    return (ssize_t)done;
}

int file_read_whole(const char *path, size_t most, char **out, size_t *bytes)
{
    struct stat st;
    *out = NULL;
    *bytes = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) != 0)
        return closed(fd, -1);
    *bytes = (size_t)st.st_size;
    if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size > most) {
        errno = EFBIG;
        return closed(fd, -1);
    }
    char *text = malloc(*bytes + 1);
    ssize_t n = -1;
    if (text != NULL)
        n = read_most(fd, text, *bytes);
    closed(fd, 0);
    if (n < 0) {
        free(text);
        return -1;
    }
    *out = text;
    *bytes = (size_t)n;
    return 0;
}

int file_sync_path(const char *path)
{
    int fd = file_open(path, O_RDONLY, 0);
    return closed(fd, fd >= 0 && file_sync_data(fd) == 0 ? 0 : -1);
}

int file_sync_folder(const char *path)
{
    int fd = file_open(path, O_RDONLY | O_DIRECTORY, 0);
    return closed(fd, fd >= 0 && file_sync(fd) == 0 ? 0 : -1);
}

/* ---- folders ---- */

int file_make_folders(const char *path, mode_t mode, char failed[LIMIT_PATH])
{
    text_copy(failed, LIMIT_PATH, path);
    for (char *p = failed + 1; failed[0] != '\0'; p++) {
        char end = *p;
        if (end != '/' && end != '\0')
            continue;
        *p = '\0';
        int rc = file_mkdir(failed, mode);
        if (rc == 0)
            rc = file_sync_name(failed);
        else if (errno == EEXIST)
            rc = 0;
        if (rc != 0)
            return -1;
        *p = end;
        if (end == '\0')
            return 0;
    }
    errno = ENOENT;
    return -1;
}

bool file_walk_open(struct file_walk *w, const char *path)
{
    w->dir = opendir(path);
    return w->dir != NULL;
}

const char *file_walk_next(struct file_walk *w)
{
    if (w->dir == NULL)
        return NULL;
    const struct dirent *entry = readdir(w->dir);
    while (entry != NULL && (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0))
        entry = readdir(w->dir);
    if (entry == NULL)
        return NULL;
    return entry->d_name;
}

void file_walk_close(struct file_walk *w)
{
    int why = errno;
    if (w->dir != NULL)
        closedir(w->dir);
    w->dir = NULL;
    errno = why;
}

/* ---- paths of others ---- */

/* Copies the next part of the path and moves *at behind it. Returns its length; 0: the end. */
static size_t part_next(const char **at, char part[NAME_MAX + 1])
{
    *at += strspn(*at, "/");
    size_t bytes = strcspn(*at, "/"), kept = MIN(bytes, NAME_MAX);
    memcpy(part, *at, kept);
    part[kept] = 0;
    *at += bytes;
    return bytes;
}

static bool plain(const char *path)
{
    char part[NAME_MAX + 1];
    const char *at = path;
    size_t bytes;
    while ((bytes = part_next(&at, part)) > 0)
        if (bytes > NAME_MAX || strcmp(part, ".") == 0 || strcmp(part, "..") == 0)
            return false;
    return path[0] == '/' && strlen(path) < PATH_MAX;
}

/* Follows `rest` part by part, from the folder `fd`, which it closes. The last part may be a file.
 * A missing part is no link. */
static int walk_below(int fd, const char *rest)
{
    char part[NAME_MAX + 1];
    struct stat st;
    int why = 0;
    while (why == 0 && part_next(&rest, part) > 0) {
        int next = -1;
        if (fstatat(fd, part, &st, AT_SYMLINK_NOFOLLOW) != 0)
            why = errno;
        else if (S_ISLNK(st.st_mode))
            why = ELOOP;
        else if (!S_ISDIR(st.st_mode))
            break;
        else if ((next = openat(fd, part, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)) < 0)
            why = errno;
        if (why == 0) {
            close(fd);
            fd = next;
        }
    }
    close(fd);
    errno = why;
    if (why == 0 || why == ENOENT)
        return 0;
    return -1;
}

/* The part of path that lies below root; NULL: path is not below it. */
static const char *rest_below(const char *root, const char *path)
{
    size_t bytes = strlen(root);
    while (bytes > 1 && root[bytes - 1] == '/')
        bytes--;
    if (strncmp(root, path, bytes) != 0)
        return NULL;
    if (path[bytes] == '/' || path[bytes] == 0 || root[bytes - 1] == '/')
        return path + bytes;
    return NULL;
}

int file_below(const char *root, const char *path)
{
    if (!plain(path)) {
        errno = EINVAL;
        return -1;
    }
    if (root[0] == 0)
        return 0;
    char *whole = realpath(root, NULL); /* links above the root are the operator's own */
    if (whole == NULL)
        return -1;
    const char *rest = rest_below(root, path);
    if (rest == NULL)
        rest = rest_below(whole, path);
    int fd = -1, why = EXDEV;
    if (rest != NULL) {
        fd = open(whole, O_PATH | O_DIRECTORY | O_CLOEXEC);
        why = errno;
    }
    free(whole);
    if (fd >= 0)
        return walk_below(fd, rest);
    errno = why;
    return -1;
}

/* Opens the folder path itself, not one that a link leads to. */
static bool walk_folder_itself(struct file_walk *w, const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    w->dir = NULL;
    if (fd >= 0)
        w->dir = fdopendir(fd);
    if (w->dir == NULL)
        closed(fd, 0);
    return w->dir != NULL;
}

/* path has PATH_MAX bytes, `length` of them taken, and is unchanged on return. Returns EAGAIN or
 * the first errno: the loop goes on past an entry that cannot be removed. */
static int remove_all(char *path, size_t length, uint64_t *left)
{
    struct file_walk w;
    const char *name;
    int why = 0;
    if (*left == 0)
        return EAGAIN;
    if (file_unlink(path) == 0) {
        (*left)--;
        return 0;
    }
    if (errno == ENOENT)
        return 0;
    if (errno != EISDIR && errno != EPERM)
        return errno;
    if (!walk_folder_itself(&w, path))
        return errno;
    while (why != EAGAIN && (name = file_walk_next(&w)) != NULL) {
        size_t bytes = strlen(name);
        int inner = ENAMETOOLONG;
        if (length + 1 + bytes < PATH_MAX) {
            path[length] = '/';
            memcpy(path + length + 1, name, bytes + 1);
            inner = remove_all(path, length + 1 + bytes, left);
            path[length] = '\0';
        }
        if (inner == EAGAIN || why == 0)
            why = inner;
    }
    file_walk_close(&w);
    if (file_rmdir(path) != 0)
        return why != 0 ? why : errno;
    *left -= *left > 0;
    return why;
}

int file_remove_some(const char *path, uint64_t *left)
{
    char all[PATH_MAX];
    int n = snprintf(all, sizeof all, "%s", path);
    int why = ENAMETOOLONG;
    if ((size_t)n < sizeof all)
        why = remove_all(all, (size_t)n, left);
    if (why == 0)
        return 0;
    errno = why;
    return -1;
}

int file_remove_tree(const char *path)
{
    uint64_t left = UINT64_MAX;
    return file_remove_some(path, &left);
}
