/* shape.h: the shape of a dense tensor, as the names of a job write it (proto/job/legend.h). */
#ifndef PROTO_JOB_SHAPE_H
#define PROTO_JOB_SHAPE_H

#include <stdbool.h>
#include <stdint.h>

#define SHAPE_RANK 7u
#define SHAPE_COUNT_MAX (UINT64_C(1) << 28) /* elements of one tensor */

struct shape {
    uint32_t rank; /* 1 to SHAPE_RANK */
    uint64_t size[SHAPE_RANK];
    uint64_t count; /* their product */
};

/* Reads "32x17", also with words behind it ("32x17 input"). False: the text begins with no
 * shape. */
bool shape_read(const char *text, struct shape *out);

#endif
