/* model_mmoe.c: multi-gate mixture of experts (Ma et al. 2018): experts that all tasks share; for
 * each task a gate over them, a tower and a head:
 *
 *     logit_t = bias_t + head_t(tower_t(sum over e of softmax_e(W_t x) f_e(x))), x = field vectors
 *     and numbers */
#include "dense/layer/mix.h"
#include "dense/model/models.h"

void model_mmoe_plan(struct plan *p)
{
    struct view input = plan_input(p, true, 0);
    mix_towers(p, mix_plan(p, input, p->job->model.experts, 0, 1));
}

int model_mmoe_check(const struct job *job, const struct model_shape *shape, struct err *e)
{
    (void)shape;
    return mix_check(job, 0, e);
}
