/* test_shard.c: a shard answers only recorded requests, and each once, even if messages come twice,
 * late, wrong or hostile. */
#include "embedding/rows/table_inner.h"
#include "proto/base/key.h"
#include "proto/job/half.h"
#include "tests/lib/crafted.h"
#include "tests/lib/crafted_tablet.h"
#include "tests/lib/rig_dir.h"
#include "tests/lib/table_sets.h"
#include "tests/server/shard_rig.h"

#include "proto/base/json.h"
#include "proto/base/rng.h"

#include <math.h>

#define EVAL UINT32_MAX

START_TEST(push_is_seen_by_the_pull_behind_it)
{
    struct rig r = {0};
    rig_new(&r, WIRE_ASYNC, 1, OPT_SGD);
    uint64_t key = rig_key(3, 0);
    uint64_t a =
        rig_push(&r, (struct rig_push_args){.from = 0, .to = 1, .key = key, .gradient = 2});
    uint64_t b = rig_pull(&r, EVAL, 0, 0, key);
    rig_run(&r, 5);
    ck_assert_int_eq(rig_status(&r, a), 0);
    ck_assert_uint_eq(rig_reply(&r, a)->u.PUSH_reply.applied, 16);
    ck_assert_uint_eq(rig_reply(&r, a)->u.PUSH_reply.mark, 1);
    ck_assert(rig_value(&r, b) == -2);
    ck_assert_uint_eq(rig_reply(&r, b)->u.PULL_reply.width, 2);
    rig_free(&r);
}
END_TEST

/* Pulls one key with this wish for the values of its row. */
static uint64_t pull_as(struct rig *r, uint32_t values, uint64_t key)
{
    struct wire w = rig_wire(r, WIRE_TYPE_PULL);
    w.u.PULL = (struct wire_PULL){
        .run = RIG_RUN, .lane = EVAL, .key_count = 1, .map_epoch = 1, .values = values};
    uint64_t id = rig_send(r, &w, 1, &key, sizeof key, NULL, 0);
    rig_run(r, 5);
    return id;
}

/* A table of fp32 gives fp32 to a peer that asks for nothing, and 16 bits to one that asks for
 * them. */
START_TEST(rows_travel_as_the_puller_takes_them)
{
    struct rig r = {0};
    rig_new(&r, WIRE_ASYNC, 1, OPT_SGD);
    uint64_t key = rig_key(3, 0);
    rig_push(&r, (struct rig_push_args){.from = 0, .to = 1, .key = key, .gradient = 1.01f});
    rig_run(&r, 5);
    for (uint32_t wish = 0; wish <= WIRE_VALUES + VALUES_BF16; wish++) {
        enum value_kind values = (enum value_kind)(wish == 0 ? 0 : wish - WIRE_VALUES);
        uint64_t id = pull_as(&r, wish, key);
        float row[2], expected = -1.01f;
        ck_assert_int_eq(rig_status(&r, id), 0);
        ck_assert_uint_eq(rig_reply(&r, id)->u.PULL_reply.values, values);
        ck_assert_uint_eq(r.answer[id].m->frame[1].bytes, 2 * half_bytes(values));
        half_widen(values, r.answer[id].m->frame[1].data, row, 2);
        half_nearest(values, &expected, 1);
        ck_assert(row[0] == expected && row[1] == expected);
    }
    uint64_t unknown = pull_as(&r, WIRE_VALUES + VALUES_BF16 + 1, key);
    ck_assert_int_eq(rig_status(&r, unknown), SHOAL_E_VERSION);
    rig_free(&r);
}
END_TEST

START_TEST(push_sent_again_is_skipped)
{
    struct rig r = {0};
    rig_new(&r, WIRE_ASYNC, 1, OPT_SGD);
    struct rig_push_args p = {.from = 0, .to = 1, .key = rig_key(3, 0), .gradient = 2};
    rig_push(&r, p);
    rig_run(&r, 5);
    uint64_t again = rig_push(&r, p), pull = rig_pull(&r, EVAL, 0, 0, p.key);
    rig_run(&r, 5);
    ck_assert_int_eq(rig_status(&r, again), 0);
    ck_assert_uint_eq(rig_reply(&r, again)->u.PUSH_reply.skipped, 16);
    ck_assert_uint_eq(rig_reply(&r, again)->u.PUSH_reply.applied, 0);
    ck_assert(rig_value(&r, pull) == -2);
    rig_free(&r);
}
END_TEST

START_TEST(push_past_a_gap_is_refused_with_the_mark)
{
    struct rig r = {0};
    rig_new(&r, WIRE_ASYNC, 1, OPT_SGD);
    rig_push(&r, (struct rig_push_args){.from = 0, .to = 1, .key = rig_key(3, 0), .gradient = 2});
    uint64_t gap = rig_push(
        &r, (struct rig_push_args){.from = 2, .to = 3, .key = rig_key(3, 0), .gradient = 2});
    rig_run(&r, 5);
    ck_assert_int_eq(rig_status(&r, gap), SHOAL_E_GAP);
    ck_assert_uint_eq(rig_reply(&r, gap)->u.PUSH_reply.mark, 1);
    rig_free(&r);
}
END_TEST

START_TEST(wrong_pushes_are_refused_each_with_its_reason)
{
    struct rig r = {0};
    rig_new(&r, WIRE_ASYNC, 1, OPT_SGD);
    uint64_t key = rig_key(3, 0);
    uint64_t nan =
        rig_push(&r, (struct rig_push_args){.from = 0, .to = 1, .key = key, .gradient = NAN});
    uint64_t table =
        rig_push(&r, (struct rig_push_args){.table = 9, .from = 0, .to = 1, .key = key});
    uint64_t range = rig_push(
        &r, (struct rig_push_args){.from = 0, .to = 1, .first = 8, .count = 8, .key = key});
    uint64_t none = rig_push(
        &r, (struct rig_push_args){.from = 0, .to = 1, .first = 15, .count = 9, .key = key});
    uint64_t lane = rig_push(&r, (struct rig_push_args){.lane = 5, .from = 0, .to = 1, .key = key});
    struct wire w = rig_wire(&r, WIRE_TYPE_PUSH);
    w.u.PUSH = (struct wire_PUSH){.run = RIG_RUN,
                                  .generation = 1,
                                  .to = 1,
                                  .tablet_count = 16,
                                  .lr_scale = 1,
                                  .key_count = 1};
    float one = 1;
    uint64_t width = rig_send(&r, &w, 2, &key, 8, &one, 4);
    w.id = r.next_id++;
    w.u.PUSH.run = 99;
    float two[2] = {1, 1};
    uint64_t run = rig_send(&r, &w, 2, &key, 8, two, 8);
    uint64_t pull = rig_pull(&r, EVAL, 0, 0, key);
    rig_run(&r, 5);
    ck_assert_int_eq(rig_status(&r, nan), SHOAL_E_NOT_FINITE);
    ck_assert_int_eq(rig_status(&r, table), SHOAL_E_NO_TABLE);
    ck_assert_int_eq(rig_status(&r, range), SHOAL_E_MALFORMED);
    ck_assert_int_eq(rig_status(&r, none), SHOAL_E_NOT_LEADER);
    ck_assert_int_lt(rig_status(&r, lane), 0);
    ck_assert_int_eq(rig_status(&r, width), SHOAL_E_MALFORMED);
    ck_assert_int_eq(rig_status(&r, run), SHOAL_E_OLD_RUN);
    ck_assert(rig_reply(&r, nan)->error[0] != 0);
    ck_assert(rig_value(&r, pull) == 0);
    rig_free(&r);
}
END_TEST

START_TEST(a_push_with_values_of_a_later_release_is_refused)
{
    static const char *const text[] = {
        "has age 5, width 0 and asks for values of kind 0, which shard",
        "has age 0, width 4 and asks for values of kind 0, which shard",
        "has age 0, width 0 and asks for values of kind 4, which shard"};
    struct rig r = {0};
    rig_new(&r, WIRE_ASYNC, 1, OPT_SGD);
    uint64_t key = rig_key(3, 0);
    for (int i = 0; i < 3; i++) {
        struct wire w = rig_wire(&r, WIRE_TYPE_PUSH);
        w.u.PUSH = (struct wire_PUSH){.run = RIG_RUN,
                                      .generation = 1,
                                      .to = 1,
                                      .tablet_count = 16,
                                      .lr_scale = 1,
                                      .key_count = 1,
                                      .age = i == 0 ? 5 : 0,
                                      .width = i == 1 ? 4 : 0,
                                      .values = i == 2 ? WIRE_VALUES + VALUES_BF16 + 1 : 0};
        float two[2] = {1, 1};
        uint64_t push = rig_send(&r, &w, 2, &key, 8, two, 8);
        uint64_t pull = rig_pull(&r, EVAL, 0, 0, key);
        rig_run(&r, 5);
        ck_assert_int_eq(rig_status(&r, push), SHOAL_E_VERSION);
        ck_assert_ptr_nonnull(strstr(rig_reply(&r, push)->error, text[i]));
        ck_assert(rig_value(&r, pull) == 0);
    }
    rig_free(&r);
}
END_TEST

/* Gradients of 16 and 8 bits are applied as what they say; a wrong number of bytes is refused. */
START_TEST(packed_pushes_are_applied)
{
    struct rig r = {0};
    rig_new(&r, WIRE_ASYNC, 1, OPT_SGD);
    const uint64_t key = rig_key(3, 0);
    const struct {
        uint32_t width;
        uint32_t bytes;
        union {
            uint16_t half[2];
            struct {
                float scale;
                int8_t q[4];
            } eight;
        };
    } sent[2] = {{16, 4, {.half = {0x3fc0, 0xbf80}}},                      /* 1.5, -1 */
                 {8, 8, {.eight = {.scale = 0.25f, .q = {6, -4, 0, 0}}}}}; /* the same */
    for (int i = 0; i < 2; i++) {
        struct wire w = rig_wire(&r, WIRE_TYPE_PUSH);
        w.u.PUSH = (struct wire_PUSH){.run = RIG_RUN,
                                      .generation = 1,
                                      .from = (uint64_t)i,
                                      .to = (uint64_t)i + 1,
                                      .tablet_count = 16,
                                      .lr_scale = 1,
                                      .key_count = 1,
                                      .width = sent[i].width};
        uint64_t push = rig_send(&r, &w, 2, &key, 8, sent[i].half, sent[i].bytes);
        w.id = r.next_id++;
        uint64_t whole = rig_send(&r, &w, 2, &key, 8, sent[i].half, 12);
        uint64_t pull = rig_pull(&r, EVAL, 0, 0, key);
        rig_run(&r, 5);
        ck_assert_int_eq(rig_status(&r, push), 0);
        ck_assert_int_eq(rig_status(&r, whole), SHOAL_E_MALFORMED);
        ck_assert(rig_value(&r, pull) == -1.5f * (float)(i + 1));
        ck_assert(((const float *)r.answer[pull].m->frame[1].data)[1] == (float)(i + 1));
    }
    rig_free(&r);
}
END_TEST

