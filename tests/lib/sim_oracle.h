/* sim_oracle.h: what must be there in a simulated cluster. It watches the net, so it knows what
 * every shard has acknowledged, and looks into the shards' engines for what is there: a digest
 * that is right says less, for a second job that trains into empty tablets leaves the first one's.
 *
 * At each message (oracle_watch):
 *  - a push acknowledged as applied, or skipped, is in every tablet that it covers;
 *  - it is of the lane's generation: a worker that was frozen writes nothing;
 *  - no mark that a shard names, to a push, a fence or in its engine, is below what it acknowledged
 *    before, whatever died in between;
 *  - a pull is answered when every live lane has reached its bound;
 *  - when the tables are digested, each tablet has the last batch of each lane and no more.
 * When a job is over (oracle_rows_take and what follows it): a row lies on the shard that owns its
 * tablet, once, with the value that it must have; none is missing.
 *
 * A broken promise ends the test, with the words of oracle_watch before it. */
#ifndef TESTS_LIB_SIM_ORACLE_H
#define TESTS_LIB_SIM_ORACLE_H

#include "proto/job/schema.h"
#include "tests/lib/sim_cluster.h"

#include <stdint.h>

/* From cluster_start on; a former cluster is forgotten. who: of its run, for messages. */
void oracle_watch(struct cluster *c, const char *who);
/* Marks of the shards that lead now against what was acknowledged. */
void oracle_marks(void);
/* Power may have taken what was acknowledged and not synced, from now on. How many batches were
 * found to be gone, each counted in each tablet. */
void oracle_power_lost(void);
uint64_t oracle_lost(void);
/* So many pushes were acknowledged. */
uint64_t oracle_acknowledged(void);

struct oracle_row {
    uint64_t key;
    uint32_t table, shard;
    size_t at; /* of its bytes */
};
struct oracle_rows {
    struct oracle_row *row; /* owned, (count), by table and key */
    uint8_t *bytes;         /* owned */
    size_t bytes_count, bytes_capacity;
    uint32_t count, capacity;
    struct table_schema table[CLUSTER_TABLES];
};
/* All rows of all shards; the cluster is settled. */
void oracle_rows_take(struct oracle_rows *out);
void oracle_rows_free(struct oracle_rows *r);
/* Bit for bit those of another run. */
void oracle_rows_same(const struct oracle_rows *r, const struct oracle_rows *must);
/* Of the probe: each key as often as the input has it, `times` over. */
struct oracle_count {
    uint64_t key;
    uint32_t examples;
};
void oracle_rows_count(const struct oracle_rows *r, const struct oracle_count *must, uint32_t keys,
                       uint32_t times);

#endif
