/* join_past.c: impressions on disk.
 *
 * 1. A hash that is there is never missed by the filter: counts that are full stay so.
 *    [test: join_ids_of_one_hash_are_told_apart]
 * 2. Slots of a hash have no gap. [assert: slot_drop] */
#include "worker/data/join_past.h"

#include "proto/base/assert.h"
#include "proto/base/rng.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define FULL 15u
#define PLACES 3u

int join_past_init(struct join_past *p, struct join_store *s, uint64_t filter_bytes, struct err *e)
{
    SHOAL_ASSERT(filter_bytes > 0);
    p->store = s;
    p->first = p->end = 0;
    p->ahead[0].count = p->ahead[1].count = 0;
    p->filter_bytes = filter_bytes;
    p->filter = calloc(filter_bytes, 1);
    return p->filter != NULL ? 0 : err_set(e, SHOAL_E_NOMEM, "no memory for a join; free some");
}

void join_past_free(struct join_past *p)
{
    free(p->filter);
    p->filter = NULL;
}

/* A counting Bloom filter: a hash has PLACES counts of four bits, two to a byte. */
static uint64_t place(const struct join_past *p, uint64_t hash, uint32_t which)
{
    return rng_mix(hash + which) % (2 * p->filter_bytes);
}

static uint32_t count_at(const struct join_past *p, uint64_t at)
{
    return p->filter[at / 2] >> at % 2 * 4 & FULL;
}

/* By one more or less (1). */
static void count_change(struct join_past *p, uint64_t at, int by)
{
    uint32_t count = count_at(p, at);
    SHOAL_ASSERT(count > 0 || by > 0);
    if (count != FULL)
        p->filter[at / 2] = (uint8_t)(p->filter[at / 2] + by * (at % 2 == 0 ? 1 : 1 + FULL));
}

static void filter_change(struct join_past *p, uint64_t hash, int by)
{
    for (uint32_t i = 0; i < PLACES; i++)
        count_change(p, place(p, hash, i), by);
}

/* How many of it there may be; 0: none, for sure. */
static uint32_t filter_most(const struct join_past *p, uint64_t hash)
{
    uint32_t least = FULL;
    for (uint32_t i = 0; i < PLACES; i++) {
        uint32_t count = count_at(p, place(p, hash, i));
        least = count < least ? count : least;
    }
    return least;
}

static struct store_item number_key(uint64_t number)
{
    return join_store_key('q', number, 8, 0, 0);
}

static struct store_item slot_key(uint64_t hash, uint32_t slot)
{
    return join_store_key('i', hash, 8, slot, 4);
}

static int slot_get(struct join_past *p, uint64_t hash, uint32_t slot, uint64_t *number,
                    bool *found, struct err *e)
{
    struct store_item key = slot_key(hash, slot);
    return join_store_get(p->store, &key, number, sizeof *number, found, e);
}

static int missing(const struct join_past *p, uint64_t number, struct err *e)
{
    return err_set(e, SHOAL_E_CORRUPT,
                   "%s: impression %" PRIu64 " of a join is not there; remove the folder and start "
                   "again",
                   p->store->dir, number);
}

static int row_get(struct join_past *p, uint64_t number, struct join_row *row, struct err *e)
{
    struct store_item key = number_key(number);
    bool found;
    int rc = join_store_get(p->store, &key, row, sizeof *row, &found, e);
    return rc == 0 && !found ? missing(p, number, e) : rc;
}

int join_past_add(struct join_past *p, const struct join_row *row, struct err *e)
{
    uint32_t slot = 0;
    bool taken = filter_most(p, row->hash) > 0;
    int rc = 0;
    for (uint64_t other; taken && rc == 0; slot += taken)
        rc = slot_get(p, row->hash, slot, &other, &taken, e);
    struct store_item by_hash = slot_key(row->hash, slot), by_number = number_key(p->end);
    if (rc == 0)
        rc = join_store_put(p->store, &by_hash, &p->end, sizeof p->end, e);
    if (rc == 0)
        rc = join_store_put(p->store, &by_number, row, sizeof *row, e);
    if (rc != 0)
        return rc;
    filter_change(p, row->hash, 1);
    p->end++;
    return 0;
}

