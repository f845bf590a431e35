/* audit.c: walking segments for keys. */
#include "embedding/journal/audit.h"

#include "embedding/journal/journal_file.h"
#include "proto/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int audit_gather(const struct archive *a, const struct journal *j, struct audit_files *out,
                 struct err *e)
{
    uint32_t archived = a == NULL ? 0 : archive_count(a);
    *out = (struct audit_files){0};
    out->file =
        calloc(archived + (j == NULL ? 0 : journal_segment_count(j)) + 1, sizeof *out->file);
    if (out->file == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory to list the journal");
    for (uint32_t i = 0; i < archived; i++) {
        struct audit_file *f = &out->file[out->count++];
        f->fd = -1;
        archive_path(a, i, f->path, &f->generation);
    }
    int rc = j == NULL ? 0 : journal_audit(j, out, e);
    if (rc != 0)
        audit_free(out);
    return rc;
}

int journal_audit(const struct journal *j, struct audit_files *out, struct err *e)
{
    for (uint32_t i = 0; i < j->count; i++) {
        struct audit_file *f = &out->file[out->count];
        segment_path(j, j->segment[i].generation, f->path);
        f->generation = j->segment[i].generation;
        f->bytes = j->segment[i].bytes;
        f->fd = open(f->path, O_RDONLY | O_CLOEXEC);
        if (f->fd < 0)
            return err_set(e, SHOAL_E_IO, "cannot open journal segment %s: %s", f->path,
                           strerror(errno));
        out->count++;
    }
    return 0;
}

void audit_free(struct audit_files *f)
{
    for (uint32_t i = 0; i < f->count; i++)
        if (f->file[i].fd >= 0)
            close(f->file[i].fd);
    free(f->file);
    *f = (struct audit_files){0};
}

/* ---- one segment ---- */

struct found {
    const struct record_header *h;
    char *record;   /* the whole of it, in the walk's buffer */
    uint64_t at;    /* of it in the file */
    uint32_t *hits; /* (hit_count): positions of wished keys among the record's */
    uint32_t hit_count;
};

struct walk {
    const struct audit_wish *wish;
    uint64_t *keys; /* owned; (LIMIT_KEYS) */
    uint32_t *hits; /* owned; (LIMIT_KEYS) */
    char *buffer;   /* owned */
    size_t room;
    uint64_t first; /* sequence of the first record of the segment; 0: none */
    int (*visit)(void *context, const struct audit_file *f, const struct found *r, struct err *e);
    void *context;
};

static int walk_init(struct walk *w)
{
    w->keys = malloc(LIMIT_KEYS * sizeof *w->keys);
    w->hits = malloc(LIMIT_KEYS * sizeof *w->hits);
    return w->keys == NULL || w->hits == NULL ? SHOAL_E_NOMEM : 0;
}

static void walk_free(struct walk *w)
{
    free(w->keys);
    free(w->hits);
    free(w->buffer);
}

static bool wished(const struct audit_wish *wish, uint64_t key)
{
    uint32_t low = 0, high = wish->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (wish->keys[middle] < key)
            low = middle + 1;
        else
            high = middle;
    }
    return low < wish->count && wish->keys[low] == key;
}

static bool read_at(int fd, void *out, size_t bytes, uint64_t at)
{
    return pread(fd, out, bytes, (off_t)at) == (ssize_t)bytes;
}

/* Whether a push of the table has any of the keys; w->hits says where. */
static uint32_t push_hits(struct walk *w, const struct audit_file *f, const struct record_header *h,
                          uint64_t at)
{
    uint32_t hits = 0;
    size_t key_bytes = h->key_count * sizeof(uint64_t);
    if (h->kind != RECORD_PUSH || h->table != w->wish->table || h->key_count > LIMIT_KEYS ||
        h->payload_bytes != key_bytes + (uint64_t)h->key_count * w->wish->floats * sizeof(float) ||
        !read_at(f->fd, w->keys, key_bytes, at + sizeof *h))
        return 0;
    for (uint32_t i = 0; i < h->key_count; i++)
        if (wished(w->wish, w->keys[i]))
            w->hits[hits++] = i;
    return hits;
}

