/* sim_rogue.h: a worker of a simulated cluster that joins like the others and then sends messages
 * that no worker should send. They have every type that a worker may send; they are copies of
 * messages of honest workers with some fields changed, or invented; its own messages, sent again;
 * and replies to requests that it never got. Numbers are drawn from those that the coordinator
 * knows (runs, jobs, lanes, generations, tasks, objects), from numbers next to them, and from the
 * limits of types. Only the passes of other workers are unknown to the rogue.
 *
 * A bystander never asks for work and sends nothing about input or tables, so the honest workers
 * must learn the same as without it. */
#ifndef TESTS_LIB_SIM_ROGUE_H
#define TESTS_LIB_SIM_ROGUE_H

#include "proto/base/env.h"
#include "proto/wire/wire.h"
#include "tests/lib/sim_cluster.h"

#include <stdbool.h>
#include <stdint.h>

#define ROGUE_TYPES 64u
#define ROGUE_KEPT 6u /* kept messages of a type, the oldest replaced first */
#define ROGUE_PASSES 4u

struct rogue_seen {
    struct wire w;
    uint32_t frames;
    void *frame[2]; /* owned */
    size_t bytes[2];
};

struct rogue {
    struct cluster *c; /* borrowed */
    struct sim_node *node;
    struct env *env;
    struct rng rng;
    struct env_timer timer;
    peer_t coordinator;
    bool bystander;
    bool mild;         /* it sends no message that ends a job: otherwise few jobs would get far */
    uint64_t until_ns; /* the time from which it is silent */
    uint64_t next_id, sent, answered, refused;
    uint64_t pass[ROGUE_PASSES]; /* passes that it got; 0: none */
    uint32_t joined;
    struct wire_LANE_NEXT_reply given; /* the last work that it got */
    struct rogue_seen seen[ROGUE_TYPES][ROGUE_KEPT];
    uint32_t turns[ROGUE_TYPES];
};

/* Joins a cluster that has started, and is its watcher (sim_watch). */
void rogue_start(struct rogue *r, struct cluster *c, uint64_t seed, bool bystander,
                 uint64_t until_ns);
/* Frees its kept messages; its cluster may be freed already. */
void rogue_free(struct rogue *r);

#endif
