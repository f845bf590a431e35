/* network.h: the tensors of a job's network as a worker keeps them: with their optimizer state, in
 * the tables and by the code of the servers.
 *
 *   sum of a step -> mean gradient -> table_push -> T(t), and its weights as one array
 *
 * A worker has one struct table for "dense" and one for "dense_stats", with the schemas that the
 * servers have. So every worker and every server computes the same bits, all optimizers and their
 * settings are there, a tensor that was never trained has its initial value, and tablets travel as
 * images: to a worker that joins, and to the tables of the servers.
 *
 * Weights and contributions have the blocks of "dense" in the model's order (model_blocks), then
 * those of "dense_stats". The first are weights: a step takes sum / weight as their gradient. The
 * second are running statistics: a step takes the sum as it is, for each lane gives its share
 * (slices.h). A sum has the same blocks in the order of the ring's array (deal.h).
 *
 * The weights of the step before stay, so that a batch of it can be computed again.
 *
 * Sharded (train.dense_state: sharded), the tables have the tablets of some shares alone, those
 * that this worker keeps; the weights are whole:
 *
 *   sums of the shares that it keeps --table_push--> their weights --+--> T(t)
 *   parameters of all other shares, from their keepers --------------+
 *
 * A share has two keepers, the owner of its sum and the next member (way.h), which make the same
 * step of it. So the state that a worker takes with it when it dies is at another one, and each has
 * 2 / n of it. Both hold back their step until they have T(t) whole: until then they have the state
 * of T(t-1), and the sum in the ring's array. The second computes the parameters that it sends from
 * both (network_make, which changes nothing). So all state of a worker is of one step, whatever is
 * cut off, and a step that one chunk refuses changes no share.
 *
 *  1. What a worker keeps is of the step of its weights. [assert: network_step]
 *  2. The same bits as with whole state. [test: network_of_shares_steps_as_a_whole_one_does]
 *
 * Thread: the caller's, one at a time; network_step may run on another one than the rest. */
#ifndef WORKER_RING_NETWORK_H
#define WORKER_RING_NETWORK_H

#include "proto/base/err.h"
#include "proto/job/schema.h"
#include "worker/ring/way.h"

#include <stddef.h>
#include <stdint.h>

struct network;

enum network_part { NETWORK_DENSE = 0, NETWORK_STATS = 1, NETWORK_PARTS = 2 };

struct network_options {
    /* schema NULL: the model has no such part. keys (count): sorted by key_mix; block (count): the
     * place of each in the array of its part. All copied */
    struct {
        const struct table_schema *schema;
        const uint64_t *keys;
        const uint32_t *block;
        size_t count;
    } part[NETWORK_PARTS];
    bool sharded;
};

/* The network before its first step: initial values. NOMEM. TOO_BIG: a tablet will not fit in a
 * message. */
int network_new(const struct network_options *options, struct network **out, struct err *e);
void network_free(struct network *n);
uint64_t network_floats(const struct network *n, enum network_part part);

/* Deals the blocks to the shares of a ring with so many starts. Before this, and in tests, a sum
 * has the model's order. With another number than before a sharded network loses its state. */
void network_deal(struct network *n, uint32_t starts);
/* The ring's array, and the block that each unit of a part has; both as long as it is not dealt
 * again. */
void network_array(const struct network *n, struct way_array *out);
const uint32_t *network_order(const struct network *n, enum network_part part);

/* Makes step `step` of the sum over all lanes (the ring's array; sharded: as exchange_sum says).
 * weight above 0: its examples. lr_scale: the factor of the learning rates.
 * NOT_FINITE: the gradient has a value that a server would refuse; nothing has changed. NOMEM: the
 * network is of no use any more. */
int network_step(struct network *n, const float *sum, uint64_t weight, float lr_scale,
                 uint64_t step, struct err *e);
/* The step that its values are of; a step without weight or with a refused gradient counts by
 * network_skip, which changes no value. */
uint64_t network_at(const struct network *n);
void network_skip(struct network *n, uint64_t step);
/* The last step was skipped. */
bool network_skipped(const struct network *n);
/* Weights of a part, now and before the last step: an array of network_floats, valid until the next
 * step. */
const float *network_weights(const struct network *n, enum network_part part);
const float *network_before(const struct network *n, enum network_part part);

/* ---- sharded state --------------------------------------------------------------------------- */

/* Bytes of optimizer state that it has, whole or not. */
uint64_t network_state_bytes(const struct network *n);
/* The shares whose state it has, a bit for each; 0: it is not sharded, or has none. */
uint64_t network_keeps(const struct network *n);
/* From now on it takes images of these shares, and makes steps of them; it keeps what it has until
 * the next step. NOMEM: it is of no use any more. */
int network_keep(struct network *n, uint64_t shares, struct err *e);
/* exchange.h's `make`: the parameters that step `step` will give a place of the ring's array. */
bool network_make(struct network *n, const struct way_place *p, const float *sum, uint64_t weight,
                  float lr_scale, float *out);
/* Notes the sums of the step after the last one for the shares that it keeps, in case that other
 * workers turn out to have the step whole. NOT_FINITE: they would refuse it. */
int network_put(struct network *n, const float *sum, uint64_t weight, float lr_scale,
                struct err *e);
/* The weights of step `step`, and of the one before it, come from another worker. skipped: of
 * network_skipped there. What is kept of this step counts, or of the step before with its sums
 * (network_put), if `counts`; all other state is dropped. NOMEM as network_step's. */
int network_weights_take(struct network *n, uint64_t step, bool skipped, bool counts,
                         const float *now, const float *before, struct err *e);
/* All images of these shares have been taken. */
void network_taken(struct network *n, uint64_t shares);
/* Drops all state. */
void network_drop(struct network *n);

/* ---- tablets as images (table.h) ---- */
uint32_t network_tablets(const struct network *n, enum network_part part);
/* The share of a tablet (deal.h); whether the network has its state. */
uint32_t network_share(const struct network *n, enum network_part part, uint32_t tablet);
bool network_has(const struct network *n, enum network_part part, uint32_t tablet);
size_t network_image_bytes(const struct network *n, enum network_part part, uint32_t tablet);
void network_image_write(const struct network *n, enum network_part part, uint32_t tablet,
                         void *out);
/* Takes the place of a tablet; sharded: of its weights, and of its state if its share is to be
 * kept. Errors as of table_image_read. When all are there, network_settle names their step; before:
 * the weights of the step before, both parts, or NULL: as they are. */
int network_image_take(struct network *n, enum network_part part, uint32_t tablet,
                       const void *image, size_t bytes, struct err *e);
void network_settle(struct network *n, uint64_t step, const float *before);
/* A hash of all values and states, sharded of all weights: equal at workers that are equal. NOMEM.
 * */
int network_digest(const struct network *n, uint64_t *out);

#endif
