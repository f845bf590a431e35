/* unique.c: the unique keys of a batch.
 *
 * 1. Mixed keys are evenly distributed, and the top bits of a mixed key give its home slot in an
 *    open-addressing table, so the entries, read from its start, are nearly in order. At most two
 *    slots of three are taken. [assert: table_fill]
 * 2. The sort that follows therefore moves an entry only past its neighbours in the table (and
 *    the few that wrapped from the table's end to its start).
 *    [test: unique_agrees_with_a_plain_sort] [test: unique_keys_may_crowd_anywhere]
 *    Keys can be crafted to collide: after more steps for each value than random keys ever need,
 *    a plain sort replaces the table. [test: unique_crafted_keys_cost_no_more_than_a_sort]
 * 3. index[] maps value -> slot -> rank in the sorted order. With several tables the ranks of each
 *    follow those of the one before: one pass counts, one places. [assert: unique_make]
 * 4. A mixed key of 0 would look like an empty slot: it has the slot behind the table, and is the
 *    first in order. [assert: table_sort] [test: unique_takes_the_key_that_mixes_to_0] */
#include "worker/data/unique.h"

#include "proto/base/assert.h"
#include "proto/base/err.h"
#include "proto/base/key.h"
#include "proto/base/minmax.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define AHEAD 16u
/* Most steps for each value, past taken slots and then past entries: random keys need two or
 * three. */
#define STEPS_MOST 32u

void unique_init(struct unique *u)
{
    *u = (struct unique){0};
}

void unique_free(struct unique *u)
{
    free(u->keys);
    free(u->slot);
    free(u->rank);
    free(u->found);
    unique_init(u);
}

/* Frees the buffers; the tables stay. */
static void buffers_free(struct unique *u)
{
    const uint8_t *table = u->table;
    uint32_t tables = u->tables;
    unique_free(u);
    u->table = table;
    u->tables = tables;
}

/* Makes room, so that at most two slots of three are taken and runs of taken slots stay short. The
 * contents of the buffers are lost. */
static int unique_grow(struct unique *u, uint32_t values)
{
    uint32_t slots = u->slots > 0 ? u->slots : 1024;
    while (slots < values + values / 2)
        slots *= 2;
    if (slots == u->slots)
        return 0;
    buffers_free(u);
    u->keys = malloc(slots * sizeof u->keys[0]);
    u->slot = malloc(slots * sizeof u->slot[0]);
    u->rank = malloc((slots + 1) * sizeof u->rank[0]);
    u->found = malloc((slots + 1) * sizeof u->found[0]);
    if (u->keys == NULL || u->slot == NULL || u->rank == NULL || u->found == NULL)
        return SHOAL_E_NOMEM;
    u->slots = slots;
    return 0;
}

/* index[i] = slot of value i (1). *zero: there is a mixed key of 0 (4). False: gave up, because
 * keys collide too often (2). */
static bool table_fill(struct unique *u, const uint64_t *mixed, uint32_t values, uint32_t *index,
                       bool *zero)
{
    uint64_t *slot = u->slot;
    uint32_t mask = u->slots - 1;
    unsigned shift = 64 - (unsigned)__builtin_ctz(u->slots);
    uint64_t steps = 0, most = u->steps_most;
    *zero = false;
    SHOAL_ASSERT((u->slots & mask) == 0 && values <= u->slots - u->slots / 3); /* 1 */
    memset(slot, 0, sizeof slot[0] * u->slots);
    for (uint32_t i = 0; i < values && steps <= most; i++) {
        uint64_t m = mixed[i];
        if (i + AHEAD < values)
            __builtin_prefetch(&slot[mixed[i + AHEAD] >> shift], 1);
        if (__builtin_expect(m == 0, 0)) {
            index[i] = u->slots;
            *zero = true;
            continue;
        }
        uint32_t home = (uint32_t)(m >> shift), at = home;
        /* one branch, which mostly goes one way: a branch on a new key would be mispredicted */
        while ((slot[at] & (0 - (uint64_t)(slot[at] != m))) != 0)
            at = (at + 1) & mask;
        slot[at] = m;
        index[i] = at;
        steps += (at - home) & mask;
    }
    u->steps = steps;
    return steps <= most;
}

