/* interact.c: products of field vectors and of streams: pairs, cross layers, the compressed
 * interaction network. */
#include "dense/layer/lower.h"
#include "dense/layer/plan.h"
#include "proto/base/assert.h"
#include "proto/base/minmax.h"

/* ---- pairs, summed --------------------------------------------------------------------------- */

/* The second-order part of a factorization machine (Rendle 2010): the sum of v_i . v_j over all
 * pairs of fields, added to the logit. */

static float *fm_sums(const struct layer *l, const struct pass *p, uint32_t first)
{
    SHOAL_ASSERT(l->x.width % p->dim == 0 && p->tensor[l->state[0]].width == p->dim);
    return pass_at(p, (struct view){l->state[0], 0, p->dim}, first);
}

static void fm_forward(const struct layer *l, struct pass *p, uint32_t first, uint32_t count)
{
    p->k->fm_forward(p->s, count, l->x.width / p->dim, p->dim, pass_at(p, l->x, first),
                     pass_ld(p, l->x), fm_sums(l, p, first), pass_at(p, l->y, first),
                     pass_ld(p, l->y));
}

static void fm_backward(const struct layer *l, struct pass *p, uint32_t first, uint32_t count)
{
    p->k->fm_backward(p->s, count, l->x.width / p->dim, p->dim, pass_at(p, l->x, first),
                      pass_ld(p, l->x), fm_sums(l, p, first), pass_gradient_at(p, l->y, first),
                      pass_gradient_ld(p, l->y), l->add, pass_gradient_at(p, l->x, first),
                      pass_gradient_ld(p, l->x));
}

const struct layer_ops layer_fm = {
    .name = "fm", .forward = fm_forward, .backward = fm_backward, .lower = lower_fm};

void plan_pairs(struct plan *p, struct view vectors)
{
    SHOAL_ASSERT(vectors.width % p->dim == 0);
    struct layer *l = plan_layer(p, &layer_fm, vectors, plan_logit(p, 0));
    l->state[0] = plan_state(p, p->dim);
}

/* ---- pairs, each by itself ------------------------------------------------------------------- */

/* Inner products of all pairs of field vectors, one column each. FwFM weights them (Pan et al.
 * 2018); the networks of IPNN (Qu et al. 2016) and DLRM (Naumov et al. 2019) read them.
 * The product of vectors i and j < i stands at i (i - 1) / 2 + j. */

enum { NUMBER_VECTORS, NUMBER_KEEP };

