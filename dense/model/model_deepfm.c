/* model_deepfm.c: DeepFM (Guo et al. 2017): a factorization machine and a network over the same
 * field vectors. */
#include "dense/model/models.h"

void model_deepfm_plan(struct plan *p)
{
    struct view input = plan_input(p, true, 0);
    plan_pairs(p, plan_vectors(p, input));
    plan_head(p, plan_network(p, input, &p->job->model.hidden), 0);
}
