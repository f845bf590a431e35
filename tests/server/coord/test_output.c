/* test_output.c: a report and figures whose folder answers, hangs, or refuses them; the test itself
 * decides when the work of each errand is done. */
#include "server/coord/figures/output.h"
#include "server/coord/job/slot.h"

#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECOND UINT64_C(1000000000)

static uint64_t now;
static struct env_work *begun[8];
static uint32_t begun_count;
static struct coord *c;
static char wrote[256]; /* steps and reports, in order */
static int status;

static uint64_t now_of(struct env *env)
{
    (void)env;
    return now;
}

static void work_of(struct env *env, struct env_work *w)
{
    (void)env;
    ck_assert_uint_lt(begun_count, 8);
    begun[begun_count++] = w;
}

static void wrote_add(const char *text)
{
    size_t used = strlen(wrote);
    (void)snprintf(wrote + used, sizeof wrote - used, "%s ", text);
}

static int scalars_take(void *context, const char *run, uint64_t step,
                        const struct coord_scalar *scalar, uint32_t count, struct err *e)
{
    char text[32];
    (void)context;
    ck_assert_str_eq(run, "t-7");
    ck_assert(count == 1 && strcmp(scalar->tag, "valid/auc") == 0);
    (void)snprintf(text, sizeof text, "%" PRIu64, step);
    wrote_add(text);
    return status == 0 ? 0 : err_set(e, status, "the disk is full");
}

static int report_take(void *context, const char *text, struct err *e)
{
    (void)context;
    wrote_add(text);
    return status == 0 ? 0 : err_set(e, status, "the disk is full");
}

/* The first work that was begun ends. */
static void back(void)
{
    struct env_work *w = begun[0];
    ck_assert_uint_gt(begun_count, 0);
    memmove(&begun[0], &begun[1], --begun_count * sizeof begun[0]);
    w->run(w);
    w->done(w);
}

static void later(uint64_t seconds)
{
    now += seconds * SECOND;
    coord_errand_tick(&c->fleet);
}

static void figure(uint64_t step)
{
    const struct coord_scalar s = {"valid/auc", 0.5};
    coord_output_figures(&c->slot[0], "t-7", step, &s, 1);
}

static void setup(void)
{
    static const struct env_ops ops = {.now_ns = now_of, .work = work_of};
    static struct env env = {.ops = &ops};
    begun_count = 0;
    wrote[0] = 0;
    status = 0;
    now = SECOND;
    c = calloc(1, sizeof *c);
    coord_slot_wire(c);
    c->fleet.env = &env;
    c->fleet.store = coord_store_memory();
    c->fleet.options.write_scalars = scalars_take;
    c->fleet.options.scalars_path = "/curves";
    c->fleet.options.write_report = report_take;
    c->fleet.options.report_path = "/reports/report.json";
    c->slot[0].at.number = 7;
    c->slot[0].at.phase = PHASE_FINISH;
    c->slot[0].report = strdup("{}");
}

static void teardown(void)
{
    coord_errand_end(&c->fleet);
    coord_output_close(&c->slot[0]);
    coord_errand_close(&c->fleet);
    free(c->slot[0].report);
    coord_store_close(c->fleet.store);
    free(c);
}

/* The loop writes nothing itself, and figures that come during an errand wait for the next one. */
START_TEST(figures_keep_their_order_behind_a_folder_that_hangs)
{
    char text[ERR_TEXT_MAX];
    for (uint64_t step = 1; step <= 3; step++)
        figure(step);
    later(30);
    ck_assert_str_eq(wrote, "");
    ck_assert(coord_errand_hangs(&c->fleet, 0, text, sizeof text));
    ck_assert_str_eq(text, "TensorBoard folder /curves has not answered for 30 s");
    back();
    ck_assert_str_eq(wrote, "1 ");
    figure(4);
    while (begun_count > 0)
        back();
    ck_assert_str_eq(wrote, "1 2 3 4 ");
    ck_assert(!coord_output_figures_wait(&c->slot[0]) && c->slot[0].missed.status == 0);
    ck_assert_uint_eq(c->fleet.errands.count, 0);
}
END_TEST

