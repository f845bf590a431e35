/* device_product.c: finds cuBLASLt, asks its heuristics for ways of computing a matrix product, and
 * runs one of them.
 *
 * The workspace is the stream's own: the library requires this for results that do not depend on
 * the work of other streams. Deterministic streams exclude algorithms that add parts of a sum in
 * place.
 *
 * cuBLASLt's matrices are column-major: a row-major matrix is its own transpose there, so c' =
 * op(b)' op(a)'. */
#include "dense/cuda/device_cuda.h"
#include "dense/library.h"

#include <stdio.h>
#include <stdlib.h>

#define WAYS_MAX 8
#define WORKSPACE_BYTES ((size_t)32 << 20) /* the library's advice for sm_90 */
#define ALIGN_MAX 256u

struct product_ways {
    cublasLtMatmulDesc_t operation;
    cublasLtMatrixLayout_t a, b, c; /* the library's first operand, second operand, result */
    cublasLtMatmulAlgo_t algorithm[WAYS_MAX];
};

struct products {
    cublasLtHandle_t handle;
    void *workspace;
};

void products_open(struct stream *s)
{
    struct products *p = calloc(1, sizeof *p);
    s->device->products = p;
    if (p == NULL) {
        stream_fail(s, SHOAL_E_NOMEM, "a stream of the device: out of memory");
        return;
    }
    if (!CUBLAS(s, lt.cublasLtCreate(&p->handle)))
        return;
    p->workspace = device_alloc(s, WORKSPACE_BYTES);
    if (p->workspace == NULL)
        stream_fail(s, SHOAL_E_NOMEM, "no memory on the device for %zu bytes of cuBLAS workspace",
                    WORKSPACE_BYTES);
    else if (cuda_exact)
        device_zero(s, p->workspace, WORKSPACE_BYTES);
}

void products_close(struct stream *s)
{
    struct products *p = s->device->products;
    if (p == NULL)
        return;
    device_free(s, p->workspace);
    if (p->handle != NULL)
        CUBLAS(s, lt.cublasLtDestroy(p->handle));
    free(p);
    s->device->products = NULL;
}

void device_ways_free(struct stream *s, struct product_ways *w)
{
    if (w->operation != NULL)
        CUBLAS(s, lt.cublasLtMatmulDescDestroy(w->operation));
    if (w->a != NULL)
        CUBLAS(s, lt.cublasLtMatrixLayoutDestroy(w->a));
    if (w->b != NULL)
        CUBLAS(s, lt.cublasLtMatrixLayoutDestroy(w->b));
    if (w->c != NULL)
        CUBLAS(s, lt.cublasLtMatrixLayoutDestroy(w->c));
    free(w);
}

/* ---- asking ---------------------------------------------------------------------------------- */

static uint32_t alignment_of(const void *p)
{
    uint32_t align = ALIGN_MAX;
    while ((uintptr_t)p % align != 0)
        align /= 2;
    return align;
}

static cudaDataType_t data_type_of(enum product_type type)
{
    if (type == PRODUCT_BF16)
        return CUDA_R_16BF;
    if (type == PRODUCT_FP16)
        return CUDA_R_16F;
    return CUDA_R_32F;
}

static cublasOperation_t turned(bool transpose)
{
    if (transpose)
        return CUBLAS_OP_T;
    return CUBLAS_OP_N;
}

static bool operation_make(struct stream *s, struct product_ways *w, const struct product *p)
{
    cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
    if (p->type == PRODUCT_TF32)
        compute = CUBLAS_COMPUTE_32F_FAST_TF32;
    cublasOperation_t first = turned(p->transpose_b), second = turned(p->transpose_a);
    cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BIAS;
    struct {
        cublasLtMatmulDescAttributes_t name;
        const void *value;
        size_t bytes;
    } set[] = {{CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof first},
               {CUBLASLT_MATMUL_DESC_TRANSB, &second, sizeof second},
               {CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue}};
    size_t count = sizeof set / sizeof *set;
    if (p->bias == NULL)
        count--;

    if (!CUBLAS(s, lt.cublasLtMatmulDescCreate(&w->operation, compute, CUDA_R_32F)))
        return false;
    for (size_t i = 0; i < count; i++)
        if (!CUBLAS(s, lt.cublasLtMatmulDescSetAttribute(w->operation, set[i].name, set[i].value,
                                                         set[i].bytes)))
            return false;
    return true;
}

