/* test_pace.c: which lanes leave which worker, by steps that beats tell. */
#include "proto/base/rng.h"
#include "server/coord/coord.h"
#include "server/coord/job/slot.h"
#include "server/coord/job/submit.h"
#include "server/coord/work/pace.h"
#include "tests/lib/suite.h"
#include "tests/sim/sim.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SECOND UINT64_C(1000000000)
enum { WORKERS = 4, LANES = 8, NONE = WORKERS };

static struct coord *c;
static struct coord_job *j;
static struct sim *sim;
static uint64_t holder[1]; /* of one object */

static void start_with(const char *consistency, uint32_t lanes, uint32_t workers)
{
    static const struct sim_options calm = {.seed = 7, .delay_min_ns = 1, .delay_max_ns = 2};
    char text[512];
    struct coord_options o = {.shards = 1, .lease_ms = 1000};
    struct err e = {0};
    snprintf(text, sizeof text,
             "job: t\ndata: {format: csv, train: [a.csv], label: 0}\n"
             "tables: [{name: emb, dim: 2, tablets: 64}]\nmodel: {kind: probe}\n"
             "train: {consistency: %s, lanes: %u, batch: 10}\n",
             consistency, lanes);
    sim = sim_new(&calm);
    struct sim_node *node = sim_node_new(sim, "coordinator", &coord_handler, NULL);
    (void)sim_run(sim, 10 * SECOND, NULL, NULL);
    ck_assert_int_eq(coord_new(&o, sim_node_env(node), coord_store_memory(), &c, &e), 0);
    sim_pause(node, 1000000 * SECOND); /* time passes, and nothing but the cases acts */
    j = &c->slot[0];
    ck_assert_msg(coord_submit_build(j, text, strlen(text), &e) == 0, "%s", e.text);
    j->at.number = j->at.run = 5;
    j->at.epoch = 1;
    j->at.phase = PHASE_TRAIN;
    struct coord_segment rows = {.rows = 100000};
    ck_assert_int_eq(coord_task_plan(j->tasks, 1, &rows, 1, 10, 2, sim_now_ns(sim), &e), 0);
    j->workers.worker = calloc(workers, sizeof *j->workers.worker);
    j->workers.count = j->workers.capacity = workers;
    for (uint32_t i = 0; i < workers; i++) {
        struct coord_worker *w = &j->workers.worker[i];
        w->number = i + 1;
        w->lanes_max = 3;
        snprintf(w->name, sizeof w->name, "worker-%u", i);
    }
}

static void start(const char *consistency)
{
    start_with(consistency, LANES, WORKERS);
}

static void pass(uint64_t ns)
{
    (void)sim_run(sim, sim_now_ns(sim) + ns, NULL, NULL);
}

static struct coord_worker *worker(uint32_t i)
{
    return &j->workers.worker[i];
}

/* Worker i holds the lane; NONE: it is free. */
static void hold(uint32_t lane, uint32_t i)
{
    struct coord_lane *l = &j->tasks->lane[lane];
    l->state = i == NONE ? LANE_FREE : LANE_HELD;
    l->worker = i == NONE ? 0 : i + 1;
    l->kept_for = 0;
}

/* The lanes are dealt in turn to the first `workers`. */
static void deal(uint32_t workers)
{
    for (uint32_t l = 0; l < LANES; l++)
        hold(l, l % workers);
}

static void beat(uint32_t i, double busy_s, double waits_s, uint64_t batches)
{
    struct wire_WORKER_BEAT b = worker(i)->figures;
    b.compute_s += busy_s / 2;
    b.pull_s += busy_s / 2;
    b.wait_s += waits_s;
    b.batches += batches;
    coord_pace_beat(j, worker(i), &b);
    worker(i)->figures = b;
}

/* A window in which a batch of a lane took the worker `step` seconds. */
static void measure(uint32_t i, double step)
{
    beat(i, 0, 0, 0);
    pass(SECOND / 10);
    beat(i, COORD_PACE_BATCHES * step, 5, COORD_PACE_BATCHES);
}