/* The whole record, checked. NULL: it is none, or damaged. NOMEM in *rc. */
static char *record_whole(struct walk *w, const struct audit_file *f, const struct record_header *h,
                          uint64_t at, int *rc)
{
    size_t bytes = record_bytes(h->payload_bytes);
    struct record_header checked;
    const void *payload;
    *rc = 0;
    if (bytes > w->room) {
        free(w->buffer);
        w->buffer = malloc(bytes);
        w->room = w->buffer == NULL ? 0 : bytes;
        if (w->buffer == NULL) {
            *rc = SHOAL_E_NOMEM;
            return NULL;
        }
    }
    if (!read_at(f->fd, w->buffer, bytes, at) ||
        record_read(w->buffer, bytes, f->generation, &checked, &payload) != 0)
        return NULL;
    return w->buffer;
}

static int walk_segment(struct walk *w, const struct audit_file *f, struct err *e)
{
    struct record_header h;
    struct stat st;
    uint64_t end = f->bytes, at = SEGMENT_HEADER_BYTES;
    w->first = 0;
    if (end == 0)
        end = fstat(f->fd, &st) == 0 ? (uint64_t)st.st_size : 0;
    while (at + sizeof h <= end && read_at(f->fd, &h, sizeof h, at)) {
        size_t bytes = record_bytes(h.payload_bytes);
        if (h.magic != RECORD_MAGIC || h.segment != f->generation || bytes > end - at)
            break;
        if (atomic_load(w->wish->stop))
            return err_set(e, SHOAL_E_STOPPED, "the search was called off");
        w->first = w->first == 0 ? h.sequence : w->first;
        uint32_t hits = push_hits(w, f, &h, at);
        if (hits > 0) {
            int rc;
            char *record = record_whole(w, f, &h, at, &rc);
            if (rc != 0)
                return err_set(e, rc, "no memory for a journal record of %zu bytes", bytes);
            struct found found = {&h, record, at, w->hits, hits};
            rc = record == NULL ? 0 : w->visit(w->context, f, &found, e);
            if (rc != 0)
                return rc;
        }
        at += bytes;
    }
    return 0;
}

/* ---- blame ---- */

struct blame {
    const struct audit_wish *wish;
    struct blame_entry *ring; /* owned; (limit): the newest of one segment */
    uint32_t limit, next, held;
};

static void gradient_of(const struct audit_wish *wish, const struct found *r,
                        struct blame_entry *out)
{
    const char *floats = r->record + sizeof *r->h + r->h->key_count * sizeof(uint64_t);
    float g[LIMIT_WIDTH + 2];
    double squares = 0;
    memcpy(g, floats + (size_t)r->hits[0] * wish->floats * sizeof(float),
           wish->floats * sizeof(float));
    for (uint32_t i = 0; i < wish->width; i++)
        squares += (double)g[i] * (double)g[i];
    out->norm = sqrt(squares);
    out->show = wish->floats > wish->width ? g[wish->width] : 0;
    out->click = wish->floats > wish->width + 1 ? g[wish->width + 1] : 0;
}

static int blame_visit(void *context, const struct audit_file *f, const struct found *r,
                       struct err *e)
{
    struct blame *b = context;
    struct blame_entry *out = &b->ring[b->next];
    (void)f;
    (void)e;
    *out = (struct blame_entry){.sequence = r->h->sequence,
                                .run = r->h->run,
                                .generation = r->h->generation,
                                .batch = r->h->to,
                                .lane = r->h->lane,
                                .event_time = r->h->event_time,
                                .lr_scale = r->h->lr_scale};
    gradient_of(b->wish, r, out);
    b->next = (b->next + 1) % b->limit;
    b->held += b->held < b->limit;
    return 0;
}

/* Newest first into `out`; a batch that stands there already (sent again) counts where it came
 * first. */
static void blame_take(struct blame *b, struct blame_entry *out, uint32_t limit, uint32_t *count)
{
    for (uint32_t i = 0; i < b->held; i++) {
        const struct blame_entry *in = &b->ring[(b->next + b->limit - 1 - i) % b->limit];
        uint32_t at = 0;
        while (at < *count &&
               (out[at].run != in->run || out[at].lane != in->lane || out[at].batch != in->batch))
            at++;
        if (at < *count)
            memmove(&out[at], &out[at + 1], (--*count - at) * sizeof *out);
        if (*count < limit)
            out[(*count)++] = *in;
    }
    b->next = b->held = 0;
}

