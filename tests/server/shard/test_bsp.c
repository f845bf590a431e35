/* test_bsp.c: a clock is applied whole, in lane order, even if its pushes come in another order,
 * twice or late. */
#include "tests/server/shard_rig.h"

#include "proto/base/rng.h"

#include <math.h>

#define EVAL UINT32_MAX
#define LANES 3u

static struct rig_push_args part(uint32_t lane, uint64_t to, float gradient)
{
    return (struct rig_push_args){
        .lane = lane, .from = to - 1, .to = to, .key = rig_key(3, 0), .gradient = gradient};
}

START_TEST(pushes_are_held_until_all_lanes_are_there)
{
    struct rig r = {0};
    rig_new(&r, WIRE_BSP, LANES, OPT_SGD);
    uint64_t id[LANES];
    for (uint32_t lane = 0; lane < LANES; lane++) {
        uint64_t before = rig_pull(&r, EVAL, 0, 0, rig_key(3, 0));
        rig_run(&r, 5);
        ck_assert(rig_value(&r, before) == 0);
        id[lane] = rig_push(&r, part(lane, 1, 1));
        rig_run(&r, 5);
        if (lane + 1 < LANES)
            ck_assert_int_eq(rig_status(&r, id[lane]), RIG_WAITING);
    }
    for (uint32_t lane = 0; lane < LANES; lane++)
        ck_assert_int_eq(rig_status(&r, id[lane]), 0);
    uint64_t after = rig_pull(&r, EVAL, 0, 0, rig_key(3, 0));
    rig_run(&r, 5);
    ck_assert(rig_value(&r, after) == -3);
    rig_free(&r);
}
END_TEST

/* Returns the digest of row 3 after four clocks of three lanes, whose pushes arrive in an order
 * drawn from the seed, some of them twice. */
static uint64_t digest_of(uint64_t seed)
{
    struct rig r = {0};
    struct rng rng = {seed};
    uint64_t digest;
    rig_new(&r, WIRE_BSP, LANES, OPT_ADAGRAD);
    for (uint64_t clock = 1; clock <= 4; clock++) {
        uint32_t order[LANES] = {0, 1, 2};
        for (uint32_t i = LANES; i > 1; i--) {
            uint32_t k = (uint32_t)rng_below(&rng, i), t = order[i - 1];
            order[i - 1] = order[k];
            order[k] = t;
        }
        for (uint32_t i = 0; i < LANES; i++)
            for (uint64_t times = 1 + rng_below(&rng, 2); times > 0; times--) {
                rig_push(&r, part(order[i], clock, 0.1f * (float)(order[i] + 1) / (float)clock));
                rig_run(&r, 1 + rng_below(&rng, 3));
            }
        rig_run(&r, 5);
    }
    uint64_t id = rig_simple(&r, WIRE_TYPE_DIGEST);
    rig_run(&r, 20);
    ck_assert_int_eq(rig_status(&r, id), 0);
    digest = ((const uint64_t *)r.answer[id].m->frame[1].data)[3];
    rig_free(&r);
    return digest;
}

/* Returns the digest after the same gradients in lane order, without bsp. */
static uint64_t digest_in_lane_order(void)
{
    struct rig r = {0};
    rig_new(&r, WIRE_ASYNC, LANES, OPT_ADAGRAD);
    for (uint64_t clock = 1; clock <= 4; clock++)
        for (uint32_t lane = 0; lane < LANES; lane++) {
            rig_push(&r, part(lane, clock, 0.1f * (float)(lane + 1) / (float)clock));
            rig_run(&r, 5);
        }
    uint64_t id = rig_simple(&r, WIRE_TYPE_DIGEST);
    rig_run(&r, 20);
    ck_assert_int_eq(rig_status(&r, id), 0);
    uint64_t digest = ((const uint64_t *)r.answer[id].m->frame[1].data)[3];
    rig_free(&r);
    return digest;
}

START_TEST(arrival_order_does_not_change_a_bit)
{
    uint64_t first = digest_of(1);
    ck_assert_uint_ne(first, 0);
    for (uint64_t seed = 2; seed <= 8; seed++)
        ck_assert_uint_eq(digest_of(seed), first);
    ck_assert_uint_eq(digest_in_lane_order(), first);
}
END_TEST

