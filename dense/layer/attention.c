/* attention.c: layers whose weights depend on the example: self-attention over fields, feature
 * gates, and sequences weighted against a target. */
#include "dense/layer/lower.h"
#include "dense/layer/plan.h"
#include "proto/base/assert.h"

#include <stdio.h>

/* ---- self-attention -------------------------------------------------------------------------- */

/* Multi-head self-attention over field vectors (Song et al. 2019, after Vaswani et al.
 * 2017).
 *
 * A layer takes the example's fields as rows and gives each a new vector of `width` floats, of
 * which each head computes width / heads:
 *     y = act(norm(softmax(Q K' / sqrt(width / heads)) V + R)),
 * Q, K and V are linear maps of the fields. R, the residual, is the input itself where that is
 * `width` wide, else a fourth linear map. The maps are one matrix product over all fields of all
 * examples. */

/* linear maps */

/* true: neither the input nor its gradient has a gap between one example's fields and the next
 * example's. */
static bool project_whole(const struct layer *l, const struct pass *p)
{
    return pass_ld(p, l->x) == l->x.width &&
           (!p->train || pass_wanted(p, l->x) == 0 || pass_gradient_ld(p, l->x) == l->x.width);
}

/* The arguments for field f of all examples, or (`whole`) for all fields at once. */
static struct linear_args project_args(const struct layer *l, const struct pass *p, uint32_t first,
                                       uint32_t count, uint32_t f, bool whole)
{
    uint32_t fields = l->number_of[ATTENTION_FIELDS], in = l->x.width / fields,
             out = l->y.width / fields;
    struct linear_args a = {.first = first,
                            .count = count,
                            .in = in,
                            .out = out,
                            .x = pass_at(p, l->x, first) + (size_t)f * in,
                            .ldx = pass_ld(p, l->x),
                            .w = pass_parameter(p, l, 0),
                            .act = ACT_NONE,
                            .y = pass_at(p, l->y, first) + (size_t)f * out,
                            .ldy = l->y.width};
    if (whole) {
        a.count = count * fields;
        a.ldx = in;
        a.ldy = out;
    }
    return a;
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

const struct layer_ops layer_project = {.name = "project",
                                        .forward = project_forward,
                                        .backward = project_backward,
                                        .lower = lower_project};

/* attention */

static struct attend_args attend_args_of(const struct layer *l, const struct pass *p,
                                         uint32_t first, uint32_t count,
                                         const struct dropout_mask *mask)
{
    uint32_t fields = l->number_of[ATTENTION_FIELDS], heads = l->number_of[ATTENTION_HEADS];
    SHOAL_ASSERT(l->x.width == 3 * l->y.width || l->x.width == 4 * l->y.width);
    SHOAL_ASSERT(l->z.tensor == TENSOR_NONE || l->z.width == l->y.width);
    SHOAL_ASSERT(p->tensor[l->state[0]].width == attend_share_floats(fields, heads));
    struct attend_args a = {
        .first = first,
        .count = count,
        .fields = fields,
        .heads = heads,
        .width = l->y.width / fields,
        .parts = l->x.width / l->y.width,
        .x = pass_at(p, l->x, first),
        .y = pass_at(p, l->y, first),
        .share =
            pass_at(p, (struct view){l->state[0], 0, attend_share_floats(fields, heads)}, first),
        .work = p->data[l->state[1]],
        .mask = mask};
    if (l->z.tensor != TENSOR_NONE) {
        a.residual = pass_at(p, l->z, first);
        a.ldresidual = pass_ld(p, l->z);
    }
    return a;
}

static void attend_forward(const struct layer *l, struct pass *p, uint32_t first, uint32_t count)
{
    struct dropout_mask mask = layer_dropout(l, p);
    struct attend_args a = attend_args_of(l, p, first, count, &mask);
    p->k->attention.attend_forward(p->s, &a);
}

static void attend_backward(const struct layer *l, struct pass *p, uint32_t first, uint32_t count)
{
    struct dropout_mask mask = layer_dropout(l, p);
    struct attend_args a = attend_args_of(l, p, first, count, &mask);
    a.dy = pass_gradient_at(p, l->y, first);
    a.dx = pass_gradient_at(p, l->x, first);
    if (l->z.tensor != TENSOR_NONE) {
        a.dresidual = pass_gradient_at(p, l->z, first);
        a.lddresidual = pass_gradient_ld(p, l->z);
    }
    a.add = l->add_z;
    p->k->attention.attend_backward(p->s, &a);
}

const struct layer_ops layer_attend = {.name = "attend",
                                       .forward = attend_forward,
                                       .backward = attend_backward,
                                       .lower = lower_attend};

/* the part */

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
    struct view maps = plan_packed(p, plan_tensor(p, fields * parts * width)),
                sum = plan_packed(p, plan_tensor(p, fields * width));
    struct layer *l = fields_layer(plan_layer(p, &layer_project, x, maps), fields, heads);
    /* initial weights as if each map were a matrix of its own */
    char maps_of[24];
    (void)snprintf(maps_of, sizeof maps_of, "maps_of_%u", heads);
    plan_step(p);
    l->parameter[0] = plan_parameter(p, maps_of, parts * width, x.width / fields, VIEW_NONE,
                                     plan_xavier(width, x.width / fields), true);

    l = fields_layer(plan_layer(p, &layer_attend, maps, sum), fields, heads);
    l->z = same ? x : VIEW_NONE;
    l->dropout = p->job->model.dropout;
    l->state[0] = plan_state(p, attend_share_floats(fields, heads));
    l->state[1] = work;

    if (p->job->model.norm == NORM_NONE) {
        plan_layer(p, &layer_act, sum, sum)->act = ACT_RELU;
        return sum;
    }
    struct view y = plan_packed(p, plan_tensor(p, fields * width));
    plan_layer_norm(p, sum, fields, ACT_RELU, y);
    return y;
}

