/* kernels_avx512.c: the kernels for machines with AVX-512. */
#include "dense/cpu/kernels.h"

#ifdef __x86_64__
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl"))),        \
                             apply_to = function)
#else
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,prefer-vector-width=512")
#endif
#endif

#include "dense/cpu/body.h"

void kernels_avx512(struct backend_ops *ops)
{
    body_fill(ops);
}

#if defined(__clang__) && defined(__x86_64__)
#pragma clang attribute pop
#endif
