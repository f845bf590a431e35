/* sim_hostile.h: a hostile peer that is allowed to connect: a node that knows all numbers of the
 * cluster (its name, map, run, lanes, generations, workers) and sends messages that must not be
 * believed from it, as long as it lives. All must be refused.
 *
 * It does not send the messages that any connected peer may send until keys restrict them: SUBMIT,
 * STOP and CHECKPOINT to the coordinator, KEYS, joining as a worker, a push that names run, lane
 * and generation of a live lane correctly, a message in the name of a connected worker, and beats
 * under a server's name while the cluster is founded or taken over. */
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
