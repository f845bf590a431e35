/* mix.h: experts that several tasks share, and the gates that mix them.
 *
 * A task's mixture is y = sum over experts e of share_e * f_e(x), share = softmax(W x): multi-gate
 * mixture of experts (Ma et al. 2018), where every task chooses among the same experts, and
 * customized gate control (Tang et al. 2020), where it chooses among shared ones and its own.
 * Progressive layered extraction (the same paper) is levels of the latter one on another: a task's
 * experts and its gate read the task's mixture of the level below; the shared experts read a
 * mixture of the shared experts' own, whose gate chooses among all experts; on the last level
 * nobody needs that one. With top_k only the k largest values of a gate pass, and the softmax is
 * over those (Shazeer et al. 2017, without noise); of equal ones the first. No gradient flows
 * through the others, though they are computed. */
#ifndef DENSE_LAYER_MIX_H
#define DENSE_LAYER_MIX_H

#include "dense/layer/layer.h"

struct plan;

enum { MIX_TASKS, MIX_SHARED, MIX_OWN, MIX_TOP_K }; /* number_of */

/* Uses x (experts' outputs side by side: the shared ones, then each task's own), z (gates, task by
 * task), y (mixtures, task by task); number_of; state 0: floats an example as z is wide. */
extern const struct layer_ops mix_layer;

/* Experts (model.hidden each) and gates over x, in `levels` levels; the mixtures of all tasks, side
 * by side. */
struct view mix_plan(struct plan *p, struct view x, uint32_t shared, uint32_t own, uint32_t levels);
/* For each task a network (model.tower) over its mixture, and a head. */
void mix_towers(struct plan *p, struct view mixtures);
/* Whether gates can be built of model.experts, `own` and model.top_k. CONFIG. */
int mix_check(const struct job *job, uint32_t own, struct err *e);

#endif
