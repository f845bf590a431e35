/* fm.h: the second-order part of a factorization machine (Rendle 2010): the sum of v_i . v_j over
 * all pairs of fields, added to the logit. */
#ifndef DENSE_LAYER_FM_H
#define DENSE_LAYER_FM_H

#include "dense/layer/layer.h"

/* Uses x (fields * dim), y (a column of the logit), state 0: dim floats an example, for the sum of
 * the vectors. */
extern const struct layer_ops fm_layer;

#endif
