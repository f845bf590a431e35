/* model_fm.c: a factorization machine (Rendle 2010): logistic regression and the products of all
 * pairs of fields. */
#include "dense/model/models.h"

void model_fm_plan(struct plan *p)
{
    struct view input = plan_input(p, false, 0);
    plan_pairs(p, input);
}
