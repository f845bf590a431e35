/* ahead.c: dividing a batch's keys between a pull and earlier pushes.
 *
 * 1. A key is awaited by one later batch at most, the first that has it: that one is the latest
 *    earlier batch with the key for all after it. [assert: ahead_divide]
 * 2. A key of a batch is due, or awaited from one earlier push, or settled. `waits` counts the
 *    awaited ones. [assert: ahead_settle] */
#include "worker/train/ahead.h"
#include "proto/base/assert.h"
#include "proto/base/err.h"
#include "proto/base/key.h"

#include <stdlib.h>
#include <string.h>

/* ---- bits ------------------------------------------------------------------------------------ */

static bool bit_get(const uint8_t *bits, uint32_t i)
{
    return bits[i / 8] >> i % 8 & 1;
}

static void bit_set(uint8_t *bits, uint32_t i)
{
    bits[i / 8] |= (uint8_t)(1u << i % 8);
}

static void bit_clear(uint8_t *bits, uint32_t i)
{
    bits[i / 8] &= (uint8_t) ~(1u << i % 8);
}

/* The first set bit from `from` on, below `end`; else `end`. Steps over empty bytes. */
static uint32_t bit_next(const uint8_t *bits, uint32_t from, uint32_t end)
{
    while (from < end) {
        unsigned rest = (unsigned)bits[from / 8] >> from % 8;
        if (rest != 0) {
            from += (uint32_t)__builtin_ctz(rest);
            break;
        }
        from = (from / 8 + 1) * 8;
    }
    if (from < end)
        return from;
    return end;
}

/* ---- life ------------------------------------------------------------------------------------ */

void ahead_close(struct ahead *a)
{
    free(a->due);
    free(a->echo);
    free(a->batches);
    free(a->place);
    *a = (struct ahead){.tables = 0};
}

static int room_make(struct ahead *a, uint32_t keys)
{
    if (keys <= a->capacity)
        return 0;
    uint32_t room = (keys + keys / 8 + 7) / 8 * 8;
    ahead_close(a);
    a->due = malloc(room / 8);
    a->echo = malloc(room / 8);
    a->batches = malloc(room);
    a->place = malloc(room * sizeof *a->place);
    if (a->due == NULL || a->echo == NULL || a->batches == NULL || a->place == NULL) {
        ahead_close(a);
        return SHOAL_E_NOMEM;
    }
    a->capacity = room;
    return 0;
}

int ahead_begin(struct ahead *a, const uint32_t *counts, uint32_t tables, bool due)
{
    uint32_t first[AHEAD_TABLES + 1], at = 0;
    SHOAL_ASSERT(tables <= AHEAD_TABLES);
    for (uint32_t t = 0; t < tables; t++) {
        first[t] = at;
        at += (counts[t] + 7) / 8 * 8;
    }
    first[tables] = at;
    int rc = room_make(a, at);
    if (rc != 0)
        return rc;
    memcpy(a->first, first, (tables + 1) * sizeof *first);
    a->tables = tables;
    a->waits = a->missed = 0;
    if (at == 0)
        return 0;
    memset(a->echo, 0, at / 8);
    memset(a->due, 0, at / 8);
    for (uint32_t t = 0; t < tables && due; t++) {
        memset(a->due + first[t] / 8, 0xff, counts[t] / 8);
        for (uint32_t i = counts[t] / 8 * 8; i < counts[t]; i++)
            bit_set(a->due, first[t] + i);
    }
    return 0;
}

/* ---- the division ---------------------------------------------------------------------------- */

void ahead_divide(struct ahead *a, uint32_t table, struct ahead_keys own, struct ahead *earlier,
                  struct ahead_keys its, uint8_t batches)
{
    const uint32_t at = a->first[table], its_at = earlier->first[table];
    uint32_t i = bit_next(a->due, at, at + own.count) - at, k = 0;
    while (i < own.count && k < its.count) {
        if (own.key[i] != its.key[k]) {
            bool ahead = key_mix(own.key[i]) > key_mix(its.key[k]);
            if (ahead)
                k++;
            else
                i = bit_next(a->due, at + i + 1, at + own.count) - at;
            continue;
        }
        SHOAL_ASSERT(!bit_get(earlier->echo, its_at + k)); /* 1 */
        bit_set(earlier->echo, its_at + k);
        earlier->batches[its_at + k] = batches;
        earlier->place[its_at + k] = i;
        bit_clear(a->due, at + i);
        a->waits++;
        k++;
        i = bit_next(a->due, at + i + 1, at + own.count) - at;
    }
}

uint32_t ahead_list(struct ahead *a, uint32_t table, struct ahead_keys own, uint64_t *key,
                    uint32_t *place)
{
    const uint32_t at = a->first[table], end = at + own.count;
    uint32_t listed = 0;
    for (uint32_t i = bit_next(a->due, at, end); i < end; i = bit_next(a->due, i + 1, end)) {
        key[listed] = own.key[i - at];
        place[listed++] = i - at;
        bit_clear(a->due, i);
    }
    return listed;
}

/* ---- echoes ---------------------------------------------------------------------------------- */

uint32_t ahead_next(const struct ahead *a, uint32_t table, uint32_t key, uint32_t end)
{
    const uint32_t at = a->first[table];
    SHOAL_ASSERT(end <= a->first[table + 1] - at);
    return bit_next(a->echo, at + key, at + end) - at;
}

uint32_t ahead_echoes(const struct ahead *a, uint32_t table, uint32_t key, uint32_t count)
{
    const uint32_t end = key + count;
    uint32_t found = 0;
    for (uint32_t k = ahead_next(a, table, key, end); k < end; k = ahead_next(a, table, k + 1, end))
        found++;
    return found;
}

void ahead_bitmap(const struct ahead *a, uint32_t table, uint32_t key, uint32_t count,
                  uint8_t *bits)
{
    const uint32_t end = key + count;
    memset(bits, 0, (count + 7) / 8);
    for (uint32_t k = ahead_next(a, table, key, end); k < end; k = ahead_next(a, table, k + 1, end))
        bit_set(bits, k - key);
}

void ahead_settle(struct ahead *a, uint32_t table, uint32_t key, struct ahead *later, bool came)
{
    const uint32_t at = a->first[table] + key;
    SHOAL_ASSERT(bit_get(a->echo, at) && later->waits > 0); /* 2 */
    bit_clear(a->echo, at);
    later->waits--;
    if (came)
        return;
    bit_set(later->due, later->first[table] + a->place[at]);
    later->missed++;
}

bool ahead_serves(uint64_t clock, uint64_t low, uint32_t batches, uint64_t staleness)
{
    const uint64_t pull = clock + batches;
    return pull <= staleness + 1 || low >= pull - staleness - 1;
}
