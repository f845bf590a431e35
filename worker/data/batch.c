/* batch.c: turns lines into examples with keys value by value, then the keys into unique keys
 * (unique.c).
 *
 * backend_host_alloc allocates the arrays that a device reads. Growing such an array loses its
 * contents: all arrays but the keys get their size before the first line, and the keys are copied
 * out at the end. */
#include "worker/data/batch_inner.h"

#include "proto/base/array.h"
#include "proto/base/assert.h"
#include "proto/base/log.h"
#include "proto/base/minmax.h"
#include "proto/job/bad_lines.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void batch_init(struct batch *b)
{
    *b = (struct batch){0};
}

void batch_free(struct batch *b)
{
    struct batch_space *s = b->space;
    if (s != NULL) {
        lines_free(&s->lines);
        unique_free(&s->unique);
        free(s->mixed);
        free(s->value_weight);
        backend_host_free(b->backend, s->factor);
        free(s->group);
        free(s->by);
        free(s->row);
        backend_host_free(b->backend, s->weight);
        backend_host_free(b->backend, s->offset);
        backend_host_free(b->backend, s->time);
        free(s);
    }
    backend_host_free(b->backend, b->label);
    backend_host_free(b->backend, b->numeric);
    backend_host_free(b->backend, b->index);
    passed_free(&b->passed);
    *b = (struct batch){0};
}

static int no_memory(struct err *e)
{
    return err_set(e, SHOAL_E_NOMEM,
                   "no memory for a batch; lower train.batch or train.prefetch, or free some");
}

/* Makes room for `count` elements of an array that a device reads; growing loses the contents.
 * *array is any pointer. */
static int host_room(const struct batch *b, void *array, size_t *capacity, size_t count,
                     size_t bytes)
{
    void *old, *more;
    memcpy(&old, array, sizeof old);
    if (count <= *capacity && old != NULL)
        return 0;
    more = backend_host_alloc(b->backend, MAX(count, 1) * bytes);
    if (more == NULL)
        return SHOAL_E_NOMEM;
    backend_host_free(b->backend, old);
    memcpy(array, &more, sizeof more);
    *capacity = count;
    return 0;
}

/* Makes room in plain memory and keeps the contents. The array is unchanged on NOMEM. */
static int room(uint64_t **array, size_t *capacity, size_t count)
{
    return array_reserve(array, MAX(count, 1), capacity);
}

static int space_new(struct batch *b, struct err *e)
{
    struct batch_space *s = calloc(1, sizeof *s);
    if (s == NULL)
        return no_memory(e);
    int rc = lines_init(&s->lines, e);
    if (rc != 0) {
        free(s);
        return rc;
    }
    unique_init(&s->unique);
    b->space = s;
    return 0;
}

static int values_grow(struct batch *b, uint64_t values, struct err *e)
{
    struct batch_space *s = b->space;
    if (values > BATCH_VALUES_MAX)
        return err_set(e, SHOAL_E_TOO_BIG, "a batch has more than %u values; lower train.batch",
                       BATCH_VALUES_MAX);
    if (values > s->value_capacity && values < 2 * s->value_capacity)
        values = 2 * s->value_capacity;

    if (room(&s->mixed, &s->value_capacity, values) == 0 &&
        (!s->weighted || array_reserve(&s->value_weight, MAX(s->value_capacity, 1),
                                       &s->value_weight_capacity) == 0))
        return 0;

    return no_memory(e);
}

/* Arrays that only some jobs have: weights, times, offsets, the values of evaluate.by and, in
 * evaluation, groups. */
static int extras_begin(struct batch *b, const struct features *f, uint32_t rows, bool evaluating)
{
    struct batch_space *s = b->space;
    bool weight = f->weight != FEATURE_NO_COLUMN, time = features_timed(f),
         group = evaluating && f->group != FEATURE_NO_COLUMN;
    uint32_t by_count = f->by_count;
    if ((weight && host_room(b, &s->weight, &s->weight_capacity, rows, sizeof s->weight[0]) != 0) ||
        (time && host_room(b, &s->time, &s->time_capacity, rows, sizeof s->time[0]) != 0) ||
        (f->multi && host_room(b, &s->offset, &s->offset_capacity,
                               (size_t)rows * f->shape.fields + 1, sizeof s->offset[0]) != 0) ||
        (group && room(&s->group, &s->group_capacity, rows) != 0) ||
        (by_count > 0 && room(&s->by, &s->by_capacity, (size_t)rows * by_count) != 0) ||
        (f->predict && array_reserve(&s->row, rows, &s->row_capacity) != 0))
        return SHOAL_E_NOMEM;
    b->weight = weight ? s->weight : NULL;
    b->group = group ? s->group : NULL;
    b->by = by_count > 0 ? s->by : NULL;
    b->by_count = by_count;
    b->row = f->predict ? s->row : NULL;
    passed_clear(&b->passed);
    return 0;
}

