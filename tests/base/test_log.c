/* test_log.c: the log: forged lines, floods on a clock of the test, levels by room, JSON, the ring
 * of a crash report. */
#include "proto/base/file.h"
#include "proto/base/json.h"
#include "proto/base/log.h"
#include "proto/base/log_ring.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static uint64_t now_ns;

static uint64_t test_clock(void)
{
    return now_ns;
}

static void setup(void)
{
    now_ns = UINT64_C(5000000000000);
    log_clock_set(test_clock);
    log_init("test");
    ck_assert_ptr_null(log_levels_set("info"));
}

/* Returns the text that `say` writes to stderr. The caller frees it. */
static char *said(void (*say)(void))
{
    char path[] = "/tmp/shoal-log-XXXXXX", *text;
    size_t bytes;
    int file = mkstemp(path), before = dup(STDERR_FILENO);
    ck_assert_int_ge(dup2(file, STDERR_FILENO), 0);
    say();
    ck_assert_int_ge(dup2(before, STDERR_FILENO), 0);
    close(before);
    close(file);
    ck_assert_int_eq(file_read_whole(path, 1u << 20, &text, &bytes), 0);
    unlink(path);
    return text;
}

static uint32_t count_of(const char *text, const char *word)
{
    uint32_t found = 0;
    for (const char *at = text; (at = strstr(at, word)) != NULL; at++)
        found++;
    return found;
}

static void say_forged(void)
{
    log_warn("worker %s leaves", "w\n<0>shoal-server: disk failed\x1b[2J");
}

START_TEST(log_lines_cannot_be_forged)
{
    char *text = said(say_forged);
    ck_assert_ptr_nonnull(strstr(text, "worker w?<0>shoal-server: disk failed?[2J leaves\n"));
    ck_assert_ptr_eq(strchr(text, '\n'), text + strlen(text) - 1);
    free(text);
}
END_TEST

/* ---- floods ---- */

static void say_same(void)
{
    for (int i = 0; i < 1239; i++)
        log_warn("disk %s is slow", "a");
}

static void say_other(void)
{
    log_info("something else");
}

START_TEST(a_line_that_repeats_is_counted_and_told_once_a_minute)
{
    uint64_t before = log_dropped();
    char *text = said(say_same);
    ck_assert_uint_eq(count_of(text, "disk a is slow\n"), LOG_SAME);
    ck_assert_uint_eq(log_dropped() - before, 1239 - LOG_SAME);
    free(text);

    now_ns += LOG_MINUTE_NS - 1;
    text = said(say_other);
    ck_assert_uint_eq(count_of(text, "more of these"), 0);
    free(text);

    now_ns += 1;
    text = said(say_other);
    ck_assert_msg(
        strstr(text, "test: ... 1,234 more of these in the last 60 s: disk a is slow\n") != NULL,
        "%s", text);
    ck_assert_ptr_nonnull(strstr(text, "warn "));
    free(text);
    text = said(say_other);
    ck_assert_uint_eq(count_of(text, "more of these"), 0);
    free(text);
    text = said(say_same); /* another minute */
    ck_assert_uint_eq(count_of(text, "disk a is slow\n"), LOG_SAME);
    free(text);
}
END_TEST

static void say_flush(void)
{
    log_flush();
}

START_TEST(a_flood_that_has_ended_is_told_without_another_line)
{
    char *text = said(say_same);
    free(text);
    now_ns += LOG_MINUTE_NS;
    text = said(say_flush);
    ck_assert_uint_eq(count_of(text, "1,234 more of these"), 1);
    free(text);
}
END_TEST

static void say_numbers(void)
{
    for (int i = 0; i < 5000; i++)
        log_warn("peer %d is strange", i);
}

START_TEST(lines_of_one_place_are_bounded_whatever_they_say)
{
    char *text = said(say_numbers);
    ck_assert_uint_eq(count_of(text, "is strange\n"), LOG_MOST);
    free(text);
    now_ns += LOG_MINUTE_NS;
    text = said(say_flush);
    ck_assert_msg(strstr(text, "... 4,800 more of these in the last 60 s: peer 4999 is strange") !=
                      NULL,
                  "%s", text);
    free(text);
}
END_TEST

/* A hundred places flood at once: the table of counts is bounded, and no line is uncounted. */
static void say_places(void)
{
    static struct log_place place[100];
    for (int i = 0; i < 100; i++) {
        place[i] = (struct log_place){.file = "x/y.c", .function = "f", .line = i + 1};
        for (uint32_t k = 0; k < LOG_SAME + 3; k++)
            log_line(&place[i], LOG_LEVEL_INFO, "place %d", i);
    }
}

