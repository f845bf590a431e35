/* test_inputs.c: the inputs that a worker has open: opened outside the loop, counted, and closed
 * when no longer needed. */
#include "tests/lib/worker_files.h"
#include "worker/data/inputs.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OBJECTS (INPUTS_IDLE + 4u)

/* Work runs at once, as in a thread; the test decides when the loop gets its end. */
static struct env_work *waiting[64];
static uint32_t waits;

static void work_of(struct env *env, struct env_work *w)
{
    (void)env;
    w->run(w);
    waiting[waits++] = w;
}
static const struct env_ops ops = {.work = work_of};
static struct env env = {.ops = &ops};

static void loop_turns(void)
{
    for (uint32_t i = 0; i < waits; i++)
        waiting[i]->done(waiting[i]);
    waits = 0;
}

static struct job job;
static struct inputs inputs;
static uint32_t changes;

static void changed(void *context)
{
    (void)context;
    changes++;
}

static void setup(void)
{
    char text[2048];
    struct err e = {0};
    worker_folder_make();
    for (uint32_t i = 0; i < OBJECTS; i++) {
        char name[32];
        int bytes = snprintf(text, sizeof text, "label,a\n1,%u\n0,7\n", i);
        snprintf(name, sizeof name, "o%02u", i);
        worker_write(name, text, (size_t)bytes);
    }
    snprintf(text, sizeof text,
             "data:\n"
             "  format: csv\n"
             "  label: label\n"
             "  cache: %s\n"
             "  cache_max: 0\n"
             "  train: {object: {list: 'ls %s | grep ^o', open: 'echo >> %s/calls; cat %s/$1'}}\n",
             worker_path("cache"), worker_path(""), worker_path(""), worker_path(""));
    ck_assert_msg(job_parse(text, strlen(text), "job", NULL, &job, &e) == 0, "%s", e.text);
    job.data.head = strdup("label,a"); /* as the coordinator sends it */
    inputs_init(&inputs, &env, &job, changed, NULL);
    waits = changes = 0;
}

static void teardown(void)
{
    loop_turns();
    inputs_close(&inputs);
    job_free(&job);
    worker_folder_remove();
}

static int ask(uint32_t object, struct dataset **d)
{
    char line[16];
    struct err e = {0};
    snprintf(line, sizeof line, "o%02u", object);
    return inputs_open(&inputs, 0, object, line, d, &e);
}

static uint32_t calls(void)
{
    char command[1024], text[32] = "";
    snprintf(command, sizeof command, "wc -l < %s", worker_path("calls"));
    FILE *f = popen(command, "r");
    ck_assert_ptr_nonnull(fgets(text, sizeof text, f));
    pclose(f);
    return (uint32_t)atoi(text);
}

START_TEST(an_object_is_there_when_the_loop_has_turned)
{
    struct dataset *d = NULL, *again = NULL;
    ck_assert_int_eq(ask(3, &d), SHOAL_E_AGAIN);
    ck_assert_int_eq(ask(3, &d), SHOAL_E_AGAIN); /* it is opened once */
    ck_assert(inputs_busy(&inputs));
    loop_turns();
    ck_assert_uint_eq(changes, 1);
    ck_assert_int_eq(ask(3, &d), 0);
    ck_assert_uint_eq(dataset_rows(d), 2);
    ck_assert_int_eq(ask(3, &again), 0);
    ck_assert_ptr_eq(d, again);
    ck_assert_uint_eq(calls(), 1);
}
END_TEST

START_TEST(the_list_and_the_first_line_are_for_all)
{
    struct err e;
    ck_assert_int_eq(inputs_list(&inputs, &e), SHOAL_E_AGAIN);
    loop_turns();
    ck_assert_int_eq(inputs_list(&inputs, &e), 0);
    ck_assert_uint_eq(inputs.got.lines.count, OBJECTS);
    ck_assert_str_eq(inputs.got.head, "label,a");
}
END_TEST

static int list_made(struct err *e)
{
    inputs_relist(&inputs, 0);
    ck_assert_int_eq(inputs_list(&inputs, e), SHOAL_E_AGAIN);
    loop_turns();
    return inputs_list(&inputs, e);
}

/* Objects without rows are skipped. */
START_TEST(the_first_line_is_of_the_first_object_that_has_one)
{
    struct err e = {0};
    free(job.data.head);
    job.data.head = NULL;
    worker_write("o00", "", 0);
    worker_write("o01", "\n", 1);
    for (int grows = 0; grows < 2; grows++) {
        job.data.objects.grow_ms = grows ? 1000 : 0;
        ck_assert_msg(list_made(&e) == 0, "%s", e.text);
        ck_assert_uint_eq(inputs.got.lines.count, OBJECTS);
        ck_assert_str_eq(inputs.got.head, "label,a");
    }
    free(job.data.objects.of[0].list);
    job.data.objects.of[0].list = strdup("echo o00; echo o01");
    ck_assert_int_eq(list_made(&e), 0); /* the log grows: lines may still come */
    ck_assert_uint_eq(inputs.got.lines.count, 0);
    job.data.objects.grow_ms = 0;
    ck_assert_int_eq(list_made(&e), SHOAL_E_DATA);
    ck_assert_ptr_nonnull(strstr(e.text, "no line in any of the 2 objects"));
}
END_TEST