static struct products_args products_args_of(const struct layer *l, const struct pass *p,
                                             uint32_t first, uint32_t count)
{
    SHOAL_ASSERT(l->x.width == l->number_of[NUMBER_VECTORS] * p->dim);
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

const struct layer_ops layer_products = {.name = "products",
                                         .forward = products_forward,
                                         .backward = products_backward,
                                         .lower = lower_products};

int plan_products_check(uint32_t vectors, struct err *e)
{
    if (vectors >= 2)
        return 0;
    return err_set(
        e, SHOAL_E_CONFIG,
        "features: the input gives %u vectors (one a category; all numbers make one together), and "
        "a model with products of pairs needs 2 or more: name more columns as categories, or take "
        "model.kind: wide_deep or dcnv2, which take numbers alone",
        vectors);
}

uint32_t plan_products_width(uint32_t vectors, uint32_t dim, bool keep)
{
    uint32_t width = products_pairs(vectors);
    if (keep)
        width += dim;
    return width;
}

struct view plan_products(struct plan *p, struct view x, bool keep, struct view y)
{
    uint32_t vectors = x.width / p->dim, width = plan_products_width(vectors, p->dim, keep);
    SHOAL_ASSERT(vectors >= 2 && x.width % p->dim == 0);
    struct view result = y;
    if (y.tensor == TENSOR_NONE)
        result = plan_tensor(p, width);
    struct layer *l = plan_layer(p, &layer_products, x, result);

    SHOAL_ASSERT(result.width == width);
    l->number_of[NUMBER_VECTORS] = vectors;
    l->number_of[NUMBER_KEEP] = keep;
    l->state[0] = plan_state_whole(p, products_work_floats(vectors, p->dim));
    return result;
}

/* ---- cross layers ---------------------------------------------------------------------------- */

/* Cross layers (DCN-V2, Wang et al. 2021), full rank: x' = x0 * (w x + b) + x, * number by number.
 * Each raises the degree of the polynomial in x0 by one. */

/* With u = w x + b: dx0 = dy * u, du = dy * x0, dx = dy + du w. Every cross layer but the first
 * shares one gradient between x and y, so dx holds dy already when du w is added. */
static struct cross_args cross_args_of(const struct layer *l, const struct pass *p, uint32_t first,
                                       uint32_t count)
{
    struct view u = {l->state[0], 0, l->x.width};
    SHOAL_ASSERT(l->z.width == l->x.width && l->y.width == l->x.width &&
                 p->tensor[l->state[0]].width == plan_stride(l->x.width, false));
    return (struct cross_args){.count = count,
                               .width = l->x.width,
                               .x0 = pass_at(p, l->z, first),
                               .ldx0 = pass_ld(p, l->z),
                               .x = pass_at(p, l->x, first),
                               .ldx = pass_ld(p, l->x),
                               .bias = pass_parameter(p, l, 1),
                               .u = pass_at(p, u, first),
                               .ldu = pass_ld(p, u),
                               .y = pass_at(p, l->y, first),
                               .ldy = pass_ld(p, l->y)};
}

/* u = x w', without the bias. */
static struct linear_args cross_linear(const struct layer *l, const struct pass *p,
                                       const struct cross_args *a)
{
    return (struct linear_args){.count = a->count,
                                .in = a->width,
                                .out = a->width,
                                .x = a->x,
                                .ldx = a->ldx,
                                .padded = pass_padded(p, l->x),
                                .w = pass_parameter(p, l, 0),
                                .act = ACT_NONE,
                                .y = a->u,
                                .ldy = a->ldu,
                                .keep = p->train};
}

static void cross_forward(const struct layer *l, struct pass *p, uint32_t first, uint32_t count)
{
    struct cross_args a = cross_args_of(l, p, first, count);
    struct linear_args u = cross_linear(l, p, &a);
    p->k->linear_forward(p->s, &u);
    p->k->interact.cross_forward(p->s, &a);
}

static void cross_back(const struct layer *l, struct pass *p, uint32_t first, uint32_t count,
                       bool of_first)
{
    struct cross_args a = cross_args_of(l, p, first, count);
    a.dy = pass_gradient_at(p, l->y, first);
    a.lddy = pass_gradient_ld(p, l->y);
    a.dbias = pass_parameter_gradient(p, l, 1);
    a.dx0 = pass_gradient_at(p, l->z, first);
    a.lddx0 = pass_gradient_ld(p, l->z);
    a.dx0_width = pass_wanted(p, l->z);
    a.add = l->add_z;
    a.first = of_first;
    p->k->interact.cross_backward(p->s, &a); /* u is its gradient now */
    struct linear_args u = cross_linear(l, p, &a);
    u.dy = a.u;
    u.lddy = a.ldu;
    u.dw = pass_parameter_gradient(p, l, 0);
    u.dx = pass_gradient_at(p, l->x, first);
    u.lddx = pass_gradient_ld(p, l->x);
    u.dx_width = pass_wanted(p, l->x);
    u.add = true;
    p->k->linear_backward(p->s, &u);
}

static void cross_backward(const struct layer *l, struct pass *p, uint32_t first, uint32_t count)
{
    cross_back(l, p, first, count, false);
}

static void cross_first_backward(const struct layer *l, struct pass *p, uint32_t first,
                                 uint32_t count)
{
    cross_back(l, p, first, count, true);
}

const struct layer_ops layer_cross_first = {.name = "cross",
                                            .forward = cross_forward,
                                            .backward = cross_first_backward,
                                            .lower = lower_cross};
const struct layer_ops layer_cross = {.name = "cross",
                                      .forward = cross_forward,
                                      .backward = cross_backward,
                                      .lower = lower_cross,
                                      .gradient_in_place = true};

void plan_cross(struct plan *p, struct view x0, uint32_t layers, struct view y)
{
    struct view x = x0;
    SHOAL_ASSERT(layers > 0 && y.width == x0.width);
    for (uint32_t i = 0; i < layers; i++) {
        struct view to = i + 1 == layers ? y : plan_tensor(p, x0.width);
        struct layer *l = plan_layer(p, i == 0 ? &layer_cross_first : &layer_cross, x, to);
        l->z = x0;
        plan_step(p);
        l->parameter[0] = plan_weights(p, x0.width, x0);
        p->to_input = true;
        l->parameter[1] = plan_zeros(p, "bias", x0.width);
        p->to_input = false;
        l->state[0] = plan_state(p, plan_stride(x0.width, false));
        x = to;
    }
}

/* ---- the compressed interaction network ------------------------------------------------------ */

/* The compressed interaction network (xDeepFM, Lian et al. 2018). Layer k has maps, vectors of the
 * fields' dim:
 *
 *     map h = sum over maps m of layer k - 1 and fields f of w[h][f, m] (map m * vector f)
 *
 * where * multiplies number by number and layer 0 is the field vectors. The network's output is the
 * sum of the numbers of each map. There is no activation: the paper found the identity best.
 *
 * Tensors are stored as (examples, dim, maps). A layer is then an outer product for each row
 * (example, number), and one matrix product over all rows. The outer products are made for as many
 * rows at a time as fit the work space, and are made again on the way back. */

/* the host's part of the work space, which stays in its cache */
#define CIN_WORK_HOST_FLOATS (1u << 18)

enum { NUMBER_FIELDS, NUMBER_BELOW, NUMBER_MAPS, NUMBER_WORK };

/* turning */

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

const struct layer_ops layer_cin_turn = {
    .name = "turn", .forward = turn_forward, .backward = turn_backward, .lower = lower_cin_turn};

/* a layer */

/* The first row of a layer's range in each array. The tensors have no gaps between examples, so
 * all rows of the range follow one another. */
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
    SHOAL_ASSERT(l->x.width == p->dim * l->number_of[NUMBER_BELOW] &&
                 l->y.width == p->dim * l->number_of[NUMBER_MAPS]);
    SHOAL_ASSERT(p->tensor[l->state[0]].width >= in); /* one row at least */
    if (p->k->host)
        work = MIN(work, CIN_WORK_HOST_FLOATS);
    uint32_t rows = count * p->dim, step = MAX(work / in, 1);
    struct cin_rows r = {.x = pass_at(p, l->x, first),
                         .x0 = pass_at(p, l->z, first),
                         .w = pass_parameter(p, l, 0),
                         .rows = rows,
                         .step = MIN(step, rows),
                         .in = in,
                         .maps = l->number_of[NUMBER_MAPS]};
    if (back) {
        r.y = pass_gradient_at(p, l->y, first);
        r.dw = pass_parameter_gradient(p, l, 0);
        r.dx = pass_gradient_at(p, l->x, first);
        r.dx0 = pass_gradient_at(p, l->z, first);
    } else {
        r.y = pass_at(p, l->y, first);
    }
    return r;
}

