/* journal_read.c: opening a folder of segments and reading it back.
 *
 * A gap is where the records of a segment end below what the next one's header says came before it,
 * or where the last segment has records behind a place that does not check. It is damage (CORRUPT)
 * when a record behind it says that the missing one had been synced (record.h, invariant 3);
 * otherwise the power failed before a sync, the mode allowed for the loss, and it is reported and
 * left. */
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

#define SEGMENT_BYTES_MAX (1u << 30)

static int by_generation(const void *a, const void *b)
{
    const struct segment *x = a, *y = b;
    return (x->generation > y->generation) - (x->generation < y->generation);
}

static bool header_ok(const struct segment_header *h, uint64_t generation)
{
    return h->magic == SEGMENT_MAGIC && h->checksum == segment_checksum(h) &&
           h->first > h->previous && (generation == 0 || h->generation == generation);
}

/* Generations of free files count too: their old records must never check in a new segment. */
static void note_generation(struct journal *j, const char *path)
{
    struct segment_header h;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    if (pread(fd, &h, sizeof h, 0) == (ssize_t)sizeof h && header_ok(&h, 0) &&
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

/* One segment's bytes in memory. */
struct view {
    char *bytes; /* owned */
    size_t count;
    bool good; /* its header checks */
    struct segment_header header;
};

static int view_load(const struct journal *j, const struct segment *s, struct view *v,
                     struct err *e)
{
    char path[LIMIT_PATH];
    struct stat st;
    segment_path(j, s->generation, path);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) != 0 || st.st_size > SEGMENT_BYTES_MAX) {
        err_set(e, SHOAL_E_IO, "cannot read journal segment %s: %s", path,
                fd < 0 ? strerror(errno) : "not a segment's size");
        if (fd >= 0)
            close(fd);
        return SHOAL_E_IO;
    }
    *v = (struct view){.bytes = malloc((size_t)st.st_size + 1)};
    while (v->bytes != NULL && v->count < (size_t)st.st_size) {
        ssize_t n = pread(fd, v->bytes + v->count, (size_t)st.st_size - v->count, (off_t)v->count);
        if (n <= 0)
            break;
        v->count += (size_t)n;
    }
    close(fd);
    if (v->bytes == NULL || v->count < (size_t)st.st_size) {
        free(v->bytes);
        return err_set(e, SHOAL_E_IO, "cannot read journal segment %s to its end", path);
    }
    if (v->count >= sizeof v->header)
        memcpy(&v->header, v->bytes, sizeof v->header);
    v->good = v->count >= sizeof v->header && header_ok(&v->header, s->generation);
    return 0;
}

/* The highest `synced` that any record at or behind `at` names. */
static uint64_t synced_behind(const struct view *v, uint64_t generation, size_t at)
{
    uint64_t synced = 0;
    struct record_header h;
    const void *payload;
    while (at + sizeof h <= v->count) {
        if (record_read(v->bytes + at, v->count - at, generation, &h, &payload) != 0) {
            at += RECORD_ALIGN;
            continue;
        }
        synced = h.synced > synced ? h.synced : synced;
        at += record_bytes(h.payload_bytes);
    }
    return synced;
}

struct replay {
    journal_visit visit;
    void *context;
    uint64_t until, first, last;
};

/* Visits a segment's records; s->bytes and s->last are where they end. */
static int replay_view(struct replay *r, struct segment *s, const struct view *v, struct err *e)
{
    s->bytes = SEGMENT_HEADER_BYTES;
    s->first = v->good ? v->header.first : r->last + 1;
    s->last = s->first - 1;
    struct record_header h;
    const void *payload;
    while (v->good && record_read(v->bytes + s->bytes, v->count - s->bytes, s->generation, &h,
                                  &payload) == 0) {
        if (h.sequence != s->last + 1)
            break;
        if (h.sequence <= r->until) {
            int rc = r->visit(r->context, &h, payload, e);
            if (rc != 0)
                return rc;
            r->first = r->first == 0 ? h.sequence : r->first;
            r->last = h.sequence;
        }
        s->last = h.sequence;
        s->bytes += record_bytes(h.payload_bytes);
        if (s->bytes >= v->count)
            break;
    }
    return 0;
}

/* The journal ends in segment `index` at `last`, though more may follow: damage, or an unsynced
 * tail that the power took? */
static int judge_gap(struct journal *j, uint32_t index, uint64_t last, struct err *e)
{
    for (uint32_t i = index; i < j->count; i++) {
        struct view v;
        int rc = view_load(j, &j->segment[i], &v, e);
        if (rc != 0)
            return rc;
        uint64_t synced = synced_behind(&v, j->segment[i].generation,
                                        i == index ? j->segment[i].bytes : SEGMENT_HEADER_BYTES);
        free(v.bytes);
        if (synced > last) {
            char path[LIMIT_PATH];
            segment_path(j, j->segment[index].generation, path);
            return err_set(
                e, SHOAL_E_CORRUPT,
                "journal segment %s is damaged at offset %" PRIu64 ": record %" PRIu64
                " was on disk and does not check; put the file back from a copy, or restore a cut",
                path, j->segment[index].bytes, last + 1);
        }
    }
    return 0;
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

static uint64_t previous_of(const struct journal *j, uint32_t index, uint64_t otherwise)
{
    struct segment_header h;
    char path[LIMIT_PATH];
    segment_path(j, j->segment[index].generation, path);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    bool good = fd >= 0 && pread(fd, &h, sizeof h, 0) == (ssize_t)sizeof h &&
                header_ok(&h, j->segment[index].generation);
    if (fd >= 0)
        close(fd);
    return good ? h.previous : otherwise;
}

int journal_replay(struct journal *j, uint64_t until, journal_visit visit, void *context,
                   uint64_t *first, uint64_t *last, struct err *e)
{
    struct replay r = {.visit = visit, .context = context, .until = until};
    uint64_t end = 0;
    int rc = 0;
    j->used = 0;
    for (uint32_t i = 0; i < j->count && rc == 0; i++) {
        struct segment *s = &j->segment[i];
        struct view v;
        rc = view_load(j, s, &v, e);
        if (rc != 0)
            break;
        rc = replay_view(&r, s, &v, e);
        free(v.bytes);
        j->used += s->bytes;
        end = s->last;
        /* A header that does not check holds nothing; a next one that does not check does not tell
         * what came before it.
         */
        bool whole = i + 1 < j->count && previous_of(j, i + 1, UINT64_MAX) == end;
        if (rc == 0 && !whole && end < until) {
            rc = judge_gap(j, i, end, e);
            if (rc == 0 && !j->copy) {
                for (uint32_t k = i + 1; k < j->count; k++)
                    j->segment[k].bytes = 0;
                give_up_behind(j, i);
            }
            break;
        }
    }
    j->previous = end;
    *first = r.first;
    *last = r.last;
    return rc;
}
