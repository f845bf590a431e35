/* cache.c: the folder that keeps decoded text and indexes.
 *
 * 1. A name without ".tmp-" belongs to a whole file that was synced before it got that name; a kept
 *    file has such a name. [assert: cache_keep]
 * 2. The writer of a temporary locks it from creation to rename. A temporary that is older than a
 *    minute and whose lock is free has no writer.
 *    [test: cache_removes_temporaries_of_the_dead_only] */
#include "worker/data/cache.h"
#include "proto/base/assert.h"
#include "proto/base/file.h"
#include "proto/base/minmax.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define STALE_SECONDS 60

int cache_init(struct cache *c, const char *configured, struct err *e)
{
    int length;
    if (configured[0] != '\0') {
        length = snprintf(c->folder, sizeof c->folder, "%s", configured);
    } else {
        const char *base = getenv("TMPDIR");
        if (base == NULL || base[0] != '/')
            base = "/tmp";
        length =
            snprintf(c->folder, sizeof c->folder, "%s/shoal-cache-%u", base, (unsigned)geteuid());
    }
    if (length < 0 || (size_t)length >= sizeof c->folder)
        return err_set(e, SHOAL_E_CONFIG,
                       "data.cache: the path is longer than %u bytes; give a shorter one",
                       LIMIT_PATH - 1);
    return 0;
}

/* True when this user owns the folder at `path` and, where that is a link, the link. */
static bool is_own(const char *path, uid_t *owner)
{
    struct stat st;
    *owner = 0;
    if (lstat(path, &st) != 0)
        return false;
    *owner = st.st_uid;
    if (st.st_uid == geteuid() && S_ISLNK(st.st_mode) && stat(path, &st) == 0)
        *owner = st.st_uid;
    return *owner == geteuid();
}

static int folder_make(const struct cache *c, struct err *e)
{
    char part[LIMIT_PATH];
    struct stat st;
    uid_t owner;
    if (file_make_folders(c->folder, 0700, part) != 0 || lstat(c->folder, &st) != 0)
        return err_set(e, SHOAL_E_CANTCREATE,
                       "cache folder %s: %s; set data.cache to a folder that can be written",
                       c->folder, strerror(errno));
    if (S_ISLNK(st.st_mode) && stat(c->folder, &st) != 0)
        return err_set(e, SHOAL_E_CANTCREATE,
                       "cache folder %s: %s; mend the link or set data.cache", c->folder,
                       strerror(errno));
    if (!S_ISDIR(st.st_mode))
        return err_set(e, SHOAL_E_CANTCREATE,
                       "cache folder %s is not a folder; set data.cache to another path",
                       c->folder);
    /* Any user could have made this folder in /tmp, to feed us other text. */
    if (!is_own(c->folder, &owner))
        return err_set(e, SHOAL_E_DENIED,
                       "cache folder %s belongs to user %u; set data.cache to a folder of your own",
                       c->folder, (unsigned)owner);
    if ((st.st_mode & S_IWOTH) != 0)
        return err_set(e, SHOAL_E_DENIED,
                       "cache folder %s may be written by anybody; chmod go-w it or set data.cache",
                       c->folder);
    return 0;
}

static void remove_stale(const struct cache *c, const char *entry)
{
    char path[LIMIT_PATH + 300];
    struct stat st;
    snprintf(path, sizeof path, "%s/%s", c->folder, entry);
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return;
    if (fstat(fd, &st) == 0 && time(NULL) - st.st_mtime > STALE_SECONDS &&
        flock(fd, LOCK_EX | LOCK_NB) == 0)
        file_unlink(path);
    close(fd);
}

/* Removes temporaries without a writer and, when `keep` is given, the other files of its group and
 * suffix. */
static void sweep(const struct cache *c, uint64_t group, const char *keep)
{
    struct file_walk walk;
    const char *entry;
    if (!file_walk_open(&walk, c->folder))
        return;
    char prefix[32];
    snprintf(prefix, sizeof prefix, "%016" PRIx64 "-", group);
    const char *suffix = NULL;
    if (keep != NULL)
        suffix = strrchr(keep, '.');

    while ((entry = file_walk_next(&walk)) != NULL) {
        const char *dot = strrchr(entry, '.');
        if (dot != NULL && strncmp(dot, ".tmp-", 5) == 0) {
            remove_stale(c, entry);
        } else if (keep != NULL && dot != NULL && strcmp(dot, suffix) == 0 &&
                   strncmp(entry, prefix, 17) == 0 && strcmp(entry, keep) != 0) {
            char path[LIMIT_PATH + 300];
            snprintf(path, sizeof path, "%s/%s", c->folder, entry);
            file_unlink(path);
        }
    }
    file_walk_close(&walk);
}

