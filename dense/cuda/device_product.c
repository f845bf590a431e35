/* device_product.c: matrix products by cuBLASLt.
 *
 * The algorithm for a shape is chosen once a stream, by cuBLASLt's heuristics, and kept: the same one at each step,
 * and, the heuristics being a function of shape, card and library, at each run. The workspace is the stream's own, as
 * the library wants it for results that do not depend on what other streams do. Deterministic streams leave out
 * algorithms that add parts of a sum in place.
 *
 * cuBLASLt's matrices are column-major: a row-major matrix is its own transpose there, so c' = op(b)' op(a)'. */
#include "dense/cuda/device_cuda.h"

#include <stdlib.h>

#define CHOICES 256u
#define WORKSPACE_BYTES ((size_t)32 << 20) /* what the library advises for sm_90 */
#define ALIGN_MAX 256u

/* All that the choice depends on. Numbers of one size: it is compared byte by byte. */
struct shape {
    uint32_t type, transpose_a, transpose_b, m, n, k, lda, ldb, ldc, bias, beta;
    uint32_t align_a, align_b, align_c;
};

struct choice {
    struct shape shape; /* type + 1: 0 is a free place */
    cublasLtMatmulDesc_t operation;
    cublasLtMatrixLayout_t a, b, c; /* of the library's first, second and third */
    cublasLtMatmulAlgo_t algorithm;
};

struct products {
    cublasLtHandle_t handle;
    void *workspace;
    struct choice choice[CHOICES];
    uint32_t count;
};

void products_open(struct stream *s)
{
    struct products *p = calloc(1, sizeof *p);
    s->device->products = p;
    if (!p) {
        stream_fail(s, SHOAL_E_NOMEM, "a stream of the device: out of memory");
        return;
    }
    if (!CUBLAS(s, cublasLtCreate(&p->handle)))
        return;
    p->workspace = device_alloc(s, WORKSPACE_BYTES);
    if (!p->workspace)
        stream_fail(s, SHOAL_E_NOMEM, "no memory on the device for %zu bytes of cuBLAS workspace", WORKSPACE_BYTES);
}

static void choice_free(struct stream *s, struct choice *c)
{
    if (c->operation)
        CUBLAS(s, cublasLtMatmulDescDestroy(c->operation));
    if (c->a)
        CUBLAS(s, cublasLtMatrixLayoutDestroy(c->a));
    if (c->b)
        CUBLAS(s, cublasLtMatrixLayoutDestroy(c->b));
    if (c->c)
        CUBLAS(s, cublasLtMatrixLayoutDestroy(c->c));
    memset(c, 0, sizeof *c);
}

static void choices_clear(struct stream *s, struct products *p)
{
    for (uint32_t i = 0; i < CHOICES; i++)
        choice_free(s, &p->choice[i]);
    p->count = 0;
}

void products_close(struct stream *s)
{
    struct products *p = s->device->products;
    if (!p)
        return;
    choices_clear(s, p);
    device_free(s, p->workspace);
    if (p->handle)
        CUBLAS(s, cublasLtDestroy(p->handle));
    free(p);
    s->device->products = NULL;
}

/* ---- choosing --------------------------------------------------------------------------------------------- */

static uint32_t alignment_of(const void *p)
{
    uint32_t align = ALIGN_MAX;
    while ((uintptr_t)p % align != 0)
        align /= 2;
    return align;
}

static struct shape shape_of(const struct product *p)
{
    return (struct shape){.type = (uint32_t)p->type + 1,
                          .transpose_a = p->transpose_a,
                          .transpose_b = p->transpose_b,
                          .m = p->m,
                          .n = p->n,
                          .k = p->k,
                          .lda = p->lda,
                          .ldb = p->ldb,
                          .ldc = p->ldc,
                          .bias = p->bias != NULL,
                          .beta = p->beta != 0.0f,
                          .align_a = alignment_of(p->a),
                          .align_b = alignment_of(p->b),
                          .align_c = alignment_of(p->c)};
}

static cudaDataType_t data_type_of(enum product_type type)
{
    return type == PRODUCT_BF16 ? CUDA_R_16BF : type == PRODUCT_FP16 ? CUDA_R_16F : CUDA_R_32F;
}

static bool operation_make(struct stream *s, struct choice *c, const struct product *p)
{
    cublasComputeType_t compute = p->type == PRODUCT_TF32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    cublasOperation_t first = p->transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N,
                      second = p->transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BIAS;
    return CUBLAS(s, cublasLtMatmulDescCreate(&c->operation, compute, CUDA_R_32F)) &&
           CUBLAS(s, cublasLtMatmulDescSetAttribute(c->operation, CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof first)) &&
           CUBLAS(s,
                  cublasLtMatmulDescSetAttribute(c->operation, CUBLASLT_MATMUL_DESC_TRANSB, &second, sizeof second)) &&
           (!p->bias || CUBLAS(s, cublasLtMatmulDescSetAttribute(c->operation, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue,
                                                                 sizeof epilogue)));
}

