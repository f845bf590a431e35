/* add.h: floats of one contribution, added to a sum. Pure; every vector level gives the same bits:
 * one rounding for the product, one for the addition, no contraction. Thread: any. */
#ifndef WORKER_RING_ADD_H
#define WORKER_RING_ADD_H

#include <stdbool.h>
#include <stdint.h>

/* to[i] += factor * from[i]; begins: to[i] = factor * from[i], and `to` is not read. */
void add_scaled(float *restrict to, const float *restrict from, float factor, bool begins,
                uint32_t count);

#endif
