/* norm.c: batch norm (Ioffe, Szegedy 2015) and layer norm (Ba, Kiros, Hinton 2016), before the
 * activation.
 *
 * Training takes mean and variance of the batch, and pushes momentum x (running - batch) as the
 * gradient of the running statistics, so that SGD with lr 1 moves them towards the batch (its
 * variance without bias). Prediction takes the running statistics; so does training on a batch of
 * one example, which has no variance.
 *
 * **Momentum.** A single process takes 0.1. Here `running` is the value at the pull, and other
 * lanes move it before this push is applied. With n batches in flight (pulled and not yet applied),
 * a push reacts to a value that is n moves old. Such a delayed correction converges without
 * overshoot while momentum x n is below 1 / e; it oscillates with growing amplitude from pi / 2 on.
 *
 * n is the number of lanes, whatever their speeds: the statistics of a batch have the lane's own
 * push before, however far the lane looks ahead (worker/train/ahead.h), and a slow lane's batch is
 * older, but proportionally rarer. So the momentum is 0.1 / lanes: one clock of all lanes moves the
 * statistics by a tenth, as a step of a single process does. That also holds under bsp, which adds
 * up the lanes' moves. A lane whose batch has several slices (train.window) adds up theirs, so the
 * momentum is divided by their number, too. */
#include "dense/layer/lower.h"
#include "dense/layer/plan.h"
#include "proto/base/assert.h"

/* ---- batch norm ------------------------------------------------------------------------------ */

double layer_norm_momentum(const struct job *job)
{
    return NORM_MOMENTUM / (job_lanes(job) * job_window(job));
}

static struct norm_args norm_args_of(const struct layer *l, const struct pass *p, uint32_t first,
                                     uint32_t count)
{
    struct norm_args a = {.count = count,
                          .width = l->x.width,
                          .x = pass_at(p, l->x, first),
                          .ldx = pass_ld(p, l->x),
                          .y = pass_at(p, l->y, first),
                          .ldy = pass_ld(p, l->y),
                          .lddy = pass_gradient_ld(p, l->y),
                          .live = p->live,
                          .examples = p->in->examples,
                          .of_batch = p->train && p->in->examples > 1,
                          .momentum = l->momentum,
                          .gamma = pass_parameter(p, l, 0),
                          .beta = pass_parameter(p, l, 1),
                          .running_mean = p->in->stats + l->mean,
                          .running_variance = p->in->stats + l->variance,
                          .state = p->data[l->state[0]]};
    if (!p->train)
        return a;

    a.dy = pass_gradient_at(p, l->y, first);
    a.gamma_gradient = pass_parameter_gradient(p, l, 0);
    a.beta_gradient = pass_parameter_gradient(p, l, 1);
    a.mean_gradient = p->out->stats_gradients + l->mean;
    a.variance_gradient = p->out->stats_gradients + l->variance;
    return a;
}

static void norm_gather(const struct layer *l, struct pass *p, uint32_t first, uint32_t count,
                        bool back)
{
    struct norm_args a = norm_args_of(l, p, first, count);
    if (first == 0)
        p->k->norm_begin(p->s, &a, back);
    p->k->norm_gather(p->s, &a, back);
}

static void norm_forward_gather(const struct layer *l, struct pass *p, uint32_t first,
                                uint32_t count)
{
    norm_gather(l, p, first, count, false);
}

static void norm_backward_gather(const struct layer *l, struct pass *p, uint32_t first,
                                 uint32_t count)
{
    norm_gather(l, p, first, count, true);
}

static void norm_forward_settle(const struct layer *l, struct pass *p)
{
    struct norm_args a = norm_args_of(l, p, p->base, 0);
    p->k->norm_settle(p->s, &a, false);
}

static void norm_backward_settle(const struct layer *l, struct pass *p)
{
    struct norm_args a = norm_args_of(l, p, p->base, 0);
    p->k->norm_settle(p->s, &a, true);
}

static void norm_forward(const struct layer *l, struct pass *p, uint32_t first, uint32_t count)
{
    struct norm_args a = norm_args_of(l, p, first, count);
    p->k->norm_apply(p->s, &a, false);
}

