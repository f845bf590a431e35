/* ring.h: all-reduce over the workers of a ring: the sum of the contributions of all lanes, at
 * every worker, with the same bits. Its door is open, reduce and close, so that another library can
 * stand behind it; ring_message is the way of this one over the worker's own connections.
 *
 *   ring_open -> ring_reduce -> done -> ring_reduce -> done -> .. -> ring_close
 *
 * Chunks (exchange.h) go to the next member as requests RING_CHUNK, RING_FLIGHTS at a time. Each is
 * sent again, at first after resend_ms, until it is answered, or until its sum shows that it has
 * arrived. A chunk is known by ring, step, number and hop, so one that comes late or twice changes
 * nothing.
 *
 * A ring has a number within its run. Members, order and starts of a number never change: when a
 * member dies or joins, the coordinator gives out a ring of the next number, and a chunk of an
 * older one is refused. A worker that was frozen therefore adds nothing to a sum.
 *
 * Only the member before may send chunks: over tcp the one with the key that the coordinator named.
 * The role of a peer is the caller's to check, before ring_message.
 *
 * Thread: the worker's loop. */
#ifndef WORKER_RING_RING_H
#define WORKER_RING_RING_H

#include "proto/base/env.h"
#include "worker/ring/exchange.h"

struct ring;

#define RING_FLIGHTS 32u /* chunks sent and not answered */

struct ring_options {
    struct env *env;
    uint64_t run, ring;
    struct exchange_options sum; /* this member's place, the array, the last complete step */
    /* the next member, as in env_connect; copied. Not used by a ring of one */
    const char *next_endpoint, *next_key;
    const char *before_key; /* that the member before shows; "": it has none. Copied */
    uint32_t resend_ms;     /* 0: 200 */
    /* The step is complete. On the loop, never from inside ring_reduce; may call any function
     * here. */
    void (*done)(void *owner);
    /* Another member has another ring, of this number: the owner asks the coordinator. May come
     * again. It must not close the ring before it returns. */
    void (*stale)(void *owner, uint64_t number);
    void *owner;
};

/* NOMEM, or the error of env_connect. */
int ring_open(const struct ring_options *options, struct ring **out, struct err *e);
/* Begins the next step with the contributions of this member's lanes (exchange_begin). The last
 * step is complete. */
void ring_reduce(struct ring *r, const struct exchange_part *part);
/* Ends it in the middle of a step, too; `done` is not called any more. NULL is fine. */
void ring_close(struct ring *r);

/* The last complete step, and its sum (exchange_sum). */
uint64_t ring_step(const struct ring *r);
const float *ring_sum(const struct ring *r, uint64_t *weight);
bool ring_refused(const struct ring *r);                         /* exchange_refused */
const float *ring_begun(const struct ring *r, uint64_t *weight); /* exchange_begun */

/* A decoded message to this worker; false: it is no RING_CHUNK, or the answer of another peer. m
 * stays the caller's. */
bool ring_message(struct ring *r, peer_t from, const struct wire *w, const struct msg *m);

/* How long the chunk that waits longest has been sent to the next member without an answer; 0: none
 * waits. An answer that it is to come again is one. */
uint64_t ring_waits_ns(const struct ring *r);

struct ring_figures {
    uint64_t chunks, bytes; /* sent, each once; with headers */
    uint64_t again;         /* chunks that were sent again */
};
struct ring_figures ring_figures(const struct ring *r);

#endif
