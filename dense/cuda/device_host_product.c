/* device_host_product.c: the stand-in's matrix products: plain loops whose operands are rounded as
 * tensor cores do. */
#include "dense/cuda/device_host.h"
#include "proto/base/minmax.h"

#define TOGETHER 8u /* columns summed side by side */

/* Element `at` of an operand, rounded as the product's type rounds. */
static inline float operand_at(enum product_type type, const void *x, size_t at)
{
    union {
        uint32_t bits;
        float value;
    } u;
    if (type == PRODUCT_F32)
        return ((const float *)x)[at];
    if (type == PRODUCT_TF32) { /* 10 bits of mantissa */
        u.value = ((const float *)x)[at];
        if ((u.bits & 0x7f800000u) != 0x7f800000u)
            u.bits = (u.bits + 0xfffu + (u.bits >> 13 & 1)) & ~0x1fffu;
        return u.value;
    }
    uint16_t half = ((const uint16_t *)x)[at];
    if (type == PRODUCT_BF16) {
        u.bits = (uint32_t)half << 16;
        return u.value;
    }
    float sign = 1.0f;
    if (half >> 15)
        sign = -1.0f;
    int exponent = half >> 10 & 31, mantissa = half & 1023;
    if (exponent == 31 && mantissa != 0)
        return NAN;
    if (exponent == 31)
        return sign * INFINITY;
    if (exponent == 0)
        return sign * ldexpf((float)mantissa, -24);
    return sign * ldexpf((float)(1024 + mantissa), exponent - 25);
}

/* One row of a product. Callers pass a constant `type`, so each type gets a loop of its own. */
static inline void product_row(enum product_type type, const struct product *p, size_t at_a,
                               size_t step_a, float *to)
{
    for (uint32_t j = 0; j < p->n; j++)
        if (p->beta != 0.0f)
            to[j] *= p->beta;
        else if (p->bias != NULL)
            to[j] = p->bias[j];
        else
            to[j] = 0.0f;
    for (uint32_t j = 0; j < p->n && p->transpose_b; j += TOGETHER) {
        uint32_t columns = MIN(p->n - j, TOGETHER);
        float sum[TOGETHER] = {0};
        for (uint32_t l = 0; l < p->k; l++)
            for (uint32_t t = 0; t < columns; t++)
                sum[t] += operand_at(type, p->a, at_a + l * step_a) *
                          operand_at(type, p->b, (size_t)(j + t) * p->ldb + l);
        for (uint32_t t = 0; t < columns; t++)
            to[j + t] += sum[t];
    }
    for (uint32_t l = 0; l < p->k && !p->transpose_b; l++) {
        float x = operand_at(type, p->a, at_a + l * step_a);
        for (uint32_t j = 0; j < p->n; j++)
            to[j] += x * operand_at(type, p->b, (size_t)l * p->ldb + j);
    }
}

void device_host_product_run(const struct product *p)
{
    size_t step = 1, step_row = p->lda;
    if (p->transpose_a) {
        step = p->lda;
        step_row = 1;
    }
    for (uint32_t i = 0; i < p->m; i++) {
        size_t at_a = i * step_row;
        float *to = p->c + (size_t)i * p->ldc;
        if (p->type == PRODUCT_F32)
            product_row(PRODUCT_F32, p, at_a, step, to);
        else if (p->type == PRODUCT_TF32)
            product_row(PRODUCT_TF32, p, at_a, step, to);
        else if (p->type == PRODUCT_BF16)
            product_row(PRODUCT_BF16, p, at_a, step, to);
        else
            product_row(PRODUCT_FP16, p, at_a, step, to);
    }
}
