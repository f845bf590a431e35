/* test_given.c: the order that a job is given, and its line in the job's text. */
#include "proto/job/given.h"
#include "proto/job/legend.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define JOB                                                                                        \
    "job: j\ndata: {format: csv, train: a, label: y, time: t, header: true%s}\n"                   \
    "tables: [{name: emb, dim: 4%s}]\nmodel: {kind: fm}\n"

static struct job job;
static struct err e;
static char text[1024];

static void job_make(const char *data, const char *table)
{
    snprintf(text, sizeof text, JOB, data, table);
    ck_assert_msg(job_parse(text, strlen(text), "job", NULL, &job, &e) == 0, "%s", e.text);
}

static const struct {
    const char *data, *table;
    bool goes_on;
    uint32_t was, given;
} cases[] = {
    {"", "", false, 0, 0},                                    /* nothing depends on time */
    {"", ", evict: {ttl_days: 3}", false, 0, GIVEN_WITHIN_S}, /* rows age */
    {"", ", evict: {capacity: 9}", false, 0, GIVEN_WITHIN_S}, /* the least recently used rows go */
    {"", ", evict: {capacity: 9, by: score}", false, 0, 0},   /* the least frequent rows go */
    {"", ", evict: {ttl_days: 3, every_hours: 0}", false, 0, 0},
    {", shuffle: false", ", evict: {ttl_days: 3}", false, 0, 0},
    {", shuffle: {within: 1d}", ", evict: {ttl_days: 3}", false, 0, 0},
    {"", ", evict: {ttl_days: 3}", true, 0, 0}, /* batches of a checkpoint keep their order */
    {"", ", evict: {ttl_days: 3}", true, 7200, 7200},
    {"", "", true, 7200, 7200},
    {", shuffle: true", ", evict: {ttl_days: 3}", true, 0, 0},
    {", shuffle: true", ", evict: {ttl_days: 3}", true, 7200, 0}, /* the present file differs */
};

START_TEST(rows_that_go_by_time_are_drawn_in_windows)
{
    uint32_t given;
    job_make(cases[_i].data, cases[_i].table);
    ck_assert_int_eq(given_within(&job, cases[_i].goes_on, cases[_i].was, &given, &e), 0);
    ck_assert_uint_eq(given, cases[_i].given);
    job_free(&job);
}
END_TEST

START_TEST(an_order_in_which_nothing_ages_is_refused)
{
    uint32_t given;
    job_make(", shuffle: true", ", evict: {ttl_days: 3}");
    ck_assert_int_eq(given_within(&job, false, 0, &given, &e), SHOAL_E_CONFIG);
    ck_assert_msg(strstr(e.text, "rows of table emb") != NULL, "%s", e.text);
    job_free(&job);
}
END_TEST

/* _i 1: the text has names, which stay on the last line. */
START_TEST(what_is_given_is_read_and_taken_out_again)
{
    static const char line[] = "data.shuffle.within: \"7200s\" # given by the coordinator\n";
    static const char names[] = "names: {\"fields\": {\"u\": [0, \"emb\", \"category\"]}, "
                                "\"numbers\": {}, \"input\": \"u 4\", \"labels\": \"y\", "
                                "\"model\": \"fm\", \"tensors\": {}, \"statistics\": {}}\n";
    char before[2048], *with, *again, *plain;
    size_t bytes, more, at, line_bytes;
    snprintf(before, sizeof before,
             "job: \"j\"\ndata.format: \"csv\"\ndata.train[0]: \"a\"\ndata.label: \"y\"\n"
             "data.time: \"t\"\ndata.header: \"true\"\ntables[0].name: \"emb\"\n"
             "tables[0].dim: \"4\"\nmodel.kind: \"fm\"\n%s",
             _i == 1 ? names : "");
    ck_assert_int_eq(
        given_put(before, strlen(before), &(struct given){.within = 3600}, &again, &more, &e), 0);
    ck_assert_int_eq(given_put(again, more, &(struct given){.within = 7200}, &with, &bytes, &e),
                     0); /* in its place */
    free(again);
    ck_assert_uint_eq(bytes, strlen(before) + strlen(line));
    ck_assert_ptr_nonnull(strstr(with, line));
    ck_assert_int_eq(legend_line(with, bytes, &at, &line_bytes), _i == 1);
    ck_assert_msg(job_parse(with, bytes, "job", NULL, &job, &e) == 0, "%s", e.text);
    ck_assert_uint_eq(job.data.shuffle_within, 7200);
    job_free(&job);
    ck_assert_int_eq(given_strip(with, bytes, &plain, &more, &e), 0);
    ck_assert_uint_eq(more, strlen(before) - (_i == 1 ? strlen(names) : 0));
    ck_assert_mem_eq(plain, before, more);
    free(plain);
    free(with);
}
END_TEST