START_TEST(second_push_of_a_held_batch_replaces_the_first)
{
    struct rig r = {0};
    rig_new(&r, WIRE_BSP, 2, OPT_SGD);
    uint64_t first = rig_push(&r, part(0, 1, 1));
    rig_run(&r, 5);
    uint64_t second = rig_push(&r, part(0, 1, 1)), last = rig_push(&r, part(1, 1, 1));
    rig_run(&r, 5);
    ck_assert_int_eq(rig_status(&r, first), RIG_WAITING);
    ck_assert_int_eq(rig_status(&r, second), 0);
    ck_assert_int_eq(rig_status(&r, last), 0);
    uint64_t late = rig_push(&r, part(0, 1, 1)), gap = rig_push(&r, part(0, 3, 1));
    uint64_t pull = rig_pull(&r, EVAL, 0, 0, rig_key(3, 0));
    rig_run(&r, 5);
    ck_assert_uint_eq(rig_reply(&r, late)->u.PUSH_reply.skipped, 16);
    ck_assert_int_eq(rig_status(&r, gap), SHOAL_E_GAP);
    ck_assert_uint_eq(rig_reply(&r, gap)->u.PUSH_reply.mark, 1);
    ck_assert(rig_value(&r, pull) == -2);
    rig_free(&r);
}
END_TEST

/* Pushes batch 1 of lane 0, of two keys. */
static uint64_t keys_push(struct rig *r, uint64_t a, uint64_t b)
{
    const uint64_t key[2] = {a, b};
    const float g[4] = {1, 1, 1, 1};
    struct wire w = rig_wire(r, WIRE_TYPE_PUSH);
    w.u.PUSH = (struct wire_PUSH){.run = RIG_RUN,
                                  .generation = 1,
                                  .to = 1,
                                  .tablet_count = 1u << RIG_BITS,
                                  .lr_scale = 1,
                                  .key_count = 2,
                                  .map_epoch = 1};
    return rig_send(r, &w, 2, key, sizeof key, g, sizeof g);
}

START_TEST(wrong_push_is_refused_before_it_is_held)
{
    struct rig r = {0};
    rig_new(&r, WIRE_BSP, 2, OPT_SGD);
    uint64_t nan = rig_push(&r, part(0, 1, NAN));
    struct rig_push_args p = part(0, 1, 1);
    p.first = 8;
    p.count = 8;
    uint64_t outside = rig_push(&r, p);
    p = part(0, 1, 1);
    p.generation = 2;
    uint64_t generation = rig_push(&r, p);
    p = part(0, 1, 1);
    p.count = 3; /* its key is in tablet 3 */
    uint64_t behind = rig_push(&r, p);
    uint64_t lane = rig_push(&r, part(2, 1, 1));
    uint64_t twice = keys_push(&r, rig_key(3, 1), rig_key(3, 1));
    rig_run(&r, 5);
    ck_assert_int_eq(rig_status(&r, nan), SHOAL_E_NOT_FINITE);
    ck_assert_int_eq(rig_status(&r, outside), SHOAL_E_MALFORMED);
    ck_assert_int_eq(rig_status(&r, generation), SHOAL_E_FENCED);
    ck_assert_int_eq(rig_status(&r, behind), SHOAL_E_MALFORMED);
    ck_assert_int_eq(rig_status(&r, lane), SHOAL_E_MALFORMED);
    ck_assert_int_eq(rig_status(&r, twice), SHOAL_E_MALFORMED);
    ck_assert_uint_eq(bsp_held(&r.shard->bsp), 0);
    rig_free(&r);
}
END_TEST

