/* sequence.h: a field's values weighed one by one against a target, as in DIN's activation unit
 * (Zhou et al. 2018):
 *     y = sum over the values of a(h, t) h,
 * h a value's vector, t the target's, and a(h, t) a number from a small network over [h, t, h - t,
 * h * t]. The weights are not made to sum to one: their sum says how much the user's interest is
 * worth. A field without values is zeros.
 *
 * Values are taken in chunks of at most SEQUENCE_ROOM, wherever a sequence may be cut by it, so
 * that memory is bounded whatever the sequences' lengths: the small network's activations exist for
 * one chunk at a time and are computed again on the way back. The CPU takes the field's values and
 * nothing else; a device takes all places of `index` in turn, and leaves those of other fields at
 * zero, so that it needs no counts on the host. */
#ifndef DENSE_LAYER_SEQUENCE_H
#define DENSE_LAYER_SEQUENCE_H

#include "dense/layer/layer.h"

struct plan;

#define SEQUENCE_ROOM 8192u
#define SEQUENCE_HIDDEN_MAX                                                                        \
    ((uint32_t)(LAYER_PARAMETERS / 2 -                                                             \
                1)) /* layers of the small network, without its output                          \
                                            */

/* number_of; the last: the first of the hidden widths */
enum { SEQUENCE_FIELD, SEQUENCE_LAYERS, SEQUENCE_WIDTHS };

/* x: the target's columns of the input, y: the field's. Parameters 2 i, 2 i + 1: weights and bias
 * of the small network's layer i, the last with one output; act of its hidden layers; state 0;
 * number_of. The target's gradient is added to what others have written: somebody must read all of
 * the input. */
extern const struct layer_ops sequence_layer;

/* Fields with pooling attention in the input; right behind plan_input. The small network has the
 * widths `hidden` (at most SEQUENCE_HIDDEN_MAX of them) and the job's activation. */
void sequence_plan(struct plan *p, struct view input, const struct widths *hidden);

#endif
