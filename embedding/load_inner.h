/* load_inner.h: a load under way, for load.c and load_build.c. Nobody else includes it. */
#ifndef EMBEDDING_LOAD_INNER_H
#define EMBEDDING_LOAD_INNER_H

#include "embedding/engine_state.h"

enum load_stage { LOAD_BUILDING, LOAD_READY, LOAD_WRITING, LOAD_SEALING };

struct load {
    char path[LIMIT_PATH];
    uint64_t run, asked; /* asked: tables, 0: all that can be */
    engine_load_done done;
    void *context;
    enum load_stage stage;

    /* the engine as it was when the load began; tables by number */
    struct table_schema *schema;  /* owned; (LIMIT_TABLES) */
    uint8_t *led[LIMIT_TABLES];   /* owned; (tablets) */
    uint64_t existing, untouched; /* bit t: table t */

    /* what was built */
    struct arena *arena;              /* owned until it is taken in */
    struct table *made[LIMIT_TABLES]; /* owned until they are taken in; NULL: not concerned */
    uint64_t filled, added;           /* tables with rows of the checkpoint; tables that begin empty */
    struct runs runs;                 /* the new run alone, with its marks */
    char *notes;                      /* owned */
    uint64_t rows, bytes;

    /* writing */
    uint64_t sequence;      /* that the images are of */
    uint32_t table, tablet; /* the next image */
    void *control;          /* owned */
    size_t control_bytes;
    uint64_t control_sequence;
};

struct load_build {
    struct work work;  /* first */
    struct engine *g;  /* borrowed; for the loop alone */
    struct load *load; /* borrowed */
    int status;
    struct err err;
};

/* On an I/O thread: verifies the checkpoint and fills in what was built. */
void load_build_run(struct work *w);

#endif
