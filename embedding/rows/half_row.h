/* half_row.h: rows of 16-bit weights (proto/job/half.h) and the fp32 form used in computations.
 *
 * Widening is exact. There are two ways back, both always to a finite value: a number beyond the
 * largest one becomes the largest one.
 *  - To the nearest, ties to even: initial values, and rows that come from a table of other values.
 *  - Stochastically, after a push: up or down by chance, so that the mean is the exact value. To
 *    the nearest, an update below half a step would be lost at each push, and training would stop
 *    (Gupta and others 2015, Deep Learning with Limited Numerical Precision; for embedding tables
 *    Zhang and others 2022). The probability of the upper neighbour is the value's distance to the
 *    lower one in steps: random bits are added below the cut, then the cut is made. That is exact
 *    for bf16 and for fp16 from 2^-14 on; below, where fp16 has steps of 2^-24, probabilities have
 *    16 bits.
 *
 * Random bits are a function of a row's draw and the element's place alone, 16 of them for each
 * element. A row's draw is a function of (table seed, lane, batch, key): replay rounds in the same
 * way, and so does every vector level, because the bodies are integer arithmetic. Functions are
 * pure; thread: any. */
#ifndef EMBEDDING_ROWS_HALF_ROW_H
#define EMBEDDING_ROWS_HALF_ROW_H

#include "proto/base/hash.h"
#include "proto/base/rng.h"
#include "proto/job/half.h"

/* ---- converts a stored row of 16-bit weights to an fp32 row, and back ---- */

/* `row`: weights of 16 bits (width), padded to 4 bytes, then `state` floats; `wide`: weights f32
 * (width), then the same state. */
struct half {
    void (*open)(const float *restrict row, float *restrict wide, uint32_t width, uint32_t state);
    /* Rounds stochastically; the padding becomes 0. */
    void (*close)(float *restrict row, const float *restrict wide, uint32_t width, uint32_t state,
                  uint64_t draw);
};
/* kind: not VALUES_FP32. */
struct half half_row_of(enum value_kind kind, enum isa isa, uint32_t width);
/* close, but to the nearest. */
void half_row_close_nearest(enum value_kind kind, float *row, const float *wide, uint32_t width,
                            uint32_t state);

#endif
