/* apply.h: the effect of a record. All changes of tables, marks, runs and names of keys go through
 * here, except that a load of a checkpoint, and taking it back, adds and removes whole tablets
 * without a record (load.c, 4; unload.c, 2). A reader that follows only the journal does not see
 * them: to it a push to the run that a load opened is CORRUPT. README.md lists all such changes.
 *
 *     live:      check, plan -> journal -> apply_record, once it is written
 *     a push:    check, apply_plan -> apply_ready -> journal -> apply_marks, then apply_rows
 *     recovery, a cut, a part of a checkpoint:  cursor -> apply_record, over stored tablets
 *
 * A push is applied in steps, because the journal writes many pushes between their marks and their
 * rows; apply_record takes the same steps one after the other.
 *
 * Invariants:
 * 1. The effect of a record on a tablet is a function of the tablet, its marks and the record.
 *    [test: test_recover, test_tier_random]
 * 2. A record acts only on tablets whose `base` is below its sequence: a record that a stored
 *    tablet includes is not repeated. [test: test_recover]
 * 3. A record from before a table was dropped (clear.c) does nothing to the table that has its
 *    number now. [test: a_job_after_a_clear_is_as_in_a_new_engine]
 *
 * Thread: the engine's. */
#ifndef EMBEDDING_ENGINE_APPLY_H
#define EMBEDDING_ENGINE_APPLY_H

#include "embedding/engine/engine_state.h"

struct apply;

/* Additional steps when records are applied to stored tablets. NULL: none; `restore` is required
 * for a RESTORE record, whose cut must be here. */
struct apply_ops {
    /* the table exists: makes its base */
    int (*table)(struct apply *a, uint32_t table, struct err *e);
    /* tablets [first, first + count) are about to be read: brings them back */
    int (*tablets)(struct apply *a, uint32_t table, uint32_t first, uint32_t count, struct err *e);
    /* rows of keys are about to change: brings them into memory */
    int (*rows)(struct apply *a, uint32_t table, const uint64_t *keys, uint32_t count,
                struct err *e);
    /* a push is done: makes rows leave if memory is short */
    int (*room)(struct apply *a, uint64_t sequence, struct err *e);
    /* applies a RESTORE record; past: the control state includes it */
    int (*restore)(struct apply *a, const struct record_restore *r, uint64_t sequence, bool past,
                   struct err *e);
};

struct apply {
    struct engine *g;
    struct runs *runs; /* borrowed: the engine's, or a cut's */
    const struct apply_ops *ops;
    /* a control record that was just journalled here: no base. Never for a push or a follower */
    bool live;
    bool of_cut; /* tablets of another time: changes are not marked for flushing */
    /* in addition, they are put into current tables, whose schemas do not change (control.c) */
    bool kept;
    /* (tablets): the tablet includes records up to this one; UINT64_MAX: not wanted */
    uint64_t *base[LIMIT_TABLES];
    /* tables whose records are passed over: another one may have the number by now */
    struct table_set but;
    uint64_t control; /* the control state includes records up to this one */
    uint64_t floor;   /* every tablet includes records up to this one */
    uint64_t changed; /* out: keys of a KEYS record that had another name before */
};

/* Applies one record. CORRUPT (it does not fit the state here), SCHEMA, NOMEM, or the error of an
 * op. */
int apply_record(struct apply *a, const struct journal_record *r, struct err *e);
/* Returns the tables to which a record does nothing: it is from before they were dropped, or they
 * are passed over. */
struct table_set apply_spared(const struct apply *a, const struct record_header *h);
/* True when the payload has the size that its kind has. */
bool apply_fits(const struct record_header *h);
/* Makes or checks a table of a control state. SCHEMA: another one is there. */
int apply_table(struct apply *a, const struct table_schema *s, const struct table_past *past,
                struct err *e);

/* ---- the steps of a push ---- */
/* Applies the push rule to the covered tablets whose base (NULL: all) is below `sequence`. *plan:
 * the decision; nothing is written or allocated. GAP: *gap is a tablet that lacks batches,
 * plan->mark the lowest mark. */
int apply_plan(const struct run *run, const struct push_record *r, const uint64_t *base,
               uint64_t sequence, struct push_plan *plan, uint32_t *gap);
/* Allocates memory, so that the rest cannot fail in its marks. NOMEM. */
int apply_ready(struct run *run, const struct engine_table *t, const struct push_record *r,
                const uint64_t *base, uint64_t sequence, struct push_plan *plan);
void apply_marks(struct run *run, const struct engine_table *t, const struct push_record *r,
                 const struct push_plan *plan);
/* Changes the rows and frees the plan; dirty: marks the tablets' images for writing. NOMEM, or what
 * assign_rows says of an image. */
int apply_rows(struct engine_table *t, const struct push_record *r, struct push_plan *plan,
               bool dirty, struct err *e);
void apply_plan_free(struct push_plan *plan);

/* ---- runs ---- */
/* Opens the restored run. Drops every earlier run that pushes to a restored table; a ghost seen
 * later than the record was opened later. A record of release 0.2.0 restores all tables, so it
 * drops all other runs. CORRUPT, NOMEM. */
int apply_restored_run(struct runs *runs, const struct record_restore *record, uint64_t sequence,
                       bool past, struct run **out);
/* Ends ghosts: after another kill, before all tablets from before a drop were written, recovery
 * meets dropped runs again. NOMEM. */
int apply_ghosts_end(struct runs *runs, uint64_t sequence);

#endif
