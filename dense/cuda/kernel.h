/* kernel.h: how kernels are written: one source, for the card and for the host.
 *
 * A file dense/cuda/X.cu is compiled twice: by nvcc as CUDA C++ into libshoal_cuda.so, and as C11
 * with SHOAL_CUDA_HOST into libshoal_cudahost.so, which runs the same kernels on a machine without
 * a card, for the tests. So it is written in what both languages have: no designated initializers,
 * no compound literals, no `restrict`, casts from void *.
 *
 * A kernel is a function of one element, and elements may run in any order and all at once:
 *
 *     struct add_args {
 *         const float *x;
 *         float *y;
 *     };
 *     BODY void add_at(const struct add_args *a, size_t i)
 *     {
 *         a->y[i] += a->x[i];
 *     }
 *     KERNEL(add)
 *
 * defines static void add_run(struct stream *s, size_t n, const struct add_args *a), which queues
 * elements 0 .. n - 1. The arguments are copied when it is called. Rules:
 *
 * 1. An element writes only what no other element of the same run reads or writes. No atomics, no
 *    shared memory: sums over many elements go in stages (cuda_columns_add, cuda_sum_add, or
 *    scratch of one's own), in a fixed order.
 *    [test: kernels_do_not_depend_on_the_order_of_their_elements]
 * 2. Pointers of the arguments are the device's memory; nothing of the host is read by an element.
 *    [test: mixed_up_pointers_are_caught]
 * 3. Between graph_begin and graph_end the arguments are the same for the same number of the
 *    recording: what changes from step to step is read from device memory.
 *    [test: recorded_steps_give_what_queued_ones_give, recording_keeps_its_arguments]
 * 4. After a failure (cuda_scratch gives NULL, or any call before) the stream does nothing more: an
 *    op returns, and stream_finish tells. [test: every_failing_call_is_told_or_made_good]
 *
 * For speed neighbouring elements touch neighbouring memory: let the innermost column run fastest
 * (place_of). */
#ifndef DENSE_CUDA_KERNEL_H
#define DENSE_CUDA_KERNEL_H

