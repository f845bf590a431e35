/* archive.c: a folder of old segments with a size limit, and searches for keys in segments. */
#include "embedding/journal/archive.h"

#include "embedding/journal/cursor.h"
#include "proto/base/array.h"
#include "proto/base/assert.h"
#include "proto/base/file.h"
#include "proto/base/key.h"
#include "proto/base/log.h"
#include "proto/job/packed.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
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
    SHOAL_ASSERT(a->count > 0 && a->bytes >= a->file[0].bytes);
    path_of(a, a->file[0].generation, path);
    file_unlink(path);
    a->bytes -= a->file[0].bytes;
    memmove(a->file, a->file + 1, --a->count * sizeof *a->file);
}

static void trim(struct archive *a)
{
    while (a->count > 0 && a->bytes > a->keep)
        drop_oldest(a);
    SHOAL_ASSERT(a->count > 0 || a->bytes == 0);
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
            /* a crash during open_unshared left it */
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
    if (!shared && file_truncate(path, bytes) != 0)
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
    SHOAL_ASSERT(i < a->count);
    *generation = a->file[i].generation;
    path_of(a, *generation, out);
}

void archive_clear(struct archive *a)
{
    while (a->count > 0)
        drop_oldest(a);
    SHOAL_ASSERT(a->bytes == 0);
}

/* ---- keys in one segment ---- */

struct found {
    const struct record_header *h;
    size_t bytes;   /* size of a key's data behind the keys: its gradient, or its row */
    char *payload;  /* the whole payload, in the cursor's window */
    uint32_t *hits; /* (hit_count): positions of wanted keys among the record's */
    uint32_t hit_count;
};

struct walk {
    const struct archive_wish *wish;
    uint32_t *hits;       /* owned; (LIMIT_KEYS) */
    uint64_t first, last; /* sequences of the segment's records; 0: none */
    uint64_t end;         /* offset behind the last record that was read */
    bool ends;            /* at a record that does not check; false: it is skipped */
    int (*visit)(void *context, struct journal_cursor *c, const struct found *r, struct err *e);
    /* a tablet that came from another shard, with its whole payload; NULL: they are skipped */
    int (*tablet)(void *context, struct journal_cursor *c, void *payload, size_t bytes,
                  struct err *e);
    /* a tablet of the table that was assigned (RECORD_ASSIGN); NULL: they are skipped */
    void (*assigned)(void *context, const struct record_header *h);
    void *context;
};

static uint32_t *hits_new(void)
{
    return malloc(LIMIT_KEYS * sizeof(uint32_t));
}

/* Checks that a key's gradient fits the room here, and that the keys are sorted. */
static bool wish_ok(const struct archive_wish *wish)
{
    bool ordered = true;
    for (uint32_t i = 1; i < wish->count; i++)
        ordered &= wish->keys[i - 1] <= wish->keys[i];
    return ordered && wish->schema->width <= LIMIT_WIDTH;
}

static bool wished(const struct archive_wish *wish, uint64_t key)
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

/* Bytes of a key's data in the record; 0: it has none of the table's keys. The data has one length
 * within a record, and another one in the next: gradients are packed or not, rows have their state
 * or not. So the length is the record's own. */
static size_t data_bytes(const struct archive_wish *wish, const struct record_header *h)
{
    const uint64_t keys = h->key_count, all = h->payload_bytes;
    if (!record_has_keys(h->kind) || h->sequence <= wish->above)
        return 0;
    if (h->table != wish->schema->table || keys == 0 || keys > LIMIT_KEYS)
        return 0;
    if (all % keys != 0 || all / keys <= sizeof(uint64_t))
        return 0;
    return all / keys - sizeof(uint64_t);
}

/* Finds the wanted keys in a push, or in rows, of the table; w->hits has their positions. END: the
 * record cannot be read. */
static int push_hits(struct walk *w, struct journal_cursor *c, struct found *f, struct err *e)
{
    const uint64_t *keys;
    f->bytes = data_bytes(w->wish, f->h);
    f->hit_count = 0;
    if (f->bytes == 0)
        return 0;
    int rc = cursor_keys(c, &keys, e);
    for (uint32_t i = 0; rc == 0 && i < f->h->key_count; i++)
        if (wished(w->wish, keys[i]))
            w->hits[f->hit_count++] = i;
    return rc;
}

/* True when the record brought the tablet of the wanted key whole. */
static bool assigns(const struct archive_wish *wish, const struct record_header *h)
{
    const struct table_schema *s = wish->schema;
    return h->kind == RECORD_ASSIGN && h->sequence > wish->above && h->table == s->table &&
           h->tablet_first == key_tablet(key_mix(wish->keys[0]), s->tablet_bits);
}

