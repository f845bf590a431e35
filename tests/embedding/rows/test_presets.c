/* test_presets.c: rules that teams know from other systems, with numbers computed by hand.
 *
 * Paddle's CtrCommonAccessor with its defaults (table/ctr_accessor.cc): S = 0.1 (show - click) +
 * click. Each day shows and clicks are multiplied by 0.98, then rows with S < 0.8 or 30 days
 * without a push are dropped. A row has a vector from S = 10 on, and is saved for serving from S =
 * 1.5 on. Monolith's occurrence filter and ttl (runtime/hash_filter, runtime/hash_table): a key
 * gets a row after a number of appearances, and rows without a push for a number of days of event
 * time are dropped. */
#include "proto/base/key.h"
#include "tests/lib/embedding_stats.h"

#define KEY 77u
#define NOON (FIRST_DAY + DAY / 2)

static struct table_schema paddle(void)
{
    struct table_schema s = stats_schema(OPT_CTR_ADAGRAD, 9, 0);
    s.zero_first = 1;
    s.init = (struct init_spec){INIT_UNIFORM, 1e-4f};
    s.optimizer = (struct optimizer_spec){.kind = OPT_CTR_ADAGRAD, .lr = 0.05f, .initial = 3};
    s.rules.age_every = DAY;
    s.rules.age_decay = 0.98f;
    s.rules.age_score = 0.8f;
    s.rules.age_ttl = 30 * DAY;
    s.rules.vector_score = 10;
    s.rules.weight_max = 10;
    s.rules.by_shows = 1;
    return s;
}

static float score_of(const struct rows *r, uint64_t key)
{
    struct row_stats stats = stats_of(r, key);
    return stats_score(&table_schema_of(r->table)->rules, stats.show, stats.click);
}

/* 8 shows: 0.8, after the decay 0.784. 9 shows: 0.9, after it 0.882. */
START_TEST(paddle_nine_shows_survive_a_shrink)
{
    struct table_schema s = paddle();
    struct rows r = rows_open(&s);
    for (uint32_t shows = 1; shows <= 12; shows++)
        stats_push(&r, shows, 0.1f, (float)shows, 0, (struct stats_batch){.time = NOON});
    ck_assert_float_eq_tol(score_of(&r, 8), 0.8f, 1e-6f);
    stats_tick(&r, NOON + DAY);
    for (uint32_t shows = 1; shows <= 12; shows++)
        ck_assert(stats_has(&r, shows) == (shows >= 9));
    ck_assert_float_eq_tol(score_of(&r, 9), 0.882f, 1e-6f);
    stats_tick(&r, NOON + 4 * DAY); /* a tick advances a day: 0.9 * 0.98^2 = 0.864 */
    ck_assert_float_eq_tol(score_of(&r, 9), 0.86436f, 1e-6f);
    rows_close(&r);
}
END_TEST

/* One click counts as ten shows: 1 * 0.98 = 0.98 survives. */
START_TEST(paddle_one_click_survives_a_shrink)
{
    struct table_schema s = paddle();
    struct rows r = rows_open(&s);
    stats_push(&r, KEY, 0.1f, 1, 1, (struct stats_batch){.time = NOON});
    ck_assert(score_of(&r, KEY) == 1);
    stats_tick(&r, NOON + DAY);
    ck_assert_float_eq_tol(score_of(&r, KEY), 0.98f, 1e-6f);
    for (uint32_t day = 2; day <= 11; day++)
        stats_tick(&r, NOON + day * DAY);
    ck_assert(stats_has(&r, KEY)); /* 0.98^11 = 0.8007 */
    stats_tick(&r, NOON + 12 * DAY);
    ck_assert(!stats_has(&r, KEY)); /* 0.98^12 = 0.7847 */
    rows_close(&r);
}
END_TEST

/* 14 shows score 1.4, 15 score 1.5. */
START_TEST(paddle_fifteen_shows_are_published)
{
    struct table_schema s = paddle();
    struct rows r = rows_open(&s);
    for (uint32_t shows = 1; shows <= 20; shows++) {
        stats_push(&r, KEY, 0.1f, 1, 0, (struct stats_batch){.time = NOON});
        ck_assert((score_of(&r, KEY) >= 1.5f) == (shows >= 15));
        ck_assert_float_eq_tol(stats_of(&r, KEY).delta_score, 0.1f * (float)shows, 1e-5f);
    }
    rows_close(&r);
}
END_TEST