/* The figures are refused (0), or their folder hangs for longer than an errand waits (1). */
START_TEST(figures_that_are_not_written_are_told_once)
{
    figure(1);
    figure(2);
    if (_i == 0) {
        status = SHOAL_E_IO;
        back();
    } else {
        later(121);
    }
    ck_assert_int_eq(c->slot[0].missed.status, SHOAL_E_IO);
    ck_assert_ptr_nonnull(strstr(c->slot[0].missed.text, "not all of its curves are written: "));
    ck_assert_ptr_nonnull(strstr(c->slot[0].missed.text,
                                 _i == 0 ? "the disk is full" : "/curves has not answered for"));
    ck_assert(c->slot[0].trace->failed && !coord_output_figures_wait(&c->slot[0]));
    while (begun_count > 0)
        back();
    ck_assert_str_eq(wrote, "1 "); /* a curve has no gap */
    ck_assert_uint_eq(c->fleet.errands.count, 0);
}
END_TEST

/* A clean end writes the figures that wait; begun: the first ones were already being written. */
START_TEST(figures_that_wait_are_written_at_the_end)
{
    figure(1);
    figure(2);
    figure(3);
    if (_i == 1)
        begun[0]->run(begun[0]); /* the env waits for it */
    else
        c->slot[0].output->figures->ran = false;
    coord_errand_end(&c->fleet);
    coord_output_close(&c->slot[0]);
    ck_assert_str_eq(wrote, "1 2 3 ");
}
END_TEST

/* The report's folder answers late (0), refuses it (1), or hangs for longer than an errand waits
 * (2). */
START_TEST(report_is_waited_for)
{
    char text[ERR_TEXT_MAX];
    coord_output_report(&c->slot[0]);
    ck_assert(coord_output_report_waits(&c->slot[0]));
    later(_i == 2 ? 121 : 30);
    ck_assert_str_eq(wrote, "");
    ck_assert(coord_errand_hangs(&c->fleet, 0, text, sizeof text));
    ck_assert_ptr_nonnull(strstr(text, "report folder /reports has not answered for"));
    ck_assert_int_eq(coord_output_report_waits(&c->slot[0]), _i != 2);
    status = _i == 1 ? SHOAL_E_CANTCREATE : 0;
    while (begun_count > 0)
        back();
    ck_assert_str_eq(wrote, "{} ");
    ck_assert(!coord_output_report_waits(&c->slot[0]));
    static const int ends[] = {0, SHOAL_E_CANTCREATE, SHOAL_E_IO};
    ck_assert_int_eq(c->slot[0].missed.status, ends[_i]);
    static const char *const why[] = {"", "is not written: the disk is full",
                                      "is not written: report folder /reports has not answered"};
    ck_assert_ptr_nonnull(strstr(c->slot[0].missed.text, why[_i]));
    ck_assert_uint_eq(c->fleet.errands.count, 0);
}
END_TEST

/* The job was stopped at its end, and another job runs: the missing report is not its failure. */
START_TEST(report_of_a_job_that_is_gone_is_no_failure_of_the_next)
{
    coord_output_report(&c->slot[0]);
    c->slot[0].at.number = 8;
    status = SHOAL_E_IO;
    back();
    ck_assert(!coord_output_report_waits(&c->slot[0]) && c->slot[0].missed.status == 0);
    while (begun_count > 0)
        back();
}
END_TEST

int main(void)
{
    Suite *s = suite_create("coord_output");
    TCase *t = tcase_create("output");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, figures_keep_their_order_behind_a_folder_that_hangs);
    tcase_add_loop_test(t, figures_that_are_not_written_are_told_once, 0, 2);
    tcase_add_loop_test(t, figures_that_wait_are_written_at_the_end, 0, 2);
    tcase_add_loop_test(t, report_is_waited_for, 0, 3);
    tcase_add_test(t, report_of_a_job_that_is_gone_is_no_failure_of_the_next);
    suite_add_tcase(s, t);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
