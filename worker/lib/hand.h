/* hand.h: the meeting of lanes, which hand batches over, and of the caller's threads, which take
 * them: an `outside` (worker/train/outside.h) with a queue.
 *
 *   run:  OFFERED ------hand_take------> TAKEN --hand_give--> run returns
 *            |                             |
 *            +--stop: run returns STOPPED  +--stop: run returns STOPPED once it is given back
 *
 * A batch that is taken keeps its arrays until it is given back, whatever happens to its lane: the
 * caller's thread may be in the middle of them. Threads: any; the struct has the only lock. */
#ifndef WORKER_LIB_HAND_H
#define WORKER_LIB_HAND_H

#include "worker/train/outside.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hand;

/* A batch between run and hand_give; `data` is the taker's, NULL at first. */
struct hand_batch {
    struct outside_batch *outside;
    void *data;
};

/* job: as in struct outside; context is its first argument. */
int hand_new(void (*job)(void *context, const char *text, size_t bytes), void *context,
             struct hand **out);
void hand_free(struct hand *h);                           /* no call is in it any more */
const struct outside *hand_outside(const struct hand *h); /* lives as long as the hand */
/* Waits at most wait_ms (UINT32_MAX: no limit) for a batch. AGAIN: none came; END: hand_close. */
int hand_take(struct hand *h, uint32_t wait_ms, struct hand_batch **out);
/* Gives a batch back with the result of `run`; b is no more. */
void hand_give(struct hand *h, struct hand_batch *b, int status);
/* No batch will come: all takers get END. */
void hand_close(struct hand *h);
/* Batches that are taken and not given back. */
uint32_t hand_out(struct hand *h);

#endif
