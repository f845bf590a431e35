/* model_xdeepfm.c: xDeepFM (Lian et al. 2018): logistic regression, the compressed interaction
 * network over the field vectors, and a network over vectors and numbers. */
#include "dense/model/models.h"

#include "dense/layer/cin.h"

int model_xdeepfm_check(const struct job *job, const struct model_shape *shape, struct err *e)
{
    const struct widths *maps = &job->model.cin;
    int rc = plan_widths_check(maps, "model.cin", e);
    if (rc != 0)
        return rc;
    if (shape->fields == 0)
        return err_set(e, SHOAL_E_CONFIG,
                       "features: model.kind xdeepfm needs at least one categorical field");
    double floats = 0, below = shape->fields;
    for (uint32_t i = 0; i < maps->count; i++) {
        floats += below * shape->fields * maps->at[i];
        below = maps->at[i];
    }
    if (floats > (double)BLOCK_TABLE_FLOATS_MAX)
        return err_set(
            e, SHOAL_E_CONFIG,
            "model.cin makes %.0f weights, over the limit of %zu; make the layers narrower", floats,
            BLOCK_TABLE_FLOATS_MAX);
    return 0;
}

void model_xdeepfm_plan(struct plan *p)
{
    struct view input = plan_input(p, true, 0);
    plan_head(p, cin_plan(p, plan_vectors(p, input), &p->job->model.cin), 0);
    plan_head(p, plan_network(p, input, &p->job->model.hidden), 0);
}
