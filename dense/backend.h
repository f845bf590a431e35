/* backend.h: a backend is a module with BLAS or CUDA, loaded with dlopen, that does the arithmetic.
 * backend_ops.h is its vtable. */
#ifndef DENSE_BACKEND_H
#define DENSE_BACKEND_H

#include "proto/base/err.h"
#include "proto/job/job.h"

#include <stdbool.h>
#include <stddef.h>

struct backend;

/* Loads libshoal_cpu.so (BLAS) or, where there is a driver, the CUDA module. It looks beside the
 * program, then in ../lib/shoal, then in SHOAL_MODULE_DIR. Where kind is auto and there is a driver
 * but the CPU is taken, it returns 0 and sets *e, with code 0, to the reason; otherwise success
 * leaves *e alone. */
int backend_load(enum backend_kind kind, struct backend **out, struct err *e);
void backend_unload(struct backend *b);
const char *backend_name(const struct backend *b); /* "cpu" */
/* The kernel type of matrix products, which decides their bits: "SkylakeX". */
const char *backend_kernel(const struct backend *b);
/* Device and libraries in one line for people, "OpenBLAS 0.3.21 SkylakeX kernels, others AVX-512";
 * "" where the module says nothing. */
const char *backend_about(const struct backend *b);
/* true: a device computes the steps; false: the thread that waits for them does. */
bool backend_is_device(const struct backend *b);
/* Bytes of the device's memory that all processes have taken, and all that it has, at the end of
 * the first step after the last call. Asks the device nothing itself. False: not known yet, or the
 * memory is the host's. Any thread. */
bool backend_memory(const struct backend *b, uint64_t *taken, uint64_t *all);
/* Host memory that the device reads and writes at full speed (pinned); plain memory on the CPU.
 * 64-byte aligned; NULL: out of memory. May be freed on any thread, before the backend is unloaded.
 * b may be NULL: plain memory. */
void *backend_host_alloc(const struct backend *b, size_t bytes);
void backend_host_free(const struct backend *b, void *p);

/* Loads a module by its file's name from the places that backend_load searches. UNAVAILABLE: it is
 * missing or does not load; VERSION: it belongs to another version of shoal. */
int backend_load_module(const char *file, struct backend **out, struct err *e);

/* The OPENBLAS_CORETYPE for this processor; NULL: OpenBLAS chooses. backend_load sets it, and so
 * must be called before other threads read the environment. */
const char *backend_core_type(void);
/* True when a GPU's driver (libcuda.so.1) can be opened. */
bool backend_driver(void);
/* true: the processor has wider vectors than the kernels that b's BLAS has chosen. text: the cause
 * and the remedy. */
bool backend_is_slow(const struct backend *b, char text[ERR_TEXT_MAX]);

#endif
