/* model_pairs.c: lr, fm, fwfm, wide_deep, deepfm, ipnn, dlrm: sums and networks over field vectors
 * and the products of their pairs. */
#include "dense/model/models.h"

/* ---- lr -------------------------------------------------------------------------------------- */

/* Logistic regression: bias, first-order weights, weights of the numbers. */
void model_lr_plan(struct plan *p)
{
    plan_input(p, true, 0);
}

/* ---- fm -------------------------------------------------------------------------------------- */

/* A factorization machine (Rendle 2010): logistic regression and the products of all pairs of
 * fields. */
void model_fm_plan(struct plan *p)
{
    struct view input = plan_input(p, false, 0);
    plan_pairs(p, input);
}

/* ---- fwfm ------------------------------------------------------------------------------------ */

int model_pairs_check(const struct job *job, const struct model_shape *shape, struct err *e)
{
    (void)job;
    return plan_products_check(shape->fields, e);
}

/* A field-weighted factorization machine (Pan et al. 2018): logistic regression and
 *
 *     sum over pairs of fields i, j of r[i, j] v_i . v_j
 *
 * with a weight r for each pair of fields. */
void model_fwfm_plan(struct plan *p)
{
    struct view vectors = plan_input(p, false, 0);
    plan_scope(p, "pairs");
    plan_head(p, plan_products(p, vectors, false, VIEW_NONE), 0);
}

/* ---- wide_deep ------------------------------------------------------------------------------- */

/* Wide & Deep (Cheng et al. 2016): logistic regression and a network over vectors and numbers. */
void model_wide_deep_plan(struct plan *p)
{
    struct view input = plan_input(p, true, 0);
    plan_head(p, plan_network(p, input, &p->job->model.hidden), 0);
}

/* ---- deepfm ---------------------------------------------------------------------------------- */

/* DeepFM (Guo et al. 2017): a factorization machine and a network over the same field vectors. */
void model_deepfm_plan(struct plan *p)
{
    struct view input = plan_input(p, true, 0);
    plan_pairs(p, plan_vectors(p, input));
    plan_head(p, plan_network(p, input, &p->job->model.hidden), 0);
}

/* ---- ipnn ------------------------------------------------------------------------------------ */

/* The inner product-based neural network (Qu et al. 2016): a network over the field vectors, the
 * numbers and the inner products of all pairs of vectors. */
void model_ipnn_plan(struct plan *p)
{
    uint32_t products = plan_products_width(p->shape.fields, p->dim, false);
    struct view input = plan_input(p, true, products);
    plan_products(p, plan_vectors(p, input), false,
                  plan_columns(input, input.width - products, products));
    plan_head(p, plan_network(p, input, &p->job->model.hidden), 0);
}

/* ---- dlrm ------------------------------------------------------------------------------------ */

/* DLRM (Naumov et al. 2019): a bottom network maps the numbers to one more vector. A top network
 * reads that vector and the inner products of all pairs of vectors (interaction dot), or all the
 * vectors themselves (cat). Without numbers there is no bottom network. */
int model_dlrm_check(const struct job *job, const struct model_shape *shape, struct err *e)
{
    uint32_t vectors = shape->fields + (shape->numerics > 0);
    if (job->model.interaction == INTERACT_DOT && plan_dims_differ(job))
        return plan_dims_refuse(job, "with interaction dot multiplies the vectors of fields",
                                "model.interaction: cat", e);
    if (shape->numerics > 0 && job->model.bottom.count > 0) {
        int rc = plan_widths_check(&job->model.bottom, "model.bottom", e);
        if (rc != 0)
            return rc;
    }
    if (job->model.interaction != INTERACT_DOT)
        return 0;
    return plan_products_check(vectors, e);
}

/* The last layer writes y, with as many outputs as the widest table's dim. It has neither norm nor
 * dropout, because y is a vector like those of the fields. */
static void bottom_network(struct plan *p, struct view y)
{
    struct view numbers = {TENSOR_NUMERIC, 0, p->shape.numerics};
    plan_scope(p, "bottom");
    struct view x = plan_network(p, numbers, &p->job->model.bottom);
    plan_linear(p, x, p->dim, p->job->model.activation, 0.0, NORM_NONE, y);
    plan_scope(p, "hidden");
}

void model_dlrm_plan(struct plan *p)
{
    bool bottom = p->shape.numerics > 0;
    struct view x = plan_input(p, false, bottom ? p->dim : 0);
    if (bottom)
        bottom_network(p, plan_columns(x, x.width - p->dim, p->dim));
    if (p->job->model.interaction == INTERACT_DOT)
        x = plan_products(p, x, bottom, VIEW_NONE);
    plan_head(p, plan_network(p, x, &p->job->model.hidden), 0);
}
