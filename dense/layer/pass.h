/* pass.h: a batch through the layers of a plan. */
#ifndef DENSE_LAYER_PASS_H
#define DENSE_LAYER_PASS_H

#include "dense/layer/plan.h"

/* A batch through the layers, `range` examples at a time; 0: all at once. offset is added
 * to the logits. */
void pass_train(const struct plan *plan, struct pass *p, uint32_t range);
void pass_predict(const struct plan *plan, struct pass *p, uint32_t range, float offset);

#endif
