/* test_clock.c: a pull waits for exactly the clock that its bound asks for. */
#include "tests/server/shard_rig.h"

START_TEST(need_never_falls_below_zero)
{
    ck_assert_uint_eq(clock_need(0, 0), 0);
    ck_assert_uint_eq(clock_need(1, 0), 0);
    ck_assert_uint_eq(clock_need(2, 0), 1);
    ck_assert_uint_eq(clock_need(2, 5), 0);
    ck_assert_uint_eq(clock_need(10, 2), 7);
    ck_assert_uint_eq(clock_need(10, UINT32_MAX), 0);
    ck_assert_uint_eq(clock_need(UINT64_MAX, 0), UINT64_MAX - 1);
}
END_TEST

/* Pushes to both tables of the rig, as a worker does. */
static void push_both(struct rig *r, uint32_t lane, uint64_t to, uint64_t key, float gradient)
{
    rig_push(r, (struct rig_push_args){
                    .lane = lane, .from = to - 1, .to = to, .key = key, .gradient = gradient});
    rig_push(r, (struct rig_push_args){.lane = lane, .table = 1, .from = to - 1, .to = to});
}

START_TEST(ssp_pull_waits_for_the_slowest_lane)
{
    struct rig r = {0};
    rig_new(&r, WIRE_SSP, 2, OPT_SGD);
    uint64_t key = rig_key(3, 0);
    for (uint64_t b = 1; b <= 3; b++)
        push_both(&r, 0, b, key, 1);
    rig_run(&r, 5);
    uint64_t near = rig_pull(&r, 0, 2, 1, key); /* needs clock 0 of lane 1 */
    uint64_t far = rig_pull(&r, 0, 4, 1, key);  /* needs clock 2 */
    uint64_t free = rig_pull(&r, 0, 4, WIRE_BOUND_ASYNC, key);
    rig_run(&r, 50);
    ck_assert_int_eq(rig_status(&r, near), 0);
    ck_assert_int_eq(rig_status(&r, free), 0);
    ck_assert_int_eq(rig_status(&r, far), RIG_WAITING);
    push_both(&r, 1, 1, key, 10);
    rig_run(&r, 5);
    ck_assert_int_eq(rig_status(&r, far), RIG_WAITING);
    push_both(&r, 1, 2, key, 10);
    rig_run(&r, 5);
    ck_assert(rig_value(&r, far) == -23);
    ck_assert_uint_eq(rig_reply(&r, far)->u.PULL_reply.clock, 4);
    ck_assert_uint_eq(rig_reply(&r, far)->u.PULL_reply.low, 2);
    ck_assert_uint_gt(rig_reply(&r, far)->u.PULL_reply.waited_ns, 50 * MS);
    rig_pull(&r, 0, 4, 1, key); /* at once: the longest wait is unchanged */
    rig_run(&r, 5);
    ck_assert_uint_gt(r.shard->counts.waited_ns_max, 50 * MS);
    rig_free(&r);
}
END_TEST

START_TEST(one_table_behind_holds_the_clock)
{
    struct rig r = {0};
    rig_new(&r, WIRE_SSP, 1, OPT_SGD);
    uint64_t key = rig_key(3, 0);
    rig_push(&r, (struct rig_push_args){.from = 0, .to = 1, .key = key, .gradient = 1});
    uint64_t pull = rig_pull(&r, 0, 2, 0, key);
    rig_run(&r, 5);
    ck_assert_int_eq(rig_status(&r, pull), RIG_WAITING);
    rig_push(&r, (struct rig_push_args){.table = 1, .from = 0, .to = 1});
    rig_run(&r, 5);
    ck_assert_int_eq(rig_status(&r, pull), 0);
    rig_free(&r);
}
END_TEST

START_TEST(lane_that_leaves_lets_the_others_go)
{
    struct rig r = {0};
    rig_new(&r, WIRE_SSP, 2, OPT_SGD);
    uint64_t key = rig_key(3, 0);
    push_both(&r, 0, 1, key, 1);
    uint64_t pull = rig_pull(&r, 0, 2, 0, key);
    rig_run(&r, 5);
    ck_assert_int_eq(rig_status(&r, pull), RIG_WAITING);
    rig_fence(&r, 1, 2, false);
    rig_run(&r, 5);
    ck_assert_int_eq(rig_status(&r, pull), 0);
    rig_free(&r);
}
END_TEST

START_TEST(lane_that_comes_back_holds_nobody_up)
{
    struct rig r = {0};
    rig_new(&r, WIRE_SSP, 2, OPT_SGD);
    uint64_t key = rig_key(3, 0);
    rig_fence(&r, 1, 2, false);
    rig_run(&r, 5);
    for (uint64_t b = 1; b <= 9; b++)
        push_both(&r, 0, b, key, 1);
    rig_fence(&r, 1, 3, true); /* its mark is 0, its clock now 9 */
    rig_run(&r, 5);
    uint64_t old = rig_pull(&r, 0, 10, 0, key), mine = rig_pull(&r, 1, 1, 0, key),
             next = rig_pull(&r, 1, 2, 0, key);
    rig_run(&r, 5);
    ck_assert_int_eq(rig_status(&r, old), 0);
    ck_assert_int_eq(rig_status(&r, mine), 0);
    ck_assert_uint_eq(rig_reply(&r, mine)->u.PULL_reply.clock, 10);
    ck_assert_int_eq(rig_status(&r, next), RIG_WAITING); /* its own batch 1 is missing */
    rig_free(&r);
}
END_TEST

