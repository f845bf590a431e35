/* library.h: finds a shared library, also in places where the loader does not look. */
#ifndef DENSE_LIBRARY_H
#define DENSE_LIBRARY_H

#include "proto/base/err.h"
#include "proto/base/limits.h"

#include <stdbool.h>
#include <stddef.h>

/* The places that are searched, in this order: the file or folder that the environment's `variable`
 * names; the loader's own path; `folders`; and `wheels` below the folders of Python's packages, for
 * each prefix that has a python3 on PATH, VIRTUAL_ENV and CONDA_PREFIX. */
struct library_search {
    const char *file;           /* "libcublasLt.so.13" */
    const char *variable;       /* "SHOAL_CUBLASLT" */
    const char *const *folders; /* patterns of glob(7), the last NULL */
    const char *const *wheels;  /* below site-packages, the last NULL */
};

/* Opens the library. It is never unloaded, because CUDA's libraries do not support that. *handle is
 * dlopen's, path the file that was opened. Where the variable is set, no other place is searched.
 * UNAVAILABLE: it is in none of the places, which the error lists, or does not load. */
int library_open(const struct library_search *q, void **handle, char path[LIMIT_PATH],
                 struct err *e);
/* Sets *function, a pointer to a function, to the library's `name`. False: it has no such name. */
bool library_function(void *handle, const char *name, void *function);

#endif
