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
 * al. 2017, without noise); among equal values the first passes. The other experts are computed,
 * too, but no gradient flows through them. */
#include "dense/layer/plan.h"
#include "proto/base/assert.h"

#include <string.h>

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
                             .gate = pass_at(p, l->z, first),
                             .ldgate = pass_ld(p, l->z),
                             .share = pass_at(p, (struct view){l->state[0], 0, l->z.width}, first),
                             .y = pass_at(p, l->y, first),
                             .ldy = pass_ld(p, l->y)};
}

static void mix_forward(const struct layer *l, struct pass *p, uint32_t first, uint32_t count)
{
    struct mix_args a = mix_args_of(l, p, first, count);
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
    .name = "mix", .forward = mix_forward, .backward = mix_backward};

/* parts */

/* One layer of `experts` experts, to y: (experts * out). Experts that all read the same columns are
 * one matrix product, unless there is a layer norm, which each expert computes by itself. */
static void experts_layer(struct plan *p, struct view x, uint32_t experts, uint32_t out, bool apart,
                          struct view y)
{
    enum norm_kind norm = p->job->model.norm;
    enum activation act = p->job->model.activation;
    double dropout = p->job->model.dropout;
    SHOAL_ASSERT(y.width == experts * out);
    uint32_t in = apart ? x.width / experts : x.width, weights = p->dense.tensor_count;
    for (uint32_t e = 0; e < experts && (apart || norm == NORM_LAYER); e++)
        plan_linear(p, apart ? plan_columns(x, e * in, in) : x, out, act, dropout, norm,
                    plan_columns(y, e * out, out));
    if (apart || norm == NORM_LAYER || experts == 0)
        return;
    plan_linear(p, x, experts * out, act, dropout, norm, y);
    if (weights < p->dense.tensor_count)
        /* initial weights as if each expert had a matrix of its own */
        p->dense.tensor[weights].init = plan_xavier(out, in);
}

/* The input of a level. The first level reads the model's input. A level above reads the mixtures
 * of the level below, side by side: those of the tasks, then that of the shared experts. */
struct level_input {
    struct view x;
    bool mixtures;
    uint32_t tasks;
};

/* The columns that task t reads; t == tasks: those of the shared experts. */
static struct view level_part(const struct level_input *in, uint32_t t)
{
    uint32_t width = in->x.width / (in->tasks + 1);
    if (!in->mixtures)
        return in->x;
    return plan_columns(in->x, t * width, width);
}

/* Sets the scope of an experts' layer. */
static void experts_scope(struct plan *p, uint32_t level, uint32_t layer, uint32_t shared,
                          uint32_t own)
{
    plan_scope(p, "experts.%u.%u.%u+%u", level, layer, shared, own);
    p->by_label = own > 0;
}

/* Outputs of all experts of a level: the shared ones', then each task's. */
static struct view level_experts(struct plan *p, const struct level_input *in, uint32_t level,
                                 uint32_t shared, uint32_t own)
{
    const struct widths *hidden = &p->job->model.hidden;
    uint32_t experts = shared + p->tasks * own, out = hidden->at[0];
    struct view y = plan_tensor(p, experts * out);
    experts_scope(p, level, 0, shared, own);
    if (in->mixtures) {
        experts_layer(p, level_part(in, p->tasks), shared, out, false,
                      plan_columns(y, 0, shared * out));
        for (uint32_t t = 0; t < p->tasks; t++)
            experts_layer(p, level_part(in, t), own, out, false,
                          plan_columns(y, (shared + t * own) * out, own * out));
    } else {
        experts_layer(p, in->x, experts, out, false, y);
    }
    for (uint32_t i = 1; i < hidden->count; i++) {
        struct view x = y;
        y = plan_tensor(p, experts * hidden->at[i]);
        experts_scope(p, level, i, shared, own);
        experts_layer(p, x, experts, hidden->at[i], true, y);
    }
    return y;
}

/* A linear layer from x, the gate's input, to `gate`, one column for each choice. */
static void gate_layer_add(struct plan *p, struct view x, uint32_t choices, struct view gate)
{
    plan_layer(p, &layer_fc, x, gate)->parameter[0] =
        plan_parameter(p, "gate", gate.width, x.width, x, plan_xavier(choices, x.width), true);
}

static void mixture_add(struct plan *p, struct view outputs, struct view gates, uint32_t tasks,
                        uint32_t shared, uint32_t own, struct view y)
{
    uint32_t choices = shared + own;
    struct layer *l = plan_layer(p, &layer_mix, outputs, y);
    l->z = gates;
    l->state[0] = plan_state(p, gates.width);
    l->number_of[MIX_TASKS] = tasks;
    l->number_of[MIX_SHARED] = shared;
    l->number_of[MIX_OWN] = own;
    l->number_of[MIX_TOP_K] = 0;
    if (p->job->model.top_k < choices)
        l->number_of[MIX_TOP_K] = p->job->model.top_k;
}

/* The mixtures of the tasks; on every level but the last also that of the shared experts, whose
 * gate chooses among all experts. */
static struct view level_mixtures(struct plan *p, const struct level_input *in, struct view outputs,
                                  uint32_t shared, uint32_t own, bool last)
{
    uint32_t experts = shared + p->tasks * own, choices = shared + own,
             width = outputs.width / experts;
    struct view gates = plan_tensor(p, p->tasks * choices),
                y = plan_tensor(p, (p->tasks + !last) * width);
    for (uint32_t t = 0; t < p->tasks && in->mixtures; t++)
        gate_layer_add(p, level_part(in, t), choices, plan_columns(gates, t * choices, choices));
    if (!in->mixtures)
        gate_layer_add(p, in->x, choices, gates);
    mixture_add(p, outputs, gates, p->tasks, shared, own, plan_columns(y, 0, p->tasks * width));
    if (!last) {
        gates = plan_tensor(p, experts);
        gate_layer_add(p, level_part(in, p->tasks), experts, gates);
        mixture_add(p, outputs, gates, 1, experts, 0, plan_columns(y, p->tasks * width, width));
    }
    return y;
}

struct view plan_mixtures(struct plan *p, struct view x, uint32_t shared, uint32_t own,
                          uint32_t levels)
{
    struct level_input in = {.x = x, .mixtures = false, .tasks = p->tasks};
    SHOAL_ASSERT(levels > 0 && shared + own > 0);
    for (uint32_t level = 0; level < levels; level++) {
        struct view outputs = level_experts(p, &in, level, shared, own);
        plan_scope(p, "gates.%u.%u+%u", level, shared, own);
        p->by_label = true;
        in.x = level_mixtures(p, &in, outputs, shared, own, level + 1 == levels);
        in.mixtures = true;
        p->by_label = false;
    }
    return in.x;
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