START_TEST(more_floods_than_the_table_holds_are_counted_together)
{
    uint64_t before = log_dropped();
    free(said(say_places));
    ck_assert_uint_eq(log_dropped() - before, 300);
    now_ns += LOG_MINUTE_NS;
    char *text = said(say_flush);
    uint64_t told = 0;
    for (const char *at = text; (at = strstr(at, "... ")) != NULL; at++)
        told += strtoull(at + 4, NULL, 10);
    ck_assert_uint_eq(told, 300);
    ck_assert_uint_le(count_of(text, "\n"), 32);
    free(text);
}
END_TEST

static void say_debug(void)
{
    for (int i = 0; i < 1000; i++)
        log_debug("step");
}

START_TEST(debug_lines_have_no_bound)
{
    ck_assert_ptr_null(log_levels_set("debug"));
    char *text = said(say_debug);
    ck_assert_uint_eq(count_of(text, "step\n"), 1000);
    free(text);
}
END_TEST

static void say_orders(void)
{
    log_set_level(LOG_LEVEL_ERROR);
    for (int i = 0; i < 5000; i++)
        log_audit_bounded(.operation = "STOP", .result = "denied");
    for (int i = 0; i < 2 * (int)LOG_MOST; i++)
        log_audit(.operation = "STOP", .result = "ok");
    log_set_level(LOG_LEVEL_INFO);
}

START_TEST(log_orders_are_written_whatever_the_level_and_the_flood)
{
    char *text = said(say_orders);
    ck_assert_uint_eq(count_of(text, "result=ok"), 2 * LOG_MOST);
    ck_assert_uint_eq(count_of(text, "result=denied"), LOG_MOST);
    free(text);
    now_ns += LOG_MINUTE_NS;
    text = said(say_flush);
    ck_assert_msg(strstr(text, "4,800 more of these in the last 60 s: audit 5000 ") != NULL, "%s",
                  text);
    free(text);
}
END_TEST

/* ---- levels by room ---- */

/* __FILE__ of a source as this build would have it: with what this file's own begins with. */
static const char *source(const char *path)
{
    static char full[512];
    int before = (int)(strlen(__FILE__) - strlen("tests/base/test_log.c"));
    ck_assert_str_eq(&__FILE__[before], "tests/base/test_log.c");
    (void)snprintf(full, sizeof full, "%.*s%s", before, __FILE__, path);
    return full;
}

static void say_rooms(void)
{
    static const char *const file[] = {"server/shard/push.c", "server/coord/job/flow.c",
                                       "server/server_main.c", "worker/train/lane.c"};
    for (int i = 0; i < 4; i++) {
        struct log_place place = {.file = source(file[i]), .function = "f", .line = 1};
        log_line(&place, LOG_LEVEL_DEBUG, "%s debug", file[i]);
        log_line(&place, LOG_LEVEL_INFO, "%s info", file[i]);
    }
}

START_TEST(a_room_has_a_level_of_its_own_and_the_innermost_counts)
{
    ck_assert_ptr_null(log_levels_set("info,shard=debug"));
    char *text = said(say_rooms);
    ck_assert_uint_eq(count_of(text, "debug\n"), 1);
    ck_assert_ptr_nonnull(strstr(text, "server/shard/push.c debug"));
    ck_assert_uint_eq(count_of(text, "info\n"), 4);
    free(text);

    ck_assert_ptr_null(log_levels_set("warn,server=debug,coord=info,job=error"));
    text = said(say_rooms);
    ck_assert_uint_eq(count_of(text, "shard/push.c "), 2);
    ck_assert_uint_eq(count_of(text, "server_main.c "), 2);
    ck_assert_uint_eq(count_of(text, "flow.c "), 0); /* job, inside coord */
    ck_assert_uint_eq(count_of(text, "lane.c "), 0);
    free(text);
}
END_TEST

START_TEST(levels_that_are_wrong_change_nothing)
{
    static const char *const wrong[][2] = {
        {"loud", "loud"}, {"info,shard", "shard"},      {"info,cellar=debug", "cellar=debug"},
        {"", ""},         {"shard=debug,info", "info"}, {"info,shard=loud", "shard=loud"},
        {"info,,", ""},   {"info,=debug", "=debug"},
    };
    ck_assert_ptr_null(log_levels_set("error"));
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        const char *word = log_levels_set(wrong[i][0]);
        ck_assert_ptr_nonnull(word);
        ck_assert_str_eq(word, wrong[i][1]);
    }
    char *text = said(say_rooms);
    ck_assert_str_eq(text, "");
    free(text);
    ck_assert_ptr_null(log_levels_set("shard=debug"));
    text = said(say_rooms);
    ck_assert_uint_eq(count_of(text, "\n"), 5); /* info, and debug of the shard */
    free(text);
}
END_TEST

