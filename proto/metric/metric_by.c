/* metric_by.c: a small hash table that drops its rarer half when it is full. */
#include "proto/metric/metric_by.h"
#include "proto/base/array.h"
#include "proto/base/assert.h"
#include "proto/base/minmax.h"
#include "proto/base/salt.h"
#include "proto/metric/metric_cell.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define CELLS_LEAST 64u /* no value with fewer examples takes over the cells of another */

static const struct metric_grid grid = {4, 12};
_Static_assert(METRIC_BY_CELLS == 2 * (12u << 4) + 1, "cells of the grid");

int metric_by_open(struct metric_by *b, uint32_t tasks, uint32_t real, uint32_t capacity,
                   struct err *e)
{
    SHOAL_ASSERT(tasks > 0 && tasks <= LIMIT_TASKS && capacity >= 4 &&
                 (capacity & (capacity - 1)) == 0);
    memset(b, 0, sizeof *b);
    b->tasks = tasks;
    b->real = real;
    b->capacity = capacity;
    b->salt = salt_draw();
    b->value = malloc(capacity * sizeof *b->value);
    b->task = malloc((size_t)capacity * tasks * sizeof *b->task);
    b->more = malloc((size_t)capacity * tasks * sizeof *b->more);
    b->slot = calloc(4ull * capacity, sizeof *b->slot);
    b->cells = calloc((size_t)METRIC_BY_TALLIES * tasks, sizeof *b->cells);
    for (uint32_t i = 0; b->value != NULL && i < capacity; i++)
        b->value[i].sums = i;
    if (b->value != NULL && b->task != NULL && b->more != NULL && b->slot != NULL &&
        b->cells != NULL)
        return 0;
    metric_by_close(b);
    return err_set(e, SHOAL_E_NOMEM, "no memory for %u values of a field of evaluate.by", capacity);
}

void metric_by_close(struct metric_by *b)
{
    free(b->value);
    free(b->task);
    free(b->more);
    free(b->slot);
    free(b->cells);
    memset(b, 0, sizeof *b);
}

void metric_by_clear(struct metric_by *b)
{
    memset(b->slot, 0, 4ull * b->capacity * sizeof *b->slot);
    memset(b->owner, 0, sizeof b->owner);
    memset(b->rest, 0, sizeof b->rest);
    memset(b->rest_more, 0, sizeof b->rest_more);
    b->count = b->owned = 0;
    b->floor = 0;
    b->rest_examples = b->rest_values = 0;
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

static void more_sum(struct metric_by_more *to, const struct metric_by_more *from)
{
    to->examples += from->examples;
    to->label += from->label;
}

/* v is dropped: if it comes back, this many of its examples may have been missed. */
static void floor_raise(struct metric_by *b, const struct metric_value *v)
{
    b->floor = MAX(v->examples + v->missed, b->floor);
}

static void value_drop(struct metric_by *b, const struct metric_value *v)
{
    b->rest_examples += v->examples;
    b->rest_values++;
    for (uint32_t t = 0; t < b->tasks; t++) {
        task_sum(&b->rest[t], &metric_by_sums(b, v)[t]);
        more_sum(&b->rest_more[t], &metric_by_more(b, v)[t]);
    }
}

/* More examples first, then the smaller key. */
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
    return (uint32_t)MIN(v->examples, UINT32_MAX);
}

/* Keeps the `keep` values with the most examples, and among equal ones the earliest. The places of
 * the dropped values' sums stay behind the kept ones, for new values. */
