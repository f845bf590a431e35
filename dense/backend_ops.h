/* backend_ops.h: the vtable of matrix products and element-wise kernels, and the loading of the
 * module that fills it.
 *
 * A module (libshoal_cpu.so, libshoal_cuda.so) is a shared object with one symbol,
 * shoal_backend_v10, which gives its table of functions. It is loaded with dlopen, so that the
 * program needs neither BLAS nor CUDA to start, and so that the BLAS can be told its kernel type
 * (OPENBLAS_CORETYPE) before it is loaded.
 *
 * Memory. Every float pointer that a kernel takes lies in the backend's memory: the host's on the
 * CPU (`host` is true), the card's with CUDA. What changes from step to step without changing the
 * shape (mask keys, loss factors) is read from that memory too and not passed by value, so that a
 * recorded graph can be played again.
 *
 * Streams. Kernels are queued on a stream, in order, and may run later; stream_finish waits. A
 * kernel that fails is remembered by the stream: later calls do nothing, stream_finish says what
 * happened. On the CPU all is done at once.
 *
 * Devices. A worker may drive several; a stream belongs to one. What is queued on a stream writes
 * the memory of its own device only, and reads that of another device in `fetch` alone, after
 * `after`.
 *
 * All matrices are row-major float: activations (examples, features), weights (out, in); ld*:
 * floats from a row to the next. Every function is a pure function of its arguments with a fixed
 * order of reduction: the same bits at each call on one kernel type. Of the element-wise kernels of
 * the CPU module the bits are the same at every vector width; those of a matrix product differ.
 *
 * Threads: a stream belongs to one thread at a time; several threads may work on streams of their
 * own. */
#ifndef DENSE_BACKEND_OPS_H
#define DENSE_BACKEND_OPS_H

#include "dense/backend.h"
#include "dense/model_input.h"
#include "dense/ops_attention.h"
#include "dense/ops_interact.h"
#include "dense/ops_mix.h"

#define BACKEND_ABI 9u /* the version of struct backend_ops; a module of another one is refused */
#define BACKEND_SYMBOL "shoal_backend_v10"

struct stream;

struct stream_spec {
    enum precision precision; /* precision of matrix products; the CPU always computes in fp32 */
    bool deterministic;
    uint32_t device; /* index of the worker's device, counted round; the CPU is one device */
};

/* Rows of a matrix that go from one memory to another. */
struct strip {
    uint32_t rows, width; /* floats of a row */
    float *to;
    const float *from;
    size_t ld_to, ld_from;
};

/* The values that dropout keeps: value i of a layer stays when draw(key, i) >= threshold, in 2^-24,
 * and is multiplied by scale = 1 / (1 - rate). threshold 0: no dropout. */
struct dropout_mask {
    const uint32_t *key; /* (2), in the backend's memory; not read when threshold is 0 */
    uint32_t threshold;
    float scale;
    /* as in struct norm_args: rows from *live on copy the first example, and get its mask */
    const uint32_t *live;
    /* the examples of packed rows (struct mix_rows), counted from the first row; NULL: row i is
     * example i */
    const uint32_t *row;
};

/* Where the rows of one of several tables lie among those of a batch, which are one array: row i of
 * the batch, of this table, begins at float base + i * (first_order + dim), in arithmetic modulo
 * 2^64. */
struct pool_table {
    uint64_t base;
    uint32_t first; /* row of the batch */
    uint32_t dim;
};

/* Rows of the sparse tables and where they go in the input of a batch. first and count say which
 * examples are meant; index, offset and numeric are those of the whole batch, x and logit begin at
 * example `first`. */
struct pool_args {
    uint32_t first, count;
    uint32_t examples, values, row_count; /* counts for the whole batch */
    uint32_t fields, dim, numerics;
    uint32_t vectors; /* with `table`: columns of x that vectors fill; else they are fields * dim */
    uint32_t first_order; /* 1: a row begins with its first-order weight; else 0 */
    uint32_t tasks;       /* floats from a logit to the next */
    /* (fields): enum pooling, in the backend's memory. attention: x is left alone, and the
     * first-order weight is averaged */
    const uint8_t *pooling;
    const uint32_t *index;  /* as in struct model_input */
    const uint32_t *offset; /* or NULL */
    const float *factor;    /* (values), as in struct model_input; or NULL */
    const float *rows;      /* (rows, first_order + dim) */
    const float *numeric;   /* (examples, numerics) */
    /* Set for tables of several dims, in the backend's memory; `dim` is then the widest: */
    const struct pool_table *table; /* (tables); NULL: all rows have `dim` */
    uint32_t tables;
    const uint8_t *field_table; /* (fields): the table of each field's rows */
    /* (fields + 1): where in x each field's vector begins; the last is `vectors` */
    const uint32_t *column;
};

