/* survey.h: what is in a table, worked out a few tablets at a time so that a large table does not
 * keep the shard from its pushes and beats: DIGEST, the content of each led tablet as a number,
 * told once it is on disk, and TABLE_STATS, figures (embedding/census.h), which are of no one
 * instant, for pushes fall between the steps. Of each kind one request after another; one that
 * comes again is answered once. Thread: the shard's. */
#ifndef SERVER_SHARD_SURVEY_H
#define SERVER_SHARD_SURVEY_H

#include "embedding/census.h"
#include "proto/base/env.h"

#include <stdbool.h>

struct shard;

#define DIGEST_ASKERS 8u /* at hand; more are BUSY */
#define TABLE_STATS_ASKERS 4u

struct survey_ask {
    peer_t peer;
    uint64_t id;
    uint32_t table;
    struct census_ask ask; /* of TABLE_STATS */
};

struct survey {
    struct shard *s;                      /* borrowed */
    const struct survey_kind *kind;       /* survey.c */
    struct survey_ask ask[DIGEST_ASKERS]; /* the first is being worked on */
    uint32_t count;
    struct env_timer timer;
    uint32_t first, span, next; /* tablets: the led range, and how many of it are done */
    uint64_t *digest;           /* owned, (span); of a DIGEST */
    uint64_t through;           /* of a DIGEST: the sequence that it waits for; 0: not yet */
    struct census *census;      /* owned; of TABLE_STATS */
    uint64_t rows;              /* of the tablets done */
};

void survey_init(struct shard *s);
void survey_on_digest(struct shard *s, peer_t from);
void survey_on_table_stats(struct shard *s, peer_t from);
/* Others may come in their place: what is at hand is refused. */
void survey_tables_gone(struct shard *s);
void survey_close(struct shard *s);

#endif
