/* test_partition.c: times in names: valid patterns, and the names that match them, over changes of
 * summer time. */
#include "proto/base/partition.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

#define HOUR 3600u
#define BERLIN "0+3600 1774746000+7200 1792890000+3600" /* 2026: 29 March, 25 October */
#define MARCH_4 1772582400u                             /* 2026-03-04T00:00:00Z */

static struct partition p;
static struct zone z;
static struct err e;

static void pattern(const char *text)
{
    e = (struct err){0};
    ck_assert_msg(partition_parse(text, &p, &e) == 0, "%s: %s", text, e.text);
}

/* Returns the hours from its begin if the name matches, otherwise 0. */
static uint32_t hours(const char *name, uint32_t *from)
{
    uint32_t to;
    int rc = partition_of(&p, &z, name, strlen(name), from, &to, &e);
    ck_assert(rc == 0 || (rc == SHOAL_E_CONFIG && e.text[0] != '\0'));
    return rc == 0 ? (to - *from) / HOUR : 0;
}

static const struct {
    const char *pattern, *name;
    uint32_t from, hours; /* after 4 March; 0: no match */
} cases[] = {
    {"{date}", "2026-03-04", 0, 24},
    {"{date}", "logs/2026-03-05", 24, 24},
    {"{date}", "logs/x2026-03-04", 0, 0},
    {"{date}", "2026-03-04/part-0", 0, 0},
    {"{date}/*", "a/b/2026-03-04/part-0.gz", 0, 24},
    {"{date}/*", "/2026-03-04/part-0.gz", 0, 24},
    {"{date}/*", "2026-03-04/00/part-0.gz", 0, 0}, /* a star stays in its part */
    {"{date}/*/*", "2026-03-04/00/part-0.gz", 0, 24},
    {"{date}/{hour}/*", "logs/2026-03-04/05/part-0", 5, 1},
    {"{date}/{hour}/*", "logs/2026-03-04/5/part-0", 0, 0},
    {"{date}/{hour}/*", "logs/2026-03-04/24/part-0", 0, 0},
    {"{date}/{hour}/*", "05/part-0", 0, 0},
    {"{date}/{hour:6}/*", "2026-03-04/18/part-0", 18, 6},
    {"{date}/{hour:6}/*", "2026-03-04/17/part-0", 0, 0},
    {"y={year}/m={month}/d={day}/h={hour}", "s3/y=2026/m=03/d=04/h=23", 23, 1},
    {"y={year}/m={month}/d={day}/h={hour}", "y=2026/m=13/d=04/h=23", 0, 0},
    {"{year}{month}{day}*.csv", "x/20260304.csv", 0, 24},
    {"{year}{month}{day}*.csv", "x/20260304-a.csv.csv", 0, 24},
    {"{year}{month}{day}*.csv", "x/20260304-a.csv.gz", 0, 0},
    {"*-{year}{month}{day}.gz", "x/a-1-20260304.gz", 0, 24}, /* the star is tried again */
    {"*-{year}{month}{day}.gz", "x/20260304.gz", 0, 0},
    {"**{date}*", "ab2026-03-04cd", 0, 24},
    {"{year}-{day}-{month}", "2026-31-02", 0, 0}, /* 31 February */
    {"{year}-{day}-{month}", "2026-04-03", 0, 24},
    {"{date}", "", 0, 0},
    {"{date}", "1969-12-31", 0, 0},
};

START_TEST(names_match_from_their_ends)
{
    uint32_t from;
    z = ZONE_UTC;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        pattern(cases[i].pattern);
        uint32_t is = hours(cases[i].name, &from);
        ck_assert_msg(is == cases[i].hours, "%s of %s: %u hours", cases[i].name, cases[i].pattern,
                      is);
        ck_assert(is == 0 || from == MARCH_4 + cases[i].from * HOUR);
    }
}
END_TEST

