/* test_network.c: a worker's network takes steps as the tables of the servers do, bit for bit, and
 * its tablets travel. */
#include "proto/job/packed.h"
#include "tests/worker/ring/network_case.h"

#include <math.h>

static struct case_blocks dense, stats;
static float sum[CASE_FLOATS];

/* A server's table takes the mean as a push. */
static void table_takes(struct table *t, const struct case_blocks *b, const float *from,
                        float divisor, float lr_scale, uint64_t step)
{
    static float gradients[CASE_DENSE * CASE_WIDTH];
    for (size_t i = 0; i < b->count; i++)
        for (uint32_t j = 0; j < CASE_WIDTH; j++)
            gradients[i * CASE_WIDTH + j] = from[b->block[i] * CASE_WIDTH + j] / divisor;
    const struct push_args args = {.lr_scale = lr_scale,
                                   .batch = step,
                                   .step = 1,
                                   .lane = 9,
                                   .width = PACKED_NOT,
                                   .tablet_count = 1u << CASE_BITS};
    ck_assert_int_eq(table_push(t, b->keys, gradients, b->count, &args), 0);
}

static void images_are_equal(const struct network *n, enum network_part part, const struct table *t)
{
    for (uint32_t tablet = 0; tablet < 1u << CASE_BITS; tablet++) {
        size_t bytes = network_image_bytes(n, part, tablet);
        void *one = malloc(bytes), *other = malloc(bytes);
        ck_assert_uint_eq(table_image_bytes(t, tablet), bytes);
        network_image_write(n, part, tablet, one);
        table_image_write(t, tablet, other);
        ck_assert_mem_eq(one, other, bytes);
        free(one);
        free(other);
    }
}

static void trained(enum optimizer_kind kind, float l2)
{
    struct network *n = case_network(&dense, &stats, kind, l2);
    struct rows d = rows_open(&dense.schema), s = rows_open(&stats.schema);
    struct err e = {0};
    for (uint64_t step = 1; step <= 20; step++) {
        float lr_scale = step < 10 ? 0.1f * (float)step : 1;
        uint64_t weight = 100 + step;
        case_step_sum(step, sum);
        ck_assert_msg(network_step(n, sum, weight, lr_scale, step, &e) == 0, "%s", e.text);
        table_takes(d.table, &dense, sum, (float)weight, lr_scale, step);
        table_takes(s.table, &stats, sum + CASE_DENSE * CASE_WIDTH, 1, lr_scale, step);
    }
    images_are_equal(n, NETWORK_DENSE, d.table);
    images_are_equal(n, NETWORK_STATS, s.table);
    ck_assert_uint_eq(network_at(n), 20);
    network_free(n);
    rows_close(&d);
    rows_close(&s);
}

START_TEST(network_steps_as_the_servers_tables_do)
{
    trained(OPT_SGD, 0);
    trained(OPT_SGD, 0.01f);
    trained(OPT_ADAGRAD, 0);
    trained(OPT_ADAM, 0);
    trained(OPT_ADAM, 0.01f);
    trained(OPT_FTRL, 0.02f);
}
END_TEST

/* 8,200 rows of 2 KiB in one tablet. */
START_TEST(network_whose_tablet_is_too_large_is_refused_at_once)
{
    enum { WIDTH = 512, COUNT = 8200 };
    static uint64_t keys[COUNT];
    static uint32_t block[COUNT];
    struct network *n;
    struct err e;
    case_blocks_make(&dense, "dense", OPT_SGD, CASE_DENSE);
    struct table_schema schema = dense.schema;
    schema.width = WIDTH;
    schema.tablet_bits = 0;
    for (uint32_t i = 0; i < COUNT; i++) {
        keys[i] = i + 1;
        block[i] = i;
    }
    qsort(keys, COUNT, sizeof keys[0], key_by_mixed);
    struct network_options o = {
        .part[NETWORK_DENSE] = {.schema = &schema, .keys = keys, .block = block, .count = COUNT}};
    ck_assert_int_eq(network_new(&o, &n, &e), SHOAL_E_TOO_BIG);
    ck_assert_ptr_nonnull(strstr(e.text, "use train.dense: servers"));
    o.part[NETWORK_DENSE].count = 100;
    ck_assert_int_eq(network_new(&o, &n, &e), 0);
    network_free(n);
}
END_TEST

