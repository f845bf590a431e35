/* npy.c: writes the head of an npy file. */
#include "proto/base/npy.h"

#include "proto/base/assert.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { PREFIX = 10 /* bytes of magic number, version and length */ };

void npy_head(const char *type, const uint64_t *shape, uint32_t dims, char out[NPY_HEAD])
{
    char text[NPY_HEAD + 1];
    const char *before = "";
    SHOAL_ASSERT(dims >= 1 && dims <= NPY_DIMS);
    int n = snprintf(text, sizeof text,
                     "\x93NUMPY\x01%c%c%c{'descr': '%s', 'fortran_order': False, 'shape': (", '\0',
                     NPY_HEAD - PREFIX, '\0', type);
    for (uint32_t i = 0; i < dims; i++) {
        SHOAL_ASSERT(n > 0 && n < NPY_HEAD);
        n += snprintf(text + n, sizeof text - (size_t)n, "%s%" PRIu64, before, shape[i]);
        before = ", ";
    }

    SHOAL_ASSERT(n > 0 && n < NPY_HEAD);
    n += snprintf(text + n, sizeof text - (size_t)n, "%s), }", dims == 1 ? "," : "");
    SHOAL_ASSERT(n < NPY_HEAD); /* the newline fits */
    memset(text + n, ' ', (size_t)(NPY_HEAD - 1 - n));
    text[NPY_HEAD - 1] = '\n';
    memcpy(out, text, NPY_HEAD);
}
