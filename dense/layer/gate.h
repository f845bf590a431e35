/* gate.h: feature gates (Mao et al. 2023): a stream's input is multiplied, number by number, with
 * 2 * sigmoid(network(context)): 1 where the gate has not learned, 0 to 2 elsewhere. The context is
 * what the paper calls the condition: the vector of a field, such as the user's for one stream and
 * the item's for the other, or a learned vector, the same for all. The paper's code has vectors of
 * the gates' own for such a field; here they are those that the model has anyway, and learn from
 * both. */
#ifndef DENSE_LAYER_GATE_H
#define DENSE_LAYER_GATE_H

#include "dense/layer/layer.h"

struct plan;

/* Writes the same learned vector to every example: y; parameter 1: (y.width). */
extern const struct layer_ops gate_context_layer;
/* y = 2 x z, all of one width. */
extern const struct layer_ops gate_layer;

/* A learned vector, the same for every example. */
struct view gate_context_plan(struct plan *p, uint32_t width);
/* x through a gate over `context`, which may be columns of x; the gate's network has the widths
 * `hidden`, relu, and no norm or dropout. Returns a tensor of its own. */
struct view gate_plan(struct plan *p, struct view x, struct view context,
                      const struct widths *hidden);

#endif