static int compare_mixed(const void *a, const void *b)
{
    uint64_t x = ((const struct unique_key *)a)->mixed, y = ((const struct unique_key *)b)->mixed;
    return (x > y) - (x < y);
}

/* Collects the table's entries in order (2); sets key_count. */
static void table_sort(struct unique *u, bool zero)
{
    struct unique_key *found = u->found;
    uint64_t steps = u->steps, most = u->steps_most;
    uint32_t count = 0;
    found[count] = (struct unique_key){0, u->slots};
    count += zero;
    for (uint32_t at = 0; at < u->slots; at++) {
        /* no branch: one on an empty slot would be mispredicted */
        found[count] = (struct unique_key){u->slot[at], at};
        count += u->slot[at] != 0;
    }
    for (uint32_t i = 1; i < count && steps <= most; i++) {
        struct unique_key k = found[i];
        uint32_t to = i;
        for (; to > 0 && found[to - 1].mixed > k.mixed; to--)
            found[to] = found[to - 1];
        found[to] = k;
        steps += i - to;
    }
    if (steps > most)
        qsort(found, count, sizeof *found, compare_mixed);
    SHOAL_ASSERT(count <= u->slots && (!zero || found[0].slot == u->slots)); /* 4 */
    u->steps = steps;
    u->key_count = count;
}

/* table_fill and table_sort without a table: sorts all values; a key's slot is its rank. */
static void values_sort(struct unique *u, const uint64_t *mixed, uint32_t values, uint32_t *index)
{
    struct unique_key *found = u->found;
    uint32_t count = 0;
    for (uint32_t i = 0; i < values; i++)
        found[i] = (struct unique_key){mixed[i], i};
    qsort(found, values, sizeof *found, compare_mixed);
    for (uint32_t i = 0; i < values; i++) {
        struct unique_key k = found[i];
        count += i == 0 || found[count - 1].mixed != k.mixed;
        index[k.slot] = count - 1;
        found[count - 1] = (struct unique_key){k.mixed, count - 1};
    }
    SHOAL_ASSERT(count > 0 && count <= values);
    u->key_count = count;
}

/* Computes the start of each table's keys: first[t] for t = 0..tables. */
static void tables_count(struct unique *u)
{
    memset(u->first, 0, sizeof u->first);
    for (uint32_t i = 0; i < u->key_count; i++)
        u->first[u->table[key_field(key_unmix(u->found[i].mixed))] + 1]++;
    for (uint32_t t = 0; t < u->tables; t++)
        u->first[t + 1] += u->first[t];
}

/* Partitions the keys by table; within a table they keep their order. */
static void tables_place(struct unique *u)
{
    uint32_t next[LIMIT_JOB_TABLES + 1];
    tables_count(u);
    memcpy(next, u->first, sizeof next);
    for (uint32_t i = 0; i < u->key_count; i++) {
        uint64_t key = key_unmix(u->found[i].mixed);
        uint32_t to = next[u->table[key_field(key)]]++;
        u->keys[to] = key;
        u->rank[u->found[i].slot] = to;
    }
}

static void keys_place(struct unique *u)
{
    for (uint32_t i = 0; i < u->key_count; i++) {
        u->keys[i] = key_unmix(u->found[i].mixed);
        u->rank[u->found[i].slot] = i;
    }
    u->first[0] = 0;
    u->first[1] = u->key_count;
}

int unique_make(struct unique *u, uint64_t *keys, uint32_t values, uint32_t *index)
{
    bool zero;
    SHOAL_ASSERT(values < 1u << 30);
    if (unique_grow(u, values) != 0)
        return SHOAL_E_NOMEM;
    u->steps_most = (uint64_t)STEPS_MOST * values;
    for (uint32_t i = 0; i < values; i++)
        keys[i] = key_mix(keys[i]);
    if (table_fill(u, keys, values, index, &zero))
        table_sort(u, zero);
    else
        values_sort(u, keys, values, index);
    if (u->tables > 1)
        tables_place(u);
    else
        keys_place(u);
    SHOAL_ASSERT(u->key_count <= values && u->first[MAX(u->tables, 1)] == u->key_count); /* 3 */
    for (uint32_t i = 0; i < values; i++)
        index[i] = u->rank[index[i]];
    return 0;
}
