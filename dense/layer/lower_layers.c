/* lower_layers.c: each layer as operators: what its `forward` computes in a prediction. */
#include "dense/layer/lower.h"
#include "dense/layer/plan.h"
#include "proto/base/assert.h"
#include "proto/base/minmax.h"

#include <math.h>
#include <stdlib.h>

/* Shapes by value, as lists of graph_reshape: 0 stands for the batch. */
#define DIMS(...) ((int64_t[]){__VA_ARGS__}), sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)

void lower_nothing(const struct layer *l, struct lower *w)
{
    (void)l;
    (void)w;
}

/* ---- parts.c --------------------------------------------------------------------------------- */

/* The fields' vectors, and the numbers if y has columns for them. */
static void pool_vectors(const struct layer *l, struct lower *w)
{
    const struct plan *p = lower_plan_of(w);
    uint32_t vectors = p->column[p->shape.fields];
    for (uint32_t f = 0; f < p->shape.fields; f++) {
        struct view v = {l->y.tensor, l->y.at + p->column[f], p->column[f + 1] - p->column[f]};
        if (p->shape.pooling[f] != POOL_ATTENTION) /* else layer_sequence writes the columns */
            lower_write(w, v, lower_vector(w, f));
    }
    for (uint32_t i = 0; vectors + i < l->y.width; i++)
        lower_write(w, (struct view){l->y.tensor, l->y.at + vectors + i, 1},
                    lower_read(w, (struct view){TENSOR_NUMERIC, i, 1}));
}

/* The biases, and with a first-order part the sum of the fields' weights. */
static void pool_logit(const struct layer *l, struct lower *w)
{
    const struct plan *p = lower_plan_of(w);
    struct graph *g = lower_graph(w);
    uint32_t bias = lower_parameter(w, l->parameter[1], DIMS(p->tasks)), first[LIMIT_FIELDS];
    for (uint32_t t = 0; t < p->tasks; t++)
        lower_add(w, plan_logit(p, t), p->tasks == 1 ? bias : graph_slice(g, bias, 0, t, t + 1));
    if (p->first_order == 0 || p->shape.fields == 0)
        return;
    for (uint32_t f = 0; f < p->shape.fields; f++)
        first[f] = lower_first(w, f);
    lower_add(w, plan_logit(p, 0), graph_node(g, "Sum", first, p->shape.fields));
}

void lower_pool(const struct layer *l, struct lower *w)
{
    if (l->y.tensor != TENSOR_NONE)
        pool_vectors(l, w);
    pool_logit(l, w);
}

/* An expert's layer also computes the examples that did not choose it: their share is 0. */
void lower_fc(const struct layer *l, struct lower *w)
{
    uint32_t bias = GRAPH_NONE, x = lower_read(w, l->x),
             weight = lower_parameter(w, l->parameter[0], DIMS(l->y.width, l->x.width));
    if (l->parameter[1] != PARAMETER_NONE)
        bias = lower_parameter(w, l->parameter[1], DIMS(l->y.width));
    lower_write(w, l->y, lower_act(w, l->act, graph_linear(lower_graph(w), x, weight, bias)));
}

void lower_head(const struct layer *l, struct lower *w)
{
    uint32_t weight = lower_parameter(w, l->parameter[0], DIMS(1, l->x.width));
    lower_add(w, l->y, graph_linear(lower_graph(w), lower_read(w, l->x), weight, GRAPH_NONE));
}

void lower_act_layer(const struct layer *l, struct lower *w)
{
    uint32_t x = lower_read(w, l->x);
    if (l->parameter[1] != PARAMETER_NONE)
        x = graph_binary(lower_graph(w), "Add", x,
                         lower_parameter(w, l->parameter[1], DIMS(l->y.width)));
    lower_write(w, l->y, lower_act(w, l->act, x));
}

/* ---- norm.c ---------------------------------------------------------------------------------- */

/* Concurrent moves may have taken a running variance below 0, which counts as 0. */
static void variance_clean(struct graph *g, uint32_t value, uint32_t width)
{
    float *x = value != GRAPH_NONE ? g->value[value].data : NULL;
    for (uint32_t i = 0; i < width && x != NULL; i++)
        x[i] = MAX(x[i], 0.0f);
}

void lower_batch_norm(const struct layer *l, struct lower *w)
{
    struct graph *g = lower_graph(w);
    uint32_t width = l->x.width;
    uint32_t in[] = {lower_read(w, l->x), lower_parameter(w, l->parameter[0], DIMS(width)),
                     lower_parameter(w, l->parameter[1], DIMS(width)),
                     lower_statistic(w, l->mean, width), lower_statistic(w, l->variance, width)};
    variance_clean(g, in[4], width);
    uint32_t y = graph_node(g, "BatchNormalization", in, 5);
    graph_set_real(g, "epsilon", (float)NORM_EPS);
    lower_write(w, l->y, y);
}

