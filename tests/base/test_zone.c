/* test_zone.c: zone files as the C library reads them; local days over changes of summer time;
 * windows that divide time. Tables are fixed, except where the machine's files are compared. */
#include "proto/base/zone.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define HOUR 3600u
#define DAY 86400u
#define SPRING 1774746000u /* 2026-03-29T01:00:00Z: Berlin changes to summer time */
#define AUTUMN 1792890000u /* 2026-10-25T01:00:00Z: and back */
#define BERLIN "0+3600 1774746000+7200 1792890000+3600"
#define KOLKATA "0+19800"
/* half an hour, until 2026-04-04T15:00:00Z and from 2026-10-03T15:30:00Z on */
#define LORD_HOWE "0+39600 1775314800+37800 1791041400+39600"
/* as in St John's: at 00:01 back to 23:01 of the day before (2026-10-25T02:31:00Z) */
#define ST_JOHNS "0-9000 1792895460-12600"
/* no midnight: from 00:00 to 01:00 (2026-10-18T03:00:00Z) */
#define NO_MIDNIGHT "0-10800 1792292400-7200"

#define BERLIN_HASH 0xa30a0e6801b93a66ull
#define KOLKATA_HASH 0xf6400ebf773cfae9ull

static struct zone z;

static void zone_is(const char *text)
{
    z = ZONE_UTC;
    ck_assert_int_eq(zone_parse(text, &z), 0);
}

static int64_t utc(int year, int month, int day, int hour, int minute)
{
    struct tm t = {.tm_year = year - 1900,
                   .tm_mon = month - 1,
                   .tm_mday = day,
                   .tm_hour = hour,
                   .tm_min = minute};
    return timegm(&t);
}

static void label_is(uint64_t at, const char *expected)
{
    char label[32];
    zone_label(&z, at, label);
    ck_assert_str_eq(label, expected);
}

/* ---- days ---- */

START_TEST(zone_days_have_23_24_and_25_hours)
{
    zone_is(BERLIN);
    uint64_t spring = zone_midnight(&z, SPRING, 0), autumn = zone_midnight(&z, AUTUMN, 0);
    ck_assert_int_eq((int64_t)spring, utc(2026, 3, 28, 23, 0));
    ck_assert_int_eq((int64_t)(zone_midnight(&z, SPRING, 1) - spring), 23 * HOUR);
    ck_assert_int_eq((int64_t)autumn, utc(2026, 10, 24, 22, 0));
    ck_assert_int_eq((int64_t)(zone_midnight(&z, AUTUMN, 1) - autumn), 25 * HOUR);
    ck_assert_int_eq((int64_t)(spring - zone_midnight(&z, spring - 1, 0)), DAY);
    ck_assert_uint_eq(zone_midnight(&z, spring + 23 * HOUR - 1, 0), spring);
    ck_assert_uint_eq(zone_midnight(&z, spring + 23 * HOUR, 0), spring + 23 * HOUR);
    label_is(spring, "2026-03-29T00:00:00+01:00");
    label_is(SPRING, "2026-03-29T03:00:00+02:00");
    label_is(autumn + 25 * HOUR, "2026-10-26T00:00:00+01:00");
}
END_TEST

START_TEST(zone_days_of_half_hours)
{
    zone_is(KOLKATA);
    ck_assert_int_eq((int64_t)zone_midnight(&z, SPRING, 0), utc(2026, 3, 28, 18, 30));
    label_is(SPRING, "2026-03-29T06:30:00+05:30");
    zone_is(LORD_HOWE);
    uint64_t april = zone_midnight(&z, 1775314800, 0), october = zone_midnight(&z, 1791041400, 0);
    ck_assert_int_eq((int64_t)april, utc(2026, 4, 4, 13, 0));
    ck_assert_int_eq((int64_t)(zone_midnight(&z, 1775314800, 1) - april), 49 * HOUR / 2);
    ck_assert_int_eq((int64_t)(zone_midnight(&z, 1791041400, 1) - october), 47 * HOUR / 2);
}
END_TEST

