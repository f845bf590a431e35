/* test_object.c: a log as objects: its list, and each object through the cache folder. */
#include "proto/base/hash.h"
#include "proto/job/config.h"
#include "tests/lib/worker_log.h"
#include "worker/data/convert.h"
#include "worker/data/object.h"

#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct cache cache;
static struct job job;
static struct string_list lines;
static struct err e;
static char list_text[512], open_text[1024];

static void setup(void)
{
    worker_folder_make();
    e = (struct err){0};
    ck_assert_int_eq(cache_init(&cache, worker_path("cache"), &e), 0);
    job = (struct job){0};
    job.data.objects.of[WIRE_TRAIN].on = true;
    job.data.objects.of[WIRE_TRAIN].list = list_text;
    job.data.objects.of[WIRE_TRAIN].open = open_text;
    job.data.objects.quiet_s = 5;
    job.data.objects.tries = 1;
}

static void teardown(void)
{
    config_list_free(&lines);
    worker_folder_remove();
}

static int lists(const char *words)
{
    config_list_free(&lines);
    snprintf(list_text, sizeof list_text, "printf '%s'", words);
    return object_list(&job, WIRE_TRAIN, &lines, &e);
}

/* Opens the object with this command; returns its text, or NULL. */
static const char *opens(const char *line, const char *words)
{
    static char text[4096];
    struct source s;
    snprintf(open_text, sizeof open_text, "%s", words);
    if (object_open(&job, WIRE_TRAIN, line, &cache, &s, &e) != 0)
        return NULL;
    ssize_t n = pread(s.file[0].fd, text, sizeof text - 1, 0);
    ck_assert_int_eq(n, (ssize_t)s.bytes);
    text[n] = '\0';
    source_close(&s);
    return text;
}

START_TEST(a_list_is_in_byte_order_whatever_prints_it)
{
    ck_assert_int_eq(lists("b\\t7\\nc\\r\\n\\na"), 0);
    ck_assert_uint_eq(lines.count, 3);
    ck_assert_str_eq(lines.item[0], "a");
    ck_assert_str_eq(lines.item[1], "b\t7");
    ck_assert_str_eq(lines.item[2], "c");
}
END_TEST

