/* model_mix.c: mmoe, ple: mixtures of experts for several tasks (dense/layer/mix.c). */
#include "dense/model/models.h"
#include "proto/base/minmax.h"

/* ---- mmoe ------------------------------------------------------------------------------------ */

/* Multi-gate mixture of experts (Ma et al. 2018): experts that all tasks share; for
 * each task a gate over them, a tower and a head:
 *
 *     logit_t = bias_t + head_t(tower_t(sum over e of softmax_e(W_t x) f_e(x))), x = field vectors
 *     and numbers */
void model_mmoe_plan(struct plan *p)
{
    struct view input = plan_input(p, true, 0);
    plan_towers(p, plan_mixtures(p, input, p->job->model.experts, 0, 1));
}

int model_mmoe_check(const struct job *job, const struct model_shape *shape, struct err *e)
{
    (void)shape;
    return plan_mix_check(job, 0, e);
}

/* ---- ple ------------------------------------------------------------------------------------- */

/* Progressive layered extraction (Tang et al. 2020): as MMoE, but each task also has experts of its
 * own, which only its gate reads, and there are model.levels such levels, one on another. The paper
 * calls a single level customized gate control. */
void model_ple_plan(struct plan *p)
{
    uint32_t levels = MAX(p->job->model.levels, 1);
    struct view input = plan_input(p, true, 0);
    plan_towers(p,
                plan_mixtures(p, input, p->job->model.experts, p->job->model.own_experts, levels));
}

int model_ple_check(const struct job *job, const struct model_shape *shape, struct err *e)
{
    uint32_t tasks = MAX(shape->tasks, 1),
             experts = job->model.experts + tasks * job->model.own_experts;
    int rc = plan_mix_check(job, job->model.own_experts, e);
    if (rc == 0 && job->model.levels > 1 && experts > MIX_GATE_MAX)
        return err_set(e, SHOAL_E_CONFIG,
                       "model.levels is %u, and a gate of the shared experts chooses among all %u, "
                       "but can among %u; make "
                       "model.experts or own_experts smaller",
                       job->model.levels, experts, MIX_GATE_MAX);
    return rc;
}