/* A restarted coordinator asks again, and the log may have grown. */
START_TEST(a_list_is_asked_for_anew)
{
    struct err e;
    ck_assert_int_eq(inputs_list(&inputs, &e), SHOAL_E_AGAIN);
    loop_turns();
    ck_assert_int_eq(inputs_list(&inputs, &e), 0);
    worker_write("o99", "label,a\n1,1\n", 12);
    ck_assert_int_eq(inputs_list(&inputs, &e), 0);
    ck_assert_uint_eq(inputs.got.lines.count, OBJECTS); /* the list is unchanged */
    inputs_relist(&inputs, 0);
    ck_assert_uint_eq(inputs.got.lines.count, 0);
    ck_assert_int_eq(inputs_list(&inputs, &e), SHOAL_E_AGAIN);
    loop_turns();
    ck_assert_int_eq(inputs_list(&inputs, &e), 0);
    ck_assert_uint_eq(inputs.got.lines.count, OBJECTS + 1);
}
END_TEST

START_TEST(each_split_has_objects_of_its_own)
{
    struct dataset *d = NULL, *valid = NULL;
    struct err e = {0};
    job.data.objects.of[1].on = true;
    job.data.objects.of[1].list = strdup("echo v");
    job.data.objects.of[1].open = strdup("printf 'label,a\\n1,1\\n'");
    ck_assert_int_eq(ask(3, &d), SHOAL_E_AGAIN);
    ck_assert_int_eq(inputs_open(&inputs, 1, 3, "v", &valid, &e), SHOAL_E_AGAIN);
    loop_turns();
    ck_assert_int_eq(ask(3, &d), 0);
    ck_assert_int_eq(inputs_open(&inputs, 1, 3, "v", &valid, &e), 0);
    ck_assert_uint_eq(dataset_rows(d), 2);
    ck_assert_uint_eq(dataset_rows(valid), 1);
    inputs_relist(&inputs, 1);
    ck_assert_int_eq(inputs_list(&inputs, &e), SHOAL_E_AGAIN);
    loop_turns();
    ck_assert_int_eq(inputs_list(&inputs, &e), 0);
    ck_assert_uint_eq(inputs.got.lines.count, 1);
    ck_assert_str_eq(inputs.got.lines.item[0], "v");
    ck_assert_ptr_null(inputs.got.head); /* columns are data.train's */
}
END_TEST

/* An input that a thread had opened and the loop had not seen yet used to be closed. */
START_TEST(what_opens_is_not_closed_for_room)
{
    struct dataset *d[OBJECTS];
    for (uint32_t i = 0; i <= INPUTS_IDLE; i++)
        ck_assert_int_eq(ask(i, &d[i]), SHOAL_E_AGAIN);
    loop_turns();
    for (uint32_t i = 0; i <= INPUTS_IDLE; i++)
        ck_assert_int_eq(ask(i, &d[i]), 0);
    ck_assert_int_eq(ask(INPUTS_IDLE + 1, &d[0]), SHOAL_E_AGAIN);
    for (uint32_t i = 0; i <= INPUTS_IDLE; i++)
        inputs_release(&inputs, d[i]);
    loop_turns();
    ck_assert_int_eq(ask(INPUTS_IDLE + 1, &d[0]), 0);
    ck_assert_uint_eq(dataset_rows(d[0]), 2);
}
END_TEST

START_TEST(those_used_last_stay_open_the_others_are_opened_again)
{
    struct dataset *d;
    for (uint32_t i = 0; i < OBJECTS; i++) {
        ck_assert_int_eq(ask(i, &d), SHOAL_E_AGAIN);
        loop_turns();
        ck_assert_int_eq(ask(i, &d), 0);
        inputs_release(&inputs, d);
    }
    ck_assert_uint_eq(inputs.count, INPUTS_IDLE);
    ck_assert_uint_eq(calls(), OBJECTS);
    ck_assert_int_eq(ask(OBJECTS - 1, &d), 0);
    ck_assert_int_eq(ask(0, &d), SHOAL_E_AGAIN);
    ck_assert_uint_eq(calls(), OBJECTS + 1); /* cache_max 0: its text was removed */
}
END_TEST

START_TEST(with_room_in_the_cache_none_is_opened_again)
{
    struct dataset *d;
    job.data.cache_max = 1 << 20;
    for (uint32_t k = 0; k < 2 * OBJECTS; k++) {
        uint32_t i = k % OBJECTS;
        if (ask(i, &d) == SHOAL_E_AGAIN) {
            loop_turns();
            ck_assert_int_eq(ask(i, &d), 0);
        }
        inputs_release(&inputs, d);
    }
    ck_assert_uint_eq(calls(), OBJECTS);
}
END_TEST

/* Counts the files in the cache folder, without locks. */
static int kept(const char *suffix)
{
    char locks[32];
    snprintf(locks, sizeof locks, "%s.tmp-", suffix);
    return worker_count_files("cache", suffix) - worker_count_files("cache", locks);
}

