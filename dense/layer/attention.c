/* attention.c: self-attention over field vectors. */
#include "dense/layer/attention.h"

#include "dense/layer/act.h"
#include "dense/layer/dropout.h"
#include "dense/layer/layer_norm.h"
#include "dense/layer/plan.h"
#include "proto/base/assert.h"

/* ---- linear maps ----------------------------------------------------------------------------- */

/* Whether the fields of all examples follow one another without gaps, in what is read and its
 * gradient. */
static bool project_whole(const struct layer *l, const struct pass *p)
{
    return pass_ld(p, l->x) == l->x.width &&
           (!p->train || pass_wanted(p, l->x) == 0 || pass_gradient_ld(p, l->x) == l->x.width);
}

/* Field f of the examples, or, when nothing lies between them, all fields at once. */
static struct linear_args project_args(const struct layer *l, const struct pass *p, uint32_t first,
                                       uint32_t count, uint32_t f, bool whole)
{
    uint32_t fields = l->number_of[ATTENTION_FIELDS], in = l->x.width / fields,
             out = l->y.width / fields;
    return (struct linear_args){.first = first,
                                .count = whole ? count * fields : count,
                                .in = in,
                                .out = out,
                                .x = pass_at(p, l->x, first) + (size_t)f * in,
                                .ldx = whole ? in : pass_ld(p, l->x),
                                .w = pass_parameter(p, l, 0),
                                .act = ACT_NONE,
                                .y = pass_at(p, l->y, first) + (size_t)f * out,
                                .ldy = whole ? out : l->y.width};
}

static void project_forward(const struct layer *l, struct pass *p, uint32_t first, uint32_t count)
{
    bool whole = project_whole(l, p);
    for (uint32_t f = 0; f < (whole ? 1 : l->number_of[ATTENTION_FIELDS]); f++) {
        struct linear_args a = project_args(l, p, first, count, f, whole);
        p->k->linear_forward(p->s, &a);
    }
}

static void project_backward(const struct layer *l, struct pass *p, uint32_t first, uint32_t count)
{
    bool whole = project_whole(l, p);
    for (uint32_t f = 0; f < (whole ? 1 : l->number_of[ATTENTION_FIELDS]); f++) {
        struct linear_args a = project_args(l, p, first, count, f, whole);
        a.dy = pass_gradient_at(p, l->y, first) + (size_t)f * a.out;
        a.lddy = a.ldy;
        a.dw = pass_parameter_gradient(p, l, 0);
        a.dx = pass_gradient_at(p, l->x, first);
        if (a.dx != NULL)
            a.dx += (size_t)f * a.in;
        a.lddx = whole ? a.in : pass_gradient_ld(p, l->x);
        a.dx_width = a.in;
        a.add = l->add;
        p->k->linear_backward(p->s, &a);
    }
}

const struct layer_ops attention_project_layer = {
    .name = "project", .forward = project_forward, .backward = project_backward};

/* ---- attention ------------------------------------------------------------------------------- */

static struct attend_args attend_args_of(const struct layer *l, const struct pass *p,
                                         uint32_t first, uint32_t count,
                                         const struct dropout_mask *mask)
{
    uint32_t fields = l->number_of[ATTENTION_FIELDS], heads = l->number_of[ATTENTION_HEADS];
    return (struct attend_args){
        .first = first,
        .count = count,
        .fields = fields,
        .heads = heads,
        .width = l->y.width / fields,
        .parts = l->x.width / l->y.width,
        .x = pass_at(p, l->x, first),
        .residual = l->z.tensor == TENSOR_NONE ? NULL : pass_at(p, l->z, first),
        .ldresidual = l->z.tensor == TENSOR_NONE ? 0 : pass_ld(p, l->z),
        .y = pass_at(p, l->y, first),
        .share =
            pass_at(p, (struct view){l->state[0], 0, attend_share_floats(fields, heads)}, first),
        .work = p->data[l->state[1]],
        .mask = mask};
}

static void attend_forward(const struct layer *l, struct pass *p, uint32_t first, uint32_t count)
{
    struct dropout_mask mask = dropout_of(l, p);
    struct attend_args a = attend_args_of(l, p, first, count, &mask);
    p->k->attention.attend_forward(p->s, &a);
}

static void attend_backward(const struct layer *l, struct pass *p, uint32_t first, uint32_t count)
{
    struct dropout_mask mask = dropout_of(l, p);
    struct attend_args a = attend_args_of(l, p, first, count, &mask);
    a.dy = pass_gradient_at(p, l->y, first);
    a.dx = pass_gradient_at(p, l->x, first);
    a.dresidual = l->z.tensor == TENSOR_NONE ? NULL : pass_gradient_at(p, l->z, first);
    a.lddresidual = l->z.tensor == TENSOR_NONE ? 0 : pass_gradient_ld(p, l->z);
    a.add = l->add_z;
    p->k->attention.attend_backward(p->s, &a);
}

const struct layer_ops attention_attend_layer = {
    .name = "attend", .forward = attend_forward, .backward = attend_backward};

/* ---- the part -------------------------------------------------------------------------------- */

static struct layer *fields_layer(struct layer *l, uint32_t fields, uint32_t heads)
{
    l->number_of[ATTENTION_FIELDS] = fields;
    l->number_of[ATTENTION_HEADS] = heads;
    return l;
}

static struct view attention_layer(struct plan *p, struct view x, uint32_t fields, uint32_t heads,
                                   uint32_t width, uint32_t work)
{
    bool same = x.width == fields * width;
    uint32_t parts = same ? 3 : 4;
    struct view maps = plan_tensor(p, fields * parts * width), sum = plan_tensor(p, fields * width);
    struct layer *l = fields_layer(plan_layer(p, &attention_project_layer, x, maps), fields, heads);
    /* each map starts as one of its own would */
    size_t weights = (size_t)parts * width * (x.width / fields);
    l->parameter[0] = block_add(&p->dense, weights, plan_xavier(width, x.width / fields), true);

    l = fields_layer(plan_layer(p, &attention_attend_layer, maps, sum), fields, heads);
    l->z = same ? x : VIEW_NONE;
    l->dropout = p->job->model.dropout;
    l->state[0] = plan_state(p, attend_share_floats(fields, heads));
    l->state[1] = work;

    if (p->job->model.norm == NORM_NONE) {
        plan_layer(p, &act_layer, sum, sum)->act = ACT_RELU;
        return sum;
    }
    struct view y = plan_tensor(p, fields * width);
    layer_norm_plan(p, sum, fields, ACT_RELU, y);
    return y;
}

struct view attention_plan(struct plan *p, struct view x, uint32_t fields, uint32_t layers,
                           uint32_t heads, uint32_t width)
{
    SHOAL_ASSERT(fields > 0 && x.width % fields == 0 && width % heads == 0);
    uint32_t work = plan_state_whole(p, attend_work_floats(fields, width / heads));
    for (uint32_t i = 0; i < layers; i++)
        x = attention_layer(p, x, fields, heads, width, work);
    return x;
}
