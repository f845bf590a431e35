/* ops_narrow.cu: operands of matrix products in 16 bits, or with their rows moved to where tensor
 * cores want them. */
#include "dense/cuda/stream.h"

#define NARROW_STEP 4u /* columns an element: rows of the result are multiples of it */

struct narrow_args {
    const float *from;
    void *to;
    uint32_t columns, ld, ld_to;
};

/* The number of the form that keeps the upper 16 bits: to the nearest, of two the even one. */
BODY uint32_t bf16_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return bits >> 16 | 0x40u; /* not a number */
    return (bits + 0x7fffu + (bits >> 16 & 1)) >> 16;
}

/* IEEE half: beyond 65504 (and its half step) infinity, below 2^-14 in steps of 2^-24. */
BODY uint32_t fp16_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    uint32_t sign = bits >> 16 & 0x8000u, size = bits & 0x7fffffffu;
    if (size > 0x7f800000u)
        return sign | 0x7e00u;
    if (size >= 0x477ff000u)
        return sign | 0x7c00u;
    if (size >= 0x38800000u) /* rounded before the exponent's bias goes from 127 to 15 */
        return sign | ((size + 0xfffu + (size >> 13 & 1)) - 0x38000000u) >> 13;
    return sign | (uint32_t)rintf(fabsf(x) * 0x1p24f);
}

/* Where `NARROW_STEP` columns come from; how many of them there are. */
struct narrow_place {
    const float *from;
    size_t to;
    uint32_t count;
};

BODY struct narrow_place narrow_place_of(const struct narrow_args *a, size_t i)
{
    struct place at = place_of(i, a->ld_to / NARROW_STEP);
    uint32_t column = at.column * NARROW_STEP;
    struct narrow_place p;
    p.from = a->from + (size_t)at.row * a->ld + column;
    p.to = (size_t)at.row * a->ld_to + column;
    p.count = column >= a->columns                ? 0
              : a->columns - column < NARROW_STEP ? a->columns - column
                                                  : NARROW_STEP;
    return p;
}

#define narrow_f32_args narrow_args
#define narrow_bf16_args narrow_args
#define narrow_fp16_args narrow_args

BODY void narrow_f32_at(const struct narrow_args *a, size_t i)
{
    struct narrow_place p = narrow_place_of(a, i);
    float *to = (float *)a->to + p.to;
    for (uint32_t j = 0; j < NARROW_STEP; j++)
        to[j] = j < p.count ? p.from[j] : 0.0f;
}
KERNEL(narrow_f32)

BODY void narrow_bf16_at(const struct narrow_args *a, size_t i)
{
    struct narrow_place p = narrow_place_of(a, i);
    uint32_t *to = (uint32_t *)(void *)((uint16_t *)a->to + p.to); /* two at a time */
    for (uint32_t j = 0; j < NARROW_STEP; j += 2) {
        uint32_t low = j < p.count ? bf16_of(p.from[j]) : 0,
                 high = j + 1 < p.count ? bf16_of(p.from[j + 1]) : 0;
        to[j / 2] = high << 16 | low;
    }
}
KERNEL(narrow_bf16)

BODY void narrow_fp16_at(const struct narrow_args *a, size_t i)
{
    struct narrow_place p = narrow_place_of(a, i);
    uint32_t *to = (uint32_t *)(void *)((uint16_t *)a->to + p.to);
    for (uint32_t j = 0; j < NARROW_STEP; j += 2) {
        uint32_t low = j < p.count ? fp16_of(p.from[j]) : 0,
                 high = j + 1 < p.count ? fp16_of(p.from[j + 1]) : 0;
        to[j / 2] = high << 16 | low;
    }
}
KERNEL(narrow_fp16)

void cuda_narrow(struct stream *s, enum product_type type, uint32_t rows, uint32_t columns,
                 const float *from, uint32_t ld, void *to, uint32_t ld_to)
{
    struct narrow_args a = {from, to, columns, ld, ld_to};
    size_t n = (size_t)rows * (ld_to / NARROW_STEP);
    if (type == PRODUCT_BF16)
        narrow_bf16_run(s, n, &a);
    else if (type == PRODUCT_FP16)
        narrow_fp16_run(s, n, &a);
    else
        narrow_f32_run(s, n, &a);
}
