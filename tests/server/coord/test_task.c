/* test_task.c: lanes and tasks. */
#include "proto/wire/wire.h"
#include "server/coord/work/task.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct coord_tasks t;

static void plan(uint32_t lanes, uint32_t mode, uint64_t rows, uint32_t batch,
                 uint32_t task_batches)
{
    struct err e = {0};
    ck_assert_int_eq(coord_task_open(&t, lanes, mode, &e), 0);
    ck_assert_int_eq(coord_task_plan(&t, 1, &(struct coord_segment){.rows = rows}, 1, batch,
                                     task_batches, 0, &e),
                     0);
}

/* Tasks cover [0, rows) without gap or overlap. */
static void covers(uint64_t rows)
{
    uint8_t *seen = calloc(1, rows);
    for (uint32_t i = 0; i < t.tasks; i++)
        for (uint64_t r = 0; r < t.task[i].rows; r++) {
            ck_assert_uint_lt(t.task[i].position + r, rows);
            seen[t.task[i].position + r]++;
        }
    for (uint64_t r = 0; r < rows; r++)
        ck_assert_uint_eq(seen[r], 1);
    free(seen);
}

START_TEST(coord_task_batches_is_an_eighth_of_a_lane_within_bounds)
{
    ck_assert_uint_eq(coord_task_batches(4096 * 160, 4096, 2, 0, 1), 10);
    ck_assert_uint_eq(coord_task_batches(100, 4096, 2, 0, 1), 1);
    ck_assert_uint_eq(coord_task_batches(1ull << 38, 65536, 2, 0, 1), 64);
    ck_assert_uint_eq(coord_task_batches(1000, 1, 2, 7, 1), 7);
    /* at least so many, but no more than a quarter of a lane's part */
    static const uint32_t part[][2] = {{4, 1}, {28, 7}, {32, 8}, {40, 8}, {64, 8}, {80, 10}};
    for (size_t i = 0; i < sizeof part / sizeof part[0]; i++)
        ck_assert_uint_eq(coord_task_batches(10 * 2 * part[i][0], 10, 2, 0, 8), part[i][1]);
    ck_assert_uint_eq(coord_task_batches(10 * 2 * 28, 10, 2, 3, 8), 3);
    /* at most COORD_TASKS_MAX tasks */
    ck_assert_uint_gt(coord_task_batches(1ull << 30, 1, 2, 1, 1), 1ull << 11);
}
END_TEST

/* Appends the lane's next task, and pushes it. */
static void task_do(uint32_t lane, uint32_t index, uint64_t first)
{
    t.lane[lane].worker = 1;
    t.lane[lane].state = LANE_HELD;
    ck_assert_uint_eq(coord_task_append(&t, lane), index);
    ck_assert_uint_eq(t.task[index].first_batch, first);
    coord_task_pushed(&t, lane);
    t.lane[lane].worker = 0;
    t.lane[lane].state = LANE_FREE;
}

/* Tasks of a lane come again from any batch on, whole, in their order, under their numbers; then
 * the lane goes on with new ones. Another ring may open them at another batch before they are
 * done. */
