/* dropout.h: which values of a layer are dropped: a function of (seed, lane, batch, layer) and the value's place, so
 * that a batch computed again, by whichever worker, drops the same. Nothing is stored: the way back draws the mask
 * again or reads it off the output. */
#ifndef DENSE_DROPOUT_H
#define DENSE_DROPOUT_H

#include "dense/backend.h"

/* rate in [0, 1). Rate 0 keeps everything. */
struct dropout_mask dropout_of(double rate, uint64_t seed, uint32_t lane, uint64_t batch, uint32_t layer);

#endif
