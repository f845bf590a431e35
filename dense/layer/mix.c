/* mix.c: experts that several tasks share, and the gates that mix them.
 *
 * A task's mixture is y = sum over experts e of share_e * f_e(x), with share = softmax(W x). In a
 * multi-gate mixture of experts (Ma et al. 2018) every task chooses among the same experts. In
 * customized gate control (Tang et al. 2020) a task chooses among the shared experts and its own.
 *
 * Progressive layered extraction (the same paper) stacks levels of customized gate control. A
 * task's experts and its gate read the task's mixture of the level below. The shared experts read
 * one more mixture, whose gate chooses among all experts; the last level has no such mixture,
 * because no level reads it.
 *
 * With top_k, only the k largest values of a gate pass, and the softmax is over those (Shazeer et
 * al. 2017, without noise); among equal values the first passes. An expert then computes the
 * examples that chose it and no others:
 *
 *     gates -layer_choose-> the rows of each expert
 *     x -gather-> first layer -> .. -> last layer, rows packed -layer_mix-> mixtures
 *
 * Only the first layer gathers, and layer_mix finds an example's row in each of its experts. On the
 * way back layer_mix writes packed rows, and the first layer scatters its gradient to those of x.
 * The sums keep the order of the examples. Batch norm needs all rows of all experts, so with it
 * every expert computes every example, and the gates mask the others.
 *
 * A balancing loss keeps the gates from choosing the same few experts always: that of Shazeer et
 * al. 2017, of the experts' importances (ops_mix.h). It is a sum over the batch, which
 * layer_choose_balanced gathers as batch norm does. */
#include "dense/layer/lower.h"
#include "dense/layer/plan.h"
#include "proto/base/assert.h"

#include <string.h>

/* ---- mixtures -------------------------------------------------------------------------------- */

/* Where the experts' rows lie; load NULL: each expert has a row for each example. */
static struct mix_rows mix_rows_taken(const struct layer *l, const struct pass *p)
{
    if (l->state[1] == TENSOR_NONE)
        return (struct mix_rows){.load = NULL};
    return pass_rows(p, l->state[1]);
}

static struct mix_args mix_args_of(const struct layer *l, const struct pass *p, uint32_t first,
                                   uint32_t count)
{
    SHOAL_ASSERT(l->z.width ==
                 l->number_of[MIX_TASKS] * (l->number_of[MIX_SHARED] + l->number_of[MIX_OWN]));
    SHOAL_ASSERT(l->y.width % l->number_of[MIX_TASKS] == 0 &&
                 p->tensor[l->state[0]].width == l->z.width);
    return (struct mix_args){.count = count,
                             .tasks = l->number_of[MIX_TASKS],
                             .shared = l->number_of[MIX_SHARED],
                             .own = l->number_of[MIX_OWN],
                             .width = l->y.width / l->number_of[MIX_TASKS],
                             .top_k = l->number_of[MIX_TOP_K],
                             .x = pass_at(p, l->x, first),
                             .ldx = pass_ld(p, l->x),
                             .rows = mix_rows_taken(l, p),
                             .gate = pass_at(p, l->z, first),
                             .ldgate = pass_ld(p, l->z),
                             .share = pass_at(p, (struct view){l->state[0], 0, l->z.width}, first),
                             .y = pass_at(p, l->y, first),
                             .ldy = pass_ld(p, l->y)};
}

static void mix_forward(const struct layer *l, struct pass *p, uint32_t first, uint32_t count)
{
    struct mix_args a = mix_args_of(l, p, first, count);
    if (l->number_of[MIX_CHOSEN] == 0)
        p->k->mix.share(p->s, &a);
    p->k->mix.forward(p->s, &a);
}

