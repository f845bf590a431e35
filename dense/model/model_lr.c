/* model_lr.c: logistic regression: bias, first-order weights, weights of the numbers. */
#include "dense/model/models.h"

void model_lr_plan(struct plan *p)
{
    plan_input(p, true, 0);
}
