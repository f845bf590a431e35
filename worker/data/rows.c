/* rows.c: slices laid out row by row: in memory, or kept and mapped; and read.
 *
 * 1. A row of a file is used only when its check fits it and its number.
 *    [test: rows_damaged_are_refused]
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

static int no_memory(struct err *e)
{
    return err_set(e, SHOAL_E_NOMEM, "no memory for parsed rows; free some");
}

/* ---- opening --------------------------------------------------------------------------------- */

void rows_close(struct rows *r)
{
    if (r->capacity > 0)
        free((void *)(uintptr_t)r->map);
    else if (r->map != NULL)
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

/* ---- laying out ------------------------------------------------------------------------------ */

#define LAID_AT_ONCE 256u /* rows: they stay near the core while column after column is put in */

/* A slice being laid out. */
struct laying {
    const struct columns *columns;
    const struct slice *slice;
    const struct rows_layout *layout;
    uint8_t *at;                /* its rows */
    uint64_t *place;            /* with a multi: (rows + 1); else NULL */
    uint32_t next[COLUMNS_MAX]; /* values of each column that are in their rows */
    uint8_t *row[LAID_AT_ONCE], *key[LAID_AT_ONCE];
};

/* Keys of rows with a multi lie one behind the other. */
static void keys_put(struct laying *l, uint32_t k, uint32_t field, uint32_t first, uint32_t rows)
{
    const struct slice_column *of = &l->slice->column[k];
    const uint64_t *from = (const uint64_t *)of->value + l->next[k];
    for (uint32_t i = 0; i < rows; i++) {
        uint32_t values = of->multi ? of->count[first + i] : 1;
        memcpy(l->row[i] + l->layout->count + (size_t)field * 4, &values, 4);
        memcpy(l->key[i], from, (size_t)values * 8);
        l->key[i] += (size_t)values * 8;
        from += values;
        l->next[k] += values;
    }
}

static void values_put(struct laying *l, uint32_t k, uint32_t offset, uint32_t first, uint32_t rows)
{
    const uint8_t *from = (const uint8_t *)l->slice->column[k].value;
    if (l->slice->column[k].width == 4)
        for (uint32_t i = 0; i < rows; i++)
            memcpy(l->row[i] + offset, from + (size_t)(first + i) * 4, 4);
    else
        for (uint32_t i = 0; i < rows; i++)
            memcpy(l->row[i] + offset, from + (size_t)(first + i) * 8, 8);
}

static void labels_put(struct laying *l, uint32_t k, uint32_t task, uint32_t first, uint32_t rows)
{
    const uint8_t *from = (const uint8_t *)l->slice->column[k].value + first;
    for (uint32_t i = 0; i < rows; i++)
        l->row[i][5] |= (uint8_t)(from[i] << task);
}

static void some_put(struct laying *l, uint32_t first, uint32_t rows)
{
    const struct rows_layout *o = l->layout;
    uint32_t task = 0, numeric = o->numeric, hash = o->hash, field = 0;
    for (uint32_t k = 0; k < l->columns->count; k++) {
        switch (l->columns->one[k].kind) {
        case COLUMNS_LABEL:
            labels_put(l, k, task++, first, rows);
            break;
        case COLUMNS_TIME:
            values_put(l, k, 8, first, rows);
            break;
        case COLUMNS_WEIGHT:
            values_put(l, k, 12, first, rows);
            break;
        case COLUMNS_NUMBER:
            values_put(l, k, numeric, first, rows);
            numeric += 4;
            break;
        case COLUMNS_HASH:
            values_put(l, k, hash, first, rows);
            hash += 8;
            break;
        default:
            if (o->multi)
                keys_put(l, k, field, first, rows);
            else
                values_put(l, k, o->key + field * 8, first, rows);
            field++;
        }
    }
}

/* Where each row begins, with a multi. */
static void places_find(struct laying *l)
{
    const struct slice *b = l->slice;
    for (uint32_t i = 0; i <= b->rows; i++)
        l->place[i] = 0;
    for (uint32_t k = 0; k < b->columns; k++)
        for (uint32_t i = 0; i < b->rows && l->columns->one[k].kind == COLUMNS_FIELD; i++)
            l->place[i + 1] += b->column[k].multi ? b->column[k].count[i] : 1;
    for (uint32_t i = 0; i < b->rows; i++) {
        uint64_t bytes = l->layout->key + l->place[i + 1] * 8;
        l->place[i + 1] = l->place[i] + (bytes < ROW_LEAST ? ROW_LEAST : bytes);
    }
}

static void rows_put(struct laying *l, uint32_t stride)
{
    uint32_t rows;
    for (uint32_t first = 0; first < l->slice->rows; first += rows) {
        rows = l->slice->rows - first;
        if (rows > LAID_AT_ONCE)
            rows = LAID_AT_ONCE;
        for (uint32_t i = 0; i < rows; i++) {
            l->row[i] = l->at + (stride > 0 ? (uint64_t)(first + i) * stride : l->place[first + i]);
            l->key[i] = l->row[i] + l->layout->key;
        }
        uint8_t *end =
            l->at + (stride > 0 ? (uint64_t)(first + rows) * stride : l->place[first + rows]);
        memset(l->row[0], 0, (size_t)(end - l->row[0]));
        some_put(l, first, rows);
    }
}

/* Texts of malformed rows, at `texts`; `at`: the rows. */
static void bad_put(const struct rows *r, const struct slice *b, uint8_t *at, char *texts)
{
    uint64_t text = 0;
    for (uint32_t i = 0; i < b->bad_rows; i++) {
        size_t bytes;
        const uint8_t *found = row_at(r, b->bad[i].row, &bytes);
        SHOAL_ASSERT(found != NULL);
        uint8_t *row = at + (found - r->map);
        uint32_t length = (uint32_t)strlen(b->bad[i].where);
        row[4] = 1;
        memcpy(row + TEXT_AT, &text, sizeof text);
        memcpy(row + TEXT_BYTES, &length, sizeof length);
        memcpy(texts + text, b->bad[i].where, length + 1ul);
        text += length + 1;
    }
}

/* Room for so much, and not much more. */
static int laid_room(struct rows *r, size_t bytes)
{
    if (bytes > r->capacity || bytes < r->capacity / 4) {
        rows_close(r);
        r->map = malloc(bytes);
        r->capacity = r->map != NULL ? bytes : 0;
    }
    return r->map != NULL ? 0 : SHOAL_E_NOMEM;
}

int rows_lay(struct rows *r, const struct features *f, const struct columns *c,
             const struct slice *b, struct err *e)
{
    struct rows_layout layout = layout_of(f);
    struct laying l = {.columns = c, .slice = b, .layout = &layout};
    uint32_t stride = stride_of(&layout);
    uint64_t *place = NULL, all = (uint64_t)b->rows * stride, texts = 0;
    SHOAL_ASSERT(c->count <= COLUMNS_MAX && b->columns == c->count);
    for (uint32_t i = 0; i < b->bad_rows; i++)
        texts += strlen(b->bad[i].where) + 1;
    if (layout.multi) {
        l.place = place = malloc((b->rows + 1ull) * sizeof *place);
        if (place == NULL)
            return no_memory(e);
        places_find(&l);
        all = place[b->rows];
    }
    uint64_t places = layout.multi ? (b->rows + 1ull) * sizeof *place : 0;
    if (laid_room(r, all + places + texts + 1) != 0) {
        free(place);
        return no_memory(e);
    }
    r->layout = layout;
    r->bytes = all + places + texts + sizeof r->end;
    r->end =
        (struct rows_end){.rows = b->rows, .places = all, .texts = all + places, .stride = stride};
    l.at = (uint8_t *)(uintptr_t)r->map;
    rows_put(&l, stride);
    if (places > 0)
        memcpy(l.at + all, place, places);
    bad_put(r, b, l.at, (char *)l.at + all + places);
    free(place);
    return 0;
}

uint32_t rows_row_bytes(const struct features *f, bool *least)
{
    struct rows_layout l = layout_of(f);
    uint32_t stride = stride_of(&l);
    *least = l.multi;
    return l.multi ? l.least : stride;
}

/* ---- making ---------------------------------------------------------------------------------- */

struct making {
    const struct rows_make *of;
    struct rows_layout layout;
    int fd;
    uint64_t bytes, rows;
    struct rows laid; /* the slice at hand */
    uint64_t *place;  /* owned: with a multi */
    size_t place_capacity;
    char *texts; /* owned */
    size_t text_bytes, text_capacity;
};

static int put(struct making *m, const void *data, size_t bytes, struct err *e)
{
    if (m->bytes + bytes > m->of->most)
        return err_set(e, SHOAL_E_TOO_BIG, "parsed rows would have more than %" PRIu64 " bytes",
                       m->of->most);
    m->bytes += bytes;
    return cache_write(m->of->cache, m->fd, data, bytes, e);
}

/* The slice's texts go behind those before. */
static int texts_add(struct making *m, const struct slice *b, struct err *e)
{
    const struct rows *r = &m->laid;
    size_t more = r->bytes - sizeof r->end - r->end.texts, bytes;
    if (m->text_bytes + more > TEXTS_MAX)
        return err_set(e, SHOAL_E_TOO_BIG, "more malformed rows than parsed ones are kept with");
    if (m->text_bytes + more > m->text_capacity &&
        array_reserve(&m->texts, 2 * m->text_bytes + more, &m->text_capacity) != 0)
        return no_memory(e);
    for (uint32_t i = 0; i < b->bad_rows; i++) {
        uint8_t *row = (uint8_t *)(uintptr_t)row_at(r, b->bad[i].row, &bytes) + TEXT_AT;
        uint64_t at;
        memcpy(&at, row, sizeof at);
        at += m->text_bytes;
        memcpy(row, &at, sizeof at);
    }
    if (more > 0)
        memcpy(m->texts + m->text_bytes, r->map + r->end.texts, more);
    m->text_bytes += more;
    return 0;
}

static int slice_rows_add(struct making *m, const struct slice *b, struct err *e)
{
    struct rows *r = &m->laid;
    int rc = rows_lay(r, m->of->features, m->of->columns, b, e);
    if (rc == 0 && m->layout.multi && m->rows + b->rows + 1 > m->place_capacity &&
        array_reserve(&m->place, 2 * m->rows + b->rows + 1, &m->place_capacity) != 0)
        rc = no_memory(e);
    if (rc == 0)
        rc = texts_add(m, b, e);
    for (uint32_t i = 0; i < b->rows && rc == 0; i++) {
        size_t bytes;
        uint8_t *row = (uint8_t *)(uintptr_t)row_at(r, i, &bytes);
        uint32_t check = check_of(row, bytes, m->rows);
        memcpy(row, &check, sizeof check);
        if (m->layout.multi)
            m->place[m->rows] = m->bytes + (uint64_t)(row - r->map);
        m->rows++;
    }
    if (rc == 0 && m->layout.multi)
        m->place[m->rows] = m->bytes + r->end.places;
    return rc == 0 ? put(m, r->map, r->end.places, e) : rc;
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
    while (rc == 0 && (rc = m->of->next(m->of->context, &b, e)) == 0)
        rc = slice_rows_add(m, b, e);
    if (rc == SHOAL_E_END)
        rc = end_add(m, e);
    rows_close(&m->laid);
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
    if (r->capacity == 0 && check != check_of(at, bytes, row)) /* 1 */
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