/* The mean over the last axis, which stays. */
static uint32_t mean_of(struct graph *g, uint32_t x)
{
    uint32_t y = graph_unary(g, "ReduceMean", x);
    graph_set_list(g, "axes", (int64_t[]){-1}, 1);
    graph_set(g, "keepdims", 1);
    return y;
}

void lower_layer_norm(const struct layer *l, struct lower *w)
{
    struct graph *g = lower_graph(w);
    uint32_t rows = l->number_of[LAYER_NORM_ROWS_AN_EXAMPLE], width = l->x.width / rows;
    uint32_t x = lower_read(w, l->x);
    if (rows > 1)
        x = graph_reshape(g, x, DIMS(0, rows, width));
    uint32_t off = graph_binary(g, "Sub", x, mean_of(g, x));
    uint32_t variance = mean_of(g, graph_binary(g, "Mul", off, off));
    uint32_t deviation =
        graph_unary(g, "Sqrt", graph_binary(g, "Add", variance, graph_number(g, LAYER_NORM_EPS)));
    uint32_t y = graph_binary(g, "Div", off, deviation);
    y = graph_binary(g, "Mul", y, lower_parameter(w, l->parameter[0], DIMS(width)));
    y = graph_binary(g, "Add", y, lower_parameter(w, l->parameter[1], DIMS(width)));
    y = lower_act(w, l->act, y);
    if (rows > 1)
        y = graph_reshape(g, y, DIMS(0, l->x.width));
    lower_write(w, l->y, y);
}

/* ---- interact.c ------------------------------------------------------------------------------ */

/* sum over pairs = half of (square of the sum - sum of the squares) */
void lower_fm(const struct layer *l, struct lower *w)
{
    struct graph *g = lower_graph(w);
    uint32_t dim = lower_plan_of(w)->dim;
    uint32_t x = graph_reshape(g, lower_read(w, l->x), DIMS(0, l->x.width / dim, dim));
    uint32_t sum = graph_sum(g, x, 1, false);
    uint32_t squares = graph_sum(g, graph_binary(g, "Mul", x, x), 1, false);
    uint32_t both = graph_binary(g, "Sub", graph_binary(g, "Mul", sum, sum), squares);
    lower_add(w, l->y, graph_binary(g, "Mul", graph_sum(g, both, 1, true), graph_number(g, 0.5f)));
}

/* The products below the diagonal of x x', row by row. */
static uint32_t pairs_of(struct graph *g, uint32_t x, uint32_t vectors)
{
    uint32_t pairs = products_pairs(vectors);
    int64_t *at = malloc((pairs + 1) * sizeof *at);
    if (at == NULL) {
        g->failed = true;
        return GRAPH_NONE;
    }
    for (uint32_t i = 0; i < vectors; i++)
        for (uint32_t j = 0; j < i; j++)
            at[products_at(i, j)] = (int64_t)i * vectors + j;
    uint32_t all = graph_binary(g, "MatMul", x, graph_transpose(g, x, DIMS(0, 2, 1)));
    all = graph_reshape(g, all, DIMS(0, (int64_t)vectors * vectors));
    uint32_t y = graph_binary(g, "Gather", all, graph_integers(g, at, pairs));
    graph_set(g, "axis", 1);
    free(at);
    return y;
}

void lower_products(const struct layer *l, struct lower *w)
{
    struct graph *g = lower_graph(w);
    uint32_t dim = lower_plan_of(w)->dim, vectors = l->x.width / dim,
             kept = l->y.width - products_pairs(vectors);
    uint32_t x = lower_read(w, l->x);
    if (kept > 0) {
        SHOAL_ASSERT(kept == dim);
        lower_write(w, plan_columns(l->y, 0, dim),
                    lower_read(w, plan_columns(l->x, l->x.width - dim, dim)));
    }
    lower_write(w, plan_columns(l->y, kept, l->y.width - kept),
                pairs_of(g, graph_reshape(g, x, DIMS(0, vectors, dim)), vectors));
}

void lower_cross(const struct layer *l, struct lower *w)
{
    struct graph *g = lower_graph(w);
    uint32_t width = l->x.width, x = lower_read(w, l->x), x0 = lower_read(w, l->z);
    uint32_t u = graph_linear(g, x, lower_parameter(w, l->parameter[0], DIMS(width, width)),
                              lower_parameter(w, l->parameter[1], DIMS(width)));
    lower_write(w, l->y, graph_binary(g, "Add", graph_binary(g, "Mul", x0, u), x));
}

