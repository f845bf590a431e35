/* attention.h: multi-head self-attention over field vectors (Song et al. 2019, after Vaswani et al.
 * 2017).
 *
 * A layer takes the example's fields as rows and gives each a new vector of `width` floats, a share
 * of it by each head:
 *     y = act(norm(softmax(Q K' / sqrt(width / heads)) V + R)),
 * Q, K, V = linear maps of the fields. R, the residual, is the input itself where that is `width`
 * wide already, else a fourth linear map. The maps are one matrix product over all fields of all
 * examples. */
#ifndef DENSE_LAYER_ATTENTION_H
#define DENSE_LAYER_ATTENTION_H

#include "dense/layer/layer.h"

struct plan;

enum { ATTENTION_FIELDS, ATTENTION_HEADS }; /* number_of, of both layers */

/* Linear maps of an example's fields, without a bias: x (fields, in), in any tensor; y (fields,
 * out), which has a tensor to itself; parameter 0: weights (out, in); number_of. */
extern const struct layer_ops attention_project_layer;
/* x: (fields, 3 or 4 times width): queries, keys, values and perhaps the residual; z: the residual
 * (fields, width), in any tensor, or VIEW_NONE; y (fields, width). x and y have tensors to
 * themselves. dropout: of the shares. state 0: shares; 1: work space; number_of. */
extern const struct layer_ops attention_attend_layer;

/* `layers` layers over x (fields, in), each `width` wide over all heads. The job's dropout is of
 * the shares; where the job has a norm, be it batch norm, these layers have layer norm. Returns
 * (fields * width). */
struct view attention_plan(struct plan *p, struct view x, uint32_t fields, uint32_t layers,
                           uint32_t heads, uint32_t width);

#endif
