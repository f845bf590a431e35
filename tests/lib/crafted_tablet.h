/* crafted_tablet.h: counts the buckets that a search reads to find a key of a tablet. */
#ifndef TESTS_LIB_CRAFTED_TABLET_H
#define TESTS_LIB_CRAFTED_TABLET_H

#include "embedding/rows/tablet.h"

#include <check.h>

static inline uint32_t crafted_looked(const struct tablet *t, uint32_t tablet_bits, uint64_t key)
{
    const struct bucket *b = tablet_home(t, tablet_bits, key_mix(key));
    uint32_t count = 1;
    for (; bucket_match(b, key) == 0; count++) {
        ck_assert_uint_eq(b->count, BUCKET_KEYS);
        if (++b == t->buckets + t->bucket_count)
            b = t->buckets;
    }
    return count;
}

#endif
