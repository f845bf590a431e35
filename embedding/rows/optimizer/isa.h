/* isa.h: which vector instructions the kernels may use on this machine; chosen at run time, for
 * packages are built for any x86-64.
 *
 * A kernel is one C body, compiled once a level by OPT_VERSIONS (optimizer.h). All levels give the
 * same bits: the bodies are element-wise IEEE arithmetic with sums in a fixed order, and nothing is
 * contracted. */
#ifndef EMBEDDING_ROWS_OPTIMIZER_ISA_H
#define EMBEDDING_ROWS_OPTIMIZER_ISA_H

#include "proto/base/x86.h"

enum isa { ISA_BASE = 0, ISA_AVX2 = 1, ISA_AVX512 = 2, ISA_COUNT = 3 };

#ifdef SHOAL_X86
#define ISA_TARGET_AVX2 __attribute__((target("avx2,bmi,bmi2,f16c")))
#if defined(__clang__)
#define ISA_TARGET_AVX512 __attribute__((target("avx512f,avx512vl,avx512dq,avx2,bmi,bmi2,f16c")))
#else
/* GCC's generic tuning would otherwise keep to 256 bits. */
#define ISA_TARGET_AVX512                                                                          \
    __attribute__((target("avx512f,avx512vl,avx512dq,avx2,bmi,bmi2,f16c,prefer-vector-width="      \
                          "512")))
#endif
#else
#define ISA_TARGET_AVX2
#define ISA_TARGET_AVX512
#endif

#define ISA_INLINE static inline __attribute__((always_inline))

/* The best level that both this processor and isa_limit allow. Tables ask once, when they are
 * made. */
enum isa isa_best(void);
/* Tests: tables made from now on use at most this level. Not for use beside running threads. */
void isa_limit(enum isa at_most);

#endif
