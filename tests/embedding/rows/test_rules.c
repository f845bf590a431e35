/* test_rules.c: the effect of a push on a row under rules: statistics, scaling, clamping, staged
 * vectors. */
#include "embedding/rows/init.h"
#include "embedding/rows/optimizer/optimizer.h"
#include "proto/base/isa.h"
#include "tests/lib/embedding_stats.h"

#include <math.h>

#define KEY 77u

static const struct stats_batch noon = {.time = FIRST_DAY + DAY / 2};

START_TEST(statistics_add_up)
{
    struct table_schema s = stats_schema(OPT_ADAGRAD, 4, 1);
    struct rows r = rows_open(&s);
    stats_push(&r, KEY, 0.1f, 3, 1, noon);
    stats_push(&r, KEY, 0.1f, 5, 0, (struct stats_batch){.time = noon.time + 60});
    /* late: the time stays */
    stats_push(&r, KEY, 0.1f, 1, 1, (struct stats_batch){.time = noon.time + 30});
    struct row_stats found = stats_of(&r, KEY);
    ck_assert(found.show == 9 && found.click == 2);
    ck_assert_float_eq_tol(found.delta_score, 0.1f * 7 + 2, 1e-6f);
    ck_assert_uint_eq(found.time, noon.time + 60);
    ck_assert_uint_eq(found.flags, ROW_HAS_VECTOR);
    stats_push(&r, 5, 0.1f, 1, 0, (struct stats_batch){0}); /* no time given: the tablet's */
    ck_assert_uint_eq(stats_of(&r, 5).time, noon.time + 60);
    rows_close(&r);
}
END_TEST

/* Weights and state are those of a table without statistics. */
START_TEST(statistics_leave_the_optimizer_alone)
{
    struct table_schema with = stats_schema((enum optimizer_kind)_i, 5, 1), without = with;
    memset(&without.rules, 0, sizeof without.rules);
    with.zero_first = without.zero_first = 1;
    struct rows a = rows_open(&with), b = rows_open(&without);
    for (int i = 0; i < 50; i++) {
        float g = (float)i / 50 - 0.6f;
        stats_push(&a, rows_key((uint64_t)i % 7), g, 2, 1, noon);
        stats_push(&b, rows_key((uint64_t)i % 7), g, 0, 0, noon);
    }
    for (uint64_t i = 0; i < 7; i++) {
        const char *x = table_row(a.table, rows_key(i)), *y = table_row(b.table, rows_key(i));
        ck_assert_mem_eq(x, y, 8 + (without.width + schema_state_floats(&without)) * sizeof(float));
    }
    rows_close(&a);
    rows_close(&b);
}
END_TEST

START_TEST(gradient_is_divided_by_shows)
{
    struct table_schema s = stats_schema(OPT_SGD, 2, 0);
    s.optimizer.lr = 1;
    s.init.kind = INIT_ZERO;
    s.rules.by_shows = 1;
    struct rows r = rows_open(&s);
    stats_push(&r, KEY, 6, 4, 0, noon);
    ck_assert(stats_weight(&r, KEY, 0) == -1.5f);
    stats_push(&r, KEY, 6, 0.25f, 0, noon); /* never divided by less than 1 */
    ck_assert(stats_weight(&r, KEY, 1) == -7.5f);
    rows_close(&r);
}
END_TEST

START_TEST(gradient_is_scaled_to_the_norm)
{
    struct table_schema s = stats_schema(OPT_SGD, 4, 0);
    struct table_counts counts;
    s.optimizer.lr = 1;
    s.init.kind = INIT_ZERO;
    s.rules.norm_max = 1;
    struct rows r = rows_open(&s);
    stats_push(&r, KEY, 5, 1, 0, noon); /* norm 10 */
    ck_assert(stats_weight(&r, KEY, 0) == -0.5f);
    stats_push(&r, KEY, 0.5f, 1, 0, noon); /* norm 1: unchanged */
    ck_assert(stats_weight(&r, KEY, 3) == -1);
    table_counts_get(r.table, &counts);
    ck_assert_uint_eq(counts.clipped, 1);
    rows_close(&r);
    s.rules.norm_refuse = 1; /* refusing is not the table's task */
    r = rows_open(&s);
    stats_push(&r, KEY, 5, 1, 0, noon);
    ck_assert(stats_weight(&r, KEY, 0) == -5);
    rows_close(&r);
}
END_TEST

