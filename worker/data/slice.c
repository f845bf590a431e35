/* slice.c: lines -> columns of parsed rows. */
#include "worker/data/slice.h"

#include "proto/base/array.h"
#include "proto/base/assert.h"
#include "worker/data/batch_inner.h"

#include <stdlib.h>
#include <string.h>

#define VALUES_FULL (1u << 20) /* of all multi columns: then a slice is full, whatever its rows */

/* One example. */
struct slice_scratch {
    struct cell cell[CELLS_MAX];
    char reason[REASON_BYTES];
    float label[LIMIT_TASKS], weight, numeric[LIMIT_NUMERIC];
    uint32_t time, counts[LIMIT_FIELDS];
    uint64_t group, by[LIMIT_BY];
    uint64_t *key; /* owned */
    size_t key_capacity;
};

void slice_free(struct slice *b)
{
    for (uint32_t i = 0; i < b->columns; i++) {
        free(b->column[i].value);
        free(b->column[i].count);
    }
    if (b->scratch != NULL)
        free(b->scratch->key);
    free(b->scratch);
    free(b->column);
    free(b->bad);
    *b = (struct slice){0};
}

static int no_memory(struct err *e)
{
    return err_set(e, SHOAL_E_NOMEM, "no memory for a slice of rows; free some");
}

int slice_begin(struct slice *b, const struct columns *c, struct err *e)
{
    static const uint8_t width[COLUMNS_KINDS] = {
        [COLUMNS_LABEL] = 1,  [COLUMNS_WEIGHT] = 4, [COLUMNS_TIME] = 4,
        [COLUMNS_NUMBER] = 4, [COLUMNS_FIELD] = 8,  [COLUMNS_HASH] = 8};
    if (b->column == NULL) {
        b->column = calloc(c->count, sizeof *b->column);
        if (b->column == NULL)
            return no_memory(e);
        b->columns = c->count;
        for (uint32_t i = 0; i < c->count; i++) {
            b->column[i].width = width[c->one[i].kind];
            b->column[i].multi = c->one[i].multi;
        }
    }
    SHOAL_ASSERT(b->columns == c->count);
    for (uint32_t i = 0; i < b->columns; i++)
        b->column[i].values = 0;
    b->rows = b->bad_rows = 0;
    return 0;
}

/* At least `bytes`, and twice what there was. */
static int bytes_room(void *array, size_t *capacity, size_t bytes)
{
    void *old, *more;
    if (bytes <= *capacity)
        return 0;
    memcpy(&old, array, sizeof old);
    if (bytes < 2 * *capacity)
        bytes = 2 * *capacity;
    more = realloc(old, bytes);
    if (more == NULL)
        return SHOAL_E_NOMEM;
    memcpy(array, &more, sizeof more);
    *capacity = bytes;
    return 0;
}

int slice_room(struct slice_column *c, uint32_t values, uint32_t rows)
{
    int rc = bytes_room(&c->value, &c->capacity, (size_t)(values > 0 ? values : 1) * c->width);
    return rc == 0 && c->multi ? bytes_room(&c->count, &c->count_capacity, (size_t)rows * 4) : rc;
}

int slice_bad_add(struct slice *b, uint32_t row, const char *where, size_t bytes)
{
    if (array_room(&b->bad, b->bad_rows, &b->bad_capacity, 16) != 0)
        return SHOAL_E_NOMEM;
    struct slice_bad *bad = &b->bad[b->bad_rows++];
    if (bytes >= SLICE_WHERE)
        bytes = SLICE_WHERE - 1;
    bad->row = row;
    memcpy(bad->where, where, bytes);
    bad->where[bytes] = '\0';
    return 0;
}

/* `count` values of a row; from NULL: zeros, of a multi none. */
static int put(struct slice_column *c, uint32_t row, const void *from, uint32_t count)
{
    if (from == NULL && c->multi)
        count = 0;
    if (slice_room(c, c->values + count, row + 1) != 0)
        return SHOAL_E_NOMEM;
    if (c->multi)
        c->count[row] = count;
    char *to = (char *)c->value + (size_t)c->values * c->width;
    if (from != NULL)
        memcpy(to, from, (size_t)count * c->width);
    else
        memset(to, 0, (size_t)count * c->width);
    c->values += count;
    return 0;
}

