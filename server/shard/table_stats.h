/* table_stats.h: TABLE_STATS: what is in a table (embedding/census.h), counted a few tablets at a
 * time so that a large table does not keep the shard from its pushes and beats: pushes fall between
 * the steps, so the figures are of no one instant. One request after another; one that comes again
 * is answered once. Thread: the shard's. */
#ifndef SERVER_SHARD_TABLE_STATS_H
#define SERVER_SHARD_TABLE_STATS_H

#include "embedding/census.h"
#include "proto/base/env.h"

struct shard;

#define TABLE_STATS_ASKERS 4u /* at hand; more are BUSY */

struct table_stats_ask {
    peer_t peer;
    uint64_t id;
    uint32_t table;
    struct census_ask ask;
};

struct table_stats {
    struct table_stats_ask ask[TABLE_STATS_ASKERS]; /* the first is being worked on */
    uint32_t count;
    struct env_timer timer;
    struct census *census;      /* owned */
    uint32_t first, span, next; /* tablets: the led range, and how many of it are counted */
};

void table_stats_init(struct shard *s);
void table_stats_on_message(struct shard *s, peer_t from, struct msg *m);
void table_stats_close(struct shard *s);

#endif
