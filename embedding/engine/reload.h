/* reload.h: after a start tablets come back in the order in which requests ask for them.
 *
 *     open:   the tablets of a push or of keys come back before it is replayed, all of them before
 *             a restore
 *     then:   engine_warm returns false and asks for its keys' tablets
 *                --> each step brings those first, else the next ones --> on_fetched
 *             at last all are back --> on_recovered
 *
 * A tablet that is away has no row and no mark, and its sequences are 0: it is clean, and no record
 * of the journal is newer than its image. Until all are back nothing changes and nothing is written
 * (engine_back). Thread: the engine's. */
#ifndef EMBEDDING_ENGINE_RELOAD_H
#define EMBEDDING_ENGINE_RELOAD_H

#include "embedding/engine/recover.h"
#include "proto/base/container_of.h"

#define RELOAD_STEP_ROWS 32768u /* about 8 ms; requests are answered between two steps */
#define RELOAD_STEP_GOES 64u    /* about 30 us each, whatever there is to read */

enum place { PLACE_BACK, PLACE_AWAY, PLACE_ASKED };

struct reload {
    struct engine_job job;
    struct recover replay;
    struct spill spill;
    uint8_t *place[LIMIT_TABLES]; /* owned; (tablets); NULL: all tablets of the table are back */
    uint32_t left, awaited;       /* tablets that are away now, and at the start */
    struct tier_tablet *asked;    /* owned; in the order of the requests */
    uint32_t asked_first, asked_count;
    uint32_t table, tablet; /* next tablet of the round */
    uint32_t chunk;         /* number of tablets read next */
    uint64_t began_ns;
};

/* NULL: all are back. */
static inline struct reload *reload_of(const struct engine *g)
{
    if (g->job[JOB_RELOAD] == NULL)
        return NULL;

    return container_of(g->job[JOB_RELOAD], struct reload, job);
}

static inline bool reload_is_away(const struct engine *g, uint32_t table, uint32_t tablet)
{
    const struct reload *l = reload_of(g);
    return l != NULL && l->place[table] != NULL && l->place[table][tablet] != PLACE_BACK;
}

static inline uint32_t reload_left(const struct engine *g) /* tablets that are away */
{
    if (reload_of(g) == NULL)
        return 0;

    return reload_of(g)->left;
}

static inline uint32_t reload_awaited(const struct engine *g)
{
    if (reload_of(g) == NULL)
        return 0;

    return reload_of(g)->awaited;
}

/* From now on all stored tablets of the existing tables count as away. r is copied. 0 or NOMEM. */
int reload_begin(struct engine *g, const struct recover *r, struct err *e);
/* Brings those of tablets [first, first + count) back that are away, on this thread. 0, IO,
 * CORRUPT, NOMEM. */
int reload_bring(struct engine *g, uint32_t table, uint32_t first, uint32_t count, struct err *e);
int reload_bring_all(struct engine *g, struct err *e);
/* The journal was replayed: the other tablets come from now on, step by step. began: start of the
 * recovery. */
void reload_start(struct engine *g, uint64_t began_ns);
void reload_free(struct engine *g);
/* Number of tablets to read next, after `chunk` tablets had `rows`: chosen so that a step of
 * step_rows has several reads. */
uint32_t reload_chunk(uint32_t chunk, uint64_t rows, uint32_t step_rows);

#endif