START_TEST(coord_task_done_tasks_come_again)
{
    const struct coord_losses sum = {.examples = 40};
    plan(2, WIRE_BSP, 400, 10, 4); /* 5 tasks of 4 batches for each lane */
    for (uint32_t i = 0; i < 3; i++)
        task_do(1, 1 + 2 * i, 1 + 4 * i);
    ck_assert(coord_task_report(&t, 3, &sum));
    ck_assert(coord_task_again(&t, 1, 13)); /* the next batch: nothing to do again */
    ck_assert_uint_eq(t.pushed, 3);
    ck_assert_uint_eq(t.lane[1].task, COORD_NO_TASK);
    ck_assert(coord_task_again(&t, 1, 8));
    ck_assert_uint_eq(t.pushed, 1);
    ck_assert_uint_eq(t.lane[1].task, 3); /* its current one: batches 5 to 8 */
    ck_assert_uint_eq(t.lane[1].next_batch, 13);
    coord_task_pushed(&t, 1);
    ck_assert(!coord_task_report(&t, 3, &sum)); /* its figures count once */
    ck_assert_uint_eq(coord_task_next(&t, 1, 1), 5);
    ck_assert(coord_task_again(&t, 1, 1)); /* from the first batch on */
    ck_assert_uint_eq(t.pushed, 0);
    ck_assert_uint_eq(t.lane[1].task, 1);
    coord_task_pushed(&t, 1);
    ck_assert(coord_task_again(&t, 1, 11)); /* task 3 is not done again yet */
    ck_assert_uint_eq(t.lane[1].task, 3);
    coord_task_pushed(&t, 1);
    task_do(1, 5, 9);
    task_do(1, 7, 13);
    task_do(1, 9, 17);
    ck_assert_uint_eq(t.pushed, 5);
    ck_assert(!coord_task_again(&t, 1, 0)); /* of an epoch before */
    coord_task_close(&t);
}
END_TEST

START_TEST(coord_task_plan_covers_every_position_once)
{
    for (uint32_t mode = WIRE_ASYNC; mode <= WIRE_BSP; mode++)
        for (uint64_t rows = 1; rows < 400; rows += 13)
            for (uint32_t lanes = 1; lanes < 6; lanes++) {
                plan(lanes, mode, rows, 10, 1 + (uint32_t)rows % 5);
                covers(rows);
                coord_task_close(&t);
            }
}
END_TEST

/* Plans a pass over objects of these sizes, which the lanes take by turns. */
static uint64_t plan_objects(uint32_t lanes, uint32_t mode, const uint64_t *rows, uint32_t count,
                             uint64_t *holder)
{
    static struct coord_piece piece[16];
    struct coord_segment s = {.pieces = count, .piece = piece};
    struct err e = {0};
    for (uint32_t i = 0; i < count; i++) {
        piece[i] = (struct coord_piece){0, rows[i], i, i % lanes};
        s.rows += rows[i];
    }
    ck_assert_int_eq(coord_task_open(&t, lanes, mode, &e), 0);
    ck_assert_int_eq(coord_task_plan(&t, 1, &s, 1, 10, 3, 0, &e), 0);
    t.holder = holder;
    return s.rows;
}

/* The rows are covered also if objects are shorter than a batch or a multiple of one, and if a lane
 * has none. */
START_TEST(coord_task_of_objects_covers_each_row_once)
{
    static const uint64_t rows[] = {95, 10, 1, 30, 31, 29, 200, 11};
    for (uint32_t mode = WIRE_ASYNC; mode <= WIRE_BSP; mode++)
        for (uint32_t lanes = 1; lanes < 12; lanes++) {
            uint64_t next[8] = {0}, batches = 0, sum = plan_objects(lanes, mode, rows, 8, NULL);
            for (uint32_t i = 0; i < t.tasks; i++) {
                const struct coord_task *task = &t.task[i];
                ck_assert_uint_eq(task->before, batches);
                batches += (task->rows + 9) / 10;
                if (task->rows == 0)
                    continue;
                ck_assert_uint_eq(task->position, next[task->object]); /* it had no holder */
                next[task->object] += task->rows;
                sum -= task->rows;
                ck_assert_uint_le(task->batch_count, 3);
                ck_assert_uint_ge(task->batch_count * 10, task->rows);
                if (mode == WIRE_BSP)
                    ck_assert_uint_eq(task->lane, task->object % lanes);
            }
            ck_assert_uint_eq(sum, 0);
            ck_assert_uint_eq(t.batches, batches);
            for (uint32_t i = 0; mode == WIRE_BSP && i < t.tasks; i++)
                ck_assert_uint_eq(t.task[i].batch_count, t.task[i - i % lanes].batch_count);
            coord_task_close(&t);
        }
}
END_TEST

