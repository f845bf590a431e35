/* journal_start.c: a start: lists the folder, takes over what a cursor has read, and writes again
 * what the last process may not have synced.
 *
 * 1. After a failed sync the pages in the page cache are clean, and no later sync writes them. A
 *    start therefore writes all records again that no record reports as synced, before it syncs
 *    them. [test: what_no_sync_has_written_is_written_again]
 * 2. Records that are given up go from the end on: whole segments, the last one first, then, by one
 *    rename, the rest of the segment before them, whose file may be linked. After a failure or a
 *    kill at any step the journal ends at a record between the two.
 *    [test: records_behind_until_go_at_any_step] */
#include "embedding/journal/cursor.h"
#include "embedding/journal/journal_inner.h"
#include "proto/base/assert.h"
#include "proto/base/file.h"
#include "proto/base/log.h"
#include "proto/base/minmax.h"
#include "proto/base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

/* ---- the folder ---- */

static int by_generation(const void *a, const void *b)
{
    const struct segment *x = a, *y = b;
    return (x->generation > y->generation) - (x->generation < y->generation);
}

/* Counts the generation of a free file, too: its old records must never check in a new segment.
 * Returns the generation; 0: the head does not check. */
static uint64_t note_generation(struct journal *j, const char *path)
{
    struct segment_header h;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    bool good = pread(fd, &h, sizeof h, 0) == (ssize_t)sizeof h && record_segment_good(&h, 0);
    close(fd);
    if (!good)
        return 0;
    if (h.generation >= j->next_generation)
        j->next_generation = h.generation + 1;
    return h.generation;
}

/* True when a file was trimmed and reused, and a power loss took both names: none of its old
 * records is needed, and none of its new ones was acknowledged. */
static bool is_used_again(struct journal *j, const char *path, uint64_t generation)
{
    if (note_generation(j, path) <= generation)
        return false;
    log_warn("journal segment %s had been given up and begun anew when the power went; it goes",
             path);
    if (!j->copy)
        file_unlink(path);
    return true;
}

