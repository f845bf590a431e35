/* sim_cluster.h: a whole cluster in one process on virtual time: real shards with real engines, the
 * real coordinator, real workers that read real files, and a client that submits a job and waits
 * for its report. Every failure to build it ends the test.
 *
 * A node is killed between two events: the files of its engine stay in its folder, the values of
 * its coordinator stay in the store, and all else is lost. With `keep_ns` transactions that are not
 * complete may be lost, too. With `power` the coordinator has its real store, and machines may lose
 * power: then a seed decides about data that was not synced (disk.h). */
#ifndef TESTS_LIB_SIM_CLUSTER_H
#define TESTS_LIB_SIM_CLUSTER_H

#include "proto/base/err.h"
#include "proto/base/rng.h"
#include "tests/lib/coord_kept.h"
#include "tests/sim/sim.h"

#include <stdbool.h>
#include <stdint.h>

struct backend;
struct outside;

#define CLUSTER_SERVERS 8u
#define CLUSTER_SHARDS 4u   /* shards of a server */
#define CLUSTER_WORKERS 64u /* started in the whole run, dead ones included */
#define CLUSTER_TABLES 8u

struct cluster_options {
    struct sim_options sim;
    const char *yaml;
    const char *from; /* the checkpoint that the job resumes; NULL: none */
    /* parent of the servers' folders; NULL: engines keep all data in memory, so replicas need
     * durability memory */
    const char *dir;
    uint32_t servers, workers;
    uint32_t places;      /* lanes of a worker at a time; 0: 2 */
    uint32_t shards;      /* shards of a server, each a node; they die together. 0: 1 */
    uint32_t replicas;    /* copies of each shard number, on different servers; 0: 1 */
    uint64_t waiting_max; /* limit of a shard's pool of requests; 0: its default */
    uint32_t durability;  /* enum durability */
    uint64_t memory;      /* of each engine; 0: no limit */
    bool idle;            /* cluster_start submits no job: cluster_submit does */
    bool stay;            /* the workers wait between jobs */
    uint32_t jobs;        /* jobs that the coordinator runs side by side; 0: 1 */
    bool power;           /* machines may lose power; needs dir */
    bool orderly;         /* every second coordinator ends its works before it is killed */
    /* a second coordinator, which stands by on the same store: a model that refuses every request
     * and names the one that leads. A coordinator that is started leads at the endpoint of the one
     * that stood by, and another one stands by where the killed one was */
    bool standby;
    /* the longest common delay until a transaction of the coordinator is complete (coord_kept.h);
     * 0: its values are in memory alone */
    uint64_t keep_ns;
    /* an option of the workers (trainer.h), whose context is their struct cluster_worker; may be
     * NULL */
    int (*replace)(void *context, struct backend **out, struct err *e);
    const struct outside *outside; /* of the workers (trainer.h); may be NULL */
};

struct cluster_server {
    struct sim_node *node; /* NULL: dead */
    struct shard *shard;
    char name[32], dir[512];
    struct disk *disk; /* with options.power */
    uint64_t boot;     /* how often its machine has started */
};

struct cluster_worker {
    char name[32];
    struct sim_node *node; /* NULL: dead or ended */
    struct trainer *trainer;
    /* period, longer than the leases, in which it sends beats and does no work, or in which a line
     * of it is cut. lost: it is ill for ever, and cluster_mend starts another worker */
    uint64_t ill_from_ns, ill_until_ns;
    bool lost;
    bool ended; /* it ended by itself, with this status */
    int status;
    struct err error; /* its sentence */
};

/* The result of the job. */
struct cluster_result {
    uint32_t state; /* enum wire_job_state */
    int status;
    char text[ERR_TEXT_MAX];
    uint64_t examples, rows;
    uint32_t tables, epochs;
    char digest[CLUSTER_TABLES][40];
    double loss[16]; /* by epoch */
};

/* Kinds of faults. */
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
    struct disk *disk;           /* the store's, with options.power */
    struct coord_kept kept;      /* the store's, with options.keep_ns */
    struct sim_node *coord_node; /* NULL: dead */
    struct coord *coord;
    struct sim_node *standby; /* NULL: there is none */
    uint32_t coords;          /* coordinators started so far */
    /* shard k of server i is [i * options.shards + k] */
    struct cluster_server server[CLUSTER_SERVERS * CLUSTER_SHARDS];
    struct cluster_worker worker[CLUSTER_WORKERS];
    uint32_t workers; /* started so far */
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
/* The same, with a loss of power of its machine. */
void cluster_server_power(struct cluster *c, uint32_t i, uint64_t seed);
void cluster_coord_power(struct cluster *c, uint64_t seed);
void cluster_coord_start(struct cluster *c);
/* Starts the coordinator again on another store, which the cluster then owns. */
void cluster_store_change(struct cluster *c, struct coord_store *store);
struct coord_store *cluster_store_copy(const struct cluster *c);
void cluster_worker_kill(struct cluster *c, uint32_t i);
uint32_t cluster_worker_start(struct cluster *c); /* its number */
/* Applies one fault: kills or freezes a process, or cuts a line. cluster_mend starts killed
 * processes again; *back: the time for that, sometimes after hours. */
#define CLUSTER_AWAY_NS UINT64_C(14400000000000)
void cluster_strike(struct cluster *c, struct rng *r, uint64_t *back);
/* Starts dead processes again. */
void cluster_mend(struct cluster *c);
/* Runs until virtual time `until_ns` or the job's end; true: the job ended. Workers that left are
 * freed. */
bool cluster_run(struct cluster *c, uint64_t until_ns);
/* Runs until the coordinator is in this phase (enum coord_phase), time is up or the job is over;
 * true: the job is over. */
bool cluster_run_phase(struct cluster *c, uint32_t phase, uint64_t until_ns);
/* Submits the job again, over the data that it left before; starts dead processes. */
void cluster_submit(struct cluster *c);
/* Runs until every copy of a shard has all its rows again, and one of each shard leads, with the
 * coordinator's map; false: time was up before. */
bool cluster_settle(struct cluster *c, uint64_t until_ns);
void cluster_result(const struct cluster *c, struct cluster_result *out);

#endif
