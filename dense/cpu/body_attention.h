/* body_attention.h: the kernels of dense/ops_attention.h. */
#ifndef DENSE_CPU_BODY_ATTENTION_H
#define DENSE_CPU_BODY_ATTENTION_H

#include "dense/cpu/body_attend.h"
#include "dense/cpu/body_gate.h"
#include "dense/cpu/body_layer_norm.h"
#include "dense/cpu/body_sequence.h"

static void body_attention_fill(struct attention_ops *o)
{
    o->layer_norm_forward = body_layer_norm_forward;
    o->layer_norm_backward = body_layer_norm_backward;
    o->attend_forward = body_attend_forward;
    o->attend_backward = body_attend_backward;
    o->gate_forward = body_gate_forward;
    o->gate_backward = body_gate_backward;
    o->dots_forward = body_dots_forward;
    o->dots_backward = body_dots_backward;
    o->sequence_begin = body_sequence_begin;
    o->sequence_next = body_sequence_next;
    o->sequence_features = body_sequence_features;
    o->sequence_pool = body_sequence_pool;
    o->sequence_pool_backward = body_sequence_pool_backward;
    o->sequence_features_backward = body_sequence_features_backward;
    o->sequence_end = body_sequence_end;
}

#endif
