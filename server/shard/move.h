/* move.h: tablets that go from one shard to another one while jobs run.
 *
 *     coordinator --MOVE_TAKE--> taker --MOVE_READ, tablet by tablet--> giver: freezes its pushes
 *                                  |<--------- image of the tablet --------+
 *                                  +--> record of its journal, on disk, in every copy in sync
 *     coordinator <--reply---------+
 *     coordinator stores the map, then MOVE_MAP --> taker: leads the tablets
 *                                               \-> giver: drops them; its pushes go on, and those
 *                                                   for the tablets are refused (NOT_LEADER)
 *
 * A map of the freeze's epoch or of a later one ends the freeze, whatever it says of the tablets.
 * Nothing else does: a giver that went on by itself would take pushes that the taker's copy lacks.
 * A giver that starts again has forgotten the freeze, but takes no push before the coordinator has
 * set it up, and the coordinator tells it the map first (server/coord/fleet/moves.h).
 *
 * 1. Between the reading of a tablet and the map no push is admitted. [assert: push_group_admit]
 *    [test: a_giver_holds_pushes_until_the_map]
 * 2. The taker answers when the records of all tablets are on disk here and in every copy in sync.
 *    [test: a_taker_answers_when_the_tablets_are_on_disk]
 * 3. A tablet whose rows are here although the map gives it to another shard is dropped when a
 *    newer map, or MOVE_MAP, has come: a former move ended between two steps. Before that nothing
 *    is known: the coordinator may have stored a map that gives it to this shard.
 *    [test: strays_are_dropped, a_taker_that_starts_again_keeps_what_the_map_may_give_it]
 *
 * Thread: the shard's. */
#ifndef SERVER_SHARD_MOVE_H
#define SERVER_SHARD_MOVE_H

#include "proto/base/env.h"
#include "proto/base/err.h"
#include "proto/wire/wire.h"
#include "server/shard/heat.h"

struct shard;

#define MOVE_AHEAD                                                                                 \
    8u /* tablets that are asked for at a time: each round costs two processes a turn */

struct move_take {  /* the taker */
    uint64_t epoch; /* epoch of the map that will give it the tablets; 0: it takes nothing */
    peer_t asker;   /* gets the answer, with asker_id; 0: it has been answered */
    uint64_t asker_id;
    peer_t giver;
    uint32_t tablet[WIRE_MOVE_TABLETS], count, taken;
    /* Requests of the tablets [taken, asked) wait for their replies. A giver that reads from its
     * store answers one at a time: then `ahead` is 1. */
    uint32_t asked, ahead;
    uint64_t id[MOVE_AHEAD]; /* id of the request of tablet i: id[i % MOVE_AHEAD] */
    uint64_t next_id, asked_ns;
    uint64_t heat[WIRE_MOVE_TABLETS][HEAT_KINDS]; /* heat of the taken tablets */
    uint64_t sequence;                            /* the newest record of a taken tablet */
    uint64_t rows, bytes;
    struct env_timer timer;
};

struct move_give {  /* the giver */
    uint64_t epoch; /* pushes wait for a map of this epoch; 0: nothing is frozen */
    bool reading;   /* the engine reads a tablet, perhaps for a move that has ended since */
    peer_t reader;  /* gets the image that is being made; 0: none is */
    uint64_t reader_id;
    uint32_t tablet;
};

struct moves {
    struct move_take take;
    struct move_give give;
};

void move_init(struct shard *s);
void move_close(struct shard *s);
/* Another copy leads: nothing is taken or given any more. */
void move_lead_end(struct shard *s);
/* Handlers: s->in holds the request, or the reply. */
void move_on_take(struct shard *s, peer_t from);
void move_on_read(struct shard *s, peer_t from);
void move_on_map(struct shard *s, peer_t from);
void move_on_reply(struct shard *s, peer_t from);
/* Another map has come: ends what it ends. drops: strays (3.) go. AGAIN, BUSY: they go with the
 * next map; IO. */
int move_map_taken(struct shard *s, bool drops, struct err *e);
/* Records have been synced, or the copies have more of them. */
void move_synced(struct shard *s);

#endif
