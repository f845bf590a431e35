/* device_cuda.h: the card behind a stream, and the one way to call CUDA: no status goes unseen.
 *
 * CUDA(s, call) and CUBLAS(s, call) make a call, keep a failure in the stream with the call, the file and the line, and
 * say whether it went well. CUDA_TELL(e, call) is for what has no stream: it sets *e and gives its code. tests/tidy
 * refuses a call outside of them. */
#ifndef DENSE_CUDA_DEVICE_CUDA_H
#define DENSE_CUDA_DEVICE_CUDA_H

#include "dense/cuda/stream.h"

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

struct products; /* device_product.c: handle, workspace and chosen algorithms */

struct device {
    cudaStream_t stream;
    struct products *products; /* owned */
};

bool cuda_ok(struct stream *s, cudaError_t status, const char *call, const char *file, int line);
bool cublas_ok(struct stream *s, cublasStatus_t status, const char *call, const char *file, int line);
int cuda_tell(struct err *e, cudaError_t status, const char *call, const char *file, int line);

#define CUDA(s, call) cuda_ok(s, call, #call, __FILE__, __LINE__)
#define CUBLAS(s, call) cublas_ok(s, call, #call, __FILE__, __LINE__)
#define CUDA_TELL(e, call) cuda_tell(e, call, #call, __FILE__, __LINE__)

/* Before each call for a stream: false when it has failed. The device of the module is made the calling thread's. */
bool device_enter(struct stream *s);

void products_open(struct stream *s);
void products_close(struct stream *s);

#ifdef __cplusplus
}
#endif

#endif