START_TEST(network_begins_with_initial_values_and_keeps_the_step_before)
{
    static float was[CASE_DENSE * CASE_WIDTH];
    struct network *n = case_network(&dense, &stats, OPT_ADAM, 0);
    struct rows d = rows_open(&dense.schema);
    for (size_t i = 0; i < CASE_DENSE; i++) {
        float row[CASE_WIDTH];
        table_pull(d.table, &dense.keys[i], 1, row);
        ck_assert_mem_eq(network_weights(n, NETWORK_DENSE) + dense.block[i] * CASE_WIDTH, row,
                         sizeof row);
    }
    for (uint64_t step = 1; step <= 3; step++) {
        memcpy(was, network_weights(n, NETWORK_DENSE), sizeof was);
        case_step_sum(step, sum);
        ck_assert_int_eq(network_step(n, sum, 10, 1, step, NULL), 0);
        ck_assert_mem_eq(network_before(n, NETWORK_DENSE), was, sizeof was);
        ck_assert(memcmp(network_weights(n, NETWORK_DENSE), was, sizeof was) != 0);
    }
    memcpy(was, network_weights(n, NETWORK_DENSE), sizeof was);
    network_skip(n, 4);
    ck_assert_mem_eq(network_weights(n, NETWORK_DENSE), was, sizeof was);
    ck_assert_mem_eq(network_before(n, NETWORK_DENSE), was, sizeof was);
    ck_assert_uint_eq(network_at(n), 4);
    network_free(n);
    rows_close(&d);
}
END_TEST

START_TEST(network_refuses_what_a_server_would)
{
    static const float bad[] = {NAN, INFINITY, 1e18f};
    struct network *n = case_network(&dense, &stats, OPT_ADAM, 0);
    struct err e = {0};
    uint64_t before, after;
    ck_assert_int_eq(network_digest(n, &before), 0);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        for (size_t at = 0; at < sizeof sum / sizeof *sum; at += CASE_DENSE * CASE_WIDTH) {
            case_step_sum(1, sum);
            sum[at + 7] = bad[i];
            ck_assert_int_eq(network_step(n, sum, 10, 1, 1, &e), SHOAL_E_NOT_FINITE);
            ck_assert_ptr_nonnull(strstr(e.text, "step 1"));
        }
    ck_assert_int_eq(network_digest(n, &after), 0);
    ck_assert_uint_eq(before, after);
    ck_assert_uint_eq(network_at(n), 0);
    network_free(n);
}
END_TEST

/* A newcomer takes the tablets and the weights of the step before, and goes on with the same
 * bits. */
START_TEST(network_goes_to_a_newcomer)
{
    static float before[(CASE_DENSE + CASE_STATS) * CASE_WIDTH];
    struct network *n = case_network(&dense, &stats, OPT_ADAM, 0),
                   *other = case_network(&dense, &stats, OPT_ADAM, 0);
    uint64_t one, two;
    struct err e = {0};
    case_steps(n, 5);
    memcpy(before, network_before(n, NETWORK_DENSE), CASE_DENSE * CASE_WIDTH * sizeof *before);
    memcpy(before + CASE_DENSE * CASE_WIDTH, network_before(n, NETWORK_STATS),
           CASE_STATS * CASE_WIDTH * sizeof *before);
    for (enum network_part part = 0; part < NETWORK_PARTS; part++)
        for (uint32_t tablet = 0; tablet < network_tablets(n, part); tablet++) {
            size_t bytes = network_image_bytes(n, part, tablet);
            void *image = malloc(bytes);
            network_image_write(n, part, tablet, image);
            ck_assert_msg(network_image_take(other, part, tablet, image, bytes, &e) == 0, "%s",
                          e.text);
            ((unsigned char *)image)[bytes / 2] ^= 1;
            ck_assert_int_ne(network_image_take(other, part, tablet, image, bytes, &e), 0);
            free(image);
        }
    network_settle(other, 5, before);
    for (uint64_t step = 6; step <= 8; step++) {
        for (enum network_part part = 0; part < NETWORK_PARTS; part++) {
            size_t bytes = network_floats(n, part) * sizeof(float);
            ck_assert_mem_eq(network_weights(n, part), network_weights(other, part), bytes);
            ck_assert_mem_eq(network_before(n, part), network_before(other, part), bytes);
        }
        ck_assert_int_eq(network_digest(n, &one), 0);
        ck_assert_int_eq(network_digest(other, &two), 0);
        ck_assert_uint_eq(one, two);
        case_steps(n, step);
        case_steps(other, step);
    }
    ck_assert_int_eq(network_image_take(other, NETWORK_DENSE, 1u << CASE_BITS, sum, sizeof sum, &e),
                     SHOAL_E_MALFORMED);
    network_free(n);
    network_free(other);
}
END_TEST

