/* table_inner.h: struct table, for the files that make up table.h: table.c, pull.c, push.c, image.c, translate.c. Nobody
 * else includes it. */
#ifndef EMBEDDING_TABLE_INNER_H
#define EMBEDDING_TABLE_INNER_H

#include "embedding/optimizer.h"
#include "embedding/table.h"
#include "embedding/tablet.h"
#include "embedding/walk.h"
#include "proto/base/hash.h"

/* With schema_has_last the tablet's count of batches at the row's last push stands behind its state, as a float: exact
 * up to 2^24, a batch or two off beyond. */
#define LAST_NEVER (-1.0f)

struct table {
    struct table_schema schema;
    struct tablet_shape shape;
    struct optimizer optimizer;
    enum isa isa;
    struct tablet *tablets; /* owned; (2^tablet_bits) */
    uint32_t tablet_count;
    uint64_t rows;
    uint64_t whole_row_bytes; /* key, weights, state, rounded up to 8: a row as table.h shows it */
    uint64_t *whole_row;      /* owned; where table_row and table_visit put one together */
    float *pulled_back;       /* owned; (width): a gradient with its l2, see push.c; NULL without */
    uint32_t last_at;         /* with it: where a row keeps the count of batches */
};

ISA_INLINE struct tablet *table_tablet(const struct table *t, uint64_t mixed)
{
    return &t->tablets[mixed_tablet(mixed, t->shape.tablet_bits)];
}

/* Puts an absent key's row in, weights and state at their initial values; NULL when memory is out. */
float *table_insert(struct table *t, uint32_t tablet, uint64_t key);

#endif
