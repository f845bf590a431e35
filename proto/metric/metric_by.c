/* metric_by.c: a small hash table that forgets its rarer half when it is full. */
#include "proto/metric/metric_by.h"
#include "proto/base/array.h"
#include "proto/base/assert.h"
#include "proto/base/salt.h"
#include "proto/metric/metric_cell.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define CELLS_LEAST 64u /* examples from which on others' cells are looked at */

static const struct metric_grid grid = {4, 12};
_Static_assert(METRIC_BY_CELLS == 2 * (12u << 4) + 1, "cells of the grid");

int metric_by_open(struct metric_by *b, uint32_t tasks, uint32_t capacity, struct err *e)
{
    SHOAL_ASSERT(tasks > 0 && tasks <= LIMIT_TASKS && capacity >= 4 &&
                 (capacity & (capacity - 1)) == 0);
    memset(b, 0, sizeof *b);
    b->tasks = tasks;
    b->capacity = capacity;
    b->salt = salt_draw();
    b->value = malloc(capacity * sizeof *b->value);
    b->task = malloc((size_t)capacity * tasks * sizeof *b->task);
    b->slot = calloc(4ull * capacity, sizeof *b->slot);
    b->cells = calloc((size_t)METRIC_BY_TALLIES * tasks, sizeof *b->cells);
    for (uint32_t i = 0; b->value != NULL && i < capacity; i++)
        b->value[i].sums = i;
    if (b->value != NULL && b->task != NULL && b->slot != NULL && b->cells != NULL)
        return 0;
    metric_by_close(b);
    return err_set(e, SHOAL_E_NOMEM, "no memory for %u values of a field of evaluate.by", capacity);
}

void metric_by_close(struct metric_by *b)
{
    free(b->value);
    free(b->task);
    free(b->slot);
    free(b->cells);
    memset(b, 0, sizeof *b);
}

static uint32_t *slot_find(const struct metric_by *b, uint64_t key)
{
    uint32_t mask = 4 * b->capacity - 1, at = (uint32_t)salt_mix(b->salt, key_mix(key)) & mask;
    while (b->slot[at] != 0 && b->value[b->slot[at] - 1].key != key)
        at = (at + 1) & mask;
    return &b->slot[at];
}

static void task_sum(struct metric_by_task *to, const struct metric_by_task *from)
{
    to->loss += from->loss;
    to->predicted += from->predicted;
    to->positives += from->positives;
}

static void value_drop(struct metric_by *b, const struct metric_value *v)
{
    b->rest_examples += v->examples;
    b->rest_values++;
    for (uint32_t t = 0; t < b->tasks; t++)
        task_sum(&b->rest[t], &metric_by_sums(b, v)[t]);
}

/* More examples first; of equal ones the smaller key. */
static int value_compare(const void *a, const void *b)
{
    const struct metric_value *x = a, *y = b;
    if (x->examples != y->examples)
        return x->examples < y->examples ? 1 : -1;
    return x->key < y->key ? -1 : x->key > y->key;
}

static void slots_fill(struct metric_by *b)
{
    memset(b->slot, 0, 4ull * b->capacity * sizeof *b->slot);
    for (uint32_t i = 0; i < b->count; i++)
        *slot_find(b, b->value[i].key) = i + 1;
}

static uint32_t count_of(const struct metric_value *v)
{
    return v->examples < UINT32_MAX ? (uint32_t)v->examples : UINT32_MAX;
}

/* Keeps the `keep` values with the most examples; of equal ones those that came first. The places
 * of the others' sums stay behind them, for who comes next. */
static void values_thin(struct metric_by *b, uint32_t keep)
{
    uint32_t count = 0, above = 0, *sorted = b->slot; /* the slots are filled anew below */
    if (b->count <= keep)
        return;
    for (uint32_t i = 0; i < b->count; i++)
        sorted[i] = count_of(&b->value[i]);
    array_sort(sorted, sorted + b->capacity, b->count);
    uint32_t least = sorted[b->count - keep];
    for (uint32_t i = b->count - keep; i < b->count; i++)
        above += sorted[i] > least;
    uint32_t equal = keep - above; /* of those with `least` so many stay */
    for (uint32_t i = 0; i < b->count; i++) {
        struct metric_value v = b->value[i];
        bool stays = count_of(&v) > least || (count_of(&v) == least && equal > 0);
        equal -= stays && count_of(&v) == least;
        if (v.cells != 0) {
            b->owner[v.cells - 1] = stays ? count + 1 : 0;
            b->owned -= !stays;
        }
        if (stays) {
            b->value[i] = b->value[count];
            b->value[count++] = v;
        } else {
            b->floor = v.examples + v.missed > b->floor ? v.examples + v.missed : b->floor;
            value_drop(b, &v);
        }
    }
    b->count = count;
    slots_fill(b);
}

