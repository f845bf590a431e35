/* mix.c: experts, gates, mixtures, towers. */
#include "dense/mix.h"

#include "dense/fc.h"
#include "dense/plan.h"
#include "proto/base/assert.h"

static struct mix_args mix_args_of(const struct layer *l, const struct pass *p, uint32_t first, uint32_t count)
{
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

const struct layer_ops mix_layer = {.name = "mix", .forward = mix_forward, .backward = mix_backward};

/* ---- parts ------------------------------------------------------------------------------------------------ */

/* One layer of all experts: (experts * out). Where they all read the same columns it is one matrix product, but for
 * layer norm, which is each expert's own. */
static struct view experts_layer(struct plan *p, struct view x, uint32_t experts, uint32_t out, bool apart)
{
    enum norm_kind norm = p->job->model.norm;
    enum activation act = p->job->model.activation;
    double dropout = p->job->model.dropout;
    struct view y = plan_tensor(p, experts * out);
    uint32_t in = apart ? x.width / experts : x.width, weights = p->dense.tensor_count;

    for (uint32_t e = 0; e < experts && (apart || norm == NORM_LAYER); e++)
        plan_linear(p, apart ? plan_columns(x, e * in, in) : x, out, act, dropout, norm, plan_columns(y, e * out, out));
    if (apart || norm == NORM_LAYER)
        return y;
    plan_linear(p, x, experts * out, act, dropout, norm, y);
    if (weights < p->dense.tensor_count)
        p->dense.tensor[weights].init = plan_xavier(out, in); /* of each expert by itself */
    return y;
}

struct view plan_mixtures(struct plan *p, struct view x, uint32_t shared, uint32_t own)
{
    const struct widths *hidden = &p->job->model.hidden;
    uint32_t experts = shared + p->tasks * own, choices = shared + own;
    struct view outputs = x;

    for (uint32_t i = 0; i < hidden->count; i++)
        outputs = experts_layer(p, outputs, experts, hidden->at[i], i > 0);
    struct view gates = plan_tensor(p, p->tasks * choices);
    plan_layer(p, &fc_layer, x, gates)->parameter[0] =
        block_add(&p->dense, (size_t)gates.width * x.width, plan_xavier(choices, x.width), true);

    struct layer *l = plan_layer(p, &mix_layer, outputs, plan_tensor(p, p->tasks * (outputs.width / experts)));
    l->z = gates;
    l->state[0] = plan_state(p, gates.width);
    l->number_of[MIX_TASKS] = p->tasks;
    l->number_of[MIX_SHARED] = shared;
    l->number_of[MIX_OWN] = own;
    l->number_of[MIX_TOP_K] = p->job->model.top_k < choices ? p->job->model.top_k : 0;
    return l->y;
}

void plan_towers(struct plan *p, struct view mixtures)
{
    uint32_t width = mixtures.width / p->tasks;
    for (uint32_t t = 0; t < p->tasks; t++)
        plan_head(p, plan_network(p, plan_columns(mixtures, t * width, width), &p->job->model.tower), t);
}

int mix_check(const struct job *job, uint32_t own, struct err *e)
{
    uint32_t shared = job->model.experts, top_k = job->model.top_k;
    const struct widths *hidden = &job->model.hidden, *tower = &job->model.tower;

    if (shared + own == 0 || shared > MIX_GATE_MAX / 2 || own > MIX_GATE_MAX / 2)
        return err_set(e, SHOAL_E_CONFIG,
                       "model.experts is %u and model.own_experts %u; a gate chooses among 1 to %u of each", shared,
                       own, MIX_GATE_MAX / 2);
    if (top_k > shared + own)
        return err_set(e, SHOAL_E_CONFIG,
                       "model.top_k is %u, but a gate chooses among %u experts; make it at most that, or 0: all", top_k,
                       shared + own);
    for (uint32_t i = 0; i < hidden->count; i++)
        if ((size_t)hidden->at[i] * (shared + LIMIT_TASKS * own) > BLOCK_TABLE_FLOATS_MAX)
            return err_set(e, SHOAL_E_CONFIG,
                           "model.hidden: %u experts of %u outputs are too wide; make the layers narrower",
                           shared + LIMIT_TASKS * own, hidden->at[i]);
    return tower->count > 0 ? plan_widths_check(tower, "model.tower", e) : 0; /* without: heads on the mixtures */
}