START_TEST(fence_shuts_out_the_older_generation)
{
    struct rig r = {0};
    rig_new(&r, WIRE_ASYNC, 1, OPT_SGD);
    rig_push(&r, (struct rig_push_args){.from = 0, .to = 1, .key = rig_key(3, 0), .gradient = 2});
    uint64_t fence = rig_fence(&r, 0, 2, true), again = rig_fence(&r, 0, 2, true),
             old = rig_fence(&r, 0, 1, true);
    uint64_t push = rig_push(
        &r, (struct rig_push_args){.from = 1, .to = 2, .key = rig_key(3, 0), .gradient = 2});
    rig_run(&r, 5);
    ck_assert_int_eq(rig_status(&r, fence), 0);
    /* table 1 has not seen batch 1 */
    ck_assert_uint_eq(rig_reply(&r, fence)->u.FENCE_reply.mark, 0);
    ck_assert_int_eq(rig_status(&r, again), 0);
    ck_assert_int_eq(rig_status(&r, old), SHOAL_E_FENCED);
    ck_assert_int_eq(rig_status(&r, push), SHOAL_E_FENCED);
    rig_free(&r);
}
END_TEST

/* Its folder may lack the newest fence, which a loss of power took. */
START_TEST(push_after_a_return_waits_for_the_fences)
{
    char dir[LIMIT_PATH];
    struct rig r = {.dir = rig_dir(dir), .durability = DURABLE_JOURNAL};
    const struct rig_push_args next = {.from = 0, .to = 1, .key = rig_key(3, 0), .gradient = 2};
    struct rig_push_args newer = next;
    uint64_t clock, low;
    newer.generation = 3;
    rig_new(&r, WIRE_SSP, 2, OPT_SGD);
    sim_kill(r.shard_node);
    shard_close(r.shard, false);
    rig_shard(&r);
    rig_map(&r, 1, 1000);
    uint64_t open = rig_open(&r, RIG_RUN, 2, WIRE_SSP), push = rig_push(&r, next);
    rig_run(&r, 5);
    ck_assert_msg(rig_status(&r, open) == 0, "%s", rig_reply(&r, open)->error);
    ck_assert_int_eq(rig_status(&r, push), SHOAL_E_AGAIN);
    struct wire_lane_fence fence[] = {{3, 0, WIRE_LIVE | WIRE_PLACED, 4, 11}, {2, 1, 0, 0, 0}},
                           wrong = {3, 2, 1, 0, 0}, old = {2, 0, 1, 0, 0};
    uint64_t lane = rig_fences(&r, RIG_RUN, &wrong, 1), run = rig_fences(&r, 99, fence, 2);
    uint64_t still = rig_push(&r, newer);
    uint64_t told = rig_fences(&r, RIG_RUN, fence, 2), again = rig_fences(&r, RIG_RUN, fence, 2),
             late = rig_fences(&r, RIG_RUN, &old, 1);
    uint64_t dead = rig_push(&r, next), live = rig_push(&r, newer);
    rig_run(&r, 500);
    ck_assert_int_eq(rig_status(&r, lane), SHOAL_E_MALFORMED);
    ck_assert_int_eq(rig_status(&r, run), SHOAL_E_OLD_RUN);
    ck_assert_int_eq(rig_status(&r, still), SHOAL_E_AGAIN);
    ck_assert_int_eq(rig_status(&r, told), 0);
    ck_assert_int_eq(rig_status(&r, again), 0);
    ck_assert_int_eq(rig_status(&r, late), SHOAL_E_FENCED);
    ck_assert_int_eq(rig_status(&r, dead), SHOAL_E_FENCED);
    ck_assert_int_eq(rig_status(&r, live), 0);
    ck_assert(!engine_lane_live(r.shard->engine, RIG_RUN, 1));
    ck_assert_uint_eq(engine_lane_generation(r.shard->engine, RIG_RUN, 1), 2);
    ck_assert_int_eq(engine_clock(r.shard->engine, RIG_RUN, 0, 4, &clock, &low), 0);
    ck_assert_uint_eq(clock, 11);
    /* a run that is not in its folder has no fences that could be lost */
    ck_assert(!shard_run_untold(r.shard, RIG_RUN + 1));
    rig_free(&r);
    rig_remove_dir(dir);
}
END_TEST

/* Two runs side by side: the fences of one do not count for the other. */
START_TEST(each_run_waits_for_its_own_fences)
{
    char dir[LIMIT_PATH];
    struct rig r = {.dir = rig_dir(dir), .durability = DURABLE_JOURNAL};
    rig_new(&r, WIRE_SSP, 2, OPT_SGD);
    rig_open(&r, RIG_RUN + 1, 2, WIRE_SSP);
    rig_run(&r, 500);
    sim_kill(r.shard_node);
    shard_close(r.shard, false);
    rig_shard(&r);
    rig_map(&r, 1, 1000);
    rig_run(&r, 500);
    ck_assert(shard_run_untold(r.shard, RIG_RUN) && shard_run_untold(r.shard, RIG_RUN + 1));
    for (int turn = 0; turn < 2; turn++) {
        uint64_t told = rig_fences(&r, RIG_RUN, NULL, 0);
        rig_run(&r, 5);
        ck_assert_int_eq(rig_status(&r, told), 0);
        ck_assert(!shard_run_untold(r.shard, RIG_RUN));
        ck_assert(shard_run_untold(r.shard, RIG_RUN + 1) == (turn == 0));
        told = rig_fences(&r, RIG_RUN + 1, NULL, 0);
        rig_run(&r, 5);
        ck_assert_int_eq(rig_status(&r, told), 0);
        ck_assert(!shard_run_untold(r.shard, RIG_RUN) && !shard_run_untold(r.shard, RIG_RUN + 1));
    }
    for (uint64_t run = RIG_RUN + 2; run < RIG_RUN + 3 * LIMIT_RUNS; run++) {
        struct wire w = rig_wire(&r, WIRE_TYPE_RUN_DROP);
        rig_open(&r, run, 2, WIRE_SSP);
        rig_fences(&r, run, NULL, 0);
        w.u.RUN_DROP.run = run;
        uint64_t drop = rig_send(&r, &w, 0, NULL, 0, NULL, 0);
        rig_run(&r, 50);
        ck_assert_int_eq(rig_status(&r, drop), 0);
    }
    ck_assert(!shard_run_untold(r.shard, RIG_RUN) && !shard_run_untold(r.shard, RIG_RUN + 1));
    rig_free(&r);
    rig_remove_dir(dir);
}
END_TEST

/* Under bsp the reply to a fence gives the newest clock of any lane. */
START_TEST(fence_tells_the_newest_clock)
{
    static const uint32_t mode[] = {WIRE_BSP, WIRE_SSP};
    for (uint32_t m = 0; m < 2; m++) {
        struct rig r = {0};
        rig_new_of(&r, mode[m], 2, OPT_SGD, 1);
        for (uint32_t lane = 0; lane < 2; lane++)
            rig_push(&r,
                     (struct rig_push_args){
                         .lane = lane, .from = 0, .to = 1, .key = rig_key(3, 0), .gradient = 2});
        rig_run(&r, 5);
        uint64_t fence = rig_fence(&r, 1, 2, true);
        rig_run(&r, 5);
        ck_assert_uint_eq(rig_reply(&r, fence)->u.FENCE_reply.mark, 1);
        ck_assert_uint_eq(rig_reply(&r, fence)->u.FENCE_reply.high, m == 0);
        rig_free(&r);
    }
}
END_TEST

START_TEST(shard_without_a_map_says_again)
{
    struct rig r = {0};
    rig_start(&r, 1);
    rig_table(&r, 0, OPT_SGD);
    rig_open(&r, RIG_RUN, 1, WIRE_ASYNC);
    uint64_t push = rig_push(&r, (struct rig_push_args){.from = 0, .to = 1, .key = rig_key(3, 0)});
    uint64_t pull = rig_pull(&r, EVAL, 0, 0, rig_key(3, 0));
    uint64_t fence = rig_fence(&r, 0, 1, true); /* its mark would be that of no tablets */
    rig_run(&r, 5);
    ck_assert_int_eq(rig_status(&r, fence), SHOAL_E_AGAIN);
    ck_assert_int_eq(rig_status(&r, push), SHOAL_E_AGAIN);
    ck_assert_int_eq(rig_status(&r, pull), SHOAL_E_AGAIN);
    rig_free(&r);
}
END_TEST

START_TEST(tablets_not_led_are_refused)
{
    struct rig r = {0};
    rig_new(&r, WIRE_ASYNC, 1, OPT_SGD);
    uint64_t set = rig_map(&r, 2, 8), older = rig_map(&r, 1, 1000);
    rig_run(&r, 5);
    uint64_t push = rig_push(&r, (struct rig_push_args){.from = 0, .to = 1, .key = rig_key(9, 0)});
    uint64_t ours = rig_push(
        &r,
        (struct rig_push_args){.from = 0, .to = 1, .first = 0, .count = 8, .key = rig_key(7, 0)});
    uint64_t pull = rig_pull(&r, EVAL, 0, 0, rig_key(9, 0));
    rig_run(&r, 5);
    ck_assert_uint_eq(rig_reply(&r, set)->u.MAP_SET_reply.map_epoch, 2);
    ck_assert_int_eq(rig_status(&r, older), SHOAL_E_CONFIG);
    ck_assert_int_eq(rig_status(&r, push), SHOAL_E_NOT_LEADER);
    ck_assert_int_eq(rig_status(&r, ours), 0);
    ck_assert_int_eq(rig_status(&r, pull), SHOAL_E_NOT_LEADER);
    rig_free(&r);
}
END_TEST

/* A worker that uses another job's map names tables of that job. */
START_TEST(table_of_another_run_is_refused)
{
    struct rig r = {0};
    rig_new(&r, WIRE_ASYNC, 1, OPT_SGD);
    struct wire w = rig_wire(&r, WIRE_TYPE_RUN_OPEN);
    w.u.RUN_OPEN = (struct wire_RUN_OPEN){
        .run = RIG_RUN + 1, .lanes = 1, .mode = WIRE_ASYNC, WIRE_TABLES_IS(table_set_word(2))};
    uint64_t table = rig_table(&r, 1, OPT_SGD), open = rig_send(&r, &w, 0, NULL, 0, NULL, 0);
    rig_run(&r, 5);
    float two[2] = {1, 1};
    uint64_t id[4], key = rig_key(9, 0);
    for (uint32_t t = 0; t < 2; t++) {
        w = rig_wire(&r, WIRE_TYPE_PULL);
        w.u.PULL = (struct wire_PULL){.run = RIG_RUN + 1,
                                      .table = t,
                                      .lane = EVAL,
                                      .bound = WIRE_BOUND_ASYNC,
                                      .key_count = 1};
        id[t] = rig_send(&r, &w, 1, &key, 8, NULL, 0);
        w = rig_wire(&r, WIRE_TYPE_PUSH);
        w.u.PUSH = (struct wire_PUSH){.run = RIG_RUN + 1,
                                      .table = t,
                                      .to = 1,
                                      .tablet_count = 16,
                                      .lr_scale = 1,
                                      .key_count = 1};
        id[2 + t] = rig_send(&r, &w, 2, &key, 8, two, 8);
    }
    rig_run(&r, 5);
    ck_assert_int_eq(rig_status(&r, table), 0);
    ck_assert_msg(rig_status(&r, open) == 0, "%s", rig_reply(&r, open)->error);
    ck_assert_int_eq(rig_status(&r, id[0]), SHOAL_E_NOT_LEADER);
    ck_assert_int_eq(rig_status(&r, id[1]), 0);
    ck_assert_int_eq(rig_status(&r, id[2]), SHOAL_E_NOT_LEADER);
    ck_assert_int_eq(rig_status(&r, id[3]), 0);
    rig_free(&r);
}
END_TEST

