/* apply.h: what a record does. The one way by which tables, marks, runs and names of keys change,
 * but for a load of a checkpoint and its taking back, which put in and take out whole tablets
 * without a record (load.c, 4; unload.c, 2): who follows the journal does not see them, and a push
 * to the run that a load opened is CORRUPT to him. What else he misses: the end of README.md.
 *
 *     live:      check, plan -> journal -> apply_record, once it is written
 *     a push:    check, apply_plan -> apply_ready -> journal -> apply_marks, then apply_rows
 *     recovery, a cut, a part of a checkpoint:  cursor -> apply_record, over what is stored
 *
 * A push is applied in steps, for the journal writes many pushes between their marks and their
 * rows; apply_record takes the same steps one behind the other.
 *
 * Invariants:
 *  1. What a record does to a tablet is a function of the tablet, its marks and the record.
 *     [test: test_recover, test_tier_random]
 *  2. A record acts only on tablets whose `base` is below its sequence: what is stored with a
 *     tablet is not repeated. [test: test_recover]
 *  3. A record from before all was dropped (clear.c) does nothing. [test: test_clear]
 *
 * Thread: the engine's. */
#ifndef EMBEDDING_ENGINE_APPLY_H
#define EMBEDDING_ENGINE_APPLY_H

#include "embedding/engine/engine_state.h"

struct apply;

/* What those who apply to stored tablets do beside; NULL: nothing, but `restore` must be there for
 * a RESTORE record, whose cut must lie here. */
struct apply_ops {
    /* the table is there: makes its base */
    int (*table)(struct apply *a, uint32_t table, struct err *e);
    /* tablets [first, first + count) are about to be looked at: they come back */
    int (*tablets)(struct apply *a, uint32_t table, uint32_t first, uint32_t count, struct err *e);
    /* rows of keys are about to change: they come into memory */
    int (*rows)(struct apply *a, uint32_t table, const uint64_t *keys, uint32_t count,
                struct err *e);
    /* a push is done: rows leave where memory is short */
    int (*room)(struct apply *a, uint64_t sequence, struct err *e);
    /* what a RESTORE record is here; past: it is in the control state already */
    int (*restore)(struct apply *a, const struct record_restore *r, uint64_t sequence, bool past,
                   struct err *e);
};

struct apply {
    struct engine *g;
    struct runs *runs; /* borrowed: the engine's, or those of a cut */
    const struct apply_ops *ops;
    bool live; /* a control record just journalled here: no base. Never a push, nor a follower's */
    bool of_cut; /* tablets of another time: what changes is not noted for flushing */
    bool kept;   /* and they come into tables of now, whose schemas do not change (control.c) */
    /* (tablets): records at or below are in the tablet; UINT64_MAX: none of our business */
    uint64_t *base[LIMIT_TABLES];
    uint64_t control; /* sequence of the control state: records at or below are in it */
    uint64_t floor;   /* no tablet lacks records up to this one */
    uint64_t changed; /* out: keys of a KEYS record that had another name before */
};

/* One record. CORRUPT (it fits nothing here), SCHEMA, NOMEM, or what an op says. */
int apply_record(struct apply *a, const struct journal_record *r, struct err *e);
/* A control state has the table: it is made, or becomes it. SCHEMA: another one is there. */
int apply_table(struct apply *a, const struct table_schema *s, const struct table_past *past,
                struct err *e);

/* ---- the steps of a push ---- */
/* The push rule over the covered tablets whose base (NULL: of all) is below `sequence`. *plan:
 * what it means; nothing is written and no memory is taken. GAP: *gap is a tablet that lacks
 * batches, plan->mark the lowest mark. */
int apply_plan(const struct run *run, const struct push_record *r, const uint64_t *base,
               uint64_t sequence, struct push_plan *plan, uint32_t *gap);
/* Memory for what is left to do: from here on marks cannot fail. NOMEM. */
int apply_ready(struct run *run, const struct engine_table *t, const struct push_record *r,
                const uint64_t *base, uint64_t sequence, struct push_plan *plan);
void apply_marks(struct run *run, const struct engine_table *t, const struct push_record *r,
                 const struct push_plan *plan);
/* Rows change; dirty: the tablets' images are to be written. The plan is over. NOMEM. */
int apply_rows(struct engine_table *t, const struct push_record *r, struct push_plan *plan,
               bool dirty);
void apply_plan_free(struct push_plan *plan);

/* ---- runs ---- */
/* The restored run is opened. Every run from before it that pushes to a table which is put back is
 * dropped; a ghost seen later than the record has been opened later. A record of release 0.2.0
 * puts all tables back, so it drops all other runs. CORRUPT, NOMEM. */
int apply_restored_run(struct runs *runs, const struct record_restore *record, uint64_t sequence,
                       bool past, struct run **out);
/* Killed again before all tablets of before their drop are written, recovery meets dropped runs
 * again: they end. NOMEM. */
int apply_ghosts_end(struct runs *runs, uint64_t sequence);

#endif
