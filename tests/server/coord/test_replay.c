/* test_replay.c: windows as a worker reports them, and the time at which each begins. */
#include "server/coord/job/epoch.h"
#include "server/coord/job/slot.h"

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

/* A replay in hours; an hour of the log takes a second of the clock. */
static void begin(uint32_t mode)
{
    struct err e;
    now = SECOND;
    c = calloc(1, sizeof *c);
    coord_slot_wire(c);
    c->fleet.env = &env;
    c->fleet.store = coord_store_memory();
    c->slot[0].store = c->fleet.store;
    c->slot[0].at.number = 7;
    c->slot[0].at.epoch = 1;
    c->slot[0].at.phase = PHASE_INDEX;
    c->slot[0].at.split[WIRE_TRAIN].used = 1;
    c->slot[0].spec.data.zone = ZONE_UTC;
    c->slot[0].spec.train.batch = 10;
    c->slot[0].spec.train.epochs = 1;
    c->slot[0].spec.train.mode = (enum wire_mode)mode;
    c->slot[0].spec.replay.on = true;
    c->slot[0].source = coord_source_of(&c->slot[0].spec);
    c->slot[0].spec.replay.window = 3600;
    c->slot[0].spec.replay.every = 86400;
    c->slot[0].spec.replay.pace = 3600;
    ck_assert_int_eq(coord_task_open(c->slot[0].tasks, 2, mode, &e), 0);
    ck_assert_int_eq(coord_replay_open(c->slot[0].replay, &c->slot[0].spec, &e), 0);
}

static void end(void)
{
    coord_replay_close(c->slot[0].replay);
    coord_task_close(c->slot[0].tasks);
    coord_store_close(c->fleet.store);
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
    return coord_replay_windows(&c->slot[0], &a, &ends);
}

static const struct wire_window four[] = {{40, 100, 0}, {40, 101, 0}, {40, 103, 0}, {40, 110, 0}};

START_TEST(windows_that_cannot_be_are_refused)
{
    static const struct wire_window falls[] = {{40, 101, 0}, {40, 100, 0}}, none[] = {{0, 1, 0}},
                                    twice[] = {{40, 101, 0}, {40, 101, 0}};
    begin(WIRE_SSP);
    ck_assert_int_eq(tell(falls, 2, 80), SHOAL_E_MALFORMED);
    ck_assert_int_eq(tell(none, 1, 0), SHOAL_E_MALFORMED);
    ck_assert_int_eq(tell(twice, 2, 80), SHOAL_E_MALFORMED);
    ck_assert_int_eq(tell(four, 4, 159), SHOAL_E_MALFORMED);
    ck_assert_int_eq(tell(four, 0, 0), SHOAL_E_MALFORMED);
    ck_assert_int_eq(tell(four, 4, 160), 0);
    ck_assert_int_eq(tell(four, 4, 160), 0);
    ck_assert_int_eq(tell(four, 3, 120), SHOAL_E_DATA); /* another worker's files */
    end();
}
END_TEST

/* Windows begin at hours 0, 1, 3 and 10 of the log, that is, here at these seconds of the clock. */
START_TEST(a_window_is_begun_when_its_time_has_come)
{
    static const uint32_t due[] = {1, 2, 2, 3, 3, 3, 3, 3, 3, 3, 4, 4};
    for (uint32_t mode = WIRE_ASYNC; mode <= WIRE_BSP; mode++) {
        struct err e;
        begin(mode);
        ck_assert_int_eq(tell(four, 4, 160), 0);
        ck_assert_int_eq(coord_epoch_cut(&c->slot[0], &e), 0);
        for (uint32_t s = 0; s < 12; s++) {
            coord_replay_gate(&c->slot[0]);
            uint32_t gate =
                due[s] < 4 ? c->slot[0].replay->segment[due[s]].task : c->slot[0].tasks->tasks;
            ck_assert_uint_eq(c->slot[0].tasks->gate, gate);
            ck_assert_uint_eq(c->slot[0].tasks->stop, c->slot[0].tasks->tasks);
            now += SECOND;
        }
        end();
    }
}
END_TEST