void lower_cin_turn(const struct layer *l, struct lower *w)
{
    struct graph *g = lower_graph(w);
    uint32_t dim = lower_plan_of(w)->dim, fields = l->x.width / dim;
    uint32_t x = graph_reshape(g, lower_read(w, l->x), DIMS(0, fields, dim));
    x = graph_transpose(g, x, DIMS(0, 2, 1));
    lower_write(w, l->y, graph_reshape(g, x, DIMS(0, l->y.width)));
}

/* x w' over the last axis: w (out, in) */
static uint32_t rows_linear(struct graph *g, uint32_t x, uint32_t w)
{
    return graph_binary(g, "MatMul", x, graph_transpose(g, w, DIMS(1, 0)));
}

void lower_cin(const struct layer *l, struct lower *w)
{
    struct graph *g = lower_graph(w);
    uint32_t dim = lower_plan_of(w)->dim, below = l->x.width / dim, fields = l->z.width / dim,
             maps = l->y.width / dim, in = fields * below;
    uint32_t x = graph_reshape(g, lower_read(w, l->x), DIMS(0, dim, 1, below));
    uint32_t x0 = graph_reshape(g, lower_read(w, l->z), DIMS(0, dim, fields, 1));
    uint32_t outer = graph_reshape(g, graph_binary(g, "Mul", x0, x), DIMS(0, dim, in));
    uint32_t y = rows_linear(g, outer, lower_parameter(w, l->parameter[0], DIMS(maps, in)));
    lower_write(w, l->y, graph_reshape(g, y, DIMS(0, l->y.width)));
}

void lower_cin_pool(const struct layer *l, struct lower *w)
{
    struct graph *g = lower_graph(w);
    uint32_t dim = lower_plan_of(w)->dim;
    uint32_t x = graph_reshape(g, lower_read(w, l->x), DIMS(0, dim, l->y.width));
    lower_write(w, l->y, graph_sum(g, x, 1, false));
}

void lower_bilinear(const struct layer *l, struct lower *w)
{
    struct graph *g = lower_graph(w);
    uint32_t heads = l->number_of[BILINEAR_HEADS], m = l->x.width / heads, n = l->z.width / heads;
    uint32_t x = graph_reshape(g, lower_read(w, l->x), DIMS(0, heads, 1, m));
    uint32_t weight = lower_parameter(w, l->parameter[0], DIMS(heads, m, n));
    uint32_t t = graph_reshape(g, graph_binary(g, "MatMul", x, weight), DIMS(0, l->z.width));
    lower_add(w, l->y, graph_sum(g, graph_binary(g, "Mul", t, lower_read(w, l->z)), 1, true));
}

/* ---- attention.c ----------------------------------------------------------------------------- */

void lower_project(const struct layer *l, struct lower *w)
{
    struct graph *g = lower_graph(w);
    uint32_t fields = l->number_of[ATTENTION_FIELDS], in = l->x.width / fields,
             out = l->y.width / fields;
    uint32_t x = graph_reshape(g, lower_read(w, l->x), DIMS(0, fields, in));
    uint32_t y = rows_linear(g, x, lower_parameter(w, l->parameter[0], DIMS(out, in)));
    lower_write(w, l->y, graph_reshape(g, y, DIMS(0, l->y.width)));
}

/* Part `part` of the maps (batch, fields, parts * width), by heads: (batch, heads, fields, width of
 * a head), or for the keys (batch, heads, width of a head, fields). */
static uint32_t attend_part(struct graph *g, const struct layer *l, uint32_t maps, uint32_t part,
                            bool keys)
{
    uint32_t fields = l->number_of[ATTENTION_FIELDS], heads = l->number_of[ATTENTION_HEADS],
             width = l->y.width / fields;
    uint32_t x = graph_slice(g, maps, 2, (int64_t)part * width, (int64_t)(part + 1) * width);
    x = graph_reshape(g, x, DIMS(0, fields, heads, width / heads));
    if (keys)
        return graph_transpose(g, x, DIMS(0, 2, 3, 1));
    return graph_transpose(g, x, DIMS(0, 2, 1, 3));
}

static uint32_t softmax_of(struct graph *g, uint32_t x)
{
    uint32_t y = graph_unary(g, "Softmax", x);
    graph_set(g, "axis", -1);
    return y;
}

void lower_attend(const struct layer *l, struct lower *w)
{
    struct graph *g = lower_graph(w);
    uint32_t fields = l->number_of[ATTENTION_FIELDS], heads = l->number_of[ATTENTION_HEADS],
             width = l->y.width / fields;
    float scale = 1.0f / sqrtf((float)(width / heads));
    uint32_t maps = graph_reshape(g, lower_read(w, l->x), DIMS(0, fields, l->x.width / fields));
    uint32_t query = attend_part(g, l, maps, 0, false), key = attend_part(g, l, maps, 1, true);
    uint32_t scores = graph_binary(g, "MatMul", query, key);
    uint32_t share = softmax_of(g, graph_binary(g, "Mul", scores, graph_number(g, scale)));
    uint32_t y = graph_binary(g, "MatMul", share, attend_part(g, l, maps, 2, false));
    y = graph_reshape(g, graph_transpose(g, y, DIMS(0, 2, 1, 3)), DIMS(0, l->y.width));
    uint32_t residual;
    if (l->z.tensor != TENSOR_NONE)
        residual = lower_read(w, l->z);
    else
        residual = graph_reshape(g, graph_slice(g, maps, 2, 3 * (int64_t)width, 4 * (int64_t)width),
                                 DIMS(0, l->y.width));
    lower_write(w, l->y, graph_binary(g, "Add", y, residual));
}

