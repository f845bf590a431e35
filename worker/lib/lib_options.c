/* lib_options.c: see lib_options.h. */
#include "worker/lib/lib_options.h"

#include "proto/base/minmax.h"
#include "worker/lib/lib_error.h"

#include <string.h>

int lib_options_take(void *to, size_t bytes, const void *from, size_t size, const char *function,
                     struct shoal_error *e)
{
    if (from == NULL || size < sizeof size)
        return lib_error_set(
            e, SHOAL_ERROR_USAGE,
            "%s: the options are missing, or their member size is not sizeof of the "
            "struct",
            function);
    memcpy(to, from, MIN(bytes, size));
    return SHOAL_OK;
}
