/* array.c: the one realloc of arrays that grow; every product is checked. */
#include "proto/base/array.h"

#include "proto/base/assert.h"
#include "proto/base/err.h"

#include <stdlib.h>
#include <string.h>

/* array: the address of a pointer to items of any type. */
int array_resize_64(void *array, size_t each, size_t wanted, size_t *capacity)
{
    void *old, *grown;
    SHOAL_ASSERT(each > 0 && wanted > *capacity);
    if (wanted > SIZE_MAX / 2 / each)
        return SHOAL_E_NOMEM;
    memcpy(&old, array, sizeof old);
    grown = realloc(old, wanted * each);
    if (grown == NULL)
        return SHOAL_E_NOMEM;
    memcpy(array, &grown, sizeof grown);
    *capacity = wanted;
    return 0;
}

int array_resize_32(void *array, size_t each, size_t wanted, uint32_t *capacity)
{
    size_t wide = *capacity;
    if (wanted > UINT32_MAX || array_resize_64(array, each, wanted, &wide) != 0)
        return SHOAL_E_NOMEM;
    *capacity = (uint32_t)wide;
    return 0;
}

int array_double_64(void *array, size_t each, size_t *capacity, size_t first)
{
    if (*capacity > SIZE_MAX / 2)
        return SHOAL_E_NOMEM;
    return array_resize_64(array, each, *capacity == 0 ? first : 2 * *capacity, capacity);
}

int array_double_32(void *array, size_t each, uint32_t *capacity, uint32_t first)
{
    return array_resize_32(array, each, *capacity == 0 ? first : 2 * (size_t)*capacity, capacity);
}
