/* sim_oracle.h: checks the rows and marks of a simulated cluster. It watches the net, so it knows
 * all acknowledgements of the shards, and it reads the shards' engines. A digest would not be
 * enough: if a second job trained into the empty tablets of a wrong shard, the digest would still
 * be that of the first job.
 *
 * It checks at each message (oracle_watch):
 *  - a push that is acknowledged as applied, or skipped, is in every tablet that it covers, and so
 *    is a tablet that was assigned (ASSIGN);
 *  - the push has the lane's generation: a worker that was frozen writes nothing;
 *  - no mark in a reply to a push or a fence, or in a shard's engine, is below an earlier
 *    acknowledgement of the shard, whatever died in between;
 *  - a pull is answered only when every live lane has reached its bound;
 *  - when the tables are digested, each tablet has the last batch of each lane and no more.
 * It checks when a job is over (oracle_rows_take and the calls after it): each row is on the shard
 * that owns its tablet, once, with the right value; none is missing.
 *
 * A failed check ends the test, with a message that begins with the `who` of oracle_watch. */
#ifndef TESTS_LIB_SIM_ORACLE_H
#define TESTS_LIB_SIM_ORACLE_H

#include "proto/job/schema.h"
#include "tests/lib/sim_cluster.h"

#include <stdint.h>

/* Watches a cluster, from cluster_start on; an earlier one is forgotten. Messages name the run by
 * `who`. */
void oracle_watch(struct cluster *c, const char *who);
/* The name alone; no cluster need be there. */
void oracle_name(const char *who);
/* Compares the marks of the shards that lead now with the acknowledged batches. */
void oracle_marks(void);
/* From now on power may have taken acknowledged pushes that were not synced. oracle_lost returns
 * how many batches were found lost, each counted in each tablet. */
void oracle_power_lost(void);
uint64_t oracle_lost(void);
/* Returns the number of acknowledged pushes, of those with gradients in fewer bits, and of those
 * that got rows back. */
uint64_t oracle_acknowledged(void);
uint64_t oracle_packed(void);
uint64_t oracle_echoed(void);

struct oracle_row {
    uint64_t key;
    uint32_t table, shard;
    size_t at; /* index of its bytes */
};
struct oracle_rows {
    struct oracle_row *row; /* owned, (count), by table and key */
    uint8_t *bytes;         /* owned */
    size_t bytes_count, bytes_capacity;
    uint32_t count, capacity;
    struct table_schema table[CLUSTER_TABLES];
};
/* Reads all rows of all shards of a settled cluster. */
void oracle_rows_take(struct oracle_rows *out);
void oracle_rows_free(struct oracle_rows *r);
/* Checks that the rows equal those of another run bit for bit. */
void oracle_rows_same(const struct oracle_rows *r, const struct oracle_rows *must);
/* The probe's count of a key: as often as the input has it, `times` over. */
struct oracle_count {
    uint64_t key;
    uint32_t examples;
};
void oracle_rows_count(const struct oracle_rows *r, const struct oracle_count *must, uint32_t keys,
                       uint32_t times);

#endif