struct view plan_attention(struct plan *p, struct view x, uint32_t fields, uint32_t layers,
                           uint32_t heads, uint32_t width)
{
    SHOAL_ASSERT(fields > 0 && x.width % fields == 0 && width % heads == 0);
    plan_packed(p, x); /* so that a layer's maps are one product */
    uint32_t work = plan_state_whole(p, attend_work_floats(fields, width / heads));
    for (uint32_t i = 0; i < layers; i++)
        x = attention_layer(p, x, fields, heads, width, work);
    return x;
}

/* ---- feature gates --------------------------------------------------------------------------- */

/* Feature gates (Mao et al. 2023): a stream's input is multiplied, number by number, with 2 *
 * sigmoid(network(context)). The factor is 1 before the gate has learned, and lies between 0 and 2.
 * The paper calls the context the condition. It is the vector of a field, such as the user's for
 * one stream and the item's for the other, or a learned vector that all examples share. The
 * paper's code gives the gates separate vectors of that field. Here the gates read the model's own
 * vectors, which learn from the gates and from the streams. */

static const struct dropout_mask keep_all = {.threshold = 0, .scale = 1.0f};

static void context_forward(const struct layer *l, struct pass *p, uint32_t first, uint32_t count)
{
    float *y = pass_at(p, l->y, first);
    uint32_t ldy = pass_ld(p, l->y);
    SHOAL_ASSERT(ldy - l->y.width < TENSOR_ROUND); /* y is the only view of its tensor */
    p->k->zero(p->s, y, (size_t)count * ldy * sizeof *y);
    p->k->act_forward(p->s, ACT_NONE, &keep_all, first, count, l->y.width, pass_parameter(p, l, 1),
                      y, ldy);
}

static void context_backward(const struct layer *l, struct pass *p, uint32_t first, uint32_t count)
{
    p->k->act_backward(p->s, ACT_NONE, &keep_all, first, count, l->y.width, pass_at(p, l->y, first),
                       pass_ld(p, l->y), pass_gradient_at(p, l->y, first),
                       pass_gradient_ld(p, l->y), pass_parameter_gradient(p, l, 1));
}

const struct layer_ops layer_context = {.name = "context",
                                        .forward = context_forward,
                                        .backward = context_backward,
                                        .lower = lower_context};

#define GATE_FACTOR 2.0f