/* No journal segment could take the push: once held, it would stop its clock for ever. */
START_TEST(push_that_no_segment_takes_is_refused_before_it_is_held)
{
    enum { KEYS = LIMIT_KEYS }; /* with their gradients 1 MiB, the size of a segment */
    static uint64_t keys[KEYS];
    static float gradients[2 * KEYS];
    char dir[] = "/tmp/shoal-test-XXXXXX", command[64];
    ck_assert_ptr_nonnull(mkdtemp(dir));
    struct rig r = {.dir = dir, .durability = DURABLE_JOURNAL};
    rig_new(&r, WIRE_BSP, 2, OPT_SGD);
    for (uint32_t i = 0; i < KEYS; i++)
        keys[i] = rig_key(3, i);
    struct wire w = rig_wire(&r, WIRE_TYPE_PUSH);
    w.u.PUSH = (struct wire_PUSH){.run = RIG_RUN,
                                  .generation = 1,
                                  .to = 1,
                                  .tablet_count = 1u << RIG_BITS,
                                  .lr_scale = 1,
                                  .key_count = KEYS,
                                  .map_epoch = 1};
    uint64_t big = rig_send(&r, &w, 2, keys, sizeof keys, gradients, sizeof gradients);
    rig_run(&r, 20);
    ck_assert_int_eq(rig_status(&r, big), SHOAL_E_TOO_BIG);
    ck_assert_ptr_nonnull(strstr(rig_reply(&r, big)->error, "journal segment"));
    ck_assert_uint_eq(bsp_held(&r.shard->bsp), 0);
    rig_free(&r);
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    ck_assert_int_eq(system(command), 0);
}
END_TEST

/* Only the parts of one batch are held for a lane. */
START_TEST(older_batch_that_is_held_makes_way)
{
    struct rig r = {0};
    rig_new(&r, WIRE_BSP, 2, OPT_SGD);
    struct rig_push_args p = part(0, 1, 1);
    p.count = 8;
    rig_push(&r, p);
    p = (struct rig_push_args){.to = 2, .first = 8, .count = 8, .key = rig_key(9, 0)};
    rig_push(&r, p);
    rig_run(&r, 5);
    ck_assert_uint_eq(bsp_held(&r.shard->bsp), 1);
    rig_free(&r);
}
END_TEST

/* Maps the tablets of table 0 except `hole`. */
static void map_with_hole(struct rig *r, uint64_t epoch, uint32_t hole)
{
    uint16_t shard_of[2u << RIG_BITS] = {0};
    shard_of[hole] = 1;
    struct wire w = rig_wire(r, WIRE_TYPE_MAP_SET);
    w.u.MAP_SET = (struct wire_MAP_SET){
        .map_epoch = epoch, .tablet_count = 2u << RIG_BITS, .cluster_high = RIG_CLUSTER};
    rig_send(r, &w, 1, shard_of, sizeof shard_of, NULL, 0);
    rig_run(r, 5);
}

/* The first tablet, the last one and the number of tablets are the same in both maps. */
START_TEST(hole_that_moves_lets_no_held_push_stay)
{
    struct rig r = {0};
    rig_new(&r, WIRE_BSP, 2, OPT_SGD);
    map_with_hole(&r, 2, 9);
    struct rig_push_args low = part(0, 1, 1);
    low.count = 8;
    uint64_t held = rig_push(&r, low);
    rig_run(&r, 5);
    ck_assert_int_eq(rig_status(&r, held), RIG_WAITING);
    map_with_hole(&r, 3, 9); /* another epoch, and no other change */
    ck_assert_int_eq(rig_status(&r, held), RIG_WAITING);
    map_with_hole(&r, 4, 3);
    ck_assert_int_eq(rig_status(&r, held), SHOAL_E_AGAIN);
    ck_assert_uint_eq(bsp_held(&r.shard->bsp), 0);
    rig_free(&r);
}
END_TEST

/* The first half of batch 1 was applied and answered while the shard led only that half; the second
 * half completes the batch. */
START_TEST(parts_applied_before_count)
{
    struct rig r = {0};
    rig_new(&r, WIRE_BSP, 2, OPT_SGD);
    struct rig_push_args low = {
        .lane = 0, .to = 1, .first = 0, .count = 8, .key = rig_key(3, 0), .gradient = 1};
    struct rig_push_args high = {
        .lane = 0, .to = 1, .first = 8, .count = 8, .key = rig_key(9, 0), .gradient = 1};
    rig_map(&r, 2, 8);
    uint64_t first = rig_push(&r, low);
    low.lane = 1;
    uint64_t second = rig_push(&r, low);
    rig_run(&r, 5);
    ck_assert_int_eq(rig_status(&r, first), 0);
    ck_assert_int_eq(rig_status(&r, second), 0);
    rig_map(&r, 3, 1000);
    uint64_t third = rig_push(&r, high);
    rig_run(&r, 5);
    ck_assert_int_eq(rig_status(&r, third), RIG_WAITING);
    high.lane = 1;
    uint64_t fourth = rig_push(&r, high);
    rig_run(&r, 5);
    ck_assert_int_eq(rig_status(&r, third), 0);
    ck_assert_int_eq(rig_status(&r, fourth), 0);
    rig_free(&r);
}
END_TEST

