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
 * With VALUES_BF16 every member rounds what it has added to bf16 before it passes it on. It keeps
 * the difference and adds it the next time, so that what rounding takes away comes later. The owner
 * rounds the sum too, so that all members have the same bits.
 *
 *  1. A member is at most one step ahead of another: a step is complete only with a contribution of
 *     every member, which each gives after the step before. So two slots, for odd and even steps,
 *     are enough, and the sum of a step stays in its slot until the step after it has begun.
 *     [assert: exchange_begin] [test: exchange_takes_one_step_ahead]
 *  2. A chunk that comes again changes nothing. [test: exchange_a_doubled_chunk_changes_nothing]
 *  3. Nothing is allocated after exchange_new. [test: ring_allocates_nothing_for_a_step]
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
    /* (tensor_count): floats of the tensors that make up the array, in its order; borrowed for the
     * call. The chunks of larger tensors are sent first. NULL: in order */
    const uint64_t *tensor;
    uint32_t tensor_count;
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
};

int exchange_new(const struct exchange_options *options, struct exchange **out, struct err *e);
void exchange_free(struct exchange *x);

/* Begins the step after the last complete one. part: a contribution for each lane of this member,
 * in order, borrowed until the step is complete. The sum of the step before is gone. */
void exchange_begin(struct exchange *x, const struct exchange_part *part);
/* A chunk from the member before. 0: it is taken, or was before. MALFORMED: no member of this ring
 * sends such a chunk now. values: c->floats of the ring's kind. */
int exchange_take(struct exchange *x, const struct exchange_chunk *c, const void *values,
                  struct err *e);
/* The next chunk to send; false: there is none now. */
bool exchange_next(struct exchange *x, struct exchange_chunk *out);
/* False: the next member has had the chunk by now, so it need not be sent again. */
bool exchange_wanted(const struct exchange *x, const struct exchange_chunk *c);
/* Writes the values of a chunk that is wanted: its floats, in the ring's kind. */
void exchange_values(const struct exchange *x, const struct exchange_chunk *c, void *to);

/* The step that has begun last is complete. */
bool exchange_complete(const struct exchange *x);
uint64_t exchange_step(const struct exchange *x); /* the last complete step */
/* The sum of the last complete step and its weight; 0: no lane had a contribution, and the floats
 * mean nothing. Valid until the next exchange_begin. */
const float *exchange_sum(const struct exchange *x, uint64_t *weight);

#endif