static void gate_forward(const struct layer *l, struct pass *p, uint32_t first, uint32_t count)
{
    SHOAL_ASSERT(l->x.width == l->y.width && l->z.width == l->y.width);
    p->k->attention.gate_forward(p->s, count, l->y.width, GATE_FACTOR, pass_at(p, l->x, first),
                                 pass_ld(p, l->x), pass_at(p, l->z, first), pass_ld(p, l->z),
                                 pass_at(p, l->y, first), pass_ld(p, l->y));
}

static void gate_backward(const struct layer *l, struct pass *p, uint32_t first, uint32_t count)
{
    p->k->attention.gate_backward(
        p->s, count, l->y.width, GATE_FACTOR, pass_at(p, l->x, first), pass_ld(p, l->x),
        pass_at(p, l->z, first), pass_ld(p, l->z), pass_gradient_at(p, l->y, first),
        pass_gradient_ld(p, l->y), pass_gradient_at(p, l->z, first), pass_gradient_ld(p, l->z),
        pass_gradient_at(p, l->x, first), pass_gradient_ld(p, l->x), pass_wanted(p, l->x), l->add);
}

const struct layer_ops layer_gate = {
    .name = "gate", .forward = gate_forward, .backward = gate_backward, .lower = lower_gate};

struct view plan_context(struct plan *p, uint32_t width)
{
    struct view context = plan_tensor(p, width);
    /* A context of zeros would learn nothing: with biases of zero, relu passes no gradient back. */
    plan_layer(p, &layer_context, VIEW_NONE, context)->parameter[1] =
        plan_parameter(p, "context", 1, width, VIEW_NONE, plan_xavier(width, width), false);
    return context;
}

struct view plan_gate(struct plan *p, struct view x, struct view context,
                      const struct widths *hidden)
{
    struct view gate = context, y;
    for (uint32_t i = 0; i < hidden->count; i++)
        gate = plan_linear(p, gate, hidden->at[i], ACT_RELU, 0.0, NORM_NONE, VIEW_NONE);
    p->to_input = true;
    gate = plan_linear(p, gate, x.width, ACT_SIGMOID, 0.0, NORM_NONE, VIEW_NONE);
    p->to_input = false;
    y = plan_tensor(p, x.width);
    plan_layer(p, &layer_gate, x, y)->z = gate;
    return y;
}

/* ---- sequences ------------------------------------------------------------------------------- */

/* The values of a field, each weighted against a target, as in DIN's activation unit (Zhou et al.
 * 2018):
 *     y = sum over the values of a(h, t) h
 * where h is a value's vector, t the target's, and a(h, t) a number from a small network over
 * [h, t, h - t, h * t]. The weights are not normalized: their sum measures the strength of the
 * user's interest. A field without values gives zeros.
 *
 * Values are processed in chunks of at most SEQUENCE_ROOM, and a chunk's end may cut a sequence.
 * The small network's activations exist for one chunk at a time and are computed again on the way
 * back, so memory is bounded for sequences of any length. The CPU takes the field's values alone. A
 * device takes all entries of `index` in turn and writes zeros for those of other fields, so that
 * the host needs no counts. */

#define SEQUENCE_ROOM 8192u

/* the state: the arrays of one chunk */

struct sequence_state {
    struct sequence_chunk chunk;
    float *features, *dfeatures;                                       /* (room, 4 * dim) */
    float *hidden[SEQUENCE_HIDDEN_MAX], *dhidden[SEQUENCE_HIDDEN_MAX]; /* (room, width) */
    float *weight, *dweight;                                           /* (room) */
};

static uint32_t hidden_width(const struct layer *l, uint32_t i)
{
    return l->number_of[SEQUENCE_WIDTHS + i];
}

static uint32_t sequence_state_floats(const struct layer *l, uint32_t dim)
{
    uint32_t floats = 2 + 2 * 4 * dim + 2;
    for (uint32_t i = 0; i < l->number_of[SEQUENCE_LAYERS]; i++)
        floats += 2 * hidden_width(l, i);
    return floats * SEQUENCE_ROOM;
}

static float *take(float **at, uint32_t width)
{
    float *taken = *at;
    *at += (size_t)width * SEQUENCE_ROOM;
    return taken;
}

