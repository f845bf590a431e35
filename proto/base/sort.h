/* sort.h: numbers in rising order, in time proportional to their count. */
#ifndef PROTO_BASE_SORT_H
#define PROTO_BASE_SORT_H

#include <stddef.h>
#include <stdint.h>

/* Sorts value (count); scratch has room for as many and is left with anything. Allocates
 * nothing. */
void sort_u32(uint32_t *value, uint32_t *scratch, size_t count);

#endif
