/* array.c: the one realloc of arrays that grow; every product is checked. Sorting. */
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

/* ---- sorting --------------------------------------------------------------------------------- */

/* Insertion for a few numbers, else four passes over bytes, lowest first (LSD radix); a
 * pass whose bytes are all the same is left out. */
enum { FEW = 32, DIGITS = 256 };

static void sort_few(uint32_t *value, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        uint32_t x = value[i];
        size_t at = i;
        for (; at > 0 && value[at - 1] > x; at--)
            value[at] = value[at - 1];
        value[at] = x;
    }
}

static void pass(const uint32_t *from, uint32_t *to, size_t count, unsigned shift, const size_t *of)
{
    size_t next[DIGITS], sum = 0;
    for (int d = 0; d < DIGITS; d++) {
        next[d] = sum;
        sum += of[d];
    }
    for (size_t i = 0; i < count; i++)
        to[next[from[i] >> shift & 255]++] = from[i];
}

void array_sort(uint32_t *value, uint32_t *scratch, size_t count)
{
    size_t of[4][DIGITS] = {{0}};
    uint32_t *from = value, *to = scratch;
    if (count <= FEW) {
        sort_few(value, count);
        return;
    }
    for (size_t i = 0; i < count; i++)
        for (unsigned p = 0; p < 4; p++)
            of[p][value[i] >> 8 * p & 255]++;
    for (unsigned p = 0; p < 4; p++) {
        if (of[p][from[0] >> 8 * p & 255] == count)
            continue;
        pass(from, to, count, 8 * p, of[p]);
        uint32_t *swap = from;
        from = to;
        to = swap;
    }
    if (from != value)
        memcpy(value, from, count * sizeof *value);
}
