/* act.h: bias, activation and dropout, in place and in one pass; on the way back the bias gradient is summed in the
 * same pass. */
#ifndef DENSE_ACT_H
#define DENSE_ACT_H

#include "dense/layer.h"

/* Uses y and dy (in place), out, act, dropout, number (of the mask), bias or PARAMETER_NONE. */
extern const struct layer_ops act_layer;

#endif
