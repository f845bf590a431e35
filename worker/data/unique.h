/* unique.h: makes the keys of values unique, ordered by table and then by key_mix, and finds the
 * position of each value's key among them.
 *
 * The same key may occur any number of times, also within one example (fields that share rows).
 * Buffers grow to the largest batch and are reused. One thread at a time. */
#ifndef WORKER_DATA_UNIQUE_H
#define WORKER_DATA_UNIQUE_H

#include "proto/base/limits.h"

#include <stddef.h>
#include <stdint.h>

struct unique_key {
    uint64_t mixed; /* key_mix of the key */
    uint32_t slot;
};

struct unique {
    uint64_t *keys;           /* owned; (key_count): the result */
    uint32_t key_count;       /* number of unique keys */
    uint64_t *slot;           /* owned: (slots): a mixed key; 0: empty */
    uint32_t slots;           /* a power of two; keys holds as many, found and rank one more */
    struct unique_key *found; /* owned; (key_count): in order */
    uint32_t *rank;           /* owned: slot -> position in the order */
    /* steps of the last batch past slots and entries, and their limit */
    uint64_t steps, steps_most;
    /* borrowed; (LIMIT_FIELDS): table of each field's keys; not read with fewer than two tables */
    const uint8_t *table;
    uint32_t tables; /* 0 counts as 1 */
    /* (tables + 1): start of each table's keys; the last element is key_count */
    uint32_t first[LIMIT_JOB_TABLES + 1];
};

void unique_init(struct unique *u);
void unique_free(struct unique *u);
/* keys: (values), overwritten. index: (values): the key of value i is u->keys[index[i]]. values <
 * 2^30. NOMEM. */
int unique_make(struct unique *u, uint64_t *keys, uint32_t values, uint32_t *index);

#endif
