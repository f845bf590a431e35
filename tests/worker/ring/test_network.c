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

int main(void)
{
    Suite *s = suite_create("network");
    TCase *t = suite_case(s, "network", 60, NULL, NULL);
    tcase_add_test(t, network_steps_as_the_servers_tables_do);
    tcase_add_test(t, network_begins_with_initial_values_and_keeps_the_step_before);
    tcase_add_test(t, network_whose_tablet_is_too_large_is_refused_at_once);
    tcase_add_test(t, network_refuses_what_a_server_would);
    tcase_add_test(t, network_goes_to_a_newcomer);
    return suite_main(s);
}
