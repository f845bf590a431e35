/* norm.h: batch norm, before the activation.
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

/* Floats of the state tensor of a norm layer of `width`. */
uint32_t norm_state_floats(uint32_t width);

/* Uses x, y, dy (in place: dx == dy), out, weight (gamma), bias (beta), mean, variance, state. */
extern const struct layer_ops norm_layer;

#endif