static int temporary_make(const struct cache *c, const char *name, char *path, size_t path_bytes,
                          struct err *e)
{
    int rc = folder_make(c, e);
    if (rc != 0)
        return rc;
    sweep(c, 0, NULL);
    snprintf(path, path_bytes, "%s/%s.tmp-XXXXXX", c->folder, name);
    int fd = file_temporary(path);
    if (fd < 0)
        /* the random part of the name is left out: a repeated message is recognized by its words */
        return err_set(e, SHOAL_E_CANTCREATE, "cache folder %s: %s; %s or set data.cache",
                       c->folder, strerror(errno),
                       errno == EACCES || errno == EROFS ? "let this user write there"
                                                         : "free some space");
    flock(fd, LOCK_EX | LOCK_NB); /* where locks do not work, age alone protects the file */
    return fd;
}

int cache_create(const struct cache *c, uint64_t group, uint64_t identity, const char *suffix,
                 struct cache_file *f, struct err *e)
{
    SHOAL_ASSERT(strlen(suffix) < sizeof f->name - 34);
    f->cache = c;
    f->group = group;
    snprintf(f->name, sizeof f->name, "%016" PRIx64 "-%016" PRIx64 ".%s", group, identity, suffix);
    f->fd = temporary_make(c, f->name, f->temporary, sizeof f->temporary, e);
    return MIN(f->fd, 0);
}

int cache_keep(struct cache_file *f, int *fd_out, struct err *e)
{
    char path[LIMIT_PATH + 64];
    SHOAL_ASSERT(strstr(f->name, ".tmp-") == NULL && f->fd >= 0); /* 1 */
    snprintf(path, sizeof path, "%s/%s", f->cache->folder, f->name);
    if (file_sync_data(f->fd) != 0 || file_rename(f->temporary, path) != 0) {
        int rc = err_set(e, errno == ENOSPC ? SHOAL_E_CANTCREATE : SHOAL_E_IO,
                         "%s: %s; free some space or set data.cache", path, strerror(errno));
        cache_drop(f);
        return rc;
    }
    if (fd_out != NULL) {
        flock(f->fd, LOCK_UN);
        *fd_out = f->fd;
    } else {
        close(f->fd);
    }
    f->fd = -1;
    sweep(f->cache, f->group, f->name);
    return 0;
}

int cache_place(const struct cache *c, uint64_t group, uint64_t identity, const char *suffix,
                const char *made, struct err *e)
{
    char name[64], path[LIMIT_PATH + 64];
    snprintf(name, sizeof name, "%016" PRIx64 "-%016" PRIx64 ".%s", group, identity, suffix);
    snprintf(path, sizeof path, "%s/%s", c->folder, name);
    if (file_rename(made, path) != 0)
        return err_set(e, SHOAL_E_IO, "%s: %s; check the disk", path, strerror(errno));
    sweep(c, group, name);
    return 0;
}

void cache_drop(struct cache_file *f)
{
    SHOAL_ASSERT(f->fd >= 0);
    file_unlink(f->temporary);
    close(f->fd);
    f->fd = -1;
}

int cache_spool(const struct cache *c, int *fd_out, struct err *e)
{
    char path[LIMIT_PATH + 64];
    int fd = temporary_make(c, "spool", path, sizeof path, e);
    if (fd < 0)
        return fd;
    file_unlink(path);
    *fd_out = fd;
    return 0;
}

int cache_write(const struct cache *c, int fd, const void *data, size_t bytes, struct err *e)
{
    if (file_write_all(fd, data, bytes) == 0)
        return 0;
    return err_set(e, file_write_status(),
                   "cache folder %s: %s; free some space or set data.cache to a larger disk",
                   c->folder, strerror(errno));
}

/* The lock file is a temporary like others: sweep removes it when it is old and unlocked (2). A
 * caller whose lock file was removed while it waited locks the new one. */
