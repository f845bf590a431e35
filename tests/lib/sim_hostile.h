/* sim_hostile.h: somebody who may connect and means ill: a node that knows all numbers of the
 * cluster (its name, map, run, lanes, generations, workers) and sends what nobody should believe
 * from it, as long as it lives. Nothing may come of it but refusals.
 *
 * Left out, because anybody who may connect may ask for it until keys say who may: SUBMIT, STOP and
 * CHECKPOINT to the coordinator, KEYS, joining as a worker, a push that names run, lane and
 * generation of a live lane rightly, a word in the name of a worker that is there, and beats under
 * a server's name while the cluster is founded or taken over. */
#ifndef TESTS_LIB_SIM_HOSTILE_H
#define TESTS_LIB_SIM_HOSTILE_H

#include "proto/base/env.h"
#include "tests/lib/sim_cluster.h"

struct hostile {
    struct cluster *c; /* borrowed */
    struct sim_node *node;
    struct env *env;
    struct rng rng;
    struct env_timer timer;
    peer_t coordinator, shard[CLUSTER_SERVERS * CLUSTER_SHARDS];
    uint64_t next_id, sent, turns;
};

void hostile_start(struct hostile *h, struct cluster *c, uint64_t seed);

#endif
