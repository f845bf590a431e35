/* reload_inner.h: tablets on their way back. */
#ifndef EMBEDDING_ENGINE_RELOAD_INNER_H
#define EMBEDDING_ENGINE_RELOAD_INNER_H

#include "embedding/engine/reload.h"

enum place { PLACE_BACK, PLACE_AWAY, PLACE_ASKED };

struct reload {
    struct engine_job job;
    struct replay replay;
    struct spill spill;
    uint8_t *place[LIMIT_TABLES]; /* owned; (tablets); NULL: all of the table are back */
    uint32_t left;                /* not back */
    struct tier_tablet *asked;    /* owned; in the order in which they were */
    uint32_t asked_first, asked_count;
    uint32_t table, tablet; /* where the round stands */
    uint32_t chunk;         /* tablets of the next go */
    uint64_t began_ns;
};

/* NULL: all are back. */
struct reload *reload_of(const struct engine *g);

#endif
