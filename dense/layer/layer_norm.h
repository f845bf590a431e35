/* layer_norm.h: layer norm (Ba, Kiros, Hinton 2016), before the activation: each example is shifted
 * and scaled by the mean and deviation of its own row, so that training and prediction do the same
 * and no statistics are kept. */
#ifndef DENSE_LAYER_LAYER_NORM_H
#define DENSE_LAYER_LAYER_NORM_H

#include "dense/layer/layer.h"

struct plan;

/* number_of: rows that the view is made of, each normed by itself */
enum { LAYER_NORM_ROWS_AN_EXAMPLE };

/* Uses x, y, parameters 0: gamma, 1: beta (width of a row); act; state 0: two floats for each row;
 * number_of. The gradient is worked on in place. With more than one row an example, x and y have
 * their tensors to themselves. */
extern const struct layer_ops layer_norm_layer;
/* y = act(norm(x)), row by row. */
void layer_norm_plan(struct plan *p, struct view x, uint32_t rows, enum activation act,
                     struct view y);

#endif
