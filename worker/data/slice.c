/* slice.c: makes parsed rows from lines, and reads them.
 *
 * 1. A row of a file is used only when its check matches it and its number.
 *    [test: rows_damaged_are_refused]
 * 2. Nothing outside the slice is read, whatever it contains: places, counts and texts are checked
 *    against its size. [test: rows_damaged_are_refused] */
#include "worker/data/slice.h"

#include "proto/base/array.h"
#include "proto/base/assert.h"
#include "proto/base/hash.h"
#include "proto/base/minmax.h"
#include "worker/data/batch_inner.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* values of all multi columns at which a slice is full, whatever its rows */
#define VALUES_FULL (1u << 20)
#define ROW_HEAD 16u
#define ROW_LEAST 24u /* the size of a malformed row */
#define TEXT_AT 8u
#define TEXT_BYTES 16u

struct slice_layout slice_layout_of(const struct columns *c)
{
    uint32_t of[COLUMNS_KINDS] = {0}, reals = 0;
    struct slice_layout l = {.numeric = ROW_HEAD};
    for (uint32_t i = 0; i < c->count; i++) {
        if (c->one[i].real)
            l.real_labels |= 1u << of[COLUMNS_LABEL];
        reals += c->one[i].real;
        of[c->one[i].kind]++;
        l.singles += c->one[i].kind == COLUMNS_FIELD && !c->one[i].multi;
        l.weighted |= c->one[i].weighted;
    }
    l.fields = of[COLUMNS_FIELD];
    l.multi = l.singles < l.fields;
    l.timed = of[COLUMNS_TIME] > 0;
    l.real = l.numeric + of[COLUMNS_NUMBER] * 4;
    l.hash = (l.real + reals * 4 + 7) & ~7u;
    l.count = l.hash + of[COLUMNS_HASH] * 8;
    l.key = l.count;
    if (l.multi)
        l.key += (l.fields * 4 + 7) & ~7u;
    l.least = MAX(l.key, ROW_LEAST);
    uint32_t bytes = l.key + l.fields * 8;
    if (l.multi)
        l.stride = 0;
    else if (bytes < ROW_LEAST)
        l.stride = ROW_LEAST;
    else
        l.stride = bytes;

    return l;
}

void slice_free(struct slice *s)
{
    if (s->capacity > 0)
        free(s->at);
    *s = (struct slice){0};
}

/* ---- reading --------------------------------------------------------------------------------- */

uint64_t *slice_places(const struct slice *s)
{
    SHOAL_ASSERT(s->layout->multi);
    return (uint64_t *)(void *)(s->at + s->bytes) - (s->rows + 1ul);
}

/* Bytes of rows and texts. */
static size_t body_bytes(const struct slice *s)
{
    if (!s->layout->multi)
        return s->bytes;
    return s->bytes - (s->rows + 1ul) * 8;
}

uint8_t *slice_at(const struct slice *s, uint32_t row, size_t *bytes)
{
    SHOAL_ASSERT(row < s->rows);
    if (!s->layout->multi) {
        *bytes = s->layout->stride;
        return s->at + (size_t)row * s->layout->stride;
    }
    const uint64_t *place = slice_places(s) + row;
    if (place[0] % 8 != 0 || place[1] > body_bytes(s) || place[1] < place[0] ||
        place[1] - place[0] < s->layout->least)
        return NULL;
    *bytes = place[1] - place[0];
    return s->at + place[0];
}

static uint32_t check_of(const uint8_t *row, size_t bytes, uint64_t number)
{
    return (uint32_t)hash_bytes(row + 4, bytes - 4, number);
}

/* Offset of the texts; it may lie beyond the end. */
static uint64_t texts_at(const struct slice *s)
{
    if (s->layout->multi)
        return slice_places(s)[s->rows];

    return (uint64_t)s->rows * s->layout->stride;
}

/* The text of a malformed row; NULL: its offset is invalid. */
static const char *text_of(const struct slice *s, const uint8_t *row)
{
    uint64_t at, texts = texts_at(s), all = SAT_SUB(body_bytes(s), texts);
    uint32_t bytes;
    memcpy(&at, row + TEXT_AT, sizeof at);
    memcpy(&bytes, row + TEXT_BYTES, sizeof bytes);
    const char *text = (const char *)s->at + texts;

    if (at < all && bytes < all - at && bytes < SLICE_WHERE && text[at + bytes] == '\0')
        return text + at;

    return NULL;
}

