/* products.h: inner products of all pairs of field vectors, as numbers of their own: what FwFM
 * weighs (Pan et al. 2018), and what the networks of IPNN (Qu et al. 2016) and DLRM (Naumov et al.
 * 2019) read. The product of vectors i and j < i stands at i (i - 1) / 2 + j. */
#ifndef DENSE_LAYER_PRODUCTS_H
#define DENSE_LAYER_PRODUCTS_H

#include "dense/layer/layer.h"

struct plan;

/* Uses x (vectors * dim), y ([dim,] pairs), state 0: work space; numbers 0: vectors, 1: y begins
 * with a copy of the last vector. */
extern const struct layer_ops products_layer;

/* CONFIG: fewer than two vectors. */
int products_check(uint32_t vectors, struct err *e);
/* Columns that products_plan writes: vectors (vectors - 1) / 2, and dim more with keep. */
uint32_t products_width(uint32_t vectors, uint32_t dim, bool keep);
/* Products of the vectors in x, of the plan's dim. keep: they follow a copy of the last vector. y:
 * where to write, or VIEW_NONE: a tensor of its own. At least two vectors. */
struct view products_plan(struct plan *p, struct view x, bool keep, struct view y);

#endif
