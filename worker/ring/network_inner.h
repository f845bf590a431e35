/* network_inner.h: the struct behind a network, for network.c (steps and images) and
 * network_shares.c (shares of the state). */
#ifndef WORKER_RING_NETWORK_INNER_H
#define WORKER_RING_NETWORK_INNER_H

#include "embedding/table.h"
#include "worker/ring/deal.h"
#include "worker/ring/network.h"

/* Keys of one share, or all: they are made steps of. */
struct range {
    uint32_t key, count;      /* keys [key, key + count) */
    uint32_t tablet, tablets; /* their tablets */
    size_t row;               /* index of the first one in `rows` */
};

struct part {
    struct table *table; /* owned; NULL: the model has no such part, and all else is 0 */
    uint64_t *keys;      /* owned (count), sorted by key_mix */
    uint32_t *block;     /* owned (count) */
    size_t count;
    uint32_t width;
    struct deal deal;
    struct range range[WIRE_RING_MEMBERS];
    uint32_t ranges;
    float *rows;   /* owned (keys of all ranges, width): gradients or weights */
    float *now;    /* owned (count, width): weights, by block */
    float *before; /* owned: the same before the last step */
};

struct network {
    struct arena *arena;
    struct part part[NETWORK_PARTS];
    uint64_t step;
    bool sharded, skipped;
    uint64_t kept, steps; /* shares: whose state it has; that it is to keep */
    uint64_t put;         /* the step whose gradients `rows` have; 0: of none */
    float put_lr;         /* lr_scale of it */
    float *mean;          /* owned (width): of network_make */
};

/* Makes the step of the gradients that were put, in the tables alone. NOMEM. */
int network_state_step(struct network *n, struct err *e);
/* Drops the state of shares. */
void network_shares_drop(struct network *n, uint64_t shares);

#endif
