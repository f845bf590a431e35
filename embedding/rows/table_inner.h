/* table_inner.h: struct table, shared by the files behind table.h.
 *
 * A row has two forms. Stored: as in its page, in images and in table_row; weights are of
 * schema.values, and the state follows. Wide: weights f32 (width), then the state, for optimizers,
 * rules and l2. In a table of fp32 both are the same bytes; else a row is opened into table.wide,
 * changed and closed. */
#ifndef EMBEDDING_ROWS_TABLE_INNER_H
#define EMBEDDING_ROWS_TABLE_INNER_H

#include "embedding/rows/cold.h"
#include "embedding/rows/half_row.h"
#include "embedding/rows/optimizer/optimizer.h"
#include "embedding/rows/rules/life.h"
#include "embedding/rows/tablet.h"
#include "embedding/rows/walk.h"
#include "embedding/table.h"
#include "proto/base/hash.h"
#include "proto/base/key.h"

/* With schema_has_last the tablet's count of batches at the row's last push is behind its state, as
 * a float: exact up to 2^24, off by one or two beyond. */
#define LAST_NEVER (-1.0f)

struct table {
    struct table_schema schema;
    struct table_past past;
    struct tablet_shape shape;
    struct optimizer optimizer;
    enum isa isa;
    struct tablet *tablets; /* owned; (2^tablet_bits) */
    uint32_t tablet_count;
    uint64_t rows;  /* in memory */
    uint64_t cold;  /* in the store */
    uint64_t taken; /* bytes of the arena: shape.taken */
    /* key, weights, state, rounded up to 8: a row in the form of table.h */
    uint64_t whole_row_bytes;
    uint64_t *whole_row; /* owned; table_row and table_visit build a row here */
    /* owned; (width): a gradient with its l2, see push.c; NULL without l2 */
    float *pulled_back;
    /* offset of the count of batches in a wide row; used with pulled_back */
    uint32_t last_at;
    bool ruled; /* rows depend on more than their optimizer: rules.h, admit.h */
    bool ages;  /* tablets have a clock: age.h */
    /* the clock (table_undo_clock) in which rows went under bsp; 0: none since the last check */
    uint64_t undo_went;
    uint32_t push_floats;   /* floats of a key in a push */
    uint32_t stats_at;      /* with rules.stats: offset of the statistics in a stored row */
    uint32_t wide_stats_at; /* offset of the statistics in a wide row */
    float *changed;         /* owned; (width): a gradient under rules; NULL without rules */
    float *fresh;           /* owned; (width + state): a new wide row */
    struct half half;       /* this and the next are for 16-bit values */
    float *wide;            /* owned; (width + state): the open row; NULL for fp32 */
    uint32_t state_floats;
    float weight_max; /* rules.weight_max, or the nearest lower storable value */
    struct table_counts counts;
};

ISA_INLINE struct tablet *table_tablet(const struct table *t, uint64_t mixed)
{
    return &t->tablets[key_tablet(mixed, t->shape.tablet_bits)];
}

/* Derives members from a new schema; memory for rows of that shape exists. */
void table_derive(struct table *t);
/* Converts a tablet of another schema to the table's (table_change). */
void table_change_tablet(const struct table *t, struct tablet *own);

/* The row in wide form: itself, or table.wide, which holds one row at a time. */
ISA_INLINE float *table_open(const struct table *t, float *row)
{
    if (t->wide == NULL)
        return row;
    t->half.open(row, t->wide, t->schema.width, t->state_floats);
    return t->wide;
}

/* The place for a new row; table_close_new closes it. */
ISA_INLINE float *table_open_new(const struct table *t, float *row)
{
    return t->wide == NULL ? row : t->wide;
}
/* Rounds to the nearest storable values. */
void table_close_new(const struct table *t, float *row);
/* Initial weights (width) in storable values. */
void table_initial(const struct table *t, uint64_t key, float *weights);

/* Inserts an absent key's row with initial weights, state and statistics; NULL: no memory. */
float *table_insert(struct table *t, uint32_t tablet, uint64_t key);
/* The weights that a pull of an absent key gives. */
void table_absent(const struct table *t, const struct tablet *tablet, uint64_t key, float *weights);
/* The tablet's life, made if it has none; NULL: no memory. */
struct tablet_life *table_life(struct table *t, uint32_t tablet);
/* From now on undo is for `clock`, which began at event time `from` of the tablet. 0 or
 * SHOAL_E_NOMEM. */
int table_undo_begin(struct table *t, uint32_t tablet, uint64_t clock, uint32_t from);
/* Saves the row's weights for undo at its first change in the clock. 0 or SHOAL_E_NOMEM. */
int table_undo_keep(struct table *t, uint32_t tablet, uint64_t key, const float *weights,
                    uint64_t clock);

/* table_finite of any tablet of such a table. */
bool table_finite_rows(const struct table *t, const struct tablet *own, uint64_t *bad);

struct kept_row {
    uint64_t key;
    uint32_t row, notes;
};
/* Moves the listed rows of the tablet to new pages and a new index, then gives the new tablet all
 * else of the old one. 0, or SHOAL_E_NOMEM with the old tablet unchanged. The caller corrects
 * t->rows. */
int table_rebuild(struct table *t, uint32_t tablet, const struct kept_row *list, uint32_t count);
/* Returns true when a row stays. Called once for each row; may change state and statistics. */
typedef bool (*table_stays)(void *context, uint64_t key, float *row);
/* Drops the rows that do not stay; *gone: their number. The tablet is rebuilt from the others, so
 * no trace is left. Under bsp (undo_clock) the weights are kept for the clock. 0 or
 * SHOAL_E_NOMEM. */
int table_keep(struct table *t, uint32_t tablet, table_stays stays, void *context,
               uint64_t undo_clock, uint64_t *gone);

#endif
