/* model_dlrm.c: DLRM (Naumov et al. 2019): a bottom network makes one more vector of the numbers; a
 * top network reads it and the inner products of all pairs of vectors (interaction dot), or all the
 * vectors themselves (cat). Without numbers there is no bottom network. */
#include "dense/model/models.h"

#include "dense/layer/products.h"

int model_dlrm_check(const struct job *job, const struct model_shape *shape, struct err *e)
{
    uint32_t vectors = shape->fields + (shape->numerics > 0 ? 1 : 0);
    if (job->model.interaction == INTERACT_DOT && plan_dims_differ(job))
        return plan_dims_refuse(job, "with interaction dot multiplies the vectors of fields",
                                "model.interaction: cat", e);
    if (shape->numerics > 0 && job->model.bottom.count > 0) {
        int rc = plan_widths_check(&job->model.bottom, "model.bottom", e);
        if (rc != 0)
            return rc;
    }
    return job->model.interaction == INTERACT_DOT ? products_check(vectors, e) : 0;
}

/* Its last layer has dim outputs (of the widest table) and goes to y: it is a vector like the
 * fields', so neither norm nor dropout. */
static void bottom_network(struct plan *p, struct view y)
{
    struct view numbers = {TENSOR_NUMERIC, 0, p->shape.numerics};
    struct view x = plan_network(p, numbers, &p->job->model.bottom);
    plan_linear(p, x, p->dim, p->job->model.activation, 0.0, NORM_NONE, y);
}

void model_dlrm_plan(struct plan *p)
{
    bool bottom = p->shape.numerics > 0;
    struct view x = plan_input(p, false, bottom ? p->dim : 0);
    if (bottom)
        bottom_network(p, plan_columns(x, x.width - p->dim, p->dim));
    if (p->job->model.interaction == INTERACT_DOT)
        x = products_plan(p, x, bottom, VIEW_NONE);
    plan_head(p, plan_network(p, x, &p->job->model.hidden), 0);
}
