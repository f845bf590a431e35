/* survey.h: DIGEST: the content of a table's tablets as numbers, worked out a few tablets at a time
 * so that a large table does not keep the shard from its pushes and beats. One table after another;
 * a request that comes again is answered once. Thread: the shard's. */
#ifndef SERVER_SHARD_SURVEY_H
#define SERVER_SHARD_SURVEY_H

#include "embedding/census.h"
#include "proto/base/env.h"

#include <stdbool.h>

struct shard;

#define DIGEST_ASKERS 8u /* digests at hand; more are BUSY */

struct digest_ask {
    peer_t peer;
    uint64_t id;
    uint32_t table;
};

struct digests {
    struct digest_ask ask[DIGEST_ASKERS]; /* the first is being worked on */
    uint32_t count;
    struct env_timer timer;
    uint64_t *value; /* owned, (span) of the table at hand */
    uint32_t first, span, next;
    uint64_t rows; /* of the tablets counted so far */
};

void survey_init(struct shard *s);
void survey_on_digest(struct shard *s, peer_t from, struct msg *m);
void survey_close(struct shard *s);

/* TABLE_STATS: what is in a table (embedding/census.h), counted a few tablets at a
 * time so that a large table does not keep the shard from its pushes and beats: pushes fall between
 * the steps, so the figures are of no one instant. One request after another; one that comes again
 * is answered once. Thread: the shard's. */

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

void survey_table_stats_init(struct shard *s);
void survey_on_table_stats(struct shard *s, peer_t from, struct msg *m);
void survey_table_stats_close(struct shard *s);

#endif
