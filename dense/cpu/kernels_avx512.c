/* kernels_avx512.c: the kernels for machines with AVX-512. */
#include "dense/cpu/kernels.h"

#include "proto/base/x86.h"

#ifdef SHOAL_X86
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

#if defined(__clang__) && defined(SHOAL_X86)
#pragma clang attribute pop
#endif
