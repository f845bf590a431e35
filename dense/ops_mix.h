/* ops_mix.h: kernels of experts and gates of several tasks (MMoE, PLE). Part of struct backend_ops
 * (backend_ops.h): its words on memory, streams, layout and order hold here too.
 *
 * Experts' outputs are blocks of `width` columns of one matrix: first those that all tasks share,
 * then each task's own. A task's gate chooses among the shared ones and its own, in this order.
 *
 * Where gates choose a few experts (top_k), an expert computes the examples that chose it and no
 * others. Its rows are then packed: row i of its columns belongs to the i-th of these examples.
 * struct mix_rows says which examples these are, and where an example's row lies. */
#ifndef DENSE_OPS_MIX_H
#define DENSE_OPS_MIX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MIX_GATE_MAX 128u /* experts that one gate chooses among */
#define MIX_NOWHERE UINT32_MAX

struct stream;

/* The rows of a level's experts for a range of examples, in the backend's memory. */
struct mix_rows {
    uint32_t count, experts; /* examples of the range */
    /* (experts): examples that chose it. NULL: each expert has a row for each example */
    uint32_t *load;
    uint32_t *place; /* (count, experts): the example's row, or MIX_NOWHERE */
    uint32_t *row;   /* (experts, count): the expert's examples, ascending; load[e] of them */
};

/* Numbers for each example in the array that holds struct mix_rows: 1 + 2 count at most 3 count. */
static inline uint32_t mix_rows_width(uint32_t experts)
{
    return 3 * experts;
}

static inline struct mix_rows mix_rows_of(void *at, uint32_t count, uint32_t experts)
{
    struct mix_rows r;
    r.count = count;
    r.experts = experts;
    r.load = (uint32_t *)at;
    r.place = r.load + experts;
    r.row = r.place + (size_t)count * experts;
    return r;
}

struct mix_args {
    uint32_t count;              /* rows */
    uint32_t tasks, shared, own; /* experts: `shared` + tasks * `own` */
    uint32_t width;              /* columns of an expert's output */
    uint32_t top_k;              /* experts that a gate lets through; 0: all */
    const float *x;              /* (count, experts * width), or the rows of `rows` */
    uint32_t ldx;
    struct mix_rows rows;
    const float *gate; /* (count, tasks * (shared + own)): before the softmax */
    uint32_t ldgate;
    /* (count, tasks * (shared + own)): written on the way forward, read on the way back */
    float *share;
    float *y; /* (count, tasks * width) */
    uint32_t ldy;
    /* the way back */
    const float *dy; /* (count, tasks * width) */
    uint32_t lddy;
    float *dx; /* as x */
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

/* The row in which expert `block` has example i's output; MIX_NOWHERE: it computed none. */
static inline uint32_t mix_row(const struct mix_args *a, uint32_t i, uint32_t block)
{
    if (!a->rows.load)
        return i;
    return a->rows.place[(size_t)i * a->rows.experts + block];
}

/* The gates of a level: those of the tasks, and that which chooses among all its experts. */
struct mix_choose_args {
    uint32_t tasks, shared, own;
    const float *share;   /* (count, tasks * (shared + own)): of the tasks' gates */
    const float *all;     /* (count, experts): of the gate of all experts; NULL: there is none */
    const uint32_t *live; /* as in struct norm_args: rows beyond choose nothing */
    struct mix_rows rows; /* written */
    uint64_t *load;       /* (experts): += the examples that chose it */
};

/* True when a gate of example i gives the expert a share. A share that is not a number counts. */
static inline bool mix_chosen(const struct mix_choose_args *a, uint32_t i, uint32_t expert)
{
    uint32_t choices = a->shared + a->own;
    const float *share = a->share + (size_t)i * a->tasks * choices;
    if (a->live && i >= *a->live)
        return false;
    if (a->all && a->all[(size_t)i * a->rows.experts + expert] != 0.0f)
        return true;
    if (expert >= a->shared) {
        uint32_t task = (expert - a->shared) / a->own;
        return share[task * choices + expert - task * a->own] != 0.0f;
    }
    for (uint32_t t = 0; t < a->tasks; t++)
        if (share[t * choices + expert] != 0.0f)
            return true;
    return false;
}

/* The rows of one expert's input. */
struct mix_gather_args {
    uint32_t expert, count, width; /* rows of y: load[expert] at least */
    struct mix_rows rows;
    const float *x; /* gather: (rows.count, width) */
    uint32_t ldx;
    float *y; /* gather: (count, width) */
    uint32_t ldy;
    const float *dy; /* scatter: (load[expert], width) */
    uint32_t lddy;
    float *dx; /* scatter: (rows.count, width) */
    uint32_t lddx;
    bool add; /* dx +=, else = */
};

/* The importance of an expert is the sum of its shares over the batch (Shazeer et al. 2017,
 * equation 6). For each gate the loss grows by factor * CV^2, the squared coefficient of variation
 * of its experts' importances (equation 7). They add up to the batch's examples n, so that CV^2 =
 * choices * sum of (importance / n)^2 - 1. */
struct mix_balance_args {
    uint32_t count, gates, choices;
    const float *share;   /* (count, gates * choices) */
    const uint32_t *live; /* as in struct norm_args */
    double *sum;          /* (gates * choices): importances */
    float *slope;         /* (gates * choices): the loss by share */
    uint32_t examples;    /* examples of the batch; *live where there is one */
    const float *factor;  /* in the backend's memory */
    float *dgate;         /* (count, gates * choices) */
    uint32_t lddgate;
};

struct mix_ops {
    /* For each task: share = softmax of the gate over the top_k largest (of equal ones the first),
     * 0 for the others. What is not a number is let through: the loss must show it. */
    void (*share)(struct stream *s, const struct mix_args *a);
    /* y = sum of share times output. */
    void (*forward)(struct stream *s, const struct mix_args *a);
    /* dx of an expert = sum over the tasks of share * dy; dgate = share (s - sum of share * s), s =
     * dy . output. What has share 0 is neither read nor given a gradient. On a device the rows of
     * dx behind an expert's last one become zero. */
    void (*backward)(struct stream *s, const struct mix_args *a);
    /* The examples of each expert. */
    void (*choose)(struct stream *s, const struct mix_choose_args *a);
    /* y = the rows of x that chose the expert, then zeros up to `count` rows. */
    void (*gather)(struct stream *s, const struct mix_gather_args *a);
    /* dx = (add ? dx : 0) + the row of dy of each example that chose the expert. */
    void (*scatter)(struct stream *s, const struct mix_gather_args *a);
    /* sum += the shares. */
    void (*balance_gather)(struct stream *s, const struct mix_balance_args *a);
    /* slope = *factor * 2 choices * sum / examples^2. */
    void (*balance_settle)(struct stream *s, const struct mix_balance_args *a);
    /* dgate += the balancing loss's gradient. */
    void (*balance_backward)(struct stream *s, const struct mix_balance_args *a);
};

#endif