int slice_row(const struct slice *s, uint32_t row, struct slice_row *out)
{
    const struct slice_layout *l = s->layout;
    size_t bytes;
    uint32_t check;
    const uint8_t *at = slice_at(s, row, &bytes);
    if (at == NULL)
        return SHOAL_E_CHECKSUM;
    memcpy(&check, at, sizeof check);
    if (s->capacity == 0 && check != check_of(at, bytes, s->first + row)) /* 1 */
        return SHOAL_E_CHECKSUM;
    if (at[4] != 0) {
        *out = (struct slice_row){.where = text_of(s, at)};
        if (out->where == NULL)
            return SHOAL_E_CHECKSUM;
        return 0;
    }
    *out = (struct slice_row){.labels = at[5],
                              .real_labels = l->real_labels,
                              .missing = at[6],
                              .real = (const float *)(const void *)(at + l->real),
                              .numeric = (const float *)(const void *)(at + l->numeric),
                              .hash = (const uint64_t *)(const void *)(at + l->hash),
                              .count = (const uint32_t *)(const void *)(at + l->count),
                              .key = (const uint64_t *)(const void *)(at + l->key),
                              .keys = l->fields};
    memcpy(&out->time, at + 8, sizeof out->time);
    memcpy(&out->weight, at + 12, sizeof out->weight);
    if (l->multi) {
        uint64_t keys = 0;
        for (uint32_t i = 0; i < l->fields; i++)
            keys += out->count[i];
        if (keys > (bytes - l->key) / 8 || slice_keys_bytes(l, keys) > bytes - l->key)
            return SHOAL_E_CHECKSUM;
        out->keys = (uint32_t)keys;
        if (l->weighted)
            out->value_weight = (const float *)(const void *)(out->key + keys);
    }
    return 0;
}

bool slice_labels(const struct slice_row *row, uint32_t tasks, float *label)
{
    bool any = false;
    uint32_t real = 0;
    for (uint32_t t = 0; t < tasks; t++) {
        if (row->real_labels >> t & 1)
            label[t] = row->real[real++];
        else if (row->missing >> t & 1)
            label[t] = NAN;
        else
            label[t] = (float)(row->labels >> t & 1);
        any |= !isnan(label[t]);
    }
    return any;
}

uint32_t slice_time(const struct slice *s, uint32_t row)
{
    size_t bytes;
    uint32_t time = 0;
    const uint8_t *at = slice_at(s, row, &bytes);
    if (at != NULL && at[4] == 0)
        memcpy(&time, at + 8, sizeof time);
    return time;
}

void slice_expect(const struct slice *s, uint32_t row)
{
    size_t bytes;
    const uint8_t *at = slice_at(s, row, &bytes);
    size_t ahead = (uintptr_t)at % 64; /* offset of the row in its first cache line */
    for (size_t i = 0; at != NULL && i < ahead + bytes && i < 1024; i += 64)
        __builtin_prefetch(at - ahead + i, 0, 1);
}

void slice_times(const struct slice *s, uint32_t *first, uint32_t *last)
{
    *first = *last = 0;
    for (uint32_t i = 0; i < s->rows && s->layout->timed; i++) {
        uint32_t time = slice_time(s, i);
        if (time != 0 && (*first == 0 || time < *first))
            *first = time;

        if (time > *last)
            *last = time;
    }
}

/* ---- from lines ------------------------------------------------------------------------------ */

static int no_memory(struct err *e)
{
    return err_set(e, SHOAL_E_NOMEM, "no memory for a slice of rows; free some");
}

void slice_maker_free(struct slice_maker *m)
{
    slice_free(&m->slice);
    free(m->cell);
    free(m->text);
    free(m->place);
    free(m->weight);
    *m = (struct slice_maker){.bytes = 0};
}

