/* strips.c: converts rows to columns and columns to rows. */
#include "worker/data/strips.h"

#include "proto/base/array.h"
#include "proto/base/assert.h"
#include "proto/base/minmax.h"

#include <stdlib.h>
#include <string.h>

#define AT_ONCE 256u /* rows: they stay in the cache while column after column is moved */

void strips_free(struct strips *s)
{
    for (uint32_t i = 0; i < s->capacity; i++) {
        free(s->of[i].value);
        free(s->of[i].count);
        free(s->of[i].weight);
    }
    free(s->of);
    free(s->place);
    free(s->zero);
    *s = (struct strips){0};
}

int strips_begin(struct strips *s, const struct columns *c)
{
    static const uint8_t width[COLUMNS_KINDS] = {
        [COLUMNS_LABEL] = 1,  [COLUMNS_WEIGHT] = 4, [COLUMNS_TIME] = 4,
        [COLUMNS_NUMBER] = 4, [COLUMNS_FIELD] = 8,  [COLUMNS_HASH] = 8};
    uint32_t made = s->capacity;
    if (array_reserve(&s->of, c->count, &s->capacity) != 0)
        return SHOAL_E_NOMEM;
    for (uint32_t i = made; i < s->capacity; i++)
        s->of[i] = (struct strip){0};
    for (uint32_t i = 0; i < c->count; i++) {
        s->of[i].width = c->one[i].real ? 4 : width[c->one[i].kind];
        s->of[i].multi = c->one[i].multi;
        s->of[i].weighted = c->one[i].weighted;
        s->of[i].values = 0;
    }
    s->columns = c->count;
    return 0;
}

static int bytes_room(void **array, size_t *capacity, size_t bytes)
{
    if (bytes <= *capacity)
        return 0;
    void *more = realloc(*array, bytes);
    if (more == NULL)
        return SHOAL_E_NOMEM;
    *array = more;
    *capacity = bytes;
    return 0;
}

int strips_room(struct strip *one, uint32_t values, uint32_t rows)
{
    int rc = bytes_room(&one->value, &one->capacity, (size_t)MAX(values, 1) * one->width);
    if (rc == 0 && one->multi)
        rc = array_reserve(&one->count, rows, &one->count_capacity);
    if (rc == 0 && one->weighted)
        rc = array_reserve(&one->weight, MAX(values, 1), &one->weight_capacity);

    return rc;
}

uint64_t strips_bytes(const struct strips *s, uint32_t rows)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < s->columns; i++) {
        bytes += (uint64_t)s->of[i].values * s->of[i].width;
        if (s->of[i].multi)
            bytes += (uint64_t)rows * 4;
        if (s->of[i].weighted)
            bytes += (uint64_t)s->of[i].values * 4;
    }
    return bytes;
}

/* ---- moving ---------------------------------------------------------------------------------- */

struct move {
    struct strips *strips;
    const struct strips_wanted *wanted;
    bool lay;                   /* columns to rows; false: rows to columns */
    uint32_t first, rows;       /* the current rows */
    uint32_t next[COLUMNS_MAX]; /* with a multi: values of each field that were moved so far */
    uint8_t *row[AT_ONCE], *key[AT_ONCE];
    uint8_t *weight[AT_ONCE]; /* with a weighted multi: next to each key */
};

static inline void value_move(bool lay, uint8_t *row, uint8_t *value, size_t width)
{
    if (lay)
        memcpy(row, value, width);
    else
        memcpy(value, row, width);
}

static void values_move(struct move *m, struct strip *one, uint32_t offset)
{
    uint8_t *value = (uint8_t *)one->value + (size_t)m->first * one->width;
    bool lay = m->lay;
    if (one->width == 4)
        for (uint32_t i = 0; i < m->rows; i++)
            value_move(lay, m->row[i] + offset, value + (size_t)i * 4, 4);
    else
        for (uint32_t i = 0; i < m->rows; i++)
            value_move(lay, m->row[i] + offset, value + (size_t)i * 8, 8);
}

static void labels_move(struct move *m, struct strip *one, uint32_t task)
{
    uint8_t *label = (uint8_t *)one->value + m->first;
    for (uint32_t i = 0; i < m->rows; i++) {
        uint8_t *row = m->row[i];
        if (m->lay) {
            row[5] |= (uint8_t)((label[i] & 1) << task);
            row[6] |= (uint8_t)((label[i] >> 1) << task);
        } else {
            label[i] = (uint8_t)((row[5] >> task & 1) | (row[6] >> task & 1) << 1);
        }
    }
}