/* The hash is the same in every release: checkpoints contain it. */
START_TEST(windows_that_were_begun_are_known_again)
{
    struct err e;
    begin(WIRE_SSP);
    ck_assert_int_eq(tell(four, 4, 160), 0);
    ck_assert_int_eq(coord_epoch_cut(&c->slot[0], &e), 0);
    c->slot[0].tasks->frontier = c->slot[0].replay->segment[3].task;
    struct coord_replay_record of = coord_replay_record_of(&c->slot[0], false);
    ck_assert_uint_eq(of.begun, 3);
    ck_assert_uint_eq(of.hash, UINT64_C(17100681006015198030));
    end();
}
END_TEST

/* After training and a restart, the tasks that show the begun windows are not planned. The report
 * plans them once more, and none is appended. */
START_TEST(windows_that_were_begun_stay_so_without_tasks)
{
    struct err e;
    begin((uint32_t)_i);
    ck_assert_int_eq(tell(four, 4, 160), 0);
    ck_assert_int_eq(coord_epoch_cut(&c->slot[0], &e), 0);
    struct coord_tasks *t = c->slot[0].tasks;
    t->frontier = c->slot[0].replay->segment[3].task;
    struct coord_replay_record of = coord_replay_record_of(&c->slot[0], false);
    uint64_t until = coord_replay_until(&c->slot[0]);
    ck_assert_uint_eq(of.begun, 3);
    ck_assert_uint_eq(until, 104 * 3600);
    ck_assert(coord_replay_note(&c->slot[0]));
    coord_task_close(t);
    coord_replay_close(c->slot[0].replay);
    ck_assert_int_eq(coord_task_open(t, 2, (uint32_t)_i, &e), 0);
    ck_assert_int_eq(coord_replay_open(c->slot[0].replay, &c->slot[0].spec, &e), 0);
    ck_assert_int_eq(coord_replay_load(&c->slot[0], &e), 0);
    for (uint32_t planned = 0; planned <= 1; planned++) {
        struct coord_replay_record again = coord_replay_record_of(&c->slot[0], false);
        ck_assert_uint_eq(again.begun, 3);
        ck_assert_uint_eq(again.hash, of.hash);
        ck_assert_uint_eq(coord_replay_until(&c->slot[0]), until);
        ck_assert_int_eq(planned == 1 ? 0 : coord_epoch_cut(&c->slot[0], &e), 0);
    }
    end();
}
END_TEST

START_TEST(before_its_time_no_lane_has_a_task)
{
    struct err e;
    begin(WIRE_SSP);
    tell(four, 4, 160);
    ck_assert_int_eq(coord_epoch_cut(&c->slot[0], &e), 0);
    coord_replay_gate(&c->slot[0]);
    struct coord_tasks *t = c->slot[0].tasks;
    coord_lane_grant(t, 0, 1);
    coord_lane_granted(t, 0, 0);
    while (coord_task_append(t, 0) != COORD_NO_TASK)
        coord_task_pushed(t, 0);
    ck_assert_uint_eq(t->next, c->slot[0].replay->segment[1].task);
    ck_assert(!coord_task_drained(t)); /* it waits, and is not done */
    now += SECOND;
    coord_replay_gate(&c->slot[0]);
    ck_assert_uint_ne(coord_task_append(t, 0), COORD_NO_TASK);
    end();
}
END_TEST

/* A restarted coordinator begins with the present window. */
START_TEST(what_stood_still_is_not_made_up_for)
{
    struct err e;
    begin(WIRE_SSP);
    tell(four, 4, 160);
    ck_assert_int_eq(coord_epoch_cut(&c->slot[0], &e), 0);
    for (uint32_t i = 0; i < c->slot[0].replay->segment[2].task; i++)
        c->slot[0].tasks->task[i].first_batch = i + 1;
    c->slot[0].tasks->frontier = c->slot[0].replay->segment[2].task;
    coord_replay_gate(&c->slot[0]);
    ck_assert_uint_eq(c->slot[0].replay->due, 3);
    now += 6 * SECOND;
    coord_replay_gate(&c->slot[0]);
    ck_assert_uint_eq(c->slot[0].replay->due, 3);
    now += SECOND; /* the last window begins 7 hours after it */
    coord_replay_gate(&c->slot[0]);
    ck_assert_uint_eq(c->slot[0].replay->due, 4);
    end();
}
END_TEST

START_TEST(without_a_pace_all_is_due)
{
    struct err e;
    begin(WIRE_SSP);
    c->slot[0].spec.replay.pace = 0;
    tell(four, 4, 160);
    ck_assert_int_eq(coord_epoch_cut(&c->slot[0], &e), 0);
    coord_replay_gate(&c->slot[0]);
    ck_assert_uint_eq(c->slot[0].tasks->gate, c->slot[0].tasks->tasks);
    end();
}
END_TEST

