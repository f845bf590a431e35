/* test_run.c: runs that open and end, clocks of lanes, columns of marks. */
#include "embedding/rows/run.h"

#include "proto/base/err.h"
#include "proto/base/rng.h"
#include "tests/lib/suite.h"
#include "tests/lib/table_sets.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

enum { TABLETS = 4, LANES = 3, BOTH = 3 }; /* tables 0 and 1 */
static uint8_t led[TABLETS] = {1, 1, 1, 1};
static uint32_t before[TABLETS + 1] = {0, 1, 2, 3, 4};
static const struct mark_scope scope = {
    .tablets = TABLETS, .led_count = TABLETS, .led = led, .led_before = before};

static struct run *run_add(struct runs *r, uint64_t id)
{
    struct run *run;
    ck_assert_int_eq(runs_add(r, id, table_set_word(BOTH), LANES, RUN_SSP, &run), 0);
    return run;
}

static struct run *clocked(struct runs *r)
{
    struct run *run = run_add(r, 1);
    for (uint32_t lane = 0; lane < LANES; lane++)
        for (uint32_t t = 0; t < 2; t++)
            ck_assert_int_eq(marks_reserve(run->marks, lane, t, TABLETS), 0);
    run_refresh(run, 0, &scope);
    run_refresh(run, 1, &scope);
    return run;
}

static void move(struct run *run, uint32_t lane, uint32_t table, uint32_t first, uint32_t count,
                 uint64_t to)
{
    marks_move(run->marks, lane, table, first, count, to, NULL, &scope);
    run_lane_moved(run, lane);
}

static void whole(struct run *run, uint32_t lane, uint64_t to)
{
    move(run, lane, 0, 0, TABLETS, to);
    move(run, lane, 1, 0, TABLETS, to);
}

START_TEST(the_newest_run_stays_the_newest)
{
    struct runs r = {0};
    run_add(&r, 5);
    run_add(&r, 3); /* as if recovery met an older run */
    ck_assert_uint_eq(r.newest, 5);
    runs_drop(&r, runs_find(&r, 5));
    ck_assert_ptr_null(runs_find(&r, 5));
    ck_assert_ptr_nonnull(runs_find(&r, 3));
    ck_assert_uint_eq(r.newest, 5);
    run_add(&r, 6)->ghost = true;
    ck_assert_uint_eq(r.newest, 6);
    ck_assert_uint_eq(runs_open(&r), 1);
    runs_free(&r);
}
END_TEST

/* An ended run is known as long as a record from before its end may come. */
START_TEST(a_run_of_the_past_is_forgotten_at_its_end)
{
    struct runs r = {0};
    for (uint64_t id = 1; id <= 3; id++)
        ck_assert_int_eq(runs_end(&r, run_add(&r, id), 8 * id, 10 * id), 0);
    ck_assert_int_eq(runs_end(&r, run_add(&r, 2), 17, 21), 0); /* again: in its place */
    ck_assert_uint_eq(r.count, 0);
    ck_assert_uint_eq(r.past_count, 3);
    ck_assert_uint_eq(r.past[1].id, 2);
    ck_assert_uint_eq(r.past[1].seen, 17);
    ck_assert_uint_eq(r.past[1].until, 21);
    ck_assert(set_is(r.past[1].tables, BOTH));
    ck_assert_uint_eq(r.past[1].lanes, LANES);
    ck_assert_uint_eq(r.past[1].mode, RUN_SSP);
    runs_forget(&r, 9);
    ck_assert_uint_eq(r.past_count, 3);
    runs_forget(&r, 10);
    ck_assert_uint_eq(r.past_count, 2);
    runs_forget(&r, 20);
    ck_assert_uint_eq(r.past_count, 2);
    runs_forget(&r, 30);
    ck_assert_uint_eq(r.past_count, 0);
    runs_free(&r);
}
END_TEST

/* The clock of a lane is that of its last tablet in all its tables; low counts only live lanes. */
START_TEST(clocks_are_of_the_last_of_all_tables)
{
    struct runs r = {0};
    struct run *run = clocked(&r);
    ck_assert_uint_eq(run->low, UINT64_MAX); /* no lane is live */
    run_fence(run, 0, 1, true, 0);
    run_fence(run, 1, 1, true, 0);
    ck_assert_uint_eq(run->low, 0);
    whole(run, 0, 7);
    whole(run, 1, 5);
    whole(run, 2, 2);
    ck_assert_uint_eq(run->low, 5); /* lane 2 is not live */
    move(run, 1, 0, 0, TABLETS, 9);
    ck_assert_uint_eq(run->lane[1].lowest, 5); /* table 1 is behind */
    move(run, 1, 1, 0, TABLETS - 1, 9);
    ck_assert_uint_eq(run->low, 5);
    move(run, 1, 1, TABLETS - 1, 1, 8);
    ck_assert_uint_eq(run->lane[1].lowest, 8);
    ck_assert_uint_eq(run->low, 7);
    run_fence(run, 0, 2, false, 0);
    ck_assert_uint_eq(run->low, 8);
    runs_free(&r);
}
END_TEST