/* Moves the weights of a row's values; those of a field without any are 1. */
static void weights_move(struct move *m, const struct strip *one, uint32_t row, uint32_t at,
                         uint32_t values)
{
    static const float plain = 1.0f;
    uint8_t *to = m->weight[row];
    for (uint32_t i = 0; i < values && m->lay; i++)
        memcpy(to + i * 4ul, one->weighted ? &one->weight[at + i] : &plain, 4);
    if (one->weighted && !m->lay && values > 0)
        memcpy(&one->weight[at], to, values * 4ul);
    m->weight[row] += values * 4ul;
}

/* Keys of rows with a multi are adjacent. */
static void keys_lay(struct move *m, const struct strip *one, uint32_t field)
{
    uint32_t at = m->wanted->layout->count + field * 4;
    const uint64_t *from = (const uint64_t *)one->value + m->next[field];
    for (uint32_t i = 0; i < m->rows; i++) {
        uint32_t values = 1;
        if (one->multi)
            values = one->count[m->first + i];
        memcpy(m->row[i] + at, &values, sizeof values);
        if (m->wanted->layout->weighted)
            weights_move(m, one, i, m->next[field], values);
        memcpy(m->key[i], from, values * sizeof *from);
        m->key[i] += values * sizeof *from;
        from += values;
        m->next[field] += values;
    }
}

static void keys_take(struct move *m, struct strip *one, uint32_t field)
{
    uint32_t at = m->wanted->layout->count + field * 4;
    uint64_t *to = (uint64_t *)one->value + m->next[field];
    for (uint32_t i = 0; i < m->rows; i++) {
        uint32_t values = 1; /* a malformed row has one value, too */
        if (one->multi) {
            memcpy(&values, m->row[i] + at, sizeof values);
            one->count[m->first + i] = values;
        }
        if (m->wanted->layout->weighted)
            weights_move(m, one, i, m->next[field], values);
        memcpy(to, m->key[i], values * sizeof *to);
        m->key[i] += values * sizeof *to;
        to += values;
        m->next[field] += values;
    }
}

static struct strip *strip_of(const struct move *m, uint32_t column)
{
    const uint32_t *place = m->wanted->place;
    return &m->strips->of[place != NULL ? place[column] : column];
}

/* Moves all columns of the current rows. */
static void rows_move(struct move *m)
{
    const struct slice_layout *l = m->wanted->layout;
    const struct columns *c = m->wanted->columns;
    uint32_t task = 0, numeric = l->numeric, real = l->real, hash = l->hash, field = 0;
    for (uint32_t k = 0; k < c->count; k++) {
        struct strip *one = strip_of(m, k);
        switch (c->one[k].kind) {
        case COLUMNS_LABEL:
            if (c->one[k].real) {
                values_move(m, one, real);
                real += 4;
            } else {
                labels_move(m, one, task);
            }
            task++;
            break;
        case COLUMNS_TIME:
            values_move(m, one, 8);
            break;
        case COLUMNS_WEIGHT:
            values_move(m, one, 12);
            break;
        case COLUMNS_NUMBER:
            values_move(m, one, numeric);
            numeric += 4;
            break;
        case COLUMNS_HASH:
            values_move(m, one, hash);
            hash += 8;
            break;
        default:
            if (l->multi && m->lay)
                keys_lay(m, one, field);
            else if (l->multi)
                keys_take(m, one, field);
            else
                values_move(m, one, l->key + field * 8);
            field++;
        }
    }
}

/* Finds where the weights of the current rows begin, behind their keys. In laying, the counts are
 * those of the columns. */
static void weights_find(struct move *m)
{
    const struct slice_layout *l = m->wanted->layout;
    for (uint32_t i = 0; i < m->rows; i++) {
        const uint32_t *count = (const uint32_t *)(const void *)(m->row[i] + l->count);
        uint64_t keys = 0;
        uint32_t field = 0;
        for (uint32_t k = 0; k < m->wanted->columns->count; k++) {
            const struct strip *one = strip_of(m, k);
            if (m->wanted->columns->one[k].kind != COLUMNS_FIELD)
                continue;
            if (m->lay)
                keys += one->multi ? one->count[m->first + i] : 1;
            else
                keys += one->multi ? count[field] : 1;
            field++;
        }
        m->weight[i] = m->key[i] + keys * 8;
    }
}

