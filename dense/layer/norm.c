/* norm.c: batch norm. */
#include "dense/layer/norm.h"

#include "dense/layer/plan.h"

uint32_t norm_state_floats(uint32_t width)
{
    return 2 * 2 * width + 6 * width;
}

/* Batches of a lane that are pulled and whose push is not applied: 1 + prefetch up to their
 * computing and two more on their way (worker/train/lane.h). A bound holds the pull of clock c back
 * until the lane's own push of c - staleness - 1 is applied. */
static uint32_t batches_under_way(const struct job *job)
{
    uint32_t batches = 3 + job->train.prefetch;
    if (job->train.mode == 2) /* WIRE_BSP */
        return 1;
    if (job->train.mode == 1 && job->train.staleness + 1 < batches) /* WIRE_SSP */
        return job->train.staleness + 1;
    return batches;
}

double norm_momentum(const struct job *job)
{
    double batches = batches_under_way(job);
    return NORM_MOMENTUM / job_lanes(job) *
           (batches > NORM_UNDER_WAY ? NORM_UNDER_WAY / batches : 1.0);
}

static struct norm_args norm_args_of(const struct layer *l, const struct pass *p, uint32_t first,
                                     uint32_t count)
{
    return (struct norm_args){.count = count,
                              .width = l->x.width,
                              .x = pass_at(p, l->x, first),
                              .ldx = pass_ld(p, l->x),
                              .y = pass_at(p, l->y, first),
                              .ldy = pass_ld(p, l->y),
                              .dy = p->train ? pass_gradient_at(p, l->y, first) : NULL,
                              .lddy = pass_gradient_ld(p, l->y),
                              .live = p->live,
                              .examples = p->in->examples,
                              .of_batch = p->train && p->in->examples > 1,
                              .momentum = l->momentum,
                              .gamma = pass_parameter(p, l, 0),
                              .beta = pass_parameter(p, l, 1),
                              .running_mean = p->in->stats + l->mean,
                              .running_variance = p->in->stats + l->variance,
                              .gamma_gradient = p->train ? pass_parameter_gradient(p, l, 0) : NULL,
                              .beta_gradient = p->train ? pass_parameter_gradient(p, l, 1) : NULL,
                              .mean_gradient = p->train ? p->out->stats_gradients + l->mean : NULL,
                              .variance_gradient =
                                  p->train ? p->out->stats_gradients + l->variance : NULL,
                              .state = p->data[l->state[0]]};
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

const struct layer_ops norm_layer = {
    .name = "norm",
    .forward = norm_forward,
    .backward = norm_backward,
    .forward_gather = norm_forward_gather,
    .backward_gather = norm_backward_gather,
    .forward_settle = norm_forward_settle,
    .backward_settle = norm_backward_settle,
    .gradient_in_place = true,
};

void norm_plan(struct plan *p, struct view x, struct view y)
{
    struct layer *l = plan_layer(p, &norm_layer, x, y);
    l->parameter[0] = plan_ones(p, x.width);
    l->parameter[1] = plan_zeros(p, x.width);
    l->mean = plan_statistic(p, x.width, 0.0f);
    l->variance = plan_statistic(p, x.width, 1.0f);
    l->momentum = norm_momentum(p->job);
    l->state[0] = plan_state_whole(p, norm_state_floats(x.width));
}