/* A lane that becomes live begins at the clock of the others; a live lane keeps its clock. */
/* Table 1 is dense. It is here before the run, or comes after it. */
START_TEST(dense_tables_of_a_run_apart_count_in_no_clock)
{
    struct runs r = {0};
    struct run *run, *as_ever;
    if (_i == 0)
        runs_dense_set(&r, 1, true);
    ck_assert_int_eq(runs_add(&r, 1, table_set_word(BOTH), LANES, RUN_BSP | RUN_APART, &run), 0);
    ck_assert_int_eq(runs_add(&r, 2, table_set_word(BOTH), LANES, RUN_BSP, &as_ever), 0);
    if (_i == 1)
        runs_dense_set(&r, 1, true);
    struct run *const each[] = {run, as_ever};
    ck_assert(run_is_bsp(run) && set_is(run->apart, 2) && set_is(as_ever->apart, 0));
    for (int i = 0; i < 2; i++) {
        for (uint32_t lane = 0; lane < LANES; lane++) {
            for (uint32_t t = 0; t < 2; t++)
                ck_assert_int_eq(marks_reserve(each[i]->marks, lane, t, TABLETS), 0);
            run_fence(each[i], lane, 1, true, 0);
        }
        run_refresh(each[i], 0, &scope);
        run_refresh(each[i], 1, &scope);
        for (uint32_t lane = 0; lane < LANES; lane++)
            move(each[i], lane, 0, 0, TABLETS, 5 + lane);
        move(each[i], 0, 1, 0, TABLETS, 9);
    }
    ck_assert(run->low == 5 && as_ever->low == 0);
    ck_assert(run->lane[0].lowest == 5 && run->lane[2].lowest == 7);
    ck_assert_uint_eq(as_ever->lane[2].lowest, 0);
    ck_assert_uint_eq(marks_get(run->marks, 0, 1, 3), 9); /* it is kept all the same */
    ck_assert(runs_marked(&r, 1, 3));
    runs_dense_set(&r, 1, false); /* another table has its number */
    ck_assert(set_is(run->apart, 0));
    runs_free(&r);
}
END_TEST

START_TEST(a_mode_is_known_or_not)
{
    static const uint32_t known[] = {
        RUN_ASYNC,          RUN_SSP, RUN_BSP, RUN_ASYNC | RUN_APART, RUN_SSP | RUN_APART,
        RUN_BSP | RUN_APART};
    static const uint32_t unknown[] = {3, 7, 8, 8 | RUN_BSP, UINT32_MAX};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        ck_assert(run_mode_known(known[i]));
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++)
        ck_assert(!run_mode_known(unknown[i]));
}
END_TEST

START_TEST(an_offset_is_of_the_moment_of_coming_to_life)
{
    struct runs r = {0};
    struct run *run = clocked(&r);
    ck_assert_int_eq(run_offset(run, 0), 0); /* the first */
    run_fence(run, 0, 1, true, 0);
    whole(run, 0, 7);
    ck_assert_int_eq(run_offset(run, 1), 7);
    run_fence(run, 1, 1, true, 7);
    ck_assert_uint_eq(run->low, 7);
    whole(run, 1, 3); /* clock 10 */
    ck_assert_uint_eq(run_clock(run, 1, 3), 10);
    ck_assert_int_eq(run_offset(run, 0), 0);
    ck_assert_int_eq(run_offset(run, 1), 7); /* a new worker of the lane */
    whole(run, 2, 20);
    ck_assert_int_eq(run_offset(run, 2), -13);
    run_fence(run, 2, 1, true, -13);
    ck_assert_uint_eq(run_clock(run, 2, 12), 0);
    ck_assert_uint_eq(run_clock(run, 2, 13), 0);
    ck_assert_uint_eq(run_clock(run, 2, 14), 1);
    run->mode = RUN_BSP;
    ck_assert_int_eq(run_offset(run, 1), 0);
    runs_free(&r);
}
END_TEST

