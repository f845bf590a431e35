/* test_schedule.c: learning rates by batch, against numbers computed by hand. */
#include "worker/train/schedule.h"

#include <check.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

static struct job job;

static void setup(void)
{
    memset(&job, 0, sizeof job);
}

static void schedule(enum schedule_kind kind, uint32_t batches, double floor, double factor)
{
    job.train.schedule.kind = kind;
    job.train.schedule.batches = batches;
    job.train.schedule.floor = floor;
    job.train.schedule.factor = factor;
}

static void expect(uint64_t batch, double scale)
{
    ck_assert_msg(schedule_scale(&job, batch) == (float)scale,
                  "batch %" PRIu64 ": %.9g, expected %.9g", batch,
                  (double)schedule_scale(&job, batch), scale);
}

START_TEST(schedule_without_settings_is_constant)
{
    expect(1, 1.0);
    expect(1000000, 1.0);
}
END_TEST

START_TEST(schedule_of_a_network_that_goes_on_is_not_warmed_up)
{
    schedule(SCHEDULE_LINEAR, 10, 0, 0);
    job.train.warmup = 20;
    job.legend.learnt = true;
    expect(1, 1.0);
    expect(6, 0.5);
}
END_TEST

START_TEST(schedule_warms_up_evenly)
{
    job.train.warmup = 20;
    expect(1, 0.05);
    expect(10, 0.5);
    expect(19, 0.95);
    expect(20, 1.0);
    expect(21, 1.0);
}
END_TEST

START_TEST(schedule_linear_falls_to_the_floor)
{
    schedule(SCHEDULE_LINEAR, 100, 0.2, 0);
    expect(1, 1.0); /* n = 0 */
    expect(26, 0.8);
    expect(51, 0.6);
    expect(101, 0.2);
    expect(5000, 0.2);
    schedule(SCHEDULE_LINEAR, 100, 0, 0);
    expect(76, 0.25);
    expect(101, 0.0);
}
END_TEST

/* cos(pi / 3) = 1/2, cos(pi / 2) = 0, cos(2 pi / 3) = -1/2. */
START_TEST(schedule_cosine_falls_to_the_floor)
{
    schedule(SCHEDULE_COSINE, 300, 0, 0);
    expect(1, 1.0);
    expect(101, 0.75);
    expect(151, 0.5);
    expect(201, 0.25);
    expect(301, 0.0);
    schedule(SCHEDULE_COSINE, 300, 0.1, 0);
    expect(101, 0.775);
    expect(301, 0.1);
    expect(302, 0.1);
}
END_TEST

/* Our own series against the C library's. */
START_TEST(schedule_cosine_is_the_cosine)
{
    schedule(SCHEDULE_COSINE, 1000, 0, 0);
    for (uint64_t n = 0; n <= 1000; n++) {
        double exact = 0.5 * (1.0 + cos(acos(-1.0) * (double)n / 1000.0));
        ck_assert_double_eq_tol((double)schedule_scale(&job, n + 1), exact, 1e-7 * exact + 1e-9);
    }
}
END_TEST

START_TEST(schedule_steps_down)
{
    schedule(SCHEDULE_STEP, 10, 0, 0.5);
    expect(1, 1.0);
    expect(10, 1.0);
    expect(11, 0.5);
    expect(20, 0.5);
    expect(21, 0.25);
    expect(71, 0.0078125);
    schedule(SCHEDULE_STEP, 10, 0.3, 0.5);
    expect(11, 0.5);
    expect(21, 0.3);
    expect(UINT64_MAX, 0.3);
}
END_TEST

/* The schedule begins when the warm-up ends. */
START_TEST(schedule_follows_the_warmup)
{
    job.train.warmup = 50;
    schedule(SCHEDULE_LINEAR, 100, 0, 0);
    expect(25, 0.5);
    expect(50, 1.0);
    expect(100, 0.5);
    expect(150, 0.0);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("schedule");
    TCase *c = tcase_create("schedule");
    tcase_add_checked_fixture(c, setup, NULL);
    tcase_add_test(c, schedule_without_settings_is_constant);
    tcase_add_test(c, schedule_of_a_network_that_goes_on_is_not_warmed_up);
    tcase_add_test(c, schedule_warms_up_evenly);
    tcase_add_test(c, schedule_linear_falls_to_the_floor);
    tcase_add_test(c, schedule_cosine_falls_to_the_floor);
    tcase_add_test(c, schedule_cosine_is_the_cosine);
    tcase_add_test(c, schedule_steps_down);
    tcase_add_test(c, schedule_follows_the_warmup);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? 0 : 1;
}