int batch_begin(struct batch *b, const struct features *f, uint32_t rows, bool evaluating,
                struct err *e)
{
    int rc = 0;
    if (b->space == NULL)
        rc = space_new(b, e);
    if (rc != 0)
        return rc;
    struct batch_space *s = b->space;
    b->tasks = f->shape.tasks;
    SHOAL_ASSERT(f->shape.tasks <= LIMIT_TASKS && f->shape.fields <= LIMIT_FIELDS);
    b->fields = f->shape.fields;
    b->field_table = f->shape.table;
    b->field_number = f->shape.number;
    s->unique.table = f->table_of;
    s->unique.tables = f->tables;
    s->pooling = f->shape.pooling;
    s->weighted = f->weighted;
    s->plain = true;
    if (host_room(b, &b->label, &s->label_capacity, (size_t)rows * b->tasks, sizeof b->label[0]) !=
            0 ||
        host_room(b, &b->numeric, &s->numeric_capacity, (size_t)rows * f->shape.numerics,
                  sizeof b->numeric[0]) != 0 ||
        extras_begin(b, f, rows, evaluating) != 0)
        return no_memory(e);
    rc = values_grow(b, (uint64_t)rows * f->shape.fields, e);
    if (rc != 0)
        return rc;
    b->examples = b->values = b->key_count = b->bad_lines = b->drawn = b->dropped = b->event_time =
        b->clamped = b->outside = b->first_time = b->last_time = 0;
    b->bad_where[0] = '\0';
    b->offset = NULL;
    b->factor = NULL;
    s->single = true;
    s->timed = features_timed(f);
    s->rows = rows;
    return 0;
}

void batch_line_where(char out[256], const char *name, uint64_t number, const char *reason)
{
    /* The end of a path says more than its start. The reason has to fit whole. */
    size_t length = strlen(name), shown = MIN(length, 40);
    snprintf(out, 256, "%s%s:%" PRIu64 ": %s", shown < length ? ".." : "", name + length - shown,
             number, reason);
}

static void bad_line(struct batch *b, const char *where)
{
    b->bad_lines++;
    bad_lines_least(b->bad_where, sizeof b->bad_where, where);
    log_warn("left out: %s", where);
}

/* Offsets are positions in values: example by example, field by field. */
static void offsets_add(struct batch *b, const struct features *f)
{
    uint32_t *offset = b->space->offset + (size_t)b->examples * f->shape.fields;
    uint32_t at = b->values;
    for (uint32_t i = 0; i < f->shape.fields; i++) {
        offset[i] = at;
        at += b->space->counts[i];
        b->space->single &= b->space->counts[i] == 1;
    }
    offset[f->shape.fields] = at;
}

/* Notes whether values from `at` on have other weights than 1. */
static void weights_see(struct batch_space *s, uint32_t at, uint32_t values)
{
    bool plain = s->plain;
    for (uint32_t i = 0; i < values; i++)
        plain &= s->value_weight[at + i] == 1.0f;
    s->plain = plain;
}

/* Passes on the cells that a prediction wants of a line; empty cells when the line could not be
 * cut. */
static int cells_pass(struct batch *b, const struct features *f, bool cut)
{
    static const struct cell none = {"", 0};
    for (uint32_t i = 0; i < f->pass_count; i++)
        if (passed_add(&b->passed, cut ? &b->space->cell[f->pass[i]] : &none) != 0)
            return SHOAL_E_NOMEM;
    return 0;
}

/* Parses the cells of a line. *left: the sample leaves it out; a malformed line goes by its
 * number. */
static int cells_parse(const struct features *f, const struct cell *cell, const struct draw *draw,
                       uint64_t row, struct example *out, bool *left, char *reason)
{
    bool left_malformed = draw_leaves(draw, row, NULL);
    *left = left_malformed;
    if (draw->by) {
        uint64_t value = features_sample(f, cell);
        *left = draw_leaves(draw, row, &value);
    }
    if (*left && left_malformed)
        return 0; /* whatever the other cells hold */
    int rc = features_example(f, cell, out, reason);
    if (rc != 0)
        *left = left_malformed;
    return rc;
}

