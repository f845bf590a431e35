/* copies.h: the copies of a shard, as the copy that leads sees them (follow.h: as one that follows
 * sees its leader).
 *
 *     beat's reply --copies_told--> COPIES_LEADS: begins its term; counts on the in-sync list
 *                             \---> COPIES_FOLLOWS: follow.h
 *     FOLLOW --copies_on_follow--> waits for records; tells that the follower has the ones before
 *     COPY   --copies_on_copy----> parts of a private cut
 *     push, reply to the coordinator --copies_acknowledged--> answered once all in-sync copies have
 *                                                             its record
 *     a follower is silent, or has caught up --IN_SYNC--> coordinator stores it --> it counts
 *
 * 1. A push is answered, and the coordinator hears of a change, only when every in-sync copy has
 *    its record. [test: a_push_waits_for_the_follower]
 * 2. The leader counts on a smaller in-sync list only after the coordinator has stored it. It asks
 *    for a larger one once the new follower has every record that was acknowledged; it waits for
 *    that follower from before (joining), so that none is acknowledged meanwhile.
 *    [test: a_follower_that_is_cut_off_leaves_once_that_is_stored,
 *    replicas_lose_no_acknowledged_push]
 * 3. Without a lease no push and no pull of a lane is answered. [test:
 *    an_old_leader_past_its_lease_answers_nothing]
 * 4. A copy that begins to lead answers nothing that depends on its tablets before it has the map
 *    that was the newest then: tablets may have moved while it followed. It takes that map whatever
 *    rows it has. [test: a_new_leader_waits_for_the_newest_map]
 *
 * A shard without other copies (COPIES_ALONE) does nothing of this. Thread: the shard's. */
#ifndef SERVER_SHARD_COPIES_H
#define SERVER_SHARD_COPIES_H

#include "embedding/copy.h"
#include "proto/base/env.h"
#include "proto/wire/wire.h"
#include "server/shard/request.h"

struct shard;
struct json;

#define COPIES_TAIL_BYTES (UINT64_C(64) << 20) /* records that are kept in memory for followers */

enum copies_role { COPIES_ALONE, COPIES_LEADS, COPIES_FOLLOWS };

enum copies_wait { COPIES_NOTHING, COPIES_RECORDS, COPIES_PART };

/* A follower, as its leader knows it. */
struct copies_follower {
    struct shard *s;
    peer_t peer;            /* peer of its newest request; 0: there was none in this term */
    bool gone;              /* its connection has closed since */
    uint64_t id;            /* id of its newest request */
    enum copies_wait waits; /* for the answer to it */
    uint64_t have;          /* it has all records up to this one */
    uint64_t heard_ns, parked_ns;
    uint64_t goal;       /* the newest record when it was last answered; UINT64_MAX: not sent yet */
    bool near;           /* it has caught up */
    bool reading;        /* the engine reads records or a part for it */
    uint64_t read_after; /* the records behind this one are read */
    /* the private cut that it copies */
    bool copying, cutting;                /* cutting: the engine makes it */
    uint64_t number, sequence, bytes;     /* number 0: there is none */
    uint8_t position[WIRE_COPY_POSITION]; /* position of the part that it asked for */
    size_t position_bytes;
    uint32_t part_most; /* bytes of it */
};

/* A reply to the coordinator, or about keys, that waits for the copies. */
struct copies_reply;