/* A window is taken whole if one second of it lies in a span, and left out whole if it only touches
 * the span's end or lies behind it. */
START_TEST(windows_are_taken_that_a_span_meets)
{
    enum { H = 3600 };
    static const struct {
        struct job_span range, out;
        uint32_t outs, taken; /* a bit each */
    } cases[] = {{{0, 0}, {0, 0}, 0, 15},
                 {{101 * H - 1, 0}, {0, 0}, 0, 15},
                 {{101 * H, 0}, {0, 0}, 0, 14},
                 {{102 * H - 1, 0}, {0, 0}, 0, 14},
                 {{102 * H, 0}, {0, 0}, 0, 12},
                 {{0, 103 * H}, {0, 0}, 0, 3},
                 {{0, 103 * H + 1}, {0, 0}, 0, 7},
                 {{0, 0}, {101 * H, 103 * H}, 1, 13},
                 {{0, 0}, {101 * H - 1, 103 * H + 1}, 1, 8},
                 {{0, 0}, {102 * H, 103 * H}, 1, 15},
                 {{101 * H, 110 * H}, {103 * H, 104 * H}, 1, 2}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint32_t taken = 0;
        begin(WIRE_SSP);
        c->slot[0].spec.replay.range = cases[i].range;
        c->slot[0].spec.replay.out[0] = cases[i].out;
        c->slot[0].spec.replay.outs = cases[i].outs;
        ck_assert_int_eq(tell(four, 4, 160), 0);
        for (uint32_t s = 0; s < c->slot[0].replay->segments; s++)
            taken |= 1u << c->slot[0].replay->segment[s].position / 40;
        ck_assert_uint_eq(taken, cases[i].taken);
        end();
    }
}
END_TEST

/* Each window has as many examples as its place says; a report for a day that is over does not
 * count any more. */
static void counted(uint32_t window)
{
    struct metric_tally *told = &c->slot[0].windows->told[0];
    memset(told, 0, sizeof *told);
    for (uint32_t i = 0; i <= window; i++)
        metric_tally_add(told, 0.5f, (float)(i & 1), 0.7);
    c->slot[0].windows->examples = window + 1;
    struct metric_by *day =
        coord_replay_count(&c->slot[0], c->slot[0].replay->segment[window].task, told);
    if (day != NULL)
        coord_progressive_by(c->slot[0].windows, day);
}

static uint64_t examples_of(uint32_t day)
{
    const struct json *item = json_array_at(c->slot[0].replay->days, day);
    return (uint64_t)json_as_int(json_get(item, "examples"), -1);
}

/* Days of two hours: windows 0 and 1, window 2, and window 3. */
START_TEST(a_day_has_its_own_examples_alone)
{
    static const uint64_t expected[] = {1 + 2, 3, 4};
    struct err e;
    begin(WIRE_SSP);
    c->slot[0].spec.replay.every = 7200;
    c->slot[0].spec.replay.pace = 0;
    ck_assert_int_eq(coord_progressive_open(c->slot[0].windows, &c->slot[0].spec, 1, &e), 0);
    ck_assert_int_eq(tell(four, 4, 160), 0);
    ck_assert_int_eq(coord_epoch_cut(&c->slot[0], &e), 0);
    struct coord_tasks *t = c->slot[0].tasks;
    ck_assert_uint_eq(t->tasks, 4);
    coord_lane_grant(t, 0, 1);
    coord_lane_granted(t, 0, 0);
    for (uint32_t day = 0, window = 0; day < 3; day++) {
        ck_assert_int_eq(coord_replay_stop(&c->slot[0], true, &e), 0);
        ck_assert_uint_eq(t->stop, day == 0 ? 2 : day == 1 ? 3 : 4);
        while (coord_task_append(t, 0) != COORD_NO_TASK) {
            coord_task_pushed(t, 0);
            counted(window++);
        }
        ck_assert_uint_eq(window, t->stop);
        ck_assert(coord_replay_end(&c->slot[0]));
        ck_assert_uint_eq(c->slot[0].replay->ended, day + 1);
        ck_assert_uint_eq(examples_of(day), expected[day]);
        counted(0); /* repeated too late */
        coord_task_stop(t, t->tasks);
        ck_assert_int_eq(coord_replay_stop(&c->slot[0], false, &e), 0); /* it was not evaluated */
        ck_assert_uint_eq(t->stop, day == 0 ? 2 : day == 1 ? 3 : 4);
        c->slot[0].replay->made = c->slot[0].replay->ended;
        coord_task_stop(t, t->tasks);
    }
    coord_progressive_close(c->slot[0].windows);
    end();
}
END_TEST

