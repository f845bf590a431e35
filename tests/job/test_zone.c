/* test_zone.c: data.zone: errors, the meaning of times in a zone, and its table in the job's
 * text. */
#include "proto/job/given.h"
#include "proto/job/job.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define JOB                                                                                        \
    "job: j\ndata: {format: csv, train: a, label: y, time: t%s}\nmodel: {kind: fm}\n"              \
    "train: {epochs: 1}\n%s"
/* as a coordinator gives it: no zone file is needed, and the name need not exist */
#define BERLIN "Here/There 0+3600 1774746000+7200 1792890000+3600"
#define GIVEN ", zone: Here/There, zone_changes: \"" BERLIN "\""

static struct job job;
static struct err e;
static char text[2048];

static int parse(const char *data, const char *more)
{
    e = (struct err){0};
    snprintf(text, sizeof text, JOB, data, more);
    int rc = job_parse(text, strlen(text), "job", NULL, &job, &e);
    if (rc == 0)
        job_free(&job);
    return rc;
}

static const struct {
    const char *data, *more, *words;
} refused[] = {
    {", zone: Nowhere/Berlin", "", "this machine has no zone Nowhere/Berlin"},
    {", zone: ''", "", "a name has 1 to 63 bytes"},
    {", zone: A, zone_changes: \"A 0+x\"", "", "it is no table of a zone"},
    {GIVEN ", shuffle: {within: 36h}", "", "windows are of whole days, or parts of one"},
    {GIVEN, "replay: {window: 30h, every: 60h}\n", "windows and days are of whole days"},
    {GIVEN, "replay: {leave_out: 2026-03-29T02}\n", "'2026-03-29T02' is none of"}, /* left out */
    {GIVEN, "replay: {from: 2026-03-29, to: 2026-03-29T00}\n", "it is not after replay.from"},
    {"", "replay: {window: 1500ms, every: 1d}\n", "whole windows of whole seconds"},
    {"", "replay: {window: 7s, every: 1d}\n", "whole windows of whole seconds"},
};

START_TEST(zones_and_words_that_cannot_be_are_refused)
{
    ck_assert_int_eq(parse(refused[_i].data, refused[_i].more), SHOAL_E_CONFIG);
    ck_assert_msg(strstr(e.text, refused[_i].words) != NULL, "%s", e.text);
}
END_TEST

static const struct {
    const char *word;
    uint32_t from, to;
} spans[] = {
    {"2026-03-29", 1774738800, 1774738800 + 23 * 3600},
    {"2026-10-25", 1792879200, 1792879200 + 25 * 3600},
    {"2026-03-29T01", 1774742400, 1774746000},
    {"2026-03-29T03", 1774746000, 1774749600},
    {"2026-10-25T02", 1792886400, 1792893600}, /* both of them */
    {"2026-10-25T03", 1792893600, 1792897200},
    {"2026-03-28T12..2026-03-30", 1774695600, 1774821600},
    {"1774738800..2026-03-30", 1774738800, 1774821600},
};

START_TEST(words_of_time_are_of_the_zone)
{
    struct job_span span;
    struct zone zone = ZONE_UTC;
    ck_assert_int_eq(zone_parse(strchr(BERLIN, ' ') + 1, &zone), 0);
    ck_assert(job_span_parse(spans[_i].word, &zone, &span));
    ck_assert_uint_eq(span.from, spans[_i].from);
    ck_assert_uint_eq(span.to, spans[_i].to);
}
END_TEST

/* A span has a length, and a number below nine digits is not a time: 20260304 has another
 * meaning. */
START_TEST(spans_have_a_length)
{
    static const struct {
        const char *word;
        bool good;
    } words[] = {{"2026-03-29..2026-03-29", false},
                 {"2026-03-29..2026-03-28", false},
                 {"1774738800..1774738800", false},
                 {"1774738800..1774738801", true},
                 {"99999999", false},
                 {"100000000", true},
                 {"4294967294", true},
                 {"4294967295", false},
                 {"2026-02-29", false},
                 {"2028-02-29", true}};
    struct job_span span;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        ck_assert_msg(job_span_parse(words[i].word, &ZONE_UTC, &span) == words[i].good, "%s",
                      words[i].word);
}
END_TEST

