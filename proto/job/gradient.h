/* gradient.h: the limits of a pushed gradient: every value is finite and within LIMIT_GRADIENT,
 * and, where the table has rules.norm_max, each row's 2-norm is within that. The shard refuses
 * other gradients before it journals them; a worker that must know beforehand calls the same
 * functions. The limit exists because a finite 1e38 passes most checks elsewhere and explodes days
 * later. Pure. */
#ifndef PROTO_JOB_GRADIENT_H
#define PROTO_JOB_GRADIENT_H

#include "proto/job/schema.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum gradient_why { GRADIENT_GOOD, GRADIENT_NOT_FINITE, GRADIENT_TOO_LARGE, GRADIENT_NORM };

struct gradient_fault {
    enum gradient_why why; /* the fault of the first bad row */
    /* the row's key number and the index of its bad float; GRADIENT_NORM: of its largest float */
    uint32_t key, place;
    float value;   /* that float */
    double norm;   /* GRADIENT_NORM: the row's norm */
    uint32_t rows; /* number of bad rows */
};

/* True when all `count` floats are finite and within LIMIT_GRADIENT. */
bool gradient_floats_ok(const float *values, size_t count);
/* Finds the first bad row of values (key_count, schema_push_floats) and the number of bad rows.
 * Returns true when there is any. */
bool gradient_fault_find(const struct table_schema *s, const float *values, uint32_t key_count,
                         struct gradient_fault *out);
/* The 2-norm of a row's gradient, width floats; summed in double, in order, so that it is the same
 * everywhere. */
double gradient_norm(const float *gradient, uint32_t width);
/* "not finite", "beyond 1e15", "longer than norm_max". */
const char *gradient_why_text(enum gradient_why why);

#endif
