/* packed.c: gradients of 16 or 8 bits, and back, by the best vectors of the processor. */
#include "proto/job/packed.h"

#include "proto/base/assert.h"
#include "proto/base/isa.h"
#include "proto/base/key.h"
#include "proto/base/limits.h"
#include "proto/job/gradient.h"
#include "proto/job/half.h"

#include <float.h>
#include <math.h>

/* A push's draws are not those by which its table rounds weights: both round the same elements. */
#define DRAWS_OWN 0x7061636b65640000ULL /* "packed" */
#define BF16_NAN 0x7fc0u
#define BF16_MOST (half_bits(LIMIT_GRADIENT) >> 16) /* the largest value within it */
#define INT8_MOST 127
#define STATS 2u /* shows, clicks */

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

/* ---- blocks of n values, for the loops ---- */

/* The magnitude's bits: they grow with it, and are above LIMIT's for what is not finite. */
ISA_INLINE int32_t magnitude(float x)
{
    return (int32_t)(half_bits(x) & 0x7fffffffu);
}

/* The nearest values within LIMIT_GRADIENT and beyond it differ: what fits must fit rounded. */
ISA_INLINE uint32_t value_to_bf16(float x, uint32_t random)
{
    const uint32_t rest = (uint32_t)magnitude(x);
    const uint32_t h =
        (half_bits(x) >> 16 & 0x8000u) | half_least((rest + random) >> 16, BF16_MOST);
    return magnitude(x) > magnitude(LIMIT_GRADIENT) ? BF16_NAN : h;
}

/* A block is read whole before its bytes are written: `to` may lie in front of `from`. Compilers
 * take whole vectors for a loop whose numbers have one size, hence two. */
ISA_INLINE void bf16_block(const float *from, char *to, uint64_t draw, const uint32_t at,
                           const uint32_t n)
{
    uint16_t h[HALF_RANDOMS];
    uint32_t wide[HALF_RANDOMS];
    half_random_block(wide, draw, at, n);
    for (uint32_t i = 0; i < n; i++)
        wide[i] = value_to_bf16(from[at + i], wide[i]);
    for (uint32_t i = 0; i < n; i++)
        h[i] = (uint16_t)wide[i];
    memcpy(to + at * sizeof *h, h, n * sizeof *h);
}

ISA_INLINE int32_t largest_block(const float *from, int32_t most, const uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        most = magnitude(from[i]) > most ? magnitude(from[i]) : most;
    return most;
}

/* x: within int8 and a step. Its floor, whose conversion and comparison are those of vectors. */
ISA_INLINE int32_t floor_of(float x)
{
    int32_t t = (int32_t)x;
    t -= x < (float)t;
    t = t > -INT8_MOST ? t : -INT8_MOST;
    return t < INT8_MOST ? t : INT8_MOST;
}

/* Sixteen in one instruction where there is one: a loop's conversion takes fifteen. */
ISA_INLINE void bytes_block(char *to, const int32_t *from, const uint32_t n)
{
    typedef int32_t wide __attribute__((vector_size(64)));
    typedef int8_t narrow __attribute__((vector_size(16)));
    if (n == 16) {
        wide all;
        memcpy(&all, from, sizeof all);
        const narrow q = __builtin_convertvector(all, narrow);
        memcpy(to, &q, sizeof q);
        return;
    }
    for (uint32_t i = 0; i < n; i++)
        to[i] = (char)from[i];
}

ISA_INLINE void int8_block(const float *from, char *to, float steps, uint64_t draw,
                           const uint32_t at, const uint32_t n)
{
    uint32_t random[HALF_RANDOMS];
    int32_t wide[HALF_RANDOMS];
    half_random_block(random, draw, at, n);
    for (uint32_t i = 0; i < n; i++)
        wide[i] = floor_of(from[at + i] * steps + (float)(int32_t)random[i] * 0x1p-16f);
    bytes_block(to + at, wide, n);
}

ISA_INLINE void open_block(const int8_t *restrict q, float scale, float *restrict to,
                           const uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        to[i] = scale * (float)q[i];
}

/* ---- rows: one function for each vector level ---- */

/* The scale of a row whose largest magnitude has these bits; a NaN: a value does not fit. */
ISA_INLINE float scale_of(int32_t most)
{
    float scale = half_float((uint32_t)most) / INT8_MOST;
    if (most > magnitude(LIMIT_GRADIENT))
        scale = NAN;
    else if (scale < FLT_MIN)
        scale = 0;
    else if (scale * INT8_MOST > LIMIT_GRADIENT)
        scale = nextafterf(scale, 0);
    return scale;
}