/* Tablets [4, 12) of a table are here. The test looks at both sides of both ends, with a pull of
 * one and of two keys, and with a push's range. */
START_TEST(the_ends_of_what_is_led_are_exact)
{
    struct rig r = {0};
    uint16_t shard_of[2u << RIG_BITS];
    rig_new(&r, WIRE_ASYNC, 1, OPT_SGD);
    for (uint32_t i = 0; i < 2u << RIG_BITS; i++)
        shard_of[i] = i < 4 || i >= 12;
    struct wire w = rig_wire(&r, WIRE_TYPE_MAP_SET);
    w.u.MAP_SET = (struct wire_MAP_SET){
        .map_epoch = 2, .tablet_count = 2u << RIG_BITS, .cluster_high = RIG_CLUSTER};
    uint64_t set = rig_send(&r, &w, 1, shard_of, sizeof shard_of, NULL, 0);
    rig_run(&r, 5);
    ck_assert_int_eq(rig_status(&r, set), 0);
    for (uint32_t first = 3; first < 5; first++)
        for (uint32_t last = 11; last < 13; last++) {
            const uint64_t key[2] = {rig_key(first, 0), rig_key(last, 0)};
            uint64_t one = rig_pull(&r, EVAL, 0, 0, key[0]),
                     other = rig_pull(&r, EVAL, 0, 0, key[1]);
            w = rig_wire(&r, WIRE_TYPE_PULL);
            w.u.PULL = (struct wire_PULL){.run = RIG_RUN, .lane = EVAL, .key_count = 2};
            uint64_t both = rig_send(&r, &w, 1, key, sizeof key, NULL, 0);
            uint64_t push = rig_push(
                &r, (struct rig_push_args){.to = 1, .first = first, .count = last + 1 - first});
            rig_run(&r, 5);
            ck_assert_int_eq(rig_status(&r, one), first == 4 ? 0 : SHOAL_E_NOT_LEADER);
            ck_assert_int_eq(rig_status(&r, other), last == 11 ? 0 : SHOAL_E_NOT_LEADER);
            int all = first == 4 && last == 11 ? 0 : SHOAL_E_NOT_LEADER;
            ck_assert_int_eq(rig_status(&r, both), all);
            ck_assert_int_eq(rig_status(&r, push), all);
        }
    rig_free(&r);
}
END_TEST

/* All tablets except the ninth, which another shard leads: its rows would read as new ones. */
START_TEST(a_hole_in_what_is_led_is_exact)
{
    struct rig r = {0};
    uint16_t shard_of[2u << RIG_BITS] = {0};
    rig_new(&r, WIRE_ASYNC, 1, OPT_SGD);
    shard_of[9] = 1;
    struct wire w = rig_wire(&r, WIRE_TYPE_MAP_SET);
    w.u.MAP_SET = (struct wire_MAP_SET){
        .map_epoch = 2, .tablet_count = 2u << RIG_BITS, .cluster_high = RIG_CLUSTER};
    rig_send(&r, &w, 1, shard_of, sizeof shard_of, NULL, 0);
    rig_run(&r, 5);
    for (uint32_t tablet = 8; tablet < 11; tablet++) {
        uint64_t pull = rig_pull(&r, EVAL, 0, 0, rig_key(tablet, 0)),
                 push = rig_push(&r, (struct rig_push_args){.to = 1, .first = tablet, .count = 1}),
                 to =
                     rig_push(&r, (struct rig_push_args){.to = 1, .first = 7, .count = tablet - 6});
        rig_run(&r, 5);
        ck_assert_int_eq(rig_status(&r, pull), tablet == 9 ? SHOAL_E_NOT_LEADER : 0);
        ck_assert_int_eq(rig_status(&r, push), tablet == 9 ? SHOAL_E_NOT_LEADER : 0);
        ck_assert_int_eq(rig_status(&r, to), tablet >= 9 ? SHOAL_E_NOT_LEADER : 0);
    }
    rig_free(&r);
}
END_TEST

static uint32_t known;

static void known_count(struct env *env, peer_t peer)
{
    (void)env;
    ck_assert_uint_ne(peer, 0);
    known++;
}

/* The loop is told which peer has sent a valid message: a flood of unknown peers does not cost that
 * one its connection. */
START_TEST(who_speaks_lawfully_is_known)
{
    struct rig r = {0};
    struct env_ops ops;
    rig_new(&r, WIRE_ASYNC, 1, OPT_SGD);
    struct env *env = sim_node_env(r.shard_node);
    ops = *env->ops;
    ops.known = known_count;
    const struct env_ops *former = env->ops;
    env->ops = &ops;
    known = 0;
    struct msg *m = msg_new();
    memset(msg_add(m, 9), 0xee, 9);
    ck_assert_int_eq(env_send(sim_node_env(r.client), r.to, m), 0);
    rig_run(&r, 5);
    ck_assert_uint_eq(known, 0);
    rig_simple(&r, WIRE_TYPE_HELLO);
    rig_run(&r, 5);
    ck_assert_uint_eq(known, 1);
    env->ops = former;
    rig_free(&r);
}
END_TEST

/* A missing row has no value for a reader, and its initial value for a lane. */
START_TEST(readers_see_no_row_where_none_is)
{
    struct rig r = {0};
    const struct table_schema s = {.name = "drawn",
                                   .width = 2,
                                   .tablet_bits = RIG_BITS,
                                   .seed = 1,
                                   .init = {INIT_UNIFORM, 0.5f},
                                   .optimizer = {.kind = OPT_SGD, .lr = 1}};
    rig_start(&r, 1);
    struct wire w = rig_wire(&r, WIRE_TYPE_TABLE_CREATE);
    wire_schema_to(&s, &w.u.TABLE_CREATE);
    uint64_t made = rig_send(&r, &w, 1, NULL, 0, NULL, 0), key = rig_key(3, 0);
    rig_map(&r, 1, 1000);
    w = rig_wire(&r, WIRE_TYPE_RUN_OPEN);
    w.u.RUN_OPEN = (struct wire_RUN_OPEN){.run = RIG_RUN, .lanes = 1, .mode = WIRE_ASYNC};
    uint64_t open = rig_send(&r, &w, 0, NULL, 0, NULL, 0);
    rig_run(&r, 5);
    ck_assert_msg(rig_status(&r, made) == 0, "%s", rig_reply(&r, made)->error);
    ck_assert_msg(rig_status(&r, open) == 0, "%s", rig_reply(&r, open)->error);
    uint64_t reader = rig_pull(&r, EVAL, 0, 0, key),
             lane = rig_pull(&r, 0, 1, WIRE_BOUND_ASYNC, key);
    rig_run(&r, 5);
    ck_assert(rig_value(&r, reader) == 0);
    ck_assert(rig_value(&r, lane) != 0);
    rig_free(&r);
}
END_TEST

START_TEST(control_messages_may_come_twice)
{
    struct rig r = {0};
    rig_new(&r, WIRE_ASYNC, 1, OPT_SGD);
    uint64_t id[8];
    id[0] = rig_table(&r, 0, OPT_SGD);
    id[1] = rig_open(&r, RIG_RUN, 1, WIRE_ASYNC);
    id[2] = rig_map(&r, 1, 1000);
    struct wire w = rig_wire(&r, WIRE_TYPE_RUN_DROP);
    w.u.RUN_DROP.run = 1234;
    id[3] = rig_send(&r, &w, 0, NULL, 0, NULL, 0);
    uint64_t other = rig_table(&r, 0, OPT_ADAGRAD);
    rig_run(&r, 5);
    for (int i = 0; i < 4; i++)
        ck_assert_msg(rig_status(&r, id[i]) == 0, "%d: %s", i, rig_reply(&r, id[i])->error);
    ck_assert_int_eq(rig_status(&r, other), SHOAL_E_SCHEMA);
    rig_free(&r);
}
END_TEST

START_TEST(hold_queues_pushes_until_its_time_is_up)
{
    struct rig r = {0};
    rig_new(&r, WIRE_ASYNC, 1, OPT_SGD);
    struct wire w = rig_wire(&r, WIRE_TYPE_HOLD);
    w.u.HOLD = (struct wire_HOLD){.cut = 1, .run = RIG_RUN};
    uint64_t hold = rig_send(&r, &w, 0, NULL, 0, NULL, 0);
    rig_run(&r, 5);
    uint64_t push = rig_push(
        &r, (struct rig_push_args){.from = 0, .to = 1, .key = rig_key(3, 0), .gradient = 2});
    uint64_t pull = rig_pull(&r, EVAL, 0, 0, rig_key(3, 0));
    rig_run(&r, 9000);
    ck_assert_int_eq(rig_status(&r, hold), 0);
    ck_assert_int_eq(rig_status(&r, push), RIG_WAITING);
    ck_assert(rig_value(&r, pull) == 0);
    rig_run(&r, 2000);
    ck_assert_int_eq(rig_status(&r, push), 0);
    w.id = r.next_id++;
    w.type = WIRE_TYPE_GO;
    w.u.GO.cut = 1;
    uint64_t late = rig_send(&r, &w, 0, NULL, 0, NULL, 0);
    rig_run(&r, 5);
    ck_assert_int_eq(rig_status(&r, late), SHOAL_E_NOT_FOUND);
    rig_free(&r);
}
END_TEST

static uint64_t cut_request(struct rig *r, enum wire_type type, uint64_t cut, uint64_t run)
{
    struct wire w = rig_wire(r, type);
    if (type == WIRE_TYPE_HOLD)
        w.u.HOLD = (struct wire_HOLD){.cut = cut, .run = RIG_RUN};
    else if (type == WIRE_TYPE_GO)
        w.u.GO.cut = cut;
    else if (type == WIRE_TYPE_CUT_DROP)
        w.u.CUT_DROP.cut = cut;
    else
        w.u.RESTORE = (struct wire_RESTORE){.cut = cut, .run = run};
    return rig_send(r, &w, 0, NULL, 0, NULL, 0);
}

