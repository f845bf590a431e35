/* backend.h: the vtable of matrix products and element-wise kernels, and the loading of the module that fills it.
 *
 * A module (libshoal_cpu.so, libshoal_cuda.so) is a shared object with one symbol, shoal_backend_v1, which gives its
 * table of functions. It is loaded with dlopen, so that the program needs neither BLAS nor CUDA to start, and so that
 * the BLAS can be told its kernel type (OPENBLAS_CORETYPE) before it is loaded.
 *
 * All matrices are row-major float: activations (examples, features), weights (out, in). Every function is a pure
 * function of its arguments with a fixed order of reduction: the same bits at each call on one kernel type. Of the
 * element-wise kernels of the CPU module the bits are the same at every vector width; those of a matrix product differ.
 *
 * Threads: functions may be called by several threads at the same time, each with its own arrays; none starts a thread.
 */
#ifndef DENSE_BACKEND_H
#define DENSE_BACKEND_H

#include "dense/model.h"

#define BACKEND_ABI 1u /* of struct backend_ops: a module of another number is refused */
#define BACKEND_SYMBOL "shoal_backend_v1"

/* Which values dropout keeps: value i of a layer stays when draw(key, i) >= threshold, in 2^-24, and is multiplied by
 * scale = 1 / (1 - rate). threshold 0: no dropout. */
struct dropout_mask {
    uint32_t key[2];
    uint32_t threshold;
    float scale;
};

/* Rows of a sparse table and where they go in the input of a batch. first and count say which examples are meant;
 * index, offset and numeric are those of the whole batch, x and logit begin at example `first`. */
struct pool_args {
    uint32_t first, count;
    uint32_t fields, dim, numerics;
    const uint8_t *pooling; /* (fields): enum pooling */
    const uint32_t *index;  /* as in struct model_input */
    const uint32_t *offset; /* or NULL */
    const float *rows;      /* (rows, 1 + dim): first-order weight, then the vector */
    const float *numeric;   /* (examples, numerics) */
};

struct backend_ops {
    uint32_t abi;                /* BACKEND_ABI */
    const char *name;            /* "cpu" */
    const char *(*kernel)(void); /* kernel type of the matrix product, "SkylakeX" */

    /* c (m, n) = op(a) op(b) + beta c; beta 0 does not read c. op(a) is (m, k), op(b) is (k, n); `transpose` says that
     * the matrix lies the other way round; ld*: floats from a row to the next. */
    void (*gemm)(bool transpose_a, bool transpose_b, uint32_t m, uint32_t n, uint32_t k, const float *a, uint32_t lda,
                 const float *b, uint32_t ldb, float beta, float *c, uint32_t ldc);

    /* y (count, width) = dropout(act(y + bias)); bias (width) or NULL. first: number of the first row, for the mask. */
    void (*act_forward)(enum activation act, const struct dropout_mask *mask, uint32_t first, uint32_t count,
                        uint32_t width, const float *bias, float *y);
    /* dy *= derivative, from the output y; bias_gradient (width) += sum of dy over the rows, unless NULL. */
    void (*act_backward)(enum activation act, const struct dropout_mask *mask, uint32_t first, uint32_t count,
                         uint32_t width, const float *y, float *dy, float *bias_gradient);

    /* Batch norm. sum[j] += sum over rows of (x - pivot[j]), square[j] likewise of the squares. */
    void (*norm_sums)(uint32_t count, uint32_t width, const float *x, const float *pivot, double *sum, double *square);
    /* y = (x - mean) * scale + shift. */
    void (*norm_apply)(uint32_t count, uint32_t width, const float *x, const float *mean, const float *scale,
                       const float *shift, float *y);
    /* sum[j] += sum of dy; product[j] += sum of dy * (x - mean). */
    void (*norm_back_sums)(uint32_t count, uint32_t width, const float *x, const float *dy, const float *mean,
                           double *sum, double *product);
    /* dy = scale * dy - slope * (x - mean) - shift. */
    void (*norm_back_apply)(uint32_t count, uint32_t width, const float *x, const float *mean, const float *scale,
                            const float *slope, const float *shift, float *dy);

    /* One output: logit[i] += x_i . w, rows of x `ldx` floats apart. */
    void (*head_forward)(uint32_t count, uint32_t width, const float *x, uint32_t ldx, const float *w, float *logit);
    /* dw += sum of dlogit[i] * x_i; dx (count, width) = dlogit[i] * w, unless dx is NULL. */
    void (*head_backward)(uint32_t count, uint32_t width, const float *x, uint32_t ldx, const float *w,
                          const float *dlogit, float *dw, float *dx);

    /* x (count, fields * dim + numerics): pooled vectors, then the numerics (not touched when dim is 0); logit[i] +=
     * pooled first-order weights. */
    void (*pool_forward)(const struct pool_args *a, float *x, float *logit);
    /* row_gradients (rows, 1 + dim) += dlogit and dx (count, fields * dim), spread over the values; in the order of the
     * examples. */
    void (*pool_backward)(const struct pool_args *a, const float *dx, const float *dlogit, float *row_gradients);

    /* Pairwise products of the field vectors: logit[i] += 1/2 (|sum v|^2 - sum |v|^2). sums (count, dim): sum v, for
     * the way back. */
    void (*fm_forward)(uint32_t count, uint32_t fields, uint32_t dim, const float *x, uint32_t ldx, float *sums,
                       float *logit);
    /* dx (count, fields * dim) = (add ? dx : 0) + dlogit[i] * (sums_i - v). */
    void (*fm_backward)(uint32_t count, uint32_t fields, uint32_t dim, const float *x, uint32_t ldx, const float *sums,
                        const float *dlogit, bool add, float *dx);

    /* y = factor * x; factor 0 does not read x. */
    void (*scale)(size_t count, float factor, const float *x, float *y);
};

/* backend_load (dense/model.h) sets OPENBLAS_CORETYPE, so call it before other threads read the environment. */
const struct backend_ops *backend_ops_of(const struct backend *b);

/* The kernel type that OpenBLAS should be told on this processor, or NULL to let it choose. */
const char *backend_core_type(void);

#endif
