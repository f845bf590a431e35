/* model_ple.c: progressive layered extraction (Tang et al. 2020) with one level (customized gate control): as MMoE, but
 * besides the shared experts each task has experts of its own, which only its gate chooses among. */
#include "dense/mix.h"
#include "dense/plan.h"

void model_ple_plan(struct plan *p)
{
    struct view input = plan_input(p, true, 0);
    plan_towers(p, plan_mixtures(p, input, p->job->model.experts, p->job->model.own_experts));
}

int model_ple_check(const struct job *job, const struct model_shape *shape, struct err *e)
{
    (void)shape;
    return mix_check(job, job->model.own_experts, e);
}