START_TEST(lines_that_cannot_be_are_refused)
{
    static const char *const bad[] = {
        "a\\na\\n",   "a\\t1\\na\\t2\\n", "\\tx\\n",     "a\\tmany\\n",      "a\\t1\\t2\\t3\\n",
        "a\\001b\\n", "a\\t-5\\n",        "caf\\351\\n", "a\\t1\\t\\351\\n", "a\\302\\205b\\n"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        ck_assert_msg(lists(bad[i]) == SHOAL_E_DATA, "%s: %s", bad[i], e.text);
    ck_assert_int_eq(lists(""), SHOAL_E_NOINPUT);
    ck_assert_int_eq(lists("a\\t1\\tmark of it\\n"), 0);
    ck_assert_int_eq(lists("caf\\303\\251\\n"), 0);
    ck_assert_int_eq(lists("caf\\351\\n"), SHOAL_E_DATA);
    ck_assert_ptr_nonnull(strstr(e.text, "byte 4 (0xe9)"));
}
END_TEST

START_TEST(a_line_survives_its_way_over_the_wire)
{
    static const char *const line[] = {"a", "a b", "a\t17", "a b\t17\tx y", "a\t17\t"};
    for (size_t i = 0; i < sizeof line / sizeof line[0]; i++) {
        char name[LIMIT_PATH], mark[LIMIT_PATH], again[LIMIT_PATH];
        size_t n = object_name(line[i]);
        snprintf(name, sizeof name, "%.*s", (int)n, line[i]);
        snprintf(mark, sizeof mark, "%s", line[i] + n + (line[i][n] != '\0'));
        char *tab = strchr(mark, '\t');
        if (tab != NULL)
            *tab = ' ';
        object_line(name, mark, again);
        ck_assert_str_eq(again, line[i]);
    }
}
END_TEST

START_TEST(an_object_is_opened_once_and_then_found)
{
    ck_assert_str_eq(opens("x;y", "printf '%s\\n' \"$1\""), "x;y\n"); /* no word of the shell */
    /* the same command, so the same object: it is not run again */
    snprintf(open_text, sizeof open_text, "printf once >> %s; echo t", worker_path("calls"));
    char words[sizeof open_text];
    strcpy(words, open_text);
    for (int i = 0; i < 3; i++)
        ck_assert_str_eq(opens("a", words), "t\n");
    ck_assert_str_eq(opens("a\t2", words), "t\n"); /* two bytes with that mark: another */
    char *calls;
    size_t bytes;
    ck_assert_int_eq(config_read(worker_path("calls"), &calls, &bytes, &e), 0);
    ck_assert_uint_eq(bytes, 2 * strlen("once"));
    free(calls);
}
END_TEST

START_TEST(half_an_object_is_none)
{
    ck_assert_ptr_null(opens("a", "echo one; echo why >&2; exit 3"));
    ck_assert_ptr_nonnull(strstr(e.text, "object a"));
    ck_assert_ptr_nonnull(strstr(e.text, "status 3: why"));
    ck_assert_ptr_null(opens("a", "echo one; kill -9 $$"));
    ck_assert_ptr_nonnull(strstr(e.text, "killed by signal 9"));
    ck_assert_ptr_null(opens("a\t9", "echo one"));
    ck_assert_ptr_nonnull(strstr(e.text, "4 bytes came, the list says 9"));
    ck_assert_ptr_null(opens("a\t3", "echo one"));
    ck_assert_ptr_null(opens("a", "echo one | gzip | head -c 15"));
    ck_assert_ptr_nonnull(strstr(e.text, "ends too early"));
    ck_assert_str_eq(opens("a\t4", "echo one"), "one\n");
    ck_assert_str_eq(opens("b", "echo one | gzip"), "one\n");
}
END_TEST

/* Otherwise its text would be found in the cache folder for ever. */
START_TEST(half_an_event_file_is_none)
{
    struct convert_sums sums;
    struct job text = {0};
    char words[1024];
    worker_log_job(&text, 100, false);
    ck_assert_int_eq(convert_split(&text, WIRE_TRAIN, worker_path("whole"), NULL, NULL, &sums, &e),
                     0);
    job_free(&text);
    job.data.format = DATA_EVENTS;
    job.data.objects.tries = 2;
    snprintf(words, sizeof words, "head -c %d %s", (int)sums.file.bytes - 1, worker_path("whole"));
    ck_assert_ptr_null(opens("a", words));
    ck_assert_int_eq(e.code, SHOAL_E_DATA);
    ck_assert_ptr_nonnull(strstr(e.text, "object a: its end is damaged"));
    ck_assert_ptr_nonnull(strstr(e.text, "tried 2 times"));
    ck_assert_ptr_null(opens("a", "echo text"));
    ck_assert_ptr_nonnull(strstr(e.text, "no event file"));
    ck_assert_ptr_null(opens("a", ":"));
    ck_assert_ptr_nonnull(strstr(e.text, "no event file"));
    struct source s;
    snprintf(open_text, sizeof open_text, "cat %s", worker_path("whole"));
    ck_assert_int_eq(object_open(&job, WIRE_TRAIN, "a", &cache, &s, &e), 0);
    ck_assert_uint_eq(s.bytes, sums.file.bytes);
    source_close(&s);
}
END_TEST

/* A command's messages do not make it fail, and the last ones are reported. They are no sign of
 * progress. */
START_TEST(a_command_may_say_much)
{
    ck_assert_msg(opens("a", "set -e; seq 100000 >&2; echo one; seq 100000 >&2") != NULL, "%s",
                  e.text);
    ck_assert_ptr_null(opens("b", "seq 100000 >&2; echo no route >&2; exit 3"));
    ck_assert_msg(strstr(e.text, "status 3: no route;") != NULL, "%s", e.text);
    ck_assert_ptr_null(opens("b", "exec >&-; seq 100000 >&2; echo too late >&2; exit 3"));
    ck_assert_msg(strstr(e.text, "status 3: too late;") != NULL, "%s", e.text);
    job.data.objects.quiet_s = 1;
    ck_assert_ptr_null(opens("c", "echo one; while :; do echo still here >&2; sleep 0.1; done"));
    ck_assert_msg(strstr(e.text, "not a byte came for 1 s") != NULL, "%s", e.text);
    ck_assert_msg(strstr(e.text, ": still here") != NULL, "%s", e.text);
    job.data.objects.quiet_s = 0;
    ck_assert_str_eq(opens("d", "(sleep 100 >&2) >&- & seq 100000 >&2; echo one"), "one\n");
}
END_TEST

START_TEST(what_hangs_is_ended_and_what_it_started)
{
    job.data.objects.quiet_s = 1;
    snprintf(open_text, sizeof open_text, "(sleep 2; touch %s) & echo one; sleep 1000",
             worker_path("late"));
    char words[sizeof open_text];
    strcpy(words, open_text);
    ck_assert_ptr_null(opens("a", words));
    ck_assert_int_eq(e.code, SHOAL_E_UNAVAILABLE);
    ck_assert_ptr_nonnull(strstr(e.text, "not a byte came for 1 s"));
    sleep(2);
    ck_assert_int_ne(access(worker_path("late"), F_OK), 0);
}
END_TEST

START_TEST(it_is_tried_as_often_as_the_job_says)
{
    job.data.objects.tries = 2;
    snprintf(open_text, sizeof open_text, "[ -e %s ] && echo two || { touch %s; exit 1; }",
             worker_path("tried"), worker_path("tried"));
    char words[sizeof open_text];
    strcpy(words, open_text);
    ck_assert_str_eq(opens("a", words), "two\n");
    ck_assert_ptr_null(opens("b", "exit 1"));
    ck_assert_ptr_nonnull(strstr(e.text, "tried 2 times"));
}
END_TEST

START_TEST(what_is_forgotten_is_opened_again)
{
    struct source s;
    snprintf(open_text, sizeof open_text, "printf 1 >> %s; echo t", worker_path("calls"));
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(object_open(&job, WIRE_TRAIN, "a", &cache, &s, &e), 0);
        object_forget(&s, &cache);
        source_close(&s);
    }
    char *calls;
    size_t bytes;
    ck_assert_int_eq(config_read(worker_path("calls"), &calls, &bytes, &e), 0);
    ck_assert_uint_eq(bytes, 2);
    free(calls);
}
END_TEST

