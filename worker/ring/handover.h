/* handover.h: the network goes to a worker that lacks its newest step, from one that has it.
 *
 *   newcomer: handover_start -RING_READ, a piece each-> source: handover_serve
 *             <- images of tablets, weights of the step before ... -> done
 *
 * With sharded state (network.h) one source has the weights, and each keeper has the images of its
 * shares, so there is a handover of the weights, then one from each keeper.
 *
 * The coordinator has named the source and the step with the ring's number. The source keeps that
 * step until every member of the ring has it: the next step needs a contribution of each. Requests
 * are sent again until they are answered, HANDOVER_FLIGHTS at a time. A source that dies makes a
 * ring of the next number; the owner stops this handover then and starts another one.
 *
 * Thread: the worker's loop. */
#ifndef WORKER_RING_HANDOVER_H
#define WORKER_RING_HANDOVER_H

#include "proto/base/env.h"
#include "proto/wire/wire.h"
#include "worker/ring/network.h"

#include <stdbool.h>
#include <stdint.h>

#define HANDOVER_FLIGHTS 4u

struct handover;

enum handover_what {
    HANDOVER_WHOLE,   /* all images, and the weights of the step before */
    HANDOVER_WEIGHTS, /* the weights of the step and of the one before it (network_weights_take) */
    HANDOVER_SHARES   /* the images of some shares (network_taken) */
};

struct handover_options {
    struct env *env;
    uint64_t run, ring, step;
    enum handover_what what;
    uint64_t shares;            /* SHARES: these, a bit for each */
    bool counts;                /* WEIGHTS: as network_weights_take says */
    struct network *network;    /* borrowed; filled piece by piece, of use once `done` has come */
    const char *endpoint, *key; /* the source, as in env_connect; copied */
    uint32_t resend_ms;         /* 0: 200 */
    /* status 0: the network has the step. Else the text says what is wrong with a piece, and
     * nothing more comes. On the loop; may call handover_stop. */
    void (*done)(void *owner, int status, const char *text);
    void *owner;
};

/* NOMEM, or the error of env_connect. */
int handover_start(const struct handover_options *options, struct handover **out, struct err *e);
void handover_stop(struct handover *h); /* NULL is fine */
/* The time since the source last answered, or since the start. */
uint64_t handover_waits_ns(const struct handover *h);
/* A decoded message to this worker; false: it is no answer to this handover. */
bool handover_message(struct handover *h, peer_t from, const struct wire *w, const struct msg *m);

/* The side that has the step. */
struct handover_source {
    struct env *env;
    const struct network *network; /* NULL: it has none yet */
    uint64_t run, ring;            /* the newest ring that this worker knows */
    const char (*keys)[48];        /* (members): keys of the ring's workers; "": it has none */
    uint32_t members;
};
/* Answers a request RING_READ of a peer whose role has the right to it; over tcp of one with a key
 * of `keys`. */
void handover_serve(const struct handover_source *s, peer_t from, const struct wire *w);

#endif