static bool bias_set(struct stream *s, struct product_ways *w, const float *bias)
{
    return bias == NULL ||
           CUBLAS(s, lt.cublasLtMatmulDescSetAttribute(
                         w->operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias));
}

static bool layouts_make(struct stream *s, struct product_ways *w, const struct product *p)
{
    cudaDataType_t type = data_type_of(p->type);
    struct extent a = product_extent(p->transpose_a, p->m, p->k),
                  b = product_extent(p->transpose_b, p->k, p->n);
    return CUBLAS(s, lt.cublasLtMatrixLayoutCreate(&w->a, type, b.columns, b.rows, p->ldb)) &&
           CUBLAS(s, lt.cublasLtMatrixLayoutCreate(&w->b, type, a.columns, a.rows, p->lda)) &&
           CUBLAS(s, lt.cublasLtMatrixLayoutCreate(&w->c, CUDA_R_32F, p->n, p->m, p->ldc));
}

static bool preference_make(struct stream *s, cublasLtMatmulPreference_t *out,
                            const struct product *p)
{
    size_t bytes = WORKSPACE_BYTES;
    uint32_t schemes =
        CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE | CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE;
    uint32_t align_a = alignment_of(p->b), align_b = alignment_of(p->a),
             align_c = alignment_of(p->c);
    struct {
        cublasLtMatmulPreferenceAttributes_t name;
        const void *value;
        size_t bytes;
    } set[] = {{CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes, sizeof bytes},
               {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &align_a, sizeof align_a},
               {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &align_b, sizeof align_b},
               {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &align_c, sizeof align_c},
               {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &align_c, sizeof align_c},
               {CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &schemes, sizeof schemes}};
    size_t count = sizeof set / sizeof *set;
    if (!s->spec.deterministic)
        count--;
    if (!CUBLAS(s, lt.cublasLtMatmulPreferenceCreate(out)))
        return false;
    for (size_t i = 0; i < count; i++)
        if (!CUBLAS(s, lt.cublasLtMatmulPreferenceSetAttribute(*out, set[i].name, set[i].value,
                                                               set[i].bytes)))
            return false;
    return true;
}

static void refuse(struct stream *s, const char *what, cublasStatus_t status)
{
    snprintf(s->refusal, sizeof s->refusal, "%s: %s", what, lt.cublasLtGetStatusString(status));
}

/* A result's other fields mean something only when its state is success. */
static uint32_t ways_ask(struct stream *s, struct product_ways *w,
                         cublasLtMatmulPreference_t preference)
{
    cublasLtMatmulHeuristicResult_t result[WAYS_MAX];
    int found = 0;
    uint32_t count = 0;
    cublasStatus_t status =
        lt.cublasLtMatmulAlgoGetHeuristic(s->device->products->handle, w->operation, w->a, w->b,
                                          w->c, w->c, preference, WAYS_MAX, result, &found);
    if (status == CUBLAS_STATUS_SUCCESS && found == 0)
        status = CUBLAS_STATUS_NOT_SUPPORTED;
    if (status != CUBLAS_STATUS_SUCCESS)
        refuse(s, "cublasLtMatmulAlgoGetHeuristic", status);
    for (int i = 0; i < found && status == CUBLAS_STATUS_SUCCESS; i++)
        if (result[i].state != CUBLAS_STATUS_SUCCESS)
            refuse(s, "cublasLtMatmulAlgoGetHeuristic, one result", result[i].state);
        else if (result[i].workspaceSize <= WORKSPACE_BYTES)
            w->algorithm[count++] = result[i].algo;
    if (count == 0)
        device_look(s);
    return count;
}