static struct metric_by_cells *cells_of(const struct metric_by *b, uint32_t cells)
{
    SHOAL_ASSERT(cells >= 1 && cells <= METRIC_BY_TALLIES);
    return &b->cells[(size_t)(cells - 1) * b->tasks];
}

/* For a value that has none: free ones, or those of one with half as many examples at most. The
 * latter are looked for at each power of two, so that looking costs nothing beside counting. */
static void cells_seek(struct metric_by *b, struct metric_value *v)
{
    uint32_t least = 0;
    if (b->owned == METRIC_BY_TALLIES &&
        (v->examples < CELLS_LEAST || (v->examples & (v->examples - 1)) != 0))
        return;
    for (uint32_t i = 1; i < METRIC_BY_TALLIES && b->owner[least] != 0; i++)
        if (b->owner[i] == 0 ||
            b->value[b->owner[i] - 1].examples < b->value[b->owner[least] - 1].examples)
            least = i;
    if (b->owner[least] != 0 && b->value[b->owner[least] - 1].examples > v->examples / 2)
        return;
    if (b->owner[least] != 0)
        b->value[b->owner[least] - 1].cells = 0;
    b->owned += b->owner[least] == 0;
    v->cells = least + 1;
    b->owner[least] = (uint32_t)(v - b->value) + 1;
    memset(cells_of(b, v->cells), 0, b->tasks * sizeof(struct metric_by_cells));
}

static struct metric_value *value_new(struct metric_by *b, uint64_t key)
{
    struct metric_value *v = &b->value[b->count++];
    *v = (struct metric_value){.key = key, .missed = b->floor, .sums = v->sums};
    memset(metric_by_sums(b, v), 0, b->tasks * sizeof(struct metric_by_task));
    *slot_find(b, key) = b->count;
    return v;
}

void metric_by_add(struct metric_by *b, uint64_t key, const float *p, const float *y,
                   const double *loss)
{
    uint32_t at = *slot_find(b, key);
    if (at == 0 && b->count == b->capacity)
        values_thin(b, b->capacity / 2);
    struct metric_value *v = at != 0 ? &b->value[at - 1] : value_new(b, key);
    v->examples++;
    if (v->cells == 0)
        cells_seek(b, v);
    for (uint32_t t = 0; t < b->tasks; t++) {
        struct metric_by_task one = {loss[t], (double)p[t], y[t] > 0.5f};
        task_sum(&metric_by_sums(b, v)[t], &one);
        if (v->cells != 0) {
            struct metric_by_cells *c = &cells_of(b, v->cells)[t];
            (y[t] > 0.5f ? c->positives : c->negatives)[metric_cell_of(p[t], &grid)]++;
        }
    }
}

void metric_by_finish(struct metric_by *b, uint32_t top)
{
    qsort(b->value, b->count, sizeof *b->value, value_compare);
    for (uint32_t i = top; i < b->count; i++)
        value_drop(b, &b->value[i]);
    b->count = b->count < top ? b->count : top;
}

void metric_by_auc(const struct metric_by *b, const struct metric_value *v, uint32_t task,
                   struct metric *out)
{
    struct metric_pairs pairs = {.below = 0};
    SHOAL_ASSERT(task < b->tasks);
    const struct metric_by_cells *c = v->cells == 0 ? NULL : &cells_of(b, v->cells)[task];
    for (uint32_t i = 0; c != NULL && i < METRIC_BY_CELLS; i++)
        metric_pairs_add(&pairs, c->positives[i], c->negatives[i]);
    metric_pairs_figures(&pairs, 0, 0, out);
}
