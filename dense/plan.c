/* plan.c: putting the parts of a model together. */
#include "dense/plan.h"

#include "dense/act.h"
#include "dense/fc.h"
#include "dense/fm.h"
#include "dense/norm.h"
#include "dense/pool.h"
#include "proto/base/assert.h"

#include <math.h>
#include <string.h>

static const struct init_spec init_zero = {INIT_ZERO, 0.0f};
static const struct init_spec init_one = {INIT_CONSTANT, 1.0f};

/* Glorot, Bengio 2010: keeps the deviation of activations and gradients about the same from layer to layer. */
static struct init_spec init_xavier(uint32_t in, uint32_t out)
{
    return (struct init_spec){INIT_UNIFORM, (float)sqrt(6.0 / ((double)in + out))};
}

static uint32_t plan_tensor(struct plan *p, uint32_t width, bool whole, bool state)
{
    SHOAL_ASSERT(p->tensor_count < PLAN_TENSORS_MAX);
    p->tensor[p->tensor_count] = (struct tensor){.width = width, .whole = whole, .state = state};
    return p->tensor_count++;
}

void plan_layer(struct plan *p, struct layer layer)
{
    SHOAL_ASSERT(p->layer_count < PLAN_LAYERS_MAX && layer.ops);
    layer.number = p->layer_count;
    p->layer[p->layer_count++] = layer;
}

void plan_first_order(struct plan *p, bool vectors)
{
    uint32_t vector_floats = p->shape.fields * p->dim;
    uint32_t in = vector_floats + p->shape.numerics;

    if (vectors) {
        p->input = plan_tensor(p, in, p->by_batch, false);
        p->input_gradient = plan_tensor(p, vector_floats, p->by_batch, false);
    }
    plan_layer(p, (struct layer){.ops = &pool_layer,
                                 .out = in,
                                 .y = p->input,
                                 .dy = p->input_gradient,
                                 .bias = block_add(&p->dense, 1, init_zero)});
    if (p->shape.numerics > 0)
        plan_layer(p, (struct layer){.ops = &head_layer,
                                     .in = p->shape.numerics,
                                     .out = 1,
                                     .x = TENSOR_NUMERIC,
                                     .dx = TENSOR_NONE,
                                     .weight = block_add(&p->dense, p->shape.numerics, init_zero)});
}

void plan_pairs(struct plan *p)
{
    plan_layer(p, (struct layer){.ops = &fm_layer,
                                 .in = p->tensor[p->input].width,
                                 .x = p->input,
                                 .dx = p->input_gradient,
                                 .dx_width = p->shape.fields * p->dim,
                                 .state = plan_tensor(p, p->dim, p->by_batch, false)});
}

/* Linear, then batch norm where the job has it, then activation with dropout. Batch norm brings a shift of its own, so
 * the linear layer before it has no bias. Returns the tensor of the layer's output. */
static uint32_t plan_hidden(struct plan *p, struct layer linear)
{
    bool norm = p->by_batch;
    uint32_t out = linear.out;

    linear.ops = &fc_layer;
    linear.weight = block_add(&p->dense, (size_t)linear.in * out, init_xavier(linear.in, out));
    linear.y = plan_tensor(p, out, norm, false);
    plan_layer(p, linear);

    struct layer act = {.ops = &act_layer,
                        .out = out,
                        .y = linear.y,
                        .dy = linear.dy,
                        .act = p->job->model.activation,
                        .dropout = p->job->model.dropout,
                        .bias = PARAMETER_NONE};
    if (norm) {
        act.y = plan_tensor(p, out, true, false);
        plan_layer(p, (struct layer){.ops = &norm_layer,
                                     .out = out,
                                     .x = linear.y,
                                     .y = act.y,
                                     .dy = linear.dy,
                                     .state = plan_tensor(p, norm_state_floats(out), true, true),
                                     .weight = block_add(&p->dense, out, init_one),
                                     .bias = block_add(&p->dense, out, init_zero),
                                     .mean = block_add(&p->stats, out, init_zero),
                                     .variance = block_add(&p->stats, out, init_one)});
    } else {
        act.bias = block_add(&p->dense, out, init_zero);
    }
    plan_layer(p, act);
    return act.y;
}

void plan_network(struct plan *p)
{
    const uint32_t *hidden = p->job->model.hidden.at;
    uint32_t hidden_count = p->job->model.hidden.count, widest = 0;
    for (uint32_t i = 0; i < hidden_count; i++)
        widest = hidden[i] > widest ? hidden[i] : widest;

    /* A layer's gradient is read while that of the layer before is written: two buffers take turns. */
    uint32_t gradient[2] = {plan_tensor(p, widest, p->by_batch, false), plan_tensor(p, widest, p->by_batch, false)};
    uint32_t x = p->input, in = p->tensor[p->input].width;
    for (uint32_t i = 0; i < hidden_count; i++) {
        x = plan_hidden(p, (struct layer){.in = in,
                                          .out = hidden[i],
                                          .x = x,
                                          .dx = i == 0 ? p->input_gradient : gradient[(i + 1) % 2],
                                          .dx_width = i == 0 ? p->shape.fields * p->dim : in,
                                          .dy = gradient[i % 2]});
        in = hidden[i];
    }
    plan_layer(p, (struct layer){.ops = &head_layer,
                                 .in = in,
                                 .out = 1,
                                 .x = x,
                                 .dx = gradient[(hidden_count - 1) % 2],
                                 .dx_width = in,
                                 .weight = block_add(&p->dense, in, init_xavier(in, 1))});
}

