/* body.h: all kernel bodies, compiled into each of kernels_*.c, and the table that they fill. */
#ifndef DENSE_CPU_BODY_H
#define DENSE_CPU_BODY_H

#include "dense/cpu/body_act.h"
#include "dense/cpu/body_attention.h"
#include "dense/cpu/body_interact.h"
#include "dense/cpu/body_loss.h"
#include "dense/cpu/body_mix.h"
#include "dense/cpu/body_norm.h"
#include "dense/cpu/body_pool.h"
#include "dense/cpu/kernels.h"

static void body_fill(struct backend_ops *ops)
{
    ops->act_forward = body_act_forward;
    ops->act_backward = body_act_backward;
    ops->norm_begin = body_norm_begin;
    ops->norm_gather = body_norm_gather;
    ops->norm_settle = body_norm_settle;
    ops->norm_apply = body_norm_apply;
    ops->bias_forward = body_bias_forward;
    ops->bias_backward = body_bias_backward;
    ops->head_forward = body_head_forward;
    ops->head_backward = body_head_backward;
    ops->pool_begin = body_pool_begin;
    ops->pool_forward = body_pool_forward;
    ops->pool_backward = body_pool_backward;
    ops->probe_backward = body_probe_backward;
    ops->fm_forward = body_fm_forward;
    ops->fm_backward = body_fm_backward;
    ops->loss = body_loss;
    ops->scale = body_scale;
    ops->scale_by = body_scale_by;
    ops->add = body_add;
    ops->square_sum = body_square_sum;
    ops->clip = body_clip;
    ops->clip_rows = body_clip_rows;
    body_attention_fill(&ops->attention);
    body_interact_fill(&ops->interact);
    body_mix_fill(&ops->mix);
}

#endif
