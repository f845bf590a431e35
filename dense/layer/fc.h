/* fc.h: fully connected layers: y = dropout(act(x w' + b)), and the head, which has one output and
 * adds it to a logit. */
#ifndef DENSE_LAYER_FC_H
#define DENSE_LAYER_FC_H

#include "dense/layer/layer.h"

/* Uses x, y, parameter 0: weights (y.width, x.width), 1: bias (y.width) or none; act, dropout. */
extern const struct layer_ops fc_layer;
/* Uses x, y (a column of the logit), parameter 0: weights (x.width). */
extern const struct layer_ops fc_head_layer;

#endif
