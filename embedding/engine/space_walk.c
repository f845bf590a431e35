/* space_walk.c: bytes of folders; the list of folders beside DIR. */
#include "embedding/engine/space.h"

#include "proto/base/array.h"
#include "proto/base/file.h"
#include "proto/base/log.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define DEPTH 8

struct named { /* a file of several names */
    dev_t device;
    ino_t inode;
    uint64_t bytes;
};

struct walk {
    uint64_t bytes;
    struct named *named; /* owned */
    size_t count, room;
    bool failed;
};

static void add_named(struct walk *w, const struct stat *st, uint64_t bytes)
{
    if (array_room(&w->named, w->count, &w->room, 256) != 0) {
        w->failed = true;
        return;
    }
    w->named[w->count++] = (struct named){st->st_dev, st->st_ino, bytes};
}

/* Room may be kept for a file that is not written yet, and a written one may have no blocks yet. */
static uint64_t bytes_of(const struct stat *st)
{
    uint64_t blocks = (uint64_t)st->st_blocks * 512, size = (uint64_t)st->st_size;
    return S_ISREG(st->st_mode) && size > blocks ? size : blocks;
}

static void walk_folder(struct walk *w, const char *path, int depth)
{
    struct file_walk walk;
    const char *entry;
    if (depth >= DEPTH || !file_walk_open(&walk, path))
        return; /* it has just gone */
    while ((entry = file_walk_next(&walk)) != NULL) {
        char inner[LIMIT_PATH + 256];
        struct stat st;
        int n = snprintf(inner, sizeof inner, "%s/%s", path, entry);
        if (n < 0 || (size_t)n >= sizeof inner || lstat(inner, &st) != 0)
            continue;
        if (S_ISREG(st.st_mode) && st.st_nlink > 1)
            add_named(w, &st, bytes_of(&st));
        else
            w->bytes += bytes_of(&st);
        if (S_ISDIR(st.st_mode))
            walk_folder(w, inner, depth + 1);
    }
    file_walk_close(&walk);
}

static int by_file(const void *a, const void *b)
{
    const struct named *x = a, *y = b;
    if (x->device != y->device)
        return x->device < y->device ? -1 : 1;
    return (x->inode > y->inode) - (x->inode < y->inode);
}

uint64_t space_walk(char *const *folder, uint32_t count)
{
    struct walk w = {0};
    for (uint32_t i = 0; i < count; i++)
        walk_folder(&w, folder[i], 0);
    if (w.count > 0)
        qsort(w.named, w.count, sizeof *w.named, by_file);
    for (size_t i = 0; i < w.count; i++)
        if (i == 0 || by_file(&w.named[i], &w.named[i - 1]) != 0)
            w.bytes += w.named[i].bytes;
    free(w.named);
    return w.failed ? UINT64_MAX : w.bytes;
}

void space_parts_write(const struct engine *g)
{
    char path[LIMIT_PATH], made[LIMIT_PATH];
    snprintf(path, sizeof path, "%s/parts", g->dir);
    snprintf(made, sizeof made, "%s/parts.tmp", g->dir);
    char *text = NULL;
    size_t bytes = 0;
    FILE *f = open_memstream(&text, &bytes);
    for (uint32_t i = 0; f != NULL && i < g->space.parts; i++)
        fprintf(f, "%s\n", g->space.part[i]);
    if (f == NULL || fclose(f) != 0 ||
        file_write_whole(path, made, text, bytes, 0666, FILE_LASTS_PROCESS) != 0)
        log_warn(
            "cannot write %s: %s; after a restart parts of checkpoints are not counted as `disk`",
            path, strerror(errno));
    free(text);
}

void space_parts_read(struct engine *g)
{
    char path[LIMIT_PATH], line[LIMIT_PATH + 2];
    snprintf(path, sizeof path, "%s/parts", g->dir);
    FILE *f = fopen(path, "re");
    if (f == NULL)
        return;
    while (g->space.parts < SPACE_PARTS && fgets(line, sizeof line, f) != NULL) {
        size_t length = strcspn(line, "\n");
        if (length == 0 || line[length] == '\0' || line[0] != '/')
            continue; /* cut short, or none of ours */
        line[length] = '\0';
        if ((g->space.part[g->space.parts] = strdup(line)) != NULL)
            g->space.parts++;
    }
    fclose(f);
}
