/* parts.c: the layers and parts that most models are made of: pooling, linear layers with
 * activation and dropout, heads. */
#include "dense/layer/lower.h"
#include "dense/layer/plan.h"
#include "proto/base/assert.h"
#include "proto/base/rng.h"

/* ---- pooling: rows -> input, and back -------------------------------------------------------- */

struct pool_args layer_pool_args(const struct pass *p, uint32_t first, uint32_t count)
{
    SHOAL_ASSERT(first + count <= p->in->examples);
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
        .factor = p->in->factor,
        .rows = p->in->rows,
        .numeric = p->in->numeric,
        .table = p->field_table != NULL ? p->step->table : NULL, /* NULL: one dim for all */
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
    struct pool_args a = layer_pool_args(p, first, count);
    float *y = NULL; /* NULL: the rows hold no vectors */
    uint32_t ldy = 0;
    if (l->y.tensor != TENSOR_NONE) {
        y = pass_at(p, l->y, first);
        ldy = pass_ld(p, l->y);
        if (l->y.width == p->vectors)
            a.numerics = 0; /* y has no columns for them */
    }

    p->k->bias_forward(p->s, count, p->tasks, pass_parameter(p, l, 1), pass_at(p, logit(p), first));
    p->k->pool_forward(p->s, &a, y, ldy, pass_at(p, logit(p), first));
}

static void pool_backward(const struct layer *l, struct pass *p, uint32_t first, uint32_t count)
{
    struct pool_args a = layer_pool_args(p, first, count);
    const float *dlogit = pass_gradient_at(p, logit(p), first);
    const float *dy = NULL; /* NULL: the rows hold no vectors */
    uint32_t lddy = 0;
    if (l->y.tensor != TENSOR_NONE) {
        dy = pass_gradient_at(p, l->y, first);
        lddy = pass_gradient_ld(p, l->y);
    }

    p->k->pool_backward(p->s, &a, dy, lddy, dlogit, p->out->row_gradients);
    p->k->bias_backward(p->s, count, p->tasks, dlogit, pass_parameter_gradient(p, l, 1));
}

const struct layer_ops layer_pool = {.name = "pool",
                                     .forward = pool_forward,
                                     .backward = pool_backward,
                                     .lower = lower_pool,
                                     .by_values = true};

/* ---- dropout --------------------------------------------------------------------------------- */

void layer_dropout_key(uint64_t seed, uint32_t lane, uint64_t batch, uint32_t layer,
                       uint32_t out[2])
{
    struct rng r = rng_of(seed, ((uint64_t)layer << 32) | lane, batch);
    uint64_t key = rng_next(&r);
    out[0] = (uint32_t)key;
    out[1] = (uint32_t)(key >> 32);
}

struct dropout_mask layer_dropout_mask(double rate, const uint32_t *key)
{
    SHOAL_ASSERT(rate >= 0.0 && rate < 1.0);
    return (struct dropout_mask){
        .key = key, .threshold = (uint32_t)(rate * 0x1p24), .scale = (float)(1.0 / (1.0 - rate))};
}

struct dropout_mask layer_dropout(const struct layer *l, const struct pass *p)
{
    SHOAL_ASSERT(l->number < PASS_LAYERS_MAX);
    struct dropout_mask mask =
        layer_dropout_mask(p->train ? l->dropout : 0.0, p->step->key[l->number]);
    mask.live = p->live;
    if (l->rows != TENSOR_NONE) {
        struct mix_rows rows = pass_rows(p, l->rows);
        mask.row = rows.row + (size_t)l->expert * rows.count;
    }
    return mask;
}

/* ---- activation and dropout, in place -------------------------------------------------------- */

static void act_forward(const struct layer *l, struct pass *p, uint32_t first, uint32_t count)
{
    struct dropout_mask mask = layer_dropout(l, p);
    p->k->act_forward(p->s, l->act, &mask, first, count, l->y.width, pass_parameter(p, l, 1),
                      pass_at(p, l->y, first), pass_ld(p, l->y));
}

static void act_backward(const struct layer *l, struct pass *p, uint32_t first, uint32_t count)
{
    struct dropout_mask mask = layer_dropout(l, p);
    p->k->act_backward(p->s, l->act, &mask, first, count, l->y.width, pass_at(p, l->y, first),
                       pass_ld(p, l->y), pass_gradient_at(p, l->y, first),
                       pass_gradient_ld(p, l->y), pass_parameter_gradient(p, l, 1));
}

