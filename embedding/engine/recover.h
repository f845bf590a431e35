/* recover.h: combines stored tablets with the records above them: at a restart and for a part of a
 * checkpoint (recover.c, reload.c), and for a cut (restore.c). apply.h has the effect of a record.
 * Invariants: recover.c. Thread: the engine's, or the owner's of the scratch engine into which a
 * checkpoint is read. */
#ifndef EMBEDDING_ENGINE_RECOVER_H
#define EMBEDDING_ENGINE_RECOVER_H

#include "embedding/engine/apply.h"
#include "embedding/rows/key_names.h"
#include "embedding/store/spill.h"
#include "embedding/store/stored.h"

struct recover {
    struct apply to;
    struct store *store;  /* has the cold rows of its tablets */
    struct store *images; /* restore: has the cut's images */
    uint64_t until;       /* a stored tablet beyond this sequence does not belong to the cut */
    bool found_control;
    bool named_only;         /* for a cut: tables without a base are another job's and skipped */
    bool clean;              /* only tablets that equal their images lose rows to the spill */
    struct spill *spill;     /* for rows beyond the memory budget; NULL: none leave */
    struct tier_tablet hand; /* the next tablet to lose rows */
    /* owned; (tablets): epoch that a restored tablet begins; used with spill */
    uint32_t *epoch[LIMIT_TABLES];
    struct key_names names;  /* names of the tablets that a restore puts back */
    bool own[LIMIT_TABLES];  /* to.base[] is owned */
    struct stored_load load; /* the interrupted load; all 0: none */
};

/* For the engine's own store and journal, or those of a cut. */
void recover_init(struct recover *r, struct engine *g, struct store *store, struct runs *runs,
                  bool of_cut);
void recover_free(struct recover *r); /* frees bases and epochs */
/* Makes to.base[table]. 0 or NOMEM. */
int recover_base(struct recover *r, uint32_t table);
/* Reads what a store has before its images: the state of a load, the control state. */
int recover_head(struct recover *r, struct store *s, struct err *e);
/* Reads the wanted images of tablets [first, below). */
int recover_tablets(struct recover *r, struct store *s, uint32_t table, uint32_t first,
                    uint32_t below, struct err *e);
/* Checks that the records of a cut's journal end at `last`. CORRUPT: some up to r->until are
 * missing. */
int recover_cut_end(const struct recover *r, uint64_t last, struct err *e);
/* restore.c: after an image of the cut was read: its cold rows become rows of this engine. */
int recover_settle(struct recover *r, struct table *t, uint32_t tablet, struct err *e);
/* Removes the tablets that loads stored into tables from s, their markers last: after
 * a kill in between, the next start repeats it. */
int recover_clear_load(struct store *s, struct table_set tables, struct err *e);
/* Makes rows of restored tablets leave until there is room. Only with spill. */
int recover_make_room(struct recover *r, struct err *e);

#endif