/* As many as there is room for, and no more. */
START_TEST(a_replay_leaves_out_so_many_spans)
{
    for (uint32_t many = LIMIT_REPLAY_OUT; many <= LIMIT_REPLAY_OUT + 1; many++) {
        char more[2048] = "replay: {leave_out: [";
        for (uint32_t i = 0; i < many; i++)
            snprintf(more + strlen(more), sizeof more - strlen(more), "%s%u", i > 0 ? ", " : "",
                     1774738800 + i);
        strcat(more, "]}\n");
        ck_assert_int_eq(parse("", more), many > LIMIT_REPLAY_OUT ? SHOAL_E_CONFIG : 0);
        if (many > LIMIT_REPLAY_OUT)
            ck_assert_msg(strstr(e.text, "65 spans, at most 64") != NULL, "%s", e.text);
    }
}
END_TEST

START_TEST(a_table_is_given_read_and_taken_out_again)
{
    static const char before[] = "job: \"j\"\ndata.train[0]: \"a\"\ndata.zone: \"Here/There\"";
    static const char line[] = "\ndata.zone_changes: \"" BERLIN "\" # given by the coordinator\n";
    struct zone zone = {.name = "Here/There"};
    struct given given = {.zone = &zone};
    char *with, *again, *plain;
    size_t bytes, more;
    ck_assert_int_eq(zone_parse(strchr(BERLIN, ' ') + 1, &zone), 0);
    ck_assert_int_eq(given_put(before, strlen(before), &given, &with, &bytes, &e), 0);
    ck_assert_int_eq(given_put(with, bytes, &given, &again, &more, &e), 0); /* in its place */
    ck_assert_uint_eq(more, strlen(before) + strlen(line));
    ck_assert_str_eq(again + strlen(before), line);
    free(with);
    ck_assert_int_eq(given_strip(again, more, &plain, &bytes, &e), 0);
    ck_assert_uint_eq(bytes, strlen(before) + 1); /* a line ends */
    free(plain);
    free(again);
    /* an order that was given to a text that is submitted again stays: the job was read with it */
    given = (struct given){.zone = &zone};
    static const char within[] = "data.shuffle.within: \"3600s\" # given by the coordinator\n";
    ck_assert_int_eq(given_put(within, strlen(within), &given, &with, &bytes, &e), 0);
    ck_assert_ptr_nonnull(strstr(with, within));
    free(with);
    ck_assert_int_eq(parse(GIVEN, ""), 0);
    snprintf(text, sizeof text, JOB, GIVEN, "");
    ck_assert_int_eq(job_parse(text, strlen(text), "job", NULL, &job, &e), 0);
    ck_assert(zone_same(&job.data.zone, &zone));
    ck_assert_str_eq(job.data.zone.name, "Here/There");
    job_free(&job);
    /* a table of another zone than the job's present one is ignored */
    ck_assert_int_eq(parse(", zone: UTC, zone_changes: \"" BERLIN "\"", ""), 0);
    ck_assert_int_eq(parse(", zone: Here, zone_changes: \"" BERLIN "\"", ""), SHOAL_E_CONFIG);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("zone");
    TCase *t = tcase_create("zone");
    tcase_add_loop_test(t, zones_and_words_that_cannot_be_are_refused, 0,
                        sizeof refused / sizeof refused[0]);
    tcase_add_loop_test(t, words_of_time_are_of_the_zone, 0, sizeof spans / sizeof spans[0]);
    tcase_add_test(t, spans_have_a_length);
    tcase_add_test(t, a_replay_leaves_out_so_many_spans);
    tcase_add_test(t, a_table_is_given_read_and_taken_out_again);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
