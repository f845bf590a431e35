/* backend.h: what computes: a module with BLAS or CUDA, loaded with dlopen. Its vtable is
 * backend_ops.h. */
#ifndef DENSE_BACKEND_H
#define DENSE_BACKEND_H

#include "proto/base/err.h"
#include "proto/job/job.h"

#include <stdbool.h>
#include <stddef.h>

struct backend;

/* Loads libshoal_cpu.so (BLAS) or, where a driver is there, the CUDA module; looks beside the
 * program, then in ../lib/shoal, then in SHOAL_MODULE_DIR. backend_name "cpu"; backend_kernel: BLAS
 * kernel type, "SkylakeX". Where kind is auto, a driver is there and yet the CPU is taken, it gives
 * 0 and *e has a sentence that says why (with code 0; else *e is left alone). */
int backend_load(enum backend_kind kind, struct backend **out, struct err *e);
void backend_unload(struct backend *b);
const char *backend_name(const struct backend *b);
const char *backend_kernel(const struct backend *b);
/* One line for people of device and libraries, "OpenBLAS 0.3.21 SkylakeX kernels, others AVX-512";
 * "" when the module says nothing. */
const char *backend_about(const struct backend *b);
/* Steps are computed on a device, and not by the thread that waits for them. */
bool backend_is_device(const struct backend *b);
/* Host memory that the device reads and writes at full speed (pinned); plain memory on the CPU.
 * 64-byte aligned; NULL when there is none. Freed on any thread, before the backend is unloaded. b
 * may be NULL: plain memory. */
void *backend_host_alloc(const struct backend *b, size_t bytes);
void backend_host_free(const struct backend *b, void *p);

/* Loads a module by its file's name, from the places that backend_load looks in.
 * UNAVAILABLE: it is not there or does not load; VERSION: it is of another version of shoal. */
int backend_load_module(const char *file, struct backend **out, struct err *e);

/* The kernel type that OpenBLAS should be told on this processor, or NULL to let it choose.
 * backend_load sets it as OPENBLAS_CORETYPE: call that before other threads read the environment.
 */
const char *backend_core_type(void);
/* The processor has wider vectors than the kernels that b's BLAS has chosen: the sentence says what
 * keeps it there, and what to do. */
bool backend_is_slow(const struct backend *b, char text[ERR_TEXT_MAX]);

#endif