START_TEST(zone_days_at_odd_changes_follow_one_another)
{
    zone_is(ST_JOHNS); /* the minute from 00:00 on belongs to the day before */
    uint64_t midnight = zone_midnight(&z, 1792895460 + 2 * HOUR, 0);
    ck_assert_int_eq((int64_t)midnight, utc(2026, 10, 25, 3, 30));
    ck_assert_int_eq((int64_t)(midnight - zone_midnight(&z, midnight - 1, 0)), 25 * HOUR);
    zone_is(NO_MIDNIGHT); /* the day begins at 01:00 */
    ck_assert_uint_eq(zone_midnight(&z, 1792292400, 0), 1792292400);
    ck_assert_int_eq((int64_t)(1792292400 - zone_midnight(&z, 1792292400 - 1, 0)), DAY);
    ck_assert_int_eq((int64_t)(zone_midnight(&z, 1792292400, 1) - 1792292400), 23 * HOUR);
    label_is(1792292400, "2026-10-18T01:00:00-02:00");
}
END_TEST

/* The hash is kept with datasets that were cut by a zone: a table has the same hash in every
 * release. */
START_TEST(zone_hash_is_of_every_release)
{
    zone_is(BERLIN);
    ck_assert_uint_eq(zone_hash(&z), BERLIN_HASH);
    zone_is(KOLKATA);
    ck_assert_uint_eq(zone_hash(&z), KOLKATA_HASH);
}
END_TEST

/* West of Greenwich time begins on the day before 1970, which belongs to the first window. */
START_TEST(zone_windows_begin_with_time)
{
    zone_is("0-18000");
    ck_assert_uint_eq(zone_begin(&z, 7 * DAY, 0), 0);
    ck_assert_uint_eq(zone_end(&z, 7 * DAY, 0), 5 * HOUR);
    ck_assert_uint_eq(zone_begin(&z, 7 * DAY, 5 * HOUR - 1), 0);
    ck_assert_uint_eq(zone_begin(&z, 7 * DAY, 5 * HOUR), 5 * HOUR);
    ck_assert_uint_eq(zone_end(&z, 7 * DAY, 5 * HOUR), 7 * DAY + 5 * HOUR);
}
END_TEST

/* Clocks go back after 1970's first midnight: the first day begins when they show it again. */
START_TEST(zone_windows_begin_before_the_first_day)
{
    zone_is("0+0 10800-21600");
    for (uint32_t at = 0; at < 8 * HOUR; at += HOUR / 2) {
        uint32_t begin = at < 6 * HOUR ? 0 : 6 * HOUR;
        ck_assert_uint_eq(zone_begin(&z, 2 * DAY, at), begin);
        ck_assert_uint_eq(zone_end(&z, 2 * DAY, at), begin == 0 ? 6 * HOUR : 2 * DAY + 6 * HOUR);
        ck_assert_uint_eq(zone_begin(&z, HOUR, at), at - at % HOUR);
        ck_assert_uint_eq(zone_midnight(&z, at, 1), begin == 0 ? 6 * HOUR : DAY + 6 * HOUR);
    }
}
END_TEST

START_TEST(zone_utc_is_no_zone)
{
    zone_is("0+0");
    ck_assert_uint_eq(z.count, 0);
    ck_assert(zone_same(&z, &ZONE_UTC) && zone_hash(&z) == 0);
    ck_assert_uint_eq(zone_midnight(&z, SPRING, 1), (SPRING / DAY + 1) * DAY);
    ck_assert_uint_eq(zone_number(&z, 7000, SPRING), SPRING / 7000);
    ck_assert_uint_eq(zone_from(&z, 7000, SPRING / 7000), SPRING - SPRING % 7000);
    label_is(SPRING, "2026-03-29T01:00:00Z");
}
END_TEST

START_TEST(zone_times_without_one_are_of_local_clocks)
{
    zone_is(BERLIN);
    ck_assert_int_eq(zone_time(&z, utc(2026, 3, 29, 1, 59)), utc(2026, 3, 29, 0, 59));
    ck_assert_int_eq(zone_time(&z, utc(2026, 3, 29, 2, 30)), utc(2026, 3, 29, 1, 30)); /* none */
    ck_assert_int_eq(zone_time(&z, utc(2026, 3, 29, 3, 0)), utc(2026, 3, 29, 1, 0));
    ck_assert_int_eq(zone_time(&z, utc(2026, 10, 25, 2, 30)), utc(2026, 10, 25, 0, 30)); /* first */
    ck_assert_int_eq(zone_time(&z, utc(2026, 10, 25, 3, 0)), utc(2026, 10, 25, 2, 0));
    ck_assert_int_eq(zone_time(&z, 0), -3600);
    zone_is(KOLKATA);
    ck_assert_int_eq(zone_time(&z, utc(2026, 3, 29, 2, 30)), utc(2026, 3, 28, 21, 0));
}
END_TEST