static void mix_backward(const struct layer *l, struct pass *p, uint32_t first, uint32_t count)
{
    struct mix_args a = mix_args_of(l, p, first, count);
    a.dy = pass_gradient_at(p, l->y, first);
    a.lddy = pass_gradient_ld(p, l->y);
    a.dx = pass_gradient_at(p, l->x, first);
    a.lddx = pass_gradient_ld(p, l->x);
    a.dgate = pass_gradient_at(p, l->z, first);
    a.lddgate = pass_gradient_ld(p, l->z);
    a.add = l->add;
    a.add_gate = l->add_z;
    p->k->mix.backward(p->s, &a);
}

const struct layer_ops layer_mix = {
    .name = "mix", .forward = mix_forward, .backward = mix_backward, .lower = lower_mix};

/* ---- choice ---------------------------------------------------------------------------------- */

/* The gates in x or z, and their shares. */
static void choose_share(const struct layer *l, const struct pass *p, struct view gates,
                         uint32_t state, uint32_t tasks, uint32_t first, uint32_t count)
{
    struct mix_args a = {.count = count,
                         .tasks = tasks,
                         .shared = gates.width / tasks,
                         .top_k = l->number_of[MIX_TOP_K],
                         .gate = pass_at(p, gates, first),
                         .ldgate = pass_ld(p, gates),
                         .share = pass_row(p, state, first)};
    p->k->mix.share(p->s, &a);
}

static void choose_shares(const struct layer *l, const struct pass *p, uint32_t first,
                          uint32_t count)
{
    choose_share(l, p, l->x, l->state[0], l->number_of[MIX_TASKS], first, count);
    if (l->z.tensor != TENSOR_NONE)
        choose_share(l, p, l->z, l->state[1], 1, first, count);
}

/* The host waits for the examples of the level's experts, so that it queues their layers for so
 * many rows. A failure stays with the stream. */
static void loads_bring(const struct pass *p, uint32_t first, uint32_t experts)
{
    p->k->download(p->s, p->chosen + first, p->load + first, experts * sizeof p->chosen[0]);
    (void)p->k->stream_finish(p->s, NULL);
}

static void choose_forward(const struct layer *l, struct pass *p, uint32_t first, uint32_t count)
{
    struct mix_choose_args a = {.tasks = l->number_of[MIX_TASKS],
                                .shared = l->number_of[MIX_SHARED],
                                .own = l->number_of[MIX_OWN],
                                .share = pass_row(p, l->state[0], first),
                                .live = p->live,
                                .rows = pass_rows(p, l->state[2]),
                                .load = p->load + l->number_of[MIX_LOAD]};
    SHOAL_ASSERT(a.rows.experts == a.shared + a.tasks * a.own && a.rows.count == count);
    if (l->z.tensor != TENSOR_NONE)
        a.all = pass_row(p, l->state[1], first);
    choose_shares(l, p, first, count);
    p->k->mix.choose(p->s, &a);
    if (p->chosen != NULL)
        loads_bring(p, l->number_of[MIX_LOAD], a.rows.experts);
}

const struct layer_ops layer_choose = {
    .name = "choose", .forward = choose_forward, .lower = lower_nothing};

/* ---- balance --------------------------------------------------------------------------------- */

/* The balancing loss of the gates in x, or in z. */
static struct mix_balance_args balance_args_of(const struct layer *l, const struct pass *p, bool z,
                                               uint32_t first, uint32_t count)
{
    struct view gates = z ? l->z : l->x;
    uint32_t columns = l->x.width;
    float *state = p->data[l->state[3]];
    if (l->z.tensor != TENSOR_NONE)
        columns += l->z.width;
    struct mix_balance_args a = {.count = count,
                                 .gates = z ? 1 : l->number_of[MIX_TASKS],
                                 .share = pass_row(p, l->state[z], first),
                                 .live = p->live,
                                 .sum = (double *)(void *)state, /* 64-byte aligned */
                                 .slope = state + (size_t)2 * columns,
                                 .examples = p->in->examples,
                                 .factor = &p->step->balance};
    a.choices = gates.width / a.gates;
    if (z) {
        a.sum += l->x.width;
        a.slope += l->x.width;
    }
    if (p->train) {
        a.dgate = pass_gradient_at(p, gates, first);
        a.lddgate = pass_gradient_ld(p, gates);
    }
    return a;
}

