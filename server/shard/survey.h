/* survey.h: reads whole tables a few tablets at a time, so that a large table does not keep the
 * shard from its pushes and beats. DIGEST computes a number from the content of each led tablet,
 * and is answered once that content is on disk. TABLE_STATS computes figures (embedding/census.h);
 * pushes fall between the steps, so the figures are of no single instant. Each kind serves one
 * request after another; a request that is sent again is answered once. Thread: the shard's. */
#ifndef SERVER_SHARD_SURVEY_H
#define SERVER_SHARD_SURVEY_H

#include "embedding/census.h"
#include "proto/base/env.h"
#include "proto/base/table_set.h"

#include <stdbool.h>

struct shard;

#define DIGEST_ASKERS 8u /* requests at a time; more are BUSY */
#define TABLE_STATS_ASKERS 4u

struct survey_ask {
    peer_t peer;
    uint64_t id;
    uint32_t table;
    struct census_ask ask; /* used by TABLE_STATS */
};

struct survey {
    struct shard *s;                      /* borrowed */
    const struct survey_kind *kind;       /* survey.c */
    struct survey_ask ask[DIGEST_ASKERS]; /* ask[0] is being worked on */
    uint32_t count;
    struct env_timer timer;
    /* tablets: the led range, and the number of its tablets that are done */
    uint32_t first, span, next;
    uint64_t *digest;      /* owned, (span); used by DIGEST */
    uint64_t through;      /* used by DIGEST: the sequence that the answer waits for; 0: not yet */
    struct census *census; /* owned; used by TABLE_STATS */
    uint64_t rows;         /* rows of the tablets that are done */
};

void survey_init(struct shard *s);
void survey_on_digest(struct shard *s, peer_t from);
void survey_on_table_stats(struct shard *s, peer_t from);
/* These tables go, and others may come in their place: requests about them are
 * refused. */
void survey_tables_gone(struct shard *s, struct table_set tables);
void survey_close(struct shard *s);

#endif
