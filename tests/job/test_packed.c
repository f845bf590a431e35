/* test_packed.c: gradients in 16 and 8 bits: what comes back is near, fair, and still refused where
 * the gradient was. */
#include "proto/base/isa.h"
#include "proto/base/key.h"
#include "proto/base/limits.h"
#include "proto/base/rng.h"
#include "proto/job/gradient.h"
#include "proto/job/packed.h"
#include "tests/lib/suite.h"

#include <check.h>
#include <float.h>
#include <math.h>
#include <string.h>

#define KEYS 200u
#define WIDTH_MAX 67u
#define FLOATS_MAX (WIDTH_MAX + 2)

static const enum packed_width widths[2] = {PACKED_BF16, PACKED_INT8};
static const uint32_t row_widths[] = {16, 8, 9, 11, 7, 17, 64, 67};
enum { ROW_WIDTHS = sizeof row_widths / sizeof row_widths[0] };

static uint64_t key[KEYS];
static float plain[KEYS * FLOATS_MAX + 1], opened[KEYS * FLOATS_MAX + 1];
static float packed[KEYS * FLOATS_MAX + 1];

static struct table_schema schema_of(uint32_t width, bool stats)
{
    struct table_schema s = {.name = "t", .width = width, .tablet_bits = 3, .seed = 7};
    s.rules.stats = stats;
    for (uint64_t i = 0; i < KEYS; i++)
        key[i] = 77 * i + 5;
    return s;
}

/* Gradients of many sizes, shows and clicks behind each where the table has them. */
static void fill(const struct table_schema *s, uint64_t seed)
{
    const uint32_t floats = schema_push_floats(s);
    struct rng r = rng_of(seed, 1, 0);
    for (uint32_t k = 0; k < KEYS; k++) {
        const float size = (float)ldexp(1, (int)rng_below(&r, 60) - 40);
        for (uint32_t i = 0; i < floats; i++)
            plain[k * floats + i] = i < s->width ? (rng_float(&r) - 0.5f) * size : (float)(k % 9);
    }
}

static void there_and_back(const struct table_schema *s, uint32_t width, uint64_t batch)
{
    const size_t bytes = KEYS * schema_push_floats(s) * sizeof(float);
    memcpy(packed, plain, bytes);
    packed_close(s, width, 3, batch, key, packed, KEYS);
    opened[KEYS * schema_push_floats(s)] = 0.25f;
    packed_open(s, width, packed, opened, KEYS);
    ck_assert(opened[KEYS * schema_push_floats(s)] == 0.25f); /* nothing behind the last one */
}

/* One step of a value: bf16 has 8 bits of precision, int8 127 steps to the row's largest. */
static double step_of(uint32_t width, const float *row, uint32_t count, uint32_t i)
{
    float most = 0;
    for (uint32_t k = 0; k < count; k++)
        most = fmaxf(most, fabsf(row[k]));
    return width == PACKED_INT8 ? (double)most / 127 * 1.0001 : fabs((double)row[i]) / 128;
}

START_TEST(a_value_comes_back_within_one_step)
{
    const uint32_t width = widths[_i % 2];
    const struct table_schema s = schema_of(row_widths[_i / 2 % ROW_WIDTHS], _i >= 2 * ROW_WIDTHS);
    const uint32_t floats = schema_push_floats(&s);
    ck_assert_int_eq((int)packed_width(&s, (enum packed_width)width), (int)width);
    fill(&s, (uint64_t)_i);
    there_and_back(&s, width, 9);
    for (uint32_t k = 0; k < KEYS; k++)
        for (uint32_t i = 0; i < floats; i++) {
            const float *row = plain + k * floats, got = opened[k * floats + i];
            if (i >= s.width)
                ck_assert(got == row[i]); /* shows and clicks are exact */
            else
                ck_assert_msg(fabs((double)got - (double)row[i]) <= step_of(width, row, s.width, i),
                              "%g became %g", (double)row[i], (double)got);
        }
}
END_TEST

