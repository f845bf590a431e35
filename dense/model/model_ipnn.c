/* model_ipnn.c: the inner product-based neural network (Qu et al. 2016): a network over the field
 * vectors, the numbers and the inner products of all pairs of vectors. */
#include "dense/model/models.h"

#include "dense/layer/products.h"

int model_ipnn_check(const struct job *job, const struct model_shape *shape, struct err *e)
{
    (void)job;
    return products_check(shape->fields, e);
}

void model_ipnn_plan(struct plan *p)
{
    uint32_t products = products_width(p->shape.fields, p->dim, false);
    struct view input = plan_input(p, true, products);
    products_plan(p, plan_vectors(p, input), false,
                  plan_columns(input, input.width - products, products));
    plan_head(p, plan_network(p, input, &p->job->model.hidden), 0);
}
