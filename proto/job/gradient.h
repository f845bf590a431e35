/* gradient.h: what a pushed gradient may be: every value finite and within LIMIT_GRADIENT, and,
 * where the table has rules.norm_max, each row's 2-norm within that. The shard refuses what is not
 * before it is journalled; a worker that must know beforehand asks the same functions. Finite 1e38
 * passes most checks elsewhere and explodes days later: hence the limit. Pure. */
#ifndef PROTO_JOB_GRADIENT_H
#define PROTO_JOB_GRADIENT_H

#include "proto/job/schema.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum gradient_why { GRADIENT_GOOD, GRADIENT_NOT_FINITE, GRADIENT_TOO_LARGE, GRADIENT_NORM };

struct gradient_fault {
    enum gradient_why why; /* of the first bad row */
    uint32_t key, place;   /* its number; which of its floats. GRADIENT_NORM: the largest of them */
    float value;           /* that float */
    double norm;           /* GRADIENT_NORM: of the row */
    uint32_t rows;         /* bad ones in all */
};

/* What is wrong with values (key_count, schema_push_floats): the first bad row and how many there
 * are. Whether there is any. */
bool gradient_fault_find(const struct table_schema *s, const float *values, uint32_t key_count,
                         struct gradient_fault *out);
/* The 2-norm of a row's gradient, width floats; added up in double, in order: the same
 * everywhere. */
double gradient_norm(const float *gradient, uint32_t width);
/* "not finite", "beyond 1e15", "longer than norm_max". */
const char *gradient_why_text(enum gradient_why why);

#endif