void slice_begin(struct slice_maker *m, const struct slice_layout *l)
{
    m->slice.layout = l;
    m->slice.rows = m->slice.bad_rows = 0;
    m->bytes = m->text_bytes = 0;
    m->keys = 0;
}

/* Room for `bytes`, at least twice the old capacity. */
#define more(array, bytes, capacity)                                                               \
    array_reserve((array), (bytes) > *(capacity) ? 2 * (bytes) : (bytes), (capacity))

/* Room for a line's row behind the previous rows; its head is zeroed. NULL: no memory. */
static uint8_t *row_room(struct slice_maker *m, const struct line *line)
{
    const struct slice_layout *l = m->slice.layout;
    /* each value of a multi takes at least one byte */
    size_t keys = l->fields + (l->multi ? line->bytes : 0) + 1;
    if (more(&m->slice.at, m->bytes + ROW_LEAST + l->key + slice_keys_bytes(l, keys),
             &m->slice.capacity) != 0 ||
        (l->weighted && more(&m->weight, keys, &m->weight_capacity) != 0))
        return NULL;
    uint8_t *row = m->slice.at + m->bytes;
    memset(row, 0, l->multi ? l->least : l->stride);
    return row;
}

/* Places the weights behind the keys. The padding is zeroed, because the row's check covers it. */
static void weights_place(const struct slice_maker *m, uint8_t *row, uint32_t keys)
{
    uint8_t *to = row + m->slice.layout->key + keys * 8ul;
    memset(to, 0, slice_keys_bytes(m->slice.layout, keys) - keys * 8ul);
    memcpy(to, m->weight, keys * sizeof *m->weight);
}

static void labels_place(const struct features *f, uint8_t *row, float *real, const float *label)
{
    for (uint32_t t = 0; t < f->shape.tasks; t++) {
        if (f->real >> t & 1) {
            *real++ = label[t];
            continue;
        }
        row[5] |= (uint8_t)((label[t] > 0) << t);
        row[6] |= (uint8_t)(isnan(label[t]) << t);
    }
}

static int row_parse(struct slice_maker *m, const struct features *f, const struct line *line,
                     uint8_t *row, char *reason)
{
    const struct slice_layout *l = m->slice.layout;
    /* first that of the group, then those of `by`, then that of the sample */
    uint64_t *hash = (uint64_t *)(void *)(row + l->hash);
    bool grouped = f->group != FEATURE_NO_COLUMN, sampled = f->sample != FEATURE_NO_COLUMN;
    float label[LIMIT_TASKS];
    struct example example = {.label = label,
                              .time = (uint32_t *)(void *)(row + 8),
                              .weight = (float *)(void *)(row + 12),
                              .numeric = (float *)(void *)(row + l->numeric),
                              .count = l->multi ? (uint32_t *)(void *)(row + l->count) : NULL,
                              .key = (uint64_t *)(void *)(row + l->key),
                              .value_weight = m->weight,
                              .group = grouped ? hash : NULL,
                              .by = f->by_count > 0 ? hash + grouped : NULL,
                              .sample = sampled ? hash + grouped + f->by_count : NULL};
    if (f->dated != 0)
        *example.time = f->span[line->file].from;
    int rc = clean_line(f, line, m->cell, reason);
    if (rc == 0)
        rc = features_example(f, m->cell, &example, reason);
    if (rc != 0)
        return rc;
    labels_place(f, row, (float *)(void *)(row + l->real), label);
    if (l->multi)
        m->keys += example.keys - l->singles;
    if (l->weighted)
        weights_place(m, row, example.keys);
    m->bytes += MAX(l->key + slice_keys_bytes(l, example.keys), l->least);
    return 0;
}

static void text_place(uint8_t *row, uint64_t at, size_t bytes)
{
    uint32_t length = (uint32_t)bytes;
    row[4] = 1;
    memcpy(row + TEXT_AT, &at, sizeof at);
    memcpy(row + TEXT_BYTES, &length, sizeof length);
}

