/* test_server_status.c: the status line of a server. */
#include "server/server_status.h"

#include <check.h>
#include <string.h>

static struct server_progress p[2];
static char text[160];

static void clean(void)
{
    memset(p, 0, sizeof p);
}

START_TEST(work_is_told_in_per_cent_over_all_shards)
{
    p[0].done = 500;
    p[0].of = 1000;
    p[1].done = 1000;
    p[1].of = 1000;
    server_status_work(p, 2, "recovers", "the journal is read", text, sizeof text);
    ck_assert_str_eq(text, "recovers: 75 % of the journal is read");
}
END_TEST

/* One shard's journal ended at a torn tail, or grew; the other one's size is unknown. */
START_TEST(no_share_is_above_all)
{
    p[0].done = 3000;
    p[0].of = 1000;
    server_status_work(p, 2, "stops", "what changed is written", text, sizeof text);
    ck_assert_str_eq(text, "stops: 50 % of what changed is written");
}
END_TEST

START_TEST(what_has_no_size_has_no_share)
{
    server_status_work(p, 2, "recovers", "the journal is read", text, sizeof text);
    ck_assert_str_eq(text, "recovers");
}
END_TEST

START_TEST(rates_are_since_the_last_line)
{
    struct server_told told = {0};
    p[0].rows = 100;
    p[1].rows = 11;
    p[0].pulled = 1000;
    server_status_serving(p, 2, 5000000000, &told, text, sizeof text);
    ck_assert_str_eq(text, "serving: 111 rows, 0 keys/s pulled, 0 pushed");
    p[0].pulled = 1500;
    p[1].pushed = 40;
    server_status_serving(p, 2, 7000000000, &told, text, sizeof text);
    ck_assert_str_eq(text, "serving: 111 rows, 250 keys/s pulled, 20 pushed");
    p[0].pulled = 0; /* a shard restarted */
    server_status_serving(p, 2, 9000000000, &told, text, sizeof text);
    ck_assert_str_eq(text, "serving: 111 rows, 0 keys/s pulled, 0 pushed");
}
END_TEST

START_TEST(rows_that_are_away_are_told)
{
    struct server_told told = {0};
    p[0].away = 30;
    p[0].tablets = 40;
    server_status_serving(p, 2, 1, &told, text, sizeof text);
    ck_assert_str_eq(
        text, "serving: 0 rows, 0 keys/s pulled, 0 pushed; recovers: 25 % of the rows are back");
}
END_TEST

/* A line that does not fit is cut, never written past the end. */
START_TEST(a_short_place_is_enough)
{
    struct server_told told = {0};
    char small[9] = "";
    p[0].away = 30;
    p[0].tablets = 40;
    server_status_serving(p, 2, 1, &told, small, sizeof small);
    ck_assert_str_eq(small, "serving:");
}
END_TEST

int main(void)
{
    Suite *s = suite_create("server_status");
    TCase *t = tcase_create("line");
    tcase_add_checked_fixture(t, clean, NULL);
    tcase_add_test(t, work_is_told_in_per_cent_over_all_shards);
    tcase_add_test(t, no_share_is_above_all);
    tcase_add_test(t, what_has_no_size_has_no_share);
    tcase_add_test(t, rates_are_since_the_last_line);
    tcase_add_test(t, rows_that_are_away_are_told);
    tcase_add_test(t, a_short_place_is_enough);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
