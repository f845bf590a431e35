/* rows.c: the kept form of a split: made from slices, mapped, read row by row.
 *
 * 1. A row is used only when its check fits it and its number. [test: rows_damaged_are_refused]
 * 2. Nothing outside of the file's rows is read, whatever is in it: places, counts and texts are
 *    held against its size. [test: rows_damaged_are_refused] */
#include "worker/data/rows.h"

#include "proto/base/array.h"
#include "proto/base/assert.h"
#include "proto/base/file.h"
#include "proto/base/hash.h"
#include "worker/data/batch_inner.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC "SHOALRW1"
#define SUFFIX "rows"
#define BUFFER_BYTES (1u << 20)
#define TEXTS_MAX (16u << 20)
#define ROW_HEAD 16u
#define ROW_LEAST 24u /* room for what a malformed one has */
#define TEXT_AT 8u
#define TEXT_BYTES 16u

static struct rows_layout layout_of(const struct features *f)
{
    struct rows_layout l = {.fields = f->shape.fields,
                            .numerics = f->shape.numerics,
                            .hashes = (f->group != FEATURE_NO_COLUMN) + f->by_count,
                            .multi = f->multi};
    l.numeric = ROW_HEAD;
    l.hash = (l.numeric + l.numerics * 4 + 7) & ~7u;
    l.count = l.hash + l.hashes * 8;
    l.key = l.count + (l.multi ? (l.fields * 4 + 7) & ~7u : 0);
    l.least = l.key < ROW_LEAST ? ROW_LEAST : l.key;
    return l;
}

static uint32_t stride_of(const struct rows_layout *l)
{
    uint32_t bytes = l->key + l->fields * 8;
    return l->multi ? 0 : bytes < ROW_LEAST ? ROW_LEAST : bytes;
}

static uint32_t check_of(const uint8_t *row, size_t bytes, uint64_t number)
{
    return (uint32_t)hash_bytes(row + 4, bytes - 4, number);
}

/* ---- opening --------------------------------------------------------------------------------- */

void rows_close(struct rows *r)
{
    if (r->map != NULL)
        munmap((void *)(uintptr_t)r->map, r->bytes);
    *r = (struct rows){0};
}

/* Whether the end is one of such rows, and its numbers are those of the file. */
static bool end_fits(const struct rows *r, uint64_t identity)
{
    const struct rows_end *end = &r->end;
    uint64_t body = r->bytes - sizeof *end;
    bool good = memcmp(end->magic, MAGIC, sizeof end->magic) == 0 && end->identity == identity &&
                end->sum == hash_bytes(end, offsetof(struct rows_end, sum), 0) &&
                end->stride == stride_of(&r->layout) && end->places <= end->texts &&
                end->texts <= body && end->rows <= end->places / ROW_LEAST;
    if (!good)
        return false;
    return end->stride == 0
               ? end->places % 8 == 0 && end->texts - end->places == (end->rows + 1) * 8
               : end->places == end->texts && end->places == end->rows * end->stride;
}

/* fd is closed. */
static int map(int fd, const struct rows_name *name, const struct features *f, struct rows *out)
{
    struct stat st;
    *out = (struct rows){.layout = layout_of(f)};
    int rc = fstat(fd, &st) != 0 || st.st_size < (off_t)sizeof out->end ? SHOAL_E_NOT_FOUND : 0;
    void *at = rc == 0 ? mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;
    close(fd);
    if (at == MAP_FAILED)
        return SHOAL_E_NOT_FOUND;
    out->map = at;
    out->bytes = (size_t)st.st_size;
    memcpy(&out->end, out->map + out->bytes - sizeof out->end, sizeof out->end);
    if (end_fits(out, name->identity))
        return 0;
    rows_close(out);
    return SHOAL_E_NOT_FOUND;
}

int rows_find(const struct cache *cache, struct rows_name name, const struct features *f,
              struct rows *out, struct err *e)
{
    int fd = cache_find(cache, name.group, name.identity, SUFFIX);
    return fd >= 0 && map(fd, &name, f, out) == 0
               ? 0
               : err_set(e, SHOAL_E_NOT_FOUND, "no parsed rows are kept in %s", cache->folder);
}

/* ---- making ---------------------------------------------------------------------------------- */