START_TEST(coord_task_of_an_object_goes_to_its_holder)
{
    static const uint64_t rows[] = {60, 60, 60};
    uint64_t holder[3] = {5, 0, 6};
    plan_objects(2, WIRE_SSP, rows, 3, holder);
    coord_lane_grant(&t, 0, 6);
    coord_lane_granted(&t, 0, 0);
    ck_assert_uint_eq(t.task[coord_task_append(&t, 0)].object, 2);
    coord_task_pushed(&t, 0);
    ck_assert_uint_eq(t.task[coord_task_append(&t, 0)].object, 2);
    coord_task_pushed(&t, 0);
    ck_assert_uint_eq(t.task[coord_task_append(&t, 0)].object, 1); /* it had no holder */
    ck_assert_uint_eq(holder[1], 6);
    coord_task_pushed(&t, 0);
    (void)coord_task_append(&t, 0);
    coord_task_pushed(&t, 0);
    ck_assert_uint_eq(coord_task_append(&t, 0), COORD_NO_TASK); /* the rest is worker 5's */
    ck_assert_uint_eq(coord_lane_pick(&t, 6, 2), COORD_NO_LANE);
    ck_assert_uint_eq(coord_lane_pick(&t, 5, 2), 1);
    ck_assert_uint_eq(coord_task_frontier(&t), t.tasks);
    /* a late worker takes over objects that are not begun, up to its fair share */
    t.objects = 3;
    t.late = 6;
    t.fair = 2;
    ck_assert_uint_eq(coord_lane_pick(&t, 6, 2), COORD_NO_LANE); /* it has two */
    t.fair = 3;
    ck_assert_uint_eq(coord_lane_pick(&t, 6, 2), 1);
    t.late = 7;
    ck_assert_uint_eq(coord_lane_pick(&t, 6, 2), COORD_NO_LANE);
    holder[0] = 0; /* its holder died */
    ck_assert_uint_eq(t.task[coord_task_append(&t, 0)].object, 0);
    coord_task_close(&t);
}
END_TEST

static uint32_t given(uint32_t lane, uint64_t to)
{
    t.lane[lane].worker = to;
    uint32_t i = coord_task_append(&t, lane);
    if (i != COORD_NO_TASK)
        coord_task_pushed(&t, lane);
    return i;
}

/* Two windows of objects; worker 5 holds all but one, which 6 holds. All tasks of the first window
 * are given out before one of the second, whatever the holders. */
START_TEST(coord_task_of_a_window_are_given_out_before_the_next)
{
    static const struct coord_piece first[] = {{0, 30, 0, 0}, {0, 30, 1, 0}, {0, 30, 2, 0}},
                                    second[] = {{30, 30, 0, 0}, {30, 30, 2, 0}};
    struct coord_segment s[] = {{.rows = 90, .pieces = 3, .piece = first},
                                {.position = 90, .rows = 60, .pieces = 2, .piece = second}};
    uint64_t holder[3] = {5, 5, 6};
    struct err e = {0};
    ck_assert_int_eq(coord_task_open(&t, 2, WIRE_SSP, &e), 0);
    ck_assert_int_eq(coord_task_plan(&t, 1, s, 2, 10, 2, 0, &e), 0);
    t.holder = holder;
    t.objects = 3;
    t.late = UINT64_MAX;
    ck_assert_uint_eq(t.tasks, 10);
    ck_assert_uint_eq(t.task[6].position, 30);
    ck_assert_uint_eq(given(1, 6), 4); /* object 2 */
    ck_assert_uint_eq(given(1, 6), 5);
    ck_assert_uint_eq(t.task[given(0, 5)].object, 0);
    /* worker 5 keeps its object that is not begun: 6 waits, and gets none of the second window */
    ck_assert_uint_eq(given(1, 6), COORD_NO_TASK);
    ck_assert_uint_eq(given(0, 5), 1);
    ck_assert_uint_eq(given(0, 5), 2);
    ck_assert_uint_eq(given(1, 6), COORD_NO_TASK);
    ck_assert_uint_eq(given(0, 5), 3);
    ck_assert_uint_eq(t.task[given(1, 6)].object, 2);
    ck_assert_uint_eq(t.task[given(0, 5)].object, 0);
    coord_task_close(&t);
}
END_TEST

