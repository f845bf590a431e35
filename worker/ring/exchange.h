/* exchange.h: one member's part in the sums of a ring: which chunks it has, adds and passes on.
 *
 * A step is one sum over the lanes of all members. Every member begins the steps in order, each
 * with the contributions of its own lanes:
 *
 *   exchange_begin -+-> add lanes -> exchange_next: to the next member
 *   exchange_take --+   ... until every chunk has its sum: exchange_complete
 *
 * A contribution is an array of floats with a weight, the number of its examples. The sum of the
 * weighted part is sum(weight x float), that of the plain part sum(float), both over the
 * contributions with a weight above 0, in the order of way.h, in IEEE floats without contraction.
 *
 * With `shards` (train.dense_state: sharded) the hops after the sum carry what a step makes of it,
 * the new parameters:
 *
 *   .. parts -> owner: the sum --hop last--> second: shards.make -> parameters --> .. all others
 *
 * The owner and the second keep the sum, of which each makes the step itself (network.h); all
 * others have the parameters in its place. The bytes are those of sums. The step is complete at the
 * owner when the second has acknowledged each sum, so when one member has completed a step, all
 * keepers of all shares have the sums of it.
 *
 * With VALUES_BF16 every member rounds what it has added to bf16 before it passes it on. It keeps
 * the difference and adds it the next time, so that what rounding takes away comes later. The owner
 * rounds the sum too, so that all members have the same bits. Parameters are never rounded: they
 * travel in fp32, and the hops with parts and sums in bf16.
 *
 * All chunks of a member begin at once, in their order, when its lanes have given. A layer does not
 * go first, while the backward pass computes the others: a lane's weight is 0 if any gradient is
 * not finite, and clip_dense scales all by their common norm, so no float of a contribution is
 * known before the last layer's. The order of the chunks then decides nothing. Chunks are small
 * instead, so that parts, sums and parameters of different chunks travel at the same time.
 *
 *  1. A member is at most one step ahead of another: a step is complete only with a contribution of
 *     every member, which each gives after the step before. So two slots, for odd and even steps,
 *     are enough, and the sum of a step stays in its slot until the step after it has begun.
 *     [assert: exchange_begin] [test: exchange_takes_one_step_ahead]
 *  2. A chunk that comes again changes nothing. [test: exchange_a_doubled_chunk_changes_nothing]
 *  3. With `shards` a complete step has its sums at every keeper.
 *     [test: exchange_completes_a_sharded_step_at_its_keepers_first]
 *  4. Nothing is allocated after exchange_new. [test: ring_allocates_nothing_for_a_step]
 *
 * Thread: one. No clock, socket, thread or file. */
#ifndef WORKER_RING_EXCHANGE_H
#define WORKER_RING_EXCHANGE_H

#include "proto/base/err.h"
#include "proto/job/half.h"
#include "worker/ring/way.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct exchange;

struct exchange_options {
    struct way_shape shape;
    uint32_t member;
    uint64_t step; /* the steps up to this one are complete */
    struct way_cut cut;
    enum value_kind values; /* on the wire: VALUES_FP32 or VALUES_BF16 */
    /* (units of the part): the unit of a contribution that is each unit of the array; borrowed.
     * NULL: contributions have the array's order */
    const uint32_t *order[WAY_PARTS];
    /* make NULL: every member gets the sums. Else it writes the new parameters of a chunk from its
     * sum (weight above 0), both in the array's order. False: the sum is not finite, and no member
     * makes the step */
    struct exchange_shards {
        bool (*make)(void *owner, const struct way_place *p, const float *sum, uint64_t weight,
                     float *out);
        void *owner;
    } shards;
};

/* The contribution of a lane. weight 0: it has none, and its floats are not read. */
struct exchange_part {
    const float *weighted, *plain;
    uint64_t weight;
};

/* A chunk on its way. */
struct exchange_chunk {
    uint64_t step, weight; /* weight: of the contributions in it; 0: none, and it has no floats */
    uint32_t chunk, hop, floats;
    enum value_kind values;
    bool refused; /* shards.make was false: it has no floats */
};

int exchange_new(const struct exchange_options *options, struct exchange **out, struct err *e);
void exchange_free(struct exchange *x);

/* Begins the step after the last complete one. part: a contribution for each lane of this member,
 * in order, borrowed until the step is complete. The sum of the step before is gone. */
void exchange_begin(struct exchange *x, const struct exchange_part *part);
/* A chunk from the member before. 0: it is taken, or was before. MALFORMED: no member of this ring
 * sends such a chunk now. values: c->floats of c->values. */
int exchange_take(struct exchange *x, const struct exchange_chunk *c, const void *values,
                  struct err *e);
/* The next chunk to send; false: there is none now. */
bool exchange_next(struct exchange *x, struct exchange_chunk *out);
/* False: the next member has had the chunk by now, so it need not be sent again. */
bool exchange_wanted(const struct exchange *x, const struct exchange_chunk *c);
/* The next member has acknowledged the chunk. */
void exchange_arrived(struct exchange *x, const struct exchange_chunk *c);
/* Writes the values of a chunk that is wanted: its floats, of c->values. */
void exchange_values(const struct exchange *x, const struct exchange_chunk *c, void *to);

/* The step that has begun last is complete. */
bool exchange_complete(const struct exchange *x);
uint64_t exchange_step(const struct exchange *x); /* the last complete step */
/* The sum of the last complete step and its weight; 0: no lane had a contribution, and the floats
 * mean nothing. Valid until the next exchange_begin. With `shards`: sums in the shares that this
 * member keeps, parameters in all others. */
const float *exchange_sum(const struct exchange *x, uint64_t *weight);
/* With `shards`: the sum of a chunk of the last complete step was refused. */
bool exchange_refused(const struct exchange *x);
/* With `shards`: the array of the step that has begun last and is not complete, once all sums of
 * the shares that this member keeps are in it; else NULL. */
const float *exchange_begun(const struct exchange *x, uint64_t *weight);

#endif
