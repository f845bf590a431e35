/* cut.h: the shard's part in a cut: HOLD, GO, RESTORE, CUT_DROP, CUT_KEEP.
 *
 *   OPEN --cut_on_hold--> HELD --cut_on_go--> OPEN, the part is being written: the reply comes
 *                            |                  from hold_done_cb
 *                            +--hold_timeout_cb: 10 s--> OPEN, nothing is written
 *
 * While the cut is HELD, pushes queue, neither admitted nor answered; pulls go on. After GO the
 * pushes go on at once, for HOLD noted what the cut contains; where the cut is made by a copy,
 * pushes for tablets that are not copied yet are parked (the engine's BUSY). HOLD and GO may be
 * sent again: the same HOLD answers the same sequence; the same GO answers when the part is
 * complete, or at once when it is. A HOLD of another cut ends the held one: its coordinator has
 * given it up. A HOLD of tables of which the held cut has none is another job's, or another
 * space's: BUSY, and so is that job's RESTORE. Thread: the shard's. */
#ifndef SERVER_SHARD_CUT_H
#define SERVER_SHARD_CUT_H

#include "proto/base/env.h"
#include "proto/wire/wire.h"
#include "server/shard/request.h"

struct shard;

#define HOLD_NS UINT64_C(10000000000)

struct hold {
    uint64_t cut; /* held now; 0: none */
    uint64_t run;
    uint64_t sequence; /* noted at HOLD */
    struct env_timer timer;
    struct request_list queue; /* pushes that came while a cut is held (push_on_message) */

    uint64_t going; /* the cut being written; 0: none */
    uint64_t going_sequence;
    struct table_set going_tables;
    peer_t asker; /* gets the answer when it is done, with asker_id */
    uint64_t asker_id;

    uint64_t last; /* the cut written last, for a GO that comes again */
    int last_status;
    uint64_t last_sequence, last_rows, last_bytes;
};

void cut_init(struct shard *s);
void cut_find_newest(struct shard *s); /* sets s->newest_cut from the cuts kept here */
/* Handlers: s->in holds the request. */
void cut_on_hold(struct shard *s, peer_t from);
void cut_on_go(struct shard *s, peer_t from);
/* Answered when all tablets are restored; until then the shard answers AGAIN to all requests that
 * would change or read rows, except for pulls of no lane, which wait. */
void cut_on_restore(struct shard *s, peer_t from);
void cut_restored(struct shard *s); /* all tablets are restored */
void cut_on_keep(struct shard *s, peer_t from);
void cut_on_drop(struct shard *s, peer_t from);
/* The cut that is held was given up: pushes go on. Not 0: the shard ends. */
int cut_release(struct shard *s);
/* Makes the cut that the leader of this copy has made. 0: it is being made, or is kept here; BUSY:
 * later. */
int cut_follow(struct shard *s, uint64_t cut, uint64_t run);
void cut_engine_gone(struct shard *s); /* the engine was closed */
/* Stops the timer; the queued pushes stay in the pool. */
void cut_close(struct shard *s);

/* The shard's part in a checkpoint: CUT_EXPORT and LOAD.
 *
 * The engine does both on I/O threads, which takes long; the shard serves other requests meanwhile
 * and answers when they are done. One export and one load at a time: the same request again
 * replaces the first one as the one to be answered, another one is BUSY. After the end, the same
 * request is answered from its result: the part in its folder, the run that the load opened.
 * Thread: the shard's. */

struct checkpoint_asker {
    bool busy;
    peer_t peer;
    uint64_t id;
};

struct checkpoints {
    struct checkpoint_asker exporter, loader, restorer, looker, writer;
    struct wire_CUT_EXPORT export; /* the request under way */
    struct wire_LOAD load;
    struct wire_RESTORE restore, look;
};

/* Handlers: s->in holds the request. */
void cut_on_export(struct shard *s, peer_t from);
void cut_on_load(struct shard *s, peer_t from);

#endif