/* On the way back the network has written the gradient of the input before the pairs come to it. */
static void plan_share_input(struct plan *p)
{
    bool written = false;
    for (uint32_t i = p->layer_count; i-- > 0;) {
        struct layer *l = &p->layer[i];
        if (p->input_gradient == TENSOR_NONE || l->dx != p->input_gradient)
            continue;
        SHOAL_ASSERT(!written || l->ops == &fm_layer);
        l->add = written;
        written = true;
    }
}

static int plan_check(const struct job *job, const struct model_shape *shape, struct err *e)
{
    enum model_kind kind = job->model.kind;
    if (job->table_count != 1)
        return err_set(e, SHOAL_E_CONFIG,
                       "tables: %zu tables are given; a model of this version has exactly one, for all fields",
                       job->table_count);
    if (shape->fields > LIMIT_FIELDS || shape->numerics > LIMIT_NUMERIC)
        return err_set(e, SHOAL_E_CONFIG, "features: %u fields and %u numbers are over the limits of %u and %u",
                       shape->fields, shape->numerics, LIMIT_FIELDS, LIMIT_NUMERIC);
    if (kind == MODEL_LR || kind == MODEL_PROBE)
        return 0;
    if (job->table[0].dim == 0 || job->table[0].dim + 1 > LIMIT_WIDTH)
        return err_set(e, SHOAL_E_CONFIG, "tables[0].dim is %u; a model with vectors needs 1 to %u", job->table[0].dim,
                       LIMIT_WIDTH - 1);
    if (kind == MODEL_FM)
        return 0;
    if (job->model.hidden.count == 0 || job->model.hidden.count > 16)
        return err_set(e, SHOAL_E_CONFIG,
                       "model.hidden names %u layers; a model with a network needs 1 to 16, as in [400, 400]",
                       job->model.hidden.count);
    double in = (double)shape->fields * job->table[0].dim + shape->numerics, floats = 0;
    for (uint32_t i = 0; i < job->model.hidden.count; i++) {
        if (job->model.hidden.at[i] == 0)
            return err_set(e, SHOAL_E_CONFIG, "model.hidden: a layer cannot have 0 outputs");
        floats += (in + 3 + BLOCK_FLOATS) * job->model.hidden.at[i];
        in = job->model.hidden.at[i];
    }
    if (floats > (double)BLOCK_TABLE_FLOATS_MAX)
        return err_set(e, SHOAL_E_CONFIG,
                       "model.hidden makes %.0f weights, over the limit of %zu; make the layers narrower", floats,
                       BLOCK_TABLE_FLOATS_MAX);
    if (shape->fields == 0 && shape->numerics == 0)
        return err_set(e, SHOAL_E_CONFIG, "features: there are neither fields nor numbers to learn from");
    return 0;
}

int plan_build(const struct job *job, const struct model_shape *shape, struct plan *out, struct err *e)
{
    static void (*const build[])(struct plan *) = {
        [MODEL_LR] = model_lr_plan,         [MODEL_FM] = model_fm_plan,       [MODEL_WIDE_DEEP] = model_wide_deep_plan,
        [MODEL_DEEPFM] = model_deepfm_plan, [MODEL_PROBE] = model_probe_plan,
    };
    int code = plan_check(job, shape, e);
    if (code != 0)
        return code;

    if (job->model.kind >= sizeof build / sizeof build[0] || !build[job->model.kind])
        return err_set(e, SHOAL_E_CONFIG, "model.kind: not built into this version");
    bool vectors = job->model.kind != MODEL_LR && job->model.kind != MODEL_PROBE;
    bool network = job->model.kind == MODEL_WIDE_DEEP || job->model.kind == MODEL_DEEPFM;
    memset(out, 0, sizeof *out);
    out->job = job;
    out->shape = *shape;
    out->dim = vectors ? job->table[0].dim : 0;
    out->has_loss = job->model.kind != MODEL_PROBE;
    out->by_batch = network && job->model.norm == NORM_BATCH;
    out->input = out->input_gradient = TENSOR_NONE;
    for (uint32_t t = 0; t < TENSOR_FIRST_FREE; t++)
        plan_tensor(out, t == TENSOR_NUMERIC ? 0 : 1, true, false);
    build[job->model.kind](out);
    plan_share_input(out);
    out->job = NULL;
    return 0;
}
