/* replay.h: stored tablets and the records above them, put together: for recover.c and reload.c (a
 * restart; a part of a checkpoint) and restore.c (a cut). Invariants:
 * recover.c. Thread: the engine's, or whoever owns the scratch engine that a checkpoint is read
 * into. */
#ifndef EMBEDDING_ENGINE_REPLAY_H
#define EMBEDDING_ENGINE_REPLAY_H

#include "embedding/engine/engine_state.h"
#include "embedding/rows/names.h"
#include "embedding/store/spill.h"
#include "embedding/store/stored.h"

struct replay {
    struct engine *g;
    struct store *store;  /* where cold rows of its tablets are */
    struct store *images; /* of a restore: where the cut's own are */
    struct runs *runs;
    uint64_t
        /* (tablets): records at or below are in the tablet; UINT64_MAX: none of our business */
        *base[LIMIT_TABLES];
    uint64_t until;   /* a stored tablet beyond this does not belong to the cut */
    uint64_t control; /* sequence of the control state */
    bool found_control;
    uint64_t floor; /* no tablet lacks records up to this one */
    bool of_cut;
    bool clean;          /* only tablets that are what their images say lose rows to the spill */
    struct spill *spill; /* for rows beyond the memory budget; NULL: none leave */
    /* owned; (tablets): which a restored tablet begins, with spill */
    uint32_t *epoch[LIMIT_TABLES];
    struct names names;      /* of the tablets that a restore puts back */
    bool own[LIMIT_TABLES];  /* base[] is ours to free */
    struct stored_load load; /* that was under way; all 0: none */
};

/* Makes base[table]. 0 or NOMEM. */
int replay_base(struct replay *r, uint32_t table);
/* All images of a store that are wanted, and the control state. */
int replay_images(struct replay *r, struct store *store, struct err *e);
/* Those of tablets [first, below) of r->store. */
int replay_tablets(struct replay *r, uint32_t table, uint32_t first, uint32_t below, struct err *e);
/* A table is there: made, or compared with the one that is. For records and the control state. */
int replay_schema(void *context, const struct table_schema *s, struct err *e);
/* One record; for journal_replay. */
int replay_record(void *context, const struct record_header *h, const void *payload, struct err *e);
/* Killed again before all tablets of before their drop are written, recovery meets dropped runs
 * again: they end. NOMEM. */
int replay_end_ghosts(struct runs *runs, uint64_t sequence);
/* The restored run is opened, every run from before it is dropped; a ghost seen later than the
 * record has been opened later. */
int replay_open_restored(struct runs *runs, const struct record_restore *record, uint64_t sequence,
                         bool past, struct run **out);
/* restore.c: an image of the cut was read: its cold rows become rows of this engine. */
int restore_settle(struct replay *r, struct table *t, uint32_t tablet, struct err *e);
/* Rows of tablets put back leave until there is room. Only with spill. */
int replay_make_room(struct replay *r, struct err *e);

#endif