static void values_thin(struct metric_by *b, uint32_t keep)
{
    uint32_t count = 0, above = 0, *sorted = b->slot; /* the slots are refilled below */
    if (b->count <= keep)
        return;
    for (uint32_t i = 0; i < b->count; i++)
        sorted[i] = count_of(&b->value[i]);
    array_sort(sorted, sorted + b->capacity, b->count);
    uint32_t least = sorted[b->count - keep];
    for (uint32_t i = b->count - keep; i < b->count; i++)
        above += sorted[i] > least;
    uint32_t equal = keep - above; /* this many of the values with exactly `least` stay */
    for (uint32_t i = 0; i < b->count; i++) {
        struct metric_value v = b->value[i];
        bool stays = count_of(&v) > least || (count_of(&v) == least && equal > 0);
        equal -= stays && count_of(&v) == least;
        if (v.cells != 0) {
            b->owner[v.cells - 1] = 0;
            if (stays)
                b->owner[v.cells - 1] = count + 1;
            b->owned -= !stays;
        }
        if (stays) {
            b->value[i] = b->value[count];
            b->value[count++] = v;
        } else {
            floor_raise(b, &v);
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

/* Finds cells for a value without: free ones, or those of a value with at most half as many
 * examples. */
static void cells_seek(struct metric_by *b, struct metric_value *v)
{
    uint32_t least = 0;
    if (b->owned == METRIC_BY_TALLIES && v->examples < CELLS_LEAST)
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
    memset(metric_by_more(b, v), 0, b->tasks * sizeof(struct metric_by_more));
    *slot_find(b, key) = b->count;
    return v;
}

static struct metric_value *value_of(struct metric_by *b, uint64_t key)
{
    uint32_t at = *slot_find(b, key);
    if (at == 0 && b->count == b->capacity)
        values_thin(b, b->capacity / 2);
    if (at == 0)
        return value_new(b, key);
    return &b->value[at - 1];
}

void metric_by_add(struct metric_by *b, uint64_t key, const float *p, const float *y,
                   const double *loss)
{
    struct metric_value *v = value_of(b, key);
    v->examples++;
    /* only at each power of two, so that the search costs little beside counting */
    if (v->cells == 0 && (v->examples & (v->examples - 1)) == 0)
        cells_seek(b, v);
    for (uint32_t t = 0; t < b->tasks; t++) {
        bool real = b->real >> t & 1;
        struct metric_by_task one = {loss[t], (double)p[t], !real && y[t] > 0.5f};
        struct metric_by_more more = {1, real ? (double)y[t] : 0};
        if (isnan(y[t]))
            continue;
        task_sum(&metric_by_sums(b, v)[t], &one);
        more_sum(&metric_by_more(b, v)[t], &more);
        if (v->cells != 0 && !real) {
            struct metric_by_cells *c = &cells_of(b, v->cells)[t];
            (y[t] > 0.5f ? c->positives : c->negatives)[metric_cell_of(p[t], &grid)]++;
        }
    }
}

void metric_by_finish(struct metric_by *b, uint32_t top)
{
    qsort(b->value, b->count, sizeof *b->value, value_compare);
    for (uint32_t i = top; i < b->count; i++) {
        floor_raise(b, &b->value[i]);
        value_drop(b, &b->value[i]);
    }
    b->count = MIN(b->count, top);
}

void metric_by_auc(const struct metric_by *b, const struct metric_value *v, uint32_t task,
                   struct metric *out)
{
    struct metric_pairs pairs = {.below = 0};
    SHOAL_ASSERT(task < b->tasks);
    const struct metric_by_cells *c = NULL;
    if (v->cells != 0)
        c = &cells_of(b, v->cells)[task];
    for (uint32_t i = 0; c != NULL && i < METRIC_BY_CELLS; i++)
        metric_pairs_add(&pairs, c->positives[i], c->negatives[i]);
    metric_pairs_figures(&pairs, 0, 0, out);
}

/* ---- sent and joined ------------------------------------------------------------------------- */

static double whole_parts(double x)
{
    return nearbyint(x * METRIC_BY_ONE) / METRIC_BY_ONE;
}

/* Writes the entries of a value. Returns their number; 0 when there are more than `room`. */
static uint32_t entries_put(const struct metric_by *b, const struct metric_value *v,
                            struct metric_by_entry *out, uint32_t room)
{
    uint32_t count = 0;
    for (uint32_t t = 0; v->cells != 0 && t < b->tasks; t++) {
        const struct metric_by_cells *c = &cells_of(b, v->cells)[t];
        for (uint32_t i = 0; i < METRIC_BY_CELLS; i++) {
            if (c->positives[i] == 0 && c->negatives[i] == 0)
                continue;
            if (count == room)
                return 0;
            out[count++] = (struct metric_by_entry){t, i, c->positives[i], c->negatives[i]};
        }
    }
    return count;
}

bool metric_by_put(const struct metric_by *b, struct metric_by_part *part)
{
    struct metric_by_head *head = (void *)(uintptr_t)part->head;
    struct metric_by_told *told = (void *)(uintptr_t)part->told;
    struct metric_by_task *task = (void *)(uintptr_t)part->task;
    struct metric_by_more *more = (void *)(uintptr_t)part->more;
    struct metric_by_entry *entry = (void *)(uintptr_t)part->entry;
    bool needed = b->real != 0;
    SHOAL_ASSERT(b->count <= METRIC_BY_TOLD && part->entries <= METRIC_BY_ENTRIES);
    head[part->fields] = (struct metric_by_head){b->floor, b->rest_values};
    for (uint32_t i = 0; i < b->count; i++) {
        const struct metric_value *v = &b->value[i];
        uint32_t cells =
            entries_put(b, v, entry + part->entries, METRIC_BY_ENTRIES - part->entries);
        for (uint32_t t = 0; t < b->tasks; t++) {
            const struct metric_by_task *sums = &metric_by_sums(b, v)[t];
            const struct metric_by_more *of = &metric_by_more(b, v)[t];
            size_t at = (size_t)part->values * b->tasks + t;
            task[at] = (struct metric_by_task){whole_parts(sums->loss),
                                               whole_parts(sums->predicted), sums->positives};
            more[at] = (struct metric_by_more){of->examples, whole_parts(of->label)};
            needed |= of->examples != v->examples;
        }
        told[part->values++] =
            (struct metric_by_told){v->key, v->examples, v->missed, part->fields, cells};
        part->entries += cells;
    }
    part->fields++;
    return needed;
}

/* The counts of a value where the part leaves them out. */
static struct metric_by_more more_of(const struct metric_by_part *part, size_t at,
                                     uint64_t examples)
{
    if (part->more == NULL)
        return (struct metric_by_more){.examples = examples};
    return part->more[at];
}

static bool real_ok(const struct metric_by_task *task, const struct metric_by_more *more)
{
    return task->loss >= 0 && isfinite(task->loss) && isfinite(task->predicted) &&
           isfinite(more->label) && task->positives == 0;
}

static bool binary_ok(const struct metric_by_task *task, const struct metric_by_more *more)
{
    return task->loss >= 0 && task->loss <= 35.0 * (double)more->examples + 1 &&
           task->predicted >= 0 && task->predicted <= (double)more->examples + 1 &&
           task->positives <= more->examples && more->label == 0;
}

/* Checks the sums of value i of the part. */
static bool sums_ok(const struct metric_by_part *part, uint32_t i, uint32_t tasks, uint32_t real,
                    uint64_t examples)
{
    bool good = real == 0 || part->more != NULL;
    for (uint32_t t = 0; t < tasks && good; t++) {
        size_t at = (size_t)i * tasks + t;
        const struct metric_by_more more = more_of(part, at, examples);
        good = more.examples <= examples;
        if (real >> t & 1)
            good = good && real_ok(&part->task[at], &more);
        else
            good = good && binary_ok(&part->task[at], &more);
    }
    return good;
}

static bool entries_ok(const struct metric_by_entry *entry, uint32_t count, uint32_t tasks,
                       uint64_t examples)
{
    uint64_t seen[LIMIT_TASKS] = {0};
    for (uint32_t i = 0; i < count; i++) {
        if (entry[i].label >= tasks || entry[i].cell >= METRIC_BY_CELLS)
            return false;
        seen[entry[i].label] += (uint64_t)entry[i].positives + entry[i].negatives;
        if (seen[entry[i].label] > examples)
            return false;
    }
    return true;
}

bool metric_by_part_ok(const struct metric_by_part *part, uint32_t tasks, uint32_t real,
                       uint64_t examples)
{
    uint32_t entries = 0, field = 0;
    uint64_t left = examples;
    SHOAL_ASSERT(tasks >= 1 && tasks <= LIMIT_TASKS);
    for (uint32_t f = 0; f < part->fields; f++)
        if (part->head[f].floor > examples || part->head[f].rest_values > examples)
            return false;
    for (uint32_t i = 0; i < part->values; i++) {
        const struct metric_by_told *v = &part->told[i];
        if (v->field < field || v->field >= part->fields)
            return false;
        if (v->field > field)
            left = examples;
        field = v->field;
        if (v->examples == 0 || v->examples > left || v->missed > part->head[field].floor ||
            v->cells > part->entries - entries || !sums_ok(part, i, tasks, real, v->examples) ||
            !entries_ok(part->entry + entries, v->cells, tasks, v->examples))
            return false;
        left -= v->examples;
        entries += v->cells;
    }
    return entries == part->entries;
}

static void cells_join(struct metric_by *b, struct metric_value *v,
                       const struct metric_by_entry *entry, uint32_t count)
{
    if (v->cells == 0)
        cells_seek(b, v);
    for (uint32_t i = 0; v->cells != 0 && i < count; i++) {
        struct metric_by_cells *c = &cells_of(b, v->cells)[entry[i].label];
        uint32_t *positives = &c->positives[entry[i].cell],
                 *negatives = &c->negatives[entry[i].cell];
        if (entry[i].positives > UINT32_MAX - *positives ||
            entry[i].negatives > UINT32_MAX - *negatives)
            continue; /* full: AUC covers the counts before */
        *positives += entry[i].positives;
        *negatives += entry[i].negatives;
    }
}

/* Adds the totals of all examples of the part, less those of values that were sent one by one. */
static void rest_join(struct metric_by *b, const struct metric_by_task *left,
                      const struct metric_by_more *more, uint64_t examples)
{
    b->rest_examples += examples;
    for (uint32_t t = 0; t < b->tasks && examples > 0; t++) {
        /* sums are rounded, so differences may be negative */
        struct metric_by_task one = {fmax(left[t].loss, 0), left[t].predicted, left[t].positives};
        if ((b->real >> t & 1) == 0)
            one.predicted = fmax(one.predicted, 0);
        task_sum(&b->rest[t], &one);
        more_sum(&b->rest_more[t], &more[t]);
    }
}

void metric_by_join(struct metric_by *b, const struct metric_by_part *part, uint32_t field,
                    const struct metric_by_task *all, const struct metric_by_more *more,
                    uint64_t examples)
{
    struct metric_by_task left[LIMIT_TASKS];
    struct metric_by_more left_more[LIMIT_TASKS];
    uint64_t floor = part->head[field].floor;
    const struct metric_by_entry *entry = part->entry;
    memcpy(left, all, b->tasks * sizeof *all);
    memcpy(left_more, more, b->tasks * sizeof *more);
    /* A value that the part does not name may have had up to `floor` examples in it. For a value
     * that it names this is undone below. */
    for (uint32_t i = 0; i < b->count; i++)
        b->value[i].missed += floor;
    b->floor += floor;
    for (uint32_t i = 0; i < part->values; entry += part->told[i++].cells) {
        const struct metric_by_told *told = &part->told[i];
        const struct metric_by_task *task = &part->task[(size_t)i * b->tasks];
        if (told->field != field)
            continue;
        struct metric_value *v = value_of(b, told->key);
        v->examples += told->examples;
        v->missed -= floor - told->missed;
        cells_join(b, v, entry, told->cells);
        examples -= told->examples;
        for (uint32_t t = 0; t < b->tasks; t++) {
            const struct metric_by_more of =
                more_of(part, (size_t)i * b->tasks + t, told->examples);
            task_sum(&metric_by_sums(b, v)[t], &task[t]);
            more_sum(&metric_by_more(b, v)[t], &of);
            left_more[t].examples -= MIN(of.examples, left_more[t].examples);
            left_more[t].label -= of.label;
            left[t].loss -= task[t].loss;
            left[t].predicted -= task[t].predicted;
            left[t].positives -= MIN(task[t].positives, left[t].positives);
        }
    }
    b->rest_values += part->head[field].rest_values;
    rest_join(b, left, left_more, examples);
}