/* The parts come in either order; parts that touch stay two. */
static void two_parts(uint32_t first, uint32_t count)
{
    struct rig r = {0};
    rig_new(&r, WIRE_BSP, 2, OPT_SGD);
    struct rig_push_args one = part(0, 1, 1), two = part(0, 1, 1);
    one.first = first;
    one.count = count;
    one.key = rig_key(first, 0);
    two.first = first == 0 ? count : 0;
    two.count = 16 - count;
    two.key = rig_key(two.first, 0);
    uint64_t a = rig_push(&r, one), b = rig_push(&r, part(1, 1, 1));
    rig_run(&r, 5);
    ck_assert_int_eq(rig_status(&r, a), RIG_WAITING);
    ck_assert_int_eq(rig_status(&r, b), RIG_WAITING);
    uint64_t c = rig_push(&r, two);
    rig_run(&r, 5);
    ck_assert_int_eq(rig_status(&r, a), 0);
    ck_assert_int_eq(rig_status(&r, b), 0);
    ck_assert_int_eq(rig_status(&r, c), 0);
    rig_free(&r);
}

START_TEST(batch_in_several_parts_counts_when_all_are_there)
{
    two_parts(0, 8);
    two_parts(8, 8);
}
END_TEST

START_TEST(batch_lacks_its_first_tablet_or_its_last)
{
    two_parts(0, 15);
    two_parts(1, 15);
}
END_TEST

/* Two runs have a lane with the same number. */
START_TEST(fence_of_another_run_refuses_nothing_that_is_held)
{
    struct rig r = {0};
    rig_new(&r, WIRE_BSP, 2, OPT_SGD);
    uint64_t held = rig_push(&r, part(0, 1, 1));
    rig_open(&r, RIG_RUN + 1, 2, WIRE_BSP);
    rig_run(&r, 5);
    struct wire w = rig_wire(&r, WIRE_TYPE_FENCE);
    w.u.FENCE = (struct wire_FENCE){.run = RIG_RUN + 1, .lane = 0, .generation = 5, .live = true};
    uint64_t fence = rig_send(&r, &w, 0, NULL, 0, NULL, 0);
    rig_run(&r, 5);
    ck_assert_int_eq(rig_status(&r, fence), 0);
    ck_assert_int_eq(rig_status(&r, held), RIG_WAITING);
    uint64_t last = rig_push(&r, part(1, 1, 1));
    rig_run(&r, 5);
    ck_assert_int_eq(rig_status(&r, held), 0);
    ck_assert_int_eq(rig_status(&r, last), 0);
    rig_free(&r);
}
END_TEST

/* Table 1 gets its clock while table 0 still waits for its own. */
START_TEST(pulls_wait_for_the_clock_of_their_table)
{
    struct rig r = {0};
    rig_new(&r, WIRE_BSP, 2, OPT_SGD);
    const uint64_t key = rig_key(3, 0);
    uint64_t first = rig_pull(&r, 0, 2, 0, key);
    struct wire w = rig_wire(&r, WIRE_TYPE_PULL);
    w.u.PULL =
        (struct wire_PULL){.run = RIG_RUN, .table = 1, .batch = 2, .key_count = 1, .map_epoch = 1};
    uint64_t second = rig_send(&r, &w, 1, &key, sizeof key, NULL, 0);
    rig_run(&r, 5);
    ck_assert_int_eq(rig_status(&r, second), RIG_WAITING);
    for (uint32_t lane = 0; lane < 2; lane++)
        rig_push(&r, (struct rig_push_args){.lane = lane, .table = 1, .to = 1});
    rig_run(&r, 5);
    ck_assert_int_eq(rig_status(&r, first), RIG_WAITING);
    ck_assert_int_eq(rig_status(&r, second), 0);
    rig_free(&r);
}
END_TEST

/* All fences come at once, as from a restarted coordinator. Each refuses its lane's held push,
 * unless the push is of the present generation. */
