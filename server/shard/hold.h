/* hold.h: the shard's part in a cut: HOLD, GO, RESTORE, CUT_DROP, CUT_KEEP.
 *
 *   OPEN --hold_on_hold--> HELD --hold_on_go--> OPEN, the part is being written: the reply comes
 *                            |                  from hold_done_cb
 *                            +--hold_timeout_cb: 10 s--> OPEN, nothing is written
 *
 * While HELD pushes queue, neither admitted nor answered; pulls go on. At GO they go on at once:
 * what the cut holds was noted at HOLD. HOLD and GO may be sent again: the same HOLD answers the
 * same sequence, the same GO answers when the part is complete, or at once when it is. A HOLD of
 * another cut ends the one at hand: its coordinator has given it up. Thread: the shard's. */
#ifndef SERVER_SHARD_HOLD_H
#define SERVER_SHARD_HOLD_H

#include "server/shard/request.h"

struct shard;

#define HOLD_NS UINT64_C(10000000000)

struct hold {
    uint64_t cut;      /* held now; 0: none */
    uint64_t sequence; /* noted at HOLD */
    struct env_timer timer;
    struct request_list queue; /* pushes that came while a cut is held (push_on_message) */

    uint64_t going; /* the cut being written; 0: none */
    uint64_t going_sequence;
    peer_t asker; /* who is told when it is done, and under which id */
    uint64_t asker_id;

    uint64_t last; /* the cut written last, for a GO that comes again */
    int last_status;
    uint64_t last_sequence, last_rows, last_bytes;
};

void hold_init(struct shard *s);
/* Handlers: s->in holds the request. */
void hold_on_hold(struct shard *s, peer_t from, struct msg *m);
void hold_on_go(struct shard *s, peer_t from, struct msg *m);
void hold_on_restore(struct shard *s, peer_t from, struct msg *m);
void hold_on_cut_keep(struct shard *s, peer_t from, struct msg *m);
void hold_on_cut_drop(struct shard *s, peer_t from, struct msg *m);
/* Stops the timer; what is queued stays with the pool. */
void hold_close(struct shard *s);

#endif
