/* sim_rogue.h: a worker of a simulated cluster that has joined as any does, and sends what no
 * worker should: messages of every kind that a worker may send, made of what the honest workers
 * sent, with some fields changed, or of nothing; its own messages once more; answers to what was
 * never asked. Numbers are drawn from what the coordinator knows (runs, jobs, lanes, generations,
 * tasks, objects), from their neighbours, and from the bounds of types. The one thing that the
 * rogue does not have is the pass of another worker.
 *
 * A bystander never asks for work and tells nothing of input or tables, so what the honest workers
 * learn must be what they learn without it. */
#ifndef TESTS_LIB_SIM_ROGUE_H
#define TESTS_LIB_SIM_ROGUE_H

#include "proto/base/env.h"
#include "proto/wire/wire.h"
#include "tests/lib/sim_cluster.h"

#include <stdbool.h>
#include <stdint.h>

#define ROGUE_TYPES 64u
#define ROGUE_KEPT 6u /* messages of a type, by turns */
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
    bool mild;         /* it ends no job by a word: else few get far */
    uint64_t until_ns; /* from then on it is silent */
    uint64_t next_id, sent, answered, refused;
    uint64_t pass[ROGUE_PASSES]; /* that it was given; 0: none */
    uint32_t joined;
    struct wire_LANE_NEXT_reply given; /* the last work that it was given */
    struct rogue_seen seen[ROGUE_TYPES][ROGUE_KEPT];
    uint32_t turns[ROGUE_TYPES];
};

/* It joins a cluster that has started, and is its watcher (sim_watch). */
void rogue_start(struct rogue *r, struct cluster *c, uint64_t seed, bool bystander,
                 uint64_t until_ns);
/* What it has kept goes; its cluster may be gone already. */
void rogue_free(struct rogue *r);

#endif
