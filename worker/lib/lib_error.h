/* lib_error.h: Shoal's own errors as those of shoal.h. */
#ifndef WORKER_LIB_LIB_ERROR_H
#define WORKER_LIB_LIB_ERROR_H

#include "proto/base/err.h"
#include "worker/lib/shoal.h"

/* Writes `from`, whose code may be 0, to *e (NULL: nowhere) and returns its code of shoal.h. */
int lib_error(struct shoal_error *e, const struct err *from);
/* The same with a sentence of its own. */
int lib_refuse(struct shoal_error *e, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* No error: clears *e. */
int lib_ok(struct shoal_error *e);
/* Copies a struct of the caller's, of `size` bytes there, over *to of `bytes`, which has defaults
 * of 0: a later library has more members than an older caller, and an older one fewer. from NULL,
 * or of size 0: USAGE. */
int lib_options(void *to, size_t bytes, const void *from, size_t size, const char *function,
                struct shoal_error *e);

#endif
