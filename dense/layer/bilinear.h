/* bilinear.h: the products of two streams (Mao et al. 2023), added to a logit: the sum over heads h
 * of x_h' W_h z_h, where x_h and z_h are the heads' equal shares of x and z. */
#ifndef DENSE_LAYER_BILINEAR_H
#define DENSE_LAYER_BILINEAR_H

#include "dense/layer/layer.h"

struct plan;

enum { BILINEAR_HEADS }; /* number_of */

/* Uses x, z, y (a column of the logit), parameter 0: W (heads, x.width / heads, z.width / heads);
 * state 0: z.width floats an example; number_of. */
extern const struct layer_ops bilinear_layer;

void bilinear_plan(struct plan *p, struct view x, struct view z, uint32_t heads, uint32_t task);

#endif
