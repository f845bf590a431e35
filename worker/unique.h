/* unique.h: keys of values -> unique keys sorted by key_mix, and where each value's key is among them.
 *
 * The same key may come any number of times, also within one example (fields that share rows). Buffers grow to the
 * largest batch seen and are kept. One thread at a time. */
#ifndef WORKER_UNIQUE_H
#define WORKER_UNIQUE_H

#include <stddef.h>
#include <stdint.h>

#define UNIQUE_BUCKET_BITS 16u

struct unique_key {
    uint64_t mixed; /* key_mix of the key */
    uint32_t place; /* in order of first sight */
};

struct unique {
    uint64_t *keys;                    /* owned: (key_count): the result */
    uint32_t key_count;                /* likewise */
    uint64_t *slot;                    /* owned: (slots): high half of the mixed key, place + 1 below; 0: empty */
    uint32_t slots;                    /* a power of two; keys, found, sorted and rank hold as many */
    struct unique_key *found, *sorted; /* owned: (unique keys) */
    uint32_t *rank;                    /* owned: (unique keys): place -> position in the sorted order */
    uint32_t *bucket;                  /* owned: (2^UNIQUE_BUCKET_BITS + 1) */
};

void unique_init(struct unique *u);
void unique_free(struct unique *u);
/* keys: (values), used up. index: (values): key of value i is u->keys[index[i]]. values < 2^31. NOMEM. */
int unique_make(struct unique *u, uint64_t *keys, uint32_t values, uint32_t *index);

#endif
