/* model_fwfm.c: a field-weighted factorization machine (Pan et al. 2018): logistic regression and
 *
 *     sum over pairs of fields i, j of r[i, j] v_i . v_j
 *
 * with a weight r for each pair of fields. */
#include "dense/model/models.h"

#include "dense/layer/products.h"

int model_fwfm_check(const struct job *job, const struct model_shape *shape, struct err *e)
{
    (void)job;
    return products_check(shape->fields, e);
}

void model_fwfm_plan(struct plan *p)
{
    struct view vectors = plan_input(p, false, 0);
    plan_head(p, products_plan(p, vectors, false, VIEW_NONE), 0);
}