/* ---- windows ---- */

/* _i: every second zone and width. Each moment is in one window, windows follow one another, and
 * their numbers lead back. */
START_TEST(zone_windows_part_time)
{
    static const char *const zones[] = {BERLIN, KOLKATA, LORD_HOWE, ST_JOHNS, NO_MIDNIGHT, ""};
    static const uint32_t widths[] = {900, HOUR, 7000, 12 * HOUR, DAY, 2 * DAY, 7 * DAY};
    uint32_t width = widths[_i % 7], from = 1774000000, to = 1793500000;
    zone_is(zones[_i / 7]);
    ck_assert(zone_fits(&z, width));
    uint32_t begin = zone_begin(&z, width, from), before = zone_number(&z, width, begin) - 1;
    for (uint64_t end; begin < to; begin = (uint32_t)end) {
        end = zone_end(&z, width, begin);
        ck_assert(end > begin && end - begin <= width + (width >= DAY ? HOUR : 0));
        uint32_t number = zone_number(&z, width, begin);
        ck_assert_uint_gt(number, before);
        before = number;
        ck_assert_uint_eq(zone_from(&z, width, number), begin);
        uint32_t inside[] = {begin, begin + (uint32_t)(end - begin) / 2, (uint32_t)end - 1};
        for (int k = 0; k < 3; k++) {
            ck_assert_uint_eq(zone_begin(&z, width, inside[k]), begin);
            ck_assert_uint_eq(zone_number(&z, width, inside[k]), number);
        }
        uint64_t midnight = zone_midnight(&z, begin, 0);
        if (z.count > 0 && width >= DAY)
            ck_assert_uint_eq(midnight, begin);
        else if (z.count > 0)
            ck_assert(begin - midnight == (begin - midnight) / width * width &&
                      end <= zone_midnight(&z, begin, 1));
    }
}
END_TEST

START_TEST(zone_windows_over_a_change_are_elapsed_hours)
{
    zone_is(BERLIN);
    uint32_t spring = (uint32_t)zone_midnight(&z, SPRING, 0), windows = 0;
    for (uint32_t at = spring; at < zone_midnight(&z, SPRING, 1); at += HOUR, windows++)
        ck_assert_uint_eq(zone_begin(&z, HOUR, at + 1800), at);
    ck_assert_uint_eq(windows, 23);
    /* half days: the second one has 11 hours */
    ck_assert_uint_eq(zone_end(&z, 12 * HOUR, spring + 12 * HOUR), spring + 23 * HOUR);
    ck_assert(!zone_fits(&z, 36 * HOUR) && zone_fits(&ZONE_UTC, 36 * HOUR));
    ck_assert(zone_fits(&z, DAY - 1) && zone_fits(&z, DAY) && !zone_fits(&z, DAY + 1));
}
END_TEST

/* ---- as text ---- */

