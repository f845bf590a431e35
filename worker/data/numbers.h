/* numbers.h: whole numbers of an example, eight at a time, by AVX-512. */
#ifndef WORKER_DATA_NUMBERS_H
#define WORKER_DATA_NUMBERS_H

#include "worker/data/feature.h"

#define NUMBERS_GROUP 8u

/* Whether this processor can. */
bool numbers_wide(void);
/* The numeric inputs out[i] of use[i], i < count <= NUMBERS_GROUP: bit for bit what feature.c makes
 * of a cell that is empty or a whole number of at most 15 bytes. Returned are the bits of those
 * that are neither; their out[i] says nothing. Nothing beyond a cell is read. */
uint32_t numbers_read(const struct cell *cells, const struct feature_use *use, uint32_t count,
                      float *out);

#endif
