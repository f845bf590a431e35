/* sort.c: insertion for a few numbers, else four passes over bytes, lowest first (LSD radix); a
 * pass whose bytes are all the same is left out. */
#include "proto/base/sort.h"

#include <string.h>

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

void sort_u32(uint32_t *value, uint32_t *scratch, size_t count)
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
