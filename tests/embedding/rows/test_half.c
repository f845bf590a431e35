/* test_half.c: 16-bit values against their definition, value by value. Rounding is random, fair,
 * and the same at every vector level. */
#include "embedding/rows/half_row.h"
#include "proto/base/key.h"
#include "tests/lib/embedding_rows.h"

#include <float.h>
#include <math.h>

#define ALL 65536u
#define DRAWS 0x9c429e342319de6aull
#define WIDTH_MAX 67u

static const enum value_kind kinds[2] = {VALUES_FP16, VALUES_BF16};

/* Returns the value of a bit pattern by the formats' definition: sign, exponent, fraction. */
static double meaning(enum value_kind kind, uint32_t h)
{
    const int fraction_bits = kind == VALUES_FP16 ? 10 : 7, bias = kind == VALUES_FP16 ? 15 : 127;
    const int exponent = (int)((h & 0x7fff) >> fraction_bits),
              fraction = (int)(h & ((1u << fraction_bits) - 1));
    const double sign = h & 0x8000 ? -1 : 1;
    if (exponent == 0)
        return sign * ldexp(fraction, 1 - bias - fraction_bits);
    return sign * ldexp(fraction + (1 << fraction_bits), exponent - bias - fraction_bits);
}

static uint32_t most_of(enum value_kind kind) /* the largest finite pattern */
{
    return kind == VALUES_FP16 ? HALF_FP16_MOST : HALF_BF16_MOST;
}

