/* ops_narrow.cu: conversion of operands of matrix products: to 16 bits, or to rows aligned for
 * tensor cores. */
#include "dense/cuda/narrow.h"
#include "dense/cuda/stream.h"
#include "proto/base/minmax.h"

struct narrow_args {
    const float *from;
    uint32_t columns, ld;
    bool aligned;
    struct narrow_to n; /* the result; floats for narrow_f32 */
};

#define narrow_f32_args narrow_args
#define narrow_half_args narrow_args

/* Element i takes four columns of the result, up to its row length. */
BODY void narrow_f32_at(const struct narrow_args *a, size_t i)
{
    struct place_four p = place_four_of(i, a->n.ld);
    uint32_t left = a->columns > p.column ? a->columns - p.column : 0;
    struct four x =
        four_load(a->from + (size_t)p.row * a->ld + p.column, MIN(left, FOUR), a->aligned);
    four_store((float *)a->n.to + (size_t)p.row * a->n.ld + p.column, FOUR, true, &x);
}
KERNEL(narrow_f32)

BODY void narrow_half_at(const struct narrow_args *a, size_t i)
{
    struct place_four p = place_four_of(i, a->columns);
    struct four x = four_load(a->from + (size_t)p.row * a->ld + p.column, p.count, a->aligned);
    narrow_store(&a->n, p.row, p.column, a->columns, &x);
}
KERNEL(narrow_half)

void cuda_narrow(struct stream *s, enum product_type type, uint32_t rows, uint32_t columns,
                 const float *from, uint32_t ld, void *to, uint32_t ld_to)
{
    struct narrow_args a = {from, columns, ld, fours_lie(from, ld), {to, ld_to, (uint32_t)type}};
    if (type == PRODUCT_BF16 || type == PRODUCT_FP16)
        narrow_half_run(s, (size_t)rows * fours_of(columns), &a);
    else
        narrow_f32_run(s, (size_t)rows * fours_of(ld_to), &a);
}
