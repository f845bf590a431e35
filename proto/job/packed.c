/* packed.c: gradients of 16 or 8 bits, and back. */
#include "proto/job/packed.h"

#include "proto/base/assert.h"
#include "proto/base/key.h"
#include "proto/base/limits.h"
#include "proto/job/half.h"

#include <float.h>
#include <math.h>

/* A push's draws are not those by which its table rounds weights: both round the same elements. */
#define DRAWS_OWN 0x7061636b65640000ULL /* "packed" */
#define BF16_NAN 0x7fc0u
#define INT8_MOST 127
#define STATS_MOST 2u /* shows, clicks */

bool packed_known(uint32_t width)
{
    return width == PACKED_NOT || width == PACKED_INT8 || width == PACKED_BF16;
}

static uint32_t values_bytes(uint32_t width, uint32_t floats)
{
    if (width == PACKED_BF16)
        return (floats * 2 + 3) / 4 * 4;
    if (width == PACKED_INT8)
        return 4 + (floats + 3) / 4 * 4;
    return floats * 4;
}

uint32_t packed_bytes(const struct table_schema *s, uint32_t width)
{
    SHOAL_ASSERT(packed_known(width));
    return values_bytes(width, s->width) +
           values_bytes(PACKED_NOT, schema_push_floats(s) - s->width);
}

enum packed_width packed_width(const struct table_schema *s, enum packed_width wanted)
{
    const uint32_t half = values_bytes(PACKED_BF16, s->width);
    if (wanted == PACKED_INT8 && values_bytes(PACKED_INT8, s->width) >= half)
        return PACKED_BF16;
    return wanted;
}

/* False for a NaN. */
static bool fit(float x)
{
    return fabsf(x) <= LIMIT_GRADIENT;
}

/* The nearest values below LIMIT_GRADIENT and above it differ: what fits must fit when rounded. */
static void row_to_bf16(const float *from, uint16_t *to, uint32_t count, uint64_t draw)
{
    const uint16_t most = (uint16_t)half_to_bf16(LIMIT_GRADIENT, 0);
    for (uint32_t at = 0; at < count; at += HALF_RANDOMS) {
        uint16_t random[HALF_RANDOMS];
        half_random_block(random, draw, at, HALF_RANDOMS);
        for (uint32_t i = at; i < count && i < at + HALF_RANDOMS; i++) {
            uint16_t h = (uint16_t)half_to_bf16(from[i], random[i - at]);
            if (!fit(from[i]))
                h = BF16_NAN;
            else if ((h & 0x7fff) > most)
                h = (uint16_t)((h & 0x8000) | most);
            to[i] = h;
        }
    }
    if (count % 2 != 0)
        to[count] = 0;
}

/* The row's largest magnitude; NaN: a value does not fit. */
static float largest(const float *from, uint32_t count)
{
    float most = 0;
    bool all = true;
    for (uint32_t i = 0; i < count; i++) {
        all &= fit(from[i]);
        most = fmaxf(most, fabsf(from[i]));
    }
    return all ? most : NAN;
}

/* to: the scale, then the int8. `from` may lie at `to`: value i is read before byte 4 + i of the
 * row is written, and the scale, which lies at value 0, after it was read. */
static void row_to_int8(const float *from, char *to, uint32_t count, uint64_t draw)
{
    float scale = largest(from, count) / INT8_MOST;
    if (scale < FLT_MIN) /* false for a NaN */
        scale = 0;
    if (scale * INT8_MOST > LIMIT_GRADIENT)
        scale = nextafterf(scale, 0);
    const float steps = scale > 0 ? 1 / scale : 0;
    int8_t q[LIMIT_WIDTH + 4] = {0};
    for (uint32_t at = 0; at < count; at += HALF_RANDOMS) {
        uint16_t random[HALF_RANDOMS];
        half_random_block(random, draw, at, HALF_RANDOMS);
        for (uint32_t i = at; i < count && i < at + HALF_RANDOMS; i++) {
            float x = floorf(from[i] * steps + (float)random[i - at] * 0x1p-16f);
            x = fminf(fmaxf(x, -INT8_MOST), INT8_MOST);
            q[i] = (int8_t)x;
        }
    }
    memcpy(to, &scale, sizeof scale);
    memcpy(to + sizeof scale, q, (count + 3) / 4 * 4);
}

void packed_close(const struct table_schema *s, uint32_t width, uint32_t lane, uint64_t batch,
                  const uint64_t *keys, float *gradients, size_t count)
{
    const uint32_t floats = schema_push_floats(s), bytes = packed_bytes(s, width),
                   values = values_bytes(width, s->width);
    const uint64_t draws = half_draws(s->seed ^ DRAWS_OWN, lane, batch);
    char *to = (char *)gradients;
    SHOAL_ASSERT(s->width <= LIMIT_WIDTH && floats - s->width <= STATS_MOST);
    SHOAL_ASSERT(bytes <= floats * sizeof *gradients); /* packed_width's */
    for (size_t i = 0; width != PACKED_NOT && i < count; i++, to += bytes) {
        const float *from = gradients + i * floats;
        const uint64_t draw = half_draw(draws, key_mix(keys[i]));
        float stats[STATS_MOST];
        memcpy(stats, from + s->width, (floats - s->width) * sizeof *stats);
        if (width == PACKED_BF16)
            row_to_bf16(from, (uint16_t *)(void *)to, s->width, draw);
        else
            row_to_int8(from, to, s->width, draw);
        memcpy(to + values, stats, (floats - s->width) * sizeof *stats);
    }
}

static void row_of_int8(const char *from, float *to, uint32_t count)
{
    const int8_t *q = (const int8_t *)(from + sizeof(float));
    float scale;
    memcpy(&scale, from, sizeof scale);
    for (uint32_t i = 0; i < count; i++)
        to[i] = scale * (float)q[i];
}

void packed_open(const struct table_schema *s, uint32_t width, const void *packed, float *gradients,
                 size_t count)
{
    const uint32_t floats = schema_push_floats(s), bytes = packed_bytes(s, width),
                   values = values_bytes(width, s->width);
    const char *from = packed;
    if (width == PACKED_BF16 && floats == s->width && s->width % 2 == 0) { /* without gaps */
        half_widen(VALUES_BF16, packed, gradients, (uint32_t)(count * floats));
        return;
    }
    for (size_t i = 0; i < count; i++, from += bytes, gradients += floats) {
        if (width == PACKED_INT8)
            row_of_int8(from, gradients, s->width);
        else if (width == PACKED_BF16)
            half_widen(VALUES_BF16, from, gradients, s->width);
        else
            memcpy(gradients, from, s->width * sizeof *gradients);
        memcpy(gradients + s->width, from + values, (floats - s->width) * sizeof *gradients);
    }
}