static struct sequence_state sequence_state_of(const struct layer *l, const struct pass *p)
{
    float *at = p->data[l->state[0]];
    struct sequence_state s = {.chunk = {.rows = 0}};
    s.chunk.owner = (uint32_t *)(void *)take(&at, 1);
    s.chunk.value = (uint32_t *)(void *)take(&at, 1);
    s.features = take(&at, 4 * p->dim);
    s.dfeatures = take(&at, 4 * p->dim);
    s.weight = take(&at, 1);
    s.dweight = take(&at, 1);
    for (uint32_t i = 0; i < l->number_of[SEQUENCE_LAYERS]; i++) {
        s.hidden[i] = take(&at, hidden_width(l, i));
        s.dhidden[i] = take(&at, hidden_width(l, i));
    }
    SHOAL_ASSERT(at == p->data[l->state[0]] + p->tensor[l->state[0]].width);
    return s;
}

/* the small network over a chunk */

static struct linear_args hidden_args(const struct layer *l, const struct pass *p,
                                      const struct sequence_state *s, uint32_t i)
{
    uint32_t in = i > 0 ? hidden_width(l, i - 1) : 4 * p->dim, out = hidden_width(l, i);
    return (struct linear_args){.count = s->chunk.rows,
                                .in = in,
                                .out = out,
                                .x = i > 0 ? s->hidden[i - 1] : s->features,
                                .ldx = in,
                                .w = pass_parameter(p, l, 2 * i),
                                .bias = pass_parameter(p, l, 2 * i + 1),
                                .act = l->act,
                                .mask = keep_all,
                                .y = s->hidden[i],
                                .ldy = out};
}

static void chunk_weigh(const struct layer *l, struct pass *p, const struct sequence_args *a,
                        const struct sequence_state *s)
{
    uint32_t layers = l->number_of[SEQUENCE_LAYERS], width = hidden_width(l, layers - 1);
    p->k->attention.sequence_features(p->s, a, &s->chunk);
    for (uint32_t i = 0; i < layers; i++) {
        struct linear_args hidden = hidden_args(l, p, s, i);
        p->k->linear_forward(p->s, &hidden);
    }
    p->k->bias_forward(p->s, s->chunk.rows, 1, pass_parameter(p, l, 2 * layers + 1), s->weight);
    p->k->head_forward(p->s, s->chunk.rows, width, s->hidden[layers - 1], width,
                       pass_parameter(p, l, 2 * layers), s->weight, 1);
}

/* dweight -> dfeatures */
static void chunk_weigh_backward(const struct layer *l, struct pass *p,
                                 const struct sequence_state *s)
{
    uint32_t layers = l->number_of[SEQUENCE_LAYERS], width = hidden_width(l, layers - 1),
             rows = s->chunk.rows;
    p->k->bias_backward(p->s, rows, 1, s->dweight, pass_parameter_gradient(p, l, 2 * layers + 1));
    p->k->head_backward(p->s, rows, width, s->hidden[layers - 1], width,
                        pass_parameter(p, l, 2 * layers), s->dweight, 1,
                        pass_parameter_gradient(p, l, 2 * layers), s->dhidden[layers - 1], width,
                        width, false);
    for (uint32_t i = layers; i-- > 0;) {
        struct linear_args hidden = hidden_args(l, p, s, i);
        hidden.dy = s->dhidden[i];
        hidden.lddy = hidden.out;
        hidden.dw = pass_parameter_gradient(p, l, 2 * i);
        hidden.dbias = pass_parameter_gradient(p, l, 2 * i + 1);
        hidden.dx = i > 0 ? s->dhidden[i - 1] : s->dfeatures;
        hidden.lddx = hidden.dx_width = hidden.in;
        p->k->linear_backward(p->s, &hidden);
    }
}

/* the layer */

static struct sequence_args sequence_args_of(const struct layer *l, const struct pass *p,
                                             const struct sequence_state *s, uint32_t first,
                                             uint32_t count)
{
    SHOAL_ASSERT(l->x.width == p->dim && l->y.width == p->dim);
    return (struct sequence_args){.first = first,
                                  .count = count,
                                  .values = p->values,
                                  .row_count = p->in->row_count,
                                  .fields = p->shape->fields,
                                  .field = l->number_of[SEQUENCE_FIELD],
                                  .dim = p->dim,
                                  .first_order = p->first_order,
                                  .room = SEQUENCE_ROOM,
                                  .index = p->in->index,
                                  .offset = p->in->offset,
                                  .rows = p->in->rows,
                                  .target = pass_at(p, l->x, first),
                                  .ldtarget = pass_ld(p, l->x),
                                  .features = s->features,
                                  .weight = s->weight,
                                  .y = pass_at(p, l->y, first),
                                  .ldy = pass_ld(p, l->y)};
}