/* Columns of x that vectors fill. */
static inline uint32_t pool_columns(const struct pool_args *a)
{
    return a->table != NULL ? a->vectors : a->fields * a->dim;
}

/* A linear layer with bias, activation and dropout: y = dropout(act(x w' + bias)). */
struct linear_args {
    uint32_t first, count; /* number of the first row, for the mask; rows */
    uint32_t in, out;
    const float *x;
    uint32_t ldx;
    bool padded;       /* x has zeros behind its columns, up to a multiple of four floats */
    const float *w;    /* (out, in) */
    const float *bias; /* (out) or NULL */
    enum activation act;
    struct dropout_mask mask;
    float *y;
    uint32_t ldy;
    /* the way back */
    float *dy; /* in: gradient of y; what it holds afterwards is undefined */
    uint32_t lddy;
    float *dw;    /* += */
    float *dbias; /* += unless NULL */
    float *dx;    /* NULL: not wanted */
    uint32_t lddx;
    uint32_t dx_width; /* leading columns of x whose gradient is wanted */
    bool add;          /* dx +=, else = */
    /* The way back follows in the same section, and x, w and y stay as they are until then: what
     * was made of them on the way forward may serve again. */
    bool keep;
};

struct norm_args {
    uint32_t count, width;
    const float *x; /* (count, width) */
    uint32_t ldx;
    float *y; /* forward: (count, width) */
    uint32_t ldy;
    float *dy; /* backward: in place: becomes dx */
    uint32_t lddy;
    /* in the device's memory: rows beyond so many only fill the batch up, and count in nothing;
     * NULL: there are none, as on the host */
    const uint32_t *live;
    /* for the settling */
    uint32_t examples; /* the batch's examples; *live where there is one */
    bool of_batch; /* statistics of the batch, unless it is of one example; else the running ones */
    double momentum; /* share of the way to the batch's by which the running ones move */
    const float *gamma, *beta, *running_mean, *running_variance;               /* (width) */
    float *gamma_gradient, *beta_gradient, *mean_gradient, *variance_gradient; /* (width), += */
    float *state; /* norm_state_floats(width), 64-byte aligned, the layer's own */
};

#define NORM_EPS 1e-5

/* Floats of the state of a norm layer of `width`. */
static inline uint32_t norm_state_floats(uint32_t width)
{
    return 2 * 2 * width + 6 * width;
}

/* Its working values, each (width) long. The sums are double
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

/* The loss of each task. */
struct loss_spec {
    enum loss_kind kind[LIMIT_TASKS];
    double delta; /* huber */
};

struct backend_ops {
    uint32_t abi;                /* BACKEND_ABI */
    const char *name;            /* "cpu" */
    const char *(*kernel)(void); /* kernel type of the matrix product, "SkylakeX" */
    /* device and libraries, for people; after probe. NULL: nothing to say */
    const char *(*about)(void);
    /* after loading: UNAVAILABLE when there is no device to work on. NULL: there always is */
    int (*probe)(struct err *e);
    /* Bytes of the device's memory that all processes have taken, and all that it has, when a
     * stream was first awaited after the last call. Asks the device nothing itself. False: not
     * known yet. Any thread. NULL: its memory is the host's */
    bool (*memory)(uint64_t *taken, uint64_t *all);
    bool host;      /* the backend's memory is the host's */
    bool exact;     /* for checkers of memory: each array is allocated by itself, at its size */
    uint32_t range; /* examples that should go through the layers together; 0: all */
    /* with range 0: a batch is filled up to a multiple of this (pass.c); 0: it is not */
    uint32_t granule;

