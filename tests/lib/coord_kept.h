/* coord_kept.h: values that outlive a coordinator of the simulator, as a replicated store keeps
 * them. A transaction is complete at once, or after a delay. When a coordinator dies, its
 * transactions that are under way are kept or lost; a kept one had no completion. */
#ifndef TESTS_LIB_COORD_KEPT_H
#define TESTS_LIB_COORD_KEPT_H

#include "proto/base/env.h"
#include "proto/base/rng.h"
#include "server/coord/store/store.h"

struct coord_kept {
    struct coord_store *values; /* owned by the test */
    uint32_t left;              /* transactions that it still takes; COORD_KEPT_ALL: all */
    uint64_t delay_ns;          /* the longest common delay; 0: none. One in 32 takes 50 times it */
    struct rng rng;             /* for delays, and for the losses of a death */
    uint64_t delayed, lost, unheard; /* transactions; lost, unheard: when a coordinator died */
};
#define COORD_KEPT_ALL UINT32_MAX

/* Gives the keep the store's values, and lets the store keep its changes there. */
void coord_kept_attach(struct coord_kept *k, struct coord_store *s, struct env *env);
/* Returns a store with the keep's values. env: of the coordinator, for delays; may be NULL. */
struct coord_store *coord_kept_open(struct coord_kept *k, struct env *env);

#endif
