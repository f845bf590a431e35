/* bsp.h: pushes held for the other pushes of their clock.
 *
 * For each (run, table) of a bsp run there is one hold: for every lane the parts (pushes over
 * disjoint tablets) of one batch. A part is neither journalled nor answered while held. A clock is
 * complete when every lane either has its whole batch here or is past that clock. The parts are
 * then admitted in lane order, each as a step of its own, all in one group. So the rows are the
 * same bit for bit in whatever order the parts arrived.
 *
 *     push -> to <= mark:  skipped, answered                   (already applied)
 *          -> from > mark: GAP, answered
 *          -> checked for all that admission could refuse, then held; replaces older parts that
 *             it overlaps or whose batch differs
 *     all lanes here, and all rows of their keys in memory -> push_group_admit in lane order
 *     the pool is pressed (request_pool_pressed) -> a part is admitted alone
 *
 * A part is admitted alone once its tablets have this clock of all lanes before it and the clock
 * before of all others, and every lane has sent a push of this clock, accepted or not. The order of
 * application is the same lane order, only sooner. A lane that has sent no push of this clock may
 * have to compute the clock before again, for another shard, and the rows that it needs are gone
 * once this clock is applied (pull.h).
 *
 * All lanes of the run count, live or not. Thread: the shard's. */
#ifndef SERVER_SHARD_BSP_H
#define SERVER_SHARD_BSP_H

#include "server/shard/request.h"

struct shard;

struct bsp_lane {
    struct request *part; /* sorted by tablet_first */
    uint32_t tablets;     /* covered by the parts */
    uint64_t to;          /* the parts' batch */
    /* the newest batch that the lane has pushed here under its generation, accepted or not */
    uint64_t seen;
};

struct bsp_hold {
    struct bsp_hold *next;
    uint64_t run;
    uint32_t table, lanes;
    uint32_t held;  /* parts */
    uint64_t asked; /* the clock whose rows were last asked for */
    struct bsp_lane lane[];
};

struct bsp {
    struct bsp_hold *hold; /* owned */
};

/* Takes q: answers it, or holds it and releases the clocks that are now complete. */
void bsp_push(struct shard *s, struct request *q, uint32_t lanes);
/* True when this push, which has just arrived, would be applied now, however full the pool is: its
 * tablets have this clock of the lanes before it and the clock before of all others, and all lanes
 * have pushed this clock. */
bool bsp_next(struct shard *s, const struct wire_PUSH *w);
/* Called when rows or room have come: releases the clocks that waited for them. */
void bsp_retry(struct shard *s);
/* A lane's generation was raised: parts of older generations are refused. */
void bsp_fenced(struct shard *s, uint64_t run, uint32_t lane, uint64_t generation);
/* The led tablets changed: all held parts are refused with AGAIN. */
void bsp_lead_changed(struct shard *s);
/* Refuses the parts of runs that are no longer open with OLD_RUN and frees their holds. */
void bsp_purge(struct shard *s);
uint32_t bsp_held(const struct bsp *b);
/* Frees the holds; the requests stay in the pool. */
void bsp_close(struct bsp *b);

#endif
