/* part_cluster.h: shared by the parts that measure clusters: servers, shards, and copies of shards.
 *
 * The bench is the coordinator of all clusters of a bench: it answers beats, and every in-sync list
 * that a leader asks for is stored at once. Copy p of shard i is on server (i + p) % servers. */
#ifndef TESTS_BENCH_PART_CLUSTER_H
#define TESTS_BENCH_PART_CLUSTER_H

#include "proto/base/env.h"
#include "tests/bench/part.h"

enum { CLUSTERS = 3, SERVERS = 3, SHARDS = 4, COPIES = 2, ROUNDS = 5, WINDOW = 4 };

struct form {
    uint32_t servers, shards, copies;
};

struct cluster {
    struct form form;
    struct part_server server[SERVERS];
    peer_t boss[SHARDS][COPIES]; /* (shards, copies): the connections of their beats; 0: none */
    peer_t peer[SHARDS];         /* (shards): where keys go */
    uint32_t in_sync[SHARDS];
    uint64_t batch; /* the last one of its lane */
    /* as a follower that begins anew told first, when it had taken parts, and last */
    uint64_t copied_first, copy_ms_first, copied, copy_ms;
    double rate[2][ROUNDS]; /* pulls, pushes: keys a second */
    double cpu[2][ROUNDS];  /* nanoseconds of processor time a key, of all leaders */
};

struct cluster_bench {
    uint64_t *keys, *fill; /* owned; (SETS, PART_KEYS), (rows): each set by mixed key */
    float *gradients;      /* owned; (PART_KEYS, PART_WIDTH) */
    uint64_t rows;
    const char *dir, *kept; /* borrowed: the folder, the durability */
    struct cluster cluster[CLUSTERS];
    uint32_t clusters;
    char endpoint[256]; /* of the bench as coordinator */
    struct net *net;
    struct env *env;
    struct env_timer deadline;
    /* the question under way */
    uint64_t asked;
    int answer;
    char text[ERR_TEXT_MAX]; /* why it was refused */
    bool answered;
    /* the turn */
    struct cluster *now;
    uint32_t slot_parts[WINDOW]; /* parts that a batch in flight waits for */
    bool pushing, filling, stopping;
    uint64_t sequence, filled, keys_answered, slot_keys[WINDOW];
    struct err why;
};

/* Makes keys for tables of `rows` rows. NULL: no memory. */
struct cluster_bench *cluster_bench_new(uint64_t rows, const struct form *form, uint32_t clusters);
void cluster_bench_free(struct cluster_bench *b);
/* Listens as coordinator; files lie below dir. `kept`: the durability of its servers. */
int cluster_bench_begin(struct cluster_bench *b, const char *dir, const char *kept, struct err *e);
/* Kills all servers. The bench may begin again. */
void cluster_bench_end(struct cluster_bench *b);

/* Begins a cluster, of which `servers` run, and fills it. */
int cluster_begin(struct cluster_bench *b, struct cluster *c, uint32_t servers, struct err *e);
int cluster_server_begin(struct cluster_bench *b, struct cluster *c, uint32_t server,
                         struct err *e);
/* Waits until so many copies of every shard have told of themselves, or are in sync. */
int cluster_wait(struct cluster_bench *b, struct cluster *c, uint32_t copies, bool in_sync,
                 struct err *e);
/* Begins all clusters and measures them in turn, into their rate and cpu; pulls: these, too. */
int cluster_rounds(struct cluster_bench *b, bool pulls, double seconds, struct err *e);
double cluster_median(double of[ROUNDS]); /* sorts them */

#endif