/* All have a place for a lane, but for those that hold `most`. */
static void places(uint32_t most)
{
    for (uint32_t i = 0; i < WORKERS; i++)
        if (coord_lane_held(j->tasks, i + 1) < most)
            coord_pace_idle(j, worker(i));
}

static void done(void)
{
    j->tasks->holder = NULL;
    coord_free(c);
    sim_free(sim);
}

START_TEST(pace_steps_leave_waiting_out)
{
    start("ssp");
    deal(4);
    beat(0, 3, 9, 100); /* before it held them */
    ck_assert_double_eq(worker(0)->pace.step_s, 0);
    pass(SECOND);
    beat(0, 1, 50, COORD_PACE_BATCHES - 1); /* too few */
    ck_assert_double_eq(worker(0)->pace.step_s, 0);
    pass(SECOND);
    beat(0, 3, 50, 1);
    ck_assert_double_eq_tol(worker(0)->pace.step_s, 4.0 / COORD_PACE_BATCHES, 1e-9);
    ck_assert_uint_eq(worker(0)->pace.step_lanes, 2);
    ck_assert_uint_eq(worker(0)->pace.span_ns, 2 * SECOND);
    hold(7, 0); /* another number of lanes: measured anew */
    beat(0, 99, 0, COORD_PACE_BATCHES);
    ck_assert_double_eq_tol(worker(0)->pace.step_s, 4.0 / COORD_PACE_BATCHES, 1e-9);
    j->at.phase = PHASE_EVAL;
    beat(0, 99, 0, COORD_PACE_BATCHES);
    ck_assert_double_eq_tol(worker(0)->pace.step_s, 4.0 / COORD_PACE_BATCHES, 1e-9);
    done();
}
END_TEST

START_TEST(pace_a_lane_leaves_the_slowest_for_the_fastest)
{
    start("ssp");
    deal(4);
    for (uint32_t i = 0; i < WORKERS; i++)
        measure(i, i == 0 ? 0.5 : 0.1 + 0.01 * i);
    places(3);
    for (uint32_t l = 1; l < 4; l++)
        ck_assert(!coord_pace_leaves(j, l));
    ck_assert(coord_pace_leaves(j, 0));
    ck_assert_uint_eq(j->tasks->lane[0].kept_for, 2); /* worker 1 */
    ck_assert_uint_eq(worker(0)->pace.left_lanes, 2);
    ck_assert(!coord_pace_leaves(j, 4)); /* one at a time */
    /* the taker has it: nothing moves before the slow one is measured anew */
    hold(0, 1);
    ck_assert(!coord_pace_leaves(j, 4));
    measure(0, 0.5);
    places(4);
    ck_assert(coord_pace_leaves(j, 4));
    ck_assert_uint_eq(j->tasks->lane[4].kept_for, 3); /* worker 1 is not measured with three */
    ck_assert_uint_eq(j->tally.lanes_moved, 2);
    done();
}
END_TEST

/* It says what was measured, until it has recovered or has its lanes again. */
START_TEST(pace_a_slow_worker_is_told_until_it_recovers)
{
    char text[256];
    start("ssp");
    deal(4);
    for (uint32_t i = 0; i < WORKERS; i++)
        measure(i, i == 0 ? 0.5 : 0.1);
    ck_assert(!coord_pace_text(j, worker(0), text, sizeof text));
    places(3);
    ck_assert(coord_pace_leaves(j, 0));
    hold(0, 1);
    ck_assert(coord_pace_text(j, worker(0), text, sizeof text));
    ck_assert_str_eq(text, "worker worker-0 needed 0.5 s for a batch of a lane, longer than the "
                           "others: lanes have left it, and it holds 1; see what else runs on its "
                           "machine");
    ck_assert(!coord_pace_text(j, worker(1), text, sizeof text));
    measure(0, 0.05); /* recovered */
    ck_assert(!coord_pace_text(j, worker(0), text, sizeof text));
    measure(0, 0.4); /* slow again */
    ck_assert(coord_pace_text(j, worker(0), text, sizeof text));
    hold(0, 0);
    ck_assert(!coord_pace_text(j, worker(0), text, sizeof text));
    hold(0, NONE);
    hold(4, NONE);
    ck_assert(coord_pace_text(j, worker(0), text, sizeof text));
    ck_assert_ptr_nonnull(strstr(text, "and it holds 0"));
    j->at.phase = PHASE_DIGEST;
    ck_assert(!coord_pace_text(j, worker(0), text, sizeof text));
    done();
}
END_TEST

