/* pool.c: rows -> input and back. */
#include "dense/layer/pool.h"

struct pool_args pool_args_of(const struct pass *p, uint32_t first, uint32_t count)
{
    return (struct pool_args){
        .first = first,
        .count = count,
        .examples = p->in->examples,
        .values = p->values,
        .row_count = p->in->row_count,
        .fields = p->shape->fields,
        .dim = p->dim,
        .vectors = p->vectors,
        .numerics = p->shape->numerics,
        .first_order = p->first_order,
        .tasks = p->tasks,
        .pooling = p->pooling,
        .index = p->in->index,
        .offset = p->in->offset,
        .rows = p->in->rows,
        .numeric = p->in->numeric,
        .table = p->field_table ? p->step->table : NULL,
        .tables = p->tables,
        .field_table = p->field_table,
        .column = p->column,
    };
}

static struct view logit(const struct pass *p)
{
    return (struct view){TENSOR_LOGIT, 0, p->tasks};
}

static void pool_forward(const struct layer *l, struct pass *p, uint32_t first, uint32_t count)
{
    struct pool_args a = pool_args_of(p, first, count);
    bool vectors = l->y.tensor != TENSOR_NONE;

    if (vectors && l->y.width == p->vectors)
        a.numerics = 0;
    p->k->bias_forward(p->s, count, p->tasks, pass_parameter(p, l, 1), pass_at(p, logit(p), first));
    p->k->pool_forward(p->s, &a, vectors ? pass_at(p, l->y, first) : NULL,
                       vectors ? pass_ld(p, l->y) : 0, pass_at(p, logit(p), first));
}

static void pool_backward(const struct layer *l, struct pass *p, uint32_t first, uint32_t count)
{
    struct pool_args a = pool_args_of(p, first, count);
    const float *dlogit = pass_gradient_at(p, logit(p), first);
    bool vectors = l->y.tensor != TENSOR_NONE;

    p->k->pool_backward(p->s, &a, vectors ? pass_gradient_at(p, l->y, first) : NULL,
                        vectors ? pass_gradient_ld(p, l->y) : 0, dlogit, p->out->row_gradients);
    p->k->bias_backward(p->s, count, p->tasks, dlogit, pass_parameter_gradient(p, l, 1));
}

const struct layer_ops pool_layer = {
    .name = "pool", .forward = pool_forward, .backward = pool_backward, .by_values = true};
