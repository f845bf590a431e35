/* model_wide_deep.c: Wide & Deep (Cheng et al. 2016): logistic regression and a network over
 * vectors and numbers. */
#include "dense/model/models.h"

void model_wide_deep_plan(struct plan *p)
{
    struct view input = plan_input(p, true, 0);
    plan_head(p, plan_network(p, input, &p->job->model.hidden), 0);
}