/* A holder that is behind loses objects that it has not begun, except its last one. */
START_TEST(coord_task_of_a_window_is_taken_over_where_its_holder_has_others)
{
    static const struct coord_piece first[] = {{0, 20, 0, 0}, {0, 20, 1, 0}, {0, 20, 2, 0}},
                                    second[] = {{20, 20, 0, 0}};
    struct coord_segment s[] = {{.rows = 60, .pieces = 3, .piece = first},
                                {.position = 60, .rows = 20, .pieces = 1, .piece = second}};
    struct err e = {0};
    for (uint32_t segments = 1; segments <= 2; segments++) {
        uint64_t holder[3] = {5, 5, 5};
        ck_assert_int_eq(coord_task_open(&t, 2, WIRE_SSP, &e), 0);
        ck_assert_int_eq(coord_task_plan(&t, 1, s, segments, 10, 2, 0, &e), 0);
        t.holder = holder;
        t.objects = 3;
        t.late = UINT64_MAX;
        uint32_t i = given(1, 6);
        if (segments == 1) /* without windows another worker's object stays its own */
            ck_assert_uint_eq(i, COORD_NO_TASK);
        else
            ck_assert(i == 2 && holder[2] == 6);
        ck_assert_uint_eq(given(0, 5), 0);
        ck_assert_uint_eq(given(1, 6), COORD_NO_TASK); /* one is left */
        coord_task_close(&t);
    }
}
END_TEST

/* Objects without a holder are given out in order. A task behind the gate is not given out, even if
 * its object is held. */
START_TEST(coord_task_of_nobodys_objects_come_in_order)
{
    static const uint64_t rows[] = {30, 30, 30, 30};
    uint64_t holder[4] = {0, 0, 0, 5};
    plan_objects(2, WIRE_SSP, rows, 4, holder);
    t.objects = 4;
    t.late = UINT64_MAX;
    ck_assert_uint_eq(t.tasks, 4);
    t.gate = 0;
    ck_assert_uint_eq(given(0, 7), COORD_NO_TASK);
    t.gate = 2;
    ck_assert_uint_eq(given(1, 5), 0); /* its own object has to wait */
    ck_assert_uint_eq(given(0, 7), 1);
    ck_assert_uint_eq(given(0, 7), COORD_NO_TASK);
    ck_assert_uint_eq(given(1, 5), COORD_NO_TASK);
    t.gate = 4;
    ck_assert_uint_eq(given(1, 5), 3);
    ck_assert_uint_eq(given(0, 7), 2);
    coord_task_close(&t);
}
END_TEST

/* A task has as many batches as keep an epoch within its bound, with a rest for each lane; with one
 * row less it needs no more. */
START_TEST(coord_task_batches_keep_within_the_bound)
{
    for (uint32_t lanes = 1; lanes <= LIMIT_LANES; lanes += LIMIT_LANES - 1) {
        uint64_t fit = COORD_TASKS_MAX - lanes;
        ck_assert_uint_eq(coord_task_batches(fit * 10, 10, lanes, 1, 1), 1);
        ck_assert_uint_eq(coord_task_batches(fit * 10 + 1, 10, lanes, 1, 1), 2);
        ck_assert_uint_eq(coord_task_batches(2 * fit * 10, 10, lanes, 1, 1), 2);
        ck_assert_uint_eq(coord_task_batches(2 * fit * 10 + 1, 10, lanes, 1, 1), 3);
    }
}
END_TEST

