/* model_wide_deep.c: Wide & Deep (Cheng et al. 2016): logistic regression beside a network over the field vectors. */
#include "dense/plan.h"

void model_wide_deep_plan(struct plan *p)
{
    plan_first_order(p, true);
    plan_network(p);
}
