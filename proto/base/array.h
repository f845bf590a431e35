/* array.h: growing an array.
 *
 *     if (array_room(&x->item, x->count, &x->capacity, 64) != 0)
 *         return SHOAL_E_NOMEM;
 *     x->item[x->count++] = item;
 *
 * The array comes from malloc and is NULL as long as its capacity is 0. The capacity is a uint32_t
 * or a size_t. The macros return 0 or SHOAL_E_NOMEM; an error leaves array and capacity unchanged.
 * New items are not cleared. */
#ifndef PROTO_BASE_ARRAY_H
#define PROTO_BASE_ARRAY_H

#include <stddef.h>
#include <stdint.h>

/* Makes room for one item more than `count`. The capacity starts at `first` and doubles each
 * time. */
#define array_room(array, count, capacity, first)                                                  \
    ((count) < *(capacity) ? 0 : array_double((array), sizeof **(array), (capacity), (first)))

/* Makes room for `wanted` items, and no more than that. */
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

/* Sorts value (count) in rising order, in time linear in count. scratch has room for as many
 * numbers; its content afterwards is undefined. Allocates nothing. */
void array_sort(uint32_t *value, uint32_t *scratch, size_t count);

#endif