static void norm_backward(const struct layer *l, struct pass *p, uint32_t first, uint32_t count)
{
    struct norm_args a = norm_args_of(l, p, first, count);
    p->k->norm_apply(p->s, &a, true);
}

const struct layer_ops layer_batch_norm = {
    .name = "norm",
    .forward = norm_forward,
    .backward = norm_backward,
    .lower = lower_batch_norm,
    .forward_gather = norm_forward_gather,
    .backward_gather = norm_backward_gather,
    .forward_settle = norm_forward_settle,
    .backward_settle = norm_backward_settle,
    .gradient_in_place = true,
};

void plan_batch_norm(struct plan *p, struct view x, struct view y)
{
    SHOAL_ASSERT(x.width == y.width);
    struct layer *l = plan_layer(p, &layer_batch_norm, x, y);
    l->parameter[0] = plan_ones(p, "gamma", x.width);
    l->parameter[1] = plan_zeros(p, "beta", x.width);
    l->mean = plan_statistic(p, "mean", x.width, 0.0f);
    l->variance = plan_statistic(p, "variance", x.width, 1.0f);
    l->momentum = layer_norm_momentum(p->job);
    l->state[0] = plan_state_whole(p, norm_state_floats(x.width));
}

/* ---- layer norm ------------------------------------------------------------------------------ */

/* Floats from a row to the next, where an example has `rows` rows. */
static uint32_t row_step(uint32_t ld, uint32_t rows)
{
    SHOAL_ASSERT(ld % rows == 0);
    return ld / rows;
}

static struct layer_norm_args layer_norm_args_of(const struct layer *l, const struct pass *p,
                                                 uint32_t first, uint32_t count)
{
    uint32_t rows = l->number_of[LAYER_NORM_ROWS_AN_EXAMPLE];
    return (struct layer_norm_args){.count = count * rows,
                                    .width = l->x.width / rows,
                                    .x = pass_at(p, l->x, first),
                                    .ldx = row_step(pass_ld(p, l->x), rows),
                                    .gamma = pass_parameter(p, l, 0),
                                    .beta = pass_parameter(p, l, 1),
                                    .act = l->act,
                                    .y = pass_at(p, l->y, first),
                                    .ldy = row_step(pass_ld(p, l->y), rows),
                                    .moments =
                                        pass_at(p, (struct view){l->state[0], 0, 2 * rows}, first)};
}

static void layer_norm_forward(const struct layer *l, struct pass *p, uint32_t first,
                               uint32_t count)
{
    struct layer_norm_args a = layer_norm_args_of(l, p, first, count);
    p->k->attention.layer_norm_forward(p->s, &a);
}

static void layer_norm_backward(const struct layer *l, struct pass *p, uint32_t first,
                                uint32_t count)
{
    struct layer_norm_args a = layer_norm_args_of(l, p, first, count);
    a.dy = pass_gradient_at(p, l->y, first);
    a.lddy = row_step(pass_gradient_ld(p, l->y), l->number_of[LAYER_NORM_ROWS_AN_EXAMPLE]);
    a.gamma_gradient = pass_parameter_gradient(p, l, 0);
    a.beta_gradient = pass_parameter_gradient(p, l, 1);
    p->k->attention.layer_norm_backward(p->s, &a);
}

const struct layer_ops layer_layer_norm = {.name = "layer_norm",
                                           .forward = layer_norm_forward,
                                           .backward = layer_norm_backward,
                                           .lower = lower_layer_norm,
                                           .gradient_in_place = true};

void plan_layer_norm(struct plan *p, struct view x, uint32_t rows, enum activation act,
                     struct view y)
{
    SHOAL_ASSERT(x.width == y.width && rows > 0 && x.width % rows == 0);
    struct layer *l = plan_layer(p, &layer_layer_norm, x, y);
    l->parameter[0] = plan_ones(p, "gamma", x.width / rows);
    l->parameter[1] = plan_zeros(p, "beta", x.width / rows);
    l->act = act;
    l->state[0] = plan_state(p, 2 * rows);
    l->number_of[LAYER_NORM_ROWS_AN_EXAMPLE] = rows;
}
