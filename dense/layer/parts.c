/* parts.c: the parts that most models are made of, each a few layers (plan.h). */
#include "dense/layer/act.h"
#include "dense/layer/fc.h"
#include "dense/layer/fm.h"
#include "dense/layer/layer_norm.h"
#include "dense/layer/norm.h"
#include "dense/layer/plan.h"
#include "dense/layer/pool.h"

struct view plan_input(struct plan *p, bool numerics, uint32_t extra)
{
    uint32_t vectors = p->column[p->shape.fields], copied = numerics ? p->shape.numerics : 0;
    struct view input = VIEW_NONE, pooled = VIEW_NONE;
    if (p->dim > 0) {
        input = plan_tensor(p, vectors + copied + extra);
        /* leading columns: the numerics' too */
        p->tensor[input.tensor].wanted = extra > 0 ? input.width : vectors;
        pooled = plan_columns(input, 0, vectors + copied);
    }
    plan_layer(p, &pool_layer, VIEW_NONE, pooled)->parameter[1] = plan_zeros(p, p->tasks);
    if (p->first_order && p->shape.numerics > 0) {
        struct view numeric = {TENSOR_NUMERIC, 0, p->shape.numerics};
        struct layer *l = plan_layer(p, &fc_head_layer, numeric, plan_logit(p, 0));
        l->parameter[0] =
            block_add(&p->dense, p->shape.numerics, (struct init_spec){INIT_ZERO, 0.0f}, true);
    }
    return input;
}

struct view plan_vectors(const struct plan *p, struct view input)
{
    return plan_columns(input, 0, p->column[p->shape.fields]);
}

struct view plan_field(const struct plan *p, struct view input, uint32_t field)
{
    return plan_columns(input, p->column[field], p->column[field + 1] - p->column[field]);
}

struct view plan_linear(struct plan *p, struct view x, uint32_t out, enum activation act,
                        double dropout, enum norm_kind norm, struct view y)
{
    bool normed = norm != NORM_NONE;
    struct view result = y.tensor == TENSOR_NONE ? plan_tensor(p, out) : y;
    struct view product = normed ? plan_tensor(p, out) : result;
    struct layer *l = plan_layer(p, &fc_layer, x, product);
    l->parameter[0] = plan_weights(p, out, x.width);
    if (!normed) {
        l->parameter[1] = plan_zeros(p, out);
        l->act = act;
        l->dropout = dropout;
        return result;
    }
    if (norm == NORM_BATCH) {
        norm_plan(p, product, result);
    } else { /* takes the activation along, unless dropout comes with it */
        layer_norm_plan(p, product, 1, dropout > 0 ? ACT_NONE : act, result);
        act = dropout > 0 ? act : ACT_NONE;
    }
    if (act != ACT_NONE || dropout > 0) {
        l = plan_layer(p, &act_layer, result, result);
        l->act = act;
        l->dropout = dropout;
    }
    return result;
}

struct view plan_network(struct plan *p, struct view x, const struct widths *hidden)
{
    for (uint32_t i = 0; i < hidden->count; i++)
        x = plan_linear(p, x, hidden->at[i], p->job->model.activation, p->job->model.dropout,
                        p->job->model.norm, VIEW_NONE);
    return x;
}

void plan_head(struct plan *p, struct view x, uint32_t task)
{
    struct layer *l = plan_layer(p, &fc_head_layer, x, plan_logit(p, task));
    l->parameter[0] = plan_weights(p, 1, x.width);
}

void plan_pairs(struct plan *p, struct view vectors)
{
    struct layer *l = plan_layer(p, &fm_layer, vectors, plan_logit(p, 0));
    l->state[0] = plan_state(p, p->dim);
}
