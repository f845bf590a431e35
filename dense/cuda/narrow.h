/* narrow.h: numbers in 16 bits, the form that matrix products take (product.c). A kernel stores its
 * results in it where that saves a separate conversion pass. */
#ifndef DENSE_CUDA_NARROW_H
#define DENSE_CUDA_NARROW_H

#include "dense/cuda/device.h"

/* A matrix of 16-bit numbers. Rows begin at multiples of 16 bytes; the elements between them are
 * zero. */
struct narrow_to {
    void *to;      /* NULL: no 16-bit copy is needed */
    uint32_t ld;   /* a multiple of 8 */
    uint32_t type; /* PRODUCT_BF16, PRODUCT_FP16 */
};

/* bf16, which keeps the upper 16 bits of a float; rounded to nearest, ties to even. */
BODY uint32_t bf16_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return bits >> 16 | 0x40u; /* NaN */
    return (bits + 0x7fffu + (bits >> 16 & 1)) >> 16;
}

/* IEEE half: infinity beyond 65504 plus half a step; below 2^-14 in steps of 2^-24. */
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

BODY uint32_t narrow_pair(uint32_t type, float low, float high)
{
    if (type == PRODUCT_BF16)
        return bf16_of(high) << 16 | bf16_of(low);
    return fp16_of(high) << 16 | fp16_of(low);
}

struct narrow_four {
    uint32_t pair[2];
} __attribute__((aligned(8)));

/* Stores four columns; x holds zeros for columns beyond `width`. The last four of a row also zero
 * the rest of it. */
BODY void narrow_store(const struct narrow_to *t, uint32_t row, uint32_t column, uint32_t width,
                       const struct four *x)
{
    struct narrow_four *to =
        (struct narrow_four *)(void *)((uint16_t *)t->to + (size_t)row * t->ld + column);
    to->pair[0] = narrow_pair(t->type, x->v[0], x->v[1]);
    to->pair[1] = narrow_pair(t->type, x->v[2], x->v[3]);
    if (column + FOUR >= width && column + FOUR < t->ld) {
        to[1].pair[0] = 0;
        to[1].pair[1] = 0;
    }
}

#endif