const struct layer_ops layer_act = {
    .name = "act", .forward = act_forward, .backward = act_backward, .lower = lower_act_layer};

/* ---- linear layers, heads -------------------------------------------------------------------- */

/* Gathers the rows of x that the layer's expert computes. Another expert uses the same place next,
 * so they are gathered again on the way back. */
static struct mix_gather_args fc_gather(const struct layer *l, const struct pass *p, uint32_t first,
                                        uint32_t count)
{
    struct mix_gather_args g = {.expert = l->expert,
                                .count = count,
                                .width = l->x.width,
                                .rows = pass_rows(p, l->rows),
                                .x = pass_at(p, l->x, first),
                                .ldx = pass_ld(p, l->x),
                                .y = pass_row(p, l->state[0], first),
                                .ldy = p->tensor[l->state[0]].ld};
    p->k->mix.gather(p->s, &g);
    return g;
}

static bool fc_gathers(const struct layer *l)
{
    return l->state[0] != TENSOR_NONE;
}

static struct linear_args fc_args(const struct layer *l, const struct pass *p, uint32_t first,
                                  uint32_t count)
{
    struct linear_args a = {.first = first,
                            .count = count,
                            .in = l->x.width,
                            .out = l->y.width,
                            .x = pass_at(p, l->x, first),
                            .ldx = pass_ld(p, l->x),
                            .padded = pass_padded(p, l->x),
                            .w = pass_parameter(p, l, 0),
                            .bias = pass_parameter(p, l, 1),
                            .act = l->act,
                            .mask = layer_dropout(l, p),
                            .y = pass_at(p, l->y, first),
                            .ldy = pass_ld(p, l->y),
                            .keep = p->train};
    if (fc_gathers(l)) {
        struct mix_gather_args g = fc_gather(l, p, first, count);
        a.x = g.y;
        a.ldx = g.ldy;
        a.padded = a.keep = false;
    }
    return a;
}

static void fc_forward(const struct layer *l, struct pass *p, uint32_t first, uint32_t count)
{
    struct linear_args a = fc_args(l, p, first, count);
    p->k->linear_forward(p->s, &a);
}

/* Hands the gradient of the gathered rows on to x. */
static void fc_scatter(const struct layer *l, struct pass *p, uint32_t first)
{
    struct mix_gather_args g = {.expert = l->expert,
                                .width = pass_wanted(p, l->x),
                                .rows = pass_rows(p, l->rows),
                                .dy = pass_row(p, l->state[1], first),
                                .lddy = p->tensor[l->state[1]].ld,
                                .dx = pass_gradient_at(p, l->x, first),
                                .lddx = pass_gradient_ld(p, l->x),
                                .add = l->add};
    if (g.width > 0)
        p->k->mix.scatter(p->s, &g);
}

static void fc_backward(const struct layer *l, struct pass *p, uint32_t first, uint32_t count)
{
    bool gathers = fc_gathers(l);
    struct linear_args a = fc_args(l, p, first, count);
    a.dy = pass_gradient_at(p, l->y, first);
    a.lddy = pass_gradient_ld(p, l->y);
    a.dw = pass_parameter_gradient(p, l, 0);
    a.dbias = pass_parameter_gradient(p, l, 1);
    a.dx = pass_gradient_at(p, l->x, first);
    a.lddx = pass_gradient_ld(p, l->x);
    a.dx_width = pass_wanted(p, l->x);
    a.add = l->add;
    if (gathers && a.dx != NULL) {
        a.dx = pass_row(p, l->state[1], first);
        a.lddx = p->tensor[l->state[1]].ld;
        a.add = false;
    }
    p->k->linear_backward(p->s, &a);
    if (gathers)
        fc_scatter(l, p, first);
}

const struct layer_ops layer_fc = {
    .name = "fc", .forward = fc_forward, .backward = fc_backward, .lower = lower_fc, .mixes = true};

static void head_forward(const struct layer *l, struct pass *p, uint32_t first, uint32_t count)
{
    p->k->head_forward(p->s, count, l->x.width, pass_at(p, l->x, first), pass_ld(p, l->x),
                       pass_parameter(p, l, 0), pass_at(p, l->y, first), pass_ld(p, l->y));
}