/* Returns the largest pattern whose value is not above x, 0 <= x; patterns are ordered by value. */
static uint32_t below(enum value_kind kind, double x)
{
    uint32_t low = 0, high = most_of(kind);
    while (low < high) {
        uint32_t middle = (low + high + 1) / 2;
        if (meaning(kind, middle) <= x)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

/* Returns a finite float: any bit pattern, or a size that weights have. */
static float some_float(struct rng *r, uint32_t i)
{
    if (i % 2 == 0) {
        uint32_t bits = (uint32_t)rng_next(r) & 0xffffffff;
        float x;
        memcpy(&x, &bits, sizeof x);
        return isfinite(x) ? x : 0.5f;
    }
    return (rng_float(r) - 0.5f) * (float)ldexp(1, (int)rng_below(r, 60) - 50);
}

/* Rows depend on the draws: a batch that another release computes again must give the same bits. */
START_TEST(draws_are_those_of_every_release)
{
    ck_assert_uint_eq(half_draws(7, 1, 2), DRAWS);
}
END_TEST

static uint64_t draw_of(uint64_t i)
{
    return half_draw(half_draws(7, (uint32_t)(i % 3), i / 3), key_mix(i * 77));
}

/* Every pattern, through each level's code for 16 weights and for other widths. */
START_TEST(widening_gives_what_the_format_says)
{
    static const uint32_t widths[] = {16, 1, 4, 8, 13, 29};
    const enum value_kind kind = kinds[_i];
    for (uint32_t k = 0; k < sizeof widths / sizeof widths[0]; k++)
        for (int level = 0; level <= (int)isa_best(); level++) {
            const uint32_t width = widths[k];
            const struct half half = half_row_of(kind, (enum isa)level, width);
            for (uint32_t from = 0; from < ALL; from += width) {
                float row[16], wide[32], expected;
                uint16_t *weights = (uint16_t *)(void *)row;
                for (uint32_t i = 0; i < width; i++)
                    weights[i] = (uint16_t)(from + i);
                half.open(row, wide, width, 0);
                for (uint32_t i = 0; i < width && from + i < ALL; i++) {
                    uint32_t rest = (from + i) & 0x7fff;
                    if (rest <= most_of(kind))
                        expected = (float)meaning(kind, from + i);
                    else
                        half_widen(kind, &weights[i], &expected, 1);
                    bool none = rest > (kind == VALUES_FP16 ? 0x7c00u : 0x7f80u);
                    if (memcmp(&wide[i], &expected, sizeof expected) != 0 ||
                        (isnan(wide[i]) != 0) != none)
                        ck_abort_msg("%04x at level %d, width %u is %g", from + i, level, width,
                                     (double)wide[i]);
                }
            }
        }
}
END_TEST

START_TEST(a_value_that_can_be_stored_is_stored_as_it_is)
{
    const enum value_kind kind = kinds[_i];
    for (int level = 0; level <= (int)isa_best(); level++) {
        const struct half half = half_row_of(kind, (enum isa)level, 16);
        for (uint32_t from = 0; from < ALL; from += 16) {
            float row[8], back[8], wide[16];
            uint16_t *weights = (uint16_t *)(void *)row;
            for (uint32_t i = 0; i < 16; i++)
                weights[i] = (uint16_t)(from + i);
            if ((weights[15] & 0x7fffu) > most_of(kind))
                continue;
            half.open(row, wide, 16, 0);
            for (uint64_t n = 0; n < 4; n++) {
                half.close(back, wide, 16, 0, draw_of(from + n));
                ck_assert_mem_eq(back, row, sizeof row);
            }
            half_row_close_nearest(kind, back, wide, 16, 0);
            ck_assert_mem_eq(back, row, sizeof row);
        }
    }
}
END_TEST

/* Rounding goes up or down to a neighbour; a value that is too large becomes the largest one. So
 * every result is finite. */
START_TEST(rounding_goes_to_a_neighbour_and_stays_finite)
{
    const enum value_kind kind = kinds[_i];
    struct rng r = rng_of(3, 1, 4);
    const struct half half = half_row_of(kind, isa_best(), 16);
    for (uint32_t n = 0; n < 20000; n++) {
        float wide[16], row[8], near[8];
        for (uint32_t i = 0; i < 16; i++)
            wide[i] = some_float(&r, n + i);
        wide[3] = n % 2 ? FLT_MAX : -FLT_MAX;
        half.close(row, wide, 16, 0, draw_of(n));
        half_row_close_nearest(kind, near, wide, 16, 0);
        for (uint32_t i = 0; i < 16; i++) {
            const uint32_t h = ((uint16_t *)(void *)row)[i], even = ((uint16_t *)(void *)near)[i];
            const double x = fabs((double)wide[i]);
            const uint32_t low = below(kind, x), high = low < most_of(kind) ? low + 1 : low;
            const double down = x - meaning(kind, low), up = meaning(kind, high) - x;
            const uint32_t wanted =
                low == high || down < up || (down == up && low % 2 == 0) ? low : high;
            if (((h & 0x7fff) != low && ((h & 0x7fff) != high || down <= 0)) ||
                h >> 15 != (signbit(wide[i]) != 0) || even != ((h & 0x8000) | wanted))
                ck_abort_msg("%g became %04x by chance, %04x as the nearest", (double)wide[i], h,
                             even);
        }
    }
}
END_TEST

START_TEST(ties_go_to_the_even_one)
{
    const enum value_kind kind = kinds[_i];
    for (uint32_t h = 0; h < most_of(kind); h++) {
        float x = (float)((meaning(kind, h) + meaning(kind, h + 1)) / 2);
        half_nearest(kind, &x, 1);
        if ((double)x != meaning(kind, h % 2 == 0 ? h : h + 1))
            ck_abort_msg("between %04x and the next: %g", h, (double)x);
    }
}
END_TEST

/* True when the mean of many roundings of x is x, within five deviations of such a mean and the
 * error of a 16-bit share. */
static bool fair(enum value_kind kind, float x, bool by_chance)
{
    enum { TIMES = 20000 };
    const struct half half = half_row_of(kind, isa_best(), 16);
    double sum = 0, step;
    uint32_t low = below(kind, fabs((double)x));
    float wide[16], row[8];
    for (uint32_t i = 0; i < 16; i++)
        wide[i] = x;
    for (uint64_t n = 0; n < TIMES / 16; n++) {
        if (by_chance)
            half.close(row, wide, 16, 0, draw_of(n));
        else
            half_row_close_nearest(kind, row, wide, 16, 0);
        for (uint32_t i = 0; i < 16; i++)
            sum += meaning(kind, ((uint16_t *)(void *)row)[i]);
    }
    step = meaning(kind, low + 1) - meaning(kind, low);
    return fabs(sum / TIMES - (double)x) <= 5 * 0.5 * step / sqrt(TIMES) + step / 65536;
}

/* Arrays are rounded by vectors: each value as by itself, at every level and length. */
START_TEST(arrays_are_rounded_and_widened_as_single_values)
{
    struct rng r = rng_of(7, 1, 0);
    const enum value_kind kind = kinds[_i % 2];
    isa_limit((enum isa)(_i / 2));
    for (uint32_t round = 0; round < 2000; round++) {
        float x[WIDTH_MAX], near[WIDTH_MAX], wide[WIDTH_MAX + 1];
        uint16_t h[WIDTH_MAX + 1];
        const uint32_t n = 1 + round % WIDTH_MAX;
        for (uint32_t i = 0; i < n; i++)
            near[i] = x[i] = some_float(&r, i);
        h[n] = 0x1234;
        wide[n] = 0.25f;
        half_nearest(kind, near, n);
        half_narrow(kind, x, h, n);
        half_widen(kind, h, wide, n);
        ck_assert(h[n] == 0x1234 && wide[n] == 0.25f);
        ck_assert_mem_eq(wide, near, n * sizeof *near);
    }
    isa_limit(ISA_AVX512);
}
END_TEST

/* The control case: rounding to the nearest is not fair. */
START_TEST(rounding_is_fair)
{
    static const float shares[] = {0.03f, 0.1f, 0.3f, 0.5f, 0.77f, 0.97f};
    static const uint32_t places[] = {0, 1, 0x3ff, 0x400, 0x1234, 0x3c00, 0x7000};
    const enum value_kind kind = kinds[_i];
    uint32_t lost = 0;
    for (uint32_t p = 0; p < 7; p++)
        for (uint32_t k = 0; k < 6; k++) {
            const double low = meaning(kind, places[p]), high = meaning(kind, places[p] + 1);
            const float x = (float)(low + (high - low) * (double)shares[k]);
            ck_assert_msg(fair(kind, x, true), "%g", (double)x);
            ck_assert_msg(fair(kind, -x, true), "%g", -(double)x);
            lost += !fair(kind, x, false);
        }
    ck_assert_uint_eq(lost, 42);
}
END_TEST

/* Each element has bits of its own, and so have each row, lane and batch. */
START_TEST(elements_are_rounded_independently)
{
    const enum value_kind kind = kinds[_i];
    const struct half half = half_row_of(kind, isa_best(), WIDTH_MAX);
    float wide[WIDTH_MAX], row[WIDTH_MAX];
    uint32_t ups[WIDTH_MAX] = {0}, together[WIDTH_MAX] = {0};
    enum { TIMES = 4000 };
    for (uint32_t i = 0; i < WIDTH_MAX; i++)
        wide[i] = (float)((meaning(kind, 0x3c00) + meaning(kind, 0x3c01)) / 2);
    for (uint64_t n = 0; n < TIMES; n++) {
        half.close(row, wide, WIDTH_MAX, 0, draw_of(n));
        const uint16_t *h = (const uint16_t *)(const void *)row;
        for (uint32_t i = 0; i < WIDTH_MAX; i++) {
            ups[i] += h[i] == 0x3c01;
            together[i] += h[i] == h[(i + 1) % WIDTH_MAX];
        }
    }
    for (uint32_t i = 0; i < WIDTH_MAX; i++) { /* five deviations of 4,000 coins: 158 */
        ck_assert_int_le(abs((int)ups[i] - TIMES / 2), 158);
        ck_assert_int_le(abs((int)together[i] - TIMES / 2), 158);
    }
}
END_TEST

START_TEST(rounding_has_the_same_bits_at_every_level)
{
    static const uint32_t widths[] = {1, 2, 3, 4, 7, 8, 10, 11, 15, 16, 17, 24, 31, 32, 33, 64, 67};
    const enum value_kind kind = kinds[_i];
    struct rng r = rng_of(5, 1, 4);
    uint64_t digest = 0;
    for (uint32_t k = 0; k < sizeof widths / sizeof widths[0]; k++)
        for (uint32_t n = 0; n < 400; n++) {
            const uint32_t width = widths[k], floats = (width + 1) / 2 + 9;
            float wide[WIDTH_MAX + 9], row[ISA_COUNT][WIDTH_MAX + 9];
            for (uint32_t i = 0; i < width + 9; i++)
                wide[i] = some_float(&r, n + i);
            for (int level = 0; level <= (int)isa_best(); level++) {
                half_row_of(kind, (enum isa)level, width)
                    .close(row[level], wide, width, 9, draw_of(n));
                ck_assert_mem_eq(row[0], row[level], floats * sizeof(float));
                ck_assert_mem_eq(row[level] + (width + 1) / 2, wide + width, 9 * sizeof(float));
            }
            digest = hash_bytes(row[0], floats * sizeof(float), digest);
        }
    /* Fixed for every compiler: journals of one build are replayed by another. */
    static const uint64_t digests[2] = {9842303828238728967ULL, 9210955559285595758ULL};
    ck_assert_uint_eq(digest, digests[_i]);
}
END_TEST

START_TEST(levels_are_really_different_code)
{
    for (int level = 1; level <= (int)isa_best(); level++) {
        ck_assert(half_row_of(kinds[_i], (enum isa)level, 16).open !=
                  half_row_of(kinds[_i], ISA_BASE, 16).open);
        ck_assert(half_row_of(kinds[_i], (enum isa)level, 16).close !=
                  half_row_of(kinds[_i], ISA_BASE, 16).close);
    }
}
END_TEST

START_TEST(bound_is_the_largest_value_not_above)
{
    const enum value_kind kind = kinds[_i];
    struct rng r = rng_of(6, 1, 4);
    for (uint32_t n = 0; n < 20000; n++) {
        float x = fabsf(some_float(&r, n));
        ck_assert((double)half_bound(kind, x) == meaning(kind, below(kind, (double)x)));
    }
    ck_assert(half_bound(VALUES_FP32, 0.1f) == 0.1f);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("half");
    TCase *c = tcase_create("half");
    tcase_add_test(c, draws_are_those_of_every_release);
    tcase_add_loop_test(c, widening_gives_what_the_format_says, 0, 2);
    tcase_add_loop_test(c, a_value_that_can_be_stored_is_stored_as_it_is, 0, 2);
    tcase_add_loop_test(c, rounding_goes_to_a_neighbour_and_stays_finite, 0, 2);
    tcase_add_loop_test(c, ties_go_to_the_even_one, 0, 2);
    tcase_add_loop_test(c, rounding_is_fair, 0, 2);
    tcase_add_loop_test(c, elements_are_rounded_independently, 0, 2);
    tcase_add_loop_test(c, rounding_has_the_same_bits_at_every_level, 0, 2);
    tcase_add_loop_test(c, levels_are_really_different_code, 0, 2);
    tcase_add_loop_test(c, arrays_are_rounded_and_widened_as_single_values, 0, 6);
    tcase_add_loop_test(c, bound_is_the_largest_value_not_above, 0, 2);
    suite_add_tcase(suite, c);
    return rows_main(suite);
}
