/* layer_norm.c: layer norm. */
#include "dense/layer/layer_norm.h"

#include "dense/layer/plan.h"
#include "proto/base/assert.h"

/* Floats from a row to the next: of an example, or of a part of it. */
static uint32_t row_step(uint32_t ld, uint32_t rows)
{
    return rows == 1 ? ld : ld / rows;
}

static struct layer_norm_args layer_norm_args_of(const struct layer *l, const struct pass *p,
                                                 uint32_t first, uint32_t count)
{
    uint32_t rows = l->number_of[LAYER_NORM_ROWS_AN_EXAMPLE];
    return (struct layer_norm_args){.count = count * rows,
                                    .width = l->x.width / rows,
                                    .x = pass_at(p, l->x, first),
                                    .ldx = row_step(pass_ld(p, l->x), rows),
                                    .gamma = pass_parameter(p, l, 0),
                                    .beta = pass_parameter(p, l, 1),
                                    .act = l->act,
                                    .y = pass_at(p, l->y, first),
                                    .ldy = row_step(pass_ld(p, l->y), rows),
                                    .moments =
                                        pass_at(p, (struct view){l->state[0], 0, 2 * rows}, first)};
}

static void layer_norm_forward(const struct layer *l, struct pass *p, uint32_t first,
                               uint32_t count)
{
    struct layer_norm_args a = layer_norm_args_of(l, p, first, count);
    p->k->attention.layer_norm_forward(p->s, &a);
}

static void layer_norm_backward(const struct layer *l, struct pass *p, uint32_t first,
                                uint32_t count)
{
    struct layer_norm_args a = layer_norm_args_of(l, p, first, count);
    a.dy = pass_gradient_at(p, l->y, first);
    a.lddy = row_step(pass_gradient_ld(p, l->y), l->number_of[LAYER_NORM_ROWS_AN_EXAMPLE]);
    a.gamma_gradient = pass_parameter_gradient(p, l, 0);
    a.beta_gradient = pass_parameter_gradient(p, l, 1);
    p->k->attention.layer_norm_backward(p->s, &a);
}

const struct layer_ops layer_norm_layer = {.name = "layer_norm",
                                           .forward = layer_norm_forward,
                                           .backward = layer_norm_backward,
                                           .gradient_in_place = true};

void layer_norm_plan(struct plan *p, struct view x, uint32_t rows, enum activation act,
                     struct view y)
{
    SHOAL_ASSERT(x.width == y.width && rows > 0 && x.width % rows == 0);
    struct layer *l = plan_layer(p, &layer_norm_layer, x, y);
    l->parameter[0] = plan_ones(p, x.width / rows);
    l->parameter[1] = plan_zeros(p, x.width / rows);
    l->act = act;
    l->state[0] = plan_state(p, 2 * rows);
    l->number_of[LAYER_NORM_ROWS_AN_EXAMPLE] = rows;
}