/* Gates of the layer: those of x, and that of z if there is one. */
static uint32_t balance_views(const struct layer *l)
{
    return 1 + (l->z.tensor != TENSOR_NONE);
}

static void balance_gather(const struct layer *l, struct pass *p, uint32_t first, uint32_t count)
{
    choose_shares(l, p, first, count);
    for (uint32_t z = 0; z < balance_views(l); z++) {
        struct mix_balance_args a = balance_args_of(l, p, z, first, count);
        if (first == 0)
            p->k->zero(p->s, a.sum, (size_t)a.gates * a.choices * sizeof *a.sum);
        p->k->mix.balance_gather(p->s, &a);
    }
}

static void balance_settle(const struct layer *l, struct pass *p)
{
    for (uint32_t z = 0; z < balance_views(l) && p->train; z++) {
        struct mix_balance_args a = balance_args_of(l, p, z, p->base, 0);
        p->k->mix.balance_settle(p->s, &a);
    }
}

static void balance_backward(const struct layer *l, struct pass *p, uint32_t first, uint32_t count)
{
    for (uint32_t z = 0; z < balance_views(l); z++) {
        struct mix_balance_args a = balance_args_of(l, p, z, first, count);
        p->k->mix.balance_backward(p->s, &a);
    }
}

const struct layer_ops layer_choose_balanced = {.name = "choose",
                                                .forward = choose_forward,
                                                .backward = balance_backward,
                                                .lower = lower_nothing,
                                                .forward_gather = balance_gather,
                                                .forward_settle = balance_settle};

/* ---- parts ----------------------------------------------------------------------------------- */

/* A level of experts while it is added. Its input: the first level reads the model's input. A level
 * above reads the mixtures of the level below, side by side: those of the tasks, then that of the
 * shared experts. */
struct level {
    uint32_t number, tasks, shared, own;
    bool mixtures, last;
    struct view x;
    struct view gates, all; /* tasks' gates; shared experts' gate: VIEW_NONE on the last level */
    uint32_t gate_layer;    /* the first of the gates' linear layers */
    uint32_t gate_layers;
    bool chosen; /* by layer_choose, whose states are: */
    uint32_t rows, share, share_all;
    uint32_t load; /* the first expert's number among those that the plan counts */
    /* where an expert's first layer gathers its rows, and has their gradient; TENSOR_NONE: experts
     * have a row for each example */
    uint32_t place[2];
};

static uint32_t level_all(const struct level *v)
{
    return v->shared + v->tasks * v->own;
}

/* The columns that task t reads; t == tasks: those of the shared experts. */
static struct view level_part(const struct level *v, uint32_t t)
{
    uint32_t width = v->x.width / (v->tasks + 1);
    if (!v->mixtures)
        return v->x;
    return plan_columns(v->x, t * width, width);
}

static bool level_packs(const struct level *v)
{
    return v->place[0] != TENSOR_NONE;
}

/* Lets the first linear layer of an expert gather its rows of x. */
static void expert_gathers(const struct level *v, struct layer *l)
{
    l->state[0] = v->place[0];
    l->state[1] = v->place[1];
}

/* Experts that read the same columns, as one matrix. Packed, each has its rows of the matrix and a
 * product of its own. */