static bool bias_set(struct stream *s, struct choice *c, const float *bias)
{
    return !bias || CUBLAS(s, cublasLtMatmulDescSetAttribute(c->operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias,
                                                             sizeof bias));
}

static bool preference_make(struct stream *s, cublasLtMatmulPreference_t *out, const struct shape *shape)
{
    size_t bytes = WORKSPACE_BYTES;
    uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE | CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE;
    struct {
        cublasLtMatmulPreferenceAttributes_t name;
        const void *value;
        size_t bytes;
    } set[] = {{CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes, sizeof bytes},
               {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &shape->align_b, sizeof shape->align_b},
               {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &shape->align_a, sizeof shape->align_a},
               {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &shape->align_c, sizeof shape->align_c},
               {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &shape->align_c, sizeof shape->align_c},
               {CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &schemes, sizeof schemes}};
    size_t count = sizeof set / sizeof *set - (s->spec.deterministic ? 0 : 1);
    if (!CUBLAS(s, cublasLtMatmulPreferenceCreate(out)))
        return false;
    for (size_t i = 0; i < count; i++)
        if (!CUBLAS(s, cublasLtMatmulPreferenceSetAttribute(*out, set[i].name, set[i].value, set[i].bytes)))
            return false;
    return true;
}

static void algorithm_choose(struct stream *s, struct choice *c)
{
    cublasLtMatmulPreference_t preference = NULL;
    cublasLtMatmulHeuristicResult_t best;
    int found = 0;

    if (preference_make(s, &preference, &c->shape) &&
        CUBLAS(s, cublasLtMatmulAlgoGetHeuristic(s->device->products->handle, c->operation, c->a, c->b, c->c, c->c,
                                                 preference, 1, &best, &found))) {
        if (found > 0)
            c->algorithm = best.algo;
        else
            stream_fail(s, SHOAL_E_INTERNAL, "cuBLASLt has no algorithm for a product of (%u, %u) by (%u, %u)",
                        c->shape.m, c->shape.k, c->shape.k, c->shape.n);
    }
    if (preference)
        CUBLAS(s, cublasLtMatmulPreferenceDestroy(preference));
}

static void choice_make(struct stream *s, struct choice *c, const struct product *p)
{
    cudaDataType_t type = data_type_of(p->type);
    uint32_t b_rows = p->transpose_b ? p->n : p->k, b_columns = p->transpose_b ? p->k : p->n;
    uint32_t a_rows = p->transpose_a ? p->k : p->m, a_columns = p->transpose_a ? p->m : p->k;

    c->shape = shape_of(p);
    if (operation_make(s, c, p) && bias_set(s, c, p->bias) &&
        CUBLAS(s, cublasLtMatrixLayoutCreate(&c->a, type, b_columns, b_rows, p->ldb)) &&
        CUBLAS(s, cublasLtMatrixLayoutCreate(&c->b, type, a_columns, a_rows, p->lda)) &&
        CUBLAS(s, cublasLtMatrixLayoutCreate(&c->c, CUDA_R_32F, p->n, p->m, p->ldc)))
        algorithm_choose(s, c);
}

/* FNV-1a. */
static uint32_t shape_hash(const struct shape *shape)
{
    const unsigned char *byte = (const unsigned char *)shape;
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < sizeof *shape; i++)
        hash = (hash ^ byte[i]) * 16777619u;
    return hash;
}

/* NULL: the stream has failed. */
static struct choice *choice_of(struct stream *s, const struct product *p)
{
    struct products *all = s->device->products;
    struct shape shape = shape_of(p);
    uint32_t at = shape_hash(&shape) % CHOICES;

    for (; all->choice[at].shape.type != 0; at = (at + 1) % CHOICES)
        if (memcmp(&all->choice[at].shape, &shape, sizeof shape) == 0)
            return &all->choice[at];
    if (all->count >= CHOICES / 2) { /* batches of ever new sizes: from the beginning */
        choices_clear(s, all);
        at = shape_hash(&shape) % CHOICES;
    }
    all->count++;
    choice_make(s, &all->choice[at], p);
    return stream_failed(s) ? NULL : &all->choice[at];
}

void device_product(struct stream *s, const struct product *p)
{
    float one = 1.0f;
    if (!device_enter(s))
        return;
    struct products *all = s->device->products;
    struct choice *c = choice_of(s, p);
    if (!c || !bias_set(s, c, p->bias))
        return;
    if (!s->recorded)
        counter_add(&cuda_counters.products);
    CUBLAS(s, cublasLtMatmul(all->handle, c->operation, &one, p->b, c->a, p->a, c->b, &p->beta, p->c, c->c, p->c, c->c,
                             &c->algorithm, all->workspace, WORKSPACE_BYTES, s->device->stream));
}