static int take_name(struct journal *j, const char *name)
{
    uint64_t generation;
    unsigned number;
    char path[LIMIT_PATH];
    snprintf(path, sizeof path, "%s/%s", j->dir, name);
    if (strlen(name) == 20 && sscanf(name, "seg-%16" SCNx64, &generation) == 1) {
        if (is_used_again(j, path, generation))
            return 0;
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
        return segment_free_add(j, number);
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
    j->segment_bytes = segment_bytes;
    if (segment_bytes < JOURNAL_SEGMENT_MIN)
        j->segment_bytes = JOURNAL_SEGMENT_MIN;

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

/* ---- the end of the records ---- */

/* Drops the segments behind `index`, the last one first, so that a crash in between finds the same
 * gap again. */
static void give_up_behind(struct journal *j, uint32_t index, const char *why)
{
    while (j->count > index + 1) {
        log_warn("journal %s: segment %016" PRIx64 " follows records that %s; it is given up",
                 j->dir, j->segment[j->count - 1].generation, why);
        segment_retire(j, j->count - 1, UINT32_MAX);
    }
}

/* Takes over what the cursor has found in the segments that it has read. */
static void take_read(struct journal *j, const struct journal_cursor *c)
{
    SHOAL_ASSERT(!j->copy && !j->started && c->reads == CURSOR_WHOLE);
    SHOAL_ASSERT(c->files->count == j->count);
    j->stamped = MAX(j->stamped, c->stamped);
    for (uint32_t i = 0; i < j->count && i <= c->file; i++) {
        const struct journal_file *f = &c->files->file[i];
        j->segment[i].first = f->first;
        j->segment[i].last = f->last;
        j->segment[i].bytes = f->bytes;
    }
}

static void take_records(struct journal *j, const struct journal_cursor *c)
{
    j->used = 0;
    j->previous = 0;
    for (uint32_t i = 0; i < j->count && i <= c->file; i++) {
        j->used += j->segment[i].bytes;
        j->previous = j->segment[i].last;
    }
}

void journal_take_end(struct journal *j, const struct journal_cursor *c)
{
    SHOAL_ASSERT(c->ended);
    take_read(j, c);
    take_records(j, c);
    give_up_behind(j, c->file, "a power failure took");
}

/* Replaces the segment's file by one that ends with its last record. */
static int shorten(const struct journal *j, const struct segment *s)
{
    char path[LIMIT_PATH], made[LIMIT_PATH];
    segment_path(j, s->generation, path);
    snprintf(made, sizeof made, "%s/new-until", j->dir);
    int from = open(path, O_RDONLY | O_CLOEXEC);
    int to = file_open(made, O_RDWR | O_CREAT | O_TRUNC, 0600);
    int rc = -1;
    if (from >= 0 && to >= 0)
        rc = file_copy(from, to, s->bytes);
    if (rc == 0)
        rc = file_sync(to);
    if (rc == 0)
        rc = file_rename(made, path);
    int why = errno;
    if (from >= 0)
        close(from);
    if (to >= 0)
        close(to);
    errno = why;
    return rc;
}

int journal_take_until(struct journal *j, const struct journal_cursor *c, struct err *e)
{
    SHOAL_ASSERT(c->ended && c->last == c->until && c->file < j->count);
    take_read(j, c);
    struct segment *s = &j->segment[c->file];
    s->first = MIN(MAX(s->first, 1), c->last + 1);
    s->last = c->last;
    s->bytes = c->next;
    take_records(j, c);
    give_up_behind(j, c->file, "the leader does not have");
    s = &j->segment[c->file];
    if (file_sync_folder(j->dir) != 0 || shorten(j, s) != 0 || file_sync_folder(j->dir) != 0)
        return err_set(e, segment_error(errno),
                       "cannot give up the records behind %" PRIu64 " in %s: %s", c->until, j->dir,
                       strerror(errno));
    s->linked = false;
    return 0;
}

/* ---- writing again ---- */

/* Writes a segment's bytes from `at` on again, in place, and syncs all of it. 0 or an errno. */
static int write_again(struct journal *j, const char *path, uint64_t at, uint64_t bytes)
{
    enum { CHUNK = 1 << 20 };
    int fd = open(path, O_RDWR | O_CLOEXEC), why = 0;
    char *chunk = malloc(CHUNK);
    SHOAL_ASSERT(at <= bytes && !j->copy);
    if (fd < 0 || chunk == NULL)
        why = errno;
    while (why == 0 && at < bytes) {
        uint64_t left = bytes - at;
        size_t n = CHUNK;
        if (left < CHUNK)
            n = (size_t)left;
        struct iovec piece = {chunk, n};
        if (pread(fd, chunk, n, (off_t)at) != (ssize_t)n)
            why = EIO;
        else
            why = segment_write(fd, &piece, 1, at);
        at += n;
    }
    if (why == 0 && file_sync_data(fd) != 0)
        why = errno;
    free(chunk);
    if (fd >= 0)
        close(fd);
    return why;
}

/* Finds the first record of a file that no record reports as synced; its end if there is none. If
 * that is the first record, the head is included. IO, NOMEM. */
static int unstamped_from(const struct journal *j, const struct segment *s, const char *path,
                          uint64_t *at, struct err *e)
{
    struct journal_file file = {.generation = s->generation, .bytes = s->bytes, .fd = -1};
    struct journal_files files = {&file, 1};
    struct journal_cursor c;
    struct journal_record record;
    int rc;
    *at = s->last <= j->stamped ? s->bytes : 0;
    if (s->last <= j->stamped || s->first > j->stamped)
        return 0;
    text_copy(file.path, sizeof file.path, path);
    cursor_open(&c, &files, 0, UINT64_MAX, CURSOR_HEADS);
    while ((rc = cursor_next(&c, &record, e)) == 0 && record.head->sequence <= j->stamped)
        ;
    *at = rc == 0 ? c.at : s->bytes;
    cursor_close(&c);
    if (rc == SHOAL_E_END)
        return 0;
    return rc;
}

/* Writes the unstamped records of the first segments again, and syncs these segments and the
 * folder. */
static int write_unstamped(struct journal *j, uint32_t segments, struct err *e)
{
    for (uint32_t i = 0; i < segments; i++) {
        const struct segment *s = &j->segment[i];
        char path[LIMIT_PATH];
        uint64_t at;
        segment_path(j, s->generation, path);
        int rc = unstamped_from(j, s, path, &at, e); /* 1 */
        if (rc != 0)
            return rc;
        int why = write_again(j, path, at, s->bytes);
        if (why != 0)
            return err_set(e, segment_error(why), "cannot write and sync journal segment %s: %s",
                           path, strerror(why));
    }
    if (file_sync_folder(j->dir) != 0)
        return err_set(e, SHOAL_E_IO, "cannot sync the folder %s: %s", j->dir, strerror(errno));
    return 0;
}

int journal_save_read(struct journal *j, const struct journal_cursor *c, struct err *e)
{
    SHOAL_ASSERT(!c->ended && c->last > 0);
    if (j->stamped >= c->last)
        return 0;
    take_read(j, c);
    struct segment *s = &j->segment[c->file];
    s->last = c->last;
    s->bytes = c->next;
    int rc = write_unstamped(j, c->file + 1, e);
    if (rc != 0)
        return rc;

    j->stamped = c->last;
    return 0;
}

int journal_start(struct journal *j, uint64_t next, struct err *e)
{
    SHOAL_ASSERT(!j->copy && !j->started && next > 0);
    int rc = write_unstamped(j, j->count, e);
    if (rc != 0)
        return rc;

    j->freed_synced = j->freed;
    j->next = next;
    j->committed = j->synced = next - 1;
    j->dir_dirty = false;
    return 0;
}