struct product_ways *device_ways_new(struct stream *s, const struct product *p, uint32_t *count)
{
    cublasLtMatmulPreference_t preference = NULL;
    struct product_ways *w = calloc(1, sizeof *w);
    *count = 0;
    if (w == NULL)
        stream_fail(s, SHOAL_E_NOMEM, "a stream of the device: out of memory");
    if (w != NULL && device_enter(s) && operation_make(s, w, p) && bias_set(s, w, p->bias) &&
        layouts_make(s, w, p) && preference_make(s, &preference, p))
        *count = ways_ask(s, w, preference);
    if (preference != NULL)
        CUBLAS(s, lt.cublasLtMatmulPreferenceDestroy(preference));
    if (w != NULL && *count == 0) {
        device_ways_free(s, w);
        w = NULL;
    }
    return w;
}

/* ---- running --------------------------------------------------------------------------------- */

bool device_ways_run(struct stream *s, struct product_ways *w, uint32_t way,
                     const struct product *p)
{
    float one = 1.0f;
    if (!device_enter(s) || !bias_set(s, w, p->bias))
        return false;
    struct products *all = s->device->products;
    if (cuda_exact && p->beta == 0.0f)
        CUDA(s, cudaMemset2DAsync(p->c, p->ldc * sizeof *p->c, 0, p->n * sizeof *p->c, p->m,
                                  s->device->stream));
    cublasStatus_t status = lt.cublasLtMatmul(
        all->handle, w->operation, &one, p->b, w->a, p->a, w->b, &p->beta, p->c, w->c, p->c, w->c,
        &w->algorithm[way], all->workspace, WORKSPACE_BYTES, s->device->stream);
    if (status != CUBLAS_STATUS_SUCCESS) {
        refuse(s, "cublasLtMatmul", status);
        device_look(s); /* a lost device refuses everything */
        if (status == CUBLAS_STATUS_ALLOC_FAILED)
            CUBLAS(s, status); /* a shortage passes: no reason to keep another way */
        return false;
    }
    if (s->recorded == NULL)
        cuda_counter_add(&cuda_counters.products);
    return true;
}

/* ---- finding cuBLASLt: half a gigabyte, at a different place on every machine ---------------- */

#define TEXT(x) #x
#define TEXT_OF(x) TEXT(x)
#define CUBLASLT_FILE "libcublasLt.so." TEXT_OF(CUBLAS_VER_MAJOR)

struct cublaslt lt;

int cublaslt_load(struct err *e)
{
    static const char *const folders[] = {"/usr/local/cuda/lib64",
                                          "/usr/local/cuda*/lib64",
                                          "/usr/local/cuda*/targets/x86_64-linux/lib",
                                          "/usr/lib/x86_64-linux-gnu",
                                          "/opt/cuda*/lib64",
                                          NULL};
    static const char *const wheels[] = {"nvidia/cu" TEXT_OF(CUBLAS_VER_MAJOR) "/lib",
                                         "nvidia/cublas/lib", NULL};
    const struct library_search search = {CUBLASLT_FILE, "SHOAL_CUBLASLT", folders, wheels};
    void *handle = NULL;
    int rc = library_open(&search, &handle, lt.path, e);
    if (rc != 0)
        return rc;
    const struct {
        const char *name;
        void *function;
    } wanted[] = {
#define X(name) {#name, &lt.name},
        CUBLASLT_FUNCTIONS(X)
#undef X
    };
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        if (!library_function(handle, wanted[i].name, wanted[i].function))
            return err_set(
                e, SHOAL_E_UNAVAILABLE,
                "%s has no %s: it is of another version; install that of CUDA %d, or set "
                "SHOAL_CUBLASLT to its file or folder",
                lt.path, wanted[i].name, CUBLAS_VER_MAJOR);
    if (lt.cublasLtGetVersion() / 10000 != CUBLAS_VER_MAJOR)
        return err_set(e, SHOAL_E_UNAVAILABLE,
                       "%s is of version %zu; needed is %d.x: install that of CUDA %d, or set "
                       "SHOAL_CUBLASLT to its file or folder",
                       lt.path, lt.cublasLtGetVersion() / 10000, CUBLAS_VER_MAJOR,
                       CUBLAS_VER_MAJOR);
    return 0;
}