static uint32_t calls_made(void)
{
    char *calls;
    size_t bytes;
    ck_assert_int_eq(config_read(worker_path("calls"), &calls, &bytes, &e), 0);
    free(calls);
    return (uint32_t)bytes;
}

START_TEST(objects_keep_to_their_room_in_the_folder)
{
    static const char *const name[] = {"a", "b", "c", "d"};
    char words[1024];
    job.data.cache_max = 2500;
    snprintf(words, sizeof words, "printf 1 >> %s; head -c 1000 /dev/zero", worker_path("calls"));
    for (size_t i = 0; i < 4; i++) {
        ck_assert_ptr_nonnull(opens(name[i], words));
        usleep(20000); /* the folder's clock */
    }
    ck_assert_ptr_nonnull(opens("d", words));
    ck_assert_ptr_nonnull(opens("c", words));
    ck_assert_uint_eq(calls_made(), 4);
    ck_assert_ptr_nonnull(opens("a", words)); /* the oldest was removed */
    ck_assert_uint_eq(calls_made(), 5);
}
END_TEST

/* On a file system without locks the object is read all the same. */
START_TEST(without_a_lock_an_object_is_opened_too)
{
    char path[512];
    ck_assert_ptr_nonnull(opens("x", "echo x")); /* creates the folder */
    uint64_t group = hash_bytes("echo a", 6, object_salt("a")), whole = hash_bytes("a", 1, group);
    snprintf(path, sizeof path, "%s/%016" PRIx64 "-%016" PRIx64 ".object.tmp-lock",
             worker_path("cache"), group, whole);
    ck_assert_int_eq(mkdir(path, 0700), 0);
    ck_assert_int_eq(cache_lock(&cache, group, whole, "object"), -1);
    ck_assert_str_eq(opens("a", "echo a"), "a\n");
    ck_assert_str_eq(opens("a", "echo a"), "a\n");
    ck_assert_int_eq(rmdir(path), 0);
}
END_TEST

START_TEST(all_of_them_are_one_log)
{
    struct source s;
    snprintf(list_text, sizeof list_text, "printf 'b\\na\\n'");
    snprintf(open_text, sizeof open_text, "echo $1$1");
    ck_assert_int_eq(object_open_all(&job, WIRE_TRAIN, &cache, &s, &e), 0);
    ck_assert_uint_eq(s.count, 2);
    ck_assert_uint_eq(s.bytes, 6);
    ck_assert_str_eq(s.file[1].name, "b");
    ck_assert_uint_eq(s.file[1].base, 3);
    source_close(&s);
}
END_TEST

#define SALT 0xd2f6d0996f37a720ull

/* The salt draws the object's rows, here and at the coordinator. It depends only on the name. */
START_TEST(an_objects_salt_is_that_of_every_release)
{
    ck_assert_uint_eq(object_salt("a\t3"), SALT);
    ck_assert_uint_eq(object_salt("a"), SALT);
}
END_TEST

static uint8_t *gone;
static uint32_t gone_bytes;

/* Lists a growing log again. */
static int lists_again(const char *command, const struct nameset *taken)
{
    config_list_free(&lines);
    free(gone);
    job.data.objects.grow_ms = 1000;
    snprintf(list_text, sizeof list_text, "%s", command);
    return object_list_again(&job, taken, &lines, &gone, &gone_bytes, &e);
}

START_TEST(a_list_again_has_what_is_not_taken)
{
    struct nameset taken = {.count = 0};
    ck_assert_int_eq(lists_again("printf 'c\\t3\\na\\t1\\nb\\t2\\n'", &taken), 0);
    ck_assert_uint_eq(lines.count, 3);
    ck_assert_int_eq(nameset_add(&taken, nameset_item("b", 1)), 0);
    ck_assert_int_eq(nameset_add(&taken, nameset_item("gone", 4)), 0);
    ck_assert_int_eq(lists_again("printf 'a\\t1\\nb\\t9\\nb0\\n'", &taken), 0);
    ck_assert_uint_eq(lines.count, 2);
    ck_assert_str_eq(lines.item[0], "a\t1");
    ck_assert_str_eq(lines.item[1], "b0");
    ck_assert_ptr_null(gone); /* there is enough room */
    ck_assert_int_eq(lists_again("true", &taken), 0);
    ck_assert_uint_eq(lines.count, 0);
    nameset_close(&taken);
}
END_TEST