#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
#define _Static_assert static_assert
/* elements call the inline functions of ops_*.h too */
#define inline __host__ __device__ inline
extern "C" {
#endif
#include "dense/ops_attention.h"
#include "dense/ops_interact.h"
#include "dense/ops_mix.h"
#ifdef __cplusplus
#undef inline
#endif
#include "dense/backend_ops.h"
#include "proto/base/minmax.h"

/* ---- one element ----------------------------------------------------------------------------- */

#ifdef __CUDACC__
#define BODY static __device__ __forceinline__
#define BOTH static __host__ __device__ __forceinline__ /* also for the code that queues a run */
#define RESTRICT __restrict__
#else
#define BODY static inline
#define BOTH static inline
#define RESTRICT restrict
#endif

/* A loop over a short array that is to stay in registers: nvcc does not unroll a long loop by
 * itself and then keeps its array in memory. */
#ifdef __CUDACC__
#define EACH(i, count) _Pragma("unroll") for (uint32_t i = 0; i < (count); i++)
#else
#define EACH(i, count) for (uint32_t i = 0; i < (count); i++)
#endif

/* Element i of a matrix of `width` columns. A card divides 32-bit numbers several times faster than
 * 64-bit ones. */
struct place {
    uint32_t row, column;
};

BODY struct place place_of(size_t i, uint32_t width)
{
    struct place p;
    p.row = i <= UINT32_MAX ? (uint32_t)i / width : (uint32_t)(i / width);
    p.column = (uint32_t)(i - (size_t)p.row * width);
    return p;
}

/* Four numbers of a row that are loaded and stored at once where rows begin at a multiple of 16
 * bytes. An element of a wide matrix takes four columns, so a quarter as many elements compute
 * their place. */
#define FOUR 4u
struct four {
    float v[FOUR];
} __attribute__((aligned(16)));

BOTH uint32_t fours_of(uint32_t width)
{
    return (width + FOUR - 1) / FOUR;
}

/* Loads the first `count` columns; the others are zeros. aligned: p is a multiple of 16 bytes. */
BODY struct four four_load(const float *p, uint32_t count, bool aligned)
{
    struct four x;
    if (aligned && count == FOUR)
        return *(const struct four *)(const void *)p;
    for (uint32_t j = 0; j < FOUR; j++)
        x.v[j] = j < count ? p[j] : 0.0f;
    return x;
}

BODY void four_store(float *p, uint32_t count, bool aligned, const struct four *x)
{
    if (aligned && count == FOUR)
        *(struct four *)(void *)p = *x;
    else
        for (uint32_t j = 0; j < FOUR; j++)
            if (j < count)
                p[j] = x->v[j];
}

/* The place where element i begins, and its number of columns, in a matrix that is taken in
 * fours. */
struct place_four {
    uint32_t row, column, count;
};

BODY struct place_four place_four_of(size_t i, uint32_t width)
{
    struct place at = place_of(i, fours_of(width));
    struct place_four p;
    p.row = at.row;
    p.column = at.column * FOUR;
    p.count = MIN(width - p.column, FOUR);
    return p;
}

/* a * b, rounded to a float. nvcc would fuse the product, unrounded, into the sum that follows;
 * terms that cancel exactly when both are rounded would then leave a rounding error. */
BODY float rounded_product(float a, float b)
{
#ifdef __CUDACC__
    return __fmul_rn(a, b);
#else
    return a * b;
#endif
}

/* The value that a sum at this place begins with. */
BODY float sum_begin(const float *to, bool add)
{
    if (add)
        return *to;
    return 0.0f;
}

/* Stores x, or adds it to what is there. */
BODY void sum_put(float *to, float x, bool add)
{
    if (add)
        *to += x;
    else
        *to = x;
}

/* The weight of a value in a sum, or in a mean, of a field's values. */
BODY float mean_share(bool mean, uint32_t values)
{
    if (mean && values > 1)
        return 1.0f / (float)values;
    return 1.0f;
}

/* [begin, end) of part `part`, when `count` rows are cut into parts of `chunk`. */
BODY uint32_t part_end(uint32_t part, uint32_t chunk, uint32_t count)
{
    if (count - part * chunk < chunk)
        return count;
    return (part + 1) * chunk;
}

/* ---- a run of elements ----------------------------------------------------------------------- */

#define KERNEL_ARGS_MAX 512u /* bytes of a kernel's arguments */

#ifdef SHOAL_CUDA_HOST
/* The order in which the host runs elements: it begins at element `first` and takes every `step`-th
 * one, modulo n. */
struct kernel_order {
    size_t first, step;
};
typedef void (*kernel_function)(const void *args, size_t n, struct kernel_order order);

#define KERNEL(name)                                                                               \
    static void name##_loop(const void *args, size_t n, struct kernel_order order)                 \
    {                                                                                              \
        size_t i = order.first;                                                                    \
        for (size_t left = n; left > 0; left--) {                                                  \
            name##_at((const struct name##_args *)args, i);                                        \
            i += order.step;                                                                       \
            if (i >= n)                                                                            \
                i -= n;                                                                            \
        }                                                                                          \
    }                                                                                              \
    KERNEL_RUN(name, name##_loop)
#else
typedef const void *kernel_function;

#define KERNEL(name)                                                                               \
    static __global__ void name##_kernel(const __grid_constant__ struct name##_args a, size_t n)   \
    {                                                                                              \
        size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;                                  \
        if (i < n)                                                                                 \
            name##_at(&a, i);                                                                      \
    }                                                                                              \
    KERNEL_RUN(name, (const void *)name##_kernel)
#endif

/* The stand-in scans the arguments for host pointers, so padding between members must not look like
 * one. */
#if !defined __CUDACC__ && defined __has_builtin
#if __has_builtin(__builtin_clear_padding)
#define KERNEL_CLEAR(a) __builtin_clear_padding(a)
#endif
#endif
#ifndef KERNEL_CLEAR
#define KERNEL_CLEAR(a) ((void)(a))
#endif

#define KERNEL_RUN(name, function)                                                                 \
    _Static_assert(sizeof(struct name##_args) <= KERNEL_ARGS_MAX, #name);                          \
    static void name##_run(struct stream *s, size_t n, const struct name##_args *a)                \
    {                                                                                              \
        struct name##_args given = *a;                                                             \
        KERNEL_CLEAR(&given);                                                                      \
        kernel_queue(s, #name, function, n, &given, sizeof given);                                 \
    }

/* n may be 0: then nothing is queued. */
void kernel_queue(struct stream *s, const char *name, kernel_function function, size_t n,
                  const void *args, size_t bytes);

/* True when p and every row after it, `ld` floats apart, lie at multiples of 16 bytes: `aligned` of
 * struct four. */
static inline bool fours_lie(const void *p, uint32_t ld)
{
    return (uintptr_t)p % sizeof(struct four) == 0 && ld % FOUR == 0;
}

/* ---- what ops call --------------------------------------------------------------------------- */

/* Device memory of this step. The caller has it to itself until it is given back, at the latest by
 * pool_begin of the next batch (between graph_begin and graph_end: when that section is next
 * played). It is 256-byte aligned and its contents are undefined. NULL: the stream has failed. */
void *cuda_scratch(struct stream *s, size_t bytes);
/* Gives back the scratch handed out since the mark was taken. An op calls it at its end when no
 * later op reads its scratch; otherwise a network of a hundred ops would need the scratch of all of
 * them at once. Work that is queued afterwards may write there because it also runs afterwards. */
struct scratch_mark {
    uint32_t block;
    size_t used;
};
struct scratch_mark cuda_scratch_mark(const struct stream *s);
void cuda_scratch_return(struct stream *s, struct scratch_mark mark);
void cuda_zero(struct stream *s, void *to, size_t bytes);
void cuda_copy(struct stream *s, void *to, const void *from, size_t bytes); /* device -> device */

/* Sums in double, in stages of SUM_CHUNK terms, so that no single thread adds all elements. To sum
 * the rows of a matrix, element (chunk, column) of the caller's kernel sums its SUM_CHUNK rows into
 * partial[chunk * width + column], and these functions add up the partial sums. partial is scratch
 * (sum_chunks(count), width) and may be overwritten. */
#define SUM_CHUNK 32u

static inline uint32_t sum_chunks(uint32_t count)
{
    return (count + SUM_CHUNK - 1) / SUM_CHUNK;
}

/* out += */
void cuda_columns_add(struct stream *s, double *partial, uint32_t rows, uint32_t width, float *out);
void cuda_columns_add_double(struct stream *s, double *partial, uint32_t rows, uint32_t width,
                             double *out); /* out += */
/* *out += the sum of n values, which may be overwritten. */
void cuda_sum_add(struct stream *s, double *value, size_t n, double *out);

/* Adds to row_gradients (rows, row_width; beginning at the first summed column) the gradients of
 * one field's values, `width` columns each. gradient is (values, ld) by place in index. Each row's
 * terms are added in the order of its values. Gradients of other fields' values are not read. Call
 * it only outside recorded sections and in a training batch (pool_begin has sorted its values). */
void cuda_values_add(struct stream *s, uint32_t fields, uint32_t field, uint32_t width,
                     const float *gradient, uint32_t ld, float *row_gradients, uint32_t row_width);

/* The ops of particular models: ops_<group>.cu fills its group. */
void cuda_interact_fill(struct interact_ops *o);
void cuda_attention_fill(struct attention_ops *o);
void cuda_attend_fill(struct attention_ops *o);     /* called by cuda_attention_fill */
void cuda_layer_norm_fill(struct attention_ops *o); /* as cuda_attend_fill; in ops_norm.cu */
void cuda_mix_fill(struct mix_ops *o);

#ifdef __cplusplus
}
#endif

#endif
