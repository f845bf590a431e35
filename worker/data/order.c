/* order.c: windows of event time, and the chunk at a place of an epoch.
 *
 * 1. index_order, a bijection, draws a chunk's place within its window, and the windows partition
 *    the chunks: an epoch visits each chunk once.
 *    [test: an_epoch_in_windows_visits_each_chunk_once]
 * 2. The draw is a function of seed, epoch, the window's time and its number of chunks, so a log
 *    that grows does not change earlier windows.
 *    [test: a_later_window_changes_nothing_before_it] */
#include "worker/data/order.h"

#include "proto/base/assert.h"
#include "proto/base/rng.h"

#include <stdlib.h>

static int less(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Splits chunks into windows. `sorted`: time, or first second of the window, << 32 | chunk. */
static int windows_cut(struct order *o, const uint64_t *sorted, uint32_t within,
                       const struct zone *zone)
{
    uint32_t windows = 0;
    uint64_t end = 0;
    for (uint32_t i = 0; i < o->whole; i++) {
        uint32_t time = (uint32_t)(sorted[i] >> 32);
        windows += time >= end;
        if (time >= end)
            end = zone_end(zone, within, zone_begin(zone, within, time));
    }
    o->chunk = malloc(sizeof o->chunk[0] * (o->whole + 1ull));
    o->first = malloc(sizeof o->first[0] * (windows + 1ull));
    o->window = malloc(sizeof o->window[0] * (windows + 1ull));
    if (o->chunk == NULL || o->first == NULL || o->window == NULL)
        return SHOAL_E_NOMEM;
    end = 0;
    for (uint32_t i = 0; i < o->whole; i++) {
        uint32_t time = (uint32_t)(sorted[i] >> 32);
        o->chunk[i] = (uint32_t)sorted[i];
        if (time < end)
            continue;
        end = zone_end(zone, within, zone_begin(zone, within, time));
        o->first[o->windows] = i;
        o->window[o->windows++] = zone_number(zone, within, time);
    }
    o->first[o->windows] = o->whole;
    SHOAL_ASSERT(o->windows == windows);
    return 0;
}

int order_open(struct order *o, const struct index *x, bool drawn, uint32_t within,
               const struct zone *zone, struct err *e)
{
    uint32_t before = 0;
    *o = (struct order){.drawn = drawn, .whole = (uint32_t)(x->rows / x->chunk_rows)};
    if (within == 0)
        return 0;
    SHOAL_ASSERT(x->time != NULL || x->chunks == 0);
    uint64_t *sorted = malloc(sizeof sorted[0] * (o->whole + 1ull));
    for (uint32_t i = 0; sorted != NULL && i < o->whole; i++) {
        uint32_t time = x->time[i];
        o->going_back += before > within && time < before - within;
        before = time;
        sorted[i] = (uint64_t)(drawn ? zone_begin(zone, within, time) : time) << 32 | i;
    }
    int rc = SHOAL_E_NOMEM;
    if (sorted != NULL) {
        qsort(sorted, o->whole, sizeof sorted[0], less);
        rc = windows_cut(o, sorted, within, zone);
    }
    free(sorted);
    if (rc == 0)
        return 0;
    order_close(o);
    return err_set(e, rc, "no memory for the order of the input; free some");
}

void order_close(struct order *o)
{
    free(o->chunk);
    free(o->first);
    free(o->window);
    *o = (struct order){0};
}

uint64_t order_rows(const struct order *o, const struct index *x, uint32_t window)
{
    SHOAL_ASSERT(window < o->windows);
    uint64_t rows = (uint64_t)(o->first[window + 1] - o->first[window]) * x->chunk_rows;

    if (window + 1 < o->windows)
        return rows;

    return rows + x->rows - (uint64_t)o->whole * x->chunk_rows;
}

/* The window of a place. */
static uint32_t window_at(const struct order *o, uint64_t place)
{
    uint32_t low = 0, high = o->windows;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (o->first[middle] <= place)
            low = middle;
        else
            high = middle;
    }
    return low;
}

uint64_t order_chunk(const struct order *o, uint64_t seed, uint32_t epoch, uint64_t place)
{
    SHOAL_ASSERT(place < o->whole);
    if (!o->drawn)
        return o->windows == 0 ? place : o->chunk[place];
    if (o->windows == 0)
        return index_order(seed, epoch, o->whole, place);
    uint32_t w = window_at(o, place), first = o->first[w], count = o->first[w + 1] - first;
    uint64_t at =
        index_order(rng_mix(seed ^ rng_mix(o->window[w] + 1ull)), epoch, count, place - first);
    SHOAL_ASSERT(at < count); /* 1 */
    return o->chunk[first + at];
}
