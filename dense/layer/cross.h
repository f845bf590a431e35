/* cross.h: cross layers (DCN-V2, Wang et al. 2021), full rank: x' = x0 * (w x + b) + x, * number by
 * number. Each raises the degree of the polynomial in x0 by one. */
#ifndef DENSE_LAYER_CROSS_H
#define DENSE_LAYER_CROSS_H

#include "dense/layer/layer.h"

struct plan;

/* Uses x, z: x0, y (all of one width), parameter 0: w (width, width), 1: b (width); state 0: w x,
 * (width) an example. cross_first_layer: x is x0. cross_layer: x is read by nobody else, and the
 * gradient is worked on in place. */
extern const struct layer_ops cross_first_layer;
extern const struct layer_ops cross_layer;

/* `layers` of them, one on the other. y: where the last one writes. */
void cross_plan(struct plan *p, struct view x0, uint32_t layers, struct view y);

#endif
