/* cin.c: the compressed interaction network. */
#include "dense/layer/cin.h"

#include "dense/layer/plan.h"

enum { NUMBER_FIELDS, NUMBER_BELOW, NUMBER_MAPS, NUMBER_WORK };

/* ---- turning --------------------------------------------------------------------------------- */

static void turn_forward(const struct layer *l, struct pass *p, uint32_t first, uint32_t count)
{
    p->k->interact.turn(p->s, count, l->number_of[NUMBER_FIELDS], p->dim, pass_at(p, l->x, first),
                        pass_ld(p, l->x), false, pass_at(p, l->y, first), pass_ld(p, l->y));
}

static void turn_backward(const struct layer *l, struct pass *p, uint32_t first, uint32_t count)
{
    p->k->interact.turn(p->s, count, p->dim, l->number_of[NUMBER_FIELDS],
                        pass_gradient_at(p, l->y, first), pass_gradient_ld(p, l->y), l->add,
                        pass_gradient_at(p, l->x, first), pass_gradient_ld(p, l->x));
}

const struct layer_ops cin_turn_layer = {
    .name = "turn", .forward = turn_forward, .backward = turn_backward};

/* ---- a layer --------------------------------------------------------------------------------- */

/* Where rows of a layer begin, whatever the examples: the tensors have no gaps. */
struct cin_rows {
    const float *x, *x0, *w;
    float *y, *dw, *dx, *dx0;
    uint32_t rows, step, in, maps;
};

static struct cin_rows cin_rows_of(const struct layer *l, const struct pass *p, uint32_t first,
                                   uint32_t count, bool back)
{
    uint32_t in = l->number_of[NUMBER_FIELDS] * l->number_of[NUMBER_BELOW],
             work = l->number_of[NUMBER_WORK];
    uint32_t rows = count * p->dim,
             used = p->k->host && work > CIN_WORK_HOST_FLOATS ? CIN_WORK_HOST_FLOATS : work;
    uint32_t step = used / in > 0 ? used / in : 1;
    return (struct cin_rows){.x = pass_at(p, l->x, first),
                             .x0 = pass_at(p, l->z, first),
                             .w = pass_parameter(p, l, 0),
                             .y = back ? pass_gradient_at(p, l->y, first) : pass_at(p, l->y, first),
                             .dw = back ? pass_parameter_gradient(p, l, 0) : NULL,
                             .dx = back ? pass_gradient_at(p, l->x, first) : NULL,
                             .dx0 = back ? pass_gradient_at(p, l->z, first) : NULL,
                             .rows = rows,
                             .step = step < rows ? step : rows,
                             .in = in,
                             .maps = l->number_of[NUMBER_MAPS]};
}

static struct cin_args cin_args_of(const struct layer *l, const struct pass *p,
                                   const struct cin_rows *r, uint32_t row)
{
    uint32_t below = l->number_of[NUMBER_BELOW], fields = l->number_of[NUMBER_FIELDS],
             left = r->rows - row;
    return (struct cin_args){.rows = left < r->step ? left : r->step,
                             .maps = below,
                             .fields = fields,
                             .x = r->x + (size_t)row * below,
                             .x0 = r->x0 + (size_t)row * fields,
                             .z = p->data[l->state[0]],
                             .dz = p->data[l->state[0]],
                             .dx = r->dx != NULL ? r->dx + (size_t)row * below : NULL,
                             .dx0 = r->dx0 != NULL ? r->dx0 + (size_t)row * fields : NULL,
                             .add = l->add,
                             .add0 = l->add_z};
}

static void cin_forward(const struct layer *l, struct pass *p, uint32_t first, uint32_t count)
{
    struct cin_rows r = cin_rows_of(l, p, first, count, false);
    for (uint32_t row = 0; row < r.rows; row += r.step) {
        struct cin_args a = cin_args_of(l, p, &r, row);
        p->k->interact.cin_outer(p->s, &a);
        p->k->gemm(p->s, false, true, a.rows, r.maps, r.in, a.z, r.in, r.w, r.in, 0.0f,
                   r.y + (size_t)row * r.maps, r.maps);
    }
}

