/* norm.c: batch norm. */
#include "dense/norm.h"

#include <math.h>
#include <string.h>

/* A layer's working values, each (width) long. The sums are double and stand first, for their alignment. */
struct norm_state {
    double *sum, *square;  /* forward: of x - pivot; backward: of dy, and of dy (x - mean) */
    float *pivot;          /* a row of the batch: near the mean, so that the sums of squares lose nothing */
    float *mean, *inverse; /* 1 / sqrt(variance + eps) */
    float *scale, *slope, *shift;
};

uint32_t norm_state_floats(uint32_t width)
{
    return 2 * 2 * width + 6 * width;
}

static struct norm_state norm_state_of(const struct layer *l, const struct pass *p)
{
    float *at = p->data[l->state];
    size_t w = l->out;
    float *f = at + 4 * w;
    double *d = (double *)(void *)at; /* tensors are 64-byte aligned */
    return (struct norm_state){d, d + w, f, f + w, f + 2 * w, f + 3 * w, f + 4 * w, f + 5 * w};
}

/* Whether this pass takes its statistics from the batch. */
static bool norm_of_batch(const struct pass *p)
{
    return p->train && p->in->examples > 1;
}

static void norm_forward_gather(const struct layer *l, struct pass *p, uint32_t first, uint32_t count)
{
    struct norm_state s = norm_state_of(l, p);
    if (first == 0) {
        memset(s.sum, 0, 2 * l->out * sizeof *s.sum);
        memcpy(s.pivot, pass_at(p, l->x, 0, l->out), l->out * sizeof *s.pivot);
    }
    p->k->norm_sums(count, l->out, pass_at(p, l->x, first, l->out), s.pivot, s.sum, s.square);
}

static void norm_forward_settle(const struct layer *l, struct pass *p)
{
    struct norm_state s = norm_state_of(l, p);
    const float *gamma = p->in->dense + l->weight;
    const float *running_mean = p->in->stats + l->mean, *running_variance = p->in->stats + l->variance;
    double n = p->in->examples;

    for (uint32_t j = 0; j < l->out; j++) {
        double mean = (double)running_mean[j];
        double variance =
            running_variance[j] > 0 ? (double)running_variance[j] : 0.0; /* concurrent moves may overshoot */
        if (norm_of_batch(p)) {
            double off = s.sum[j] / n, spread = s.square[j] / n - off * off;
            mean = (double)s.pivot[j] + off;
            variance = spread > 0 ? spread : 0.0;
            float *gradient = p->out->stats_gradients;
            gradient[l->mean + j] = (float)(NORM_MOMENTUM * ((double)running_mean[j] - mean));
            gradient[l->variance + j] = (float)(NORM_MOMENTUM * ((double)running_variance[j] - variance * n / (n - 1)));
        }
        s.mean[j] = (float)mean;
        s.inverse[j] = (float)(1.0 / sqrt(variance + NORM_EPS));
        s.scale[j] = s.inverse[j] * gamma[j];
    }
}

static void norm_forward(const struct layer *l, struct pass *p, uint32_t first, uint32_t count)
{
    struct norm_state s = norm_state_of(l, p);
    p->k->norm_apply(count, l->out, pass_at(p, l->x, first, l->out), s.mean, s.scale, p->in->dense + l->bias,
                     pass_at(p, l->y, first, l->out));
}

static void norm_backward_gather(const struct layer *l, struct pass *p, uint32_t first, uint32_t count)
{
    struct norm_state s = norm_state_of(l, p);
    if (first == 0)
        memset(s.sum, 0, 2 * l->out * sizeof *s.sum);
    p->k->norm_back_sums(count, l->out, pass_at(p, l->x, first, l->out), pass_at(p, l->dy, first, l->out), s.mean,
                         s.sum, s.square);
}

/* With h = (x - mean) inverse: dx = gamma inverse (dy - mean of dy - h mean of (dy h)). Statistics that are not of the
 * batch are constants, and leave gamma inverse dy. */
static void norm_backward_settle(const struct layer *l, struct pass *p)
{
    struct norm_state s = norm_state_of(l, p);
    float *gamma_gradient = p->out->dense_gradients + l->weight, *beta_gradient = p->out->dense_gradients + l->bias;
    double n = norm_of_batch(p) ? (double)p->in->examples : INFINITY;

    for (uint32_t j = 0; j < l->out; j++) {
        double inverse = (double)s.inverse[j], product = s.square[j] * inverse;
        gamma_gradient[j] += (float)product;
        beta_gradient[j] += (float)s.sum[j];
        s.slope[j] = (float)((double)s.scale[j] * inverse * product / n);
        s.shift[j] = (float)((double)s.scale[j] * s.sum[j] / n);
    }
}

static void norm_backward(const struct layer *l, struct pass *p, uint32_t first, uint32_t count)
{
    struct norm_state s = norm_state_of(l, p);
    p->k->norm_back_apply(count, l->out, pass_at(p, l->x, first, l->out), s.mean, s.scale, s.slope, s.shift,
                          pass_at(p, l->dy, first, l->out));
}

const struct layer_ops norm_layer = {
    .name = "norm",
    .forward = norm_forward,
    .backward = norm_backward,
    .forward_gather = norm_forward_gather,
    .backward_gather = norm_backward_gather,
    .forward_settle = norm_forward_settle,
    .backward_settle = norm_backward_settle,
};
