/* act.h: activation and dropout in place, behind a norm; a linear layer without norm has them in
 * itself. */
#ifndef DENSE_LAYER_ACT_H
#define DENSE_LAYER_ACT_H

#include "dense/layer/layer.h"

/* Uses x (== y: columns that a linear layer without activation, or a norm, has written and nobody
 * has read), act, dropout. */
extern const struct layer_ops act_layer;

#endif
