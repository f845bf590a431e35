/* device_host.h: the stand-in's device memory: memory that the host cannot touch.
 *
 * It lies in one stretch of addresses that is open only while calls of a stream are run
 * (device_host.c): a host that follows a pointer of the device's ends with SIGSEGV, as on a machine
 * with a card. The other way round, what a call is given is looked at when it is queued: a pointer
 * that is not the device's where it must be, or is where it must not, ends the program with a
 * sentence. So a pointer that is mixed up fails here and not there.
 *
 * Thread: any. While one stream runs, the memory is open to all. */
#ifndef DENSE_CUDA_DEVICE_HOST_H
#define DENSE_CUDA_DEVICE_HOST_H

#include "dense/cuda/device.h"

/* 256-byte aligned; NULL: the stretch is full. */
void *device_host_memory_alloc(size_t bytes);
void device_host_memory_free(void *p);
void device_host_memory_open(void);
void device_host_memory_close(void);

/* [p, p + bytes) lies in one piece of device memory; else the program ends. what: the call that is
 * given it. */
void device_host_memory_check(const char *what, const void *p, size_t bytes);
/* It lies outside. */
void device_host_memory_refuse(const char *what, const void *p);
/* None of the arguments' words is an address that the host has memory at. */
void device_host_memory_scan(const char *what, const void *args, size_t bytes);

/* device_host_product.c: with device memory open. */
void device_host_product_run(const struct product *p);

/* Pinned memory: what is uploaded from there is read when the call runs, and not when it is
 * queued. */
void *device_host_pinned_alloc(size_t bytes);
void device_host_pinned_free(void *p);
bool device_host_pinned_has(const void *p);

#endif
