/* isa.c: asks the processor which vector instructions it has. */
#include "proto/base/isa.h"

#include "proto/base/assert.h"
#include "proto/base/minmax.h"
#include "proto/base/x86.h"

#include <stdatomic.h>
#include <stdbool.h>

#ifdef SHOAL_X86
#include <cpuid.h>
#endif

static enum isa limit = ISA_AVX512;

#ifdef SHOAL_X86
/* Clang's __builtin_cpu_supports does not know this feature. */
static bool has_f16c(void)
{
    unsigned a, b, c = 0, d;
    return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}
#endif

static enum isa isa_of_processor(void)
{
#ifdef SHOAL_X86
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("bmi") ||
        !__builtin_cpu_supports("bmi2") || !has_f16c())
        return ISA_BASE;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512dq"))
        return ISA_AVX512;
    return ISA_AVX2;
#else
    return ISA_BASE;
#endif
}

/* The processor is asked once: the instruction that asks is slow, and a virtual machine's host
 * answers it. */
enum isa isa_best(void)
{
    static atomic_int known = ISA_COUNT;
    int have = atomic_load_explicit(&known, memory_order_relaxed);
    if (have == ISA_COUNT) {
        have = (int)isa_of_processor();
        atomic_store_explicit(&known, have, memory_order_relaxed);
    }
    return MIN((enum isa)have, limit);
}

void isa_limit(enum isa at_most)
{
    SHOAL_ASSERT(at_most < ISA_COUNT);
    limit = at_most;
}
