/* slices_add.c: the sum of the slices' gradients.
 *
 * 1. Each gradient is the sum over the slices in their order, whichever threads compute and add.
 *    [test: slices_add_the_bits_of_batches_computed_alone] */
#include "proto/base/minmax.h"
#include "worker/train/slices_inner.h"

#include <string.h>

static void floats_add(float *restrict to, const float *restrict from, size_t count)
{
    for (size_t i = 0; i < count; i++)
        to[i] += from[i];
}

/* Adds one of the ranges of an array that every slice has whole. */
static void blocks_add(const struct slices *s, float *to, const float *const slice[LIMIT_WINDOW],
                       size_t floats, uint32_t range)
{
    size_t from = floats * range / s->count, end = floats * (range + 1ull) / s->count;
    if (to == NULL || from == end)
        return;
    memcpy(to + from, slice[0] + from, (end - from) * sizeof *to);
    for (uint32_t i = 1; i < s->count; i++)
        floats_add(to + from, slice[i] + from, end - from);
}

static void dense_add(const struct slices *s, uint32_t range)
{
    const float *dense[LIMIT_WINDOW], *stats[LIMIT_WINDOW];
    for (uint32_t i = 0; i < s->count; i++) {
        dense[i] = s->slice[i].dense.at;
        stats[i] = s->slice[i].stats.at;
    }
    blocks_add(s, s->batch.out->dense_gradients, dense, s->dense_floats, range);
    blocks_add(s, s->batch.out->stats_gradients, stats, s->stats_floats, range);
}

/* How far a slice's list is added. */
struct cursor {
    const uint32_t *row;
    const float *gradient;
};

/* The position in the slice's list of the first row from `row` on. */
static uint32_t list_find(const struct slice *c, uint32_t row)
{
    uint32_t low = 0, high = c->first_of[c->of->tables];
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (c->list[middle] < row)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void cursors_set(const struct slices *s, uint32_t table, uint32_t row,
                        struct cursor at[LIMIT_WINDOW])
{
    size_t width = s->options.schema[table].width;
    for (uint32_t i = 0; i < s->count; i++) {
        const struct slice *c = &s->slice[i];
        uint32_t found = list_find(c, row);
        at[i].row = c->list + found;
        at[i].gradient = (const float *)c->gradients.at + c->floats_of[table] +
                         (found - c->first_of[table]) * width;
    }
}

/* Adds rows [row, end) of one table. */
static void rows_add(const struct slices *s, uint32_t table, uint32_t row, uint32_t end, float *to)
{
    struct cursor at[LIMIT_WINDOW];
    size_t width = s->options.schema[table].width;
    cursors_set(s, table, row, at);
    for (; row < end; row++, to += width) {
        bool first = true;
        for (uint32_t i = 0; i < s->count; i++) {
            if (*at[i].row != row)
                continue;
            if (first)
                memcpy(to, at[i].gradient, width * sizeof *to);
            else
                floats_add(to, at[i].gradient, width);
            first = false;
            at[i].row++;
            at[i].gradient += width;
        }
        if (first) /* no example has it */
            memset(to, 0, width * sizeof *to);
    }
}

void slices_add(const struct range *r)
{
    const struct slices *s = r->of;
    const struct model_input *in = s->batch.in;
    uint32_t from = slices_begin(in->row_count, r->number, s->count),
             to = slices_begin(in->row_count, r->number + 1, s->count), first = 0;
    float *gradients = s->batch.out->row_gradients;
    for (uint32_t t = 0; t < s->tables; t++) {
        uint32_t end = first + in->table_rows[t], row = MAX(from, first);
        size_t width = s->options.schema[t].width;
        if (row < MIN(to, end))
            rows_add(s, t, row, MIN(to, end), gradients + (row - first) * width);
        gradients += in->table_rows[t] * width;
        first = end;
    }
    dense_add(s, r->number);
}