static void head_backward(const struct layer *l, struct pass *p, uint32_t first, uint32_t count)
{
    p->k->head_backward(p->s, count, l->x.width, pass_at(p, l->x, first), pass_ld(p, l->x),
                        pass_parameter(p, l, 0), pass_gradient_at(p, l->y, first),
                        pass_gradient_ld(p, l->y), pass_parameter_gradient(p, l, 0),
                        pass_gradient_at(p, l->x, first), pass_gradient_ld(p, l->x),
                        pass_wanted(p, l->x), l->add);
}

const struct layer_ops layer_head = {
    .name = "head", .forward = head_forward, .backward = head_backward, .lower = lower_head};

/* ---- parts ----------------------------------------------------------------------------------- */

struct view plan_input(struct plan *p, bool numerics, uint32_t extra)
{
    SHOAL_ASSERT(p->layer_count == 0);
    uint32_t vectors = p->column[p->shape.fields];
    uint32_t copied = numerics ? p->shape.numerics : 0;
    struct view input = VIEW_NONE, pooled = VIEW_NONE;
    if (p->dim > 0) {
        input = plan_tensor(p, vectors + copied + extra);
        /* the numerics need no gradient; but wanted columns are the leading ones, so with columns
         * behind the numerics all are wanted */
        if (extra == 0)
            p->tensor[input.tensor].wanted = vectors;
        pooled = plan_columns(input, 0, vectors + copied);
        p->tensor[input.tensor].by_field = true;
    }
    plan_scope(p, "input");
    p->by_label = true;
    plan_layer(p, &layer_pool, VIEW_NONE, pooled)->parameter[1] = plan_zeros(p, "bias", p->tasks);
    p->by_label = false;
    if (p->first_order && p->shape.numerics > 0) {
        struct view numeric = {TENSOR_NUMERIC, 0, p->shape.numerics};
        struct layer *l = plan_layer(p, &layer_head, numeric, plan_logit(p, 0));
        l->parameter[0] = plan_parameter(p, "numbers", 1, p->shape.numerics, numeric,
                                         (struct init_spec){INIT_ZERO, 0.0f}, true);
    }
    plan_scope(p, "hidden");
    return input;
}

struct view plan_vectors(const struct plan *p, struct view input)
{
    return plan_columns(input, 0, p->column[p->shape.fields]);
}

struct view plan_field(const struct plan *p, struct view input, uint32_t field)
{
    SHOAL_ASSERT(field < p->shape.fields);
    return plan_columns(input, p->column[field], p->column[field + 1] - p->column[field]);
}

struct view plan_linear(struct plan *p, struct view x, uint32_t out, enum activation act,
                        double dropout, enum norm_kind norm, struct view y)
{
    bool normed = norm != NORM_NONE;
    SHOAL_ASSERT(out > 0 && (y.tensor == TENSOR_NONE || y.width == out));
    struct view result = y;
    if (y.tensor == TENSOR_NONE)
        result = plan_tensor(p, out);
    struct view product = result;
    if (normed)
        product = plan_tensor(p, out);

    struct layer *l = plan_layer(p, &layer_fc, x, product);
    plan_step(p);
    l->parameter[0] = plan_weights(p, out, x);
    if (!normed) {
        l->parameter[1] = plan_zeros(p, "bias", out);
        l->act = act;
        l->dropout = dropout;
        return result;
    }

    if (norm == NORM_BATCH) {
        plan_batch_norm(p, product, result);
    } else if (dropout > 0) {
        plan_layer_norm(p, product, 1, ACT_NONE, result);
    } else { /* without dropout, layer norm's kernel applies the activation itself */
        plan_layer_norm(p, product, 1, act, result);
        act = ACT_NONE;
    }
    if (act != ACT_NONE || dropout > 0) {
        l = plan_layer(p, &layer_act, result, result);
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
    struct layer *l = plan_layer(p, &layer_head, x, plan_logit(p, task));
    uint32_t steps = p->steps;
    p->steps = 0; /* the head is named for the scope alone, without a step */
    l->parameter[0] = plan_parameter(p, "head", 1, x.width, x, plan_xavier(1, x.width), true);
    p->steps = steps;
}
