/* crafted.h: keys that collide in a hash table on purpose, and the length of the searches that they
 * cause. */
#ifndef TESTS_LIB_CRAFTED_H
#define TESTS_LIB_CRAFTED_H

#include "proto/base/key.h"

#include <stdbool.h>
#include <stdint.h>

/* The mixed key ends with 24 zero bits and, for i < 65,536, begins with as many: all such keys have
 * one home, whichever bits a table uses. */
static inline uint64_t crafted_key(uint64_t i)
{
    return key_unmix(i << 24);
}

/* The longest run of taken places is the longest search of a table with linear probing. */
struct crafted_run {
    uint32_t now, most;
};

static inline void crafted_place(struct crafted_run *r, bool taken)
{
    r->now = taken ? r->now + 1 : 0;
    r->most = r->now > r->most ? r->now : r->most;
}

#endif
