/* table_inner.h: struct table, for the files that make up table.h: table.c, pull.c, push.c, image.c. Nobody else
 * includes it. */
#ifndef EMBEDDING_TABLE_INNER_H
#define EMBEDDING_TABLE_INNER_H

#include "embedding/optimizer.h"
#include "embedding/table.h"
#include "embedding/tablet.h"
#include "proto/base/hash.h"

struct table {
    struct table_schema schema;
    struct tablet_shape shape;
    struct optimizer optimizer;
    struct tablet *tablets; /* owned; (2^tablet_bits) */
    uint32_t tablet_count;
    uint64_t rows;
    uint64_t whole_row_bytes; /* key, weights, state, rounded up to 8: a row as table.h shows it */
    uint64_t *whole_row;      /* owned; where table_row and table_visit put one together */
};

ISA_INLINE struct tablet *table_tablet(const struct table *t, uint64_t mixed)
{
    return &t->tablets[mixed_tablet(mixed, t->shape.tablet_bits)];
}

/* Puts an absent key's row in, weights and state at their initial values; NULL when memory is out. */
float *table_insert(struct table *t, uint32_t tablet, uint64_t key);

/* The two walks keep three things at hand: what to do with key i, the row of key i + WALK_ROW on its way, the index
 * line of key i + WALK_ROW + WALK_INDEX on its way. Tablet borders do not interrupt them. Both powers of two, measured.
 */
#define WALK_ROW 32u
#define WALK_INDEX 32u

/* Asks for the lines of a row's first `bytes`; of a very long one for some: the processor sees the rest coming.
 * `aligned`: rows begin at a line's beginning. Else the last byte may lie in one more. */
ISA_INLINE void walk_prefetch(const void *row, const uint32_t bytes, const bool aligned)
{
    const char *p = row;
    const uint32_t most = bytes < 1024 ? bytes : 1024;
    for (uint32_t at = 0; at < most; at += 64)
        __builtin_prefetch(p + at);
    if (!aligned)
        __builtin_prefetch(p + most - 1);
}

#endif
