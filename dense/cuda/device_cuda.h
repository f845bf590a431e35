/* device_cuda.h: the card behind a stream, and the macros through which all CUDA calls go, so that
 * every status is checked.
 *
 * CUDA(s, call) and CUBLAS(s, call) make a call, keep a failure in the stream with the call, the
 * file and the line, and are true on success. CUDA_TELL(e, call) is for calls without a stream: it
 * sets *e and returns its code. tests/tidy refuses a call outside these macros. cuBLASLt is found
 * when the module is loaded (device_product.c) and called through `lt`. */
#ifndef DENSE_CUDA_DEVICE_CUDA_H
#define DENSE_CUDA_DEVICE_CUDA_H

#include "dense/cuda/stream.h"

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

struct products; /* device_product.c: handle and workspace */
struct events;   /* device_events.c: points of the stream that others wait for, and their times */

struct device {
    int number;
    cudaStream_t stream;
    struct products *products; /* owned */
    struct events *events;     /* owned; NULL: the stream has waited for no other */
};

bool cuda_ok(struct stream *s, cudaError_t status, const char *call, const char *file, int line);
bool cublas_ok(struct stream *s, cublasStatus_t status, const char *call, const char *file,
               int line);
int cuda_tell(struct err *e, cudaError_t status, const char *call, const char *file, int line);

#define CUDA(s, call) cuda_ok(s, call, #call, __FILE__, __LINE__)
#define CUBLAS(s, call) cublas_ok(s, call, #call, __FILE__, __LINE__)
#define CUDA_TELL(e, call) cuda_tell(e, call, #call, __FILE__, __LINE__)

/* Called before each call for a stream; false when the stream has failed. Makes the stream's device
 * the calling thread's. */
bool device_enter(struct stream *s);

/* Called after a refused call: clears the error from the thread, where CUB would find it after its
 * next kernel. If the device itself has failed for good, that failure goes to the stream. */
void device_look(struct stream *s);

/* device_events.c. reuse: no call of the stream's own is still queued. */
void device_events_reuse(struct stream *s);
void device_events_close(struct stream *s);

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