/* (1, width): the layers that read it spread it over the batch */
void lower_context(const struct layer *l, struct lower *w)
{
    lower_write(w, l->y, lower_parameter(w, l->parameter[1], DIMS(1, l->y.width)));
}

void lower_gate(const struct layer *l, struct lower *w)
{
    struct graph *g = lower_graph(w);
    uint32_t y = graph_binary(g, "Mul", lower_read(w, l->x), lower_read(w, l->z));
    lower_write(w, l->y, graph_binary(g, "Mul", y, graph_number(g, 2.0f)));
}

/* A vector of zeros adds weight * 0, so the end of a shorter sequence changes nothing. */
void lower_sequence(const struct layer *l, struct lower *w)
{
    struct graph *g = lower_graph(w);
    uint32_t dim = lower_plan_of(w)->dim, layers = l->number_of[SEQUENCE_LAYERS], in = 4 * dim;
    uint32_t h = lower_vectors(w, l->number_of[SEQUENCE_FIELD]);
    uint32_t t = graph_reshape(g, lower_read(w, l->x), DIMS(0, 1, dim));
    t = graph_binary(g, "Expand", t, graph_unary(g, "Shape", h));
    uint32_t part[] = {h, t, graph_binary(g, "Sub", h, t), graph_binary(g, "Mul", h, t)};
    uint32_t x = graph_concat(g, part, 4, 2);
    for (uint32_t i = 0; i <= layers; i++) {
        uint32_t out = i < layers ? l->number_of[SEQUENCE_WIDTHS + i] : 1;
        x = rows_linear(g, x, lower_parameter(w, l->parameter[2 * i], DIMS(out, in)));
        x = graph_binary(g, "Add", x, lower_parameter(w, l->parameter[2 * i + 1], DIMS(out)));
        if (i < layers)
            x = lower_act(w, l->act, x);
        in = out;
    }
    lower_write(w, l->y, graph_sum(g, graph_binary(g, "Mul", x, h), 1, false));
}

/* ---- mix.c ----------------------------------------------------------------------------------- */

/* The softmax of a gate (batch, choices); with top_k over the largest ones, of equal ones the
 * first, and 0 for the others. */
static uint32_t share_of(struct graph *g, uint32_t gate, uint32_t top_k)
{
    if (top_k == 0)
        return softmax_of(g, gate);
    int64_t k = top_k;
    uint32_t largest = graph_binary(g, "TopK", gate, graph_integers(g, &k, 1));
    graph_set(g, "axis", -1);
    uint32_t chosen = graph_second(g);
    uint32_t zeros = graph_unary(g, "ConstantOfShape", graph_unary(g, "Shape", gate));
    uint32_t share = softmax_of(g, largest);
    share = graph_node(g, "ScatterElements", (uint32_t[]){zeros, chosen, share}, 3);
    graph_set(g, "axis", 1);
    return share;
}

/* layer_choose, whose shares are these, has no operator. */
void lower_mix(const struct layer *l, struct lower *w)
{
    struct graph *g = lower_graph(w);
    uint32_t tasks = l->number_of[MIX_TASKS], shared = l->number_of[MIX_SHARED],
             own = l->number_of[MIX_OWN], choices = shared + own, width = l->y.width / tasks;
    for (uint32_t t = 0; t < tasks; t++) {
        uint32_t part[2], parts = 0;
        if (shared > 0)
            part[parts++] = lower_read(w, plan_columns(l->x, 0, shared * width));
        if (own > 0)
            part[parts++] =
                lower_read(w, plan_columns(l->x, (shared + t * own) * width, own * width));
        uint32_t outputs = parts == 1 ? part[0] : graph_concat(g, part, parts, 1);
        uint32_t gate = lower_read(w, plan_columns(l->z, t * choices, choices));
        uint32_t share =
            graph_reshape(g, share_of(g, gate, l->number_of[MIX_TOP_K]), DIMS(0, 1, choices));
        uint32_t y =
            graph_binary(g, "MatMul", share, graph_reshape(g, outputs, DIMS(0, choices, width)));
        lower_write(w, plan_columns(l->y, t * width, width), graph_reshape(g, y, DIMS(0, width)));
    }
}