START_TEST(coord_task_bsp_lanes_are_equally_long)
{
    for (uint64_t rows = 1; rows < 400; rows += 7) {
        plan(4, WIRE_BSP, rows, 10, 3);
        uint64_t length[4] = {0};
        for (uint32_t i = 0; i < t.tasks; i++) {
            ck_assert_uint_eq(t.task[i].lane, i % 4);
            ck_assert_uint_le((t.task[i].rows + 9) / 10, t.task[i].batch_count);
            length[i % 4] += t.task[i].batch_count;
        }
        for (int l = 1; l < 4; l++)
            ck_assert_uint_eq(length[l], length[0]);
        coord_task_close(&t);
    }
}
END_TEST

START_TEST(coord_task_batch_numbers_count_on_over_tasks_and_epochs)
{
    struct err e;
    plan(1, WIRE_SSP, 95, 10, 4);
    uint64_t next = 1;
    for (uint32_t epoch = 1; epoch <= 3; epoch++) {
        for (uint32_t n = 0; n < 3; n++) {
            uint32_t i = coord_task_append(&t, 0);
            ck_assert_uint_eq(t.task[i].first_batch, next);
            next += t.task[i].batch_count;
            coord_task_pushed(&t, 0);
        }
        ck_assert_uint_eq(coord_task_append(&t, 0), COORD_NO_TASK);
        ck_assert(coord_task_drained(&t));
        ck_assert_int_eq(
            coord_task_plan(&t, epoch + 1, &(struct coord_segment){.rows = 95}, 1, 10, 4, 0, &e),
            0);
    }
    ck_assert_uint_eq(next, 31);
    coord_task_close(&t);
}
END_TEST

/* A lane gets the rounds before the stop, and no more until the stop is moved. */
START_TEST(coord_task_stops_between_rounds)
{
    plan(3, WIRE_BSP, 1000, 10, 4); /* 8 rounds of 12 batches, one of 4 */
    ck_assert_uint_eq(coord_task_after(&t, 13), 6);
    ck_assert_uint_eq(coord_task_before(&t, 6), 24);
    ck_assert_uint_eq(coord_task_before(&t, t.tasks), 100);
    ck_assert_uint_eq(coord_task_after(&t, 101), t.tasks);
    coord_task_stop(&t, 6);
    for (uint32_t l = 0; l < 3; l++) {
        for (uint32_t n = 0; n < 2; n++) {
            ck_assert(!coord_task_drained(&t));
            ck_assert_uint_eq(coord_task_append(&t, l), 3 * n + l);
            coord_task_pushed(&t, l);
        }
        ck_assert_uint_eq(coord_task_append(&t, l), COORD_NO_TASK);
    }
    ck_assert(coord_task_drained(&t));
    coord_task_stop(&t, t.tasks);
    ck_assert(!coord_task_drained(&t));
    (void)coord_task_append(&t, 1);
    ck_assert_uint_eq(coord_task_frontier(&t), 9); /* the other lanes have yet to do their part */
    coord_task_stop(&t, 0);
    ck_assert_uint_eq(t.stop, 9);
    coord_task_settle(&t);
    ck_assert_uint_eq(t.pushed, 7);
    ck_assert(!coord_task_drained(&t));
    coord_task_close(&t);
}
END_TEST

START_TEST(coord_lane_generation_rises_with_every_grant_and_close)
{
    plan(2, WIRE_SSP, 100, 10, 2);
    ck_assert_uint_eq(coord_lane_pick(&t, 7, 1), 0);
    coord_lane_grant(&t, 0, 7);
    ck_assert_uint_eq(t.lane[0].generation, 1);
    ck_assert_uint_eq(coord_lane_pick(&t, 7, 1), COORD_NO_LANE); /* its share */
    ck_assert_uint_eq(coord_lane_pick(&t, 8, 1), 1);
    coord_lane_granted(&t, 0, 0);
    (void)coord_task_append(&t, 0);
    coord_lane_close(&t, 0);
    ck_assert_uint_eq(t.lane[0].generation, 2);
    coord_lane_closed(&t, 0);
    coord_lane_grant(&t, 1, 8);
    ck_assert_uint_eq(coord_lane_pick(&t, 8, 1), 0); /* any worker may take an unfinished task */
    coord_task_close(&t);
}
END_TEST

