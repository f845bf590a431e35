/* audit.c: walking segments for keys. */
#include "embedding/journal/audit.h"

#include "proto/base/file.h"
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- one segment ---- */

struct found {
    const struct record_header *h;
    char *payload;  /* the whole of it, in the cursor's window */
    uint32_t *hits; /* (hit_count): positions of wished keys among the record's */
    uint32_t hit_count;
};

struct walk {
    const struct audit_wish *wish;
    uint32_t *hits; /* owned; (LIMIT_KEYS) */
    uint64_t first; /* sequence of the first record of the segment; 0: none */
    int (*visit)(void *context, struct journal_cursor *c, const struct found *r, struct err *e);
    void *context;
};

static uint32_t *hits_new(void)
{
    return malloc(LIMIT_KEYS * sizeof(uint32_t));
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

/* Whether a push of the table has any of the keys; w->hits says where. END: it cannot be read. */
static int push_hits(struct walk *w, struct journal_cursor *c, const struct record_header *h,
                     uint32_t *count, struct err *e)
{
    const uint64_t *keys;
    uint64_t key_bytes = sizeof(uint64_t) + w->wish->floats * sizeof(float);
    *count = 0;
    if (h->kind != RECORD_PUSH || h->table != w->wish->table || h->key_count > LIMIT_KEYS ||
        h->payload_bytes != h->key_count * key_bytes)
        return 0;
    int rc = cursor_keys(c, &keys, e);
    for (uint32_t i = 0; rc == 0 && i < h->key_count; i++)
        if (wished(w->wish, keys[i]))
            w->hits[(*count)++] = i;
    return rc;
}

static int walk_segment(struct walk *w, struct journal_file *f, struct err *e)
{
    struct journal_files one = {f, 1};
    struct journal_cursor c;
    struct journal_record r;
    int rc;
    w->first = 0;
    cursor_open(&c, &one, 0, UINT64_MAX, CURSOR_HEADS);
    while ((rc = cursor_next(&c, &r, e)) == 0) {
        struct found found = {.h = r.head, .hits = w->hits};
        void *payload;
        if (atomic_load(w->wish->stop)) {
            rc = err_set(e, SHOAL_E_STOPPED, "the search was called off");
            break;
        }
        w->first = w->first == 0 ? r.head->sequence : w->first;
        rc = push_hits(w, &c, r.head, &found.hit_count, e);
        if (rc == 0 && found.hit_count > 0 && (rc = cursor_whole(&c, &payload, e)) == 0) {
            found.payload = payload;
            rc = w->visit(w->context, &c, &found, e);
        }
        if (rc != 0 && rc != SHOAL_E_END) /* END: damaged, and passed over */
            break;
    }
    cursor_close(&c);
    return rc == SHOAL_E_END ? 0 : rc;
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
    const char *floats = r->payload + r->h->key_count * sizeof(uint64_t);
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

static int blame_visit(void *context, struct journal_cursor *c, const struct found *r,
                       struct err *e)
{
    struct blame *b = context;
    struct blame_entry *out = &b->ring[b->next];
    (void)c;
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

int audit_blame(struct journal_files *f, const struct audit_wish *wish, struct blame_entry *out,
                uint32_t limit, uint32_t *count, bool *complete, struct err *e)
{
    struct blame b = {.wish = wish, .limit = limit, .ring = malloc(limit * sizeof *out)};
    struct walk w = {.wish = wish, .visit = blame_visit, .context = &b, .hits = hits_new()};
    uint64_t first = 0;
    int rc = w.hits == NULL || b.ring == NULL
                 ? err_set(e, SHOAL_E_NOMEM, "no memory to read the journal")
                 : 0;
    *count = 0;
    uint32_t i = f->count;
    for (; i > 0 && rc == 0 && *count < limit; i--) {
        struct journal_file *file = &f->file[i - 1];
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
    free(w.hits);
    free(b.ring);
    return rc;
}

/* ---- blanking ---- */

struct blank {
    const struct audit_wish *wish;
    uint64_t records;
};

static int blank_visit(void *context, struct journal_cursor *c, const struct found *r,
                       struct err *e)
{
    struct blank *b = context;
    size_t floats_bytes = b->wish->floats * sizeof(float);
    char *values = r->payload + r->h->key_count * sizeof(uint64_t);
    for (uint32_t i = 0; i < r->hit_count; i++) {
        memset(r->payload + r->hits[i] * sizeof(uint64_t), 0, sizeof(uint64_t));
        memset(values + r->hits[i] * floats_bytes, 0, floats_bytes);
    }
    int rc = cursor_rewrite(c, e);
    b->records += rc == 0;
    return rc;
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

int audit_blank(struct journal_files *f, const struct audit_wish *wish, uint64_t *records,
                struct err *e)
{
    struct blank b = {.wish = wish};
    struct walk w = {.wish = wish, .visit = blank_visit, .context = &b, .hits = hits_new()};
    int rc = w.hits == NULL ? err_set(e, SHOAL_E_NOMEM, "no memory to read the archive") : 0;
    for (uint32_t i = 0; i < f->count && rc == 0; i++) {
        struct journal_file *file = &f->file[i];
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
    free(w.hits);
    return rc;
}