    /* UNAVAILABLE: no device; NOMEM; UNSUPPORTED precision. */
    int (*stream_new)(const struct stream_spec *spec, struct stream **out, struct err *e);
    void (*stream_free)(struct stream *s);
    /* Waits for all that is queued. 0, or the first failure (UNAVAILABLE: the device is lost,
     * INTERNAL). It stays. */
    int (*stream_finish)(struct stream *s, struct err *e);
    void *(*host_alloc)(size_t bytes); /* pinned, 64-byte aligned; NULL: no memory */
    void (*host_free)(void *p);
    /* 256-byte aligned, of the backend's memory; NULL: there is none left */
    void *(*alloc)(struct stream *s, size_t bytes);
    void (*release)(struct stream *s, void *p);
    /* host -> backend */
    void (*upload)(struct stream *s, void *to, const void *from, size_t bytes);
    /* backend -> host */
    void (*download)(struct stream *s, void *to, const void *from, size_t bytes);
    /* backend -> backend */
    void (*copy)(struct stream *s, void *to, const void *from, size_t bytes);
    void (*zero)(struct stream *s, void *to, size_t bytes);
    /* host -> backend; backend -> host */
    void (*upload_strip)(struct stream *s, const struct strip *m);
    void (*download_strip)(struct stream *s, const struct strip *m);
    /* memory of the device of `other` -> memory of that of s */
    void (*fetch)(struct stream *s, struct stream *other, const struct strip *m);
    /* Work queued on s from now on runs after all work queued on `other` by now. Never in a section
     * that is recorded. */
    void (*after)(struct stream *s, struct stream *other);
    /* Begins, or ends, to measure how long the stream waits in `after`. Once stream_finish has
     * followed the end, `waited` says of how many seconds it has waited how many. NULL on the host,
     * whose streams wait for nothing. */
    void (*watch)(struct stream *s, bool begin);
    void (*waited)(struct stream *s, double *waited, double *of);
    /* true: queue the kernels of this section, which the backend may record; false: it has played
     * them from a recording with the same number. graph_end after true only; it says whether the
     * section must be queued once more, because recording it failed and nothing of it has run. All
     * kernels between have the same arguments for the same number: addresses too. Number 0: they
     * have others each time, and nothing is recorded. NULL on the host, where there is nothing to
     * record. */
    bool (*graph_begin)(struct stream *s, uint64_t number);
    bool (*graph_end)(struct stream *s);
    /* Rows [first, first + count) of x (.., width) become copies of row 0. NULL where granule is
     * 0. */
    void (*rows_repeat)(struct stream *s, uint32_t first, uint32_t count, uint32_t width, float *x);

    /* c (m, n) = op(a) op(b) + beta c; beta 0 does not read c. op(a) is (m, k), op(b) is (k, n);
     * `transpose` says that the matrix lies the other way round. */
    void (*gemm)(struct stream *s, bool transpose_a, bool transpose_b, uint32_t m, uint32_t n,
                 uint32_t k, const float *a, uint32_t lda, const float *b, uint32_t ldb, float beta,
                 float *c, uint32_t ldc);
    void (*linear_forward)(struct stream *s, const struct linear_args *a);
    void (*linear_backward)(struct stream *s, const struct linear_args *a);

    /* y (count, width) = dropout(act(y + bias)); bias (width) or NULL. first: number of the first
     * row, for the mask. */
    void (*act_forward)(struct stream *s, enum activation act, const struct dropout_mask *mask,
                        uint32_t first, uint32_t count, uint32_t width, const float *bias, float *y,
                        uint32_t ldy);
    /* dy *= derivative, from the output y; bias_gradient (width) += sum of dy over the rows, unless
     * NULL. */
    void (*act_backward)(struct stream *s, enum activation act, const struct dropout_mask *mask,
                         uint32_t first, uint32_t count, uint32_t width, const float *y,
                         uint32_t ldy, float *dy, uint32_t lddy, float *bias_gradient);

    /* Batch norm (norm.c). begin: zeroes the sums, and takes x's first row as the pivot on the way
     * forward; gather adds a range to the sums; settle ends them, once; apply works on ranges. */
    void (*norm_begin)(struct stream *s, const struct norm_args *a, bool back);
    void (*norm_gather)(struct stream *s, const struct norm_args *a, bool back);
    void (*norm_settle)(struct stream *s, const struct norm_args *a, bool back);
    void (*norm_apply)(struct stream *s, const struct norm_args *a, bool back);

    /* logit[i * stride] = bias[0] (NULL: 0), for each of `stride` tasks bias[t]; and
     * bias_gradient[t] += sum of dlogit. */
    void (*bias_forward)(struct stream *s, uint32_t count, uint32_t stride, const float *bias,
                         float *logit);
    void (*bias_backward)(struct stream *s, uint32_t count, uint32_t stride, const float *dlogit,
                          float *bias_gradient);

