/* model_lr.c: logistic regression: one weight a key, linear in the numerics. */
#include "dense/plan.h"

void model_lr_plan(struct plan *p)
{
    plan_first_order(p, false);
}