START_TEST(bytes_are_those_that_the_format_says)
{
    struct table_schema s = schema_of(16, false);
    ck_assert_uint_eq(packed_bytes(&s, PACKED_NOT), 64);
    ck_assert_uint_eq(packed_bytes(&s, PACKED_BF16), 32);
    ck_assert_uint_eq(packed_bytes(&s, PACKED_INT8), 20);
    s = schema_of(17, true);
    ck_assert_uint_eq(packed_bytes(&s, PACKED_NOT), 76);
    ck_assert_uint_eq(packed_bytes(&s, PACKED_BF16), 36 + 8);
    ck_assert_uint_eq(packed_bytes(&s, PACKED_INT8), 4 + 20 + 8);
    /* int8 with its scale is no smaller than bf16 in a narrow row */
    for (uint32_t width = 1; width < 9; width++) {
        s = schema_of(width, false);
        ck_assert_int_eq((int)packed_width(&s, PACKED_INT8),
                         width < 7 ? (int)PACKED_BF16 : (int)PACKED_INT8);
        ck_assert_uint_le(packed_bytes(&s, packed_width(&s, PACKED_INT8)), 4 * width);
        ck_assert_int_eq((int)packed_width(&s, PACKED_NOT), (int)PACKED_NOT);
    }
    ck_assert(packed_known(0) && packed_known(8) && packed_known(16));
    ck_assert(!packed_known(4) && !packed_known(32));
}
END_TEST

/* The mean over many batches is the value: a step that is always rounded away would be lost. */
START_TEST(rounding_is_fair)
{
    enum { BATCHES = 4000 };
    const uint32_t width = widths[_i];
    const struct table_schema s = schema_of(16, false);
    double sum[16] = {0};
    fill(&s, 3);
    const double step = step_of(width, plain, 16, 0);
    plain[1] = (float)(step * 0.01); /* far below a step of int8 */
    for (uint64_t batch = 1; batch <= BATCHES; batch++) {
        there_and_back(&s, width, batch);
        for (uint32_t i = 0; i < 16; i++)
            sum[i] += (double)opened[i];
    }
    for (uint32_t i = 0; i < 16; i++) {
        const double of = step_of(width, plain, 16, i), off = sum[i] / BATCHES - (double)plain[i];
        ck_assert_msg(fabs(off) < 5 * of / 2 / sqrt(BATCHES), "value %u is off by %g steps", i,
                      off / of);
    }
}
END_TEST

/* A batch that another worker computes again has the same bits; another batch has others. */
START_TEST(bits_are_those_of_lane_batch_and_key)
{
    static float first[KEYS * FLOATS_MAX];
    const struct table_schema s = schema_of(16, false);
    const size_t bytes = KEYS * packed_bytes(&s, widths[_i]);
    fill(&s, 4);
    there_and_back(&s, widths[_i], 5);
    memcpy(first, packed, bytes);
    there_and_back(&s, widths[_i], 5);
    ck_assert_mem_eq(packed, first, bytes);
    there_and_back(&s, widths[_i], 6);
    ck_assert_mem_ne(packed, first, bytes);
}
END_TEST

/* What a shard refuses it refuses in every form, and what it takes it takes. */
START_TEST(a_bad_gradient_stays_bad_and_the_largest_good_one_good)
{
    static const float bad[] = {NAN, INFINITY, -INFINITY, LIMIT_GRADIENT * 1.01f, FLT_MAX};
    const struct table_schema s = schema_of(16, false);
    struct gradient_fault f;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        fill(&s, 5);
        plain[3 * 16 + 2] = bad[i];
        there_and_back(&s, widths[_i], 1);
        ck_assert(gradient_fault_find(&s, opened, KEYS, &f));
        ck_assert_uint_eq(f.key, 3);
        ck_assert_uint_eq(f.rows, 1);
    }
    for (uint64_t batch = 1; batch < 200; batch++) {
        fill(&s, 5);
        plain[7] = LIMIT_GRADIENT;
        plain[8] = -LIMIT_GRADIENT;
        plain[16] = FLT_TRUE_MIN; /* and the smallest ones: a row of nothing else */
        memset(plain + 17, 0, 15 * sizeof *plain);
        there_and_back(&s, widths[_i], batch);
        ck_assert(!gradient_fault_find(&s, opened, KEYS, &f));
    }
}
END_TEST

/* The worker that computes a batch again may have another processor. */
START_TEST(every_level_packs_and_opens_the_same_bits)
{
    static float one[KEYS * FLOATS_MAX], back[KEYS * FLOATS_MAX];
    const uint32_t width = widths[_i % 2];
    const struct table_schema s = schema_of(row_widths[_i / 2 % ROW_WIDTHS], _i >= 2 * ROW_WIDTHS);
    const size_t bytes = KEYS * packed_bytes(&s, width),
                 floats = KEYS * schema_push_floats(&s) * sizeof(float);
    for (int level = ISA_BASE; level < ISA_COUNT; level++) {
        isa_limit((enum isa)level);
        fill(&s, 8);
        plain[1] = plain[schema_push_floats(&s) + 2] = NAN;
        plain[2 * schema_push_floats(&s)] = INFINITY;
        there_and_back(&s, width, 5);
        if (level == ISA_BASE) {
            memcpy(one, packed, bytes);
            memcpy(back, opened, floats);
        }
        ck_assert_mem_eq(packed, one, bytes);
        ck_assert_mem_eq(opened, back, floats);
    }
    isa_limit(ISA_AVX512);
}
END_TEST