/* The value `window` has as many examples as its place says, half of them positive. */
static void value_counted(uint32_t window)
{
    static const struct metric_by_head head;
    uint64_t examples = window + 1;
    struct metric_by_told told = {.key = window, .examples = examples};
    struct metric_by_task task = {.loss = 1, .predicted = 0.5, .positives = examples / 2};
    c->slot[0].windows->part = (struct metric_by_part){
        .fields = 1, .values = 1, .head = &head, .told = &told, .task = &task};
    counted(window);
}

/* Checks the examples of a value at a place of a day's table; 0: there is no such place. */
static void examples_by(uint32_t day, uint32_t place, uint64_t examples, const char *key)
{
    const struct json *item = json_array_at(c->slot[0].replay->days, day);
    const struct json *by = json_array_at(json_get(item, "figures.by.city"), place);
    ck_assert_int_eq(json_as_int(json_get(by, "examples"), 0), (int64_t)examples);
    ck_assert_str_eq(json_as_string(json_get(by, "key"), ""), key);
}

/* A day with windows 0 and 1, and a day with window 2. */
START_TEST(a_day_has_its_own_values_alone)
{
    struct err e;
    begin(WIRE_SSP);
    coord_replay_close(c->slot[0].replay);
    c->slot[0].spec.evaluate.by.item = (char *[]){"city"};
    c->slot[0].spec.evaluate.by.count = 1;
    c->slot[0].spec.replay.every = 7200;
    c->slot[0].spec.replay.pace = 0;
    ck_assert_int_eq(coord_replay_open(c->slot[0].replay, &c->slot[0].spec, &e), 0);
    ck_assert_int_eq(coord_progressive_open(c->slot[0].windows, &c->slot[0].spec, 1, &e), 0);
    ck_assert_int_eq(tell(four, 4, 160), 0);
    ck_assert_int_eq(coord_epoch_cut(&c->slot[0], &e), 0);
    struct coord_tasks *t = c->slot[0].tasks;
    coord_lane_grant(t, 0, 1);
    coord_lane_granted(t, 0, 0);
    for (uint32_t day = 0, window = 0; day < 2; day++) {
        ck_assert_int_eq(coord_replay_stop(&c->slot[0], true, &e), 0);
        while (coord_task_append(t, 0) != COORD_NO_TASK) {
            coord_task_pushed(t, 0);
            value_counted(window++);
        }
        ck_assert(coord_replay_end(&c->slot[0]));
        c->slot[0].replay->made = c->slot[0].replay->ended;
        coord_task_stop(t, t->tasks);
    }
    examples_by(0, 0, 2, "0x0000000000000001"); /* the value with more examples comes first */
    examples_by(0, 1, 1, "0x0000000000000000");
    examples_by(0, 2, 0, "");
    examples_by(1, 0, 3, "0x0000000000000002");
    examples_by(1, 1, 0, "");
    coord_progressive_close(c->slot[0].windows);
    end();
}
END_TEST

int main(void)
{
    Suite *s = suite_create("coord_replay");
    TCase *t = tcase_create("replay");
    tcase_add_test(t, windows_that_cannot_be_are_refused);
    tcase_add_test(t, a_window_is_begun_when_its_time_has_come);
    tcase_add_test(t, windows_that_were_begun_are_known_again);
    tcase_add_loop_test(t, windows_that_were_begun_stay_so_without_tasks, WIRE_ASYNC, WIRE_BSP + 1);
    tcase_add_test(t, before_its_time_no_lane_has_a_task);
    tcase_add_test(t, what_stood_still_is_not_made_up_for);
    tcase_add_test(t, without_a_pace_all_is_due);
    tcase_add_test(t, windows_are_taken_that_a_span_meets);
    tcase_add_test(t, a_day_has_its_own_examples_alone);
    tcase_add_test(t, a_day_has_its_own_values_alone);
    suite_add_tcase(s, t);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