ISA_INLINE void row_to_bf16(const float *from, char *to, const uint32_t count, uint64_t draw)
{
    const uint16_t none = 0;
#define BLOCK(at, n) bf16_block(from, to, draw, at, n)
    ISA_BLOCKS(count, BLOCK);
#undef BLOCK
    if (count % 2 != 0)
        memcpy(to + count * sizeof none, &none, sizeof none);
}

/* to: the scale, then the int8. `from` may lie at `to`: a block's int8 lie in front of the next
 * block's floats, as the first block has four floats or more. */
ISA_INLINE void row_to_int8(const float *from, char *to, const uint32_t count, uint64_t draw)
{
    int32_t most = 0;
#define BLOCK(at, n) most = largest_block(from + (at), most, n)
    ISA_BLOCKS(count, BLOCK);
#undef BLOCK
    const float scale = scale_of(most), steps = scale > 0 ? 1 / scale : 0;
    char *q = to + sizeof scale;
#define BLOCK(at, n) int8_block(from, q, steps, draw, at, n)
    if (scale >= 0)
        ISA_BLOCKS(count, BLOCK);
#undef BLOCK
    for (uint32_t i = count; i % 4 != 0; i++)
        q[i] = 0;
    memcpy(to, &scale, sizeof scale);
}

ISA_INLINE void row_of_int8(const char *from, float *to, const uint32_t count)
{
    const int8_t *q = (const int8_t *)(from + sizeof(float));
    float scale;
    memcpy(&scale, from, sizeof scale);
#define BLOCK(at, n) open_block(q + (at), scale, to + (at), n)
    ISA_BLOCKS(count, BLOCK);
#undef BLOCK
}

/* A row: values, then statistics, if there are any. */
struct layout {
    uint32_t width, values, bytes; /* values, bytes of the packed ones, of the packed row */
    bool stats;
};

static struct layout layout_of(const struct table_schema *s, uint32_t width)
{
    return (struct layout){s->width, values_bytes(width, s->width), packed_bytes(s, width),
                           s->rules.stats != 0};
}

ISA_INLINE void close_rows(const struct layout *l, const uint32_t count_of, const bool int8,
                           uint64_t draws, const uint64_t *keys, float *gradients, size_t count)
{
    float stats[STATS] = {0};
    const float *from = gradients;
    char *to = (char *)gradients;
    for (size_t i = 0; i < count; i++, from += count_of, to += l->bytes) {
        const uint64_t draw = half_draw(draws, key_mix(keys[i]));
        if (l->stats)
            memcpy(stats, from + count_of, sizeof stats);
        if (int8)
            row_to_int8(from, to, count_of, draw);
        else
            row_to_bf16(from, to, count_of, draw);
        if (!l->stats)
            continue;
        memcpy(to + l->values, stats, sizeof stats);
        from += STATS;
    }
}

ISA_INLINE void open_rows(const struct layout *l, const uint32_t count_of, const char *from,
                          float *to, size_t count)
{
    for (size_t i = 0; i < count; i++, from += l->bytes, to += count_of) {
        row_of_int8(from, to, count_of);
        if (!l->stats)
            continue;
        memcpy(to + count_of, from + l->values, STATS * sizeof *to);
        to += STATS;
    }
}

/* one more for the usual width, as a constant */
#define PACKED_LEVEL(suffix, target)                                                               \
    target static void close##suffix(const struct layout *l, bool int8, uint64_t draws,            \
                                     const uint64_t *keys, float *gradients, size_t count)         \
    {                                                                                              \
        if (int8 && l->width == 16)                                                                \
            close_rows(l, 16, true, draws, keys, gradients, count);                                \
        else if (int8)                                                                             \
            close_rows(l, l->width, true, draws, keys, gradients, count);                          \
        else if (l->width == 16)                                                                   \
            close_rows(l, 16, false, draws, keys, gradients, count);                               \
        else                                                                                       \
            close_rows(l, l->width, false, draws, keys, gradients, count);                         \
    }                                                                                              \
    target static void open##suffix(const struct layout *l, const char *from, float *to,           \
                                    size_t count)                                                  \
    {                                                                                              \
        if (l->width == 16)                                                                        \
            open_rows(l, 16, from, to, count);                                                     \
        else                                                                                       \
            open_rows(l, l->width, from, to, count);                                               \
    }