/* The norm comes first: 10 is scaled to 1, then divided by 4 shows. Also without statistics. */
START_TEST(norm_goes_before_shows)
{
    struct table_schema s = stats_schema(OPT_SGD, 4, 0);
    s.optimizer.lr = 1;
    s.init.kind = INIT_ZERO;
    s.rules.norm_max = 1;
    s.rules.by_shows = 1;
    struct rows r = rows_open(&s);
    stats_push(&r, KEY, 5, 4, 0, noon);
    ck_assert(stats_weight(&r, KEY, 0) == -0.125f);
    rows_close(&r);
    memset(&s.rules, 0, sizeof s.rules);
    s.rules.norm_max = 1;
    r = rows_open(&s);
    stats_push(&r, KEY, 5, 0, 0, noon);
    ck_assert(stats_weight(&r, KEY, 0) == -0.5f);
    rows_close(&r);
}
END_TEST

START_TEST(weights_are_clamped_both_ways)
{
    struct table_schema s = rows_schema(OPT_SGD, 3, 0);
    s.optimizer.lr = 1;
    s.rules.weight_max = 2;
    struct rows r = rows_open(&s);
    stats_push(&r, KEY, 100, 0, 0, noon);
    ck_assert(stats_weight(&r, KEY, 0) == -2 && stats_weight(&r, KEY, 2) == -2);
    stats_push(&r, KEY, -100, 0, 0, noon);
    ck_assert(stats_weight(&r, KEY, 1) == 2);
    stats_push(&r, KEY, 0.5f, 0, 0, noon); /* starting at the clamped value */
    ck_assert(stats_weight(&r, KEY, 1) == 1.5f);
    rows_close(&r);
}
END_TEST

START_TEST(statistics_of_a_push_are_checked)
{
    static const struct {
        float show, click;
        bool ok;
    } pair[] = {{1, 0, true},    {1, 1, true},         {0, 0, true},     {2.5f, 0.5f, true},
                {1, 2, false},   {-1, -1, false},      {1, -1, false},   {NAN, 0, false},
                {1, NAN, false}, {INFINITY, 0, false}, {1e16f, 0, false}};
    struct table_schema s = stats_schema(OPT_SGD, 2, 0);
    for (size_t i = 0; i < sizeof pair / sizeof pair[0]; i++) {
        const float values[8] = {0, 0, 3, 1, 0, 0, pair[i].show, pair[i].click};
        ck_assert_msg(table_stats_ok(&s, PACKED_NOT, values, 2) == pair[i].ok, "pair %zu", i);
    }
    s.rules.stats = 0;
    const float any[4] = {0, 0, 1, 2};
    ck_assert(table_stats_ok(&s, PACKED_NOT, any, 2));
}
END_TEST

/* ---- staged vectors ---- */

static struct table_schema staged(enum optimizer_kind kind)
{
    struct table_schema s = stats_schema(kind, 5, 0);
    s.zero_first = 1;
    s.rules.vector_score = 1;
    return s;
}

/* Ten shows make the score 1: until then the vector is 0 whatever its gradients are. Then it has
 * its initial weights and the state of a new row, and the next push changes it. */
START_TEST(vector_begins_at_its_score)
{
    struct table_schema s = staged((enum optimizer_kind)_i);
    struct rows r = rows_open(&s);
    float initial[5], before[5];
    init_weights(&s, KEY, initial);
    ck_assert(stats_weight(&r, KEY, 3) == 0); /* absent: zeros */
    for (int i = 0; i < 9; i++) {
        stats_push(&r, KEY, 0.5f, 1, 0, noon);
        ck_assert_uint_eq(stats_of(&r, KEY).flags, 0);
        for (uint32_t k = 1; k < 5; k++)
            ck_assert(stats_weight(&r, KEY, k) == 0);
    }
    ck_assert(stats_weight(&r, KEY, 0) != 0);
    stats_push(&r, KEY, 0.5f, 1, 0, noon);
    ck_assert_uint_eq(stats_of(&r, KEY).flags, ROW_HAS_VECTOR);
    for (uint32_t k = 1; k < 5; k++) {
        before[k] = stats_weight(&r, KEY, k);
        ck_assert_float_eq(before[k], initial[k]);
    }
    stats_push(&r, KEY, 0.5f, 1, 0, noon);
    for (uint32_t k = 1; k < 5; k++)
        ck_assert_float_ne(stats_weight(&r, KEY, k), before[k]);
    rows_close(&r);
}
END_TEST

/* From its begin on the vector changes like that of a new row, if the state is kept by element. */
START_TEST(vector_goes_on_as_a_new_one)
{
    static const enum optimizer_kind kinds[] = {OPT_SGD, OPT_ADAGRAD, OPT_FTRL, OPT_CTR_ADAGRAD};
    struct table_schema s = staged(kinds[_i]), plain = s;
    s.optimizer.decay = 0.9f;
    plain.optimizer.decay = 0.9f;
    plain.rules.vector_score = 0;
    struct rows r = rows_open(&s), fresh = rows_open(&plain);
    stats_push(&r, KEY, -0.5f, 3, 0, noon);
    stats_push(&r, KEY, 0.25f, 7, 0, noon);
    for (int i = 0; i < 5; i++) {
        stats_push(&r, KEY, 0.3f * (float)(i - 2), 1, 0, noon);
        stats_push(&fresh, KEY, 0.3f * (float)(i - 2), 1, 0, noon);
    }
    for (uint32_t k = 1; k < 5; k++)
        ck_assert_float_eq(stats_weight(&r, KEY, k), stats_weight(&fresh, KEY, k));
    rows_close(&r);
    rows_close(&fresh);
}
END_TEST

