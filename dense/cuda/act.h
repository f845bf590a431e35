/* act.h: activation and dropout of one value, as in dense/cpu/body_act.h. */
#ifndef DENSE_CUDA_ACT_H
#define DENSE_CUDA_ACT_H

#include "dense/cuda/kernel.h"

/* The same bits as on the CPU. */
BODY bool dropout_keeps(const struct dropout_mask *mask, uint32_t value)
{
    uint32_t x = value + mask->key[0];
    x ^= x >> 16;
    x *= 0x21f0aaadu;
    x += mask->key[1];
    x ^= x >> 15;
    x *= 0xd35a2d97u;
    x ^= x >> 15;
    return x >> 8 >= mask->threshold;
}

/* The example that the mask is drawn for. Examples that only fill the batch up are copies of the
 * first one and get its mask: with masks of their own they could keep, scaled up, a value that the
 * first one drops, and overflow where no real example does. */
BODY uint32_t dropout_example(const struct dropout_mask *mask, uint32_t first, uint32_t row)
{
    uint32_t example = first + (mask->row ? mask->row[row] : row);
    if (mask->live && example >= *mask->live)
        return 0;
    return example;
}

BODY float act_value(enum activation act, float x)
{
    if (act == ACT_RELU)
        return x < 0.0f ? 0.0f : x; /* NaN passes: the loss must show it */
    if (act == ACT_NONE)
        return x;
    if (act == ACT_TANH)
        return tanhf(x);
    return 1.0f / (1.0f + expf(-x));
}

/* The derivative, computed from the activation's value. */
BODY float act_slope(enum activation act, float a)
{
    if (act == ACT_RELU)
        return a > 0.0f ? 1.0f : 0.0f;
    if (act == ACT_NONE)
        return 1.0f;
    return act == ACT_TANH ? 1.0f - a * a : a * (1.0f - a);
}

#endif