static void experts_joined(struct plan *p, const struct level *v, struct view x, uint32_t first,
                           uint32_t experts, struct view y)
{
    const struct job *job = p->job;
    uint32_t out = y.width / experts, weights = p->dense.tensor_count;
    if (!level_packs(v)) {
        plan_linear(p, x, y.width, job->model.activation, job->model.dropout, job->model.norm, y);
        if (weights < p->dense.tensor_count)
            /* initial weights as if each expert had a matrix of its own */
            p->dense.tensor[weights].init = plan_xavier(out, x.width);
        return;
    }
    plan_step(p);
    size_t weight =
        plan_parameter(p, "weight", y.width, x.width, x, plan_xavier(out, x.width), true);
    size_t bias = plan_zeros(p, "bias", y.width);
    for (uint32_t e = 0; e < experts; e++) {
        plan_expert(p, v->rows, first + e, v->load + first + e);
        struct layer *l = plan_layer(p, &layer_fc, x, plan_columns(y, e * out, out));
        expert_gathers(v, l);
        l->parameter[0] = weight + (size_t)e * out * x.width;
        l->parameter[1] = bias + (size_t)e * out;
        l->act = job->model.activation;
        l->dropout = job->model.dropout;
    }
}

/* One layer of `experts` experts from number `first` on, to y: (experts * out). apart: x has each
 * expert's columns side by side; else all read the same columns, in one matrix product, unless
 * there is a layer norm, which each expert computes by itself. */
static void experts_layer(struct plan *p, const struct level *v, struct view x, uint32_t first,
                          uint32_t experts, bool apart, struct view y)
{
    enum norm_kind norm = p->job->model.norm;
    if (experts > 0 && !apart && norm != NORM_LAYER)
        experts_joined(p, v, x, first, experts, y);
    for (uint32_t e = 0; e < experts && (apart || norm == NORM_LAYER); e++) {
        uint32_t in = x.width, out = y.width / experts, layer = p->layer_count;
        struct view from = x;
        if (apart) {
            in /= experts;
            from = plan_columns(x, e * in, in);
        }
        if (level_packs(v))
            plan_expert(p, v->rows, first + e, v->load + first + e);
        plan_linear(p, from, out, p->job->model.activation, p->job->model.dropout, norm,
                    plan_columns(y, e * out, out));
        if (!apart && !p->overflow)
            expert_gathers(v, &p->layer[layer]);
    }
    plan_expert(p, TENSOR_NONE, 0, 0);
}

/* Sets the scope of an experts' layer. */
static void experts_scope(struct plan *p, const struct level *v, uint32_t layer)
{
    plan_scope(p, "experts.%u.%u.%u+%u", v->number, layer, v->shared, v->own);
    p->by_label = v->own > 0;
}

/* Outputs of all experts of a level: the shared ones', then each task's. */
static struct view level_experts(struct plan *p, const struct level *v)
{
    const struct widths *hidden = &p->job->model.hidden;
    uint32_t experts = level_all(v), shared = v->shared, own = v->own, out = hidden->at[0];
    struct view y = plan_tensor(p, experts * out);
    experts_scope(p, v, 0);
    if (v->mixtures) {
        experts_layer(p, v, level_part(v, p->tasks), 0, shared, false,
                      plan_columns(y, 0, shared * out));
        for (uint32_t t = 0; t < p->tasks; t++)
            experts_layer(p, v, level_part(v, t), shared + t * own, own, false,
                          plan_columns(y, (shared + t * own) * out, own * out));
    } else {
        experts_layer(p, v, v->x, 0, experts, false, y);
    }
    for (uint32_t i = 1; i < hidden->count; i++) {
        struct view x = y;
        y = plan_tensor(p, experts * hidden->at[i]);
        experts_scope(p, v, i);
        experts_layer(p, v, x, 0, experts, true, y);
    }
    return y;
}

/* The gates' linear layers: those of the tasks, and on every level but the last that of the shared
 * experts, which chooses among all experts. */
static void level_gates(struct plan *p, struct level *v)
{
    uint32_t choices = v->shared + v->own;
    v->gate_layer = p->layer_count;
    v->gates = plan_tensor(p, v->tasks * choices);
    v->all = VIEW_NONE;
    for (uint32_t t = 0; t < v->tasks && v->mixtures; t++)
        plan_layer(p, &layer_fc, level_part(v, t), plan_columns(v->gates, t * choices, choices));
    if (!v->mixtures)
        plan_layer(p, &layer_fc, v->x, v->gates);
    if (!v->last) {
        v->all = plan_tensor(p, level_all(v));
        plan_layer(p, &layer_fc, level_part(v, v->tasks), v->all);
    }
    v->gate_layers = p->layer_count - v->gate_layer;
}