static void cut_and_restore(const char *dir)
{
    struct rig r = {.dir = dir, .durability = DURABLE_JOURNAL};
    rig_new(&r, WIRE_SSP, 2, OPT_SGD);
    struct rig_push_args p = {.from = 0, .to = 1, .key = rig_key(3, 0), .gradient = 2};
    rig_push(&r, p);
    rig_run(&r, 5);
    uint64_t hold = cut_request(&r, WIRE_TYPE_HOLD, 5, 0),
             hold_again = cut_request(&r, WIRE_TYPE_HOLD, 5, 0);
    rig_run(&r, 5);
    ck_assert_int_eq(rig_status(&r, hold), 0);
    ck_assert_uint_eq(rig_reply(&r, hold)->u.HOLD_reply.sequence,
                      rig_reply(&r, hold_again)->u.HOLD_reply.sequence);
    p.from = p.to++;
    uint64_t queued = rig_push(&r, p);
    rig_run(&r, 5);
    ck_assert_int_eq(rig_status(&r, queued), RIG_WAITING);
    cut_request(&r, WIRE_TYPE_GO, 5, 0);
    rig_run(&r, 500);
    uint64_t go = cut_request(&r, WIRE_TYPE_GO, 5, 0); /* as if the first answer had been lost */
    rig_run(&r, 5);
    ck_assert_int_eq(rig_status(&r, queued), 0);
    ck_assert_msg(rig_status(&r, go) == 0, "%s", rig_reply(&r, go)->error);
    ck_assert_uint_eq(rig_reply(&r, go)->u.GO_reply.rows, 1);

    uint64_t waits = rig_pull(&r, 0, 9, 0, p.key);
    rig_run(&r, 5);
    ck_assert_int_eq(rig_status(&r, waits), RIG_WAITING);
    uint64_t restore = cut_request(&r, WIRE_TYPE_RESTORE, 5, RIG_RUN + 1);
    uint64_t old = rig_push(&r, p), pull = rig_pull(&r, EVAL, 0, 0, p.key);
    rig_run(&r, 50);
    ck_assert_msg(rig_status(&r, restore) == 0, "%s", rig_reply(&r, restore)->error);
    ck_assert_int_eq(rig_status(&r, waits), SHOAL_E_OLD_RUN);
    ck_assert_int_eq(rig_status(&r, old), SHOAL_E_OLD_RUN);
    ck_assert(rig_value(&r, pull) == -2);

    /* The new run goes on from the cut's marks; a repeated RESTORE must not undo that. */
    ck_assert_int_eq(engine_mark(r.shard->engine, RIG_RUN + 1, 0, 0), 1);
    struct wire w = rig_wire(&r, WIRE_TYPE_FENCE);
    w.u.FENCE = (struct wire_FENCE){.run = RIG_RUN + 1, .generation = 50, .live = true};
    rig_send(&r, &w, 0, NULL, 0, NULL, 0);
    rig_run(&r, 5);
    w = rig_wire(&r, WIRE_TYPE_PUSH);
    w.u.PUSH = (struct wire_PUSH){.run = RIG_RUN + 1,
                                  .generation = 50,
                                  .from = 1,
                                  .to = 2,
                                  .tablet_count = 16,
                                  .lr_scale = 1,
                                  .key_count = 1};
    float gradient[2] = {5, 5};
    uint64_t push = rig_send(&r, &w, 2, &p.key, 8, gradient, 8);
    rig_run(&r, 5);
    ck_assert_int_eq(rig_status(&r, push), 0);
    uint64_t again = cut_request(&r, WIRE_TYPE_RESTORE, 5, RIG_RUN + 1);
    pull = rig_pull(&r, EVAL, 0, 0, p.key);
    rig_run(&r, 50);
    ck_assert_int_eq(rig_status(&r, again), 0);
    ck_assert(rig_value(&r, pull) == -7);
    uint64_t drop = cut_request(&r, WIRE_TYPE_CUT_DROP, 5, 0),
             drop_again = cut_request(&r, WIRE_TYPE_CUT_DROP, 5, 0);
    rig_run(&r, 50);
    ck_assert_int_eq(rig_status(&r, drop), 0);
    ck_assert_int_eq(rig_status(&r, drop_again), 0);
    rig_free(&r);
}

static uint64_t keep_request(struct rig *r, uint64_t below, uint64_t keep)
{
    struct wire w = rig_wire(r, WIRE_TYPE_CUT_KEEP);
    w.u.CUT_KEEP = (struct wire_CUT_KEEP){.below = below, .keep = keep};
    return rig_send(r, &w, 0, NULL, 0, NULL, 0);
}

/* Runs of earlier jobs, whose drop never arrived, are dropped: there is room again, and the job's
 * own run stays. If the coordinator names no run (0), all stay. */
START_TEST(runs_that_nobody_has_any_more_are_dropped)
{
    struct rig r = {.durability = DURABLE_MEMORY};
    rig_new(&r, WIRE_SSP, 2, OPT_SGD);
    uint64_t last = RIG_RUN + LIMIT_RUNS - 1;
    for (uint64_t run = RIG_RUN + 1; run <= last; run++)
        rig_open(&r, run, 2, WIRE_SSP);
    rig_run(&r, 50);
    for (uint32_t i = 0; i < 2; i++) {
        struct wire w = rig_wire(&r, WIRE_TYPE_CUT_KEEP);
        w.u.CUT_KEEP.runs = i == 0 ? 0 : last;
        uint64_t keep = rig_send(&r, &w, 0, NULL, 0, NULL, 0);
        rig_run(&r, 50);
        ck_assert_int_eq(rig_status(&r, keep), 0);
        uint64_t open = rig_open(&r, last + 1, 2, WIRE_SSP);
        rig_run(&r, 50);
        ck_assert_int_eq(rig_status(&r, open), i == 0 ? SHOAL_E_BUSY : 0);
    }
    uint64_t again = rig_open(&r, last, 2, WIRE_SSP), gone = rig_open(&r, last - 1, 2, WIRE_SSP);
    rig_run(&r, 50);
    ck_assert_int_eq(rig_status(&r, again), 0);
    ck_assert_int_eq(rig_status(&r, gone), SHOAL_E_CONFIG); /* over: its marks are not 0 */
    rig_free(&r);
}
END_TEST

static uint64_t keep_of(struct rig *r, uint64_t below, uint64_t runs, uint64_t tables)
{
    struct wire w = rig_wire(r, WIRE_TYPE_CUT_KEEP);
    w.u.CUT_KEEP =
        (struct wire_CUT_KEEP){.below = below, .runs = runs, WIRE_TABLES_IS(set_of(tables))};
    return rig_send(r, &w, 0, NULL, 0, NULL, 0);
}

static uint64_t hold_of(struct rig *r, uint64_t cut, uint64_t run)
{
    struct wire w = rig_wire(r, WIRE_TYPE_HOLD);
    w.u.HOLD = (struct wire_HOLD){.cut = cut, .run = run};
    return rig_send(r, &w, 0, NULL, 0, NULL, 0);
}

static uint64_t open_of(struct rig *r, uint64_t run, uint64_t tables)
{
    struct wire w = rig_wire(r, WIRE_TYPE_RUN_OPEN);
    w.u.RUN_OPEN = (struct wire_RUN_OPEN){
        .run = run, .lanes = 2, .mode = WIRE_SSP, WIRE_TABLES_IS(set_of(tables))};
    return rig_send(r, &w, 0, NULL, 0, NULL, 0);
}

/* Cuts of two runs are held one after the other; a restore of one does not end the hold of the
 * other. */
START_TEST(another_jobs_hold_is_waited_for)
{
    struct rig r = {.durability = DURABLE_MEMORY, .work_ns = 20 * MS};
    const uint64_t other = RIG_RUN + 1;
    rig_new_of(&r, WIRE_SSP, 2, OPT_SGD, 1);
    open_of(&r, other, 2);
    rig_run(&r, 50);
    hold_of(&r, 3, other);
    rig_run(&r, 5);
    uint64_t go = cut_request(&r, WIRE_TYPE_GO, 3, 0);
    rig_run(&r, 200);
    ck_assert_int_eq(rig_status(&r, go), 0);

    uint64_t first = hold_of(&r, 4, RIG_RUN);
    rig_run(&r, 5);
    uint64_t second = hold_of(&r, 5, other), back = cut_request(&r, WIRE_TYPE_RESTORE, 3, 90);
    rig_run(&r, 5);
    ck_assert_int_eq(rig_status(&r, first), 0);
    ck_assert_int_eq(rig_status(&r, second), SHOAL_E_BUSY);
    ck_assert_int_eq(rig_status(&r, back), SHOAL_E_BUSY);
    ck_assert_uint_eq(r.shard->hold.cut, 4);
    go = cut_request(&r, WIRE_TYPE_GO, 4, 0);
    rig_run(&r, 200);
    ck_assert_int_eq(rig_status(&r, go), 0);
    second = hold_of(&r, 5, other);
    rig_run(&r, 5);
    ck_assert_int_eq(rig_status(&r, second), 0);
    rig_free(&r);
}
END_TEST

/* Run RIG_RUN pushes to table 0, the next one to table 1. The job of the second run keeps nothing
 * older: cuts of the first run stay, made (3), being written (5) and held (6), and so does that
 * run. */
START_TEST(another_jobs_cuts_and_runs_stay)
{
    char dir[LIMIT_PATH];
    struct rig r = {.dir = rig_dir(dir), .durability = DURABLE_JOURNAL, .work_ns = 20 * MS};
    const uint64_t other = RIG_RUN + 1;
    uint64_t cut[8];
    uint32_t mode, lanes;
    rig_new_of(&r, WIRE_SSP, 2, OPT_SGD, 1);
    uint64_t open = open_of(&r, other, 2);
    rig_run(&r, 50);
    ck_assert_msg(rig_status(&r, open) == 0, "%s", rig_reply(&r, open)->error);
    for (uint64_t i = 3; i <= 5; i++) {
        hold_of(&r, i, i == 4 ? other : RIG_RUN);
        rig_run(&r, 5);
        cut_request(&r, WIRE_TYPE_GO, i, 0);
        rig_run(&r, i == 5 ? 5 : 200);
    }
    uint64_t keep = keep_of(&r, UINT64_MAX, other + 1, 2);
    rig_run(&r, 200);
    ck_assert_int_eq(rig_status(&r, keep), 0);
    ck_assert_uint_eq(rig_reply(&r, keep)->u.CUT_KEEP_reply.dropped, 1);
    ck_assert_uint_eq(engine_cuts(r.shard->engine, cut, 8), 2);
    ck_assert_uint_eq(cut[0] + cut[1], 3 + 5);
    ck_assert_int_eq(engine_run_mode(r.shard->engine, RIG_RUN, &mode, &lanes), 0);
    ck_assert_int_ne(engine_run_mode(r.shard->engine, other, &mode, &lanes), 0);

    hold_of(&r, 6, RIG_RUN);
    rig_run(&r, 5);
    keep = keep_of(&r, UINT64_MAX, other + 1, 2);
    rig_run(&r, 5);
    ck_assert_int_eq(rig_status(&r, keep), 0);
    ck_assert_uint_eq(r.shard->hold.cut, 6);
    keep = keep_of(&r, UINT64_MAX, other + 1, 0); /* all */
    rig_run(&r, 50);
    ck_assert_int_eq(rig_status(&r, keep), 0);
    ck_assert_uint_eq(r.shard->hold.cut, 0);
    ck_assert_uint_eq(engine_cuts(r.shard->engine, cut, 8), 0);
    ck_assert_int_ne(engine_run_mode(r.shard->engine, RIG_RUN, &mode, &lanes), 0);
    rig_free(&r);
    rig_remove_dir(dir);
}
END_TEST