static const char *const modes[] = {"ssp", "async", "bsp"};

/* Only ssp waits for the slowest, and lets lanes move. */
START_TEST(pace_lanes_go_by_speed_under_ssp_alone)
{
    start(modes[_i]);
    deal(4);
    for (uint32_t i = 0; i < WORKERS; i++)
        measure(i, i == 0 ? 0.5 : 0.1);
    places(3);
    ck_assert(coord_pace_leaves(j, 0) == (_i == 0));
    done();
}
END_TEST

/* A lane that has moved stays, by the same model of the workers' steps: with random steps and
 * numbers of lanes no lane comes back. */
START_TEST(pace_no_lane_goes_back)
{
    start("ssp");
    struct rng r = rng_of((uint64_t)_i, 1, 2);
    double speed[WORKERS]; /* seconds of a batch with one lane */
    for (uint32_t i = 0; i < WORKERS; i++) {
        speed[i] = 0.05 + 0.2 * (double)rng_float(&r);
        worker(i)->lanes_max = LANES;
    }
    for (uint32_t l = 0; l < LANES; l++)
        hold(l, (uint32_t)rng_below(&r, WORKERS));
    uint32_t from[LANES], moves = 0;
    for (uint32_t l = 0; l < LANES; l++)
        from[l] = NONE;
    for (uint32_t round = 0; round < 200; round++) {
        uint32_t lane = (uint32_t)rng_below(&r, LANES),
                 was = (uint32_t)j->tasks->lane[lane].worker - 1;
        for (uint32_t i = 0; i < WORKERS; i++)
            measure(i, speed[i] * coord_lane_held(j->tasks, i + 1));
        for (uint32_t i = 0; i < WORKERS; i++) /* trials are another case */
            if (worker(i)->pace.rests > 0)
                worker(i)->pace.rest_ns = UINT64_MAX;
        places(LANES);
        if (!coord_pace_leaves(j, lane))
            continue;
        ck_assert_uint_ne(j->tasks->lane[lane].kept_for, 0);
        uint32_t to = (uint32_t)j->tasks->lane[lane].kept_for - 1;
        ck_assert_uint_ne(to, from[lane]);
        from[lane] = was;
        hold(lane, to);
        coord_pace_granted(j, worker(to));
        moves++;
    }
    ck_assert_uint_le(moves, LANES);
    double longest = 0, best = 0;
    for (uint32_t i = 0; i < WORKERS; i++) {
        longest = fmax(longest, speed[i] * coord_lane_held(j->tasks, i + 1));
        best += 1 / speed[i];
    }
    ck_assert_double_ge(LANES / longest, best / 2 / COORD_PACE_GAIN); /* whole lanes lose a half */
    done();
}
END_TEST

/* Without a worker that has a place, a lane of the slow one stays free where the job does more. */
START_TEST(pace_a_lane_leaves_for_none_where_that_is_more)
{
    start("ssp");
    deal(4);
    /* 8 batches in a step of the slowest; 7 in one of the others */
    for (uint32_t i = 0; i < WORKERS; i++)
        measure(i, i == 0 ? 0.1 * (_i == 0 ? 1.7 : 1.8) : 0.1);
    ck_assert(coord_pace_leaves(j, 0) == (_i == 1));
    ck_assert_uint_eq(j->tasks->lane[0].kept_for, 0);
    done();
}
END_TEST