START_TEST(pull_sent_again_replaces_the_older_one)
{
    struct rig r = {0};
    rig_new(&r, WIRE_SSP, 2, OPT_SGD);
    uint64_t key = rig_key(3, 0);
    push_both(&r, 0, 1, key, 1);
    uint64_t first = rig_pull(&r, 0, 2, 0, key), again = rig_pull(&r, 0, 2, 0, key),
             other = rig_pull(&r, 0, 2, 0, rig_key(4, 0)), next = rig_pull(&r, 0, 3, 1, key);
    rig_run(&r, 5);
    ck_assert_uint_eq(r.shard->clock.waiting, 3);
    push_both(&r, 1, 1, key, 1);
    rig_run(&r, 5);
    ck_assert_int_eq(rig_status(&r, first), RIG_WAITING);
    ck_assert_int_eq(rig_status(&r, again), 0);
    ck_assert_int_eq(rig_status(&r, other), 0);
    ck_assert_int_eq(rig_status(&r, next), 0);
    rig_free(&r);
}
END_TEST

START_TEST(run_dropped_refuses_its_waiting_pulls)
{
    struct rig r = {0};
    rig_new(&r, WIRE_SSP, 2, OPT_SGD);
    uint64_t pull = rig_pull(&r, 0, 5, 0, rig_key(3, 0));
    rig_run(&r, 5);
    ck_assert_int_eq(rig_status(&r, pull), RIG_WAITING);
    struct wire w = rig_wire(&r, WIRE_TYPE_RUN_DROP);
    w.u.RUN_DROP.run = RIG_RUN;
    rig_send(&r, &w, 0, NULL, 0, NULL, 0);
    rig_run(&r, 5);
    ck_assert_int_eq(rig_status(&r, pull), SHOAL_E_OLD_RUN);
    ck_assert_uint_eq(r.shard->clock.gate_count, 0);
    rig_free(&r);
}
END_TEST

START_TEST(async_run_never_waits)
{
    struct rig r = {0};
    rig_new(&r, WIRE_ASYNC, 2, OPT_SGD);
    uint64_t pull = rig_pull(&r, 0, 50, 0, rig_key(3, 0));
    rig_run(&r, 5);
    ck_assert_int_eq(rig_status(&r, pull), 0);
    ck_assert_uint_eq(r.shard->counts.staleness[49], 1);
    rig_free(&r);
}
END_TEST

/* A fence's reply first tells where the other lanes are; the next fence places the lane there, not
 * where the lanes are on this shard alone. */
START_TEST(fence_tells_of_the_others_and_places_a_lane)
{
    struct rig r = {0};
    struct wire w;
    uint64_t clock, low, key = rig_key(3, 0);
    rig_new(&r, WIRE_SSP, 3, OPT_SGD);
    for (uint64_t batch = 1; batch <= 4; batch++)
        for (uint32_t lane = 0; lane < 2; lane++)
            push_both(&r, lane, batch, key, 1);
    push_both(&r, 2, 1, key, 1);
    uint64_t asked = rig_fence(&r, 2, 2, false);
    rig_run(&r, 5);
    ck_assert_uint_eq(rig_reply(&r, asked)->u.FENCE_reply.mark, 1);
    ck_assert_uint_eq(rig_reply(&r, asked)->u.FENCE_reply.low, 4);
    w = rig_wire(&r, WIRE_TYPE_FENCE);
    w.u.FENCE = (struct wire_FENCE){.run = RIG_RUN,
                                    .lane = 2,
                                    .generation = 2,
                                    .live = true,
                                    .placed = true,
                                    .at = 1,
                                    .clock = 6};
    rig_send(&r, &w, 0, NULL, 0, NULL, 0);
    rig_run(&r, 5);
    ck_assert_int_eq(engine_clock(r.shard->engine, RIG_RUN, 2, 2, &clock, &low), 0);
    ck_assert_uint_eq(clock, 7);
    ck_assert_uint_eq(low, 4);
    uint64_t none = 0;
    for (uint32_t lane = 0; lane < 3; lane++)
        none = rig_fence(&r, lane, 9, false);
    rig_run(&r, 5);
    ck_assert_uint_eq(rig_reply(&r, none)->u.FENCE_reply.low, 0);
    rig_free(&r);
}
END_TEST

/* Tables that the run does not push to (those of another space) do not hold its clock. */
START_TEST(run_counts_its_own_tables_only)
{
    struct rig r = {0};
    rig_new_of(&r, WIRE_SSP, 1, OPT_SGD, 1);
    uint64_t key = rig_key(3, 0);
    rig_push(&r, (struct rig_push_args){.from = 0, .to = 1, .key = key, .gradient = 1});
    uint64_t pull = rig_pull(&r, 0, 2, 0, key), fence = rig_fence(&r, 0, 2, true);
    rig_run(&r, 5);
    ck_assert_int_eq(rig_status(&r, pull), 0);
    ck_assert_uint_eq(rig_reply(&r, fence)->u.FENCE_reply.mark, 1);
    rig_free(&r);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        need_never_falls_below_zero,           ssp_pull_waits_for_the_slowest_lane,
        one_table_behind_holds_the_clock,      lane_that_leaves_lets_the_others_go,
        lane_that_comes_back_holds_nobody_up,  pull_sent_again_replaces_the_older_one,
        run_dropped_refuses_its_waiting_pulls, async_run_never_waits,
        run_counts_its_own_tables_only,        fence_tells_of_the_others_and_places_a_lane,
    };
    return rig_main("clock", tests, sizeof tests / sizeof tests[0]);
}
