/* body.h: all kernel bodies, compiled into each of kernels_*.c, and the table that they fill. */
#ifndef DENSE_CPU_BODY_H
#define DENSE_CPU_BODY_H

#include "dense/cpu/body_act.h"
#include "dense/cpu/body_fm.h"
#include "dense/cpu/body_head.h"
#include "dense/cpu/body_norm.h"
#include "dense/cpu/body_pool.h"
#include "dense/cpu/kernels.h"

static void body_scale(size_t count, float factor, const float *x, float *y)
{
    if (factor == 0.0f) {
        memset(y, 0, count * sizeof *y);
        return;
    }
    size_t i = 0;
    for (; i + VECTOR <= count; i += VECTOR)
        vector_store(y + i, vector_load(x + i) * factor);
    for (; i < count; i++)
        y[i] = x[i] * factor;
}

static void body_fill(struct backend_ops *ops)
{
    ops->act_forward = body_act_forward;
    ops->act_backward = body_act_backward;
    ops->norm_sums = body_norm_sums;
    ops->norm_apply = body_norm_apply;
    ops->norm_back_sums = body_norm_back_sums;
    ops->norm_back_apply = body_norm_back_apply;
    ops->head_forward = body_head_forward;
    ops->head_backward = body_head_backward;
    ops->pool_forward = body_pool_forward;
    ops->pool_backward = body_pool_backward;
    ops->fm_forward = body_fm_forward;
    ops->fm_backward = body_fm_backward;
    ops->scale = body_scale;
}

#endif
