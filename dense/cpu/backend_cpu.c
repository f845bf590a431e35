/* backend_cpu.c: the CPU module: matrix products by OpenBLAS, element-wise kernels by this folder. The one door to
 * BLAS. */
#include "dense/cpu/kernels.h"

#include <cblas.h>

const struct backend_ops *shoal_backend_v1(void);

static const char *cpu_kernel(void)
{
    return openblas_get_corename();
}

static void cpu_gemm(bool transpose_a, bool transpose_b, uint32_t m, uint32_t n, uint32_t k, const float *a,
                     uint32_t lda, const float *b, uint32_t ldb, float beta, float *c, uint32_t ldc)
{
    cblas_sgemm(CblasRowMajor, transpose_a ? CblasTrans : CblasNoTrans, transpose_b ? CblasTrans : CblasNoTrans, (int)m,
                (int)n, (int)k, 1.0f, a, (int)lda, b, (int)ldb, beta, c, (int)ldc);
}

static struct backend_ops cpu_ops = {.abi = BACKEND_ABI, .name = "cpu", .kernel = cpu_kernel, .gemm = cpu_gemm};

/* Called once, by backend_load, right after dlopen. */
const struct backend_ops *shoal_backend_v1(void)
{
    /* The worker's lanes are the parallelism: one thread a lane, and results that do not depend on a thread count. */
    openblas_set_num_threads(1);
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl")) {
        kernels_avx512(&cpu_ops);
        return &cpu_ops;
    }
    if (__builtin_cpu_supports("avx2")) {
        kernels_avx2(&cpu_ops);
        return &cpu_ops;
    }
#endif
    kernels_base(&cpu_ops);
    return &cpu_ops;
}
