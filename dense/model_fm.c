/* model_fm.c: factorization machine (Rendle 2010): logistic regression and the pairwise products of the field vectors.
 */
#include "dense/plan.h"

void model_fm_plan(struct plan *p)
{
    plan_first_order(p, true);
    plan_pairs(p);
}
