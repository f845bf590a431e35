/* library.h: finding a shared library that may lie where the loader does not look. */
#ifndef DENSE_LIBRARY_H
#define DENSE_LIBRARY_H

#include "proto/base/err.h"
#include "proto/base/limits.h"

#include <stdbool.h>
#include <stddef.h>

/* Where it is looked for, in this order: what the environment's `variable` names, a file or a
 * folder; the loader's own path; `folders`; and, of each prefix that has a python3 on PATH (and
 * VIRTUAL_ENV, CONDA_PREFIX), the folders of Python's packages, with `wheels` behind them. */
struct library_search {
    const char *file;           /* "libcublasLt.so.13" */
    const char *variable;       /* "SHOAL_CUBLASLT" */
    const char *const *folders; /* patterns of glob(7), the last NULL */
    const char *const *wheels;  /* below site-packages, the last NULL */
};

/* Opens it, for good: what is found this way is not made to be unloaded. *handle is dlopen's, path
 * the file that was opened. What the variable names is taken or refused: nothing else is tried
 * then. UNAVAILABLE: it is nowhere, or does not load, with the places that were looked at. */
int library_open(const struct library_search *q, void **handle, char path[LIMIT_PATH],
                 struct err *e);
/* One of its functions into *function, a pointer to a function. False: it has none of this name. */
bool library_function(void *handle, const char *name, void *function);

#endif
