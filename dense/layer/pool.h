/* pool.h: rows of the sparse tables -> input, and gradients -> rows.
 *
 * The vectors of a field's values are summed (or averaged, where the field says so) into the
 * field's place in the input; a field without values is zeros. First-order weights are pooled alike
 * and go to the logit, with the model's bias. The numerics follow the vectors, where the view has
 * room for them. On the way back the gradients of a row are merged in the order of the examples. A
 * field with pooling attention is left to a layer of its own. */
#ifndef DENSE_LAYER_POOL_H
#define DENSE_LAYER_POOL_H

#include "dense/layer/layer.h"

/* Uses y (fields * dim [+ numerics]; VIEW_NONE when dim is 0), parameter 1: the tasks' biases. */
extern const struct layer_ops pool_layer;

/* The batch as the kernels of pooling take it, for examples [first, first + count). */
struct pool_args pool_args_of(const struct pass *p, uint32_t first, uint32_t count);

#endif