/* The gates' weights, which stand behind those of the experts whatever the order of the layers. */
static void level_gate_weights(struct plan *p, const struct level *v)
{
    plan_scope(p, "gates.%u.%u+%u", v->number, v->shared, v->own);
    p->by_label = true;
    for (uint32_t i = 0; i < v->gate_layers && !p->overflow; i++) {
        struct layer *l = &p->layer[v->gate_layer + i];
        uint32_t choices = v->shared + v->own;
        if (l->y.tensor == v->all.tensor)
            choices = level_all(v);
        l->parameter[0] = plan_parameter(p, "gate", l->y.width, l->x.width, l->x,
                                         plan_xavier(choices, l->x.width), true);
    }
    p->by_label = false;
}

/* The layer that says which examples each expert computes. */
static void level_choose(struct plan *p, struct level *v)
{
    const struct job *job = p->job;
    uint32_t columns = v->gates.width, most = v->x.width;
    if (v->mixtures)
        most /= v->tasks + 1;
    v->chosen = true;
    v->rows = plan_state(p, mix_rows_width(level_all(v)));
    v->share = plan_state(p, v->gates.width);
    struct layer *l = plan_layer(p, &layer_choose, v->gates, VIEW_NONE);
    l->z = v->all;
    l->state[0] = v->share;
    l->state[2] = v->rows;
    if (!v->last) {
        columns += v->all.width;
        l->state[1] = v->share_all = plan_state(p, v->all.width);
    }
    if (job->model.balance > 0) {
        l->ops = &layer_choose_balanced;
        l->state[3] = plan_state_whole(p, 3 * columns);
    }
    l->number_of[MIX_TASKS] = v->tasks;
    l->number_of[MIX_SHARED] = v->shared;
    l->number_of[MIX_OWN] = v->own;
    l->number_of[MIX_TOP_K] = job->model.top_k;
    l->number_of[MIX_LOAD] = v->load = p->loads;
    p->loads += level_all(v);
    if (p->loads > LIMIT_EXPERTS)
        p->overflow = true;
    if (job->model.norm == NORM_BATCH)
        return;
    p->packs = true;
    for (uint32_t i = 0; i < 2; i++)
        v->place[i] = plan_state(p, plan_stride(most, false));
}

/* share: that of layer_choose. */
static void mixture_add(struct plan *p, const struct level *v, struct view outputs,
                        struct view gates, uint32_t share, uint32_t tasks, uint32_t shared,
                        uint32_t own, struct view y)
{
    uint32_t choices = shared + own;
    struct layer *l = plan_layer(p, &layer_mix, outputs, y);
    l->z = gates;
    l->state[0] = share;
    if (!v->chosen)
        l->state[0] = plan_state(p, gates.width);
    if (level_packs(v))
        l->state[1] = v->rows;
    l->number_of[MIX_TASKS] = tasks;
    l->number_of[MIX_SHARED] = shared;
    l->number_of[MIX_OWN] = own;
    l->number_of[MIX_TOP_K] = 0;
    if (p->job->model.top_k < choices)
        l->number_of[MIX_TOP_K] = p->job->model.top_k;
    l->number_of[MIX_CHOSEN] = v->chosen;
}

/* The mixtures of the tasks; on every level but the last also that of the shared experts. */
static struct view level_mixtures(struct plan *p, const struct level *v, struct view outputs)
{
    uint32_t experts = level_all(v), width = outputs.width / experts;
    struct view y = plan_tensor(p, (v->tasks + !v->last) * width);
    mixture_add(p, v, outputs, v->gates, v->share, v->tasks, v->shared, v->own,
                plan_columns(y, 0, v->tasks * width));
    if (!v->last)
        mixture_add(p, v, outputs, v->all, v->share_all, 1, experts, 0,
                    plan_columns(y, v->tasks * width, width));
    return y;
}

