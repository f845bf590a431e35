/* isa.h: the vector instructions that the kernels may use on this machine, chosen at run time
 * because packages are built for any x86-64.
 *
 * A kernel is one C body that is compiled once for each level. All levels give the same bits: the
 * bodies are element-wise IEEE arithmetic with sums in a fixed order and without contraction. */
#ifndef PROTO_BASE_ISA_H
#define PROTO_BASE_ISA_H

#include "proto/base/x86.h"

enum isa { ISA_BASE = 0, ISA_AVX2 = 1, ISA_AVX512 = 2, ISA_COUNT = 3 };

#ifdef SHOAL_X86
#define ISA_TARGET_AVX2 __attribute__((target("avx2,bmi,bmi2,f16c")))
#if defined(__clang__)
#define ISA_TARGET_AVX512 __attribute__((target("avx512f,avx512vl,avx512dq,avx2,bmi,bmi2,f16c")))
#else
/* GCC's generic tuning would prefer 256 bits otherwise. */
#define ISA_TARGET_AVX512                                                                          \
    __attribute__((target("avx512f,avx512vl,avx512dq,avx2,bmi,bmi2,f16c,prefer-vector-width="      \
                          "512")))
#endif
#else
#define ISA_TARGET_AVX2
#define ISA_TARGET_AVX512
#endif

#define ISA_INLINE static inline __attribute__((always_inline))

/* Runs block(offset, n) over `width` floats with constant n 16, then 8, 4 and 1: GCC vectorizes
 * loops of constant length at -O2 without a check at run time. */
#define ISA_BLOCKS(width, block)                                                                   \
    do {                                                                                           \
        uint32_t at_ = 0;                                                                          \
        for (; at_ + 16 <= (width); at_ += 16)                                                     \
            block(at_, 16);                                                                        \
        if (((width)&8) != 0) {                                                                    \
            block(at_, 8);                                                                         \
            at_ += 8;                                                                              \
        }                                                                                          \
        if (((width)&4) != 0) {                                                                    \
            block(at_, 4);                                                                         \
            at_ += 4;                                                                              \
        }                                                                                          \
        for (; at_ < (width); at_++)                                                               \
            block(at_, 1);                                                                         \
    } while (0)

/* The best level that this processor and isa_limit allow. Tables ask once, when they are made. */
enum isa isa_best(void);
/* For tests: tables made from now on use at most this level. Not while other threads run. */
void isa_limit(enum isa at_most);

#endif
