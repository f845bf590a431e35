/* lib_error.h: Shoal's own errors as those of shoal.h. */
#ifndef WORKER_LIB_LIB_ERROR_H
#define WORKER_LIB_LIB_ERROR_H

#include "proto/base/err.h"
#include "worker/lib/shoal.h"

/* Writes `from`, whose code may be 0, to *e (NULL: nowhere) and returns its code of shoal.h. */
int lib_error(struct shoal_error *e, const struct err *from);
/* The same with a sentence of its own. */
int lib_error_set(struct shoal_error *e, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* No error: clears *e. */
int lib_error_none(struct shoal_error *e);

#endif
