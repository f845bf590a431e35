/* unique.c: the unique keys of a batch.
 *
 * 1. Keys are mixed, and the unique ones found by an open-addressing table of 8-byte slots, small enough for the
 * second-level cache.
 * 2. Those are sorted by one counting pass over the top bits (mixed keys are spread evenly) and a small sort in each
 * bucket.
 * 3. index[] goes from value -> place of first sight -> rank in the sorted order. */
#include "worker/unique.h"

#include "proto/base/err.h"
#include "proto/base/hash.h"

#include <stdlib.h>
#include <string.h>

#define SMALL_SORT 32u
#define AHEAD 16u

void unique_init(struct unique *u)
{
    *u = (struct unique){0};
}

void unique_free(struct unique *u)
{
    free(u->keys);
    free(u->slot);
    free(u->found);
    free(u->sorted);
    free(u->rank);
    free(u->bucket);
    unique_init(u);
}

/* All buffers are as large as the table: more than there are values. Nothing in them is kept. */
static int unique_grow(struct unique *u, uint32_t values)
{
    uint32_t slots = u->slots > 0 ? u->slots : 1024;
    while (slots < values + values / 8)
        slots *= 2;
    if (slots == u->slots)
        return 0;
    unique_free(u);
    u->keys = malloc(slots * sizeof u->keys[0]);
    u->slot = malloc(slots * sizeof u->slot[0]);
    u->found = malloc(slots * sizeof u->found[0]);
    u->sorted = malloc(slots * sizeof u->sorted[0]);
    u->rank = malloc(slots * sizeof u->rank[0]);
    u->bucket = malloc(((1u << UNIQUE_BUCKET_BITS) + 1) * sizeof u->bucket[0]);
    if (u->keys == NULL || u->slot == NULL || u->found == NULL || u->sorted == NULL || u->rank == NULL ||
        u->bucket == NULL)
        return SHOAL_E_NOMEM;
    u->slots = slots;
    return 0;
}

static void unique_find(struct unique *u, uint64_t *mixed, uint32_t values, uint32_t *index)
{
    uint64_t *slot = u->slot;
    uint32_t mask = u->slots - 1, found = 0;
    memset(slot, 0, sizeof slot[0] * u->slots);
    for (uint32_t i = 0; i < values; i++)
        mixed[i] = key_mix(mixed[i]);
    for (uint32_t i = 0; i < values; i++) {
        if (i + AHEAD < values)
            __builtin_prefetch(&slot[mixed[i + AHEAD] & mask], 1);
        uint32_t at = (uint32_t)mixed[i] & mask, place;
        for (;; at = (at + 1) & mask) {
            uint64_t is = slot[at];
            if (is == 0) {
                place = found++;
                slot[at] = (mixed[i] & 0xffffffff00000000ULL) | found;
                u->found[place] = (struct unique_key){mixed[i], place};
                break;
            }
            place = (uint32_t)is - 1;
            if ((is ^ mixed[i]) >> 32 == 0 && u->found[place].mixed == mixed[i])
                break;
        }
        index[i] = place;
    }
    u->key_count = found;
}

static int compare_mixed(const void *a, const void *b)
{
    uint64_t x = ((const struct unique_key *)a)->mixed, y = ((const struct unique_key *)b)->mixed;
    return (x > y) - (x < y);
}

static void small_sort(struct unique_key *key, uint32_t count)
{
    if (count > SMALL_SORT) { /* only chosen keys crowd like this */
        qsort(key, count, sizeof *key, compare_mixed);
        return;
    }
    for (uint32_t i = 1; i < count; i++) {
        struct unique_key k = key[i];
        uint32_t j = i;
        for (; j > 0 && key[j - 1].mixed > k.mixed; j--)
            key[j] = key[j - 1];
        key[j] = k;
    }
}

static void unique_sort(struct unique *u, uint32_t count)
{
    unsigned bits = 4;
    while (bits < UNIQUE_BUCKET_BITS && (1u << bits) < count)
        bits++;
    unsigned shift = 64 - bits;
    uint32_t buckets = 1u << bits, *start = u->bucket;
    memset(start, 0, sizeof start[0] * (buckets + 1));
    for (uint32_t i = 0; i < count; i++)
        start[(u->found[i].mixed >> shift) + 1]++;
    for (uint32_t i = 0; i < buckets; i++)
        start[i + 1] += start[i];
    for (uint32_t i = 0; i < count; i++)
        u->sorted[start[u->found[i].mixed >> shift]++] = u->found[i];
    for (uint32_t i = 0, from = 0; i < buckets; i++) { /* start[i] is now the end of bucket i */
        small_sort(u->sorted + from, start[i] - from);
        from = start[i];
    }
}

int unique_make(struct unique *u, uint64_t *keys, uint32_t values, uint32_t *index)
{
    if (unique_grow(u, values) != 0)
        return SHOAL_E_NOMEM;
    unique_find(u, keys, values, index);
    unique_sort(u, u->key_count);
    for (uint32_t i = 0; i < u->key_count; i++) {
        u->keys[i] = key_unmix(u->sorted[i].mixed);
        u->rank[u->sorted[i].place] = i;
    }
    for (uint32_t i = 0; i < values; i++)
        index[i] = u->rank[index[i]];
    return 0;
}
