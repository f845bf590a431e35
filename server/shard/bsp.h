/* bsp.h: pushes held for the others of their clock.
 *
 * For each (run, table) of a bsp run there is one hold: for every lane the parts (pushes over
 * disjoint tablets) of one batch. A part is neither journalled nor answered while held. When every
 * lane either has its whole batch here or is past that clock already, the parts are admitted in
 * lane order, each a step of its own, all in one group: rows are then the same bit for bit, in
 * whatever order they came.
 *
 *     push -> to <= mark:  skipped, answered                   (already applied)
 *          -> from > mark: GAP, answered
 *          -> checked for all that admission could refuse, then held; replaces older parts that
 *             it overlaps or whose batch differs
 *     all lanes here, and all rows of their keys in memory -> group_admit in lane order
 *     pushes have half of their share -> a part goes on alone once its tablets have the clock of
 *             all lanes before it, and every lane has pushed of it, perhaps in vain: what is
 *             released is that lane order, sooner. A lane that has not may have to compute the
 *             clock before once more for another shard, from rows that two clocks would have lost.
 *
 * All lanes of the run count, live or not. Thread: the shard's. */
#ifndef SERVER_SHARD_BSP_H
#define SERVER_SHARD_BSP_H

#include "server/shard/request.h"

struct shard;

struct bsp_lane {
    struct request *part; /* by tablet_first */
    uint32_t tablets;     /* covered by the parts */
    uint64_t to;          /* their batch */
    uint64_t seen;        /* the newest that it has pushed here under its generation, or tried to */
};

struct bsp_hold {
    struct bsp_hold *next;
    uint64_t run;
    uint32_t table, lanes;
    uint32_t held;  /* parts */
    uint64_t asked; /* the clock whose rows have been asked for */
    struct bsp_lane lane[];
};

struct bsp {
    struct bsp_hold *hold; /* owned */
};

/* Takes q: answers, or holds it and releases what has become complete. */
void bsp_push(struct shard *s, struct request *q, uint32_t lanes);
/* Whether the push, which has come, would be applied now, however full the pool is: all of its
 * tablets have this clock of the lanes before it, and the clock before of all, and all lanes have
 * pushed of it. */
bool bsp_next(struct shard *s, const struct wire_PUSH *w);
/* Rows have come, or room: clocks that waited for them are released. */
void bsp_retry(struct shard *s);
/* A lane's generation was raised: what older generations had held is refused. */
void bsp_fenced(struct shard *s, uint64_t run, uint32_t lane, uint64_t generation);
/* The led tablets changed: everything held is refused with AGAIN. */
void bsp_lead_changed(struct shard *s);
/* Holds of runs that are no longer open are refused with OLD_RUN and freed. */
void bsp_purge(struct shard *s);
uint32_t bsp_held(const struct bsp *b);
/* Frees the holds; requests stay with the pool. */
void bsp_close(struct bsp *b);

#endif