static void all_move(struct move *m, const struct slice *b)
{
    size_t bytes = 0;
    for (m->first = 0; m->first < b->rows; m->first += m->rows) {
        m->rows = AT_ONCE;
        if (b->rows - m->first < AT_ONCE)
            m->rows = b->rows - m->first;
        for (uint32_t i = 0; i < m->rows; i++) {
            m->row[i] = slice_at(b, m->first + i, &bytes);
            SHOAL_ASSERT(m->row[i] != NULL);
            if (!m->lay && m->row[i][4] != 0)
                m->row[i] = m->strips->zero;
            m->key[i] = m->row[i] + m->wanted->layout->key;
        }
        if (m->lay)
            memset(m->row[0], 0, (size_t)(m->row[m->rows - 1] - m->row[0]) + bytes);
        if (m->wanted->layout->weighted)
            weights_find(m);
        rows_move(m);
    }
}

/* Counts the values of each multi field in all rows. */
static void values_count(struct strips *s, const struct columns *c, const struct slice *b)
{
    size_t bytes;
    for (uint32_t i = 0; i < b->rows; i++) {
        const uint8_t *row = slice_at(b, i, &bytes);
        const uint32_t *count = (const uint32_t *)(const void *)(row + b->layout->count);
        for (uint32_t k = 0; k < c->count && row[4] == 0; k++) {
            s->of[k].values += s->of[k].multi ? *count : 0;
            count += c->one[k].kind == COLUMNS_FIELD;
        }
    }
}

int strips_take(struct strips *s, const struct columns *c, const struct slice *b)
{
    const struct slice_layout *l = b->layout;
    const struct strips_wanted all = {.columns = c, .layout = l};
    struct move m = {.strips = s, .wanted = &all};
    size_t zero = l->least + slice_keys_bytes(l, l->fields);
    if (strips_begin(s, c) != 0 || array_reserve(&s->zero, zero, &s->zero_capacity) != 0)
        return SHOAL_E_NOMEM;
    memset(s->zero, 0, zero);
    if (l->multi)
        values_count(s, c, b);
    for (uint32_t k = 0; k < c->count; k++) {
        if (!s->of[k].multi)
            s->of[k].values = b->rows;
        if (strips_room(&s->of[k], s->of[k].values, b->rows) != 0)
            return SHOAL_E_NOMEM;
    }
    all_move(&m, b);
    return 0;
}

/* Computes the start of each row, with a multi. */
static int places_find(struct strips *s, const struct move *m, uint32_t rows)
{
    const struct slice_layout *l = m->wanted->layout;
    const struct columns *c = m->wanted->columns;
    if (array_reserve(&s->place, rows + 1ul, &s->place_capacity) != 0)
        return SHOAL_E_NOMEM;
    s->place[0] = 0;
    for (uint32_t i = 0; i < rows; i++)
        s->place[i + 1] = l->singles;
    for (uint32_t k = 0; k < c->count; k++) {
        const struct strip *one = strip_of(m, k);
        for (uint32_t i = 0; i < rows && one->multi; i++)
            s->place[i + 1] += one->count[i];
    }
    for (uint32_t i = 0; i < rows; i++) {
        uint64_t bytes = l->key + slice_keys_bytes(l, s->place[i + 1]);
        s->place[i + 1] = s->place[i] + MAX(bytes, l->least);
    }
    return 0;
}

int strips_lay(struct strips *s, const struct strips_wanted *w, uint32_t rows, uint64_t text_bytes,
               struct slice *b)
{
    struct move m = {.strips = s, .wanted = w, .lay = true};
    const struct slice_layout *l = w->layout;
    if (l->multi && places_find(s, &m, rows) != 0)
        return SHOAL_E_NOMEM;
    uint64_t bytes;
    if (l->multi)
        bytes = s->place[rows];
    else
        bytes = (uint64_t)rows * l->stride;
    if (slice_make(b, l, rows, bytes, text_bytes) != 0)
        return SHOAL_E_NOMEM;
    if (l->multi)
        memcpy(slice_places(b), s->place, (rows + 1ul) * sizeof *s->place);
    all_move(&m, b);
    return 0;
}