/* dw += dy' z, then z is overwritten by its gradient, dy w. */
static void cin_backward(const struct layer *l, struct pass *p, uint32_t first, uint32_t count)
{
    struct cin_rows r = cin_rows_of(l, p, first, count, true);
    for (uint32_t row = 0; row < r.rows; row += r.step) {
        struct cin_args a = cin_args_of(l, p, &r, row);
        const float *dy = r.y + (size_t)row * r.maps;
        p->k->interact.cin_outer(p->s, &a);
        p->k->gemm(p->s, true, false, r.maps, r.in, a.rows, dy, r.maps, a.z, r.in, 1.0f, r.dw,
                   r.in);
        p->k->gemm(p->s, false, false, a.rows, r.in, r.maps, dy, r.maps, r.w, r.in, 0.0f, a.z,
                   r.in);
        p->k->interact.cin_outer_backward(p->s, &a);
    }
}

const struct layer_ops cin_layer = {
    .name = "cin", .forward = cin_forward, .backward = cin_backward};

/* ---- sums ------------------------------------------------------------------------------------ */

static void cin_pool_forward(const struct layer *l, struct pass *p, uint32_t first, uint32_t count)
{
    p->k->interact.cin_pool(p->s, count, p->dim, l->y.width, pass_at(p, l->x, first),
                            pass_ld(p, l->x), pass_at(p, l->y, first), pass_ld(p, l->y));
}

static void cin_pool_backward(const struct layer *l, struct pass *p, uint32_t first, uint32_t count)
{
    p->k->interact.cin_pool_backward(p->s, count, p->dim, l->y.width,
                                     pass_gradient_at(p, l->y, first), pass_gradient_ld(p, l->y),
                                     l->add, pass_gradient_at(p, l->x, first),
                                     pass_gradient_ld(p, l->x));
}

const struct layer_ops cin_pool_layer = {
    .name = "cin_pool", .forward = cin_pool_forward, .backward = cin_pool_backward};

/* ---- the part -------------------------------------------------------------------------------- */

double cin_row_floats(uint32_t fields, const struct widths *maps)
{
    double most = (double)fields * fields;
    for (uint32_t i = 0; i + 1 < maps->count; i++)
        most = (double)fields * maps->at[i] > most ? (double)fields * maps->at[i] : most;
    return most;
}

/* For one row at least, and no more than all rows of a batch need. */
static uint32_t work_floats(const struct plan *p, uint32_t fields, const struct widths *maps)
{
    double row = cin_row_floats(fields, maps), batch = row * p->dim * p->job->train.batch;
    double floats = batch > 0 && batch < CIN_WORK_FLOATS ? batch : CIN_WORK_FLOATS;
    return (uint32_t)(floats > row ? floats : row);
}

struct view cin_plan(struct plan *p, struct view vectors, const struct widths *maps)
{
    uint32_t fields = vectors.width / p->dim, below = fields, sum = 0, at = 0;
    uint32_t floats = work_floats(p, fields, maps), work = plan_state_whole(p, floats);
    for (uint32_t i = 0; i < maps->count; i++)
        sum += maps->at[i];
    struct view x0 = plan_tensor(p, vectors.width), x = x0, result = plan_tensor(p, sum);

    plan_layer(p, &cin_turn_layer, vectors, x0)->number_of[NUMBER_FIELDS] = fields;
    for (uint32_t i = 0; i < maps->count; i++) {
        struct view y = plan_tensor(p, p->dim * maps->at[i]);
        struct layer *l = plan_layer(p, &cin_layer, x, y);
        l->z = x0;
        l->parameter[0] = plan_weights(p, maps->at[i], fields * below);
        l->state[0] = work;
        l->number_of[NUMBER_FIELDS] = fields;
        l->number_of[NUMBER_BELOW] = below;
        l->number_of[NUMBER_MAPS] = maps->at[i];
        l->number_of[NUMBER_WORK] = floats;
        plan_layer(p, &cin_pool_layer, y, plan_columns(result, at, maps->at[i]));
        at += maps->at[i];
        below = maps->at[i];
        x = y;
    }
    return result;
}
