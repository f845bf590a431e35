/* device.h: the operations of a device, used by its stream. device_cuda.c implements them with the
 * CUDA runtime and cuBLASLt. device_host.c implements them for tests with the host's memory and
 * loops: its "device" memory is a separate region, its kernels run element by element in a
 * scrambled order, and its recordings hold the calls and their arguments as a CUDA graph does.
 *
 * Every function that takes a stream does nothing when the stream has failed. On a failure of its
 * own it records that failure with the failed call (stream_fail). */
#ifndef DENSE_CUDA_DEVICE_H
#define DENSE_CUDA_DEVICE_H

#include "dense/cuda/kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

struct device;    /* a stream's part of the device */
struct recording; /* kernels in a row that can be played again */

/* Checks that there is a device to work on. UNAVAILABLE, with a sentence. */
int device_probe(struct err *e);
/* Everything that the bits of a matrix product depend on: "cublasLt 130002 sm_90 132 SMs NVIDIA
 * H100 80GB HBM3". */
const char *device_kernel(void);
/* Name and version of the library that computes products: "cuBLASLt 13.0.2". */
const char *device_library(void);
/* A text for logs: "NVIDIA H100 80GB HBM3 (device 0), cuBLASLt 13.0.2 of
 * /usr/local/cuda/lib64/libcublasLt.so.13". */
const char *device_about(void);

/* backend_ops.memory. */
bool device_memory(uint64_t *taken, uint64_t *all);

/* s->spec is set before the call. UNAVAILABLE, INTERNAL, NOMEM. */
int device_open(struct stream *s, struct err *e);
void device_close(struct stream *s);
void device_wait(struct stream *s); /* until all queued work has run */

void *device_host_alloc(size_t bytes); /* on any thread */
void device_host_free(void *p);
/* NULL: no memory; this does not make the stream fail. */
void *device_alloc(struct stream *s, size_t bytes);
void device_free(struct stream *s, void *p);
void device_upload(struct stream *s, void *to, const void *from, size_t bytes);
void device_download(struct stream *s, void *to, const void *from, size_t bytes);
void device_copy(struct stream *s, void *to, const void *from, size_t bytes);
void device_zero(struct stream *s, void *to, size_t bytes);
/* backend_ops of the same names. */
void device_upload_strip(struct stream *s, const struct strip *m);
void device_download_strip(struct stream *s, const struct strip *m);
void device_fetch(struct stream *s, struct stream *other, const struct strip *m);
void device_after(struct stream *s, struct stream *other);
void device_watch(struct stream *s, bool begin);
void device_waited(struct stream *s, double *waited, double *of);
void device_launch(struct stream *s, const char *name, kernel_function function, size_t n,
                   const void *args, size_t bytes);

/* From device_record_begin to device_record_end calls are recorded and not run. NULL: the stream
 * has failed. */
void device_record_begin(struct stream *s);
struct recording *device_record_end(struct stream *s);
void device_play(struct stream *s, struct recording *r);
void device_recording_free(struct stream *s, struct recording *r);

/* Sorts (key, value) pairs by key and keeps the order of equal keys; all keys are below key_end.
 * scratch: device_sort_bytes(s, count) bytes, or NULL for a failed stream. */
size_t device_sort_bytes(struct stream *s, uint32_t count, uint32_t key_end);
void device_sort(struct stream *s, uint32_t count, uint32_t key_end, const uint32_t *key,
                 const uint32_t *value, uint32_t *key_out, uint32_t *value_out, void *scratch,
                 size_t scratch_bytes);

/* The element type of a product's operands. c and the sums are always fp32. */
enum product_type { PRODUCT_F32, PRODUCT_TF32, PRODUCT_BF16, PRODUCT_FP16 };

/* c = op(a) op(b) + beta c, + bias for each column: as backend_ops.gemm. None of m, n, k is 0. */
struct product {
    enum product_type type; /* BF16, FP16: a and b are 16 bits an element */
    bool transpose_a, transpose_b;
    uint32_t m, n, k;
    const void *a, *b;
    uint32_t lda, ldb, ldc; /* elements from one row to the next */
    float beta;
    float *c;
    const float *bias; /* (n) or NULL; with beta 0 only */
};

/* An operand as it lies in memory. */
struct extent {
    uint32_t rows, columns;
};
static inline struct extent product_extent(bool transposed, uint32_t rows, uint32_t columns)
{
    struct extent x = {rows, columns};
    if (transposed) {
        x.rows = columns;
        x.columns = rows;
    }
    return x;
}

/* The ways in which the device's library would compute a product of this shape and these
 * alignments, best first. NULL and *count 0: it offers none, and s->refusal says why. Never call it
 * while a section is recorded. */
struct product_ways;
struct product_ways *device_ways_new(struct stream *s, const struct product *p, uint32_t *count);
/* Queues the product, computed in the given way. Returns false when the library cannot compute it
 * in that way: then s->refusal holds the reason, and nothing was queued. */
bool device_ways_run(struct stream *s, struct product_ways *w, uint32_t way,
                     const struct product *p);
void device_ways_free(struct stream *s, struct product_ways *w);

#ifdef __cplusplus
}
#endif

#endif
