/* test_times.c: the limit of event times that a job gets, and the range that its report shows. */
#include "server/coord/job/slot.h"
#include "tests/lib/suite.h"

#include <check.h>
#include <string.h>

static uint64_t calendar;

static uint64_t wall_of(struct env *of)
{
    (void)of;
    return calendar;
}
static uint64_t now_of(struct env *of)
{
    (void)of;
    return 1;
}
static const struct env_ops ops = {.now_ns = now_of, .wall_s = wall_of};
static struct env env = {.ops = &ops};
static struct coord c;
static struct job job;

static void setup(void)
{
    c = (struct coord){.fleet.env = &env};
    coord_slot_wire(&c);
    c.fleet.store = coord_store_memory();
    c.slot[0].store = c.fleet.store;
    memset(&job, 0, sizeof job);
    (void)strcpy(job.data.time, "at");
    calendar = 1700000000;
}

static void teardown(void)
{
    coord_store_close(c.fleet.store);
}

START_TEST(coord_limit_is_a_day_past_the_calendar)
{
    ck_assert_uint_eq(coord_times_limit(&c.fleet, &job, 0), 1700086400);
    job.data.time[0] = 0; /* no example has a time */
    ck_assert_uint_eq(coord_times_limit(&c.fleet, &job, 0), 0);
    job.data.format = DATA_EVENTS; /* its files may have times */
    ck_assert_uint_eq(coord_times_limit(&c.fleet, &job, 0), 1700086400);
    calendar = 0;
    ck_assert_uint_eq(coord_times_limit(&c.fleet, &job, 0), 0);
    calendar = UINT64_C(1) << 40;
    ck_assert_uint_eq(coord_times_limit(&c.fleet, &job, 0), 0);
}
END_TEST

START_TEST(coord_limit_of_a_checkpoint_stays)
{
    ck_assert_uint_eq(coord_times_limit(&c.fleet, &job, 1600000000), 1600000000);
    calendar = 0;
    ck_assert_uint_eq(coord_times_limit(&c.fleet, &job, 1600000000), 1600000000);
}
END_TEST

/* A growing log never ends: the limit of its rounds moves with the calendar, and never back. */
START_TEST(coord_limit_of_a_round_goes_on)
{
    struct job *spec = &c.slot[0].spec;
    spec->data.time_limit = 1700086400;
    spec->data.objects.grow_ms = 1000;
    c.slot[0].parsed = true;
    calendar += 3 * 86400;
    ck_assert_uint_eq(coord_times_limit_of_round(&c.slot[0]), 1700086400 + 3 * 86400);
    ck_assert_uint_eq(coord_times_limit_now(&c.slot[0]),
                      1700086400); /* the round before had no limit */
    c.slot[0].grow->at.limit = coord_times_limit_of_round(&c.slot[0]);
    ck_assert_uint_eq(coord_times_limit_now(&c.slot[0]), 1700086400 + 3 * 86400);
    calendar -= 9 * 86400;
    ck_assert_uint_eq(coord_times_limit_of_round(&c.slot[0]), 0);
    spec->data.objects.grow_ms = 0; /* any other job's limit comes from its file */
    ck_assert_uint_eq(coord_times_limit_now(&c.slot[0]), 1700086400);
}
END_TEST

START_TEST(coord_range_of_times_outlives_a_coordinator)
{
    struct json *report = json_new_object();
    struct err e = {0};
    c.slot[0].at.number = 7;
    c.slot[0].at.split[WIRE_TRAIN].rows = 1000;
    coord_times_json(&c.slot[0], report);
    ck_assert(json_absent(json_get(report, "events"))); /* no time is known yet */
    ck_assert_int_eq(coord_times_task(&c.slot[0],
                                      &(struct wire_TASK_DONE){.examples = 10,
                                                               .first_time = 1600000000,
                                                               .last_time = 1600000100},
                                      &e),
                     0);
    ck_assert_int_eq(coord_times_task(&c.slot[0],
                                      &(struct wire_TASK_DONE){.examples = 10,
                                                               .first_time = 1500000000,
                                                               .last_time = 1600000050},
                                      &e),
                     0);
    ck_assert_int_eq(coord_times_task(&c.slot[0], &(struct wire_TASK_DONE){.examples = 0}, &e),
                     0); /* only malformed lines */
    *c.slot[0].times = (struct coord_times){.job = 0};
    ck_assert_int_eq(coord_times_load(&c.slot[0], &e), 0);
    ck_assert_uint_eq(c.slot[0].times->examples, 20);
    coord_times_json(&c.slot[0], report);
    ck_assert_str_eq(json_as_string(json_get(report, "events.from"), ""), "2017-07-14T02:40:00Z");
    ck_assert_str_eq(json_as_string(json_get(report, "events.to"), ""), "2020-09-13T12:28:20Z");
    json_free(report);
    c.slot[0].at.number = 8; /* another job's do not count */
    ck_assert_int_eq(coord_times_load(&c.slot[0], &e), 0);
    ck_assert_uint_eq(c.slot[0].times->last, 0);
}
END_TEST

START_TEST(coord_worker_with_another_clock_is_noted_once)
{
    struct coord_worker w = {.name = "w1"};
    struct wire_WORKER_BEAT beat = {.clock_ahead_s = 60};
    struct json *notes = json_new_array();
    coord_times_beat(&c.slot[0], &w, &beat);
    ck_assert_uint_eq(c.slot[0].times->aparts, 0); /* a minute is not too far apart */
    beat.clock_ahead_s = -61;
    coord_times_beat(&c.slot[0], &w, &beat);
    w.figures = beat;
    coord_times_beat(&c.slot[0], &w, &beat);
    ck_assert_uint_eq(c.slot[0].times->aparts, 1);
    coord_times_note(&c.slot[0], notes);
    ck_assert_uint_eq(json_count(notes), 1);
    ck_assert_ptr_nonnull(
        strstr(json_as_string(json_array_at(notes, 0), ""), "worker w1 is wrong"));
    json_free(notes);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("coord_times");
    TCase *t = suite_case(s, "times", 60, setup, teardown);
    tcase_add_test(t, coord_limit_is_a_day_past_the_calendar);
    tcase_add_test(t, coord_limit_of_a_checkpoint_stays);
    tcase_add_test(t, coord_limit_of_a_round_goes_on);
    tcase_add_test(t, coord_range_of_times_outlives_a_coordinator);
    tcase_add_test(t, coord_worker_with_another_clock_is_noted_once);
    return suite_main(s);
}