/* In the order of columns_of. good: else all of it is missing. */
static int row_put(struct slice *b, const struct features *f, bool good)
{
    const struct slice_scratch *s = b->scratch;
    const uint64_t *key = s->key;
    struct slice_column *c = b->column;
    int bad = 0;
    for (uint32_t i = 0; i < f->shape.tasks; i++) {
        uint8_t label = s->label[i] > 0;
        bad |= put(c++, b->rows, good ? &label : NULL, 1);
    }
    if (f->weight != FEATURE_NO_COLUMN)
        bad |= put(c++, b->rows, good ? &s->weight : NULL, 1);
    if (features_timed(f))
        bad |= put(c++, b->rows, good ? &s->time : NULL, 1);
    for (uint32_t i = 0; i < f->shape.numerics; i++)
        bad |= put(c++, b->rows, good ? &s->numeric[i] : NULL, 1);
    for (uint32_t i = 0; i < f->shape.fields; i++) {
        uint32_t count = f->multi && good ? s->counts[i] : 1;
        bad |= put(c++, b->rows, good ? key : NULL, count);
        key += count;
    }
    if (f->group != FEATURE_NO_COLUMN)
        bad |= put(c++, b->rows, good ? &s->group : NULL, 1);
    for (uint32_t i = 0; i < f->by_count; i++)
        bad |= put(c++, b->rows, good ? &s->by[i] : NULL, 1);
    SHOAL_ASSERT(c == b->column + b->columns);
    return bad == 0 ? 0 : SHOAL_E_NOMEM;
}

int slice_add(struct slice *b, const struct features *f, const struct line *line, const char *name,
              struct err *e)
{
    struct slice_scratch *s = b->scratch;
    SHOAL_ASSERT(b->rows < SLICE_ROWS_MAX);
    if (s == NULL) {
        s = b->scratch = calloc(1, sizeof *s);
        if (s == NULL)
            return no_memory(e);
    }
    /* each value has a byte of its own at least */
    size_t keys = (size_t)f->shape.fields + (f->multi ? line->bytes : 0) + 1;
    if (array_reserve(&s->key, keys, &s->key_capacity) != 0)
        return no_memory(e);
    struct example example = {.label = s->label,
                              .weight = &s->weight,
                              .time = &s->time,
                              .numeric = s->numeric,
                              .key = s->key,
                              .count = f->multi ? s->counts : NULL,
                              .group = f->group != FEATURE_NO_COLUMN ? &s->group : NULL,
                              .by = f->by_count > 0 ? s->by : NULL};
    if (f->dated != 0)
        s->time = f->span[line->file].from;
    int rc = batch_line_cut(f, line, s->cell, s->reason);
    if (rc == 0)
        rc = features_example(f, s->cell, &example, s->reason);
    if (rc != 0) {
        char where[SLICE_WHERE];
        batch_line_where(where, name, line->number, s->reason);
        if (slice_bad_add(b, b->rows, where, strlen(where)) != 0)
            return no_memory(e);
    }
    if (row_put(b, f, rc == 0) != 0)
        return no_memory(e);
    b->rows++;
    return 0;
}

bool slice_is_full(const struct slice *b)
{
    uint64_t values = 0;
    for (uint32_t i = 0; i < b->columns; i++)
        values += b->column[i].multi ? b->column[i].values : 0;
    return b->rows >= SLICE_ROWS || values >= VALUES_FULL;
}

uint64_t slice_bytes(const struct slice *b)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < b->columns; i++) {
        const struct slice_column *c = &b->column[i];
        bytes += (uint64_t)c->values * c->width + (c->multi ? (uint64_t)b->rows * 4 : 0);
    }
    return bytes;
}

void slice_times(const struct slice *b, const struct columns *c, uint32_t *first, uint32_t *last)
{
    uint32_t at = 0, bad = 0;
    *first = *last = 0;
    while (at < c->count && c->one[at].kind != COLUMNS_TIME)
        at++;
    if (at == c->count)
        return;
    const uint32_t *time = b->column[at].value;
    bool any = false;
    for (uint32_t i = 0; i < b->rows; i++) {
        if (bad < b->bad_rows && b->bad[bad].row == i) {
            bad++;
            continue;
        }
        *first = !any || time[i] < *first ? time[i] : *first;
        *last = !any || time[i] > *last ? time[i] : *last;
        any = true;
    }
}