/* Makes the row of a malformed line: zeros and the offset of its text. */
static int row_bad(struct slice_maker *m, const struct line *line, const char *name, uint8_t *row,
                   const char *reason)
{
    const struct slice_layout *l = m->slice.layout;
    char where[SLICE_WHERE];
    batch_line_where(where, name, line->number, reason);
    size_t bytes = strlen(where), size = l->multi ? l->least : l->stride;
    if (more(&m->text, m->text_bytes + bytes + 1, &m->text_capacity) != 0)
        return SHOAL_E_NOMEM;
    memset(row, 0, size);
    text_place(row, m->text_bytes, bytes);
    memcpy(m->text + m->text_bytes, where, bytes + 1);
    m->text_bytes += bytes + 1;
    m->slice.bad_rows++;
    m->bytes += size;
    return 0;
}

int slice_add(struct slice_maker *m, const struct features *f, const struct line *line,
              const char *name, struct err *e)
{
    char reason[REASON_BYTES];
    SHOAL_ASSERT(m->slice.rows < SLICE_ROWS_MAX);
    if (m->cell == NULL)
        m->cell = malloc(sizeof *m->cell * CELLS_MAX);
    uint8_t *row = row_room(m, line);
    if (m->cell == NULL || row == NULL ||
        (m->slice.layout->multi && more(&m->place, m->slice.rows + 2ul, &m->place_capacity) != 0))
        return no_memory(e);
    if (m->slice.layout->multi)
        m->place[m->slice.rows] = m->bytes;
    if (row_parse(m, f, line, row, reason) != 0 && row_bad(m, line, name, row, reason) != 0)
        return no_memory(e);
    m->slice.rows++;
    return 0;
}

bool slice_is_full(const struct slice_maker *m)
{
    return m->slice.rows >= SLICE_ROWS || m->keys >= VALUES_FULL;
}

int slice_end(struct slice_maker *m, struct err *e)
{
    struct slice *s = &m->slice;
    size_t texts = (m->text_bytes + 7) & ~(size_t)7;
    size_t places = 0;
    if (s->layout->multi)
        places = (s->rows + 1ul) * sizeof *m->place;
    if (more(&s->at, m->bytes + texts + places, &s->capacity) != 0)
        return no_memory(e);
    memset(s->at + m->bytes, 0, texts);
    if (m->text_bytes > 0)
        memcpy(s->at + m->bytes, m->text, m->text_bytes);
    s->bytes = m->bytes + texts + places;
    if (places > 0) {
        m->place[s->rows] = m->bytes;
        memcpy(slice_places(s), m->place, places);
    }
    return 0;
}

/* ---- from other sources
 * ----------------------------------------------------------------------- */

int slice_make(struct slice *s, const struct slice_layout *l, uint32_t rows, uint64_t row_bytes,
               uint64_t text_bytes)
{
    size_t bytes = (row_bytes + text_bytes + 7) & ~7ull;
    if (l->multi)
        bytes += (rows + 1ull) * 8;
    if (bytes > s->capacity || bytes < s->capacity / 4) { /* enough, and not much more */
        slice_free(s);
        s->at = malloc(bytes);
        if (s->at != NULL)
            s->capacity = bytes;
    }
    if (s->at == NULL)
        return SHOAL_E_NOMEM;
    s->layout = l;
    s->bytes = bytes;
    s->rows = rows;
    s->bad_rows = 0;
    memset(s->at + row_bytes, 0, body_bytes(s) - row_bytes);
    return 0;
}

void slice_bad(struct slice *s, uint32_t row, const char *where, size_t bytes, uint64_t *at)
{
    size_t ignored;
    uint8_t *to = slice_at(s, row, &ignored);
    char *text = (char *)s->at + texts_at(s) + *at;
    SHOAL_ASSERT(to != NULL && bytes < SLICE_WHERE);
    text_place(to, *at, bytes);
    memcpy(text, where, bytes);
    text[bytes] = '\0';
    *at += bytes + 1;
    s->bad_rows++;
}

void slice_stamp(struct slice *s, uint64_t first)
{
    SHOAL_ASSERT(s->capacity > 0);
    for (uint32_t i = 0; i < s->rows; i++) {
        size_t bytes;
        uint8_t *row = slice_at(s, i, &bytes);
        uint32_t check = check_of(row, bytes, first + i);
        memcpy(row, &check, sizeof check);
    }
}
