/* shape.c: see shape.h. */
#include "proto/job/shape.h"

#include <stdlib.h>

bool shape_read(const char *text, struct shape *out)
{
    *out = (struct shape){.count = 1};
    for (const char *at = text;; at++) {
        char *end;
        const uint64_t n = strtoull(at, &end, 10);
        if (*at < '1' || *at > '9' || n > SHAPE_COUNT_MAX / out->count || out->rank == SHAPE_RANK)
            return false;
        out->size[out->rank++] = n;
        out->count *= n;
        if (*end != 'x')
            return *end == '\0' || *end == ' ';
        at = end;
    }
}
