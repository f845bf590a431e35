/* deal.h: the share of the ring's array (way.h) that has each block of a network, and the place
 * there.
 *
 *   share k of P: the tablets t with floor(t P / T) = k, of T, of "dense" and of "dense_stats"
 *
 * A tablet lies in one share, so the keepers of a share have whole tablets, which travel as images.
 * The blocks of a share are in the order of the model. Each block is one unit of the array.
 *
 * Thread: any, one at a time. */
#ifndef WORKER_RING_DEAL_H
#define WORKER_RING_DEAL_H

#include "proto/wire/wire.h"

#include <stddef.h>
#include <stdint.h>

struct deal {
    uint32_t starts; /* 0: nothing is dealt yet, and units have the order of blocks */
    uint32_t bits, count;
    uint32_t *order;                     /* owned (count): the block of each unit */
    uint32_t *key_of;                    /* owned (count): the key of each unit, once dealt */
    uint32_t *place;                     /* owned (count): the unit of each key */
    uint32_t share[WIRE_RING_MEMBERS];   /* units of each share */
    uint32_t key[WIRE_RING_MEMBERS + 1]; /* keys [key[k], key[k + 1]) are in share k */
};

/* block (count): of each key. NOMEM. */
int deal_new(uint32_t bits, const uint32_t *block, uint32_t count, struct deal *out);
void deal_free(struct deal *d);
/* Deals the keys (count), sorted by key_mix, to as many shares as there are starts. */
void deal_out(struct deal *d, uint32_t starts, const uint64_t *keys, const uint32_t *block);
/* The share of a tablet; 0 where nothing is dealt. */
uint32_t deal_share(const struct deal *d, uint32_t tablet);
/* The first tablet of a share, or the one behind the last share. */
uint32_t deal_tablet(const struct deal *d, uint32_t share);

#endif