/* END: the record cannot be read. */
static int walk_record(struct walk *w, struct journal_cursor *c, const struct record_header *h,
                       struct err *e)
{
    struct found found = {.h = h, .hits = w->hits};
    void *payload;
    int rc = 0;
    if (w->tablet != NULL && h->kind == RECORD_TABLET_IN &&
        (rc = cursor_whole(c, &payload, e)) == 0)
        rc = w->tablet(w->context, c, payload, h->payload_bytes, e);
    if (w->assigned != NULL && assigns(w->wish, h) &&
        (rc = cursor_whole(c, &payload, e)) == 0) /* it is checked */
        w->assigned(w->context, h);
    if (rc == 0)
        rc = push_hits(w, c, &found, e);
    if (rc == 0 && found.hit_count > 0 && (rc = cursor_whole(c, &payload, e)) == 0) {
        found.payload = payload;
        rc = w->visit(w->context, c, &found, e);
    }
    return rc;
}

static int walk_segment(struct walk *w, struct journal_file *f, struct err *e)
{
    struct journal_files one = {f, 1};
    struct journal_cursor c;
    struct journal_record r;
    int rc;
    w->first = w->last = 0;
    w->end = SEGMENT_HEADER_BYTES;
    cursor_open(&c, &one, 0, UINT64_MAX, CURSOR_HEADS);
    while ((rc = cursor_next(&c, &r, e)) == 0) {
        if (atomic_load(w->wish->stop)) {
            rc = err_set(e, SHOAL_E_STOPPED, "the search was called off");
            break;
        }
        if (w->first == 0)
            w->first = r.head->sequence;

        w->last = r.head->sequence;
        rc = walk_record(w, &c, r.head, e);
        if (rc != 0 && (rc != SHOAL_E_END || w->ends))
            break;
        w->end = c.next;
    }
    cursor_close(&c);
    if (rc == SHOAL_E_END)
        return 0;
    return rc;
}

/* ---- blame ---- */

struct blame {
    const struct archive_wish *wish;
    struct blame_entry *ring; /* owned; (limit): the newest pushes of one segment */
    uint32_t limit, next, held;
};

static void gradient_of(const struct table_schema *s, const struct found *r,
                        struct blame_entry *out)
{
    const char *gradients = r->payload + r->h->key_count * sizeof(uint64_t);
    float g[LIMIT_WIDTH + 2];
    double squares = 0;
    SHOAL_ASSERT(r->hit_count > 0 && r->hits[0] < r->h->key_count);
    SHOAL_ASSERT(r->bytes == packed_bytes(s, r->h->width));
    packed_open(s, r->h->width, gradients + r->hits[0] * r->bytes, g, 1);
    for (uint32_t i = 0; i < s->width; i++)
        squares += (double)g[i] * (double)g[i];
    out->norm = sqrt(squares);
    if (s->rules.stats == 0)
        return;
    out->show = g[s->width];
    out->click = g[s->width + 1];
}

static struct blame_entry *blame_add(struct blame *b, const struct record_header *h)
{
    struct blame_entry *out = &b->ring[b->next];
    SHOAL_ASSERT(b->next < b->limit && b->held <= b->limit);
    *out = (struct blame_entry){.sequence = h->sequence,
                                .run = h->run,
                                .generation = h->generation,
                                .batch = h->to,
                                .lane = h->lane,
                                .event_time = h->event_time,
                                .lr_scale = h->lr_scale};
    b->next = (b->next + 1) % b->limit;
    b->held += b->held < b->limit;
    return out;
}

static int blame_visit(void *context, struct journal_cursor *c, const struct found *r,
                       struct err *e)
{
    struct blame *b = context;
    const struct table_schema *s = b->wish->schema;
    (void)c;
    (void)e;
    if (r->h->kind == RECORD_ROWS)
        blame_add(b, r->h)->assigned = true;
    else if (r->bytes == packed_bytes(s, r->h->width))
        gradient_of(s, r, blame_add(b, r->h));
    return 0;
}

static void blame_assigned(void *context, const struct record_header *h)
{
    blame_add(context, h)->assigned = true;
}

/* True when both are the same batch, sent twice. Rows of no run are no batch. */
static bool same_batch(const struct blame_entry *a, const struct blame_entry *b)
{
    return a->run != 0 && a->run == b->run && a->lane == b->lane && a->batch == b->batch;
}

/* Copies newest first into `out`. A batch that was sent again counts at its first occurrence. */
static void blame_take(struct blame *b, struct blame_entry *out, uint32_t limit, uint32_t *count)
{
    for (uint32_t i = 0; i < b->held; i++) {
        const struct blame_entry *in = &b->ring[(b->next + b->limit - 1 - i) % b->limit];
        uint32_t at = 0;
        while (at < *count && !same_batch(&out[at], in))
            at++;
        if (at < *count)
            memmove(&out[at], &out[at + 1], (--*count - at) * sizeof *out);
        if (*count < limit)
            out[(*count)++] = *in;
    }
    SHOAL_ASSERT(*count <= limit);
    b->next = b->held = 0;
}