static struct cin_args cin_args_of(const struct layer *l, const struct pass *p,
                                   const struct cin_rows *r, uint32_t row)
{
    uint32_t below = l->number_of[NUMBER_BELOW], fields = l->number_of[NUMBER_FIELDS],
             left = r->rows - row;
    SHOAL_ASSERT((size_t)r->step * r->in <= p->tensor[l->state[0]].width);
    return (struct cin_args){.rows = MIN(left, r->step),
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

const struct layer_ops layer_cin = {.name = "cin",
                                    .forward = cin_forward,
                                    .backward = cin_backward,
                                    .lower = lower_cin,
                                    .mixes = true};

/* sums */

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

const struct layer_ops layer_cin_pool = {.name = "cin_pool",
                                         .forward = cin_pool_forward,
                                         .backward = cin_pool_backward,
                                         .lower = lower_cin_pool};

/* the part */

double layer_cin_row_floats(uint32_t fields, const struct widths *maps)
{
    double most = (double)fields * fields;
    for (uint32_t i = 0; i + 1 < maps->count; i++)
        if ((double)fields * maps->at[i] > most)
            most = (double)fields * maps->at[i];
    return most;
}

/* Floats of the work space: one row at least, and at most what all rows of a batch need. */
static uint32_t work_floats(const struct plan *p, uint32_t fields, const struct widths *maps)
{
    double row = layer_cin_row_floats(fields, maps), batch = row * p->dim * p->job->train.batch;
    double floats = CIN_WORK_FLOATS;
    if (batch > 0 && batch < floats)
        floats = batch;
    if (floats < row)
        floats = row;
    return (uint32_t)floats;
}

struct view plan_cin(struct plan *p, struct view vectors, const struct widths *maps)
{
    uint32_t fields = vectors.width / p->dim, below = fields, sum = 0, at = 0;
    uint32_t floats = work_floats(p, fields, maps), work = plan_state_whole(p, floats);
    for (uint32_t i = 0; i < maps->count; i++)
        sum += maps->at[i];
    SHOAL_ASSERT(vectors.width % p->dim == 0 && sum > 0);
    struct view x0 = plan_packed(p, plan_tensor(p, vectors.width)), x = x0,
                result = plan_tensor(p, sum);

    plan_layer(p, &layer_cin_turn, vectors, x0)->number_of[NUMBER_FIELDS] = fields;
    for (uint32_t i = 0; i < maps->count; i++) {
        struct view y = plan_packed(p, plan_tensor(p, p->dim * maps->at[i]));
        struct layer *l = plan_layer(p, &layer_cin, x, y);
        l->z = x0;
        plan_step(p);
        l->parameter[0] = plan_parameter(p, "maps", maps->at[i], fields * below, x0,
                                         plan_xavier(maps->at[i], fields * below), true);
        l->state[0] = work;
        l->number_of[NUMBER_FIELDS] = fields;
        l->number_of[NUMBER_BELOW] = below;
        l->number_of[NUMBER_MAPS] = maps->at[i];
        l->number_of[NUMBER_WORK] = floats;
        plan_layer(p, &layer_cin_pool, y, plan_columns(result, at, maps->at[i]));
        at += maps->at[i];
        below = maps->at[i];
        x = y;
    }
    return result;
}

/* ---- two streams ----------------------------------------------------------------------------- */

/* The products of two streams (Mao et al. 2023), added to a logit: the sum over heads h of x_h'
 * W_h z_h, where x_h and z_h are the heads' equal shares of x and z. */

/* The state holds x' W, later its gradient. */
static float *bilinear_state(const struct layer *l, const struct pass *p, uint32_t first)
{
    SHOAL_ASSERT(p->tensor[l->state[0]].width == l->z.width);
    return pass_at(p, (struct view){l->state[0], 0, l->z.width}, first);
}

static void bilinear_forward(const struct layer *l, struct pass *p, uint32_t first, uint32_t count)
{
    uint32_t heads = l->number_of[BILINEAR_HEADS], m = l->x.width / heads, n = l->z.width / heads;
    float *t = bilinear_state(l, p, first);
    for (uint32_t h = 0; h < heads; h++)
        p->k->gemm(p->s, false, false, count, n, m, pass_at(p, l->x, first) + (size_t)h * m,
                   pass_ld(p, l->x), pass_parameter(p, l, 0) + (size_t)h * m * n, n, 0.0f,
                   t + (size_t)h * n, l->z.width);
    p->k->attention.dots_forward(p->s, count, l->z.width, t, l->z.width, pass_at(p, l->z, first),
                                 pass_ld(p, l->z), pass_at(p, l->y, first), pass_ld(p, l->y));
}

static void bilinear_backward(const struct layer *l, struct pass *p, uint32_t first, uint32_t count)
{
    uint32_t heads = l->number_of[BILINEAR_HEADS], m = l->x.width / heads, n = l->z.width / heads;
    float *t = bilinear_state(l, p, first), *dx = pass_gradient_at(p, l->x, first);
    p->k->attention.dots_backward(p->s, count, l->z.width, t, l->z.width, pass_at(p, l->z, first),
                                  pass_ld(p, l->z), pass_gradient_at(p, l->y, first),
                                  pass_gradient_ld(p, l->y), pass_gradient_at(p, l->z, first),
                                  pass_gradient_ld(p, l->z), l->add_z);
    for (uint32_t h = 0; h < heads; h++) {
        size_t at = (size_t)h * m * n;
        p->k->gemm(p->s, true, false, m, n, count, pass_at(p, l->x, first) + (size_t)h * m,
                   pass_ld(p, l->x), t + (size_t)h * n, l->z.width, 1.0f,
                   pass_parameter_gradient(p, l, 0) + at, n);
        p->k->gemm(p->s, false, true, count, m, n, t + (size_t)h * n, l->z.width,
                   pass_parameter(p, l, 0) + at, n, l->add ? 1.0f : 0.0f, dx + (size_t)h * m,
                   pass_gradient_ld(p, l->x));
    }
}

const struct layer_ops layer_bilinear = {.name = "bilinear",
                                         .forward = bilinear_forward,
                                         .backward = bilinear_backward,
                                         .lower = lower_bilinear};

void plan_bilinear(struct plan *p, struct view x, struct view z, uint32_t heads, uint32_t task)
{
    SHOAL_ASSERT(heads > 0 && x.width % heads == 0 && z.width % heads == 0);
    struct layer *l = plan_layer(p, &layer_bilinear, x, plan_logit(p, task));
    uint32_t weights = x.width / heads * z.width;

    l->z = z;
    l->number_of[BILINEAR_HEADS] = heads;
    /* the bound of a head over all products */
    l->parameter[0] = plan_parameter(p, "weight", 1, weights, x, plan_xavier(1, weights), true);
    l->state[0] = plan_state(p, z.width);
}