int cache_lock(const struct cache *c, uint64_t group, uint64_t identity, const char *suffix)
{
    char path[LIMIT_PATH + 96];
    struct err e;
    snprintf(path, sizeof path, "%s/%016" PRIx64 "-%016" PRIx64 ".%s.tmp-lock", c->folder, group,
             identity, suffix);
    if (folder_make(c, &e) != 0)
        return -1;
    for (;;) {
        struct stat mine, there;
        int fd = file_open(path, O_RDWR | O_CREAT | O_NOFOLLOW, 0600), rc = 0;
        while (fd >= 0 && (rc = flock(fd, LOCK_EX)) != 0 && errno == EINTR)
            continue;
        if (fd >= 0 && rc == 0 && fstat(fd, &mine) == 0 && stat(path, &there) == 0 &&
            mine.st_ino == there.st_ino && mine.st_dev == there.st_dev)
            return fd;
        if (fd >= 0)
            close(fd);
        if (fd < 0 || rc != 0)
            return -1;
    }
}

void cache_remove(const struct cache *c, uint64_t group, uint64_t identity, const char *suffix)
{
    char path[LIMIT_PATH + 64];
    snprintf(path, sizeof path, "%s/%016" PRIx64 "-%016" PRIx64 ".%s", c->folder, group, identity,
             suffix);
    file_unlink(path);
}

/* Finds the oldest kept file of a suffix and adds up the bytes of all of them. Names that begin
 * with `but` (NULL: none) are skipped. */
static uint64_t oldest_of(const struct cache *c, const char *suffix, const char *but,
                          char out[LIMIT_PATH + 300])
{
    struct file_walk walk;
    struct timespec first = {0};
    uint64_t bytes = 0;
    const char *entry;
    out[0] = '\0';
    if (!file_walk_open(&walk, c->folder))
        return 0;
    while ((entry = file_walk_next(&walk)) != NULL) {
        char path[LIMIT_PATH + 300];
        struct stat st;
        const char *dot = strrchr(entry, '.');
        (void)snprintf(path, sizeof path, "%s/%s", c->folder, entry);
        if (dot == NULL || strcmp(dot + 1, suffix) != 0 || stat(path, &st) != 0 ||
            (but != NULL && strncmp(entry, but, strlen(but)) == 0))
            continue;
        bytes += (uint64_t)st.st_size;
        bool older = st.st_mtim.tv_sec < first.tv_sec ||
                     (st.st_mtim.tv_sec == first.tv_sec && st.st_mtim.tv_nsec < first.tv_nsec);
        if (out[0] == '\0' || older) {
            first = st.st_mtim;
            (void)snprintf(out, LIMIT_PATH + 300, "%s", path);
        }
    }
    file_walk_close(&walk);
    return bytes;
}

void cache_trim(const struct cache *c, const char *suffix, uint64_t most)
{
    char path[LIMIT_PATH + 300];
    while (oldest_of(c, suffix, NULL, path) > most && file_unlink(path) == 0)
        continue;
}

uint64_t cache_bytes(const struct cache *c, const char *suffix, uint64_t group)
{
    char but[32], path[LIMIT_PATH + 300];
    (void)snprintf(but, sizeof but, "%016" PRIx64 "-", group);
    return oldest_of(c, suffix, but, path);
}

void cache_clear(const struct cache *c, const char *suffix)
{
    struct file_walk walk;
    const char *entry;
    if (!file_walk_open(&walk, c->folder))
        return;
    while ((entry = file_walk_next(&walk)) != NULL) {
        char path[LIMIT_PATH + 300];
        const char *dot = strrchr(entry, '.');
        (void)snprintf(path, sizeof path, "%s/%s", c->folder, entry);
        if (dot != NULL && strcmp(dot + 1, suffix) == 0)
            file_unlink(path);
    }
    file_walk_close(&walk);
}

int cache_find(const struct cache *c, uint64_t group, uint64_t identity, const char *suffix)
{
    char path[LIMIT_PATH + 64];
    struct stat st;
    uid_t owner;
    /* A folder that others can write is not trusted, as in folder_make. */
    if (!is_own(c->folder, &owner) || stat(c->folder, &st) != 0 || (st.st_mode & S_IWOTH) != 0)
        return -1;
    snprintf(path, sizeof path, "%s/%016" PRIx64 "-%016" PRIx64 ".%s", c->folder, group, identity,
             suffix);
    return open(path, O_RDONLY | O_CLOEXEC);
}
