/* lib_options.h: structs of options that callers of shoal.h fill. */
#ifndef WORKER_LIB_LIB_OPTIONS_H
#define WORKER_LIB_LIB_OPTIONS_H

#include "worker/lib/shoal.h"

#include <stddef.h>

/* Copies a struct of the caller's, of `size` bytes there, over *to of `bytes`, which has defaults
 * of 0: a later library has more members than an older caller, and an older one fewer. from NULL,
 * or of size 0: USAGE. */
int lib_options_take(void *to, size_t bytes, const void *from, size_t size, const char *function,
                     struct shoal_error *e);

#endif
