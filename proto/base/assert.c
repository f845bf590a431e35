/* assert.c: what a broken assumption of our own does: one line, then abort. */
#include "proto/base/assert.h"
#include "proto/base/log.h"

#include <stdlib.h>

void assert_fail(const char *file, int line, const char *expression)
{
    log_error("%s:%d: assertion failed: %s; this is a bug in Shoal, please report it", file, line,
              expression);
    abort();
}