/* bsp over objects: a lane goes to its owner, the worker that has its objects open. A lane without
 * an owner goes to any worker, and the lane of another owner only to a worker that may hold all
 * lanes. */
START_TEST(coord_lane_of_objects_goes_to_its_owner)
{
    static const uint64_t rows[] = {60, 60, 60, 60};
    static const uint64_t owner[] = {5, 6, 0, 5};
    uint64_t holder[4] = {0};
    plan_objects(4, WIRE_BSP, rows, 4, holder);
    for (uint32_t l = 0; l < 4; l++)
        t.lane[l].owner = owner[l];
    ck_assert_uint_eq(coord_lane_pick(&t, 6, 2), 1);
    t.lane[1].state = LANE_HELD;
    ck_assert_uint_eq(coord_lane_pick(&t, 6, 2), 2);
    t.lane[2].state = LANE_HELD;
    ck_assert_uint_eq(coord_lane_pick(&t, 6, 3), COORD_NO_LANE);
    ck_assert_uint_eq(coord_lane_pick(&t, 6, 4), 0);
    ck_assert_uint_eq(coord_lane_pick(&t, 5, 2), 0);
    coord_task_close(&t);
}
END_TEST

/* A granted lane keeps nothing of its last holder; the object of the unfinished task goes to the
 * new holder. */
START_TEST(coord_lane_that_is_granted_is_as_new)
{
    static const uint64_t rows[] = {60, 60};
    uint64_t holder[2] = {0};
    plan_objects(2, WIRE_SSP, rows, 2, holder);
    coord_lane_grant(&t, 0, 7);
    coord_lane_granted(&t, 0, 3);
    (void)coord_task_append(&t, 0);
    ck_assert_uint_eq(holder[0], 7);
    t.lane[0].used = t.lane[0].placed = true;
    t.lane[0].answered_ns = 9;
    coord_lane_close(&t, 0);
    coord_lane_closed(&t, 0);
    coord_lane_grant(&t, 0, 8);
    ck_assert_uint_eq(holder[0], 8);
    ck_assert(!t.lane[0].used && !t.lane[0].placed);
    ck_assert_uint_eq(t.lane[0].answered_ns, 0);
    coord_task_close(&t);
}
END_TEST

START_TEST(coord_task_report_counts_once)
{
    plan(1, WIRE_SSP, 100, 10, 5);
    uint32_t i = coord_task_append(&t, 0);
    struct coord_losses sum = {.examples = 50, .loss_sum = 1.0, .bad_lines = 3, .drawn = 70},
                        other = {.examples = 50, .loss_sum = 9.0};
    ck_assert(coord_task_report(&t, i, &sum));
    ck_assert(!coord_task_report(&t, i, &other));
    ck_assert_double_eq(t.task[i].sum.loss_sum, 1.0);
    ck_assert(t.examples == 50 && t.bad_lines == 3 && t.drawn == 70);
    ck_assert_uint_eq(coord_task_index(&t, coord_task_number(&t, i)), i);
    ck_assert_uint_eq(coord_task_index(&t, (2ull << 32) | i), COORD_NO_TASK);
    ck_assert_uint_eq(coord_task_index(&t, (1ull << 32) | 99), COORD_NO_TASK);
    coord_task_close(&t);
}
END_TEST

