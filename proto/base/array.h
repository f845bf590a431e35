/* array.h: growing an array.
 *
 *     if (array_room(&x->item, x->count, &x->capacity, 64) != 0)
 *         return SHOAL_E_NOMEM;
 *     x->item[x->count++] = item;
 *
 * The array is malloc's, NULL as long as its capacity is 0; the capacity is a uint32_t or a size_t.
 * 0, or SHOAL_E_NOMEM: then array and capacity are as they were. What is new is not cleared. */
#ifndef PROTO_BASE_ARRAY_H
#define PROTO_BASE_ARRAY_H

#include <stddef.h>
#include <stdint.h>

/* Room for one more behind `count`: `first` at first, then twice as many each time. */
#define array_room(array, count, capacity, first)                                                  \
    ((count) < *(capacity) ? 0 : array_double((array), sizeof **(array), (capacity), (first)))

/* Room for `wanted`, and no more than that. */
#define array_reserve(array, wanted, capacity)                                                     \
    ((wanted) <= *(capacity) ? 0 : array_resize((array), sizeof **(array), (wanted), (capacity)))

#define array_double(array, each, capacity, first)                                                 \
    _Generic((capacity), uint32_t *                                                                \
             : array_double_32, size_t *                                                           \
             : array_double_64)((array), (each), (capacity), (first))
#define array_resize(array, each, wanted, capacity)                                                \
    _Generic((capacity), uint32_t *                                                                \
             : array_resize_32, size_t *                                                           \
             : array_resize_64)((array), (each), (wanted), (capacity))

int array_double_32(void *array, size_t each, uint32_t *capacity, uint32_t first);
int array_double_64(void *array, size_t each, size_t *capacity, size_t first);
int array_resize_32(void *array, size_t each, size_t wanted, uint32_t *capacity);
int array_resize_64(void *array, size_t each, size_t wanted, size_t *capacity);

/* Sorts numbers, value (count), in rising order, in time proportional to their count. scratch has
 * room for as many and is left with anything. Allocates nothing. */
void array_sort(uint32_t *value, uint32_t *scratch, size_t count);

#endif
