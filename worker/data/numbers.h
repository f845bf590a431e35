/* numbers.h: integers of an example, eight at a time, with AVX-512. */
#ifndef WORKER_DATA_NUMBERS_H
#define WORKER_DATA_NUMBERS_H

#include "worker/data/feature.h"

#define NUMBERS_GROUP 8u

/* True when this processor has AVX-512. */
bool numbers_wide(void);
/* Sets out[i] for use[i], i < count <= NUMBERS_GROUP, to the bits that feature.c computes, where
 * the cell is empty or an integer of at most 15 bytes. Returns a bit for each other cell, whose
 * out[i] is undefined. Reads no byte outside a cell. */
uint32_t numbers_read(const struct cell *cells, const struct feature_use *use, uint32_t count,
                      float *out);

#endif
