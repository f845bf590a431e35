/* isa.h: the vector instructions that the kernels may use on this machine, chosen at run time
 * because packages are built for any x86-64.
 *
 * A kernel is one C body that OPT_VERSIONS (optimizer.h) compiles once for each level. All levels
 * give the same bits: the bodies are element-wise IEEE arithmetic with sums in a fixed order and
 * without contraction. */
#ifndef EMBEDDING_ROWS_OPTIMIZER_ISA_H
#define EMBEDDING_ROWS_OPTIMIZER_ISA_H

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

/* The best level that this processor and isa_limit allow. Tables ask once, when they are made. */
enum isa isa_best(void);
/* For tests: tables made from now on use at most this level. Not while other threads run. */
void isa_limit(enum isa at_most);

#endif
