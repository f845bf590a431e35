/* replay.h: stored tablets and the records above them, put together: at a restart and for a part of
 * a checkpoint (replay.c, reload.c), and for a cut (restore.c). What a record does is in apply.h.
 * Invariants: replay.c. Thread: the engine's, or whoever owns the scratch engine that a checkpoint
 * is read into. */
#ifndef EMBEDDING_ENGINE_REPLAY_H
#define EMBEDDING_ENGINE_REPLAY_H

#include "embedding/engine/apply.h"
#include "embedding/rows/names.h"
#include "embedding/store/spill.h"
#include "embedding/store/stored.h"

struct replay {
    struct apply to;
    struct store *store;  /* where cold rows of its tablets are */
    struct store *images; /* of a restore: where the cut's own are */
    uint64_t until;       /* a stored tablet beyond this does not belong to the cut */
    bool found_control;
    bool named_only;     /* of a cut: tables without a base are passed over, another job's */
    bool clean;          /* only tablets that are what their images say lose rows to the spill */
    struct spill *spill; /* for rows beyond the memory budget; NULL: none leave */
    struct tier_tablet hand; /* the next one that they leave */
    /* owned; (tablets): which a restored tablet begins, with spill */
    uint32_t *epoch[LIMIT_TABLES];
    struct names names;      /* of the tablets that a restore puts back */
    bool own[LIMIT_TABLES];  /* to.base[] is ours to free */
    struct stored_load load; /* that was under way; all 0: none */
};

/* Of the engine's own store and journal, or of a cut. */
void replay_init(struct replay *r, struct engine *g, struct store *store, struct runs *runs,
                 bool of_cut);
void replay_free(struct replay *r); /* bases and epochs */
/* Makes to.base[table]. 0 or NOMEM. */
int replay_base(struct replay *r, uint32_t table);
/* All that a store has before its images: the word about a load, the control state. */
int replay_head(struct replay *r, struct store *s, struct err *e);
/* Its images of tablets [first, below), those that are wanted. */
int replay_tablets(struct replay *r, struct store *s, uint32_t table, uint32_t first,
                   uint32_t below, struct err *e);
/* The records of a cut's journal end at `last`: CORRUPT, where some up to r->until are missing. */
int replay_cut_end(const struct replay *r, uint64_t last, struct err *e);
/* restore.c: an image of the cut was read: its cold rows become rows of this engine. */
int replay_settle(struct replay *r, struct table *t, uint32_t tablet, struct err *e);
/* Takes what a load stored into tables (a bit each) out of s, its marker last: killed in between,
 * the next start does it again. */
int replay_clear_load(struct store *s, uint64_t tables, struct err *e);
/* Rows of tablets put back leave until there is room. Only with spill. */
int replay_make_room(struct replay *r, struct err *e);

#endif