/* ---- sharded state --------------------------------------------------------------------------- */

enum { MEMBERS_MOST = 4 };
static struct network *whole, *shard[MEMBERS_MOST];
static struct way_shape shape;
static struct way_cut cut;

/* Members whose networks begin with what the tables have: nothing yet. */
static void shards_begin(enum optimizer_kind kind, float l2, uint32_t starts, uint32_t members)
{
    struct way_array array;
    ck_assert_int_eq(way_shape_even(4, starts, members, &shape, NULL), 0);
    whole = case_network(&dense, &stats, kind, l2);
    network_deal(whole, starts);
    network_array(whole, &array);
    ck_assert_int_eq(way_cut(&array, starts, &cut, NULL), 0);
    for (uint32_t i = 0; i < members; i++) {
        shard[i] = case_network_of(&dense, &stats, kind, l2, true);
        network_deal(shard[i], starts);
        ck_assert_int_eq(network_keep(shard[i], way_kept(&shape, i), NULL), 0);
        network_settle(shard[i], 0, NULL);
    }
}

static void shards_end(void)
{
    for (uint32_t i = 0; i < shape.members; i++)
        network_free(shard[i]);
    network_free(whole);
}

/* The array that a member has of a sum: parameters where it keeps nothing, as the seconds make
 * them. */
static void array_of(uint32_t member, uint64_t weight, float lr_scale, float *out)
{
    memcpy(out, sum, sizeof sum);
    for (uint32_t c = 0; c < cut.chunks; c++) {
        struct way_place p = way_place(&cut, c);
        if (way_kept(&shape, member) >> c % cut.starts & 1)
            continue;
        for (uint32_t i = 0; i < shape.members; i++) {
            struct way w;
            way_of(&shape, i, c, &w);
            if (way_second(&w))
                ck_assert(network_make(shard[i], &p, sum + p.at, weight, lr_scale, out + p.at));
        }
    }
}

static void shards_step(uint64_t step)
{
    static float array[MEMBERS_MOST][CASE_FLOATS];
    float lr_scale = step < 5 ? 0.2f * (float)step : 1;
    uint64_t weight = 100 + step;
    case_step_sum(step, sum);
    for (uint32_t i = 0; i < shape.members; i++)
        array_of(i, weight, lr_scale, array[i]);
    ck_assert_int_eq(network_step(whole, sum, weight, lr_scale, step, NULL), 0);
    for (uint32_t i = 0; i < shape.members; i++)
        ck_assert_int_eq(network_step(shard[i], array[i], weight, lr_scale, step, NULL), 0);
}

/* All weights, and each tablet that is kept. */
static void shard_is_equal(const struct network *one)
{
    for (enum network_part part = 0; part < NETWORK_PARTS; part++) {
        size_t bytes = network_floats(one, part) * sizeof(float);
        ck_assert_mem_eq(network_weights(one, part), network_weights(whole, part), bytes);
        ck_assert_mem_eq(network_before(one, part), network_before(whole, part), bytes);
        for (uint32_t t = 0; t < network_tablets(one, part); t++) {
            static char own[1 << 16], other[1 << 16];
            if (!network_has(one, part, t))
                continue;
            ck_assert_uint_le(network_image_bytes(one, part, t), sizeof own);
            ck_assert_uint_eq(network_image_bytes(one, part, t),
                              network_image_bytes(whole, part, t));
            network_image_write(one, part, t, own);
            network_image_write(whole, part, t, other);
            ck_assert_mem_eq(own, other, network_image_bytes(one, part, t));
        }
    }
}

static void shards_trained(enum optimizer_kind kind, float l2, uint32_t starts, uint32_t members)
{
    shards_begin(kind, l2, starts, members);
    for (uint64_t step = 1; step <= 12; step++) {
        shards_step(step);
        for (uint32_t i = 0; i < members; i++)
            shard_is_equal(shard[i]);
    }
    for (uint32_t i = 0; i < members; i++)
        ck_assert_uint_eq(network_keeps(shard[i]), way_kept(&shape, i));
    shards_end();
}