/* Whatever moves, low equals the result of a search: marks fall when a tablet is newly led. */
START_TEST(low_is_what_a_search_finds)
{
    struct rng rng = {3};
    struct runs r = {0};
    struct run *run = clocked(&r);
    uint64_t to[LANES] = {0};
    for (uint32_t step = 0; step < 3000; step++) {
        uint32_t lane = (uint32_t)rng_below(&rng, LANES), table = (uint32_t)rng_below(&rng, 2),
                 first = (uint32_t)rng_below(&rng, TABLETS);
        if (rng_below(&rng, 8) == 0)
            run_fence(run, lane, step, rng_below(&rng, 3) > 0, (int64_t)rng_below(&rng, 40) - 20);
        else if (rng_below(&rng, 3) == 0)
            whole(run, lane, to[lane] += rng_below(&rng, 3));
        else
            move(run, lane, table, first, 1 + (uint32_t)rng_below(&rng, TABLETS - first),
                 rng_below(&rng, to[lane] + 1));
        uint64_t low = UINT64_MAX;
        for (uint32_t i = 0; i < LANES; i++) {
            uint64_t lowest = UINT64_MAX;
            for (uint32_t k = 0; k < 2 * TABLETS; k++) {
                uint64_t mark = marks_get(run->marks, i, k % 2, k / 2);
                lowest = mark < lowest ? mark : lowest;
            }
            ck_assert_uint_eq(run->lane[i].lowest, lowest);
            uint64_t clock = run_clock(run, i, lowest);
            low = run->lane[i].live && clock < low ? clock : low;
        }
        ck_assert_uint_eq(run->low, low);
    }
    runs_free(&r);
}
END_TEST

/* A run is in a tablet's column if any of its lanes has a mark there. */
START_TEST(columns_bring_back_the_marks_of_each_lane)
{
    for (uint32_t lane = 0; lane < LANES; lane++) {
        struct runs r = {0}, again = {0};
        struct run *one = run_add(&r, 1), *none = run_add(&r, 2), *two = run_add(&r, 3);
        ck_assert_int_eq(marks_set(one->marks, lane, 1, TABLETS, 2, 40 + lane), 0);
        ck_assert_int_eq(marks_set(two->marks, lane, 1, TABLETS, 2, 50 + lane), 0);
        ck_assert_int_eq(marks_set(none->marks, lane, 1, TABLETS, 1, 60), 0); /* beside it */
        if (lane % 2 == 1) /* a column of the later form */
            table_set_add(&one->tables, LIMIT_TABLES - 1);
        size_t bytes = runs_column_bytes(&r, 1, 2);
        char *column = malloc(bytes);
        runs_column_write(&r, 1, 2, column);
        struct run *known = run_add(&again, 3);
        ck_assert_int_eq(runs_column_read(&again, 1, TABLETS, 2, 99, column, bytes), 0);
        ck_assert_uint_eq(again.count, 2);
        struct run *ghost = runs_find(&again, 1);
        ck_assert_ptr_nonnull(ghost);
        ck_assert(ghost->ghost && !known->ghost);
        ck_assert_uint_eq(ghost->seen, 99);
        ck_assert_uint_eq(known->seen, 0);
        ck_assert(table_set_equal(ghost->tables, one->tables));
        ck_assert_uint_eq(ghost->mode, RUN_SSP);
        for (uint32_t i = 0; i < LANES; i++) {
            ck_assert_uint_eq(marks_get(ghost->marks, i, 1, 2), i == lane ? 40 + lane : 0);
            ck_assert_uint_eq(marks_get(known->marks, i, 1, 2), i == lane ? 50 + lane : 0);
        }
        /* from an earlier moment: it was seen later */
        ck_assert_int_eq(runs_column_read(&again, 1, TABLETS, 2, 98, column, bytes), 0);
        ck_assert_uint_eq(ghost->seen, 99);
        ck_assert_int_eq(runs_column_read(&again, 1, TABLETS, 2, 100, column, bytes), 0);
        ck_assert_uint_eq(ghost->seen, 100);
        for (size_t cut = 0; cut < bytes; cut++)
            ck_assert_int_eq(runs_column_read(&again, 1, TABLETS, 2, 1, column, cut),
                             SHOAL_E_CORRUPT);
        free(column);
        runs_free(&r);
        runs_free(&again);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("run");
    TCase *t = tcase_create("run");
    tcase_add_test(t, the_newest_run_stays_the_newest);
    tcase_add_test(t, a_run_of_the_past_is_forgotten_at_its_end);
    tcase_add_test(t, clocks_are_of_the_last_of_all_tables);
    tcase_add_loop_test(t, dense_tables_of_a_run_apart_count_in_no_clock, 0, 2);
    tcase_add_test(t, a_mode_is_known_or_not);
    tcase_add_test(t, an_offset_is_of_the_moment_of_coming_to_life);
    tcase_add_test(t, low_is_what_a_search_finds);
    tcase_add_test(t, columns_bring_back_the_marks_of_each_lane);
    suite_add_tcase(s, t);
    return suite_main(s);
}
