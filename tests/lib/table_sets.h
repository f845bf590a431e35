/* table_sets.h: sets of tables of tests, by the bits of the tables 0 to 63. */
#ifndef TESTS_LIB_TABLE_SETS_H
#define TESTS_LIB_TABLE_SETS_H

#include "proto/base/table_set.h"

/* UINT64_MAX: all tables. */
static inline struct table_set set_of(uint64_t bits)
{
    return bits == UINT64_MAX ? TABLE_SET_ALL : table_set_word(bits);
}
/* True when the set is that of the bits. */
static inline bool set_is(struct table_set s, uint64_t bits)
{
    return table_set_equal(s, set_of(bits));
}

#endif