PACKED_LEVEL(_base, )
PACKED_LEVEL(_avx2, ISA_TARGET_AVX2)
PACKED_LEVEL(_avx512, ISA_TARGET_AVX512)

/* ---- pushes ---- */

void packed_close(const struct table_schema *s, uint32_t width, uint32_t lane, uint64_t batch,
                  const uint64_t *keys, float *gradients, size_t count)
{
    static void (*const all[ISA_COUNT])(const struct layout *, bool, uint64_t, const uint64_t *,
                                        float *, size_t) = {close_base, close_avx2, close_avx512};
    const struct layout l = layout_of(s, width);
    SHOAL_ASSERT(l.bytes <= schema_push_floats(s) * sizeof *gradients); /* packed_width's */
    SHOAL_ASSERT(width != PACKED_INT8 || l.width >= 4);                 /* row_to_int8 */
    if (width != PACKED_NOT)
        all[isa_best()](&l, width == PACKED_INT8, half_draws(s->seed ^ DRAWS_OWN, lane, batch),
                        keys, gradients, count);
}

/* As gradient_floats_ok compares; what is beyond BF16_MOST is beyond the limit. */
static bool bf16_fit(const char *from, size_t count)
{
    typedef int16_t lanes __attribute__((vector_size(16)));
    lanes sum[2] = {{0}, {0}};
    size_t i = 0;
    for (; i + 16 <= count; i += 16) {
        lanes in[2];
        memcpy(in, from + i * sizeof(int16_t), sizeof in);
        sum[0] |= (int16_t)BF16_MOST - (in[0] & 0x7fff);
        sum[1] |= (int16_t)BF16_MOST - (in[1] & 0x7fff);
    }
    sum[0] |= sum[1];
    int16_t any = 0, h;
    for (uint32_t k = 0; k < 8; k++)
        any |= sum[0][k];
    for (; i < count; i++) {
        memcpy(&h, from + i * sizeof h, sizeof h);
        any = (int16_t)(any | ((int16_t)BF16_MOST - (h & 0x7fff)));
    }
    return any >= 0;
}

/* No int8 is further from 0 than 128. */
static bool int8_fits(const char *row)
{
    float scale;
    memcpy(&scale, row, sizeof scale);
    return fabsf(scale) <= LIMIT_GRADIENT / 128; /* false for a NaN */
}

bool packed_fits(const struct table_schema *s, uint32_t width, const void *packed, size_t count)
{
    const struct layout l = layout_of(s, width);
    const char *row = packed;
    bool fit = true;
    if (width == PACKED_NOT)
        return gradient_floats_ok(packed, count * schema_push_floats(s));
    if (width == PACKED_BF16 && l.bytes == l.width * sizeof(uint16_t)) /* without gaps */
        return bf16_fit(packed, count * l.width);
    for (size_t i = 0; i < count; i++, row += l.bytes) {
        float stats[STATS];
        if (l.stats) {
            memcpy(stats, row + l.values, sizeof stats);
            fit &= gradient_floats_ok(stats, STATS);
        }
        if (width == PACKED_INT8)
            fit &= int8_fits(row);
        else
            fit &= bf16_fit(row, l.width);
    }
    return fit;
}

void packed_open(const struct table_schema *s, uint32_t width, const void *packed, float *gradients,
                 size_t count)
{
    static void (*const all[ISA_COUNT])(const struct layout *, const char *, float *,
                                        size_t) = {open_base, open_avx2, open_avx512};
    const struct layout l = layout_of(s, width);
    const char *from = packed;
    if (width == PACKED_INT8) {
        all[isa_best()](&l, packed, gradients, count);
        return;
    }
    const enum value_kind kind = width == PACKED_BF16 ? VALUES_BF16 : VALUES_FP32;
    if (l.bytes == l.width * half_bytes(kind)) { /* without gaps */
        half_widen(kind, packed, gradients, (uint32_t)(count * l.width));
        return;
    }
    for (size_t i = 0; i < count; i++, from += l.bytes, gradients += l.width) {
        half_widen(kind, from, gradients, l.width);
        if (!l.stats)
            continue;
        memcpy(gradients + l.width, from + l.values, STATS * sizeof *gradients);
        gradients += STATS;
    }
}