static uint64_t hold_of_tables(struct rig *r, uint64_t cut, uint64_t tables)
{
    struct wire w = rig_wire(r, WIRE_TYPE_HOLD);
    w.u.HOLD = (struct wire_HOLD){.cut = cut, WIRE_TABLES_IS(set_of(tables))};
    return rig_send(r, &w, 0, NULL, 0, NULL, 0);
}

/* A cut of no run is made for table 0, as of a space that rests. It does not end the hold of a job
 * with another table, nor does that job end its, and the list of that job's cuts does not drop
 * it. */
START_TEST(a_cut_of_no_run_is_of_its_tables)
{
    char dir[LIMIT_PATH];
    struct rig r = {.dir = rig_dir(dir), .durability = DURABLE_JOURNAL, .work_ns = 20 * MS};
    const uint64_t other = RIG_RUN + 1;
    uint64_t cut[8], first, second, keep;
    rig_new_of(&r, WIRE_SSP, 2, OPT_SGD, 1);
    open_of(&r, other, 2);
    rig_run(&r, 50);
    first = hold_of(&r, 3, other);
    second = hold_of_tables(&r, 4, 1);
    rig_run(&r, 5);
    ck_assert_int_eq(rig_status(&r, first), 0);
    ck_assert_int_eq(rig_status(&r, second), SHOAL_E_BUSY);
    cut_request(&r, WIRE_TYPE_CUT_DROP, 3, 0);
    rig_run(&r, 5);

    first = hold_of_tables(&r, 5, 1);
    second = hold_of(&r, 6, other);
    rig_run(&r, 5);
    ck_assert_int_eq(rig_status(&r, first), 0);
    ck_assert_int_eq(rig_status(&r, second), SHOAL_E_BUSY);
    cut_request(&r, WIRE_TYPE_GO, 5, 0);
    rig_run(&r, 200);
    keep = keep_of(&r, UINT64_MAX, other + 1, 2);
    rig_run(&r, 50);
    ck_assert_int_eq(rig_status(&r, keep), 0);
    ck_assert_uint_eq(engine_cuts(r.shard->engine, cut, 8), 1);
    keep_of(&r, UINT64_MAX, other + 1, 1);
    rig_run(&r, 50);
    ck_assert_uint_eq(engine_cuts(r.shard->engine, cut, 8), 0);
    rig_free(&r);
    rig_remove_dir(dir);
}
END_TEST

/* The coordinator knows cut 4 out of 3, 4, 5 and 6, and has not drawn 6 yet. A cut that is being
 * written is waited for, a held one is released. */
START_TEST(cuts_that_nobody_knows_are_deleted)
{
    char dir[LIMIT_PATH];
    struct rig r = {.dir = rig_dir(dir), .durability = DURABLE_JOURNAL, .work_ns = 20 * MS};
    uint64_t cut[8];
    rig_new(&r, WIRE_SSP, 2, OPT_SGD);
    for (uint64_t i = 3; i <= 6; i++) {
        cut_request(&r, WIRE_TYPE_HOLD, i, 0);
        rig_run(&r, 5);
        cut_request(&r, WIRE_TYPE_GO, i, 0);
        rig_run(&r, i == 5 ? 5 : 200);
        uint64_t keep = i == 5 ? keep_request(&r, 6, 4) : 0;
        rig_run(&r, 5);
        if (i == 5)
            ck_assert_int_eq(rig_status(&r, keep), SHOAL_E_BUSY);
        rig_run(&r, 200);
    }
    ck_assert_uint_eq(engine_cuts(r.shard->engine, cut, 8), 3); /* 3 went at once */
    uint64_t keep = keep_request(&r, 6, 4);
    rig_run(&r, 5);
    ck_assert_int_eq(rig_status(&r, keep), 0);
    ck_assert_uint_eq(rig_reply(&r, keep)->u.CUT_KEEP_reply.dropped, 1);
    ck_assert_uint_eq(engine_cuts(r.shard->engine, cut, 8), 2);
    ck_assert_uint_eq(cut[0] + cut[1], 4 + 6);
    cut_request(&r, WIRE_TYPE_HOLD, 7, 0);
    rig_run(&r, 5);
    struct rig_push_args p = {.from = 0, .to = 1, .key = rig_key(3, 0), .gradient = 2};
    uint64_t queued = rig_push(&r, p);
    (void)keep_request(&r, 7, 4);
    rig_run(&r, 5);
    ck_assert_int_eq(rig_status(&r, queued), RIG_WAITING);
    (void)keep_request(&r, 8, 4);
    rig_run(&r, 5);
    ck_assert_int_eq(rig_status(&r, queued), 0);
    rig_free(&r);
    rig_remove_dir(dir);
}
END_TEST

START_TEST(cut_is_restored_once_in_memory)
{
    cut_and_restore(NULL);
}
END_TEST

START_TEST(cut_is_restored_once_on_disk)
{
    char dir[LIMIT_PATH];
    cut_and_restore(rig_dir(dir));
    rig_remove_dir(dir);
}
END_TEST

START_TEST(digest_tells_equal_content_from_other_content)
{
    struct rig a = {0}, b = {0};
    uint64_t digest[2][16];
    for (int i = 0; i < 2; i++) {
        struct rig *r = i ? &b : &a;
        rig_new(r, WIRE_ASYNC, 1, OPT_ADAGRAD);
        rig_push(r,
                 (struct rig_push_args){.from = 0, .to = 1, .key = rig_key(3, 0), .gradient = 2});
        rig_push(r, (struct rig_push_args){
                        .from = 1, .to = 2, .key = rig_key(5, 0), .gradient = i ? 1 : 2});
        uint64_t id = rig_simple(r, WIRE_TYPE_DIGEST);
        rig_run(r, 50);
        ck_assert_int_eq(rig_status(r, id), 0);
        ck_assert_uint_eq(rig_reply(r, id)->u.DIGEST_reply.tablet_count, 16);
        ck_assert_uint_eq(rig_reply(r, id)->u.DIGEST_reply.rows, 2);
        memcpy(digest[i], r->answer[id].m->frame[1].data, sizeof digest[i]);
        rig_free(r);
    }
    ck_assert_uint_eq(digest[0][0], 0);
    ck_assert_uint_ne(digest[0][3], 0);
    ck_assert_uint_eq(digest[0][3], digest[1][3]);
    ck_assert_uint_ne(digest[0][5], digest[1][5]);
}
END_TEST

static struct json *json_of(const struct rig *r, uint64_t id)
{
    struct json *j;
    struct err e;
    ck_assert_int_eq(rig_status(r, id), 0);
    const struct frame *f = &r->answer[id].m->frame[1];
    ck_assert_int_eq(json_parse(f->data, f->bytes, &j, &e), 0);
    return j;
}

START_TEST(inspect_and_status_are_json)
{
    struct rig r = {0};
    rig_new(&r, WIRE_ASYNC, 1, OPT_ADAGRAD);
    rig_push(&r, (struct rig_push_args){.from = 0, .to = 1, .key = rig_key(3, 0), .gradient = 2});
    struct wire w = rig_wire(&r, WIRE_TYPE_INSPECT);
    w.u.INSPECT.key = rig_key(3, 0);
    uint64_t there = rig_send(&r, &w, 0, NULL, 0, NULL, 0);
    w.id = r.next_id++;
    w.u.INSPECT.key = rig_key(4, 0);
    uint64_t absent = rig_send(&r, &w, 0, NULL, 0, NULL, 0),
             status = rig_simple(&r, WIRE_TYPE_SHARD_STATUS);
    w = rig_wire(&r, WIRE_TYPE_SHARD_STATUS);
    w.u.SHARD_STATUS.part = 1;
    uint64_t part = rig_send(&r, &w, 0, NULL, 0, NULL, 0);
    rig_run(&r, 5);
    struct json *j = json_of(&r, there);
    ck_assert_uint_eq(json_count(json_get(j, "weights")), 2);
    ck_assert_uint_eq(json_count(json_get(j, "state")), 2);
    ck_assert(json_as_number(json_get(j, "state.0"), 0) == 4);
    ck_assert_int_eq(json_as_int(json_get(j, "tablet"), 0), 3);
    json_free(j);
    ck_assert(!rig_reply(&r, absent)->u.INSPECT_reply.found);
    json_free(json_of(&r, absent));
    j = json_of(&r, status);
    ck_assert_int_eq(json_as_int(json_get(j, "keys_pushed"), 0), 1);
    ck_assert_int_eq(json_as_int(json_get(j, "rows"), 0), 1);
    ck_assert_int_eq(json_as_int(json_get(j, "messages.PUSH"), 0), 1);
    ck_assert_str_eq(json_as_string(json_get(j, "tables.1.name"), ""), "t1");
    json_free(j);
    j = json_of(&r, part);
    ck_assert_str_eq(json_as_string(json_get(j, "tables.1.name"), ""), "t1");
    ck_assert_ptr_nonnull(json_get(j, "gradients"));
    ck_assert_ptr_null(json_get(j, "messages"));
    json_free(j);
    rig_free(&r);
}
END_TEST

static int frames_of(enum wire_type type)
{
    switch (type) {
#define X(name, number, request_frames, reply_frames)                                              \
    case WIRE_TYPE_##name:                                                                         \
        return request_frames;
        WIRE_MAP(X)
#undef X
    default:
        return 0;
    }
}

/* A peer that is not the coordinator may read, pull and push. Any other request is refused, and has
 * no effect. */
