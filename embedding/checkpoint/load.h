/* load.h: a load under way: what it has built, where it stands; the contract is engine_load's
 * (engine.h). */
#ifndef EMBEDDING_CHECKPOINT_LOAD_H
#define EMBEDDING_CHECKPOINT_LOAD_H

#include "embedding/checkpoint/checkpoint_inner.h"
#include "embedding/engine/engine_state.h"
#include "embedding/store/spill.h"
#include "proto/base/assert.h"
#include "proto/base/container_of.h"

enum load_stage { LOAD_BUILDING, LOAD_READY, LOAD_WRITING, LOAD_SEALING };

struct load {
    struct engine_job job;
    char path[LIMIT_PATH];
    char signers[LIMIT_PATH]; /* "": none are asked for */
    uint64_t run, asked;      /* asked: tables, 0: all that can be */
    uint64_t began_ns;
    uint32_t lanes, mode; /* of a run that begins; 0 lanes: it goes on, with the marks of its own */
    /* by table here, a bit a field: rows that are left out */
    struct engine_fields without;
    engine_load_done done;
    void *context;
    enum load_stage stage;
    bool called_off; /* it ends at its next step */

    /* the engine as it was when the load began; tables by number */
    struct table_schema *schema;  /* owned; (LIMIT_TABLES) */
    uint8_t *led[LIMIT_TABLES];   /* owned; (tablets) */
    uint64_t existing, untouched; /* bit t: table t */

    /* Tablets are built and written in groups where they do not all fit into memory. A place is a
     * tablet of the checkpoint, or of the table here if that has fewer: which of the two is cut
     * finer does not matter. Places of all filled tables stand in one row. */
    struct checkpoint *checkpoint; /* owned */
    /* by number here: place in the checkpoint's list of tables, UINT32_MAX: not in it */
    uint32_t from[LIMIT_TABLES];
    uint32_t first[LIMIT_TABLES + 1]; /* first place of each table; the last: of all */
    uint32_t bits[LIMIT_TABLES];      /* of places of a table */
    uint32_t done_to, group_to;       /* places: built and written; built with the group at hand */
    bool verified;                    /* all files that are read from are whole */
    uint64_t room;                    /* bytes that rows brought may take in memory; 0: no bound */
    uint64_t place_bytes;             /* of a place of the table at hand, as measured; 0: not yet */
    /* by the manifests, about: bytes of all images, and of all rows in memory */
    uint64_t need, need_memory;
    /* what the arena has, and what the group at hand is expected to take: for the loop */
    uint64_t held;
    uint64_t kept; /* bytes of tablets that were written and stay in memory */
    struct spill spill;

    /* what was built */
    struct arena *arena;              /* owned until it is taken in */
    struct table *made[LIMIT_TABLES]; /* owned until they are taken in; NULL: not concerned */
    uint64_t filled, added; /* tables with rows of the checkpoint; tables that begin empty */
    struct runs runs;       /* the new run alone, with its marks */
    char *notes;            /* owned */
    uint64_t rows, bytes;

    /* writing */
    bool marked;            /* the marker was handed to the store */
    uint64_t sequence;      /* that the images are of */
    uint32_t table, tablet; /* the next image */
    void *control;          /* owned */
    size_t control_bytes;
    uint64_t control_sequence;
};

/* The load under way, or NULL. */
static inline struct load *load_of(const struct engine *g)
{
    if (g->job[JOB_LOAD] == NULL)
        return NULL;

    return container_of(g->job[JOB_LOAD], struct load, job);
}

/* The load that opened the run, or NULL. */
static inline const struct engine_loaded *load_done_for(const struct engine *g, uint64_t run)
{
    for (uint32_t i = 0; i < g->loads; i++)
        if (g->loaded[i].run == run)
            return &g->loaded[i];
    return NULL;
}

struct load_build {
    struct work work;  /* first */
    struct engine *g;  /* borrowed; for the loop alone */
    struct load *load; /* borrowed */
    int status;
    struct err err;
};

/* On an I/O thread: verifies the checkpoint, and fills in the next group. */
void load_build_run(struct work *w);
/* Whether all places have been built. */
static inline bool load_all_built(const struct load *l)
{
    return l->group_to == l->first[LIMIT_TABLES];
}
/* Tablets of a table here that the places below `place` cover. */
static inline uint32_t load_tablets_below(const struct load *l, uint32_t table, uint32_t place)
{
    if (place >= l->first[table + 1])
        return 1u << l->schema[table].tablet_bits;

    if (place <= l->first[table])
        return 0;

    return (place - l->first[table]) << (l->schema[table].tablet_bits - l->bits[table]);
}

struct load_write {
    struct work work; /* first */
    struct engine *g; /* borrowed */
    struct journal_sync sync;
    bool marked; /* the marker goes before the images */
    bool seal;
    int status;
    struct err err;
};

/* On an I/O thread: the next images that are built, or the last batch. */
void load_write_run(struct work *w);

/* Syncs the journal, on an I/O thread. */
int load_sync_run(const struct engine *g, struct journal_sync *sync, struct err *e);

/* Ends the load under way, if it is of `run` or an older one and shares a table with `of`: its done
 * is told STOPPED. *tables: those of which it may have images in the store. False: it is in the
 * middle of something, ask again when that is done. */
bool load_call_off(struct engine *g, uint64_t run, uint64_t of, uint64_t *tables);

#endif