struct making {
    const struct rows_make *of;
    struct rows_layout layout;
    int fd;
    uint64_t bytes, rows;
    uint8_t *buffer; /* owned */
    size_t used, capacity;
    uint64_t *place; /* owned: with a multi */
    size_t place_capacity;
    char *texts; /* owned */
    size_t text_bytes, text_capacity;
    uint64_t *next; /* owned: (columns): values of each column that have been written */
};

static int no_memory(struct err *e)
{
    return err_set(e, SHOAL_E_NOMEM, "no memory to keep parsed rows; free some");
}

static int put(struct making *m, const void *data, size_t bytes, struct err *e)
{
    if (m->bytes + bytes > m->of->most)
        return err_set(e, SHOAL_E_TOO_BIG, "parsed rows would have more than %" PRIu64 " bytes",
                       m->of->most);
    m->bytes += bytes;
    return cache_write(m->of->cache, m->fd, data, bytes, e);
}

static int text_add(struct making *m, const char *where, uint8_t *row)
{
    uint32_t bytes = (uint32_t)strlen(where);
    uint64_t at = m->text_bytes;
    if (m->text_bytes + bytes + 1 > TEXTS_MAX)
        return SHOAL_E_TOO_BIG;
    if (m->text_bytes + bytes + 1 > m->text_capacity &&
        array_reserve(&m->texts, 2 * m->text_bytes + SLICE_WHERE, &m->text_capacity) != 0)
        return SHOAL_E_NOMEM;
    memcpy(m->texts + at, where, bytes + 1);
    m->text_bytes += bytes + 1;
    row[4] = 1;
    memcpy(row + TEXT_AT, &at, sizeof at);
    memcpy(row + TEXT_BYTES, &bytes, sizeof bytes);
    return 0;
}

/* Bytes of row i of a slice. */
static uint32_t row_bytes(const struct making *m, const struct slice *b, uint32_t i)
{
    const struct columns *c = m->of->columns;
    uint32_t keys = 0, bytes;
    if (!m->layout.multi)
        return stride_of(&m->layout);
    for (uint32_t k = 0; k < c->count; k++)
        if (c->one[k].kind == COLUMNS_FIELD)
            keys += c->one[k].multi ? b->column[k].count[i] : 1;
    bytes = m->layout.key + keys * 8;
    return bytes < ROW_LEAST ? ROW_LEAST : bytes;
}

/* Row i of a slice, zeroed before. */
static void row_fill(struct making *m, const struct slice *b, uint32_t i, uint8_t *row)
{
    const struct columns *c = m->of->columns;
    const struct rows_layout *l = &m->layout;
    uint8_t *numeric = row + l->numeric, *hash = row + l->hash, *count = row + l->count,
            *key = row + l->key;
    for (uint32_t k = 0, task = 0; k < c->count; k++) {
        const struct slice_column *of = &b->column[k];
        const uint8_t *from = (const uint8_t *)of->value + m->next[k] * of->width;
        uint32_t values = of->multi ? of->count[i] : 1;
        m->next[k] += values;
        switch (c->one[k].kind) {
        case COLUMNS_LABEL:
            row[5] |= (uint8_t)(*from << task++);
            break;
        case COLUMNS_TIME:
            memcpy(row + 8, from, 4);
            break;
        case COLUMNS_WEIGHT:
            memcpy(row + 12, from, 4);
            break;
        case COLUMNS_NUMBER:
            memcpy(numeric, from, 4);
            numeric += 4;
            break;
        case COLUMNS_HASH:
            memcpy(hash, from, 8);
            hash += 8;
            break;
        default:
            memcpy(key, from, (size_t)values * 8);
            key += (size_t)values * 8;
            if (l->multi)
                memcpy(count, &values, 4);
            count += l->multi ? 4 : 0;
        }
    }
}

static int flush(struct making *m, struct err *e)
{
    int rc = put(m, m->buffer, m->used, e);
    m->used = 0;
    return rc;
}

