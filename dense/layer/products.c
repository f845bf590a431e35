/* products.c: inner products of all pairs of field vectors. */
#include "dense/layer/products.h"

#include "dense/layer/plan.h"
#include "proto/base/assert.h"

enum { NUMBER_VECTORS, NUMBER_KEEP };

static struct products_args products_args_of(const struct layer *l, const struct pass *p,
                                             uint32_t first, uint32_t count)
{
    return (struct products_args){.count = count,
                                  .vectors = l->number_of[NUMBER_VECTORS],
                                  .dim = p->dim,
                                  .keep = l->number_of[NUMBER_KEEP] != 0,
                                  .x = pass_at(p, l->x, first),
                                  .ldx = pass_ld(p, l->x),
                                  .y = pass_at(p, l->y, first),
                                  .ldy = pass_ld(p, l->y),
                                  .work = p->data[l->state[0]]};
}

static void products_forward(const struct layer *l, struct pass *p, uint32_t first, uint32_t count)
{
    struct products_args a = products_args_of(l, p, first, count);
    p->k->interact.products_forward(p->s, &a);
}

static void products_backward(const struct layer *l, struct pass *p, uint32_t first, uint32_t count)
{
    struct products_args a = products_args_of(l, p, first, count);
    a.dy = pass_gradient_at(p, l->y, first);
    a.lddy = pass_gradient_ld(p, l->y);
    a.dx = pass_gradient_at(p, l->x, first);
    a.lddx = pass_gradient_ld(p, l->x);
    a.add = l->add;
    p->k->interact.products_backward(p->s, &a);
}

const struct layer_ops products_layer = {
    .name = "products", .forward = products_forward, .backward = products_backward};

int products_check(uint32_t vectors, struct err *e)
{
    if (vectors >= 2)
        return 0;
    return err_set(
        e, SHOAL_E_CONFIG,
        "features: the input gives %u vectors, and a model with products of pairs needs 2 or more; "
        "use more columns as categories",
        vectors);
}

uint32_t products_width(uint32_t vectors, uint32_t dim, bool keep)
{
    return products_pairs(vectors) + (keep ? dim : 0);
}

struct view products_plan(struct plan *p, struct view x, bool keep, struct view y)
{
    uint32_t vectors = x.width / p->dim, width = products_width(vectors, p->dim, keep);
    SHOAL_ASSERT(vectors >= 2 && x.width % p->dim == 0);
    struct view result = y.tensor == TENSOR_NONE ? plan_tensor(p, width) : y;
    struct layer *l = plan_layer(p, &products_layer, x, result);

    SHOAL_ASSERT(result.width == width);
    l->number_of[NUMBER_VECTORS] = vectors;
    l->number_of[NUMBER_KEEP] = keep;
    l->state[0] = plan_state_whole(p, products_work_floats(vectors, p->dim));
    return result;
}