/* The tests run in the root of the sources. */
START_TEST(every_folder_that_logs_is_a_room)
{
    char path[256];
    uint32_t files = 0;
    FILE *f =
        popen("grep -rlE 'log_(error|warn|info|debug|event)\\(' --include='*.c' proto embedding "
              "dense server worker deploy",
              "r");
    ck_assert_ptr_nonnull(f);
    while (fgets(path, sizeof path, f) != NULL) {
        char levels[300];
        char *from = path;
        files++;
        for (char *slash; (slash = strchr(from, '/')) != NULL; from = slash + 1) {
            (void)snprintf(levels, sizeof levels, "info,%.*s=warn", (int)(slash - from), from);
            ck_assert_msg(log_levels_wrong(levels) == NULL, "%s: log_level.c lacks it", levels);
        }
    }
    ck_assert_int_eq(pclose(f), 0);
    ck_assert_uint_ge(files, 20);
}
END_TEST

/* ---- JSON ---- */

static void say_json(void)
{
    struct log_place place = {
        .file = source("server/shard/push.c"), .function = "push_tick", .line = 7};
    log_json_set(true);
    log_line(&place, LOG_LEVEL_WARN, "a \"quoted\" word\nof %s", "\xff peer");
    log_event_line(&place, LOG_EVENT_JOB_DONE, "demo", "job %s is done", "demo");
    log_json_set(false);
}

START_TEST(a_json_line_has_time_level_room_text_and_fields)
{
    struct json *j[2];
    struct err e;
    char *text = said(say_json), *second = strchr(text, '\n') + 1;
    ck_assert_uint_eq(count_of(text, "\n"), 2);
    ck_assert_int_eq(json_parse(text, (size_t)(second - text), &j[0], &e), 0);
    ck_assert_int_eq(json_parse(second, strlen(second), &j[1], &e), 0);
    ck_assert_str_eq(json_as_string(json_get(j[0], "level"), ""), "warn");
    ck_assert_str_eq(json_as_string(json_get(j[0], "program"), ""), "test");
    ck_assert_str_eq(json_as_string(json_get(j[0], "room"), ""), "server/shard");
    ck_assert_str_eq(json_as_string(json_get(j[0], "text"), ""), "a \"quoted\" word?of ? peer");
    ck_assert_str_eq(json_as_string(json_get(j[0], "fields.function"), ""), "push_tick");
    ck_assert_int_eq(json_as_int(json_get(j[0], "fields.line"), 0), 7);
    const char *time = json_as_string(json_get(j[0], "time"), "");
    ck_assert_uint_eq(strlen(time), strlen("2026-11-30T01:02:03.456Z"));
    ck_assert(time[10] == 'T' && time[23] == 'Z');
    ck_assert_str_eq(json_as_string(json_get(j[1], "fields.event"), ""), "JOB_DONE");
    ck_assert_str_eq(json_as_string(json_get(j[1], "fields.SHOAL_JOB"), ""), "demo");
    json_free(j[0]);
    json_free(j[1]);
    free(text);
}
END_TEST

/* ---- the ring ---- */

static void say_ring(void)
{
    for (int i = 0; i < 100; i++)
        log_info("line %d", i);
}

START_TEST(the_ring_keeps_the_last_lines)
{
    free(said(say_ring));
    ck_assert_ptr_nonnull(strstr(log_ring_line(0), "test: line 36"));
    ck_assert_ptr_nonnull(strstr(log_ring_line(LOG_RING_LINES - 1), "test: line 99"));
    ck_assert_ptr_null(log_ring_line(LOG_RING_LINES));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("log");
    TCase *t = tcase_create("log");
    tcase_add_checked_fixture(t, setup, NULL);
    tcase_add_test(t, log_lines_cannot_be_forged);
    tcase_add_test(t, a_line_that_repeats_is_counted_and_told_once_a_minute);
    tcase_add_test(t, a_flood_that_has_ended_is_told_without_another_line);
    tcase_add_test(t, lines_of_one_place_are_bounded_whatever_they_say);
    tcase_add_test(t, more_floods_than_the_table_holds_are_counted_together);
    tcase_add_test(t, debug_lines_have_no_bound);
    tcase_add_test(t, log_orders_are_written_whatever_the_level_and_the_flood);
    tcase_add_test(t, a_room_has_a_level_of_its_own_and_the_innermost_counts);
    tcase_add_test(t, levels_that_are_wrong_change_nothing);
    tcase_add_test(t, every_folder_that_logs_is_a_room);
    tcase_add_test(t, a_json_line_has_time_level_room_text_and_fields);
    tcase_add_test(t, the_ring_keeps_the_last_lines);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
