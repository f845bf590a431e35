/* load.h: the state of a load; engine_load has the contract (engine.h). */
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
    char signers[LIMIT_PATH]; /* "": no signature is required */
    uint64_t run;
    struct table_set asked; /* none: all tables that can be filled */
    uint64_t began_ns;
    uint32_t lanes, mode; /* for a run that begins; 0 lanes: the run continues with its own marks */
    /* by table here, a bit for each field: rows that are left out */
    struct engine_fields without;
    engine_load_done done;
    void *context;
    enum load_stage stage;
    bool called_off; /* it ends at its next step */

    /* copies from the engine at the start of the load; tables by number */
    struct table_schema *schema; /* owned; (LIMIT_TABLES) */
    uint8_t *led[LIMIT_TABLES];  /* owned; (tablets) */
    struct table_set existing, untouched;

    /* Tablets are built and written in groups if they do not all fit into memory. A place is a
     * tablet of the checkpoint, or of the table here if that has fewer tablets. Places of all
     * filled tables are numbered together. */
    struct checkpoint *checkpoint; /* owned */
    /* by number here: index in the checkpoint's list of tables; UINT32_MAX: not in it */
    uint32_t from[LIMIT_TABLES];
    /* first place of each table; the last element is the number of places */
    uint32_t first[LIMIT_TABLES + 1];
    uint32_t bits[LIMIT_TABLES]; /* log2 of the places of a table */
    uint32_t done_to, group_to;  /* places that are written; places that are built */
    bool verified;               /* all files that it reads were verified */
    uint64_t room;               /* limit in bytes for the rows in memory; 0: no limit */
    /* measured bytes of a place of the current table; 0: not measured */
    uint64_t place_bytes;
    /* estimates from the manifests: bytes of all images, and of all rows in memory */
    uint64_t need, need_memory;
    /* bytes of the arena, with the expected size of the current group; for the loop */
    uint64_t held;
    uint64_t kept; /* bytes of tablets that were written and stay in memory */
    struct spill spill;

    /* results of building */
    struct arena *arena;              /* owned until it is taken in */
    struct table *made[LIMIT_TABLES]; /* owned until they are taken in; NULL: not filled */
    struct table_set filled;          /* tables with rows of the checkpoint */
    struct table_set added;           /* tables that start empty */
    struct runs runs;                 /* only the new run, with its marks */
    char *notes;                      /* owned */
    uint64_t rows, bytes;

    /* writing */
    bool marked;            /* the store got the marker */
    uint64_t sequence;      /* sequence of the images */
    uint32_t table, tablet; /* the next image */
    void *control;          /* owned */
    size_t control_bytes;
    uint64_t control_sequence;
};

/* The current load, or NULL. */
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
    struct offload work; /* first */
    struct engine *g;    /* borrowed; used only on the loop */
    struct load *load;   /* borrowed */
    int status;
    struct err err;
};

/* On an I/O thread: verifies the checkpoint, then builds the next group. */
void load_build_run(struct offload *w);
/* True when all places are built. */
static inline bool load_all_built(const struct load *l)
{
    return l->group_to == l->first[LIMIT_TABLES];
}
/* Number of tablets of a table here that the places below `place` cover. */
static inline uint32_t load_tablets_below(const struct load *l, uint32_t table, uint32_t place)
{
    if (place >= l->first[table + 1])
        return 1u << l->schema[table].tablet_bits;

    if (place <= l->first[table])
        return 0;

    return (place - l->first[table]) << (l->schema[table].tablet_bits - l->bits[table]);
}

struct load_write {
    struct offload work; /* first */
    struct engine *g;    /* borrowed */
    struct journal_sync sync;
    bool marked; /* write the marker before the images */
    bool seal;
    int status;
    struct err err;
};

/* On an I/O thread: writes the next built images, or the last batch. */
void load_write_run(struct offload *w);

/* Ends the current load if it is that of `run` or an older one and shares a table with `of`; its
 * done gets STOPPED. *tables: tables that may have images of it in the store. False: a step is in
 * progress, try again when it is done. */
bool load_call_off(struct engine *g, uint64_t run, struct table_set of, struct table_set *tables);

#endif