int batch_add(struct batch *b, const struct features *f, const struct line *line, const char *name,
              const struct draw *draw, uint64_t row, struct err *e)
{
    struct batch_space *s = b->space;
    uint32_t n = b->examples;
    bool positives_only = draw_positives_only(draw, row), left = draw_leaves(draw, row, NULL);
    SHOAL_ASSERT(n < s->rows);
    if (left && !draw->by) {
        b->dropped++;
        return 0;
    }
    if (f->multi) { /* each value takes at least one byte of the line */
        int rc = values_grow(b, (uint64_t)b->values + f->shape.fields + line->bytes, e);
        if (rc != 0)
            return rc;
    }
    struct example example = {.label = &b->label[(size_t)n * b->tasks],
                              .weight = b->weight != NULL ? &b->weight[n] : NULL,
                              .time = s->timed ? &s->time[n] : NULL,
                              .numeric = &b->numeric[(size_t)n * f->shape.numerics],
                              .key = &s->mixed[b->values],
                              .count = f->multi ? s->counts : NULL,
                              .value_weight = s->weighted ? &s->value_weight[b->values] : NULL,
                              .group = b->group != NULL ? &b->group[n] : NULL,
                              .by = b->by != NULL ? &b->by[(size_t)n * b->by_count] : NULL,
                              .positives_only = positives_only};
    int rc = clean_line(f, line, s->cell, s->reason);
    if (cells_pass(b, f, rc == 0) != 0)
        return no_memory(e);
    if (b->row != NULL)
        b->row[n] = n + b->bad_lines;
    if (f->dated != 0 && s->timed)
        s->time[n] = f->span[line->file].from;
    if (rc == 0)
        rc = cells_parse(f, s->cell, draw, row, &example, &left, s->reason);
    /* an unreadable line is not known to be positive */
    if (left || (positives_only && (rc != 0 || example.dropped))) {
        b->dropped++;
        return 0;
    }
    b->drawn += !positives_only;
    if (rc != 0) {
        char where[sizeof b->bad_where];
        batch_line_where(where, name, line->number, s->reason);
        bad_line(b, where);
        return 0;
    }
    if (f->multi)
        offsets_add(b, f);
    if (s->weighted)
        weights_see(s, b->values, example.keys);
    b->outside += s->timed && features_outside(f, line->file, s->time[n]);
    b->values += example.keys;
    b->examples++;
    SHOAL_ASSERT(b->values <= s->value_capacity);
    SHOAL_ASSERT(!f->multi || s->offset[(size_t)b->examples * f->shape.fields] == b->values);
    return 0;
}

static int stored_keys(struct batch *b, const struct features *f, const struct slice_row *row,
                       struct err *e)
{
    struct batch_space *s = b->space;
    int rc = 0;
    if (f->multi)
        rc = values_grow(b, (uint64_t)b->values + row->keys, e);
    if (rc != 0)
        return rc;
    memcpy(&s->mixed[b->values], row->key, row->keys * sizeof *row->key);
    if (f->multi) {
        memcpy(s->counts, row->count, f->shape.fields * sizeof *row->count);
        offsets_add(b, f);
    }
    if (s->weighted && row->keys > 0)
        memcpy(&s->value_weight[b->values], row->value_weight,
               row->keys * sizeof *row->value_weight);
    if (s->weighted)
        weights_see(s, b->values, row->keys);
    b->values += row->keys;
    return 0;
}

int batch_add_stored(struct batch *b, const struct features *f, const struct slice_row *row,
                     const struct draw *draw, uint64_t number, struct err *e)
{
    struct batch_space *s = b->space;
    uint32_t n = b->examples;
    bool grouped = f->group != FEATURE_NO_COLUMN,
         positives_only = draw_positives_only(draw, number);
    const uint64_t *value = NULL;
    SHOAL_ASSERT(n < s->rows && !f->predict);
    if (draw->by && row->where == NULL)
        value = &row->hash[grouped + f->by_count];
    if (draw_leaves(draw, number, value) ||
        (positives_only && (row->where != NULL || row->labels == 0))) {
        b->dropped++;
        return 0;
    }
    b->drawn += !positives_only;
    if (row->where != NULL) {
        bad_line(b, row->where);
        return 0;
    }
    if (!slice_labels(row, b->tasks, &b->label[(size_t)n * b->tasks])) {
        char where[sizeof b->bad_where];
        (void)snprintf(where, sizeof where,
                       "row %" PRIu64 " of the split: it has no label that this job names; take "
                       "such rows out",
                       number + 1);
        bad_line(b, where);
        return 0;
    }
    if (b->weight != NULL)
        b->weight[n] = row->weight;
    if (s->timed)
        s->time[n] = row->time;
    memcpy(&b->numeric[(size_t)n * f->shape.numerics], row->numeric,
           f->shape.numerics * sizeof *row->numeric);
    const uint64_t *hash = row->hash;
    if (b->group != NULL)
        b->group[n] = *hash;
    hash += grouped;
    for (uint32_t i = 0; i < b->by_count; i++)
        b->by[(size_t)n * b->by_count + i] = hash[i];
    int rc = stored_keys(b, f, row, e);
    if (rc != 0)
        return rc;
    b->examples++;
    SHOAL_ASSERT(b->values <= s->value_capacity);
    return 0;
}