/* Writes a value into the packed row of key k: to element i, or beyond the width to shows or
 * clicks. At width 8 the value is the row's scale. */
static void poke(const struct table_schema *s, uint32_t width, uint32_t k, uint32_t i, float x)
{
    char *row = (char *)packed + k * packed_bytes(s, width);
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    const uint16_t h = (uint16_t)(bits >> 16);
    if (i >= s->width)
        memcpy(row + packed_bytes(s, width) - 4 * (s->width + 2 - i), &x, sizeof x);
    else if (width == PACKED_BF16)
        memcpy(row + 2 * i, &h, sizeof h);
    else
        memcpy(row + (width == PACKED_NOT ? 4 * i : 0), &x, sizeof x);
}

/* Every place of a row at every place of a vector; the limit itself is good, as the nearest bf16
 * within it is, and at width 8 a scale of which 128 are within it. */
START_TEST(fits_finds_every_bad_value)
{
    static const float bad[] = {INFINITY, -INFINITY, NAN, -NAN, 1.01e15f, -3e38f},
                       good[] = {1e15f, -1e15f, 0.0f, -0.0f, 1e-45f};
    const uint32_t width = _i % 3 * 8;
    const struct table_schema s = schema_of(row_widths[_i / 3 % ROW_WIDTHS], _i >= 3 * ROW_WIDTHS);
    const float most = width == PACKED_INT8 ? 1.0f / 128 : 1;
    for (uint32_t k = 0; k < 18; k++)
        for (uint32_t i = 0; i < schema_push_floats(&s); i++) {
            fill(&s, 6);
            there_and_back(&s, width, 1);
            for (size_t b = 0; b < sizeof good / sizeof good[0]; b++) {
                poke(&s, width, k, i, good[b] * (i < s.width ? most : 1));
                ck_assert(packed_fits(&s, width, packed, KEYS));
            }
            for (size_t b = 0; b < sizeof bad / sizeof bad[0]; b++) {
                poke(&s, width, k, i, bad[b]);
                ck_assert(!packed_fits(&s, width, packed, KEYS));
                ck_assert(packed_fits(&s, width, packed, k));
            }
        }
    ck_assert(packed_fits(&s, width, packed, 0));
}
END_TEST

/* What packed_fits takes has no fault once it is opened, whatever the bytes are. */
START_TEST(what_fits_has_no_fault)
{
    const uint32_t width = _i % 3 * 8;
    const struct table_schema s = schema_of(row_widths[_i / 3 % ROW_WIDTHS], false);
    struct rng r = rng_of(4, 4, 0);
    struct gradient_fault f;
    for (uint32_t round = 0; round < 20000; round++) {
        for (uint32_t i = 0; i < packed_bytes(&s, width) / 4; i++) {
            const uint32_t bits = (uint32_t)rng_next(&r) & (round % 2 == 0 ? ~0u : 0xd86fffffu);
            memcpy(packed + i, &bits, sizeof bits);
        }
        packed_open(&s, width, packed, opened, 1);
        const bool fits = packed_fits(&s, width, packed, 1);
        ck_assert(!fits || !gradient_fault_find(&s, opened, 1, &f));
        ck_assert(fits || width == PACKED_INT8 || gradient_fault_find(&s, opened, 1, &f));
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("packed");
    TCase *c = tcase_create("packed");
    tcase_add_loop_test(c, a_value_comes_back_within_one_step, 0, 4 * ROW_WIDTHS);
    tcase_add_test(c, bytes_are_those_that_the_format_says);
    tcase_add_loop_test(c, rounding_is_fair, 0, 2);
    tcase_add_loop_test(c, bits_are_those_of_lane_batch_and_key, 0, 2);
    tcase_add_loop_test(c, a_bad_gradient_stays_bad_and_the_largest_good_one_good, 0, 2);
    tcase_add_loop_test(c, every_level_packs_and_opens_the_same_bits, 0, 4 * ROW_WIDTHS);
    tcase_add_loop_test(c, fits_finds_every_bad_value, 0, 6 * ROW_WIDTHS);
    tcase_add_loop_test(c, what_fits_has_no_fault, 0, 3 * ROW_WIDTHS);
    suite_add_tcase(suite, c);
    return suite_main(suite);
}