static int row_add(struct making *m, const struct slice *b, uint32_t i, const char *where,
                   struct err *e)
{
    uint32_t bytes = row_bytes(m, b, i), check;
    int rc = m->used + bytes > BUFFER_BYTES ? flush(m, e) : 0;
    if (rc == 0 && array_reserve(&m->buffer, m->used + bytes < BUFFER_BYTES ? BUFFER_BYTES : bytes,
                                 &m->capacity) != 0)
        return no_memory(e);
    if (rc == 0 && m->layout.multi) {
        if (array_room(&m->place, m->rows + 1, &m->place_capacity, 4096) != 0)
            return no_memory(e);
        m->place[m->rows] = m->bytes + m->used;
        m->place[m->rows + 1] = m->bytes + m->used + bytes;
    }
    if (rc != 0)
        return rc;
    uint8_t *row = m->buffer + m->used;
    memset(row, 0, bytes);
    row_fill(m, b, i, row);
    if (where != NULL) {
        rc = text_add(m, where, row);
        if (rc != 0)
            return rc == SHOAL_E_NOMEM
                       ? no_memory(e)
                       : err_set(e, rc, "more malformed rows than parsed ones are kept with");
    }
    check = check_of(row, bytes, m->rows);
    memcpy(row, &check, sizeof check);
    m->used += bytes;
    m->rows++;
    return 0;
}

static int slice_rows_add(struct making *m, const struct slice *b, struct err *e)
{
    uint32_t bad = 0;
    int rc = 0;
    memset(m->next, 0, sizeof *m->next * b->columns);
    for (uint32_t i = 0; i < b->rows && rc == 0; i++) {
        bool is_bad = bad < b->bad_rows && b->bad[bad].row == i;
        rc = row_add(m, b, i, is_bad ? b->bad[bad].where : NULL, e);
        bad += is_bad;
    }
    return rc;
}

static int end_add(struct making *m, struct err *e)
{
    struct rows_end end = {.identity = m->of->name.identity,
                           .rows = m->rows,
                           .places = m->bytes,
                           .stride = stride_of(&m->layout)};
    int rc = 0;
    if (m->layout.multi && m->rows > 0)
        rc = put(m, m->place, sizeof *m->place * (m->rows + 1), e);
    end.texts = m->bytes;
    memcpy(end.magic, MAGIC, sizeof end.magic);
    end.sum = hash_bytes(&end, offsetof(struct rows_end, sum), 0);
    if (rc == 0)
        rc = put(m, m->texts, m->text_bytes, e);
    return rc == 0 ? put(m, &end, sizeof end, e) : rc;
}

static int all_add(struct making *m, struct err *e)
{
    struct slice *b;
    int rc = 0;
    m->next = calloc(m->of->columns->count, sizeof *m->next);
    if (m->next == NULL)
        return no_memory(e);
    while (rc == 0 && (rc = m->of->next(m->of->context, &b, e)) == 0)
        rc = slice_rows_add(m, b, e);
    if (rc == SHOAL_E_END)
        rc = flush(m, e);
    if (rc == 0)
        rc = end_add(m, e);
    free(m->next);
    free(m->buffer);
    free(m->place);
    free(m->texts);
    return rc;
}

/* Into a file that has no name. */
static int spool(struct making *m, struct rows *out, struct err *e)
{
    int rc = cache_spool(m->of->cache, &m->fd, e);
    if (rc != 0)
        return rc;
    rc = all_add(m, e);
    if (rc != 0) {
        close(m->fd);
        return rc;
    }
    return map(m->fd, &m->of->name, m->of->features, out) == 0
               ? 0
               : err_set(e, SHOAL_E_IO, "%s: cannot map parsed rows: %s", m->of->cache->folder,
                         strerror(errno));
}

static int keep(struct making *m, struct rows *out, struct err *e)
{
    const struct rows_make *of = m->of;
    struct cache_file file;
    int fd;
    int rc = cache_create(of->cache, of->name.group, of->name.identity, SUFFIX, &file, e);
    if (rc != 0)
        return rc;
    m->fd = file.fd;
    rc = all_add(m, e);
    if (rc != 0) {
        cache_drop(&file);
        return rc;
    }
    rc = cache_keep(&file, &fd, e);
    if (rc != 0)
        return rc;
    return map(fd, &of->name, of->features, out) == 0
               ? 0
               : err_set(e, SHOAL_E_IO, "%s: cannot map parsed rows: %s", of->cache->folder,
                         strerror(errno));
}

int rows_make(const struct rows_make *m, struct rows *out, struct err *e)
{
    struct making making = {.of = m, .layout = layout_of(m->features), .fd = -1};
    if (m->nameless)
        return spool(&making, out, e);
    int lock = cache_lock(m->cache, m->name.group, m->name.identity, SUFFIX);
    int rc = rows_find(m->cache, m->name, m->features, out, e) == 0 ? 0 : keep(&making, out, e);
    if (lock >= 0)
        close(lock);
    return rc;
}