int archive_blame(struct journal_files *f, const struct archive_wish *wish, struct blame_entry *out,
                  uint32_t limit, uint32_t *count, bool *complete, struct err *e)
{
    SHOAL_ASSERT(limit > 0 && wish_ok(wish));
    struct blame b = {.wish = wish, .limit = limit, .ring = malloc(limit * sizeof *out)};
    struct walk w = {.wish = wish,
                     .visit = blame_visit,
                     .assigned = blame_assigned,
                     .context = &b,
                     .hits = hits_new()};
    uint64_t first = 0;
    bool gap = false;
    int rc = 0;
    if (w.hits == NULL || b.ring == NULL)
        rc = err_set(e, SHOAL_E_NOMEM, "no memory to read the journal");

    *count = 0;
    uint32_t i = f->count;
    for (; i > 0 && rc == 0 && *count < limit; i--) {
        struct journal_file *file = &f->file[i - 1];
        if (file->fd < 0)
            file->fd = open(file->path, O_RDONLY | O_CLOEXEC);
        if (file->fd < 0)
            break; /* the archive has dropped this segment and the older ones */
        rc = walk_segment(&w, file, e);
        gap |= w.first > 0 && first > wish->above + 1 && w.last + 1 < first;
        if (w.first > 0)
            first = w.first;
        blame_take(&b, out, limit, count);
        close(file->fd);
        file->fd = -1;
    }
    *complete = rc == 0 && i == 0 && !gap && first > 0 && first <= wish->above + 1;
    free(w.hits);
    free(b.ring);
    return rc;
}

/* ---- blanking ---- */

struct blank {
    const struct archive_wish *wish;
    uint64_t records;
};

static int blank_visit(void *context, struct journal_cursor *c, const struct found *r,
                       struct err *e)
{
    struct blank *b = context;
    char *values = r->payload + r->h->key_count * sizeof(uint64_t);
    SHOAL_ASSERT(r->hit_count > 0 && r->hit_count <= r->h->key_count);
    for (uint32_t i = 0; i < r->hit_count; i++) {
        memset(r->payload + r->hits[i] * sizeof(uint64_t), 0, sizeof(uint64_t));
        memset(values + r->hits[i] * r->bytes, 0, r->bytes);
    }
    int rc = cursor_rewrite(c, e);
    b->records += rc == 0;
    return rc;
}

/* The rows of a tablet that came: nothing reads them any more, so all of them go. */
static int blank_tablet(void *context, struct journal_cursor *c, void *payload, size_t bytes,
                        struct err *e)
{
    struct blank *b = context;
    struct record_tablet_in in;
    if (bytes < sizeof in)
        return 0;
    memcpy(&in, payload, sizeof in);
    if (in.table != b->wish->schema->table)
        return 0;
    memset((char *)payload + sizeof in, 0, bytes - sizeof in);
    int rc = cursor_rewrite(c, e);
    b->records += rc == 0;
    return rc;
}

/* Removes what lies behind the records that were read: records of an older use of the file, which
 * archive_take leaves in a shared one, and damaged ones, of which nothing can be told. */
static int blank_rest(const struct journal_file *f, uint64_t end, struct err *e)
{
    struct stat st;
    int rc = fstat(f->fd, &st);
    if (rc == 0 && (uint64_t)st.st_size > end)
        rc = file_truncate(f->path, end);
    if (rc == 0)
        return 0;
    return err_set(e, SHOAL_E_IO, "cannot cut %s to its records: %s", f->path, strerror(errno));
}

/* A cut or a checkpoint may share the file and knows its checksum, so the archive gets a copy of
 * its own. Returns a descriptor for reading and writing, or -1 with errno. */
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

int archive_blank(struct journal_files *f, const struct archive_wish *wish, uint64_t *records,
                  struct err *e)
{
    SHOAL_ASSERT(wish_ok(wish));
    struct blank b = {.wish = wish};
    struct walk w = {.wish = wish,
                     .visit = blank_visit,
                     .ends = true,
                     .tablet = blank_tablet,
                     .context = &b,
                     .hits = hits_new()};
    int rc = 0;
    if (w.hits == NULL)
        rc = err_set(e, SHOAL_E_NOMEM, "no memory to read the archive");
    for (uint32_t i = 0; i < f->count && rc == 0; i++) {
        struct journal_file *file = &f->file[i];
        file->fd = open_unshared(file->path);
        if (file->fd < 0 && errno == ENOENT)
            continue;
        if (file->fd < 0)
            rc = err_set(e, SHOAL_E_IO, "cannot open %s: %s", file->path, strerror(errno));
        else
            rc = walk_segment(&w, file, e);
        if (rc == 0)
            rc = blank_rest(file, w.end, e);
        if (rc == 0 && file_sync_data(file->fd) != 0)
            rc = err_set(e, SHOAL_E_IO, "cannot sync %s: %s", file->path, strerror(errno));
    }
    *records = b.records;
    free(w.hits);
    return rc;
}
