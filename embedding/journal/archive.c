/* archive.c: a folder of old segments, and how much of it is kept. */
#include "embedding/journal/archive.h"

#include "proto/base/array.h"
#include "proto/base/file.h"
#include "proto/base/log.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct archived {
    uint64_t generation, bytes;
};

struct archive {
    char *dir; /* owned */
    uint64_t keep, bytes;
    struct archived *file; /* owned; by generation */
    uint32_t count, room;
};

static void path_of(const struct archive *a, uint64_t generation, char *out)
{
    snprintf(out, LIMIT_PATH, "%s/seg-%016" PRIx64, a->dir, generation);
}

static bool add(struct archive *a, uint64_t generation, uint64_t bytes)
{
    if (array_room(&a->file, a->count, &a->room, 64) != 0)
        return false;
    a->file[a->count++] = (struct archived){generation, bytes};
    a->bytes += bytes;
    return true;
}

static void drop_oldest(struct archive *a)
{
    char path[LIMIT_PATH];
    path_of(a, a->file[0].generation, path);
    file_unlink(path);
    a->bytes -= a->file[0].bytes;
    memmove(a->file, a->file + 1, --a->count * sizeof *a->file);
}

static void trim(struct archive *a)
{
    while (a->count > 0 && a->bytes > a->keep)
        drop_oldest(a);
}

static int by_generation(const void *x, const void *y)
{
    const struct archived *a = x, *b = y;
    return (a->generation > b->generation) - (a->generation < b->generation);
}

static bool list(struct archive *a, struct file_walk *walk)
{
    const char *entry;
    while ((entry = file_walk_next(walk)) != NULL) {
        uint64_t generation;
        char path[LIMIT_PATH];
        struct stat st;
        size_t length = strlen(entry);
        if (length == 25 && strcmp(entry + 20, ".copy") == 0) {
            /* a crash left it (audit.c) */
            snprintf(path, sizeof path, "%s/%.25s", a->dir, entry);
            file_unlink(path);
        }
        if (length != 20 || sscanf(entry, "seg-%16" SCNx64, &generation) != 1)
            continue;
        path_of(a, generation, path);
        if (stat(path, &st) == 0 && !add(a, generation, (uint64_t)st.st_size))
            return false;
    }
    if (a->count > 0)
        qsort(a->file, a->count, sizeof *a->file, by_generation);
    return true;
}

int archive_open(const char *dir, uint64_t keep, struct archive **out, struct err *e)
{
    if (strlen(dir) + 32 > LIMIT_PATH)
        return err_set(e, SHOAL_E_CONFIG, "the folder name %s is too long", dir);
    if (file_mkdir(dir, 0700) != 0 && errno != EEXIST)
        return err_set(e, SHOAL_E_CANTCREATE, "cannot create the archive folder %s: %s", dir,
                       strerror(errno));
    struct archive *a = calloc(1, sizeof *a);
    struct file_walk walk;
    bool opened = file_walk_open(&walk, dir);
    if (a != NULL) {
        a->keep = keep;
        a->dir = strdup(dir);
    }
    bool good = a != NULL && a->dir != NULL && opened && list(a, &walk);
    file_walk_close(&walk);
    if (!good) {
        archive_close(a);
        return err_set(e, SHOAL_E_IO, "cannot list the archive folder %s", dir);
    }
    trim(a);
    *out = a;
    return 0;
}

void archive_close(struct archive *a)
{
    if (a == NULL)
        return;
    free(a->file);
    free(a->dir);
    free(a);
}

bool archive_take(struct archive *a, const char *path, uint64_t generation, uint64_t bytes,
                  bool shared)
{
    char to[LIMIT_PATH];
    struct stat st;
    path_of(a, generation, to);
    if (a->count > 0 && generation <= a->file[a->count - 1].generation)
        return false;
    if (!shared && truncate(path, (off_t)bytes) != 0)
        log_warn("cannot cut %s to its records: %s", path, strerror(errno));
    if (file_rename(path, to) != 0 || stat(to, &st) != 0) {
        log_warn("cannot move %s to the archive: %s", path, strerror(errno));
        return false;
    }
    if (!add(a, generation, (uint64_t)st.st_size)) {
        file_unlink(to);
        return true;
    }
    trim(a);
    return true;
}

uint64_t archive_bytes(const struct archive *a)
{
    return a->bytes;
}

uint32_t archive_count(const struct archive *a)
{
    return a->count;
}

void archive_path(const struct archive *a, uint32_t i, char out[LIMIT_PATH], uint64_t *generation)
{
    *generation = a->file[i].generation;
    path_of(a, *generation, out);
}

void archive_clear(struct archive *a)
{
    while (a->count > 0)
        drop_oldest(a);
}