static void use(uint32_t object)
{
    struct dataset *d;
    if (ask(object, &d) == SHOAL_E_AGAIN) {
        loop_turns();
        ck_assert_int_eq(ask(object, &d), 0);
    }
    inputs_release(&inputs, d);
}

static void job_ends(void)
{
    inputs_close(&inputs);
    inputs_init(&inputs, &env, &job, changed, NULL);
}

/* A worker under systemd keeps no file from job to job: neither of inputs that stayed open, nor of
 * those opened for their first line, nor of a killed worker. */
START_TEST(with_no_room_in_the_cache_nothing_outlives_the_job)
{
    struct dataset *d;
    struct err e;
    ck_assert_int_eq(inputs_list(&inputs, &e), SHOAL_E_AGAIN);
    loop_turns();
    ck_assert_int_eq(kept(".object"), 1);
    use(0);
    ck_assert_uint_eq(calls(), 1);
    worker_write("cache/0123456789abcdef-0123456789abcdef.object", "left", 4);
    for (uint32_t i = 1; i < 5; i++)
        use(i);
    ck_assert_int_eq(ask(4, &d), 0); /* to the end */
    job_ends();
    ck_assert_int_eq(kept(".object"), 0);
    ck_assert_int_eq(kept(".index"), 0);
}
END_TEST

START_TEST(indexes_keep_to_the_room_of_the_cache)
{
    job.data.cache_max = 1000; /* texts of 16 bytes, indexes of 104 */
    for (uint32_t i = 0; i < OBJECTS; i++)
        use(i);
    ck_assert_int_eq(kept(".object"), OBJECTS);
    ck_assert_int_le(kept(".index"), 1000 / 104 + 1);
    job_ends();
    ck_assert_int_eq(kept(".object"), OBJECTS);
}
END_TEST

START_TEST(one_that_cannot_be_opened_is_tried_again)
{
    struct dataset *d;
    struct err e;
    job.data.objects.tries = 1;
    ck_assert_int_eq(inputs_open(&inputs, 0, 1, "nobody", &d, &e), SHOAL_E_AGAIN);
    loop_turns();
    ck_assert_int_eq(inputs_open(&inputs, 0, 1, "nobody", &d, &e), SHOAL_E_NOINPUT);
    ck_assert_ptr_nonnull(strstr(e.text, "object nobody"));
    ck_assert_int_eq(ask(1, &d), SHOAL_E_AGAIN);
    loop_turns();
    ck_assert_int_eq(ask(1, &d), 0);
    ck_assert_int_eq(inputs_open(&inputs, 3, INPUTS_NO_OBJECT, "", &d, &e), SHOAL_E_MALFORMED);
    ck_assert_int_eq(inputs_open(&inputs, 0, LIMIT_OBJECTS, "a", &d, &e), SHOAL_E_MALFORMED);
}
END_TEST

/* Its lane was taken away while the input opened; the input opens when the cause of the failure is
 * gone. */
START_TEST(a_failure_that_nobody_waited_for_is_not_told)
{
    struct dataset *d;
    struct err e;
    job.data.objects.tries = 1;
    ck_assert_int_eq(rename(worker_path("o01"), worker_path("away")), 0);
    ck_assert_int_eq(ask(1, &d), SHOAL_E_AGAIN);
    ck_assert_int_eq(inputs_open(&inputs, 0, 2, "nobody", &d, &e), SHOAL_E_AGAIN);
    inputs_looked(&inputs); /* they are still opening */
    loop_turns();
    ck_assert_int_eq(inputs_open(&inputs, 0, 2, "nobody", &d, &e), SHOAL_E_NOINPUT);
    inputs_looked(&inputs);
    ck_assert_int_eq(rename(worker_path("away"), worker_path("o01")), 0);
    ck_assert_int_eq(ask(1, &d), SHOAL_E_AGAIN);
    loop_turns();
    inputs_looked(&inputs);
    ck_assert_int_eq(ask(1, &d), 0);
    inputs_looked(&inputs);
    ck_assert_uint_eq(dataset_rows(d), 2);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("inputs");
    TCase *c = tcase_create("inputs");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_set_timeout(c, 60);
    tcase_add_test(c, an_object_is_there_when_the_loop_has_turned);
    tcase_add_test(c, the_list_and_the_first_line_are_for_all);
    tcase_add_test(c, the_first_line_is_of_the_first_object_that_has_one);
    tcase_add_test(c, a_list_is_asked_for_anew);
    tcase_add_test(c, each_split_has_objects_of_its_own);
    tcase_add_test(c, what_opens_is_not_closed_for_room);
    tcase_add_test(c, those_used_last_stay_open_the_others_are_opened_again);
    tcase_add_test(c, with_room_in_the_cache_none_is_opened_again);
    tcase_add_test(c, with_no_room_in_the_cache_nothing_outlives_the_job);
    tcase_add_test(c, indexes_keep_to_the_room_of_the_cache);
    tcase_add_test(c, one_that_cannot_be_opened_is_tried_again);
    tcase_add_test(c, a_failure_that_nobody_waited_for_is_not_told);
    suite_add_tcase(s, c);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