START_TEST(strangers_give_no_orders)
{
    static const enum wire_type order[] = {
        WIRE_TYPE_TABLE_CREATE, WIRE_TYPE_RUN_OPEN, WIRE_TYPE_RUN_DROP,   WIRE_TYPE_FENCE,
        WIRE_TYPE_MAP_SET,      WIRE_TYPE_HOLD,     WIRE_TYPE_GO,         WIRE_TYPE_RESTORE,
        WIRE_TYPE_CUT_DROP,     WIRE_TYPE_CUT_KEEP, WIRE_TYPE_CUT_EXPORT, WIRE_TYPE_LOAD,
        WIRE_TYPE_ROWS_GO,      WIRE_TYPE_STOP,     WIRE_TYPE_MAP_HELD};
    static const enum wire_type question[] = {WIRE_TYPE_HELLO, WIRE_TYPE_DIGEST, WIRE_TYPE_INSPECT,
                                              WIRE_TYPE_SHARD_STATUS};
    static char byte[8];
    struct rig r = {0};
    uint64_t id;
    rig_new(&r, WIRE_ASYNC, 1, OPT_SGD);
    peer_t coordinator = r.to;
    ck_assert_int_eq(env_connect(sim_node_env(r.client), "sim://shard", ENV_COORDINATOR, &r.to), 0);
    for (size_t i = 0; i < sizeof order / sizeof order[0]; i++) {
        struct wire w = rig_wire(&r, order[i]);
        w.u.FENCE.generation = order[i] == WIRE_TYPE_FENCE ? UINT64_MAX : 0;
        id = rig_send(&r, &w, frames_of(order[i]), byte, 0, byte, 0);
        rig_run(&r, 3);
        ck_assert_int_eq(rig_status(&r, id), SHOAL_E_DENIED);
    }
    for (size_t i = 0; i < sizeof question / sizeof question[0]; i++) {
        id = rig_simple(&r, question[i]);
        rig_run(&r, 5);
        ck_assert_int_eq(rig_status(&r, id), 0);
    }
    id = rig_push(&r, (struct rig_push_args){.from = 0, .to = 1, .key = 1, .gradient = 1});
    rig_run(&r, 5);
    ck_assert_int_eq(rig_status(&r, id), 0); /* its lane is unchanged */
    r.to = coordinator;
    id = rig_fence(&r, 0, 2, true);
    rig_run(&r, 5);
    ck_assert_int_eq(rig_status(&r, id), 0);
    rig_free(&r);
}
END_TEST

/* Random bytes from any peer: each message costs its sender at most an error. */
START_TEST(hostile_messages_cost_nobody_else_anything)
{
    struct rig r = {.alone = true}; /* so that the handlers of orders get them, too */
    rig_new(&r, WIRE_ASYNC, 1, OPT_SGD);
    struct rng rng = {42};
    for (int i = 0; i < 3000; i++) {
        struct wire w;
        memset(&w, 0, sizeof w);
        w.type = (enum wire_type)(1 + rng_below(&rng, 29));
        w.reply = w.type == WIRE_TYPE_STOP || rng_below(&rng, 8) == 0;
        w.id = RIG_IDS - 1;
        struct msg *m = wire_encode(&w);
        uint8_t *bytes = m->frame[0].data;
        for (uint64_t flips = rng_below(&rng, 4); flips > 0; flips--)
            bytes[rng_below(&rng, m->frame[0].bytes)] ^= (uint8_t)(1u << rng_below(&rng, 8));
        for (uint64_t frames = rng_below(&rng, LIMIT_FRAMES); frames > 0; frames--) {
            size_t count = rng_below(&rng, 64);
            uint8_t *frame = msg_add(m, count);
            for (size_t k = 0; k < count; k++)
                frame[k] = (uint8_t)rng_next(&rng);
        }
        struct wire check;
        struct err e;
        if (wire_decode(m, &check, &e) == 0 && check.type == WIRE_TYPE_STOP)
            msg_free(m); /* a flip made it a true STOP */
        else if (wire_decode(m, &check, &e) == 0 && check.type == WIRE_TYPE_HOLD)
            msg_free(m);
        else
            shard_handler.on_message(r.shard, r.to, m);
    }
    uint64_t push = rig_push(
        &r, (struct rig_push_args){.from = 0, .to = 1, .key = rig_key(3, 0), .gradient = 2});
    uint64_t pull = rig_pull(&r, EVAL, 0, 0, rig_key(3, 0));
    rig_run(&r, 100);
    ck_assert_int_eq(rig_status(&r, push), 0);
    ck_assert(rig_value(&r, pull) == -2);
    ck_assert_uint_gt(r.shard->counts.malformed, 100);
    rig_free(&r);
}
END_TEST

/* Sends pulls of a lane that wait for other lanes, from a peer with number `from`. */
static void pulls_that_wait(struct rig *r, peer_t from, uint32_t count, uint64_t batch)
{
    struct wire w = rig_wire(r, WIRE_TYPE_PULL);
    w.u.PULL = (struct wire_PULL){.run = RIG_RUN, .key_count = 1, .batch = batch};
    for (uint32_t i = 0; i < count; i++) {
        uint64_t key = rig_key(3, (uint32_t)from * 10000 + i);
        w.id = 1000;
        struct msg *m = wire_encode(&w);
        memcpy(msg_add(m, 8), &key, 8);
        shard_handler.on_message(r->shard, from, m);
        shard_handler.on_drained(r->shard);
    }
}

/* Pulls that wait fill five eighths of their share and no more, those of one peer half; and the
 * push that moves the clock gets in. */
START_TEST(waiting_requests_are_bounded)
{
    struct rig r = {0};
    rig_new(&r, WIRE_SSP, 2, OPT_SGD);
    pulls_that_wait(&r, 1, LIMIT_WAITING + 100, 100);
    ck_assert_uint_eq(request_pool_used(&r.shard->pool), LIMIT_WAITING / 2);
    ck_assert_uint_eq(r.shard->counts.refused, LIMIT_WAITING / 2 + 100);
    pulls_that_wait(&r, 2, LIMIT_WAITING, 100);
    ck_assert_uint_eq(request_pool_used(&r.shard->pool), LIMIT_WAITING / 8 * 5);
    uint64_t push = rig_push(
        &r, (struct rig_push_args){.from = 0, .to = 1, .key = rig_key(3, 0), .gradient = 2});
    rig_run(&r, 5);
    ck_assert_int_eq(rig_status(&r, push), 0);
    shard_handler.on_peer_gone(r.shard, 1);
    shard_handler.on_peer_gone(r.shard, 2);
    ck_assert_uint_eq(request_pool_used(&r.shard->pool), 0);
    ck_assert_uint_eq(request_pool_bytes(&r.shard->pool), 0);
    rig_free(&r);
}
END_TEST

/* However many pulls wait for a slower lane, of however many bytes: the pull of that lane is
 * answered, else none would ever get on. A pull that is sent again takes the place of the one that
 * waits. */
static void slow_lane_is_answered(uint64_t waiting_max)
{
    struct rig r = {.waiting_max = waiting_max};
    rig_new(&r, WIRE_SSP, 2, OPT_SGD);
    for (peer_t worker = 1; worker <= 2; worker++) {
        pulls_that_wait(&r, worker, LIMIT_WAITING + 100, 100);
        const uint32_t waiting = r.shard->clock.waiting;
        ck_assert_uint_gt(waiting, 0);
        pulls_that_wait(&r, worker, 100, 100);
        ck_assert_uint_eq(r.shard->clock.waiting, waiting);
    }
    uint64_t slow = rig_pull(&r, 1, 1, 0, rig_key(3, 0));
    rig_run(&r, 5);
    ck_assert_int_eq(rig_status(&r, slow), 0);
    shard_handler.on_peer_gone(r.shard, 1);
    shard_handler.on_peer_gone(r.shard, 2);
    ck_assert_uint_eq(r.shard->clock.bytes, 0);
    rig_free(&r);
}

START_TEST(pulls_that_wait_leave_room_for_the_lane_they_wait_for)
{
    slow_lane_is_answered(0);
    slow_lane_is_answered(64u << 10);
}
END_TEST

/* They would wait for a clock that never comes. */
START_TEST(far_pulls_are_refused)
{
    struct rig r = {0};
    rig_new(&r, WIRE_BSP, 2, OPT_SGD);
    uint64_t near = rig_pull(&r, 0, 4096, 0, rig_key(3, 0)),
             far = rig_pull(&r, 0, 4097, 0, rig_key(3, 1)),
             never = rig_pull(&r, 0, 1ull << 60, 0, rig_key(3, 2));
    rig_run(&r, 5);
    ck_assert_int_eq(rig_status(&r, near), RIG_WAITING);
    ck_assert_int_eq(rig_status(&r, far), SHOAL_E_MALFORMED);
    ck_assert_int_eq(rig_status(&r, never), SHOAL_E_MALFORMED);
    rig_free(&r);
}
END_TEST

/* Their sender has left without a message, which no socket reports. A repeated pull keeps
 * waiting. */
START_TEST(pulls_of_nobody_are_let_go)
{
    struct rig r = {0};
    rig_new(&r, WIRE_SSP, 2, OPT_SGD);
    rig_pull(&r, 0, 100, 0, rig_key(3, 0));
    uint64_t kept = 0;
    for (uint32_t i = 0; i < 40; i++) {
        kept = rig_pull(&r, 0, 100, 0, rig_key(3, 1));
        rig_run(&r, 10000);
    }
    ck_assert_uint_eq(request_pool_used(&r.shard->pool), 1);
    ck_assert_int_eq(rig_status(&r, kept), RIG_WAITING);
    rig_free(&r);
}
END_TEST

static struct msg *big_message(uint64_t batch, uint32_t count)
{
    struct wire w = {.type = batch > 0 ? WIRE_TYPE_PUSH : WIRE_TYPE_PULL, .id = 1000};
    if (batch > 0)
        w.u.PUSH = (struct wire_PUSH){.run = RIG_RUN,
                                      .generation = 1,
                                      .from = batch - 1,
                                      .to = batch,
                                      .tablet_count = 16,
                                      .lr_scale = 1};
    else
        w.u.PULL = (struct wire_PULL){.run = RIG_RUN, .lane = EVAL};
    *(batch > 0 ? &w.u.PUSH.key_count : &w.u.PULL.key_count) = count;
    struct msg *m = wire_encode(&w);
    uint64_t *keys = msg_add(m, count * sizeof *keys);
    for (uint32_t i = 0; i < count; i++)
        keys[i] = i + 1;
    if (batch > 0) {
        memset(msg_add(m, count * 2 * sizeof(float)), 0, count * 2 * sizeof(float));
        (void)msg_add(m, 0);
    }
    return m;
}

/* A pull does not wait for all pushes that have arrived: a group with many keys is applied at
 * once. */
START_TEST(a_group_is_settled_when_it_has_many_keys)
{
    struct rig r = {0};
    rig_new(&r, WIRE_ASYNC, 1, OPT_SGD);
    shard_handler.on_message(r.shard, 1, big_message(1, 8000));
    /* it waits for others to share the journal's write with */
    ck_assert_uint_eq(r.shard->counts.pushes, 0);
    shard_handler.on_message(r.shard, 1, big_message(0, 8000));
    shard_handler.on_message(r.shard, 1, big_message(2, 192));
    ck_assert_uint_eq(r.shard->counts.pushes, 2);
    ck_assert_uint_eq(r.shard->counts.pulls, 1);
    shard_handler.on_message(r.shard, 1, big_message(3, 8000));
    ck_assert_uint_eq(r.shard->counts.pushes, 2);
    shard_handler.on_drained(r.shard);
    ck_assert_uint_eq(r.shard->counts.pushes, 3);
    rig_free(&r);
}
END_TEST

