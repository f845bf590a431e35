/* sequence.c: values of a field, weighed against a target. */
#include "dense/layer/sequence.h"

#include "dense/layer/plan.h"
#include "proto/base/assert.h"

static const struct dropout_mask keep_all = {.threshold = 0, .scale = 1.0f};

/* ---- the state: what a chunk needs ----------------------------------------------------------- */

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
    return s;
}

/* ---- the small network over a chunk ---------------------------------------------------------- */

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

/* ---- the layer ------------------------------------------------------------------------------- */

static struct sequence_args sequence_args_of(const struct layer *l, const struct pass *p,
                                             const struct sequence_state *s, uint32_t first,
                                             uint32_t count)
{
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

const struct layer_ops sequence_layer = {.name = "sequence",
                                         .forward = sequence_forward,
                                         .backward = sequence_backward,
                                         .by_values = true};

/* ---- the part -------------------------------------------------------------------------------- */

static void plan_sequence(struct plan *p, struct view input, uint32_t field,
                          const struct widths *hidden, uint32_t *state)
{
    uint32_t in = 4 * p->dim;
    struct layer *l =
        plan_layer(p, &sequence_layer, plan_columns(input, p->shape.attend[field] * p->dim, p->dim),
                   plan_columns(input, field * p->dim, p->dim));
    l->act = p->job->model.activation;
    l->number_of[SEQUENCE_FIELD] = field;
    l->number_of[SEQUENCE_LAYERS] = hidden->count;
    for (uint32_t i = 0; i <= hidden->count; i++) {
        uint32_t out = i < hidden->count ? hidden->at[i] : 1;
        l->parameter[2 * i] = plan_weights(p, out, in);
        l->parameter[2 * i + 1] = plan_zeros(p, out);
        if (i < hidden->count)
            l->number_of[SEQUENCE_WIDTHS + i] = out;
        in = out;
    }
    if (*state == TENSOR_NONE)
        *state = plan_state_whole(p, sequence_state_floats(l, p->dim));
    l->state[0] = *state;
}

void sequence_plan(struct plan *p, struct view input, const struct widths *hidden)
{
    uint32_t state = TENSOR_NONE; /* all sequences take turns with one */
    SHOAL_ASSERT(hidden->count > 0 && hidden->count <= SEQUENCE_HIDDEN_MAX);
    for (uint32_t f = 0; f < p->shape.fields; f++)
        if (p->shape.pooling[f] == POOL_ATTENTION)
            plan_sequence(p, input, f, hidden, &state);
}
