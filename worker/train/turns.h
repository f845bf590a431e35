/* turns.h: work on threads, of which only so much is in the pool at a time.
 *
 * The pool of a worker (lane_threads) is shared by reading, dividing keys and computing. It takes
 * work in the order in which it comes. The slices of all lanes (slices.h) can be more than the
 * threads; then the lanes' plans and reads would wait behind them, and pushes behind the plans
 * (lane_ahead.c). So slices wait here, in the order of turns_start, until one of the `most` that
 * run is back.
 *
 * Thread: the worker's loop; `run` is called on a thread of the pool. */
#ifndef WORKER_TRAIN_TURNS_H
#define WORKER_TRAIN_TURNS_H

#include "proto/base/env.h"

#include <stdint.h>

struct turn {
    void (*run)(struct turn *t);  /* as env_work's */
    void (*done)(struct turn *t); /* as env_work's; the turn may be started again */
    uint64_t ran_ns;              /* from `done` on: how long run took */
    struct env_work work;         /* these three are of turns.c */
    struct turns *of;
    struct turn *next;
};

struct turns {
    struct env *env; /* borrowed */
    uint32_t most, running;
    struct turn *head, *tail; /* turns that wait */
};

/* most: at least 1. */
void turns_init(struct turns *t, struct env *env, uint32_t most);
/* The turn, which is not under way, is borrowed until `done`. */
void turns_start(struct turns *t, struct turn *turn);

#endif
