/* ops_mix.h: kernels of experts and gates of several tasks (MMoE, PLE). Part of struct backend_ops
 * (backend_ops.h): its words on memory, streams, layout and order hold here too.
 *
 * Experts' outputs are blocks of `width` columns of one matrix: first those that all tasks share,
 * then each task's own. A task's gate chooses among the shared ones and its own, in this order. */
#ifndef DENSE_OPS_MIX_H
#define DENSE_OPS_MIX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MIX_GATE_MAX 128u /* experts that one gate chooses among */

struct stream;

struct mix_args {
    uint32_t count;              /* rows */
    uint32_t tasks, shared, own; /* experts: `shared` + tasks * `own` */
    uint32_t width;              /* columns of an expert's output */
    uint32_t top_k;              /* experts that a gate lets through; 0: all */
    const float *x;              /* (count, experts * width) */
    uint32_t ldx;
    const float *gate; /* (count, tasks * (shared + own)): before the softmax */
    uint32_t ldgate;
    /* (count, tasks * (shared + own)): written on the way forward, read on the way back */
    float *share;
    float *y; /* (count, tasks * width) */
    uint32_t ldy;
    /* the way back */
    const float *dy; /* (count, tasks * width) */
    uint32_t lddy;
    float *dx; /* (count, experts * width) */
    uint32_t lddx;
    float *dgate; /* (count, tasks * (shared + own)) */
    uint32_t lddgate;
    bool add, add_gate; /* dx, dgate +=, else = */
};

/* Column block of the e-th expert that task t's gate chooses among. */
static inline uint32_t mix_expert(const struct mix_args *a, uint32_t t, uint32_t e)
{
    if (e < a->shared)
        return e;
    return e + t * a->own;
}

struct mix_ops {
    /* For each task: share = softmax of the gate over the top_k largest (of equal ones the first),
     * 0 for the others; y = sum of share times output. What is not a number is let through: the
     * loss must show it. */
    void (*forward)(struct stream *s, const struct mix_args *a);
    /* dx of an expert = sum over the tasks of share * dy; dgate = share (s - sum of share * s), s =
     * dy . output. What has share 0 is neither read nor given a gradient. */
    void (*backward)(struct stream *s, const struct mix_args *a);
};

#endif
