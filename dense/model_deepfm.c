/* model_deepfm.c: DeepFM (Guo et al. 2017): a factorization machine and a network over the same field vectors. */
#include "dense/plan.h"

void model_deepfm_plan(struct plan *p)
{
    plan_first_order(p, true);
    plan_pairs(p);
    plan_network(p);
}