START_TEST(paddle_hundred_shows_or_ten_clicks_make_a_vector)
{
    struct table_schema s = paddle();
    struct rows r = rows_open(&s);
    for (uint32_t i = 1; i <= 120; i++) {
        stats_push(&r, 1, 0.1f, 1, 0, (struct stats_batch){.time = NOON});
        ck_assert((stats_weight(&r, 1, 5) != 0) == (i >= 100));
        ck_assert(stats_weight(&r, 1, 0) != 0);
    }
    for (uint32_t i = 1; i <= 20; i++) {
        stats_push(&r, 2, 0.1f, 1, 1, (struct stats_batch){.time = NOON});
        ck_assert((stats_weight(&r, 2, 5) != 0) == (i >= 10));
    }
    rows_close(&r);
}
END_TEST

/* k shows a day without clicks converge to k / (1 - 0.98) = 50 k before the decay. So 0.16 a day
 * converge to 8, S = 0.8, which is 0.784 after the decay and is dropped; 0.17 a day converge to
 * 8.5, 0.833 after the decay, and stay. */
START_TEST(paddle_k_shows_a_day_settle_near_fifty_k)
{
    static const float shows[] = {1, 4, 0.17f, 0.16f};
    struct table_schema s = paddle();
    struct rows r = rows_open(&s);
    for (uint32_t day = 0; day < 1000; day++)
        for (uint64_t i = 0; i < 4; i++) /* each has 20 shows on its first day */
            if (day == 0 || stats_has(&r, i))
                stats_push(&r, i, 0.1f, day == 0 ? 20 : shows[i], 0,
                           (struct stats_batch){.time = NOON + day * DAY});
    for (uint64_t i = 0; i < 3; i++)
        ck_assert_float_eq_tol(stats_of(&r, i).show, 50 * shows[i], 0.01f * shows[i]);
    ck_assert(!stats_has(&r, 3));
    rows_close(&r);
}
END_TEST

/* A row with a million shows is dropped after 30 days without a push, not before. */
START_TEST(paddle_thirty_days_unseen_go)
{
    struct table_schema s = paddle();
    struct rows r = rows_open(&s);
    stats_push(&r, KEY, 0.1f, 1e6f, 1e5f, (struct stats_batch){.time = FIRST_DAY});
    for (uint32_t day = 1; day <= 31; day++) {
        stats_tick(&r, FIRST_DAY + day * DAY);
        ck_assert(stats_has(&r, KEY) == (day <= 30));
    }
    rows_close(&r);
}
END_TEST

/* First-order weight by hand: G0 = 3, the step uses the G before it. g = 4 over 2 shows is 2, w =
 * -0.05 * 2 * 1; then g = 3, with G = 4: w -= 0.05 * 3 * sqrt(3 / 7). */
START_TEST(paddle_adagrad_by_hand)
{
    struct table_schema s = paddle();
    struct rows r = rows_open(&s);
    stats_push(&r, KEY, 4, 2, 0, (struct stats_batch){.time = NOON});
    ck_assert_float_eq_tol(stats_weight(&r, KEY, 0), -0.1f, 1e-7f);
    stats_push(&r, KEY, 3, 1, 0, (struct stats_batch){.time = NOON});
    ck_assert_float_eq_tol(stats_weight(&r, KEY, 0), -0.1f - 0.15f * 0.654653671f, 1e-7f);
    rows_close(&r);
}
END_TEST

/* ---- Monolith ---- */

/* Monolith's own filter ends at 15; here every count is exact, and a sketch gives the same for a
 * few keys. */
START_TEST(monolith_counts_also_above_fifteen)
{
    static const uint32_t thresholds[] = {1, 2, 5, 15, 16, 40, 1000};
    for (size_t i = 0; i < sizeof thresholds / sizeof thresholds[0]; i++) {
        struct table_schema s = rows_schema(OPT_ADAGRAD, 4, 0);
        s.rules.admit_kind = ADMIT_COUNT;
        s.rules.admit_threshold = (float)thresholds[i];
        s.rules.admit_sketch = _i == 0 ? 0 : 1u << 16;
        struct rows r = rows_open(&s);
        for (uint32_t seen = 1; seen <= thresholds[i]; seen++) {
            ck_assert(!stats_has(&r, KEY));
            stats_push(&r, KEY, 0.1f, 0, 0, (struct stats_batch){0});
        }
        ck_assert(stats_has(&r, KEY));
        rows_close(&r);
    }
}
END_TEST

