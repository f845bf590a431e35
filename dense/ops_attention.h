/* ops_attention.h: kernels of attention, gates, layer norm and products of two streams (AutoInt,
 * DIN, FinalMLP). Part of struct backend_ops (backend_ops.h): its words on memory, streams, layout
 * and order hold here too. */
#ifndef DENSE_OPS_ATTENTION_H
#define DENSE_OPS_ATTENTION_H

#include "proto/job/job.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct stream;
struct dropout_mask; /* backend.h */

#define LAYER_NORM_EPS 1e-5f

/* y = act((x - mean) inverse * gamma + beta), mean and inverse = 1 / sqrt(variance + eps) of the
 * row. */
struct layer_norm_args {
    uint32_t count, width;
    const float *x; /* (count, width) */
    uint32_t ldx;
    const float *gamma, *beta; /* (width) */
    enum activation act;
    float *y; /* (count, width) */
    uint32_t ldy;
    float *moments; /* (count, 2): mean and inverse; for the way back */
    /* the way back */
    float *dy; /* (count, width): becomes dx, where it lies */
    uint32_t lddy;
    float *gamma_gradient, *beta_gradient; /* (width), += */
};

/* Attention of an example's fields on one another, for each head h: y_h = dropout(softmax(Q_h K_h'
 * / sqrt(head width))) V_h + residual_h. Rows of fields follow one another without gaps; the
 * residual's do so within an example. */
struct attend_args {
    uint32_t first, count; /* number of the first example, for the mask; examples */
    uint32_t fields, heads;
    uint32_t width;        /* all heads together */
    uint32_t parts;        /* 3: x is queries, keys, values, side by side; 4: and the residual */
    const float *x;        /* (count, fields, parts * width) */
    const float *residual; /* (count, fields, width); NULL when it is in x */
    uint32_t ldresidual;   /* floats from an example's residual to the next's */
    float *y;              /* (count, fields, width) */
    /* (count, attend_share_floats): softmax, for the way back, which may write over it */
    float *share;
    float *work; /* attend_work_floats, 64-byte aligned */
    /* the mask of the shares: value (((example * heads) + h) * fields + key) * fields + query */
    const struct dropout_mask *mask;
    /* the way back */
    const float *dy;  /* (count, fields, width) */
    float *dx;        /* (count, fields, parts * width), = */
    float *dresidual; /* (count, fields, width); NULL: in dx, or not wanted */
    uint32_t lddresidual;
    bool add; /* dresidual +=, else = */
};

/* Fields, filled up to whole vectors. */
static inline uint32_t attend_lanes(uint32_t fields)
{
    return (fields + 15) / 16 * 16;
}

static inline uint32_t attend_share_floats(uint32_t fields, uint32_t heads)
{
    return heads * fields * attend_lanes(fields);
}

/* Work space, whatever the batch: one head's queries, turned, and two matrices of shares. */
static inline uint32_t attend_work_floats(uint32_t fields, uint32_t head_width)
{
    return (attend_lanes(head_width) + 2 * fields) * attend_lanes(fields);
}

/* A part of one field's values: consecutive entries of `index`. The backend chooses the number. */
struct sequence_chunk {
    uint32_t example, place; /* where the next chunk begins; the backend's own */
    uint32_t rows; /* entries of this chunk; a device pads it with entries of no example */
    /* (rows): the example that the value is of, counted from `first`; SEQUENCE_NOBODY */
    uint32_t *owner;
    uint32_t *value; /* (rows): its place in index */
};
#define SEQUENCE_NOBODY UINT32_MAX

/* Where the values of a slot begin. offset NULL: each slot has one value. */
static inline uint32_t slot_begin(const uint32_t *offset, uint32_t slot)
{
    if (offset == NULL)
        return slot;
    return offset[slot];
}

