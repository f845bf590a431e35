/* norm.h: batch norm (Ioffe, Szegedy 2015), before the activation.
 *
 * Training takes mean and variance of the batch, and pushes running - new running as the gradient of the running
 * statistics, so that SGD with lr 1 sets them: new running = 0.9 running + 0.1 batch (the variance without bias). Lanes
 * that push at the same time each move it by their tenth. Prediction takes the running statistics; so does training on
 * a batch of one example, which has no variance. */
#ifndef DENSE_NORM_H
#define DENSE_NORM_H

#include "dense/layer.h"

#define NORM_EPS 1e-5
#define NORM_MOMENTUM 0.1

struct plan;

/* Floats of the state tensor of a norm layer of `width`. */
uint32_t norm_state_floats(uint32_t width);

/* A layer's working values, each (width) long; the kernels' view of its state. The sums are double and stand first, for
 * their alignment. */
struct norm_state {
    double *sum, *square;  /* forward: of x - pivot; backward: of dy, and of dy (x - mean) */
    float *pivot;          /* a row of the batch: near the mean, so that the sums of squares lose nothing */
    float *mean, *inverse; /* 1 / sqrt(variance + eps) */
    float *scale, *slope, *shift;
};

static inline struct norm_state norm_state_of(float *state, uint32_t width)
{
    size_t w = width;
    float *f = state + 4 * w;
    double *d = (double *)(void *)state; /* 64-byte aligned */
    struct norm_state s = {d, d + w, f, f + w, f + 2 * w, f + 3 * w, f + 4 * w, f + 5 * w};
    return s;
}

/* Uses x, y, parameters 0: gamma, 1: beta; mean, variance; state 0. The gradient is worked on in place. */
extern const struct layer_ops norm_layer;
/* y = norm(x), both (width). */
void plan_norm(struct plan *p, struct view x, struct view y);

#endif