/* True when gates choose fewer than all of their experts. */
static bool gates_choose(const struct job *job, uint32_t choices)
{
    return job->model.top_k > 0 && job->model.top_k < choices;
}

struct view plan_mixtures(struct plan *p, struct view x, uint32_t shared, uint32_t own,
                          uint32_t levels)
{
    SHOAL_ASSERT(levels > 0 && shared + own > 0);
    bool chooses = gates_choose(p->job, shared + own);
    for (uint32_t n = 0; n < levels; n++) {
        struct level v = {.number = n,
                          .tasks = p->tasks,
                          .shared = shared,
                          .own = own,
                          .mixtures = n > 0,
                          .last = n + 1 == levels,
                          .x = x,
                          .rows = TENSOR_NONE,
                          .share = TENSOR_NONE,
                          .share_all = TENSOR_NONE,
                          .place = {TENSOR_NONE, TENSOR_NONE}};
        if (chooses) {
            level_gates(p, &v);
            level_choose(p, &v);
        }
        struct view outputs = level_experts(p, &v);
        if (!chooses)
            level_gates(p, &v);
        level_gate_weights(p, &v);
        x = level_mixtures(p, &v, outputs);
    }
    return x;
}

void plan_towers(struct plan *p, struct view mixtures)
{
    uint32_t width = mixtures.width / p->tasks;
    SHOAL_ASSERT(mixtures.width == width * p->tasks);
    for (uint32_t t = 0; t < p->tasks; t++) {
        char label[LEGEND_NAME];
        legend_write(p->job->data.label[t], strlen(p->job->data.label[t]), 1, label);
        plan_scope(p, "tower.%.64s", label);
        plan_head(
            p, plan_network(p, plan_columns(mixtures, t * width, width), &p->job->model.tower), t);
    }
}

int plan_mix_check(const struct job *job, uint32_t own, struct err *e)
{
    uint32_t shared = job->model.experts, top_k = job->model.top_k;
    const struct widths *hidden = &job->model.hidden, *tower = &job->model.tower;
    if (shared + own == 0 || shared > MIX_GATE_MAX / 2 || own > MIX_GATE_MAX / 2)
        return err_set(
            e, SHOAL_E_CONFIG,
            "model.experts is %u and model.own_experts %u; a gate chooses among 1 to %u of each",
            shared, own, MIX_GATE_MAX / 2);
    if (top_k > shared + own)
        return err_set(e, SHOAL_E_CONFIG,
                       "model.top_k is %u, but a gate chooses among %u experts; make it at most "
                       "that, or 0: all",
                       top_k, shared + own);
    if (job->model.balance > 0 && !gates_choose(job, shared + own))
        return err_set(e, SHOAL_E_CONFIG,
                       "model.balance is %g, but every example has all %u experts of its gate; "
                       "set model.top_k below that, or leave model.balance out",
                       job->model.balance, shared + own);
    if (job->model.balance > 0 && top_k == 1)
        return err_set(e, SHOAL_E_CONFIG,
                       "model.balance is %g, but with model.top_k 1 every share is 1, and nothing "
                       "moves the gates; make model.top_k 2 or more, or leave model.balance out",
                       job->model.balance);
    for (uint32_t i = 0; i < hidden->count; i++)
        if ((size_t)hidden->at[i] * (shared + LIMIT_TASKS * own) > BLOCK_TABLE_FLOATS_MAX)
            return err_set(
                e, SHOAL_E_CONFIG,
                "model.hidden: %u experts of %u outputs are too wide; make the layers narrower",
                shared + LIMIT_TASKS * own, hidden->at[i]);
    if (tower->count == 0) /* the heads read the mixtures */
        return 0;
    return plan_widths_check(tower, "model.tower", e);
}
