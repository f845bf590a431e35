/* journal_read.c: opening a folder of segments, and what is left of it once a cursor has read it
 * (cursor.h). */
#include "embedding/journal/cursor.h"

#include "embedding/journal/journal_file.h"
#include "proto/base/assert.h"
#include "proto/base/file.h"
#include "proto/base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int by_generation(const void *a, const void *b)
{
    const struct segment *x = a, *y = b;
    return (x->generation > y->generation) - (x->generation < y->generation);
}

/* Generations of free files count too: their old records must never check in a new segment. */
static void note_generation(struct journal *j, const char *path)
{
    struct segment_header h;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    if (pread(fd, &h, sizeof h, 0) == (ssize_t)sizeof h && segment_good(&h, 0) &&
        h.generation >= j->next_generation)
        j->next_generation = h.generation + 1;
    close(fd);
}

static int take_name(struct journal *j, const char *name)
{
    uint64_t generation;
    unsigned number;
    char path[LIMIT_PATH];
    snprintf(path, sizeof path, "%s/%s", j->dir, name);
    if (strlen(name) == 20 && sscanf(name, "seg-%16" SCNx64, &generation) == 1) {
        struct segment *s = segment_add(j, generation);
        if (s == NULL)
            return SHOAL_E_NOMEM;
        struct stat st;
        s->linked = stat(path, &st) == 0 && st.st_nlink > 1;
        if (generation >= j->next_generation)
            j->next_generation = generation + 1;
    } else if (j->copy) {
        return 0;
    } else if (strlen(name) == 13 && sscanf(name, "free-%8x", &number) == 1) {
        note_generation(j, path);
        if (number >= j->next_free)
            j->next_free = number + 1;
        return free_add(j, number);
    } else if (strncmp(name, "new-", 4) == 0) {
        file_unlink(path);
    }
    return 0;
}

static int open_dir(const char *dir, uint32_t segment_bytes, bool copy, struct journal **out,
                    struct err *e)
{
    if (strlen(dir) + 32 > LIMIT_PATH)
        return err_set(e, SHOAL_E_CONFIG, "the folder name %s is too long", dir);
    if (!copy && file_mkdir(dir, 0700) != 0 && errno != EEXIST)
        return err_set(e, SHOAL_E_CANTCREATE, "cannot create the journal folder %s: %s", dir,
                       strerror(errno));
    struct journal *j = calloc(1, sizeof *j);
    struct file_walk walk;
    const char *entry;
    bool opened = file_walk_open(&walk, dir);
    if (j != NULL)
        j->dir = strdup(dir);
    if (j == NULL || j->dir == NULL || !opened) {
        file_walk_close(&walk);
        journal_close(j);
        return err_set(e, SHOAL_E_IO, "cannot open the journal folder %s: %s", dir,
                       strerror(errno));
    }
    j->segment_bytes = segment_bytes < JOURNAL_SEGMENT_MIN ? JOURNAL_SEGMENT_MIN : segment_bytes;
    j->copy = copy;
    j->next_generation = 1;
    int rc = 0;
    while (rc == 0 && (entry = file_walk_next(&walk)) != NULL)
        rc = take_name(j, entry);
    file_walk_close(&walk);
    if (rc != 0) {
        journal_close(j);
        return err_set(e, rc, "no memory to list the journal in %s", dir);
    }
    if (j->count > 0)
        qsort(j->segment, j->count, sizeof *j->segment, by_generation);
    *out = j;
    return 0;
}

int journal_open(const char *dir, uint32_t segment_bytes, struct journal **out, struct err *e)
{
    return open_dir(dir, segment_bytes, false, out, e);
}

int journal_open_copy(const char *dir, struct journal **out, struct err *e)
{
    return open_dir(dir, 0, true, out, e);
}

/* Nothing behind segment `index` counts any more. Last first, so that a crash in between finds the
 * same gap again. */
static void give_up_behind(struct journal *j, uint32_t index)
{
    while (j->count > index + 1) {
        log_warn("journal %s: segment %016" PRIx64
                 " follows records that a power failure took; it is given up",
                 j->dir, j->segment[j->count - 1].generation);
        segment_retire(j, j->count - 1, UINT32_MAX);
    }
}

void journal_take_end(struct journal *j, const struct journal_cursor *c)
{
    SHOAL_ASSERT(!j->copy && c->ended && c->files->count == j->count);
    j->used = 0;
    j->previous = 0;
    for (uint32_t i = 0; i < j->count && i <= c->file; i++) {
        const struct journal_file *f = &c->files->file[i];
        j->segment[i].first = f->first;
        j->segment[i].last = f->last;
        j->segment[i].bytes = f->bytes;
        j->used += f->bytes;
        j->previous = f->last;
    }
    give_up_behind(j, c->file);
}
