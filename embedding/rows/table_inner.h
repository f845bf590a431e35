/* table_inner.h: struct table, as the files that make up table.h see it.
 *
 * A row has two forms. Stored: as it lies in its page, in images and in what table_row shows;
 * weights are of schema.values, state begins behind them. Wide: weights f32
 * (width), then the state: what optimizers, rules and l2 work on. In a table of fp32 the two are
 * the same bytes; else a row is opened into table.wide, worked on and closed. */
#ifndef EMBEDDING_ROWS_TABLE_INNER_H
#define EMBEDDING_ROWS_TABLE_INNER_H

#include "embedding/rows/cold.h"
#include "embedding/rows/half.h"
#include "embedding/rows/optimizer/optimizer.h"
#include "embedding/rows/rules/life.h"
#include "embedding/rows/tablet.h"
#include "embedding/rows/walk.h"
#include "embedding/table.h"
#include "proto/base/hash.h"
#include "proto/base/key.h"

/* With schema_has_last the tablet's count of batches at the row's last push stands behind its
 * state, as a float: exact up to 2^24, a batch or two off beyond. */
#define LAST_NEVER (-1.0f)

struct table {
    struct table_schema schema;
    struct table_past past;
    struct tablet_shape shape;
    struct optimizer optimizer;
    enum isa isa;
    struct tablet *tablets; /* owned; (2^tablet_bits) */
    uint32_t tablet_count;
    uint64_t rows;            /* in memory */
    uint64_t cold;            /* in the store */
    uint64_t whole_row_bytes; /* key, weights, state, rounded up to 8: a row as table.h shows it */
    uint64_t *whole_row;      /* owned; where table_row and table_visit put one together */
    float *pulled_back;       /* owned; (width): a gradient with its l2, see push.c; NULL without */
    uint32_t last_at;         /* with it: where a wide row keeps the count of batches */
    bool ruled;               /* rows live by more than their optimizer: rules.h, admit.h */
    bool ages;                /* tablets have a clock: age.h */
    /* the clock (table_undo_clock) in which rows went under bsp; 0: none since the last look */
    uint64_t undo_went;
    uint32_t push_floats;   /* of a key in a push */
    uint32_t stats_at;      /* with rules.stats: where a stored row keeps its statistics */
    uint32_t wide_stats_at; /* and where a wide one does */
    float *changed;         /* owned; (width): a gradient under rules; NULL without them */
    float *fresh;           /* owned; (width + state): a wide row as it begins */
    struct half half;       /* of 16-bit values, as the rest */
    float *wide;            /* owned; (width + state): the row that is open; NULL for fp32 */
    uint32_t state_floats;
    float weight_max; /* rules.weight_max, or what of it can be stored */
    struct table_counts counts;
};

ISA_INLINE struct tablet *table_tablet(const struct table *t, uint64_t mixed)
{
    return &t->tablets[key_tablet(mixed, t->shape.tablet_bits)];
}

/* What follows from the schema, which is new; rows of that shape have their memory. */
void table_derive(struct table *t);
/* A tablet whose schema was another becomes one of the table's (table_change). */
void table_change_tablet(const struct table *t, struct tablet *own);

/* The row in wide form: itself, or table.wide, which holds one row at a time. */
ISA_INLINE float *table_open(const struct table *t, float *row)
{
    if (t->wide == NULL)
        return row;
    t->half.open(row, t->wide, t->schema.width, t->state_floats);
    return t->wide;
}

/* Where a new row is made: close it with table_close_new. */
ISA_INLINE float *table_open_new(const struct table *t, float *row)
{
    return t->wide == NULL ? row : t->wide;
}
/* To the nearest values that can be stored. */
void table_close_new(const struct table *t, float *row);
/* Initial weights (width), as they can be stored. */
void table_initial(const struct table *t, uint64_t key, float *weights);

/* Puts an absent key's row in, weights, state and statistics at their initial values; NULL when
 * memory is out. */
float *table_insert(struct table *t, uint32_t tablet, uint64_t key);
/* What a pull of an absent key gives. */
void table_absent(const struct table *t, const struct tablet *tablet, uint64_t key, float *weights);
/* The tablet's life, made if it has none; NULL when memory is out. */
struct tablet_life *table_life(struct table *t, uint32_t tablet);
/* Undo is of `clock` from now on, which found the tablet at event time `from`. 0 or
 * SHOAL_E_NOMEM. */
int table_undo_begin(struct table *t, uint32_t tablet, uint64_t clock, uint32_t from);
/* Keeps the row's weights for undo if this is its first change of the clock. 0 or SHOAL_E_NOMEM. */
int table_undo_keep(struct table *t, uint32_t tablet, uint64_t key, const float *weights,
                    uint64_t clock);

struct kept_row {
    uint64_t key;
    uint32_t row, notes;
};
/* Puts the rows listed, which are the tablet's, in pages and an index of their own; then all else
 * of the old tablet is the new one's. 0 or SHOAL_E_NOMEM, with the old tablet as it was. t->rows is
 * the caller's to mend. */
int table_rebuild(struct table *t, uint32_t tablet, const struct kept_row *list, uint32_t count);
/* Whether a row stays; asked once a row, it may change state and statistics. */
typedef bool (*table_stays)(void *context, uint64_t key, float *row);
/* Rows that do not stay go: their number in *gone. The tablet is built anew from those that stay,
 * so no trace is left. Under bsp (undo_clock) their weights are kept for the clock. 0 or
 * SHOAL_E_NOMEM. */
int table_keep(struct table *t, uint32_t tablet, table_stays stays, void *context,
               uint64_t undo_clock, uint64_t *gone);

#endif
