/* sim_copies.h: the copies of the shards of a simulated cluster. */
#ifndef TESTS_LIB_SIM_COPIES_H
#define TESTS_LIB_SIM_COPIES_H

#include "tests/lib/sim_cluster.h"

#include <stdbool.h>
#include <stdint.h>

/* No shard of cluster.server. */
#define SIM_NO_COPY UINT32_MAX

/* True when every copy is there, has its rows, and the coordinator has heard this process of it
 * and stored it as in sync. A list in sync alone may be older than the processes. */
bool sim_copies_in_sync(const struct cluster *c);
/* True when all copies of each shard have the same number of records. */
bool sim_copies_even(const struct cluster *c);
/* Returns the index in cluster.server of the copy that leads a shard and may answer, or
 * SIM_NO_COPY. */
uint32_t sim_copies_leader(const struct cluster *c, uint32_t shard);
/* Returns that of the n-th other copy of the shard. */
uint32_t sim_copies_follower(const struct cluster *c, uint32_t shard, uint32_t n);
/* Checks with Check that all copies of each shard are equal bit for bit: records, tables, rows,
 * admission, names, undo, marks, runs with their lanes, and terms. `who` begins a message. */
void sim_copies_equal(const struct cluster *c, const char *who);

#endif