/* As many names of 100 bytes as can be distinguished, all but five of them taken; and one more. */
START_TEST(a_list_of_a_million_names)
{
    char name[128], command[64];
    struct nameset taken = {.count = 0};
    ck_assert_int_eq(nameset_add(&taken, nameset_item("first", 5)), 0);
    for (uint32_t i = 6; i <= NAMESET_MAX; i++) {
        int bytes = snprintf(name, sizeof name, "%0100u", i);
        ck_assert_int_eq(nameset_add(&taken, nameset_item(name, (size_t)bytes)), 0);
    }
    snprintf(command, sizeof command, "seq -f %%0100.0f %u", NAMESET_MAX);
    ck_assert_msg(lists_again(command, &taken) == 0, "%s", e.text);
    ck_assert_uint_eq(lines.count, 5);
    ck_assert_uint_eq(gone_bytes, (taken.count + 7) / 8);
    ck_assert_uint_eq(gone[0], 1); /* only the first of them */
    for (uint32_t i = 1; i < gone_bytes; i++)
        ck_assert_uint_eq(gone[i], 0);
    snprintf(command, sizeof command, "seq -f %%0100.0f %u", NAMESET_MAX + 1);
    ck_assert_int_eq(lists_again(command, &taken), SHOAL_E_CONFIG);
    ck_assert_ptr_nonnull(strstr(e.text, "list fewer, those from a date on"));
    nameset_close(&taken);
}
END_TEST

START_TEST(a_file_is_known_by_bytes_and_time)
{
    static const struct nameset none;
    struct string_list globs = {0};
    struct source s;
    job.data.objects.of[0].list = job.data.objects.of[0].open = NULL;
    job.data.objects.grow_ms = 1000;
    ck_assert_int_eq(config_list_add(&globs, worker_path("none-*")), 0);
    ck_assert_int_eq(config_list_add(&globs, worker_path("part-*")), 0);
    job.data.train = globs;
    ck_assert_int_eq(object_list_again(&job, &none, &lines, &gone, &gone_bytes, &e), 0);
    ck_assert_uint_eq(lines.count, 0);
    worker_write("part-1", "abc\n", 4);
    ck_assert_int_eq(object_list_again(&job, &none, &lines, &gone, &gone_bytes, &e), 0);
    ck_assert_uint_eq(lines.count, 1);
    ck_assert_ptr_nonnull(strstr(lines.item[0], "part-1\t4\t"));
    ck_assert_int_eq(object_open(&job, WIRE_TRAIN, lines.item[0], &cache, &s, &e), 0);
    ck_assert_uint_eq(s.bytes, 4);
    source_close(&s);
    worker_write("part-1", "abc\ndef\n", 8);
    ck_assert_int_eq(object_open(&job, WIRE_TRAIN, lines.item[0], &cache, &s, &e), SHOAL_E_DATA);
    ck_assert_ptr_nonnull(strstr(e.text, "has 8 bytes, and had 4 when it was listed"));
    config_list_free(&globs);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("object");
    TCase *c = tcase_create("object");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_set_timeout(c, 60);
    tcase_add_test(c, a_list_is_in_byte_order_whatever_prints_it);
    tcase_add_test(c, lines_that_cannot_be_are_refused);
    tcase_add_test(c, a_line_survives_its_way_over_the_wire);
    tcase_add_test(c, an_object_is_opened_once_and_then_found);
    tcase_add_test(c, half_an_object_is_none);
    tcase_add_test(c, half_an_event_file_is_none);
    tcase_add_test(c, a_command_may_say_much);
    tcase_add_test(c, what_hangs_is_ended_and_what_it_started);
    tcase_add_test(c, it_is_tried_as_often_as_the_job_says);
    tcase_add_test(c, what_is_forgotten_is_opened_again);
    tcase_add_test(c, objects_keep_to_their_room_in_the_folder);
    tcase_add_test(c, without_a_lock_an_object_is_opened_too);
    tcase_add_test(c, all_of_them_are_one_log);
    tcase_add_test(c, an_objects_salt_is_that_of_every_release);
    tcase_add_test(c, a_list_again_has_what_is_not_taken);
    tcase_add_test(c, a_list_of_a_million_names);
    tcase_add_test(c, a_file_is_known_by_bytes_and_time);
    suite_add_tcase(s, c);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
