/* norm.h: batch norm (Ioffe, Szegedy 2015), before the activation.
 *
 * Training takes mean and variance of the batch, and pushes momentum x (running - batch) as the
 * gradient of the running statistics, so that SGD with lr 1 moves them towards the batch (its
 * variance without bias). Prediction takes the running statistics; so does training on a batch of
 * one example, which has no variance.
 *
 * **Momentum.** One process alone takes 0.1. Here `running` is as it was pulled, and by the time a
 * push is applied the others' have moved it too: with n batches pulled and not yet applied, the
 * average over all of them comes n moves too late. A move in proportion to what was seen n moves
 * ago swings, ever wider from momentum x n = pi / 2 on, and settles without swinging below 1 / e. n
 * is lanes x what a lane has under way, however fast each lane is: a slow lane's batch is older,
 * but there are as many fewer of them. So the momentum is 0.1 / lanes, by which a clock moves the
 * statistics by a tenth as a step of one process does; under bsp, where the lanes' moves are added
 * up, it is a tenth just so. And where a lane has more than five batches under way it is divided
 * further, so that momentum x n never exceeds a half, a third of what it could bear. */
#ifndef DENSE_LAYER_NORM_H
#define DENSE_LAYER_NORM_H

#include "dense/layer/layer.h"

#define NORM_EPS 1e-5
#define NORM_MOMENTUM 0.1  /* of all lanes together */
#define NORM_UNDER_WAY 5.0 /* batches of a lane, pulled and not yet applied, that this bears */

struct plan;

/* By how much one push moves the running statistics towards its batch's: a function of lanes,
 * consistency, staleness and prefetch. */
double norm_momentum(const struct job *job);

/* Floats of the state tensor of a norm layer of `width`. */
uint32_t norm_state_floats(uint32_t width);

/* A layer's working values, each (width) long; the kernels' view of its state. The sums are double
 * and stand first, for their alignment. */
struct norm_state {
    double *sum, *square; /* forward: of x - pivot; backward: of dy, and of dy (x - mean) */
    float *pivot; /* a row of the batch: near the mean, so that the sums of squares lose nothing */
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

/* Uses x, y, parameters 0: gamma, 1: beta; mean, variance; state 0. The gradient is worked on in
 * place. */
extern const struct layer_ops norm_layer;
/* y = norm(x), both (width). */
void norm_plan(struct plan *p, struct view x, struct view y);

#endif