static uint32_t held(uint32_t i)
{
    return coord_lane_held(j->tasks, i + 1);
}

/* Lets lanes leave until none does, with a worker's step by its lanes; the fast have `most`. */
static void settle(const double each[WORKERS], uint32_t most)
{
    for (uint32_t round = 0; round < 100; round++) {
        uint32_t lane = round % LANES;
        for (uint32_t i = 0; i < WORKERS; i++)
            if (held(i) > 0)
                measure(i, each[i] * held(i));
        for (uint32_t i = 0; i < WORKERS; i++) /* trials are another case */
            if (worker(i)->pace.rests > 0)
                worker(i)->pace.rest_ns = UINT64_MAX;
        places(most);
        if (j->tasks->lane[lane].state != LANE_HELD || !coord_pace_leaves(j, lane))
            continue;
        uint32_t to = NONE;
        if (j->tasks->lane[lane].kept_for != 0)
            to = (uint32_t)j->tasks->lane[lane].kept_for - 1;
        hold(lane, to);
        if (to != NONE)
            coord_pace_granted(j, worker(to));
    }
}

/* The first lane that leaves one of them gains nothing as long as the other has its own. With
 * places for them, and without. */
START_TEST(pace_several_slow_workers_lose_their_lanes)
{
    static const double each[WORKERS] = {0.4, 0.4, 0.05, 0.05};
    start("ssp");
    deal(4);
    for (uint32_t i = 0; i < WORKERS; i++)
        worker(i)->lanes_max = 4;
    settle(each, _i == 0 ? 4 : 0);
    ck_assert_uint_eq(held(0) + held(1), 0);
    ck_assert_uint_eq(held(2) + held(3), _i == 0 ? LANES : 4);
    ck_assert_uint_eq(j->tally.lanes_moved, 4);
    done();
}
END_TEST

/* The fast one could have all lanes, and the job would do 1.2 times as much. */
START_TEST(pace_equal_workers_keep_their_lanes_beside_a_faster_one)
{
    static const double each[WORKERS] = {0.1, 0.1, 0.03, 0.1};
    start("ssp");
    for (uint32_t l = 0; l < LANES; l++)
        hold(l, l < 4 ? l % 2 : 2);
    j->workers.count = 3;
    settle(each, LANES);
    ck_assert_uint_eq(held(0), 2);
    ck_assert_uint_eq(held(1), 2);
    ck_assert_uint_eq(j->tally.lanes_moved, 0);
    done();
}
END_TEST

/* Its rest is not over; but what made the job faster without it is gone. */
START_TEST(pace_a_slow_worker_has_lanes_again_when_others_die)
{
    static const double each[WORKERS] = {0.25, 0.05, 0.05, 0.05};
    start("ssp");
    deal(4);
    settle(each, 3);
    ck_assert_uint_eq(held(0), 0);
    worker(0)->pace.rest_ns = UINT64_MAX;
    pass(3 * SECOND);
    for (uint32_t l = 0; l < LANES; l++)
        hold(l, l < 3 ? 1 : NONE);
    coord_pace_changed(j);
    places(3);
    ck_assert_uint_eq(coord_pace_share(j, worker(0)), 0); /* the others ask for the free ones */
    j->workers.count = 2;
    ck_assert_uint_eq(coord_pace_share(j, worker(0)), 1);
    hold(3, 0);
    coord_pace_granted(j, worker(0));
    ck_assert_uint_eq(coord_pace_share(j, worker(0)), 1); /* with two lanes it would hold it */
    settle(each, 1);
    ck_assert_uint_eq(held(0), 1); /* it keeps the lane */
    done();
}
END_TEST