/* Two lanes over a network that loses, doubles and reorders: every push is applied once, and all
 * memory of the messages' pool is released. */
START_TEST(lossy_network_applies_each_push_once)
{
    for (uint64_t seed = 1; seed <= 10; seed++) {
        struct rig r = {0};
        rig_new(&r, WIRE_ASYNC, 2, OPT_SGD);
        sim_faults(r.sim, 0.3, 0.3);
        uint64_t done[2] = {0, 0}, id[2][51] = {{0}}, key = rig_key(3, 0);
        for (int round = 0; round < 5000 && (done[0] < 50 || done[1] < 50); round++) {
            for (uint32_t lane = 0; lane < 2; lane++) {
                for (uint64_t to = done[lane] + 1; to <= 50 && to <= done[lane] + 4; to++) {
                    struct rig_push_args p = {
                        .lane = lane, .from = to - 1, .to = to, .key = key, .gradient = (float)to};
                    p.id = id[lane][to];
                    uint64_t sent = rig_push(&r, p);
                    r.next_id -= p.id != 0;
                    id[lane][to] = sent;
                }
            }
            rig_run(&r, 3);
            for (uint32_t lane = 0; lane < 2; lane++)
                while (done[lane] < 50 && rig_status(&r, id[lane][done[lane] + 1]) == 0)
                    done[lane]++;
        }
        ck_assert_uint_eq(done[0] + done[1], 100);
        sim_faults(r.sim, 0, 0);
        uint64_t pull = rig_pull(&r, EVAL, 0, 0, key);
        rig_run(&r, 20);
        ck_assert_msg(rig_value(&r, pull) == -2 * 1275, "seed %d: %g", (int)seed,
                      (double)rig_value(&r, pull));
        rig_free(&r);
    }
}
END_TEST

static int mixed_order(const void *a, const void *b)
{
    uint64_t x = key_mix(*(const uint64_t *)a), y = key_mix(*(const uint64_t *)b);
    return x < y ? -1 : x > y;
}

/* The worst that a peer with a connection can do: a push with as many keys of one bucket as
 * possible, then the same keys in a pull; and once more after a kill, from the journal. */
START_TEST(crafted_keys_are_found_as_fast_as_others)
{
    enum { KEYS = 65000 };
    static uint64_t keys[KEYS];
    static float g[2 * KEYS];
    char dir[LIMIT_PATH];
    struct rig r = {.dir = rig_dir(dir), .durability = DURABLE_JOURNAL, .journal_max = 64u << 20};
    rig_new(&r, WIRE_ASYNC, 1, OPT_SGD);
    for (uint64_t i = 0; i < KEYS; i++) {
        keys[i] = crafted_key(i);
        g[2 * i] = g[2 * i + 1] = -(float)i;
    }
    struct wire w = rig_wire(&r, WIRE_TYPE_PUSH);
    w.u.PUSH = (struct wire_PUSH){.run = RIG_RUN,
                                  .generation = 1,
                                  .to = 1,
                                  .tablet_count = 1u << RIG_BITS,
                                  .lr_scale = 1,
                                  .key_count = KEYS,
                                  .map_epoch = 1};
    uint64_t push = rig_send(&r, &w, 2, keys, sizeof keys, g, sizeof g);
    rig_run(&r, 1000);
    ck_assert_int_eq(rig_status(&r, push), 0);
    for (int life = 0; life < 2; life++) {
        uint64_t looked = 0;
        w = rig_wire(&r, WIRE_TYPE_PULL);
        w.u.PULL =
            (struct wire_PULL){.run = RIG_RUN, .lane = EVAL, .key_count = KEYS, .map_epoch = 1};
        uint64_t pull = rig_send(&r, &w, 1, keys, sizeof keys, NULL, 0);
        rig_run(&r, 1000);
        ck_assert_int_eq(rig_status(&r, pull), 0);
        const float *row = r.answer[pull].m->frame[1].data;
        const struct tablet *t = &engine_table(r.shard->engine, 0)->tablets[0];
        for (uint64_t i = 0; i < KEYS; i++) {
            ck_assert(row[2 * i] == (float)i && row[2 * i + 1] == (float)i);
            uint32_t one = crafted_looked(t, RIG_BITS, keys[i]);
            ck_assert_uint_le(one, 192);
            looked += one;
        }
        ck_assert_uint_lt(looked, 3 * KEYS); /* 422 million in one chain */
        if (life == 0)
            rig_restart(&r, false);
    }
    rig_free(&r);
    rig_remove_dir(dir);
}
END_TEST

START_TEST(full_journal_makes_pushes_wait_not_fail)
{
    enum { PUSHES = 60, PUSH_KEYS = 8000 };
    static uint64_t keys[PUSH_KEYS], id[PUSHES];
    static float g[2 * PUSH_KEYS];
    char dir[LIMIT_PATH];
    struct rig r = {.dir = rig_dir(dir),
                    .durability = DURABLE_JOURNAL,
                    .journal_max = 3u << 20,
                    .work_ns = 200 * MS};
    rig_new(&r, WIRE_ASYNC, 1, OPT_SGD);
    rig_run(&r, 2000);
    for (uint64_t i = 0; i < PUSH_KEYS; i++)
        keys[i] = i + 1;
    qsort(keys, PUSH_KEYS, sizeof keys[0], mixed_order);
    for (int i = 0; i < 2 * PUSH_KEYS; i++)
        g[i] = 1;
    for (uint64_t i = 0; i < PUSHES; i++) { /* 128 KB each: 2.5 times the journal */
        struct wire w = rig_wire(&r, WIRE_TYPE_PUSH);
        w.u.PUSH = (struct wire_PUSH){.run = RIG_RUN,
                                      .generation = 1,
                                      .from = i,
                                      .to = i + 1,
                                      .tablet_count = 1u << RIG_BITS,
                                      .lr_scale = 1,
                                      .key_count = PUSH_KEYS,
                                      .map_epoch = 1};
        id[i] = rig_send(&r, &w, 2, keys, sizeof keys, g, sizeof g);
    }
    rig_run(&r, 100);
    ck_assert_int_eq(rig_status(&r, id[PUSHES - 1]), RIG_WAITING);
    rig_run(&r, 60000);
    for (int i = 0; i < PUSHES; i++)
        ck_assert_int_eq(rig_status(&r, id[i]), 0);
    uint64_t pull = rig_pull(&r, EVAL, 0, 0, keys[0]);
    rig_run(&r, 50);
    ck_assert(rig_value(&r, pull) == -(float)PUSHES);
    rig_free(&r);
    rig_remove_dir(dir);
}
END_TEST

START_TEST(fsync_answers_nothing_before_the_sync)
{
    char dir[LIMIT_PATH];
    struct rig r = {.dir = rig_dir(dir), .durability = DURABLE_FSYNC, .work_ns = 300 * MS};
    rig_new(&r, WIRE_ASYNC, 1, OPT_SGD);
    rig_run(&r, 2000);
    struct rig_push_args p = {.from = 0, .to = 1, .key = rig_key(3, 0), .gradient = 2};
    uint64_t first = rig_push(&r, p);
    rig_run(&r, 5);
    uint64_t again = rig_push(&r, p);
    uint64_t gap =
        rig_push(&r, (struct rig_push_args){.from = 2, .to = 3, .key = p.key, .gradient = 2});
    uint64_t nan =
        rig_push(&r, (struct rig_push_args){.from = 1, .to = 2, .key = p.key, .gradient = NAN});
    uint64_t pull = rig_pull(&r, EVAL, 0, 0, p.key);
    rig_run(&r, 50);
    ck_assert(rig_value(&r, pull) == -2);
    ck_assert_int_eq(rig_status(&r, nan), SHOAL_E_NOT_FINITE);
    ck_assert_int_eq(rig_status(&r, first), RIG_WAITING);
    /* "skipped" promises as much as "applied" */
    ck_assert_int_eq(rig_status(&r, again), RIG_WAITING);
    ck_assert_int_eq(rig_status(&r, gap), RIG_WAITING);
    rig_run(&r, 1000);
    ck_assert_int_eq(rig_status(&r, first), 0);
    ck_assert_uint_eq(rig_reply(&r, again)->u.PUSH_reply.skipped, 16);
    ck_assert_int_eq(rig_status(&r, gap), SHOAL_E_GAP);
    rig_restart(&r, false);
    again = rig_push(&r, p);
    rig_run(&r, 50);
    /* recovered records count as synced */
    ck_assert_uint_eq(rig_reply(&r, again)->u.PUSH_reply.skipped, 16);
    rig_free(&r);
    rig_remove_dir(dir);
}
END_TEST

/* Digests end a job: whatever the durability, the counted rows are on disk by then. */
START_TEST(digest_comes_once_it_is_on_disk)
{
    char dir[LIMIT_PATH];
    struct rig r = {.dir = rig_dir(dir), .durability = DURABLE_JOURNAL, .work_ns = 300 * MS};
    rig_new(&r, WIRE_ASYNC, 1, OPT_SGD);
    rig_run(&r, 2000);
    uint64_t push = rig_push(
        &r, (struct rig_push_args){.from = 0, .to = 1, .key = rig_key(3, 0), .gradient = 2});
    uint64_t digest = rig_simple(&r, WIRE_TYPE_DIGEST);
    rig_run(&r, 200);
    ck_assert_int_eq(rig_status(&r, push), 0);
    ck_assert_int_eq(rig_status(&r, digest), RIG_WAITING);
    rig_run(&r, 500);
    ck_assert_int_eq(rig_status(&r, digest), 0);
    ck_assert_uint_eq(rig_reply(&r, digest)->u.DIGEST_reply.rows, 1);
    ck_assert_uint_gt(rig_reply(&r, digest)->u.DIGEST_reply.synced, 0);
    rig_free(&r);
    rig_remove_dir(dir);
}
END_TEST

/* durability journal: acknowledged pushes are synced soon, even if no other message comes. */
START_TEST(idle_journal_is_synced)
{
    char dir[LIMIT_PATH];
    struct rig r = {.dir = rig_dir(dir), .durability = DURABLE_JOURNAL};
    rig_new(&r, WIRE_ASYNC, 1, OPT_SGD);
    rig_run(&r, 1000);
    uint64_t push = rig_push(
        &r, (struct rig_push_args){.from = 0, .to = 1, .key = rig_key(3, 0), .gradient = 2});
    rig_run(&r, 20);
    ck_assert_int_eq(rig_status(&r, push), 0);
    ck_assert(engine_unsynced(r.shard->engine));
    rig_run(&r, 120);
    ck_assert(!engine_unsynced(r.shard->engine));
    rig_free(&r);
    rig_remove_dir(dir);
}
END_TEST

