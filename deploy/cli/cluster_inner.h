/* cluster_inner.h: struct cluster, shared by the files that implement cluster.h: cluster.c,
 * cluster_audit.c, cluster_read.c. */
#ifndef DEPLOY_CLI_CLUSTER_INNER_H
#define DEPLOY_CLI_CLUSTER_INNER_H

#include "deploy/cli/cluster.h"
#include "embedding/engine.h"
#include "proto/net/net.h"

/* long: for questions that walk all rows of a shard */
enum { QUESTION_MS = 10000, LONG_QUESTION_MS = 120000 };

struct cluster {
    struct table_schema *schema[LIMIT_TABLES]; /* owned */
    uint32_t tables;
    /* live */
    struct ask *coordinator;
    uint16_t *shard_of; /* by tablet, over all tables */
    uint64_t numbers;   /* numbers of the tables on the shards (wire_table_number) */
    uint32_t tablet_count;
    struct ask *shard[LIMIT_SHARDS];
    uint32_t asked;        /* number of connected shards */
    char (*endpoint)[256]; /* (shards) */
    char (*key)[48];       /* (shards): the key that each has to show; empty: none */
    uint32_t shards;
    /* offline */
    struct net *net;
    struct engine *engine[LIMIT_SHARDS];
    char (*folder)[LIMIT_PATH];
    char job[LIMIT_PATH]; /* job.yaml of the run folder */
    uint32_t engines;
};

/* The connection to a shard, made at the first question; borrowed until another shard is asked. */
int cluster_shard(struct cluster *c, uint32_t shard, struct ask **out, struct err *e);
/* Asks the shard that leads the key's tablet; *out: the JSON of the reply's frame. NOT_LEADER. */
int cluster_ask_key(struct cluster *c, const struct table_schema *s, uint64_t key, struct wire *w,
                    uint32_t timeout_ms, struct wire *reply, struct json **out, struct err *e);

#endif
