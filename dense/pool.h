/* pool.h: rows of the sparse table -> input, and gradients -> rows.
 *
 * The vectors of a field's values are summed (or averaged, where the field says so) into the field's place in the
 * input; a field without values is zeros. First-order weights are pooled alike and go to the logit, with the model's
 * bias. The numerics follow the vectors. On the way back the gradients of a row are merged in the order of the
 * examples. */
#ifndef DENSE_POOL_H
#define DENSE_POOL_H

#include "dense/layer.h"

/* Uses y (out = fields * dim + numerics; TENSOR_NONE when dim is 0), dy (fields * dim; the same), bias. */
extern const struct layer_ops pool_layer;

#endif
