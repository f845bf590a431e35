/* cut.h: the shard's part in a cut: HOLD, GO, RESTORE, CUT_DROP, CUT_KEEP.
 *
 *   OPEN --cut_on_hold--> HELD --cut_on_go--> OPEN, the part is being written: the reply comes
 *                            |                  from hold_done_cb
 *                            +--hold_timeout_cb: 10 s--> OPEN, nothing is written
 *
 * While HELD pushes queue, neither admitted nor answered; pulls go on. At GO they go on at once:
 * what the cut holds was noted at HOLD; where it is a copy, those for tablets that are not copied
 * yet are parked (BUSY of the engine). HOLD and GO may be sent again: the same HOLD answers the
 * same sequence, the same GO answers when the part is complete, or at once when it is. A HOLD of
 * another cut ends the one at hand: its coordinator has given it up. One of a run that shares no
 * table with it is another job's: BUSY, and so is its RESTORE. Thread: the shard's. */
#ifndef SERVER_SHARD_CUT_H
#define SERVER_SHARD_CUT_H

#include "proto/base/env.h"
#include "proto/wire/wire.h"
#include "server/shard/request.h"

struct shard;

#define HOLD_NS UINT64_C(10000000000)

struct hold {
    uint64_t cut;      /* held now; 0: none */
    uint64_t sequence; /* noted at HOLD */
    struct env_timer timer;
    struct request_list queue; /* pushes that came while a cut is held (push_on_message) */

    uint64_t going; /* the cut being written; 0: none */
    uint64_t going_sequence, going_tables;
    peer_t asker; /* who is told when it is done, and under which id */
    uint64_t asker_id;

    uint64_t last; /* the cut written last, for a GO that comes again */
    int last_status;
    uint64_t last_sequence, last_rows, last_bytes;
};

void cut_init(struct shard *s);
void cut_find_newest(struct shard *s); /* of those kept here, into s->newest_cut */
/* Handlers: s->in holds the request. */
void cut_on_hold(struct shard *s, peer_t from);
void cut_on_go(struct shard *s, peer_t from);
/* Answered when all tablets are put back; until then the shard says AGAIN to all that would change
 * or read rows, but pulls of no lane, which wait. */
void cut_on_restore(struct shard *s, peer_t from);
void cut_restored(struct shard *s); /* they are */
void cut_on_keep(struct shard *s, peer_t from);
void cut_on_drop(struct shard *s, peer_t from);
/* The cut that is held was given up: pushes go on. Not 0: the shard ends. */
int cut_release(struct shard *s);
/* Stops the timer; what is queued stays with the pool. */
void cut_close(struct shard *s);

/* The shard's part in a checkpoint: CUT_EXPORT and LOAD.
 *
 * Both are long and done by the engine on I/O threads; the shard answers when they are done and
 * goes on with all else meanwhile. One export and one load at a time: the same request again takes
 * the first one's place as the one to be answered, another one is BUSY. Once it is done the same
 * request is answered again by what is there: the part in its folder, the run that the load opened.
 * Thread: the shard's. */

struct checkpoint_asker {
    bool busy;
    peer_t peer;
    uint64_t id;
};

struct checkpoints {
    struct checkpoint_asker exporter, loader, restorer, looker, writer;
    struct wire_CUT_EXPORT export; /* what is under way */
    struct wire_LOAD load;
    struct wire_RESTORE restore, look;
};

/* Handlers: s->in holds the request. */
void cut_on_export(struct shard *s, peer_t from);
void cut_on_load(struct shard *s, peer_t from);

#endif
