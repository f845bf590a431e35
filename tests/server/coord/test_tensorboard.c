/* test_tensorboard.c: event files on disk: whole records, one folder a run, no file outside
 * the given folder. */
#include "server/coord/figures/tensorboard.h"
#include "tests/lib/event_reader.h"

#include <check.h>
#include <glob.h>
#include <stdlib.h>
#include <unistd.h>

static char dir[64];

static void setup(void)
{
    (void)snprintf(dir, sizeof dir, "/tmp/shoal-test-tb-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
}

static void teardown(void)
{
    char command[128];
    (void)snprintf(command, sizeof command, "rm -rf %s", dir);
    ck_assert_int_eq(system(command), 0);
}

/* Reads the only file that matches. */
static size_t file_read(const char *pattern, unsigned char *out, size_t most)
{
    char path[256];
    glob_t found;
    (void)snprintf(path, sizeof path, "%s/%s", dir, pattern);
    ck_assert_int_eq(glob(path, 0, NULL, &found), 0);
    ck_assert_uint_eq(found.gl_pathc, 1);
    FILE *f = fopen(found.gl_pathv[0], "rb");
    size_t bytes = fread(out, 1, most, f);
    fclose(f);
    globfree(&found);
    return bytes;
}

START_TEST(coord_tensorboard_files_can_be_read_while_they_grow)
{
    static unsigned char file[1 << 16];
    struct coord_tensorboard t;
    struct coord_scalar s[2] = {{"train/logloss", 0}, {"rate/examples_per_second", 1000}};
    struct event_read got;
    struct err e = {0};
    coord_tensorboard_open(&t, dir);
    for (uint64_t step = 1; step <= 5; step++) {
        s[0].value = 1.0 / (double)step;
        ck_assert_msg(coord_tensorboard_write(&t, "frappe-17", step * 100, s, 2, &e) == 0, "%s",
                      e.text);
        size_t bytes = file_read("frappe-17/events.out.tfevents.*", file, sizeof file);
        const unsigned char *p = file;
        ck_assert(event_read(&p, file + bytes, &got));
        ck_assert_str_eq(got.version, "brain.Event:2");
        for (uint64_t n = 1; n <= step; n++) {
            ck_assert(event_read(&p, file + bytes, &got));
            ck_assert_int_eq(got.step, (int64_t)n * 100);
            ck_assert_uint_eq(got.count, 2);
            ck_assert_double_eq_tol((double)got.value[0], 1.0 / (double)n, 1e-6);
            ck_assert_double_gt(got.wall_s, 1.6e9);
        }
        ck_assert_ptr_eq(p, file + bytes);
    }
    coord_tensorboard_close(&t);
}
END_TEST

START_TEST(coord_tensorboard_runs_have_folders_of_their_own)
{
    static unsigned char file[1 << 12];
    struct coord_tensorboard t;
    struct coord_scalar s = {"valid/auc", 0.5};
    struct err e = {0};
    coord_tensorboard_open(&t, dir);
    ck_assert_int_eq(coord_tensorboard_write(&t, "a-1", 1, &s, 1, &e), 0);
    ck_assert_int_eq(coord_tensorboard_write(&t, "../../b c-2", 1, &s, 1, &e), 0);
    ck_assert_uint_gt(file_read("a-1/events*", file, sizeof file), 40);
    ck_assert_uint_gt(file_read("_._.._b_c-2/events*", file, sizeof file), 40);
    coord_tensorboard_close(&t);
}
END_TEST

START_TEST(coord_tensorboard_says_where_it_cannot_write)
{
    struct coord_tensorboard t;
    struct coord_scalar s = {"valid/auc", 0.5};
    struct err e = {0};
    coord_tensorboard_open(&t, "/proc/no/such");
    ck_assert_int_eq(coord_tensorboard_write(&t, "a-1", 1, &s, 1, &e), SHOAL_E_CANTCREATE);
    ck_assert_ptr_nonnull(strstr(e.text, "/proc/no/such"));
    coord_tensorboard_close(&t);
}
END_TEST

/* The figures of two jobs come in turn: each run has one file, which stays open. */
START_TEST(coord_tensorboard_has_a_file_for_each_of_two_jobs)
{
    static unsigned char file[1 << 16];
    struct coord_tensorboard t;
    struct coord_scalar s = {"train/logloss", 0.5};
    struct event_read got;
    struct err e = {0};
    coord_tensorboard_open(&t, dir);
    for (uint64_t step = 1; step <= 6; step++) {
        const char *run = step % 2 == 0 ? "ads-17" : "search-18";
        ck_assert_msg(coord_tensorboard_write(&t, run, step, &s, 1, &e) == 0, "%s", e.text);
    }
    size_t bytes = file_read("ads-17/events.out.tfevents.*", file, sizeof file), count = 0;
    for (const unsigned char *p = file; event_read(&p, file + bytes, &got);)
        count++;
    ck_assert_uint_eq(count, 1 + 3); /* the version, and three figures */
    (void)file_read("search-18/events.out.tfevents.*", file, sizeof file);
    coord_tensorboard_close(&t);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("coord_tensorboard");
    TCase *t = tcase_create("files");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, coord_tensorboard_files_can_be_read_while_they_grow);
    tcase_add_test(t, coord_tensorboard_has_a_file_for_each_of_two_jobs);
    tcase_add_test(t, coord_tensorboard_runs_have_folders_of_their_own);
    tcase_add_test(t, coord_tensorboard_says_where_it_cannot_write);
    suite_add_tcase(s, t);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
