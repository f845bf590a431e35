/* device_cuda.h: the card behind a stream, and the one way to call CUDA: no status goes unseen.
 *
 * CUDA(s, call) and CUBLAS(s, call) make a call, keep a failure in the stream with the call, the
 * file and the line, and say whether it went well. CUDA_TELL(e, call) is for what has no stream: it
 * sets *e and gives its code. tests/tidy refuses a call outside of them. cuBLASLt is found when the
 * module is loaded (device_product.c), and called by way of `lt`. */
#ifndef DENSE_CUDA_DEVICE_CUDA_H
#define DENSE_CUDA_DEVICE_CUDA_H

#include "dense/cuda/stream.h"

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

struct products; /* device_product.c: handle and workspace */

struct device {
    cudaStream_t stream;
    struct products *products; /* owned */
};

bool cuda_ok(struct stream *s, cudaError_t status, const char *call, const char *file, int line);
bool cublas_ok(struct stream *s, cublasStatus_t status, const char *call, const char *file,
               int line);
int cuda_tell(struct err *e, cudaError_t status, const char *call, const char *file, int line);

#define CUDA(s, call) cuda_ok(s, call, #call, __FILE__, __LINE__)
#define CUBLAS(s, call) cublas_ok(s, call, #call, __FILE__, __LINE__)
#define CUDA_TELL(e, call) cuda_tell(e, call, #call, __FILE__, __LINE__)

/* Before each call for a stream: false when it has failed. The device of the module is made the
 * calling thread's. */
bool device_enter(struct stream *s);

/* After something was refused: takes it off the thread, where CUB would find it after its next
 * kernel; and what the device's state says now, a failure that stays, goes to the stream. */
void device_look(struct stream *s);

/* device_product.c */
#define CUBLASLT_FUNCTIONS(X)                                                                      \
    X(cublasLtCreate)                                                                              \
    X(cublasLtDestroy)                                                                             \
    X(cublasLtGetStatusString)                                                                     \
    X(cublasLtGetVersion)                                                                          \
    X(cublasLtMatmul)                                                                              \
    X(cublasLtMatmulAlgoGetHeuristic)                                                              \
    X(cublasLtMatmulDescCreate)                                                                    \
    X(cublasLtMatmulDescDestroy)                                                                   \
    X(cublasLtMatmulDescSetAttribute)                                                              \
    X(cublasLtMatmulPreferenceCreate)                                                              \
    X(cublasLtMatmulPreferenceDestroy)                                                             \
    X(cublasLtMatmulPreferenceSetAttribute)                                                        \
    X(cublasLtMatrixLayoutCreate)                                                                  \
    X(cublasLtMatrixLayoutDestroy)

struct cublaslt {
#define X(name) __typeof__(name) *name;
    CUBLASLT_FUNCTIONS(X)
#undef X
    char path[LIMIT_PATH]; /* where it was found */
};
extern struct cublaslt lt;        /* filled once, by device_probe */
int cublaslt_load(struct err *e); /* UNAVAILABLE */

void products_open(struct stream *s);
void products_close(struct stream *s);

#ifdef __cplusplus
}
#endif

#endif