START_TEST(fences_refuse_what_is_held_of_older_generations)
{
    struct rig r = {0};
    rig_new(&r, WIRE_BSP, 3, OPT_SGD);
    uint64_t older = rig_push(&r, part(0, 1, 1)), same = rig_push(&r, part(2, 1, 1));
    rig_run(&r, 5);
    const struct wire_lane_fence fence[] = {{.generation = 1, .lane = 2, .live = 1},
                                            {.generation = 2, .lane = 0, .live = 1}};
    uint64_t told = rig_fences(&r, RIG_RUN, fence, 2);
    rig_run(&r, 5);
    ck_assert_int_eq(rig_status(&r, told), 0);
    ck_assert_int_eq(rig_status(&r, older), SHOAL_E_FENCED);
    ck_assert_int_eq(rig_status(&r, same), RIG_WAITING);
    ck_assert_uint_eq(bsp_held(&r.shard->bsp), 1);
    rig_free(&r);
}
END_TEST

START_TEST(dead_lane_is_waited_for_and_its_held_push_refused)
{
    struct rig r = {0};
    rig_new(&r, WIRE_BSP, 2, OPT_SGD);
    uint64_t old = rig_push(&r, part(0, 1, 1));
    rig_run(&r, 5);
    uint64_t leave = rig_fence(&r, 0, 2, false);
    uint64_t other = rig_push(&r, part(1, 1, 1));
    uint64_t pull = rig_pull(&r, 1, 2, 0, rig_key(3, 0));
    rig_run(&r, 5);
    ck_assert_int_eq(rig_status(&r, leave), 0);
    ck_assert_int_eq(rig_status(&r, old), SHOAL_E_FENCED);
    ck_assert_int_eq(rig_status(&r, other), RIG_WAITING);
    ck_assert_int_eq(rig_status(&r, pull), RIG_WAITING);
    rig_fence(&r, 0, 3, true);
    rig_run(&r, 5);
    struct rig_push_args p = part(0, 1, 1);
    p.generation = 3;
    uint64_t taken = rig_push(&r, p);
    rig_run(&r, 5);
    ck_assert_int_eq(rig_status(&r, taken), 0);
    ck_assert_int_eq(rig_status(&r, other), 0);
    ck_assert(rig_value(&r, pull) == -2);
    rig_free(&r);
}
END_TEST

START_TEST(pull_sees_the_clock_before_and_none_of_its_own)
{
    struct rig r = {0};
    rig_new(&r, WIRE_BSP, 2, OPT_SGD);
    uint64_t key = rig_key(3, 0);
    uint64_t one = rig_pull(&r, 0, 1, 0, key), two = rig_pull(&r, 0, 2, 0, key);
    rig_run(&r, 5);
    ck_assert(rig_value(&r, one) == 0);
    ck_assert_int_eq(rig_status(&r, two), RIG_WAITING);
    rig_push(&r, part(0, 1, 1));
    rig_push(&r, part(1, 1, 1));
    rig_run(&r, 5);
    ck_assert(rig_value(&r, two) == -2);
    rig_push(&r, part(0, 2, 10));
    rig_push(&r, part(1, 2, 10));
    rig_run(&r, 5);
    /* Batch 2 is computed again because another shard lacks it: here clock 2 is already applied. */
    uint64_t again = rig_pull(&r, 1, 2, 0, key), next = rig_pull(&r, 1, 3, 0, key),
             gone = rig_pull(&r, 1, 1, 0, key);
    rig_run(&r, 5);
    ck_assert(rig_value(&r, again) == -2);
    ck_assert(rig_value(&r, next) == -22);
    ck_assert_int_eq(rig_status(&r, gone), SHOAL_E_GAP);
    rig_free(&r);
}
END_TEST

START_TEST(tables_move_on_by_themselves)
{
    struct rig r = {0};
    rig_new(&r, WIRE_BSP, 1, OPT_SGD);
    uint64_t key = rig_key(3, 0);
    /* table 0 is at clock 1, table 1 at 0: the worker died between the two */
    rig_push(&r, part(0, 1, 1));
    rig_run(&r, 5);
    uint64_t again = rig_pull(&r, 0, 1, 0, key);
    rig_run(&r, 5);
    ck_assert(rig_value(&r, again) == 0);
    rig_free(&r);
}
END_TEST

/* Rows that were not touched since clock 1 of a former run: a pull for clock 1 of this run must not
 * see their earlier values. */
