/* follow.h: a copy of a shard that follows: it takes the leader's records and applies them with the
 * code that applied them there, so that both are equal bit for bit.
 *
 *     copies_told --follow_start--> FOLLOW_RECORDS --FOLLOW--> leader
 *         records --> taken, committed, applied, durable --> FOLLOW behind them: acknowledges them
 *         back    --> the engine is opened again without the records behind it
 *         NOT_FOUND, or they do not fit --follow_anew--> FOLLOW_CUT
 *     FOLLOW_CUT --COPY--> parts into a seed --> the engine is opened on it --> FOLLOW_RECORDS
 *
 * 1. A record is acknowledged (`after`) once it is as durable here as `durability` says. [test:
 *    a_push_waits_for_the_follower]
 * 2. The old engine stays until the seed is complete, for it may have acknowledged records that no
 *    other copy has. [test: an_empty_follower_copies_a_cut]
 * 3. Only answers of the leader of the present term are taken. [test:
 *    a_follower_refuses_an_older_term]
 *
 * 4. A copy takes at most options.copy_rate bytes of parts a second: it asks for a part once those
 *    before it are paid for. [test: a_copy_stays_within_its_rate]
 *
 * Thread: the shard's. */
#ifndef SERVER_SHARD_FOLLOW_H
#define SERVER_SHARD_FOLLOW_H

#include "embedding/follow.h"
#include "proto/base/env.h"
#include "proto/wire/wire.h"

struct shard;

#define FOLLOW_GROUP 64u /* pushes that are committed at once */

enum follow_state { FOLLOW_IDLE, FOLLOW_RECORDS, FOLLOW_CUT };

struct follow {
    enum follow_state state;
    peer_t peer; /* the leader; 0: none */
    char leader[256], key[48];
    uint64_t term;
    uint64_t id, asked_ns; /* the request that waits for its reply; asked_ns 0: none does */
    struct msg *m;         /* owned: the reply whose records are being taken; NULL: none */
    size_t at;             /* bytes of them that are taken */
    uint64_t last;         /* the leader's newest record, as last told */
    /* when it last had every record that it knew of, or began to follow; 0: it never did */
    uint64_t even_ns;
    uint64_t taken, taken_bytes;                /* records, and their bytes */
    struct engine_followed group[FOLLOW_GROUP]; /* pushes that are not committed yet */
    uint32_t grouped;
    bool tables_due;                  /* tables have changed since the map was last applied */
    struct engine_seed *seed;         /* owned; while FOLLOW_CUT */
    uint64_t number, bytes, bytes_of; /* the leader's cut; bytes taken, of about so many */
    uint64_t anew_ns;                 /* since when it copies */
    uint64_t whole_ns;                /* since when all of it is here; 0: it is not yet */
    uint64_t paid_ns;                 /* no part is asked for before (4.) */
    uint8_t position[WIRE_COPY_POSITION];
    size_t position_bytes;
    struct env_timer timer; /* its callback is shard.c's: a step, then a tick */
};

/* Follows the leader that the reply names. */
void follow_start(struct shard *s, const struct wire_SHARD_BEAT_reply *r);
/* The copy leads, or follows another one, or ends. */
void follow_stop(struct shard *s);
/* s->in holds a reply to FOLLOW or COPY. */
void follow_on_reply(struct shard *s, peer_t from);
/* Goes on as far as possible: called by the timer, and after a sync. */
void follow_step(struct shard *s);
/* Rows or room have come: takes a step soon. */
void follow_wake(struct shard *s);
/* The engine was opened: reads what the shard keeps of it. */
void follow_read_engine(struct shard *s);
/* Fills in the figures of a follower. */
void follow_beat(const struct shard *s, struct wire_SHARD_BEAT *r);
/* Begins anew with a copy of the leader's rows. */
void follow_anew(struct shard *s, const char *why);

#endif