/* Values of one field, weighed one by one against the example's target. */
struct sequence_args {
    uint32_t first, count; /* examples */
    uint32_t values;       /* entries of index, for the whole batch */
    uint32_t row_count;
    uint32_t fields, field, dim;
    uint32_t first_order;           /* floats of a row before its vector */
    uint32_t room;                  /* rows that a chunk may have */
    void *kept;                     /* the result of sequence_begin, which the backend owns */
    const uint32_t *index, *offset; /* as in struct pool_args */
    const float *rows;
    const float *target; /* (count, dim) */
    uint32_t ldtarget;
    float *features; /* (rows, 4 * dim): h, t, h - t, h * t; zeros for SEQUENCE_NOBODY */
    float *weight;   /* (rows) */
    float *y;        /* (count, dim) */
    uint32_t ldy;
    /* the way back */
    const float *dy;
    uint32_t lddy;
    float *dfeatures; /* (rows, 4 * dim) */
    float *dweight;   /* (rows) */
    float *dtarget;   /* (count, dim), += */
    uint32_t lddtarget;
    float *row_gradients; /* (row_count, first_order + dim), += */
};

struct attention_ops {
    void (*layer_norm_forward)(struct stream *s, const struct layer_norm_args *a);
    void (*layer_norm_backward)(struct stream *s, const struct layer_norm_args *a);

    void (*attend_forward)(struct stream *s, const struct attend_args *a);
    void (*attend_backward)(struct stream *s, const struct attend_args *a);

    /* y (count, width) = factor * x * g. */
    void (*gate_forward)(struct stream *s, uint32_t count, uint32_t width, float factor,
                         const float *x, uint32_t ldx, const float *g, uint32_t ldg, float *y,
                         uint32_t ldy);
    /* dg = factor * x * dy; dx = (add ? dx : 0) + factor * g * dy in the leading dx_width
     * columns. */
    void (*gate_backward)(struct stream *s, uint32_t count, uint32_t width, float factor,
                          const float *x, uint32_t ldx, const float *g, uint32_t ldg,
                          const float *dy, uint32_t lddy, float *dg, uint32_t lddg, float *dx,
                          uint32_t lddx, uint32_t dx_width, bool add);

    /* logit[i * stride] += t_i . z_i, both (count, width). */
    void (*dots_forward)(struct stream *s, uint32_t count, uint32_t width, const float *t,
                         uint32_t ldt, const float *z, uint32_t ldz, float *logit, uint32_t stride);
    /* dz = (add ? dz : 0) + dlogit[i * stride] * t; then t = dlogit[i * stride] * z. */
    void (*dots_backward)(struct stream *s, uint32_t count, uint32_t width, float *t, uint32_t ldt,
                          const float *z, uint32_t ldz, const float *dlogit, uint32_t stride,
                          float *dz, uint32_t lddz, bool add);

    /* Sequences (attention.c). Before a range's first chunk: y = 0; back: before its first on the
     * way back. */
    void *(*sequence_begin)(struct stream *s, const struct sequence_args *a, bool back);
    /* The next chunk of a field's values; false: there is none. *c begins as zeros with its two
     * arrays of `room`; what they say stays until the next call. Chunks come in the order of the
     * examples. */
    bool (*sequence_next)(struct stream *s, const struct sequence_args *a,
                          struct sequence_chunk *c);
    void (*sequence_features)(struct stream *s, const struct sequence_args *a,
                              const struct sequence_chunk *c);
    /* y of the chunk's examples += sum of weight * h. */
    void (*sequence_pool)(struct stream *s, const struct sequence_args *a,
                          const struct sequence_chunk *c);
    /* dweight = dy . h; 0 for SEQUENCE_NOBODY. */
    void (*sequence_pool_backward)(struct stream *s, const struct sequence_args *a,
                                   const struct sequence_chunk *c);
    /* From dfeatures, weight and dy: the gradients of the targets and of the values' rows. */
    void (*sequence_features_backward)(struct stream *s, const struct sequence_args *a,
                                       const struct sequence_chunk *c);
    /* After the last chunk on the way back: a backend that keeps the values' gradients merges them
     * into row_gradients now. */
    void (*sequence_end)(struct stream *s, const struct sequence_args *a);
};

#endif
