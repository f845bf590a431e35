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
 * The array has the blocks of "dense" in the model's order (model_blocks), then those of
 * "dense_stats". The first are weights: a step takes sum / weight as their gradient. The second are
 * running statistics: a step takes the sum as it is, for each lane gives its share (slices.h).
 *
 * The weights of the step before stay, so that a batch of it can be computed again.
 *
 * Thread: the caller's, one at a time; network_step may run on another one than the rest. */
#ifndef WORKER_RING_NETWORK_H
#define WORKER_RING_NETWORK_H

#include "proto/base/err.h"
#include "proto/job/schema.h"

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
};

/* The network before its first step: initial values. NOMEM. TOO_BIG: a tablet will not fit in a
 * message. */
int network_new(const struct network_options *options, struct network **out, struct err *e);
void network_free(struct network *n);
uint64_t network_floats(const struct network *n, enum network_part part);

/* Makes step `step` of the sum over all lanes (network_floats of both parts, one after the other).
 * weight above 0: its examples. lr_scale: the factor of the learning rates.
 * NOT_FINITE: the gradient has a value that a server would refuse; nothing has changed. NOMEM: the
 * network is of no use any more. */
int network_step(struct network *n, const float *sum, uint64_t weight, float lr_scale,
                 uint64_t step, struct err *e);
/* The step that its values are of; a step without weight or with a refused gradient counts by
 * network_skip, which changes no value. */
uint64_t network_at(const struct network *n);
void network_skip(struct network *n, uint64_t step);
/* Weights of a part, now and before the last step: an array of network_floats, valid until the next
 * step. */
const float *network_weights(const struct network *n, enum network_part part);
const float *network_before(const struct network *n, enum network_part part);

/* ---- tablets as images (table.h) ---- */
uint32_t network_tablets(const struct network *n, enum network_part part);
size_t network_image_bytes(const struct network *n, enum network_part part, uint32_t tablet);
void network_image_write(const struct network *n, enum network_part part, uint32_t tablet,
                         void *out);
/* Takes the place of a tablet. Errors as of table_image_read. When all are there, network_settle
 * names their step; before: the weights of the step before, both parts, or NULL: as they are. */
int network_image_take(struct network *n, enum network_part part, uint32_t tablet,
                       const void *image, size_t bytes, struct err *e);
void network_settle(struct network *n, uint64_t step, const float *before);
/* A hash of all values and states: equal at workers that are equal. NOMEM. */
int network_digest(const struct network *n, uint64_t *out);

#endif
