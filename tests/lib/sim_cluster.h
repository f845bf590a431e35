/* sim_cluster.h: a whole cluster in one process on virtual time: real shards with real engines, the
 * real coordinator, real workers that read real files, and a client that submits a job and waits
 * for its report. Every failure to build it ends the test.
 *
 * A killed node's process is gone between two events: what its engine had written stays in its
 * folder, what its coordinator had put stays in the store, all else is lost. With `power` the
 * coordinator has its real store, and machines may lose their power: then of what was not synced a
 * seed decides (disk.h). */
#ifndef TESTS_LIB_SIM_CLUSTER_H
#define TESTS_LIB_SIM_CLUSTER_H

#include "proto/base/err.h"
#include "proto/base/rng.h"
#include "tests/sim/sim.h"

#include <stdbool.h>
#include <stdint.h>

struct backend;

#define CLUSTER_SERVERS 8u
#define CLUSTER_SHARDS 4u   /* of a server */
#define CLUSTER_WORKERS 64u /* over the whole run, dead ones counted */
#define CLUSTER_TABLES 8u

struct cluster_options {
    struct sim_options sim;
    const char *yaml;
    const char *from; /* a checkpoint that the job goes on from; NULL: none */
    const char *dir;  /* of the servers' folders; NULL: engines keep all in memory */
    uint32_t servers, workers;
    uint32_t shards;      /* of a server, a node each; they die together. 0: 1 */
    uint64_t waiting_max; /* of a shard's pool of requests; 0: its default */
    uint32_t durability;  /* enum durability */
    bool idle;            /* nothing is submitted yet: cluster_submit */
    bool stay;            /* the workers wait between jobs */
    uint32_t jobs;        /* that the coordinator runs side by side; 0: 1 */
    bool power;           /* machines may lose it; needs dir */
    /* of the workers' options; may be NULL */
    int (*replace)(void *context, struct backend **out, struct err *e);
};

struct cluster_server {
    struct sim_node *node; /* NULL: dead */
    struct shard *shard;
    char name[32], dir[512];
    struct disk *disk; /* of options.power */
    uint64_t boot;     /* how often its machine has started */
};

struct cluster_worker {
    struct sim_node *node; /* NULL: dead or ended */
    struct trainer *trainer;
    /* for longer than the leases it beats and does no work, or a line of it is cut, from and until
     * then; lost: for ever, and cluster_mend starts another one */
    uint64_t ill_from_ns, ill_until_ns;
    bool lost;
    bool ended; /* by itself, with this status */
    int status;
    struct err error; /* its sentence */
};

/* What the job ended with. */
struct cluster_result {
    uint32_t state; /* enum wire_job_state */
    int status;
    char text[ERR_TEXT_MAX];
    uint64_t examples, rows;
    uint32_t tables, epochs;
    char digest[CLUSTER_TABLES][40];
    double loss[16]; /* by epoch */
};

/* What goes wrong. */
#define CLUSTER_STRIKES(X)                                                                         \
    X(server_killed)                                                                               \
    X(server_away)                                                                                 \
    X(coordinator_killed)                                                                          \
    X(server_without_power)                                                                        \
    X(coordinator_without_power)                                                                   \
    X(worker_killed)                                                                               \
    X(line_cut_one_way)                                                                            \
    X(line_cut_both_ways)                                                                          \
    X(paused)                                                                                      \
    X(paused_for_leases)                                                                           \
    X(worker_wedged)                                                                               \
    X(worker_cut_from_server)                                                                      \
    X(worker_cut_from_coordinator)                                                                 \
    X(worker_lost)
struct cluster_struck {
#define X(name) uint64_t name;
    CLUSTER_STRIKES(X)
#undef X
};

struct cluster {
    struct cluster_options options;
    struct sim *sim;
    struct coord_store *store;
    struct disk *disk;           /* of the store, with options.power */
    struct sim_node *coord_node; /* NULL: dead */
    struct coord *coord;
    /* shard k of server i is [i * options.shards + k] */
    struct cluster_server server[CLUSTER_SERVERS * CLUSTER_SHARDS];
    struct cluster_worker worker[CLUSTER_WORKERS];
    uint32_t workers; /* ever started */
    struct fake_client *client;
    struct backend *backend;
    struct cluster_struck struck;
};

void cluster_start(struct cluster *c, const struct cluster_options *options,
                   struct backend *backend);
void cluster_free(struct cluster *c);
void cluster_server_kill(struct cluster *c, uint32_t i);
void cluster_server_start(struct cluster *c, uint32_t i);
bool cluster_server_alive(const struct cluster *c, uint32_t i);
void cluster_coord_kill(struct cluster *c);
/* Likewise, and the power of its machine goes. */
void cluster_server_power(struct cluster *c, uint32_t i, uint64_t seed);
void cluster_coord_power(struct cluster *c, uint64_t seed);
void cluster_coord_start(struct cluster *c);
/* The coordinator starts again on another store, which the cluster takes. */
void cluster_store_change(struct cluster *c, struct coord_store *store);
struct coord_store *cluster_store_copy(const struct cluster *c);
void cluster_worker_kill(struct cluster *c, uint32_t i);
uint32_t cluster_worker_start(struct cluster *c); /* its number */
/* One misfortune: something is killed, frozen, or a line is cut; what is killed comes back with
 * cluster_mend, at `back` say: once in a while after hours. */
#define CLUSTER_AWAY_NS UINT64_C(14400000000000)
void cluster_strike(struct cluster *c, struct rng *r, uint64_t *back);
/* Starts again what is dead. */
void cluster_mend(struct cluster *c);
/* Until virtual time `until_ns` or the job's end; whether it ended. Workers that left are freed. */
bool cluster_run(struct cluster *c, uint64_t until_ns);
/* Until the coordinator is in this phase (enum coord_phase), time is up or the job is over; whether
 * it is over. */
bool cluster_run_phase(struct cluster *c, uint32_t phase, uint64_t until_ns);
/* The job, once more over what it left before; starts what is dead. */
void cluster_submit(struct cluster *c);
/* Until every shard has the coordinator's map and all its rows again; whether that came to be. */
bool cluster_settle(struct cluster *c, uint64_t until_ns);
void cluster_result(const struct cluster *c, struct cluster_result *out);

#endif
