/* optimizer.h: the effect of a gradient on a row. Each optimizer is a plain C body compiled once
 * for each vector level (opt_kinds.c).
 *
 * A row here is weights f32 (width) | state f32 (schema_state_floats), aligned to at least 4 bytes.
 * Every update is a function of row, gradient and step, with the same bits at every level:
 * element-wise, without contraction (-ffp-contract=off), without libm except sqrtf, sums in a fixed
 * order. Thread: any; there is no state outside the row. */
#ifndef EMBEDDING_ROWS_OPTIMIZER_OPTIMIZER_H
#define EMBEDDING_ROWS_OPTIMIZER_OPTIMIZER_H

#include "proto/base/isa.h"
#include "proto/job/schema.h"

#include <float.h>
#include <math.h>
#include <stdint.h>

/* The numbers of one push: the schema's, with lr scaled unless fixed_lr. For kinds whose weights
 * are computed with lr (weights_of_state): lr_whole, the schema's lr, and the scale. */
struct opt_step {
    float lr, lr_whole, scale, beta1, beta2, eps, l1, l2, beta, initial, decay;
    uint32_t width, zero_first;
};

typedef void (*opt_update_fn)(float *restrict row, const float *restrict gradient,
                              const struct opt_step *step);

struct optimizer {
    /* Sets the state of a new row, whose weights are set. */
    void (*start)(float *row, const struct table_schema *s);
    opt_update_fn update;
};

struct optimizer optimizer_of(const struct table_schema *s, enum isa isa);
void optimizer_step(const struct table_schema *s, float lr_scale, struct opt_step *out);

/* Each row of OPTIMIZER_KINDS (proto/job/optimizer.h) finds its two functions by its name. The
 * update for the most common width, 16, has unrolled loops. */
#define OPT_FUNCTIONS(number, KIND, name, ...)                                                     \
    void optimizer_##name##_start(float *row, const struct table_schema *s);                       \
    opt_update_fn optimizer_##name##_update(enum isa isa, uint32_t width);
OPTIMIZER_KINDS(OPT_FUNCTIONS)
#undef OPT_FUNCTIONS

/* Only finite numbers are stored: a number that an update would make infinite (a step of lr 1e10 by
 * a gradient of 1e15, a division by the root of squares that are too small) stays unchanged. Sums
 * of squares need no such care: gradients are within LIMIT_GRADIENT, also with l2, and beside 2^124
 * a square of 1e30 is less than half a bit, so sums stop growing there. */
ISA_INLINE float opt_finite(float next, float before)
{
    return fabsf(next) <= FLT_MAX ? next : before;
}

/* Sixteen partial sums, float i into sum i % 16, then halves are added: an order that any vector
 * width can keep. */
ISA_INLINE float optimizer_square_sum(const float *restrict g, const uint32_t width)
{
    float sum[16] = {0};
    uint32_t at = 0;
    for (; at + 16 <= width; at += 16)
        for (uint32_t i = 0; i < 16; i++)
            sum[i] += g[at + i] * g[at + i];
    for (uint32_t i = 0; at + i < width; i++)
        sum[i] += g[at + i] * g[at + i];
    for (uint32_t half = 8; half > 0; half /= 2)
        for (uint32_t i = 0; i < half; i++)
            sum[i] += sum[i + half];
    return sum[0];
}

/* Compiles body(row, gradient, step, width), an ISA_INLINE function, once for each level, for any
 * width and for 16, and defines name##_pick(isa, width). */
#define OPT_ONE(name, suffix, target, body, n)                                                     \
    target static void name##suffix(float *restrict row, const float *restrict gradient,           \
                                    const struct opt_step *step)                                   \
    {                                                                                              \
        body(row, gradient, step, n);                                                              \
    }
#define OPT_VERSIONS(name, body)                                                                   \
    OPT_ONE(name, _base, , body, step->width)                                                      \
    OPT_ONE(name, _base16, , body, 16)                                                             \
    OPT_ONE(name, _avx2, ISA_TARGET_AVX2, body, step->width)                                       \
    OPT_ONE(name, _avx2_16, ISA_TARGET_AVX2, body, 16)                                             \
    OPT_ONE(name, _avx512, ISA_TARGET_AVX512, body, step->width)                                   \
    OPT_ONE(name, _avx512_16, ISA_TARGET_AVX512, body, 16)                                         \
    static opt_update_fn name##_pick(enum isa isa, uint32_t width)                                 \
    {                                                                                              \
        static const opt_update_fn any[ISA_COUNT] = {name##_base, name##_avx2, name##_avx512};     \
        static const opt_update_fn sixteen[ISA_COUNT] = {name##_base16, name##_avx2_16,            \
                                                         name##_avx512_16};                        \
        return width == 16 ? sixteen[isa] : any[isa];                                              \
    }

#endif
