/* dropout.h: which values of a layer are dropped: a function of (seed, lane, batch, layer) and the
 * value's place, so that a batch computed again, by whichever worker, drops the same. Nothing is
 * stored: the way back draws the mask again or reads it off the output. */
#ifndef DENSE_LAYER_DROPOUT_H
#define DENSE_LAYER_DROPOUT_H

#include "dense/layer/layer.h"

/* The key of a layer's mask. */
void dropout_key(uint64_t seed, uint32_t lane, uint64_t batch, uint32_t layer, uint32_t out[2]);
/* rate in [0, 1); rate 0 keeps everything. key: in the backend's memory. */
struct dropout_mask dropout_mask(double rate, const uint32_t *key);
/* The mask of a layer in this pass: in prediction everything is kept. */
struct dropout_mask dropout_of(const struct layer *l, const struct pass *p);

#endif
