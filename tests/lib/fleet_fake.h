/* fleet_fake.h: a coordinator in memory with two fake shards, for tests of whole jobs. */
#ifndef TESTS_LIB_FLEET_FAKE_H
#define TESTS_LIB_FLEET_FAKE_H

#include "server/coord/coord.h"
#include "tests/lib/server_fake.h"

#define FLEET_FAKE_LEASE_MS 1000

struct fleet_fake { /* owned */
    struct sim *sim;
    struct sim_node *node; /* the coordinator's */
    struct coord_store *store;
    struct coord *coord;
    struct fake_shard *shard[2]; /* server-0 and server-1 */
};

/* A calm network, and a lease of FLEET_FAKE_LEASE_MS. */
void fleet_fake_start(struct fleet_fake *f);
void fleet_fake_end(struct fleet_fake *f);

#endif