START_TEST(coord_losses_are_added_whole)
{
    struct coord_losses sum = {0}, one = {.examples = 1,
                                          .bad_lines = 2,
                                          .drawn = 3,
                                          .refused = 4,
                                          .loss_sum = 5,
                                          .weight_sum = 6};
    for (uint32_t i = 0; i < LIMIT_TASKS; i++)
        one.loss_task[i] = 7 + i;
    coord_losses_add(&sum, &one);
    coord_losses_add(&sum, &one);
    ck_assert(sum.examples == 2 && sum.bad_lines == 4 && sum.drawn == 6 && sum.refused == 8);
    ck_assert(sum.loss_sum == 10 && sum.weight_sum == 12);
    for (uint32_t i = 0; i < LIMIT_TASKS; i++)
        ck_assert(sum.loss_task[i] == 14 + 2 * i);
    ck_assert(coord_losses_mean(&sum) == 10.0 / 12); /* weighted, if there are weights */
    sum.weight_sum = 0;
    ck_assert(coord_losses_mean(&sum) == 5);
}
END_TEST

/* Tasks behind the gate, or behind the stop, wait. */
START_TEST(coord_task_behind_the_gate_is_not_given_out)
{
    plan(2, _i == 0 ? WIRE_SSP : WIRE_BSP, 100, 10, 1);
    t.gate = 4;
    for (uint32_t i = 0; i < 4; i++) {
        ck_assert_uint_ne(coord_task_append(&t, i % 2), COORD_NO_TASK);
        coord_task_pushed(&t, i % 2);
    }
    ck_assert_uint_eq(coord_task_append(&t, 0), COORD_NO_TASK);
    ck_assert_uint_eq(coord_lane_pick(&t, 9, 2), COORD_NO_LANE);
    t.gate = t.tasks;
    coord_task_stop(&t, 6);
    for (uint32_t i = 0; i < 2; i++) {
        ck_assert_uint_ne(coord_task_append(&t, i), COORD_NO_TASK);
        coord_task_pushed(&t, i);
    }
    ck_assert_uint_eq(coord_task_append(&t, 1), COORD_NO_TASK);
    coord_task_close(&t);
}
END_TEST

START_TEST(coord_task_records_bring_an_epoch_back)
{
    struct coord_task_record record[8];
    struct err e;
    plan(2, WIRE_SSP, 100, 10, 2); /* five tasks */
    for (int n = 0; n < 2; n++) {
        (void)coord_task_append(&t, 0);
        coord_task_pushed(&t, 0);
    }
    uint32_t open = coord_task_append(&t, 1);
    for (uint32_t i = 0; i < t.tasks; i++)
        coord_task_to_record(&t, i, 5, &record[i]);
    coord_task_close(&t);
    plan(2, WIRE_SSP, 100, 10, 2);
    for (uint32_t i = 0; i < 3; i++) {
        struct coord_task_record other = record[i];
        ck_assert_int_eq(coord_task_from_record(&t, i, 6, &other, &e), 0); /* of another run */
        other.epoch++;
        ck_assert_int_eq(coord_task_from_record(&t, i, 5, &other, &e), 0);
        ck_assert_uint_eq(t.task[i].first_batch, 0);
        ck_assert_int_eq(coord_task_from_record(&t, i, 5, &record[i], &e), 0);
        ck_assert_uint_eq(t.task[i].first_batch, record[i].first_batch);
    }
    coord_task_resume(&t);
    /* how far a lane's newest task came is unknown: it is given again */
    ck_assert_uint_eq(t.pushed, 1);
    ck_assert_uint_eq(t.lane[0].task, 1);
    ck_assert_uint_eq(t.lane[1].task, open);
    ck_assert_uint_eq(t.lane[0].next_batch, 5);
    coord_task_pushed(&t, 0);
    ck_assert_uint_eq(coord_task_append(&t, 0), 3);
    coord_task_close(&t);
}
END_TEST