/* l2 applies to present weights. */
START_TEST(staged_vector_and_l2_go_together)
{
    struct table_schema s = staged(OPT_SGD);
    s.optimizer.lr = 1;
    s.optimizer.l2 = 0.125f;
    struct rows r = rows_open(&s);
    stats_push(&r, KEY, -1, 1, 0, noon);
    ck_assert(stats_weight(&r, KEY, 0) == 1);
    stats_push(&r, KEY, 0, 9, 0, noon);
    ck_assert(stats_weight(&r, KEY, 0) == 0.875f);
    float initial = stats_weight(&r, KEY, 4);
    stats_push(&r, KEY, 0, 1, 0, noon);
    ck_assert_float_eq_tol(stats_weight(&r, KEY, 4), initial * 0.875f, 1e-7f);
    rows_close(&r);
}
END_TEST

/* ---- levels ---- */

static uint64_t digest_at(enum isa isa, const struct table_schema *s)
{
    enum { KEYS = 500 };
    isa_limit(isa);
    struct rows r = rows_open(s);
    static uint64_t keys[KEYS];
    static float values[KEYS * 20];
    uint32_t floats = schema_push_floats(s);
    for (uint64_t round = 1; round < 12; round++) {
        struct push_args args = stats_args(
            s, (struct stats_batch){.time = noon.time + (uint32_t)round * 3600, .batch = round});
        struct rng random = rng_of(round, 9, 9);
        rows_gradients(values, KEYS * floats, round);
        for (uint64_t i = 0; i < KEYS; i++) {
            keys[i] = rows_key(rng_below(&random, 2000));
            values[i * floats + s->width] = (float)(1 + rng_below(&random, 9));
            values[i * floats + s->width + 1] = (float)rng_below(&random, 2);
        }
        ck_assert_int_eq(table_push(r.table, keys, values, KEYS, &args), 0);
    }
    static float rows[2000 * 18];
    static uint64_t all[2000];
    for (uint64_t i = 0; i < 2000; i++)
        all[i] = rows_key(i);
    table_pull(r.table, all, 2000, rows);
    uint64_t digest = rows_digest(r.table) ^ hash_bytes(rows, 2000 * s->width * sizeof(float), 1);
    ck_assert_uint_gt(table_rows(r.table), 500);
    ck_assert_uint_lt(table_rows(r.table), 1900); /* some wait, some were dropped */
    rows_close(&r);
    isa_limit(ISA_AVX512);
    return digest;
}

START_TEST(rules_give_the_same_bits_at_every_level)
{
    static const uint32_t widths[] = {5, 16, 17, 16, 5, 10};
    struct table_schema s = stats_schema((enum optimizer_kind)_i, widths[_i], 3);
    s.zero_first = 1;
    s.rules.admit_kind = ADMIT_COUNT;
    s.rules.admit_threshold = 4;
    s.rules.vector_score = 2;
    s.rules.weight_max = 0.5f;
    s.rules.by_shows = 1;
    s.rules.norm_max = 2;
    s.rules.age_every = 6 * 3600;
    s.rules.age_decay = 0.9f;
    s.rules.age_score = 0.7f;
    uint64_t base = digest_at(ISA_BASE, &s);
    ck_assert_uint_eq(digest_at(ISA_AVX2, &s), base);
    ck_assert_uint_eq(digest_at(ISA_AVX512, &s), base);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rules");
    TCase *c = tcase_create("rules");
    tcase_add_test(c, statistics_add_up);
    tcase_add_loop_test(c, statistics_leave_the_optimizer_alone, 0, 6);
    tcase_add_test(c, gradient_is_divided_by_shows);
    tcase_add_test(c, gradient_is_scaled_to_the_norm);
    tcase_add_test(c, norm_goes_before_shows);
    tcase_add_test(c, weights_are_clamped_both_ways);
    tcase_add_test(c, statistics_of_a_push_are_checked);
    tcase_add_loop_test(c, vector_begins_at_its_score, 0, 6);
    tcase_add_loop_test(c, vector_goes_on_as_a_new_one, 0, 4);
    tcase_add_test(c, staged_vector_and_l2_go_together);
    tcase_add_loop_test(c, rules_give_the_same_bits_at_every_level, 0, 6);
    suite_add_tcase(suite, c);
    return rows_main(suite);
}