START_TEST(undo_of_a_former_run_is_not_seen)
{
    struct rig r = {0};
    rig_new(&r, WIRE_BSP, 1, OPT_SGD);
    uint64_t key = rig_key(3, 0);
    rig_push(&r, part(0, 1, 1));
    rig_open(&r, RIG_RUN + 1, 1, WIRE_BSP);
    rig_run(&r, 5);
    struct wire w = rig_wire(&r, WIRE_TYPE_PULL);
    w.u.PULL = (struct wire_PULL){.run = RIG_RUN + 1, .batch = 1, .key_count = 1, .map_epoch = 1};
    uint64_t now = rig_send(&r, &w, 1, &key, sizeof key, NULL, 0),
             then = rig_pull(&r, 0, 1, 0, key);
    rig_run(&r, 5);
    ck_assert(rig_value(&r, now) == -1);
    ck_assert(rig_value(&r, then) == 0);
    rig_free(&r);
}
END_TEST

/* ---- a pool that is too small ---- */

#define MANY 64u

/* Pushes batch `to` of a lane: MANY keys, spread over all tablets; about 1.3 kB. */
static uint64_t wide_push(struct rig *r, uint32_t lane, uint64_t to)
{
    uint64_t key[MANY];
    float g[2 * MANY];
    struct wire w = rig_wire(r, WIRE_TYPE_PUSH);
    for (uint32_t i = 0; i < MANY; i++) {
        key[i] = rig_key(i / 4, i % 4);
        g[2 * i] = g[2 * i + 1] = 0.01f * (float)(lane + 1) * (float)(i + to);
    }
    w.u.PUSH = (struct wire_PUSH){.run = RIG_RUN,
                                  .lane = lane,
                                  .generation = 1,
                                  .from = to - 1,
                                  .to = to,
                                  .tablet_count = 1u << RIG_BITS,
                                  .lr_scale = 1,
                                  .key_count = MANY,
                                  .map_epoch = 1};
    return rig_send(r, &w, 2, key, sizeof key, g, sizeof g);
}

/* Five clocks of eight lanes, in a changing order; each push is sent until it is accepted. With 2.6
 * kB for pushes, two of them leave no room for a third: all must be accepted in the end, with the
 * same rows as in a large pool. */
static uint64_t digest_with_pool(uint64_t bytes, uint32_t *busy)
{
    struct rig r = {.waiting_max = bytes};
    rig_new(&r, WIRE_BSP, 8, OPT_ADAGRAD);
    *busy = 0;
    for (uint64_t clock = 1; clock <= 5; clock++) {
        uint64_t id[8] = {0};
        for (uint32_t round = 0, done = 0; done < 8; round++) {
            ck_assert_msg(round < 40, "clock %d does not end", (int)clock);
            done = 0;
            for (uint32_t n = 0; n < 8; n++) {
                uint32_t lane = (uint32_t)((7 - n + clock) % 8);
                int status = id[lane] == 0 ? SHOAL_E_BUSY : rig_status(&r, id[lane]);
                if (status != 0) /* or it is lost: sent again, as workers do */
                    id[lane] = wide_push(&r, lane, clock);
                rig_run(&r, 3);
                *busy += rig_status(&r, id[lane]) == SHOAL_E_BUSY;
                done += rig_status(&r, id[lane]) == 0;
            }
        }
    }
    uint64_t id = rig_simple(&r, WIRE_TYPE_DIGEST);
    rig_run(&r, 20);
    ck_assert_int_eq(rig_status(&r, id), 0);
    uint64_t sum = hash_bytes(r.answer[id].m->frame[1].data, r.answer[id].m->frame[1].bytes, 0);
    rig_free(&r);
    return sum;
}

START_TEST(a_clock_that_the_pool_cannot_hold_gets_through)
{
    uint32_t calm, pressed;
    uint64_t roomy = digest_with_pool(1u << 20, &calm);
    ck_assert_uint_eq(calm, 0);
    ck_assert_uint_eq(digest_with_pool(3500, &pressed), roomy);
    ck_assert_uint_gt(pressed, 0); /* the pool was too small */
}
END_TEST

/* Few pushes are held, so the pool is not half full; but the push that all wait for is larger than
 * the rest of the pool. */
