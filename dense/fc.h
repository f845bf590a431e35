/* fc.h: fully connected layers: y = x W' (the bias is added by the activation, in the same pass over y), and the head,
 * which has one output and adds it to the logit. */
#ifndef DENSE_FC_H
#define DENSE_FC_H

#include "dense/layer.h"

/* Uses x, y, dx (or TENSOR_NONE), dy, dx_width, weight (out, in). */
extern const struct layer_ops fc_layer;
/* Uses x, dx (or TENSOR_NONE), weight (in). x may be TENSOR_NUMERIC. */
extern const struct layer_ops head_layer;

#endif
