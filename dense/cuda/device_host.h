/* device_host.h: the stand-in's device memory: memory that the host cannot touch.
 *
 * It lies in one range of addresses that is accessible only while calls of a stream are run
 * (device_host.c). Host code that follows a device pointer ends with SIGSEGV, as it would with a
 * card. Each piece belongs to a device. In the other direction, the arguments of a call are checked
 * when it is queued: a host pointer where a device pointer is required, the reverse, or memory of
 * another device ends the program with a sentence. So a mixed-up pointer fails here already, before
 * the code meets a card.
 *
 * Thread: any. While one stream runs, the memory is accessible to all threads. */
#ifndef DENSE_CUDA_DEVICE_HOST_H
#define DENSE_CUDA_DEVICE_HOST_H

#include "dense/cuda/device.h"

/* 256-byte aligned; NULL: the device has no more (SHOAL_CUDAHOST_MEMORY), or the range is full. */
void *device_host_memory_alloc(uint32_t device, size_t bytes);
/* Adds the bytes that a device has in use, and those that it has. */
void device_host_memory_size(uint32_t device, uint64_t *taken, uint64_t *size);
void device_host_memory_free(void *p);
void device_host_memory_open(void);
void device_host_memory_close(void);

/* Ends the program unless [p, p + bytes) lies in one piece of the device's memory. what: the call
 * that has the pointer as its argument. */
void device_host_memory_check(const char *what, uint32_t device, const void *p, size_t bytes);
/* Ends the program if p lies in device memory. */
void device_host_memory_refuse(const char *what, const void *p);
/* Ends the program if a word of the arguments is an address of host memory, or of another device's.
 */
void device_host_memory_scan(const char *what, uint32_t device, const void *args, size_t bytes);

/* device_host_product.c; device memory must be accessible. */
void device_host_product_run(const struct product *p);

/* Pinned memory: an upload reads it when the queued call runs, not when it is queued. */
void *device_host_pinned_alloc(size_t bytes);
void device_host_pinned_free(void *p);
bool device_host_pinned_has(const void *p);

#endif