START_TEST(network_of_shares_steps_as_a_whole_one_does)
{
    static const struct {
        enum optimizer_kind kind;
        float l2;
    } all[] = {{OPT_SGD, 0},  {OPT_SGD, 0.01f},  {OPT_ADAGRAD, 0}, {OPT_ROW_ADAGRAD, 0},
               {OPT_ADAM, 0}, {OPT_ADAM, 0.01f}, {OPT_FTRL, 0.02f}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        for (uint32_t members = 1; members <= MEMBERS_MOST; members++)
            for (uint32_t starts = 1; starts <= 4; starts++)
                shards_trained(all[i].kind, all[i].l2, starts, members);
}
END_TEST

/* Four of four: half of the state each. */
START_TEST(network_of_shares_has_two_nths_of_the_state)
{
    shards_begin(OPT_ADAM, 0, 4, 4);
    shards_step(1);
    uint64_t all = network_state_bytes(whole), sum_of = 0;
    for (uint32_t i = 0; i < 4; i++) {
        ck_assert_uint_lt(network_state_bytes(shard[i]), all * 3 / 4);
        sum_of += network_state_bytes(shard[i]);
    }
    ck_assert_uint_eq(sum_of, 2 * all);
    shards_end();
}
END_TEST

/* Another worker has the step whole that this one has only the sums of. */
START_TEST(network_of_shares_makes_a_step_of_what_it_has_put)
{
    static float array[CASE_FLOATS], now[CASE_FLOATS], before[CASE_FLOATS];
    shards_begin(OPT_ADAM, 0.01f, 4, 4);
    shards_step(1);
    struct network *late = shard[2];
    case_step_sum(2, sum);
    array_of(2, 102, 0.4f, array);
    ck_assert_int_eq(network_put(late, array, 102, 0.4f, NULL), 0);
    ck_assert_uint_eq(network_at(late), 1);
    ck_assert_int_eq(network_step(whole, sum, 102, 0.4f, 2, NULL), 0);
    size_t floats = network_floats(whole, NETWORK_DENSE);
    memcpy(now, network_weights(whole, NETWORK_DENSE), floats * sizeof *now);
    memcpy(now + floats, network_weights(whole, NETWORK_STATS),
           (CASE_FLOATS - floats) * sizeof *now);
    memcpy(before, network_before(whole, NETWORK_DENSE), floats * sizeof *now);
    memcpy(before + floats, network_before(whole, NETWORK_STATS),
           (CASE_FLOATS - floats) * sizeof *now);
    ck_assert_int_eq(network_weights_take(late, 2, false, true, now, before, NULL), 0);
    ck_assert_uint_eq(network_at(late), 2);
    ck_assert_uint_eq(network_keeps(late), way_kept(&shape, 2));
    shard_is_equal(late);

    /* what does not count, or is older, is dropped */
    ck_assert_int_eq(network_weights_take(shard[0], 2, false, true, now, before, NULL), 0);
    ck_assert_uint_eq(network_keeps(shard[0]), 0);
    ck_assert_int_eq(network_weights_take(late, 2, false, false, now, before, NULL), 0);
    ck_assert_uint_eq(network_keeps(late), 0);
    /* a step that changed nothing leaves the state of the step before */
    ck_assert_int_eq(network_weights_take(shard[1], 2, true, true, now, before, NULL), 0);
    ck_assert_uint_eq(network_keeps(shard[1]), way_kept(&shape, 1));
    shards_end();
}
END_TEST

int main(void)
{
    Suite *s = suite_create("network");
    TCase *t = suite_case(s, "network", 60, NULL, NULL);
    tcase_add_test(t, network_steps_as_the_servers_tables_do);
    tcase_add_test(t, network_begins_with_initial_values_and_keeps_the_step_before);
    tcase_add_test(t, network_whose_tablet_is_too_large_is_refused_at_once);
    tcase_add_test(t, network_refuses_what_a_server_would);
    tcase_add_test(t, network_goes_to_a_newcomer);
    tcase_add_test(t, network_of_shares_steps_as_a_whole_one_does);
    tcase_add_test(t, network_of_shares_has_two_nths_of_the_state);
    tcase_add_test(t, network_of_shares_makes_a_step_of_what_it_has_put);
    return suite_main(s);
}