START_TEST(a_large_push_that_is_next_gets_in)
{
    struct rig r = {.waiting_max = 1400};
    rig_new(&r, WIRE_BSP, 3, OPT_SGD);
    uint64_t one = rig_push(&r, part(1, 1, 1)), two = rig_push(&r, part(2, 1, 1));
    rig_run(&r, 5);
    uint64_t large = wide_push(&r, 0, 1);
    rig_run(&r, 5);
    ck_assert_int_eq(rig_status(&r, large), 0);
    ck_assert_int_eq(rig_status(&r, one), 0);
    ck_assert_int_eq(rig_status(&r, two), 0);
    rig_free(&r);
}
END_TEST

/* The refused push is not the next one. The held pushes before it go on, so that there is room for
 * it. */
START_TEST(a_refused_push_sets_the_others_going)
{
    struct rig r = {.waiting_max = 1400};
    rig_new(&r, WIRE_BSP, 3, OPT_SGD);
    uint64_t first = rig_push(&r, part(0, 1, 1)), last = rig_push(&r, part(2, 1, 1));
    rig_run(&r, 5);
    ck_assert_int_eq(rig_status(&r, first), RIG_WAITING);
    uint64_t large = wide_push(&r, 1, 1);
    rig_run(&r, 5);
    ck_assert_int_eq(rig_status(&r, first), 0);
    if (rig_status(&r, large) == SHOAL_E_BUSY)
        large = wide_push(&r, 1, 1);
    rig_run(&r, 5);
    ck_assert_int_eq(rig_status(&r, large), 0);
    ck_assert_int_eq(rig_status(&r, last), 0);
    rig_free(&r);
}
END_TEST

/* On another shard lane 2 may still be at the clock before: if its worker died, the next worker
 * would need rows of that clock here. */
static void alone(bool fenced)
{
    struct rig r = {.waiting_max = 1400};
    rig_new(&r, WIRE_BSP, 3, OPT_SGD);
    for (uint32_t lane = 0; lane < 3; lane++)
        rig_push(&r, part(lane, 1, 1));
    rig_run(&r, 5);
    uint64_t first = rig_push(&r, part(0, 2, 1));
    for (uint32_t n = 0; n < 2; n++) {
        uint64_t large = wide_push(&r, 1, 2);
        rig_run(&r, 5);
        ck_assert_int_eq(rig_status(&r, large), SHOAL_E_BUSY);
        ck_assert_int_eq(rig_status(&r, first), RIG_WAITING);
    }
    if (fenced) { /* a fence ends the lane's generation and its record */
        rig_fence(&r, 1, 2, true);
        rig_run(&r, 5);
    }
    uint64_t last = wide_push(&r, 2, 2);
    rig_run(&r, 5);
    ck_assert_int_eq(rig_status(&r, last), SHOAL_E_BUSY);
    ck_assert_int_eq(rig_status(&r, first), fenced ? RIG_WAITING : 0);
    rig_free(&r);
}

START_TEST(no_part_goes_on_alone_before_all_lanes_push_of_its_clock)
{
    alone(false);
}
END_TEST

START_TEST(what_a_lane_has_pushed_is_forgotten_with_its_generation)
{
    alone(true);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        pushes_are_held_until_all_lanes_are_there,
        arrival_order_does_not_change_a_bit,
        second_push_of_a_held_batch_replaces_the_first,
        wrong_push_is_refused_before_it_is_held,
        push_that_no_segment_takes_is_refused_before_it_is_held,
        a_clock_that_the_pool_cannot_hold_gets_through,
        hole_that_moves_lets_no_held_push_stay,
        batch_in_several_parts_counts_when_all_are_there,
        batch_lacks_its_first_tablet_or_its_last,
        fence_of_another_run_refuses_nothing_that_is_held,
        pulls_wait_for_the_clock_of_their_table,
        dead_lane_is_waited_for_and_its_held_push_refused,
        fences_refuse_what_is_held_of_older_generations,
        pull_sees_the_clock_before_and_none_of_its_own,
        tables_move_on_by_themselves,
        older_batch_that_is_held_makes_way,
        parts_applied_before_count,
        undo_of_a_former_run_is_not_seen,
        a_clock_that_the_pool_cannot_hold_gets_through,
        a_large_push_that_is_next_gets_in,
        a_refused_push_sets_the_others_going,
        no_part_goes_on_alone_before_all_lanes_push_of_its_clock,
        what_a_lane_has_pushed_is_forgotten_with_its_generation,
    };
    return rig_main("bsp", tests, sizeof tests / sizeof tests[0]);
}