static void sequence_forward(const struct layer *l, struct pass *p, uint32_t first, uint32_t count)
{
    struct sequence_state s = sequence_state_of(l, p);
    struct sequence_args a = sequence_args_of(l, p, &s, first, count);
    a.kept = p->k->attention.sequence_begin(p->s, &a, false);
    while (p->k->attention.sequence_next(p->s, &a, &s.chunk)) {
        chunk_weigh(l, p, &a, &s);
        p->k->attention.sequence_pool(p->s, &a, &s.chunk);
    }
}

static void sequence_backward(const struct layer *l, struct pass *p, uint32_t first, uint32_t count)
{
    struct sequence_state s = sequence_state_of(l, p);
    struct sequence_args a = sequence_args_of(l, p, &s, first, count);
    a.dy = pass_gradient_at(p, l->y, first);
    a.lddy = pass_gradient_ld(p, l->y);
    a.dfeatures = s.dfeatures;
    a.dweight = s.dweight;
    a.dtarget = pass_gradient_at(p, l->x, first);
    a.lddtarget = pass_gradient_ld(p, l->x);
    a.row_gradients = p->out->row_gradients;
    a.kept = p->k->attention.sequence_begin(p->s, &a, true);
    while (p->k->attention.sequence_next(p->s, &a, &s.chunk)) {
        chunk_weigh(l, p, &a, &s);
        p->k->attention.sequence_pool_backward(p->s, &a, &s.chunk);
        chunk_weigh_backward(l, p, &s);
        p->k->attention.sequence_features_backward(p->s, &a, &s.chunk);
    }
    p->k->attention.sequence_end(p->s, &a);
}

const struct layer_ops layer_sequence = {.name = "sequence",
                                         .forward = sequence_forward,
                                         .backward = sequence_backward,
                                         .lower = lower_sequence,
                                         .by_values = true};

/* the part */

static void sequence_add(struct plan *p, struct view input, uint32_t field,
                         const struct widths *hidden, uint32_t *state)
{
    uint32_t in = 4 * p->dim;
    plan_scope(p, "sequence.%u.%u", p->shape.number[field],
               p->shape.number[p->shape.attend[field]]);
    struct layer *l =
        plan_layer(p, &layer_sequence, plan_columns(input, p->shape.attend[field] * p->dim, p->dim),
                   plan_columns(input, field * p->dim, p->dim));
    l->act = p->job->model.activation;
    l->number_of[SEQUENCE_FIELD] = field;
    l->number_of[SEQUENCE_LAYERS] = hidden->count;
    for (uint32_t i = 0; i <= hidden->count; i++) {
        uint32_t out = i < hidden->count ? hidden->at[i] : 1;
        plan_step(p);
        l->parameter[2 * i] =
            plan_parameter(p, "weight", out, in, VIEW_NONE, plan_xavier(out, in), true);
        l->parameter[2 * i + 1] = plan_zeros(p, "bias", out);
        if (i < hidden->count)
            l->number_of[SEQUENCE_WIDTHS + i] = out;
        in = out;
    }
    if (*state == TENSOR_NONE)
        *state = plan_state_whole(p, sequence_state_floats(l, p->dim));
    l->state[0] = *state;
}

void plan_sequences(struct plan *p, struct view input, const struct widths *hidden)
{
    uint32_t state = TENSOR_NONE; /* all sequences use one state, one after another */
    SHOAL_ASSERT(hidden->count > 0 && hidden->count <= SEQUENCE_HIDDEN_MAX);
    for (uint32_t f = 0; f < p->shape.fields; f++)
        if (p->shape.pooling[f] == POOL_ATTENTION)
            sequence_add(p, input, f, hidden, &state);
    plan_scope(p, "hidden");
}