    /* One output: logit[i * stride] += x_i . w. */
    void (*head_forward)(struct stream *s, uint32_t count, uint32_t width, const float *x,
                         uint32_t ldx, const float *w, float *logit, uint32_t stride);
    /* dw += sum of dlogit[i * stride] * x_i; dx = (add ? dx : 0) + dlogit[i] * w, in the leading
     * dx_width columns. */
    void (*head_backward)(struct stream *s, uint32_t count, uint32_t width, const float *x,
                          uint32_t ldx, const float *w, const float *dlogit, uint32_t stride,
                          float *dw, float *dx, uint32_t lddx, uint32_t dx_width, bool add);

    /* Before a batch's first pool_*: the backend may sort its values by row. first, count: the
     * whole batch. */
    void (*pool_begin)(struct stream *s, const struct pool_args *a, bool train);
    /* x (count, pool_columns, then numerics where they are wanted): pooled vectors, then the
     * numerics (x is NULL when dim is 0); logit[i * tasks] += pooled first-order weights. */
    void (*pool_forward)(struct stream *s, const struct pool_args *a, float *x, uint32_t ldx,
                         float *logit);
    /* row_gradients (laid out as rows) += dlogit and dx (count, pool_columns), spread over the
     * values; in the order of the examples. */
    void (*pool_backward)(struct stream *s, const struct pool_args *a, const float *dx,
                          uint32_t lddx, const float *dlogit, float *row_gradients);
    /* A row's gradient is -1 for each example that has it (models.c). */
    void (*probe_backward)(struct stream *s, const struct pool_args *a, float *row_gradients);

    /* Pairwise products of the field vectors: logit[i * stride] += 1/2 (|sum v|^2 - sum |v|^2).
     * sums (count, dim): sum v, for the way back. */
    void (*fm_forward)(struct stream *s, uint32_t count, uint32_t fields, uint32_t dim,
                       const float *x, uint32_t ldx, float *sums, float *logit, uint32_t stride);
    /* dx (count, fields * dim) = (add ? dx : 0) + dlogit[i * stride] * (sums_i - v). */
    void (*fm_backward)(struct stream *s, uint32_t count, uint32_t fields, uint32_t dim,
                        const float *x, uint32_t ldx, const float *sums, const float *dlogit,
                        uint32_t stride, bool add, float *dx, uint32_t lddx);

    /* The loss of `count` examples, z = logit + offset, by `spec`, on the host: loss[t] += weight_i
     * l(z, y), in double; scores = s(z); dlogit = factor[t] weight_i dl/dz, unless NULL, where
     *     logloss  l = max(z, 0) - z y + log(1 + e^-|z|)   s = 1 / (1 + e^-z)   dl/dz = s - y
     *     mse      l = (z - y)^2                           s = z                dl/dz = 2 (z - y)
     *     huber    with d = z - y: d^2 / 2, but delta (|d| - delta / 2) where |d| > delta; s = z;
     *              dl/dz = d kept within [-delta, delta]
     * A label that is NaN is missing: it adds 0 to the loss, and dlogit is 0. weight may be NULL:
     * 1. A logit that is not a number makes the loss not a number. live: as in struct norm_args,
     * NULL on the host; rows beyond have dlogit 0, and neither a label, a weight nor a score. */
    void (*loss)(struct stream *s, uint32_t count, const uint32_t *live, uint32_t tasks,
                 const struct loss_spec *spec, const float *logit, float offset, const float *label,
                 const float *weight, const float *factor, double *loss, float *scores,
                 float *dlogit);

    /* y = factor * x; factor 0 does not read x. */
    void (*scale)(struct stream *s, size_t count, float factor, const float *x, float *y);
    /* y = *factor * y, *factor in the backend's memory. */
    void (*scale_by)(struct stream *s, size_t count, const float *factor, float *y);
    /* y += x, (count, width). */
    void (*add)(struct stream *s, uint32_t count, uint32_t width, const float *x, uint32_t ldx,
                float *y, uint32_t ldy);
    /* *sum += sum of squares. In double: it is finite where x is. */
    void (*square_sum)(struct stream *s, size_t count, const float *x, double *sum);
    /* Scales x to the norm `limit` where sqrt(*square) is larger and finite: what is not finite
     * stays so, for the shard refuses it and says whose it is. */
    void (*clip)(struct stream *s, size_t count, double limit, const double *square, float *x);
    /* The same for each row by itself. */
    void (*clip_rows)(struct stream *s, uint32_t count, uint32_t width, float limit, float *x);

    /* dense/ops_*.h: what single models need. */
    struct interact_ops interact;
    struct attention_ops attention;
    struct mix_ops mix;
};

const struct backend_ops *backend_ops_of(const struct backend *b);

#endif