int join_past_find(struct join_past *p, uint64_t hash, join_same same, void *context,
                   uint64_t *number, struct join_row *row, struct err *e)
{
    bool found = p->first < p->end && filter_most(p, hash) > 0, is = false;
    int rc = 0;
    for (uint32_t slot = 0; found && !is && rc == 0; slot++) {
        rc = slot_get(p, hash, slot, number, &found, e);
        if (rc == 0 && found)
            rc = row_get(p, *number, row, e);
        if (rc == 0 && found)
            rc = same(context, row, &is, e);
    }
    if (!is)
        *number = UINT64_MAX;
    return rc;
}

int join_past_set(struct join_past *p, uint64_t number, const struct join_row *row, struct err *e)
{
    struct store_item key = number_key(number);
    SHOAL_ASSERT(number >= p->first && number < p->end);
    for (uint32_t i = 0; i < 2; i++)
        if (number - p->ahead[i].first < p->ahead[i].count)
            p->ahead[i].row[number - p->ahead[i].first] = *row;
    return join_store_put(p->store, &key, row, sizeof *row, e);
}

int join_past_row(struct join_past *p, uint32_t who, uint64_t number, struct join_row *out,
                  struct err *e)
{
    struct join_ahead *a = &p->ahead[who];
    SHOAL_ASSERT(who < 2 && number >= p->first && number < p->end);
    if (number - a->first >= a->count) {
        struct store_item from = number_key(number), below = number_key(p->end);
        int rc = join_store_rows(p->store, &from, &below, a->row, JOIN_AHEAD, &a->count, e);
        a->first = number;
        if (rc == 0 && a->count == 0)
            rc = missing(p, number, e);
        if (rc != 0) {
            a->count = 0;
            return rc;
        }
    }
    *out = a->row[number - a->first];
    return 0;
}

/* The last of a hash takes the place of the one that goes (2). */
static int slot_drop(struct join_past *p, uint64_t hash, struct err *e)
{
    uint32_t slot = 0, mine = UINT32_MAX;
    uint64_t number = 0, last = 0;
    bool found = true;
    int rc = 0;
    while (rc == 0 && found) {
        rc = slot_get(p, hash, slot, &number, &found, e);
        if (rc == 0 && found) {
            last = number;
            mine = number == p->first ? slot : mine;
            slot++;
        }
    }
    if (rc == 0 && mine == UINT32_MAX)
        rc = missing(p, p->first, e);
    SHOAL_ASSERT(rc != 0 || mine < slot); /* 2 */
    if (rc == 0 && mine != slot - 1) {
        struct store_item to = slot_key(hash, mine);
        rc = join_store_put(p->store, &to, &last, sizeof last, e);
    }
    struct store_item end = slot_key(hash, slot - 1);
    return rc == 0 ? join_store_put(p->store, &end, NULL, 0, e) : rc;
}

int join_past_drop(struct join_past *p, const struct join_row *row, struct err *e)
{
    struct store_item by_number = number_key(p->first), only = slot_key(row->hash, 0);
    SHOAL_ASSERT(p->first < p->end);
    if (filter_most(p, row->hash) == 0) /* a copy that was loaded lacks it */
        return missing(p, p->first, e);
    /* alone there, it needs no look */
    int rc = filter_most(p, row->hash) == 1 ? join_store_put(p->store, &only, NULL, 0, e)
                                            : slot_drop(p, row->hash, e);
    if (rc == 0)
        rc = join_store_put(p->store, &by_number, NULL, 0, e);
    if (rc != 0)
        return rc;
    filter_change(p, row->hash, -1);
    p->first++;
    return 0;
}

void join_past_see(void *context, const void *key, size_t bytes)
{
    struct join_past *p = context;
    const unsigned char *k = key;
    uint64_t hash = 0;
    if (bytes != slot_key(0, 0).key_bytes || k[0] != 'i')
        return;
    for (uint32_t i = 1; i <= 8; i++)
        hash = hash << 8 | k[i];
    filter_change(p, hash, 1);
}