/* The number of another submission is replaced, and the file's own key stays beside it. */
START_TEST(given_lanes_are_those_of_this_submission)
{
    static const char own[] = "data: {format: libsvm, train: a}\ntrain: {lanes: 0}\n";
    char *once, *again, *plain;
    size_t bytes, more;
    ck_assert_int_eq(given_put(own, strlen(own), &(struct given){.lanes = 6}, &once, &bytes, &e),
                     0);
    ck_assert_int_eq(given_put(once, bytes, &(struct given){.lanes = 8}, &again, &more, &e), 0);
    ck_assert_ptr_null(strstr(again, "\"6\""));
    ck_assert_msg(job_parse(again, more, "job", NULL, &job, &e) == 0, "%s", e.text);
    ck_assert_uint_eq(job.train.lanes, 0);
    ck_assert_uint_eq(job_lanes(&job), 8);
    job_free(&job);
    ck_assert_int_eq(given_strip(again, more, &plain, &bytes, &e), 0);
    ck_assert_uint_eq(bytes, strlen(own));
    ck_assert_mem_eq(plain, own, bytes);
    ck_assert_int_eq(job_parse(own, strlen(own), "job", NULL, &job, &e), 0);
    ck_assert_uint_eq(job_lanes(&job), JOB_LANES); /* nothing was found yet */
    job_free(&job);
    free(once);
    free(again);
    free(plain);
}
END_TEST

/* A checkpoint's text is written anew at a restore, without the comments. */
START_TEST(given_lines_without_their_comment_are_replaced)
{
    static const char rewritten[] = "data.format: \"libsvm\"\ndata.train: \"a\"\n"
                                    "data.zone_changes: \"A 0+3600\"\n"
                                    "train.lanes: \"0\"\ntrain.lanes_there: \"6\"\n";
    const struct zone zone = {.name = "A", .count = 1, .change = {{0, 3600}}};
    char *made;
    size_t bytes;
    ck_assert_int_eq(given_put(rewritten, strlen(rewritten),
                               &(struct given){.lanes = 8, .zone = &zone}, &made, &bytes, &e),
                     0);
    ck_assert_msg(job_parse(made, bytes, "job", NULL, &job, &e) == 0, "%s", e.text);
    ck_assert_uint_eq(job_lanes(&job), 8);
    job_free(&job);
    free(made);
}
END_TEST

/* A key that the user has written stays. */
START_TEST(a_key_of_the_file_stays)
{
    static const char *const own[] = {
        "job: \"j\"\ndata.shuffle.within: \"7200s\"\n",
        "job: \"j\"\ndata.shuffle.within: \"7200s\" # as all of ours have it, by hand\n",
        "job: \"j\"\ndata.zone_changes: \"A 0+3600\" # as all of ours have it, by hand\n"};
    char *plain;
    size_t bytes;
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++) {
        ck_assert_int_eq(given_strip(own[i], strlen(own[i]), &plain, &bytes, &e), 0);
        ck_assert_str_eq(plain, own[i]);
        free(plain);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("given");
    TCase *t = tcase_create("given");
    tcase_add_loop_test(t, rows_that_go_by_time_are_drawn_in_windows, 0,
                        sizeof cases / sizeof cases[0]);
    tcase_add_test(t, an_order_in_which_nothing_ages_is_refused);
    tcase_add_loop_test(t, what_is_given_is_read_and_taken_out_again, 0, 2);
    tcase_add_test(t, given_lanes_are_those_of_this_submission);
    tcase_add_test(t, given_lines_without_their_comment_are_replaced);
    tcase_add_test(t, a_key_of_the_file_stays);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