/* It alone trains the objects that it holds. */
START_TEST(pace_the_last_lane_of_objects_stays)
{
    start("ssp");
    hold(0, 0);
    for (uint32_t l = 1; l < LANES; l++)
        hold(l, 1 + l % 3);
    for (uint32_t i = 0; i < WORKERS; i++)
        measure(i, i == 0 ? 0.5 : 0.1);
    places(4);
    j->tasks->holder = holder;
    j->tasks->objects = 1;
    for (uint32_t i = 0; i < j->tasks->tasks; i++)
        j->tasks->task[i].object = 0;
    ck_assert(!coord_pace_leaves(j, 0));
    j->tasks->holder = NULL;
    ck_assert(coord_pace_leaves(j, 0));
    done();
}
END_TEST

START_TEST(pace_a_worker_without_lanes_rests_and_is_tried)
{
    start("ssp");
    deal(4);
    for (uint32_t i = 0; i < WORKERS; i++)
        measure(i, i == 0 ? 0.5 : 0.1);
    hold(4, 1);
    measure(0, 0.5);
    measure(1, 0.15);
    places(3);
    ck_assert(coord_pace_leaves(j, 0));
    ck_assert_uint_eq(worker(0)->pace.left_lanes, 1);
    hold(0, 2);
    pass(SECOND);
    ck_assert_uint_eq(coord_pace_share(j, worker(0)), 0);
    coord_pace_idle(j, worker(0));
    ck_assert(!coord_pace_leaves(j, 1)); /* it rests: 16 windows of 0.1 s */
    pass(SECOND);
    coord_pace_idle(j, worker(0));
    ck_assert(coord_pace_leaves(j, 1));
    ck_assert_uint_eq(j->tasks->lane[1].kept_for, 1);
    hold(1, 0);
    coord_pace_granted(j, worker(0));
    ck_assert_double_eq(worker(0)->pace.step_s, 0);
    /* still slow: it rests for twice as long */
    for (uint32_t i = 0; i < WORKERS; i++)
        measure(i, i == 0 ? 0.5 : 0.1);
    places(3);
    ck_assert(coord_pace_leaves(j, 1));
    ck_assert_uint_ge(worker(0)->pace.rest_ns - sim_now_ns(sim), 32 * SECOND / 10);
    done();
}
END_TEST

/* It may have been slow for a moment, and no other worker has a place for its lane. */
START_TEST(pace_a_worker_gets_its_lane_back_after_its_rest)
{
    start("ssp");
    deal(4);
    for (uint32_t i = 0; i < WORKERS; i++)
        measure(i, i == 0 ? 0.25 : 0.1);
    ck_assert(coord_pace_leaves(j, 0));
    hold(0, NONE);
    measure(0, 0.05); /* it was slow for a moment */
    ck_assert_uint_eq(coord_pace_share(j, worker(0)), 1);
    pass(2 * SECOND); /* 16 windows of 0.1 s */
    ck_assert_uint_eq(coord_pace_share(j, worker(0)), 2);
    measure(0, 0.125); /* it was not */
    ck_assert_uint_eq(coord_pace_share(j, worker(0)), 1);
    measure(0, 0.05);
    hold(0, 0);
    coord_pace_granted(j, worker(0));
    ck_assert_uint_eq(worker(0)->pace.rests, 1);
    measure(0, 0.1);
    ck_assert_uint_eq(worker(0)->pace.rests, 0);
    ck_assert(!coord_pace_leaves(j, 0));
    done();
}
END_TEST

START_TEST(pace_shares_are_what_others_leave)
{
    start("ssp");
    ck_assert_uint_eq(coord_pace_share(j, worker(1)), 2);
    deal(4);
    for (uint32_t i = 0; i < WORKERS; i++)
        measure(i, i == 0 ? 0.5 : 0.1);
    for (uint32_t l = 0; l < LANES; l++)
        hold(l, NONE);
    ck_assert_uint_eq(coord_pace_share(j, worker(1)), 3);
    ck_assert_uint_eq(coord_pace_share(j, worker(0)), 0);
    pass(3 * SECOND); /* those that lanes are kept for do not come */
    ck_assert_uint_eq(coord_pace_share(j, worker(1)), LANES);
    ck_assert_uint_eq(coord_pace_share(j, worker(0)), LANES); /* there is no other */
    hold(0, 1);
    ck_assert_uint_eq(coord_pace_share(j, worker(0)), 0);
    done();
}
END_TEST