struct copies {
    enum copies_role role;
    bool begun; /* the record of the term is in the journal */
    bool over;  /* a newer term was heard of, when beat over_beat was the newest */
    uint64_t over_beat;
    uint32_t place, count;
    uint64_t term;
    uint64_t map_due;              /* the newest map when this copy began to lead; 0: none */
    uint32_t in_sync, min_in_sync; /* in_sync: as stored, a bit for each place */
    uint32_t asked;                /* the lists that were asked for and may be stored; 0: none */
    uint32_t wanted;               /* the list of the present request, or of the last one */
    uint64_t order;                /* number of that request in the term */
    bool refused;                  /* the last one was refused */
    uint32_t joining;      /* followers that are waited for, so that they can be asked for */
    uint64_t acknowledged; /* the highest sequence that may have been acknowledged in any term */
    uint64_t asked_id, asked_ns; /* asked_id 0: no IN_SYNC waits for its reply */
    uint64_t beat_id;            /* the newest beat when the list was last told */
    uint64_t lease_ns, lease_until_ns;
    uint64_t base; /* the state does not follow from the records up to this one */
    struct copies_follower follower[LIMIT_COPIES];
    struct copies_reply *reply, **reply_end;
    uint32_t replies;
    struct env_timer timer;
};

void copies_init(struct shard *s);
void copies_close(struct shard *s);
/* Takes the part of a beat's reply that is about copies. sent_ns: when the beat was sent; 0: the
 * reply came unasked. */
void copies_told(struct shard *s, const struct wire_SHARD_BEAT_reply *r, uint64_t beat_id,
                 uint64_t sent_ns);
/* Fewer than half of the lease: beats are sent so often. 0: there is no lease. */
uint64_t copies_beat_ns(const struct shard *s);

/* ---- the leader ---- */
void copies_on_follow(struct shard *s, peer_t from);
void copies_on_copy(struct shard *s, peer_t from);
void copies_on_in_sync(struct shard *s, peer_t from); /* a reply */
void copies_peer_gone(struct shard *s, peer_t peer);
/* Refuses a request of another role than COPIES_ALONE that this copy may not answer now; returns
 * true then. s->in holds the request. */
bool copies_refuse(struct shard *s, peer_t from);
/* True when every copy of the shard takes this message, not only the one that leads. */
bool copies_every(const struct wire *w);
/* True while a leader may answer pushes and the pulls of lanes. */
bool copies_leased(const struct shard *s);
/* The highest sequence that may be acknowledged, where the engine alone would acknowledge `own`. */
uint64_t copies_acknowledged(struct shard *s, uint64_t own);
/* Takes m, the message in s->out, and returns true when it is a reply that waits for the copies, or
 * one that this copy may not give any more. */
bool copies_delay(struct shard *s, peer_t to, struct msg *m);
/* Sends the replies that the copies allow by now. */
void copies_flush(struct shard *s);
/* New records are committed: sends them to the followers that wait for them. */
void copies_serve(struct shard *s);
/* A load, an unload or a clear is done: the state no longer follows from the records before. */
void copies_base(struct shard *s);
/* The copies as JSON, for SHARD_STATUS. */
struct json *copies_json(const struct shard *s);

/* ---- for the files of copies ---- */
uint64_t copies_newest(const struct shard *s); /* the newest record here */
/* True when nothing is kept for a follower any more. It may be silent for long while it opens what
 * it has copied. */
bool copies_given_up(const struct shard *s, const struct copies_follower *f);
void copies_replies_drop(struct copies *c);
/* Tells the journal from where on followers need its records. Where it runs short of room only the
 * in-sync ones count. */
void copies_keep(struct shard *s);
/* Answers a FOLLOW that waits, if there are records. */
void copies_serve_one(struct copies_follower *f);
/* Answers a FOLLOW that waits. back: UINT64_MAX, or the newest record that both have. */
void copies_answer(struct copies_follower *f, uint64_t back, const void *records, size_t bytes);
/* Refuses the request of a follower that waits, if there is one. */
void copies_follower_refuse(struct copies_follower *f, int status, const char *text);

/* ---- copies_cut.c: COPY ---- */
/* Ends the copy of a follower. */
void copies_cut_end(struct shard *s, struct copies_follower *f);
/* The engine was closed: nothing of it comes back. */
void copies_engine_gone(struct shard *s);
/* Finds the follower that has sent s->in, which names its place and term. NULL: refused. */
struct copies_follower *copies_sender(struct shard *s, peer_t from, uint32_t shard, uint32_t copy,
                                      uint64_t term);

#endif