START_TEST(monolith_thresholds_by_field)
{
    struct table_schema s = rows_schema(OPT_ADAGRAD, 4, 2);
    s.rules.admit_kind = ADMIT_COUNT;
    s.rules.admit_threshold = 5;
    s.field_rule_count = 1;
    s.field_rule[0] = (struct field_rule){
        .field = 9, .has = FIELD_HAS_ADMIT, .admit_kind = ADMIT_COUNT, .admit_threshold = 20};
    struct rows r = rows_open(&s);
    for (uint32_t seen = 1; seen <= 25; seen++) {
        stats_push(&r, key_make(8, 1), 0.1f, 0, 0, (struct stats_batch){0});
        stats_push(&r, key_make(9, 1), 0.1f, 0, 0, (struct stats_batch){0});
        ck_assert(stats_has(&r, key_make(8, 1)) == (seen >= 5));
        ck_assert(stats_has(&r, key_make(9, 1)) == (seen >= 20));
    }
    rows_close(&r);
}
END_TEST

/* Days of event time, by field, swept each 240 hours as in Monolith. One stamp a century ahead,
 * which would evict everything there, evicts nothing here: the clock advances by a day. */
START_TEST(monolith_ttl_goes_by_event_time)
{
    struct table_schema s = stats_schema(OPT_ADAGRAD, 4, 0);
    s.rules.age_every = 240 * 3600;
    s.rules.age_ttl = 60 * DAY;
    s.field_rule_count = 1;
    s.field_rule[0] = (struct field_rule){.field = 9, .has = FIELD_HAS_TTL, .ttl = 15 * DAY};
    struct rows r = rows_open(&s);
    uint64_t slow = key_make(8, 1), fast = key_make(9, 1), seen = key_make(9, 2);
    stats_push(&r, slow, 0.1f, 1, 0, (struct stats_batch){.time = NOON});
    stats_push(&r, fast, 0.1f, 1, 0, (struct stats_batch){.time = NOON});
    /* 2100 */
    stats_push(&r, key_make(8, 9), 0.1f, 1, 0, (struct stats_batch){.time = 4102444800u});
    ck_assert(stats_has(&r, slow) && stats_has(&r, fast));
    for (uint32_t day = 1; day <= 80; day++) {
        stats_push(&r, seen, 0.1f, 1, 0, (struct stats_batch){.time = NOON + day * DAY});
        if (day < 15)
            ck_assert(stats_has(&r, fast));
        if (day >= 26)
            ck_assert(!stats_has(&r, fast));
        if (day < 60)
            ck_assert(stats_has(&r, slow));
        if (day >= 71)
            ck_assert(!stats_has(&r, slow));
    }
    ck_assert(stats_has(&r, seen));
    /* A back-fill of old data evicts nothing, and its rows get the table's time. */
    stats_push(&r, slow, 0.1f, 1, 0, (struct stats_batch){.time = NOON});
    ck_assert_uint_eq(stats_of(&r, slow).time, NOON + 80 * DAY);
    rows_close(&r);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("presets");
    TCase *c = tcase_create("presets");
    tcase_add_test(c, paddle_nine_shows_survive_a_shrink);
    tcase_add_test(c, paddle_one_click_survives_a_shrink);
    tcase_add_test(c, paddle_fifteen_shows_are_published);
    tcase_add_test(c, paddle_hundred_shows_or_ten_clicks_make_a_vector);
    tcase_add_test(c, paddle_k_shows_a_day_settle_near_fifty_k);
    tcase_add_test(c, paddle_thirty_days_unseen_go);
    tcase_add_test(c, paddle_adagrad_by_hand);
    tcase_add_loop_test(c, monolith_counts_also_above_fifteen, 0, 2);
    tcase_add_test(c, monolith_thresholds_by_field);
    tcase_add_test(c, monolith_ttl_goes_by_event_time);
    suite_add_tcase(suite, c);
    return rows_main(suite);
}