/* Processor time of one share at the start of an epoch of 256 lanes. */
static double share_seconds(uint32_t workers)
{
    double least = INFINITY;
    start_with("ssp", 256, workers);
    for (uint32_t i = 0; i < workers; i++) {
        worker(i)->pace.step_s = 0.1 + 0.0001 * ((i * 37) % 101);
        worker(i)->pace.step_lanes = 1;
        worker(i)->lanes_max = 256;
    }
    for (uint32_t n = 0; n < 5; n++) {
        uint32_t dealt = 0;
        clock_t began = clock();
        for (uint32_t i = 0; i < workers; i++)
            dealt += coord_pace_share(j, worker(i));
        ck_assert_uint_eq(dealt, 256);
        least = fmin(least, (double)(clock() - began) / CLOCKS_PER_SEC / workers);
    }
    done();
    return least;
}

/* At its start each worker asks for its share of all lanes. */
START_TEST(pace_many_workers_are_dealt_many_lanes)
{
    double few = share_seconds(32), many = share_seconds(512);
    printf("a share of 256 lanes: %.1f us of 32 workers, %.1f us of 512\n", few * 1e6, many * 1e6);
    ck_assert_double_lt(many, 6 * few);
}
END_TEST

/* From the worker with the most, and not from one that has one. */
START_TEST(pace_a_newcomer_gets_a_lane)
{
    start(modes[_i]);
    deal(3);
    coord_pace_idle(j, worker(3));
    ck_assert(!coord_pace_leaves(j, 2)); /* worker 2 has two lanes, worker 0 three */
    ck_assert(coord_pace_leaves(j, 0) == (_i < 2));
    ck_assert_uint_eq(j->tasks->lane[0].kept_for, _i < 2 ? 4 : 0);
    ck_assert_uint_eq(worker(0)->pace.rests, 0); /* not for its speed */
    pass(3 * SECOND);                            /* it does not come */
    coord_pace_expire(j);
    ck_assert_uint_eq(j->tasks->lane[0].kept_for, 0);
    ck_assert(!coord_pace_leaves(j, 3)); /* nor does it ask any more */
    done();
}
END_TEST

int main(void)
{
    Suite *s = suite_create("pace");
    TCase *t = suite_case(s, "pace", 60, NULL, NULL);
    tcase_add_test(t, pace_steps_leave_waiting_out);
    tcase_add_test(t, pace_a_lane_leaves_the_slowest_for_the_fastest);
    tcase_add_test(t, pace_a_slow_worker_is_told_until_it_recovers);
    tcase_add_test(t, pace_equal_workers_keep_their_lanes_beside_a_faster_one);
    tcase_add_test(t, pace_a_slow_worker_has_lanes_again_when_others_die);
    tcase_add_loop_test(t, pace_several_slow_workers_lose_their_lanes, 0, 2);
    tcase_add_loop_test(t, pace_lanes_go_by_speed_under_ssp_alone, 0, 3);
    tcase_add_loop_test(t, pace_no_lane_goes_back, 0, 50);
    tcase_add_loop_test(t, pace_a_lane_leaves_for_none_where_that_is_more, 0, 2);
    tcase_add_test(t, pace_the_last_lane_of_objects_stays);
    tcase_add_test(t, pace_a_worker_without_lanes_rests_and_is_tried);
    tcase_add_test(t, pace_a_worker_gets_its_lane_back_after_its_rest);
    tcase_add_test(t, pace_shares_are_what_others_leave);
    tcase_add_test(t, pace_many_workers_are_dealt_many_lanes);
    tcase_add_loop_test(t, pace_a_newcomer_gets_a_lane, 0, 3);
    return suite_main(s);
}