/* Returns the k-th smallest time and reorders the array (Hoare's quickselect). */
static uint32_t time_select(uint32_t *time, int64_t count, int64_t k)
{
    int64_t low = 0, high = count - 1;
    SHOAL_ASSERT(k >= 0 && k < count);
    while (low < high) {
        uint32_t pivot = time[low + (high - low) / 2];
        int64_t i = low, j = high;
        while (i <= j) {
            while (time[i] < pivot)
                i++;
            while (time[j] > pivot)
                j--;
            if (i <= j) {
                uint32_t kept = time[i];
                time[i++] = time[j];
                time[j--] = kept;
            }
        }
        if (k <= j)
            high = j;
        else if (k >= i)
            low = i;
        else
            break; /* all times between j and i equal the pivot */
    }
    return time[k];
}

static void times_range(struct batch *b)
{
    const uint32_t *time = b->space->time;
    b->first_time = b->last_time = time[0];
    for (uint32_t i = 1; i < b->examples; i++) {
        if (time[i] < b->first_time)
            b->first_time = time[i];

        if (time[i] > b->last_time)
            b->last_time = time[i];
    }
}

/* A time in the future would move the clocks of tablets forward, and they never go back
 * (embedding/rows/age.h). */
static void times_clamp(struct batch *b)
{
    uint32_t *time = b->space->time;
    for (uint32_t i = 0; b->time_limit > 0 && b->last_time > b->time_limit && i < b->examples; i++)
        if (time[i] > b->time_limit) {
            time[i] = b->time_limit;
            b->clamped++;
        }
}

/* The factors of a slot's values are their weights; those of a mean are divided by the sum of the
 * magnitudes, which may be 0. The sum is in double and in the values' order. */
static void slot_factors(const float *weight, uint32_t values, bool mean, float *factor)
{
    double sum = 0;
    for (uint32_t i = 0; i < values && mean; i++)
        sum += fabs((double)weight[i]);
    if (sum == 0)
        sum = 1;
    for (uint32_t i = 0; i < values; i++)
        factor[i] = (float)((double)weight[i] / sum); /* the share of tiny weights is finite, too */
}

static int factors_make(struct batch *b)
{
    struct batch_space *s = b->space;
    if (!s->weighted || s->plain)
        return 0;
    if (host_room(b, &s->factor, &s->factor_capacity, s->value_capacity, sizeof *s->factor) != 0)
        return SHOAL_E_NOMEM;
    for (uint32_t i = 0, slot = 0; i < b->examples; i++)
        for (uint32_t field = 0; field < b->fields; field++, slot++) {
            uint32_t at = s->offset[slot], values = s->offset[slot + 1] - at;
            slot_factors(s->value_weight + at, values, s->pooling[field] != POOL_SUM,
                         s->factor + at);
        }
    b->factor = s->factor;
    return 0;
}

int batch_end(struct batch *b, struct err *e)
{
    struct batch_space *s = b->space;
    SHOAL_ASSERT(b->examples + b->bad_lines + b->dropped <= s->rows);
    if (host_room(b, &b->index, &s->index_capacity, s->value_capacity, sizeof b->index[0]) != 0 ||
        unique_make(&s->unique, s->mixed, b->values, b->index) != 0 || factors_make(b) != 0)
        return no_memory(e);
    b->keys = s->unique.keys;
    b->key_count = s->unique.key_count;
    b->table_first = s->unique.first;
    b->offset = s->single ? NULL : s->offset;
    if (s->timed && b->examples > 0) {
        /* the lower median */
        times_range(b);
        times_clamp(b);
        b->event_time = time_select(s->time, b->examples, (b->examples - 1) / 2);
    }
    return 0;
}
