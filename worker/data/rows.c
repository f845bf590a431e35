/* rows.c: slices laid out row by row, and read.
 *
 * 1. A row of a file is used only when its check fits it and its number.
 *    [test: rows_damaged_are_refused]
 * 2. Nothing outside of the block is read, whatever is in it: places, counts and texts are held
 *    against its size. [test: rows_damaged_are_refused] */
#include "worker/data/rows.h"

#include "proto/base/assert.h"
#include "proto/base/hash.h"
#include "worker/data/batch_inner.h"

#include <stdlib.h>
#include <string.h>

#define ROW_HEAD 16u
#define ROW_LEAST 24u /* room for what a malformed one has */
#define TEXT_AT 8u
#define TEXT_BYTES 16u

struct rows_layout rows_layout_of(const struct features *f)
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
    uint32_t bytes = l.key + l.fields * 8;
    l.stride = l.multi ? 0 : bytes < ROW_LEAST ? ROW_LEAST : bytes;
    return l;
}

void rows_free(struct rows *r)
{
    free((void *)(uintptr_t)r->at);
    *r = (struct rows){0};
}

static uint64_t place_of(const struct rows *r, uint32_t row)
{
    uint64_t place;
    memcpy(&place, r->at + (size_t)row * sizeof place, sizeof place);
    return place;
}

/* Bytes of the places, which the rows lie behind. */
static size_t places_bytes(const struct rows *r)
{
    return r->layout->multi ? ((size_t)r->rows + 1) * 8 : 0;
}

/* NULL: its place is none. */
static const uint8_t *row_at(const struct rows *r, uint32_t row, size_t *bytes)
{
    SHOAL_ASSERT(row < r->rows);
    if (!r->layout->multi) {
        *bytes = r->layout->stride;
        return r->at + (size_t)row * r->layout->stride;
    }
    uint64_t at = place_of(r, row), end = place_of(r, row + 1);
    if (at % 8 != 0 || end > r->bytes - places_bytes(r) || end < at || end - at < r->layout->least)
        return NULL;
    *bytes = end - at;
    return r->at + places_bytes(r) + at;
}

/* Where the texts begin, or more than there are bytes. */
static uint64_t texts_at(const struct rows *r)
{
    return r->layout->multi ? places_bytes(r) + place_of(r, r->rows)
                            : (uint64_t)r->rows * r->layout->stride;
}

static uint32_t check_of(const uint8_t *row, size_t bytes, uint64_t number)
{
    return (uint32_t)hash_bytes(row + 4, bytes - 4, number);
}

/* ---- laying out ------------------------------------------------------------------------------ */

static int no_memory(struct err *e)
{
    return err_set(e, SHOAL_E_NOMEM, "no memory for parsed rows; free some");
}

#define LAID_AT_ONCE 256u /* rows: they stay near the core while column after column is put in */

/* A slice being laid out. */
struct laying {
    const struct columns *columns;
    const struct slice *slice;
    const struct rows_layout *layout;
    uint8_t *at;                /* its rows */
    uint64_t *place;            /* with a multi: (rows + 1), in front of them; else NULL */
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

static void rows_put(struct laying *l)
{
    uint32_t rows, stride = l->layout->stride;
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

/* Texts of malformed rows. */
static void bad_put(struct rows *r, const struct slice *b)
{
    uint64_t text = 0;
    char *texts = (char *)(uintptr_t)r->at + texts_at(r);
    for (uint32_t i = 0; i < b->bad_rows; i++) {
        size_t bytes;
        uint8_t *row = (uint8_t *)(uintptr_t)row_at(r, b->bad[i].row, &bytes);
        SHOAL_ASSERT(row != NULL);
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
        rows_free(r);
        r->at = malloc(bytes);
        r->capacity = r->at != NULL ? bytes : 0;
    }
    return r->at != NULL ? 0 : SHOAL_E_NOMEM;
}

int rows_lay(struct rows *r, const struct rows_layout *layout, const struct columns *c,
             const struct slice *b, struct err *e)
{
    struct laying l = {.columns = c, .slice = b, .layout = layout};
    uint64_t *place = NULL, all = (uint64_t)b->rows * layout->stride, texts = 0;
    size_t places = layout->multi ? (b->rows + 1ull) * sizeof *place : 0;
    SHOAL_ASSERT(c->count <= COLUMNS_MAX && b->columns == c->count);
    for (uint32_t i = 0; i < b->bad_rows; i++)
        texts += strlen(b->bad[i].where) + 1;
    if (layout->multi) {
        l.place = place = malloc(places);
        if (place == NULL)
            return no_memory(e);
        places_find(&l);
        all = place[b->rows];
    }
    uint64_t bytes = (places + all + texts + 7) & ~7ull;
    if (laid_room(r, bytes) != 0) {
        free(place);
        return no_memory(e);
    }
    r->layout = layout;
    r->bytes = bytes;
    r->rows = b->rows;
    uint8_t *at = (uint8_t *)(uintptr_t)r->at;
    memset(at + places + all, 0, bytes - places - all);
    if (places > 0)
        memcpy(at, place, places);
    l.at = at + places;
    rows_put(&l);
    bad_put(r, b);
    free(place);
    return 0;
}

void rows_stamp(struct rows *r, uint64_t first)
{
    SHOAL_ASSERT(r->capacity > 0);
    for (uint32_t i = 0; i < r->rows; i++) {
        size_t bytes;
        uint8_t *row = (uint8_t *)(uintptr_t)row_at(r, i, &bytes);
        uint32_t check = check_of(row, bytes, first + i);
        memcpy(row, &check, sizeof check);
    }
}

/* ---- reading --------------------------------------------------------------------------------- */

uint32_t rows_time(const struct rows *r, uint32_t row)
{
    size_t bytes;
    uint32_t time = 0;
    const uint8_t *at = row_at(r, row, &bytes);
    if (at != NULL && at[4] == 0)
        memcpy(&time, at + 8, sizeof time);
    return time;
}

void rows_expect(const struct rows *r, uint32_t row)
{
    size_t bytes;
    const uint8_t *at = row_at(r, row, &bytes);
    size_t ahead = (uintptr_t)at % 64; /* of its first line, in front of it */
    for (size_t i = 0; at != NULL && i < ahead + bytes && i < 1024; i += 64)
        __builtin_prefetch(at - ahead + i, 0, 1);
}

/* The text of a malformed row, NULL: its place is none. */
static const char *text_of(const struct rows *r, const uint8_t *row)
{
    uint64_t at, texts = texts_at(r), all = texts < r->bytes ? r->bytes - texts : 0;
    uint32_t bytes;
    memcpy(&at, row + TEXT_AT, sizeof at);
    memcpy(&bytes, row + TEXT_BYTES, sizeof bytes);
    const char *text = (const char *)r->at + texts;
    return at < all && bytes < all - at && bytes < SLICE_WHERE && text[at + bytes] == '\0'
               ? text + at
               : NULL;
}

int rows_add(const struct rows *r, uint32_t row, struct batch *b, const struct features *f,
             bool positives_only, struct err *e)
{
    const struct rows_layout *l = r->layout;
    size_t bytes;
    uint32_t check;
    uint64_t keys = l->fields;
    const uint8_t *at = row_at(r, row, &bytes);
    if (at == NULL)
        return SHOAL_E_CHECKSUM;
    memcpy(&check, at, sizeof check);
    if (r->capacity == 0 && check != check_of(at, bytes, r->first + row)) /* 1 */
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