START_TEST(minutes_are_parts_of_an_hour)
{
    uint32_t from, to;
    z = ZONE_UTC;
    pattern("{date}/{hour}-{minute:15}");
    ck_assert_uint_eq(p.step, 900);
    ck_assert_int_eq(partition_of(&p, &z, "2026-03-04/01-45", 16, &from, &to, &e), 0);
    ck_assert(from == MARCH_4 + HOUR + 2700 && to == MARCH_4 + 2 * HOUR);
    ck_assert_int_eq(partition_of(&p, &z, "2026-03-04/01-46", 16, &from, &to, &e), SHOAL_E_CONFIG);
    pattern("{date}T{hour}{minute}");
    ck_assert_uint_eq(p.step, 60);
}
END_TEST

START_TEST(patterns_that_are_none_are_refused)
{
    static const char *const bad[] = {"",
                                      "x",
                                      "{hour}/*",
                                      "{year}/{month}/*",
                                      "{date}/{date}",
                                      "{date}/{year}",
                                      "{date}/{hours}",
                                      "{date}/{hour:5}",
                                      "{date}/{hour:0}",
                                      "{date}/{hour:}",
                                      "{date}/{hour:111}",
                                      "{date}/{day:2}",
                                      "{date}/{minute}",
                                      "{date}/{}",
                                      "{date}/{hour}/{hour}"};
    struct partition was;
    char text[PARTITION_TEXT + 40];
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        memset(&was, 7, sizeof was);
        memcpy(&p, &was, sizeof p);
        e = (struct err){0};
        ck_assert_msg(partition_parse(bad[i], &p, &e) == SHOAL_E_CONFIG, "%s", bad[i]);
        ck_assert(memcmp(&p, &was, sizeof p) == 0 && e.text[0] != '\0');
    }
    snprintf(text, sizeof text, "{date}%0*u", (int)PARTITION_ITEMS, 0u);
    ck_assert_int_eq(partition_parse(text, &p, &e), SHOAL_E_CONFIG);
    snprintf(text, sizeof text, "{date}%0*u", (int)PARTITION_TEXT, 0u);
    ck_assert_int_eq(partition_parse(text, &p, &e), SHOAL_E_CONFIG);
}
END_TEST

/* Days of 23 and 25 hours. The hour that is left out is no partition; the one that occurs twice is
 * both hours. */
START_TEST(clocks_of_a_zone_name_partitions)
{
    uint32_t from;
    z = ZONE_UTC;
    ck_assert_int_eq(zone_parse(BERLIN, &z), 0);
    pattern("{date}");
    ck_assert_uint_eq(hours("2026-03-29", &from), 23);
    ck_assert_uint_eq(from, 1774738800);
    ck_assert_uint_eq(hours("2026-10-25", &from), 25);
    pattern("{date}/{hour}");
    ck_assert_uint_eq(hours("2026-03-29/01", &from), 1);
    ck_assert_uint_eq(hours("2026-03-29/02", &from), 0);
    ck_assert_ptr_nonnull(strstr(e.text, "leave out"));
    ck_assert_uint_eq(hours("2026-03-29/03", &from), 1);
    ck_assert_uint_eq(from, 1774746000);
    ck_assert_uint_eq(hours("2026-10-25/02", &from), 2);
    ck_assert_uint_eq(from, 1792886400);
    ck_assert_uint_eq(hours("2026-10-25/03", &from), 1);
    pattern("{date}/{hour:2}");
    ck_assert_uint_eq(hours("2026-03-29/02", &from), 1); /* only its second half exists */
    pattern("{date}/{hour}/{minute:15}");
    (void)hours("2026-03-29/01/45", &from);
    ck_assert_uint_eq(from, 1774746000 - 900);
    from = 0;
    ck_assert_uint_eq(hours("2026-03-29/02/15", &from), 0);
    ck_assert_ptr_nonnull(strstr(e.text, "leave out"));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("partition");
    TCase *t = tcase_create("partition");
    tcase_add_test(t, names_match_from_their_ends);
    tcase_add_test(t, minutes_are_parts_of_an_hour);
    tcase_add_test(t, patterns_that_are_none_are_refused);
    tcase_add_test(t, clocks_of_a_zone_name_partitions);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