/* Records of a release that cuts an epoch otherwise, or of a damaged store; _i 1: under bsp. */
START_TEST(coord_task_records_that_do_not_fit_are_refused)
{
    struct coord_task_record record;
    struct err e = {0};
    plan(2, _i == 0 ? WIRE_SSP : WIRE_BSP, 100, 10, 2);
    ck_assert_uint_eq(coord_task_append(&t, 1), _i == 0 ? 0 : 1);
    coord_task_to_record(&t, (uint32_t)_i, 5, &record);
    coord_task_close(&t);
    plan(2, _i == 0 ? WIRE_SSP : WIRE_BSP, 100, 10, 2);
    struct coord_task_record wrong[4] = {record, record, record, record};
    wrong[0].lane = 2; /* there are two */
    wrong[1].batch_count = 3;
    wrong[2].first_batch = 0;
    wrong[3].lane = 0; /* under bsp a task has its lane beforehand */
    for (uint32_t i = 0; i < 4 - (_i == 0); i++)
        ck_assert_int_eq(coord_task_from_record(&t, (uint32_t)_i, 5, &wrong[i], &e),
                         SHOAL_E_CORRUPT);
    ck_assert_int_eq(coord_task_from_record(&t, (uint32_t)_i, 5, &wrong[1], &e), SHOAL_E_CORRUPT);
    char must[256];
    snprintf(must, sizeof must,
             "task %d is stored with 3 batches from batch 1 of lane 1 on, and is cut to 2: another "
             "release has gone on with this epoch, so it is not known which rows are learnt",
             _i);
    ck_assert_str_eq(e.text, must);
    ck_assert_uint_eq(t.task[_i].first_batch, 0);
    coord_task_close(&t);
}
END_TEST

START_TEST(coord_task_too_many_are_refused)
{
    struct err e = {0};
    ck_assert_int_eq(coord_task_open(&t, 1, WIRE_SSP, &e), 0);
    ck_assert_int_eq(
        coord_task_plan(&t, 1, &(struct coord_segment){.rows = 1ull << 30}, 1, 1, 1, 0, &e),
        SHOAL_E_TOO_BIG);
    coord_task_close(&t);
    ck_assert_int_eq(coord_task_open(&t, 0, WIRE_SSP, &e), SHOAL_E_CONFIG);
    ck_assert_int_eq(coord_task_open(&t, LIMIT_LANES + 1, WIRE_SSP, &e), SHOAL_E_CONFIG);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("coord_task");
    TCase *c = tcase_create("tasks");
    tcase_add_test(c, coord_task_batches_is_an_eighth_of_a_lane_within_bounds);
    tcase_add_test(c, coord_task_plan_covers_every_position_once);
    tcase_add_test(c, coord_task_of_objects_covers_each_row_once);
    tcase_add_test(c, coord_task_of_an_object_goes_to_its_holder);
    tcase_add_test(c, coord_task_of_a_window_are_given_out_before_the_next);
    tcase_add_test(c, coord_task_of_a_window_is_taken_over_where_its_holder_has_others);
    tcase_add_test(c, coord_task_of_nobodys_objects_come_in_order);
    tcase_add_test(c, coord_task_batches_keep_within_the_bound);
    tcase_add_test(c, coord_task_bsp_lanes_are_equally_long);
    tcase_add_test(c, coord_task_batch_numbers_count_on_over_tasks_and_epochs);
    tcase_add_test(c, coord_task_stops_between_rounds);
    tcase_add_test(c, coord_lane_generation_rises_with_every_grant_and_close);
    tcase_add_test(c, coord_lane_of_objects_goes_to_its_owner);
    tcase_add_test(c, coord_lane_that_is_granted_is_as_new);
    tcase_add_test(c, coord_task_report_counts_once);
    tcase_add_test(c, coord_task_done_tasks_come_again);
    tcase_add_test(c, coord_losses_are_added_whole);
    tcase_add_loop_test(c, coord_task_behind_the_gate_is_not_given_out, 0, 2);
    tcase_add_test(c, coord_task_records_bring_an_epoch_back);
    tcase_add_loop_test(c, coord_task_records_that_do_not_fit_are_refused, 0, 2);
    tcase_add_test(c, coord_task_too_many_are_refused);
    suite_add_tcase(s, c);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