/* A long sync covers the records from before its begin: the next sync comes by itself. */
START_TEST(what_comes_within_a_sync_is_synced_by_the_next)
{
    char dir[LIMIT_PATH];
    struct rig r = {.dir = rig_dir(dir), .durability = DURABLE_JOURNAL, .work_ns = 300 * MS};
    rig_new(&r, WIRE_ASYNC, 1, OPT_SGD);
    rig_run(&r, 5000);
    ck_assert(!engine_unsynced(r.shard->engine));
    rig_push(&r, (struct rig_push_args){.to = 1, .key = rig_key(3, 0), .gradient = 2});
    rig_run(&r, 150);
    ck_assert(r.shard->engine->syncing);
    uint64_t push = rig_push(
        &r, (struct rig_push_args){.from = 1, .to = 2, .key = rig_key(3, 0), .gradient = 2});
    rig_run(&r, 20);
    ck_assert_int_eq(rig_status(&r, push), 0);
    rig_run(&r, 2000);
    ck_assert(!engine_unsynced(r.shard->engine));
    rig_free(&r);
    rig_remove_dir(dir);
}
END_TEST

/* The coordinator takes the disk for one that hangs by this figure. It counts from the first beat
 * that sees the sync. */
START_TEST(a_beat_tells_for_how_long_a_sync_hangs)
{
    char dir[LIMIT_PATH];
    struct rig r = {.dir = rig_dir(dir), .durability = DURABLE_JOURNAL, .work_ns = 6000 * MS};
    rig_new(&r, WIRE_ASYNC, 1, OPT_SGD);
    rig_run(&r, 60000);
    ck_assert(!engine_unsynced(r.shard->engine));
    ck_assert_uint_eq(r.beat.sync_ms, 0);
    rig_push(&r, (struct rig_push_args){.to = 1, .key = rig_key(3, 0), .gradient = 2});
    rig_run(&r, 150);
    ck_assert(r.shard->engine->syncing);
    rig_run(&r, 5000);
    ck_assert(r.shard->engine->syncing);
    ck_assert_msg(r.beat.sync_ms >= 3000 && r.beat.sync_ms <= 5150, "%u ms", r.beat.sync_ms);
    rig_run(&r, 3000);
    ck_assert(!r.shard->engine->syncing);
    ck_assert_uint_eq(r.beat.sync_ms, 0);
    rig_free(&r);
    rig_remove_dir(dir);
}
END_TEST

START_TEST(acknowledged_push_survives_a_kill_and_is_not_repeated)
{
    char dir[LIMIT_PATH];
    struct rig r = {.dir = rig_dir(dir), .durability = DURABLE_JOURNAL};
    rig_new(&r, WIRE_ASYNC, 1, OPT_SGD);
    struct rig_push_args p = {.key = rig_key(3, 0), .gradient = 1};
    for (p.to = 1; p.to <= 20; p.from = p.to++) {
        uint64_t id = rig_push(&r, p);
        rig_run(&r, 5);
        ck_assert_int_eq(rig_status(&r, id), 0);
        if (p.to % 5 == 0) {
            rig_restart(&r, p.to == 10);
            uint64_t again = rig_push(&r, p), pull = rig_pull(&r, EVAL, 0, 0, p.key);
            rig_run(&r, 5);
            ck_assert_uint_eq(rig_reply(&r, again)->u.PUSH_reply.skipped, 16);
            ck_assert(rig_value(&r, pull) == -(float)p.to);
        }
    }
    rig_free(&r);
    rig_remove_dir(dir);
}
END_TEST

/* Rows are recovered after a start: readers wait for theirs, and all other requests get AGAIN. */
START_TEST(while_rows_come_back_readers_are_answered)
{
    char dir[LIMIT_PATH];
    struct rig r = {.dir = rig_dir(dir), .durability = DURABLE_JOURNAL};
    rig_new(&r, WIRE_ASYNC, 1, OPT_SGD);
    struct rig_push_args p = {.key = rig_key(3, 0), .gradient = 1, .to = 1};
    rig_push(&r, p);
    rig_run(&r, 5);
    r.stalled = true;
    r.beats = r.ready_beats = 0;
    rig_restart(&r, true);
    ck_assert_uint_gt(r.beats, 0);
    ck_assert_uint_eq(r.ready_beats, 0);
    p.from = p.to++;
    uint64_t pull = rig_pull(&r, EVAL, 0, 0, p.key), of_lane = rig_pull(&r, 0, 2, 0, p.key),
             push = rig_push(&r, p);
    uint64_t fence = rig_fence(&r, 0, 2, true), digest = rig_simple(&r, WIRE_TYPE_DIGEST);
    rig_run(&r, 5);
    ck_assert_int_eq(rig_status(&r, pull), RIG_WAITING);
    ck_assert_int_eq(rig_status(&r, of_lane), SHOAL_E_AGAIN);
    ck_assert_int_eq(rig_status(&r, push), SHOAL_E_AGAIN);
    ck_assert_int_eq(rig_status(&r, fence), SHOAL_E_AGAIN);
    ck_assert_int_eq(rig_status(&r, digest), SHOAL_E_AGAIN);
    struct wire w = rig_wire(&r, WIRE_TYPE_INSPECT);
    w.u.INSPECT.key = rig_key(9, 0);
    uint64_t inspect = rig_send(&r, &w, 0, NULL, 0, NULL, 0);
    rig_run(&r, 5);
    ck_assert_int_eq(rig_status(&r, inspect), 0);
    r.shard->engine->reload_rows = 1;
    env_timer_start(sim_node_env(r.shard_node), &r.shard->engine->reload_timer, 0);
    rig_run(&r, 5);
    ck_assert(rig_value(&r, pull) == -1);
    ck_assert_uint_eq(r.ready_beats, 1); /* at once */
    rig_fences(&r, RIG_RUN, NULL, 0);
    push = rig_push(&r, p);
    rig_run(&r, 5);
    ck_assert_int_eq(rig_status(&r, push), 0);
    rig_free(&r);
    rig_remove_dir(dir);
}
END_TEST

/* ---- no allocation on the warm path: a shard on an env that does nothing ---- */

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* they have their own malloc */
static uint64_t malloc_calls;
extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t count, size_t bytes);
extern void *__libc_realloc(void *p, size_t bytes);
void *malloc(size_t bytes)
{
    malloc_calls++;
    return __libc_malloc(bytes);
}
void *calloc(size_t count, size_t bytes)
{
    malloc_calls++;
    return __libc_calloc(count, bytes);
}
void *realloc(void *p, size_t bytes)
{
    malloc_calls++;
    return __libc_realloc(p, bytes);
}

START_TEST(warm_pulls_and_pushes_allocate_nothing)
{
    struct rig r = {0};
    rig_new(&r, WIRE_ASYNC, 1, OPT_SGD);
    uint64_t keys[2] = {rig_key(3, 0), rig_key(4, 0)}, calls = 0;
    float gradients[4] = {1, 1, 1, 1};
    const uint8_t second = 1u << 1; /* the row of this key goes back with the push */
    for (uint64_t to = 1; to <= 10000; to++) {
        static struct wire w;
        w.type = WIRE_TYPE_PUSH;
        w.u.PUSH = (struct wire_PUSH){.run = RIG_RUN,
                                      .generation = 1,
                                      .from = to - 1,
                                      .to = to,
                                      .tablet_count = 16,
                                      .lr_scale = 1,
                                      .clock = to,
                                      .echo = 1};
        w.u.PUSH.key_count = 2;
        struct msg *m = rig_push_message(&w, keys, gradients, &second, 1);
        shard_handler.on_message(r.shard, 999999, m); /* replies are dropped */
        w.type = WIRE_TYPE_PULL;
        w.u.PULL = (struct wire_PULL){.run = RIG_RUN, .lane = 0, .batch = to + 1, .key_count = 2};
        m = wire_encode(&w);
        memcpy(msg_add(m, sizeof keys), keys, sizeof keys);
        shard_handler.on_message(r.shard, 999999, m);
        shard_handler.on_drained(r.shard);
        if (to == 100)
            calls = malloc_calls;
    }
    ck_assert_uint_eq(malloc_calls, calls);
    ck_assert_uint_eq(r.shard->counts.pushes, 10000);
    ck_assert_uint_eq(r.shard->counts.pulls, 10000);
    ck_assert_uint_eq(r.shard->counts.keys_echoed, 10000);
    rig_free(&r);
}
END_TEST
#endif

int main(void)
{
    const TTest *const tests[] = {
        push_is_seen_by_the_pull_behind_it,
        rows_travel_as_the_puller_takes_them,
        push_sent_again_is_skipped,
        push_past_a_gap_is_refused_with_the_mark,
        wrong_pushes_are_refused_each_with_its_reason,
        a_push_with_values_of_a_later_release_is_refused,
        packed_pushes_are_applied,
        fence_shuts_out_the_older_generation,
        push_after_a_return_waits_for_the_fences,
        each_run_waits_for_its_own_fences,
        fence_tells_the_newest_clock,
        shard_without_a_map_says_again,
        tablets_not_led_are_refused,
        table_of_another_run_is_refused,
        the_ends_of_what_is_led_are_exact,
        a_hole_in_what_is_led_is_exact,
        who_speaks_lawfully_is_known,
        readers_see_no_row_where_none_is,
        what_comes_within_a_sync_is_synced_by_the_next,
        a_beat_tells_for_how_long_a_sync_hangs,
        control_messages_may_come_twice,
        hold_queues_pushes_until_its_time_is_up,
        cut_is_restored_once_in_memory,
        cut_is_restored_once_on_disk,
        another_jobs_hold_is_waited_for,
        another_jobs_cuts_and_runs_stay,
        a_cut_of_no_run_is_of_its_tables,
        cuts_that_nobody_knows_are_deleted,
        runs_that_nobody_has_any_more_are_dropped,
        digest_tells_equal_content_from_other_content,
        inspect_and_status_are_json,
        strangers_give_no_orders,
        hostile_messages_cost_nobody_else_anything,
        waiting_requests_are_bounded,
        pulls_that_wait_leave_room_for_the_lane_they_wait_for,
        far_pulls_are_refused,
        pulls_of_nobody_are_let_go,
        a_group_is_settled_when_it_has_many_keys,
        lossy_network_applies_each_push_once,
        crafted_keys_are_found_as_fast_as_others,
        full_journal_makes_pushes_wait_not_fail,
        fsync_answers_nothing_before_the_sync,
        digest_comes_once_it_is_on_disk,
        idle_journal_is_synced,
        acknowledged_push_survives_a_kill_and_is_not_repeated,
        while_rows_come_back_readers_are_answered,
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* they have their own malloc */
        warm_pulls_and_pushes_allocate_nothing,
#endif
    };
    return rig_main("shard", tests, sizeof tests / sizeof tests[0]);
}
