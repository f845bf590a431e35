/* test_replay.c: windows as a worker tells them, and when their time has come. */
#include "server/coord/epoch.h"

#include "server/coord/core.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static struct coord *c;
static uint64_t now;
static struct coord_worker worker = {.number = 1};

static uint64_t now_of(struct env *env)
{
    (void)env;
    return now;
}
static const struct env_ops ops = {.now_ns = now_of};
static struct env env = {.ops = &ops};

#define SECOND UINT64_C(1000000000)

/* A replay in hours, an hour of the log a second of the clock. */
static void begin(uint32_t mode)
{
    struct err e;
    now = SECOND;
    c = calloc(1, sizeof *c);
    c->env = &env;
    c->store = coord_store_memory();
    c->job.at.number = 7;
    c->job.at.epoch = 1;
    c->job.at.phase = PHASE_INDEX;
    c->job.at.split[WIRE_TRAIN].used = 1;
    c->job.spec.data.zone = ZONE_UTC;
    c->job.spec.train.batch = 10;
    c->job.spec.train.epochs = 1;
    c->job.spec.train.mode = (enum wire_mode)mode;
    c->job.spec.replay.on = true;
    c->job.spec.replay.window = 3600;
    c->job.spec.replay.every = 86400;
    c->job.spec.replay.pace = 3600;
    ck_assert_int_eq(coord_task_open(&c->job.tasks, 2, mode, &e), 0);
    ck_assert_int_eq(coord_replay_open(&c->job.replay, &c->job.spec, &e), 0);
}

static void end(void)
{
    coord_replay_close(&c->job.replay);
    coord_task_close(&c->job.tasks);
    coord_store_close(c->store);
    free(c);
}

static int tell(const struct wire_window *w, uint32_t count, uint64_t rows)
{
    struct wire q = {.type = WIRE_TYPE_WINDOWS};
    struct msg m = {.frame_count = 2};
    struct coord_ask a = {.request = &q, .m = &m, .worker = &worker};
    bool ends;
    q.u.WINDOWS.windows = count;
    q.u.WINDOWS.rows = rows;
    m.frame[1].data = (void *)w;
    m.frame[1].bytes = count * sizeof *w;
    return coord_replay_windows(c, &a, &ends);
}

static const struct wire_window four[] = {{40, 100, 0}, {40, 101, 0}, {40, 103, 0}, {40, 110, 0}};

START_TEST(windows_that_cannot_be_are_refused)
{
    static const struct wire_window falls[] = {{40, 101, 0}, {40, 100, 0}}, none[] = {{0, 1, 0}};
    begin(WIRE_SSP);
    ck_assert_int_eq(tell(falls, 2, 80), SHOAL_E_MALFORMED);
    ck_assert_int_eq(tell(none, 1, 0), SHOAL_E_MALFORMED);
    ck_assert_int_eq(tell(four, 4, 159), SHOAL_E_MALFORMED);
    ck_assert_int_eq(tell(four, 0, 0), SHOAL_E_MALFORMED);
    ck_assert_int_eq(tell(four, 4, 160), 0);
    ck_assert_int_eq(tell(four, 4, 160), 0);
    ck_assert_int_eq(tell(four, 3, 120), SHOAL_E_DATA); /* another worker's files */
    end();
}
END_TEST

/* Windows begin at hours 0, 1, 3 and 10 of the log: at seconds of the clock, here. */
START_TEST(a_window_is_begun_when_its_time_has_come)
{
    static const uint32_t due[] = {1, 2, 2, 3, 3, 3, 3, 3, 3, 3, 4, 4};
    for (uint32_t mode = WIRE_ASYNC; mode <= WIRE_BSP; mode++) {
        struct err e;
        begin(mode);
        ck_assert_int_eq(tell(four, 4, 160), 0);
        ck_assert_int_eq(coord_epoch_cut(c, &e), 0);
        for (uint32_t s = 0; s < 12; s++) {
            coord_replay_gate(c);
            uint32_t gate = due[s] < 4 ? c->job.replay.segment[due[s]].task : c->job.tasks.tasks;
            ck_assert_uint_eq(c->job.tasks.gate, gate);
            ck_assert_uint_eq(c->job.tasks.stop, c->job.tasks.tasks);
            now += SECOND;
        }
        end();
    }
}
END_TEST

START_TEST(before_its_time_no_lane_has_a_task)
{
    struct err e;
    begin(WIRE_SSP);
    tell(four, 4, 160);
    ck_assert_int_eq(coord_epoch_cut(c, &e), 0);
    coord_replay_gate(c);
    struct coord_tasks *t = &c->job.tasks;
    coord_lane_grant(t, 0, 1);
    coord_lane_granted(t, 0, 0);
    while (coord_task_append(t, 0) != COORD_NO_TASK)
        coord_task_pushed(t, 0, now);
    ck_assert_uint_eq(t->next, c->job.replay.segment[1].task);
    ck_assert(!coord_task_drained(t)); /* it waits, and is not over */
    now += SECOND;
    coord_replay_gate(c);
    ck_assert_uint_ne(coord_task_append(t, 0), COORD_NO_TASK);
    end();
}
END_TEST

/* A coordinator that comes back begins with the window at hand. */
START_TEST(what_stood_still_is_not_made_up_for)
{
    struct err e;
    begin(WIRE_SSP);
    tell(four, 4, 160);
    ck_assert_int_eq(coord_epoch_cut(c, &e), 0);
    for (uint32_t i = 0; i < c->job.replay.segment[2].task; i++)
        c->job.tasks.task[i].first_batch = i + 1;
    c->job.tasks.next = c->job.replay.segment[2].task;
    coord_replay_gate(c);
    ck_assert_uint_eq(c->job.replay.due, 3);
    now += 6 * SECOND;
    coord_replay_gate(c);
    ck_assert_uint_eq(c->job.replay.due, 3);
    now += SECOND; /* 7 hours from its begin to the last one's */
    coord_replay_gate(c);
    ck_assert_uint_eq(c->job.replay.due, 4);
    end();
}
END_TEST

START_TEST(without_a_pace_all_is_due)
{
    struct err e;
    begin(WIRE_SSP);
    c->job.spec.replay.pace = 0;
    tell(four, 4, 160);
    ck_assert_int_eq(coord_epoch_cut(c, &e), 0);
    coord_replay_gate(c);
    ck_assert_uint_eq(c->job.tasks.gate, c->job.tasks.tasks);
    end();
}
END_TEST

int main(void)
{
    Suite *s = suite_create("coord_replay");
    TCase *t = tcase_create("replay");
    tcase_add_test(t, windows_that_cannot_be_are_refused);
    tcase_add_test(t, a_window_is_begun_when_its_time_has_come);
    tcase_add_test(t, before_its_time_no_lane_has_a_task);
    tcase_add_test(t, what_stood_still_is_not_made_up_for);
    tcase_add_test(t, without_a_pace_all_is_due);
    suite_add_tcase(s, t);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
