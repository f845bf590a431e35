/* backend_cpu.c: the CPU module: matrix products by OpenBLAS, element-wise kernels by this folder.
 * No other file calls BLAS. */
#include "dense/cpu/kernels.h"
#include "proto/base/text.h"
#include "proto/base/x86.h"

#include <cblas.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define CPU_ALIGN 64u
#define CPU_BACKEND_ALIGN 256u
#define CPU_HUGE ((size_t)2 << 20)
/* The number of examples that go through the layers together: enough rows for a matrix product to
 * run at its full rate, few enough for the cache. */
#define CPU_RANGE 512u

const struct backend_ops *shoal_backend_v10(void);

static const char *cpu_kernel(void)
{
    return openblas_get_corename();
}

static char about_text[128];

static const char *cpu_about(void)
{
    return about_text;
}

/* Nothing is queued and nothing fails, so a stream has no state. */
struct stream {
    char unused;
};

static int cpu_stream_new(const struct stream_spec *spec, struct stream **out, struct err *e)
{
    static struct stream one;
    (void)spec;
    (void)e;
    *out = &one;
    return 0;
}

static void cpu_stream_free(struct stream *s)
{
    (void)s;
}

static int cpu_stream_finish(struct stream *s, struct err *e)
{
    (void)s;
    (void)e;
    return 0;
}

static void *cpu_host_alloc(size_t bytes)
{
    return aligned_alloc(CPU_ALIGN, (bytes + CPU_ALIGN - 1) / CPU_ALIGN * CPU_ALIGN);
}

/* Large arrays use huge pages where the system grants them; without them access is only slower. */
static void *cpu_alloc(struct stream *s, size_t bytes)
{
    (void)s;
    if (bytes < CPU_HUGE)
        return aligned_alloc(CPU_BACKEND_ALIGN, (bytes + CPU_BACKEND_ALIGN - 1) /
                                                    CPU_BACKEND_ALIGN * CPU_BACKEND_ALIGN);
    bytes = (bytes + CPU_HUGE - 1) / CPU_HUGE * CPU_HUGE;
    void *p = aligned_alloc(CPU_HUGE, bytes);
    if (p != NULL)
        madvise(p, bytes, MADV_HUGEPAGE);
    return p;
}

static void cpu_release(struct stream *s, void *p)
{
    (void)s;
    free(p);
}

static void cpu_copy(struct stream *s, void *to, const void *from, size_t bytes)
{
    (void)s;
    if (bytes > 0)
        memcpy(to, from, bytes);
}

static void cpu_zero(struct stream *s, void *to, size_t bytes)
{
    (void)s;
    memset(to, 0, bytes);
}

static void cpu_strip(struct stream *s, const struct strip *m)
{
    (void)s;
    for (size_t i = 0; i < m->rows; i++)
        memcpy(m->to + i * m->ld_to, m->from + i * m->ld_from, m->width * sizeof *m->to);
}

static void cpu_fetch(struct stream *s, struct stream *other, const struct strip *m)
{
    (void)other;
    cpu_strip(s, m);
}

static void cpu_after(struct stream *s, struct stream *other)
{
    (void)s;
    (void)other;
}

static CBLAS_TRANSPOSE turned(bool transpose)
{
    if (transpose)
        return CblasTrans;
    return CblasNoTrans;
}

static void cpu_gemm(struct stream *s, bool transpose_a, bool transpose_b, uint32_t m, uint32_t n,
                     uint32_t k, const float *a, uint32_t lda, const float *b, uint32_t ldb,
                     float beta, float *c, uint32_t ldc)
{
    (void)s;
    cblas_sgemm(CblasRowMajor, turned(transpose_a), turned(transpose_b), (int)m, (int)n, (int)k,
                1.0f, a, (int)lda, b, (int)ldb, beta, c, (int)ldc);
}

static void cpu_linear_forward(struct stream *s, const struct linear_args *a);
static void cpu_linear_backward(struct stream *s, const struct linear_args *a);

static struct backend_ops cpu_ops = {
    .abi = BACKEND_ABI,
    .name = "cpu",
    .kernel = cpu_kernel,
    .about = cpu_about,
    .host = true,
    .range = CPU_RANGE,
    .stream_new = cpu_stream_new,
    .stream_free = cpu_stream_free,
    .stream_finish = cpu_stream_finish,
    .host_alloc = cpu_host_alloc,
    .host_free = free,
    .alloc = cpu_alloc,
    .release = cpu_release,
    .upload = cpu_copy,
    .download = cpu_copy,
    .copy = cpu_copy,
    .zero = cpu_zero,
    .upload_strip = cpu_strip,
    .download_strip = cpu_strip,
    .fetch = cpu_fetch,
    .after = cpu_after,
    .gemm = cpu_gemm,
    .linear_forward = cpu_linear_forward,
    .linear_backward = cpu_linear_backward,
};

static void cpu_linear_forward(struct stream *s, const struct linear_args *a)
{
    cpu_gemm(s, false, true, a->count, a->out, a->in, a->x, a->ldx, a->w, a->in, 0.0f, a->y,
             a->ldy);
    if (a->bias != NULL || a->act != ACT_NONE || a->mask.threshold > 0)
        cpu_ops.act_forward(s, a->act, &a->mask, a->first, a->count, a->out, a->bias, a->y, a->ldy);
}

static void cpu_linear_backward(struct stream *s, const struct linear_args *a)
{
    if (a->dbias != NULL || a->act != ACT_NONE || a->mask.threshold > 0)
        cpu_ops.act_backward(s, a->act, &a->mask, a->first, a->count, a->out, a->y, a->ldy, a->dy,
                             a->lddy, a->dbias);
    cpu_gemm(s, true, false, a->out, a->in, a->count, a->dy, a->lddy, a->x, a->ldx, 1.0f, a->dw,
             a->in);
    if (a->dx != NULL)
        cpu_gemm(s, false, false, a->count, a->dx_width, a->out, a->dy, a->lddy, a->w, a->in,
                 (float)a->add, a->dx, a->lddx);
}

/* "OpenBLAS 0.3.21 SkylakeX kernels, others AVX-512" */
static void about_write(const char *others)
{
    const char *config = openblas_get_config(), *version = strchr(config, ' ');
    size_t bytes = 0;
    if (version != NULL)
        bytes = strcspn(version + 1, " ") + 1;
    if (bytes >= 16)
        bytes = 0;
    snprintf(about_text, sizeof about_text, "OpenBLAS%.*s %s kernels, others %s", (int)bytes,
             text_or(version, ""), openblas_get_corename(), others);
}

/* Called once, by backend_load, right after dlopen. */
const struct backend_ops *shoal_backend_v10(void)
{
    /* The worker's lanes are the parallelism: BLAS uses one thread for each, and results do not
     * depend on a thread count. */
    openblas_set_num_threads(1);
    about_write("of any processor");
#ifdef SHOAL_X86
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
        kernels_avx512(&cpu_ops);
        about_write("AVX-512");
        return &cpu_ops;
    }
    if (__builtin_cpu_supports("avx2")) {
        kernels_avx2(&cpu_ops);
        about_write("AVX2");
        return &cpu_ops;
    }
#endif
    kernels_base(&cpu_ops);
    return &cpu_ops;
}