START_TEST(zone_tables_are_text_and_back)
{
    char text[ZONE_TEXT];
    zone_is(BERLIN);
    zone_text(&z, text);
    ck_assert_str_eq(text, BERLIN);
    zone_text(&ZONE_UTC, text);
    ck_assert_str_eq(text, "");
    static const char *const bad[] = {"x",
                                      "3600",
                                      "0",
                                      "0+",
                                      "1+3600",
                                      "0+9x",
                                      "0+3600 0+7200",
                                      "0+3600,",
                                      "0+3600  9+7200",
                                      "0+-9",
                                      "0+99999999",
                                      "0+3600 99999999999+0",
                                      " 0+3600"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        ck_assert_msg(zone_parse(bad[i], &z) != 0, "'%s' is taken", bad[i]);
}
END_TEST

/* ---- files ---- */

static uint8_t file[4096];
static size_t file_bytes;

static void put(uint64_t value, unsigned bytes)
{
    for (unsigned i = bytes; i-- > 0;)
        file[file_bytes++] = (uint8_t)(value >> 8 * i);
}

static void head_put(uint32_t times, uint32_t types)
{
    memcpy(file + file_bytes, "TZif2", 5);
    memset(file + file_bytes + 5, 0, 15);
    file_bytes += 20;
    for (int i = 0; i < 3; i++)
        put(0, 4);
    put(times, 4);
    put(types, 4);
    put(4, 4);
}

/* Makes a file with two types, a change to each, and the rule for later years. */
static void file_make(int32_t first, int32_t second, const char *rule)
{
    file_bytes = 0;
    head_put(0, 1);
    put(0, 6);
    put(0, 4);
    head_put(2, 2);
    put((uint64_t)-1000, 8);
    put(1000000, 8);
    put(1, 1);
    put(0, 1);
    put((uint32_t)first, 4);
    put(0, 2);
    put((uint32_t)second, 4);
    put(1, 2);
    put(0, 4);
    file_bytes += (size_t)sprintf((char *)file + file_bytes, "\n%s\n", rule);
}

static void changes_of_2026(const char *rule, int64_t first, int32_t ahead, int64_t second,
                            int32_t back)
{
    file_make(100, 200, rule);
    ck_assert_int_eq(zone_read(file, file_bytes, &z), 0);
    ck_assert_int_eq(zone_ahead(&z, 10), 200);
    ck_assert_int_eq(zone_ahead(&z, 1000000), 100);
    ck_assert_int_eq(zone_ahead(&z, (uint64_t)first - 1), back);
    ck_assert_int_eq(zone_ahead(&z, (uint64_t)first), ahead);
    ck_assert_int_eq(zone_ahead(&z, (uint64_t)second - 1), ahead);
    ck_assert_int_eq(zone_ahead(&z, (uint64_t)second), back);
}

START_TEST(zone_files_end_in_a_rule)
{
    changes_of_2026("CET-1CEST,M3.5.0,M10.5.0/3", SPRING, 7200, AUTUMN, 3600);
    changes_of_2026("<+1030>-10:30<+11>-11,M10.1.0,M4.1.0", 1775314800, 37800, 1791041400, 39600);
    changes_of_2026("IST-1GMT0,M10.5.0,M3.5.0/1", SPRING, 3600, AUTUMN, 0);
    /* day 60 without a leap day is 1 March, and so is day 59 counted from 0 */
    changes_of_2026("AAA0BBB,J60/0,300/0", utc(2026, 3, 1, 0, 0), 3600, utc(2026, 10, 27, 23, 0),
                    0);
    changes_of_2026("AAA0BBB,59/-1,J301/25", utc(2026, 2, 28, 23, 0), 3600, utc(2026, 10, 29, 0, 0),
                    0);
    /* in a leap year, too: J skips 29 February, a number without it does not */
    file_make(100, 200, "AAA0BBB,J60/0,J301/0");
    ck_assert_int_eq(zone_read(file, file_bytes, &z), 0);
    ck_assert_int_eq(zone_ahead(&z, (uint64_t)utc(2028, 3, 1, 0, 0) - 1), 0);
    ck_assert_int_eq(zone_ahead(&z, (uint64_t)utc(2028, 3, 1, 0, 0)), 3600);
    file_make(100, 200, "AAA0BBB,J59/0,J301/0");
    ck_assert_int_eq(zone_read(file, file_bytes, &z), 0);
    ck_assert_int_eq(zone_ahead(&z, (uint64_t)utc(2028, 2, 28, 0, 0) - 1), 0);
    ck_assert_int_eq(zone_ahead(&z, (uint64_t)utc(2028, 2, 28, 0, 0)), 3600);
    file_make(100, 200, "AAA0BBB,59/0,J301/0");
    ck_assert_int_eq(zone_read(file, file_bytes, &z), 0);
    ck_assert_int_eq(zone_ahead(&z, (uint64_t)utc(2028, 2, 29, 0, 0) - 1), 0);
    ck_assert_int_eq(zone_ahead(&z, (uint64_t)utc(2028, 2, 29, 0, 0)), 3600);
    file_make(100, 200, "<+0530>-5:30");
    ck_assert_int_eq(zone_read(file, file_bytes, &z), 0);
    ck_assert_int_eq(zone_ahead(&z, SPRING), 19800);
    file_make(100, 200, "");
    ck_assert_int_eq(zone_read(file, file_bytes, &z), 0);
    ck_assert_int_eq(zone_ahead(&z, SPRING), 100);
    static const char *const bad[] = {"CE-1",
                                      "CET",
                                      "CET-1CEST",
                                      "CET-1CEST,M3.5.0",
                                      "CET-1CEST,M13.5.0,M10.5.0",
                                      "CET-1CEST,M3.6.0,M10.5.0",
                                      "CET-1CEST,M3.5.7,M10.5.0",
                                      "CET-1CEST,J0,M10.5.0",
                                      "CET-1CEST,M3.5.0,M10.5.0/3x",
                                      "<CET-1",
                                      "CET-99"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        file_make(100, 200, bad[i]);
        ck_assert_msg(zone_read(file, file_bytes, &z) == SHOAL_E_CORRUPT, "'%s' is taken", bad[i]);
    }
}
END_TEST

/* Every length, and every byte changed; on the heap, so that a sanitizer sees a read past the
 * end. */
START_TEST(zone_files_cut_or_changed_are_no_danger)
{
    static const uint8_t others[] = {0, 1, 0x7f, 0x80, 0xff, ',', '-', '>'};
    file_make(100, 200, "CET-1CEST,M3.5.0,M10.5.0/3");
    for (size_t cut = 0; cut < file_bytes; cut++) {
        uint8_t *copy = malloc(cut + 1);
        memcpy(copy, file, cut);
        ck_assert_int_eq(zone_read(copy, cut, &z), SHOAL_E_CORRUPT);
        free(copy);
    }
    for (size_t i = 0; i < file_bytes; i++)
        for (size_t k = 0; k < sizeof others; k++) {
            uint8_t *copy = malloc(file_bytes);
            memcpy(copy, file, file_bytes);
            copy[i] = others[k];
            (void)zone_read(copy, file_bytes, &z);
            ck_assert_uint_le(z.count, ZONE_CHANGES);
            for (uint32_t c = 1; c < z.count; c++)
                ck_assert_uint_gt(z.change[c].from, z.change[c - 1].from);
            free(copy);
        }
}
END_TEST

static uint32_t compared;

static bool compare(void *context, const char *name)
{
    struct err e = {0};
    char text[ZONE_TEXT];
    struct zone again = ZONE_UTC;
    (void)context;
    /* Debian 13 lists former names, whose files are in a package of their own. */
    char path[300];
    (void)snprintf(path, sizeof path, "/usr/share/zoneinfo/%s", name);
    if (strcmp(name, "Factory") == 0 || access(path, F_OK) != 0)
        return true;
    ck_assert_msg(zone_load(name, &z, &e) == 0, "%s", e.text);
    zone_text(&z, text);
    ck_assert_int_eq(zone_parse(text, &again), 0);
    ck_assert(zone_same(&z, &again));
    ck_assert_int_eq(setenv("TZ", name, 1), 0);
    tzset();
    for (uint32_t at = 86400; at < 4290000000u; at += 9999991) {
        time_t t = at;
        struct tm local;
        localtime_r(&t, &local);
        ck_assert_msg(local.tm_gmtoff == zone_ahead(&z, at), "%s at %u: %ld, not %d", name, at,
                      local.tm_gmtoff, zone_ahead(&z, at));
    }
    compared++;
    return true;
}

START_TEST(zone_files_are_read_as_the_c_library_reads_them)
{
    zone_names(compare, NULL);
    printf("%u zones compared\n", compared);
    ck_assert_uint_gt(compared, 200);
}
END_TEST

START_TEST(zone_names_that_are_none_are_refused)
{
    static const char *const none[] = {"",
                                       "Europe/Berlim",
                                       "../../etc/passwd",
                                       "/etc/localtime",
                                       "Europe/../Europe/Berlin",
                                       "Europe",
                                       "tzdata.zi",
                                       "a b"};
    struct err e;
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++)
        ck_assert_msg(zone_load(none[i], &z, &e) != 0, "'%s' is taken", none[i]);
    ck_assert_int_eq(zone_load("UTC", &z, &e), 0);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("zone");
    TCase *t = tcase_create("zone");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, zone_days_have_23_24_and_25_hours);
    tcase_add_test(t, zone_days_of_half_hours);
    tcase_add_test(t, zone_days_at_odd_changes_follow_one_another);
    tcase_add_test(t, zone_hash_is_of_every_release);
    tcase_add_test(t, zone_windows_begin_with_time);
    tcase_add_test(t, zone_windows_begin_before_the_first_day);
    tcase_add_test(t, zone_utc_is_no_zone);
    tcase_add_test(t, zone_times_without_one_are_of_local_clocks);
    tcase_add_loop_test(t, zone_windows_part_time, 0, 42);
    tcase_add_test(t, zone_windows_over_a_change_are_elapsed_hours);
    tcase_add_test(t, zone_tables_are_text_and_back);
    tcase_add_test(t, zone_files_end_in_a_rule);
    tcase_add_test(t, zone_files_cut_or_changed_are_no_danger);
    tcase_add_test(t, zone_files_are_read_as_the_c_library_reads_them);
    tcase_add_test(t, zone_names_that_are_none_are_refused);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