uint64_t rows_kept(const struct cache *cache, uint64_t group)
{
    char prefix[32], path[LIMIT_PATH + 300];
    struct file_walk walk;
    struct stat st;
    const char *entry;
    uint64_t bytes = 0;
    snprintf(prefix, sizeof prefix, "%016" PRIx64 "-", group);
    if (!file_walk_open(&walk, cache->folder))
        return 0;
    while ((entry = file_walk_next(&walk)) != NULL) {
        const char *dot = strrchr(entry, '.');
        snprintf(path, sizeof path, "%s/%s", cache->folder, entry);
        if (dot != NULL && strcmp(dot + 1, SUFFIX) == 0 &&
            strncmp(entry, prefix, strlen(prefix)) != 0 && stat(path, &st) == 0)
            bytes += (uint64_t)st.st_size;
    }
    file_walk_close(&walk);
    return bytes;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* NULL: its place is none. */
static const uint8_t *row_at(const struct rows *r, uint64_t row, size_t *bytes)
{
    uint64_t place[2];
    SHOAL_ASSERT(row < r->end.rows);
    if (!r->layout.multi) {
        *bytes = r->end.stride;
        return r->map + row * r->end.stride;
    }
    memcpy(place, r->map + r->end.places + row * 8, sizeof place);
    if (place[0] % 8 != 0 || place[1] > r->end.places || place[1] < place[0] ||
        place[1] - place[0] < r->layout.least)
        return NULL;
    *bytes = place[1] - place[0];
    return r->map + place[0];
}

uint32_t rows_time(const struct rows *r, uint64_t row)
{
    size_t bytes;
    uint32_t time = 0;
    const uint8_t *at = row_at(r, row, &bytes);
    if (at != NULL && at[4] == 0)
        memcpy(&time, at + 8, sizeof time);
    return time;
}

void rows_expect(const struct rows *r, uint64_t row)
{
    size_t bytes;
    const uint8_t *at = row_at(r, row, &bytes);
    for (size_t i = 0; at != NULL && i < bytes && i < 1024; i += 64)
        __builtin_prefetch(at + i, 0, 1);
}

/* The text of a malformed row, NULL: its place is none. */
static const char *text_of(const struct rows *r, const uint8_t *row)
{
    uint64_t at, all = r->bytes - sizeof r->end - r->end.texts;
    uint32_t bytes;
    memcpy(&at, row + TEXT_AT, sizeof at);
    memcpy(&bytes, row + TEXT_BYTES, sizeof bytes);
    const char *text = (const char *)r->map + r->end.texts;
    return at < all && bytes < all - at && bytes < SLICE_WHERE && text[at + bytes] == '\0'
               ? text + at
               : NULL;
}

int rows_add(const struct rows *r, uint64_t row, struct batch *b, const struct features *f,
             bool positives_only, struct err *e)
{
    const struct rows_layout *l = &r->layout;
    size_t bytes;
    uint32_t check;
    uint64_t keys = l->fields;
    const uint8_t *at = row_at(r, row, &bytes);
    if (at == NULL)
        return SHOAL_E_CHECKSUM;
    memcpy(&check, at, sizeof check);
    if (check != check_of(at, bytes, row)) /* 1 */
        return SHOAL_E_CHECKSUM;
    struct stored s = {.labels = at[5],
                       .numeric = (const float *)(const void *)(at + l->numeric),
                       .hash = (const uint64_t *)(const void *)(at + l->hash),
                       .count = (const uint32_t *)(const void *)(at + l->count),
                       .key = (const uint64_t *)(const void *)(at + l->key)};
    memcpy(&s.time, at + 8, sizeof s.time);
    memcpy(&s.weight, at + 12, sizeof s.weight);
    if (at[4] != 0) {
        s.where = text_of(r, at);
        return s.where != NULL ? batch_add_stored(b, f, &s, positives_only, e) : SHOAL_E_CHECKSUM;
    }
    if (l->multi) {
        keys = 0;
        for (uint32_t i = 0; i < l->fields; i++)
            keys += s.count[i];
        if (keys > (bytes - l->key) / 8)
            return SHOAL_E_CHECKSUM;
    }
    s.keys = (uint32_t)keys;
    return batch_add_stored(b, f, &s, positives_only, e);
}