int audit_blame(struct audit_files *f, const struct audit_wish *wish, struct blame_entry *out,
                uint32_t limit, uint32_t *count, bool *complete, struct err *e)
{
    struct blame b = {.wish = wish, .limit = limit, .ring = malloc(limit * sizeof *out)};
    struct walk w = {.wish = wish, .visit = blame_visit, .context = &b};
    uint64_t first = 0;
    int rc = walk_init(&w) != 0 || b.ring == NULL
                 ? err_set(e, SHOAL_E_NOMEM, "no memory to read the journal")
                 : 0;
    *count = 0;
    uint32_t i = f->count;
    for (; i > 0 && rc == 0 && *count < limit; i--) {
        struct audit_file *file = &f->file[i - 1];
        if (file->fd < 0)
            file->fd = open(file->path, O_RDONLY | O_CLOEXEC);
        if (file->fd < 0)
            break; /* the archive has dropped it, and what is older */
        rc = walk_segment(&w, file, e);
        first = w.first > 0 ? w.first : first;
        blame_take(&b, out, limit, count);
        close(file->fd);
        file->fd = -1;
    }
    *complete = rc == 0 && i == 0 && first == 1;
    walk_free(&w);
    free(b.ring);
    return rc;
}

/* ---- blanking ---- */

struct blank {
    const struct audit_wish *wish;
    uint64_t records;
};

static int blank_visit(void *context, const struct audit_file *f, const struct found *r,
                       struct err *e)
{
    struct blank *b = context;
    uint32_t floats = b->wish->floats, count = r->h->key_count;
    struct record_header h = *r->h;
    char *keys = r->record + sizeof h, *values = keys + count * sizeof(uint64_t);
    for (uint32_t i = 0; i < r->hit_count; i++) {
        memset(keys + r->hits[i] * sizeof(uint64_t), 0, sizeof(uint64_t));
        memset(values + (size_t)r->hits[i] * floats * sizeof(float), 0, floats * sizeof(float));
    }
    struct record_payload payload = {
        {keys, values}, {count * sizeof(uint64_t), (size_t)count * floats * sizeof(float)}};
    record_seal(&h, &payload);
    memcpy(r->record, &h, sizeof h);
    size_t bytes = record_bytes(h.payload_bytes);
    if (pwrite(f->fd, r->record, bytes, (off_t)r->at) != (ssize_t)bytes)
        return err_set(e, SHOAL_E_IO, "cannot write %s: %s", f->path, strerror(errno));
    b->records++;
    return 0;
}

/* A cut, or a checkpoint, may share the file and has its checksum: then the archive gets a copy of
 * its own. An open descriptor for reading and writing, or -1 with errno. */
static int open_unshared(const char *path)
{
    char copy[LIMIT_PATH + 8];
    struct stat st;
    int from = open(path, O_RDWR | O_CLOEXEC);
    if (from < 0 || (fstat(from, &st) == 0 && st.st_nlink == 1))
        return from;
    snprintf(copy, sizeof copy, "%s.copy", path);
    int to = file_open(copy, O_RDWR | O_CREAT | O_TRUNC, 0600);
    bool good = to >= 0;
    good = good && file_copy(from, to, UINT64_MAX) == 0 && file_rename(copy, path) == 0;
    int why = errno;
    close(from);
    if (good)
        return to;
    if (to >= 0) {
        close(to);
        file_unlink(copy);
    }
    errno = why;
    return -1;
}

int audit_blank(struct audit_files *f, const struct audit_wish *wish, uint64_t *records,
                struct err *e)
{
    struct blank b = {.wish = wish};
    struct walk w = {.wish = wish, .visit = blank_visit, .context = &b};
    int rc = walk_init(&w) != 0 ? err_set(e, SHOAL_E_NOMEM, "no memory to read the archive") : 0;
    for (uint32_t i = 0; i < f->count && rc == 0; i++) {
        struct audit_file *file = &f->file[i];
        file->fd = open_unshared(file->path);
        if (file->fd < 0 && errno == ENOENT)
            continue;
        rc = file->fd < 0
                 ? err_set(e, SHOAL_E_IO, "cannot open %s: %s", file->path, strerror(errno))
                 : walk_segment(&w, file, e);
        if (rc == 0 && file_sync_data(file->fd) != 0)
            rc = err_set(e, SHOAL_E_IO, "cannot sync %s: %s", file->path, strerror(errno));
    }
    *records = b.records;
    walk_free(&w);
    return rc;
}
