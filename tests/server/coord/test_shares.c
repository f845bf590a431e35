/* test_shares.c: shares of the servers' memory by space: which list the shards get, when, and what
 * the status says of its use. The real coordinator with fake shards. */
#include "server/coord/fleet/shares.h"

#include "proto/base/log.h"
#include "server/coord/coord.h"
#include "server/coord/job/sight.h"
#include "server/coord/job/slot.h"
#include "tests/lib/server_fake.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECOND UINT64_C(1000000000)
#define SHARDS 2u

static struct {
    struct sim *sim;
    struct sim_node *node;
    struct coord_store *store;
    struct coord *coord;
    struct fake_shard shard[SHARDS];
    struct coord_weights memory;
} r;

static struct err e;

static void coord_start(void)
{
    struct coord_options o = {.shards = SHARDS,
                              .lease_ms = 1000,
                              .resend_ms = 200,
                              .version = "test",
                              .memory = r.memory};
    r.node = sim_node_new(r.sim, "coordinator", &coord_handler, NULL);
    ck_assert_msg(coord_new(&o, sim_node_env(r.node), r.store, &r.coord, &e) == 0, "%s", e.text);
    sim_node_set_handler(r.node, &coord_handler, r.coord);
    sim_listen(r.node, "sim://coordinator");
}

static void go(uint64_t ms)
{
    (void)sim_run(r.sim, sim_now_ns(r.sim) + ms * 1000000, NULL, NULL);
}

static void shard_start(uint32_t i, uint64_t incarnation)
{
    char name[24];
    (void)snprintf(name, sizeof name, "server-%u", i);
    fake_shard_start(&r.shard[i], r.sim, name, 0, incarnation);
}

static void weigh(const char *space, double weight)
{
    struct coord_weight *w = &r.memory.of[r.memory.count++];
    (void)snprintf(w->space, sizeof w->space, "%s", space);
    w->weight = weight;
}

static void setup(void)
{
    static const struct sim_options calm = {
        .seed = 7, .delay_min_ns = 100000, .delay_max_ns = 1000000};
    log_set_level(LOG_LEVEL_ERROR + 1);
    memset(&r, 0, sizeof r);
    r.sim = sim_new(&calm);
    r.store = coord_store_memory();
    weigh("ads", 3);
    coord_start();
    for (uint32_t i = 0; i < SHARDS; i++)
        shard_start(i, 1);
    go(1000);
}

static void teardown(void)
{
    coord_free(r.coord);
    sim_free(r.sim);
    coord_store_close(r.store);
    for (uint32_t i = 0; i < SHARDS; i++)
        free(r.shard[i].shard_of);
}

/* Space `number` gets tables. */
static struct coord_space *space_make(uint32_t number, const char *name, uint64_t tables)
{
    struct coord_space *s = &r.coord->fleet.spaces.space[number];
    s->numbers = table_set_word(tables);
    ck_assert(coord_space_numbers_put(&r.coord->fleet, s));
    ck_assert(coord_space_put(&r.coord->fleet, s, name, SPACE_IS));
    return s;
}

static void two_spaces(void)
{
    (void)space_make(0, "ads", 3);
    (void)space_make(1, "search", 12);
    go(1500);
}

START_TEST(coord_tells_no_shares_of_one_space)
{
    (void)space_make(0, "ads", 3);
    go(5000);
    ck_assert_uint_eq(r.shard[0].shares_told, 0);
}
END_TEST

START_TEST(coord_shares_follow_the_weights)
{
    two_spaces();
    for (uint32_t i = 0; i < SHARDS; i++) {
        const struct fake_shard *s = &r.shard[i];
        ck_assert_uint_eq(s->shares, 2);
        ck_assert_str_eq(s->share[0].space, "ads");
        ck_assert_uint_eq(s->share[0].tables.word[0], 3);
        ck_assert_uint_eq(s->share[0].parts, WIRE_SHARE_PARTS / 4 * 3);
        ck_assert_str_eq(s->share[1].space, "search"); /* the file does not name it */
        ck_assert_uint_eq(s->share[1].tables.word[0], 12);
        ck_assert_uint_eq(s->share[1].parts, WIRE_SHARE_PARTS / 4);
    }
}
END_TEST

START_TEST(coord_shares_are_equal_by_default)
{
    r.memory.count = 0;
    coord_memory_set(r.coord, &r.memory);
    for (uint32_t i = 0; i < 7; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "space-%u", i);
        (void)space_make(i, name, UINT64_C(1) << i);
    }
    go(1500);
    uint64_t sum = 0;
    ck_assert_uint_eq(r.shard[0].shares, 7);
    for (uint32_t i = 0; i < 7; i++) {
        sum += r.shard[0].share[i].parts;
        ck_assert_uint_ge(r.shard[0].share[i].parts, WIRE_SHARE_PARTS / 7);
        ck_assert_uint_le(r.shard[0].share[i].parts, WIRE_SHARE_PARTS / 7 + 7);
    }
    ck_assert_uint_eq(sum, WIRE_SHARE_PARTS);
}
END_TEST

/* However small its weight is, a space has a part. */
START_TEST(coord_shares_have_a_part_each)
{
    r.memory.count = 0;
    weigh("ads", 1000);
    weigh("search", 0.001);
    coord_memory_set(r.coord, &r.memory);
    two_spaces();
    ck_assert_uint_eq(r.shard[0].share[1].parts, 1);
    ck_assert_uint_eq(r.shard[0].share[0].parts, WIRE_SHARE_PARTS - 1);
}
END_TEST

START_TEST(coord_other_weights_are_told_at_once)
{
    two_spaces();
    uint32_t told = r.shard[0].shares_told;
    r.memory.of[0].weight = 1;
    coord_memory_set(r.coord, &r.memory);
    go(20);
    ck_assert_uint_eq(r.shard[0].shares_told, told + 1);
    ck_assert_uint_eq(r.shard[0].share[0].parts, WIRE_SHARE_PARTS / 2);
}
END_TEST

START_TEST(coord_a_shard_that_starts_again_gets_the_shares)
{
    two_spaces();
    fake_shard_die(&r.shard[1]);
    r.shard[1].shares = 0;
    r.shard[1].shares_digest = 0; /* in memory only */
    shard_start(1, 2);
    go(1500);
    ck_assert_uint_eq(r.shard[1].shares, 2);
}
END_TEST

START_TEST(coord_a_new_coordinator_tells_its_own_shares)
{
    two_spaces();
    sim_kill(r.node);
    coord_free(r.coord);
    r.memory.of[0].weight = 1;
    coord_start();
    go(1500);
    ck_assert_uint_eq(r.shard[0].share[0].parts, WIRE_SHARE_PARTS / 2);
}
END_TEST

START_TEST(coord_the_last_space_has_all_again)
{
    two_spaces();
    struct coord_space *s = &r.coord->fleet.spaces.space[1];
    ck_assert(coord_space_forget(&r.coord->fleet, s));
    go(1500);
    ck_assert_uint_eq(r.shard[0].shares, 0);
    ck_assert_uint_eq(r.shard[1].shares, 0);
    uint32_t told = r.shard[0].shares_told;
    go(5000);
    ck_assert_uint_eq(r.shard[0].shares_told, told); /* no more is said */
}
END_TEST

static const char *note(const char *words)
{
    static char text[ERR_TEXT_MAX];
    struct json *notes = coord_sight_notes(&r.coord->slot[0]);
    text[0] = 0;
    for (size_t i = 0; i < json_count(notes); i++)
        if (strstr(json_as_string(json_array_at(notes, i), ""), words) != NULL)
            (void)snprintf(text, sizeof text, "%s", json_as_string(json_array_at(notes, i), ""));
    json_free(notes);
    return text;
}

START_TEST(coord_says_which_space_is_held_to_its_share)
{
    two_spaces();
    for (uint32_t i = 0; i < SHARDS; i++) {
        r.shard[i].use[0] = (struct wire_share_use){1000, 400, 90000000, 100000000, 0, 0};
        r.shard[i].use[1] = (struct wire_share_use){10, 0, 1000, 30000000, 0, 0};
    }
    go(3000);
    ck_assert_str_eq(note("held to its share"), "");
    r.shard[1].use[0].waits = 7;
    go(3000);
    const char *text = note("space ads is held to its share");
    ck_assert_msg(strstr(text, "on 1 of 2 shards") != NULL &&
                      strstr(text, "180.0 of 200.0 MB") != NULL &&
                      strstr(text, "800 of its 2000 rows") != NULL,
                  "%s", text);
    struct json *item = json_new_object();
    coord_shares_json(&r.coord->fleet, &r.coord->fleet.spaces.space[0], item);
    ck_assert_int_eq(json_get_int(item, "memory_bytes", 0), 180000000);
    ck_assert_int_eq(json_get_int(item, "held", 0), 1);
    json_free(item);
    go(15000); /* no push has waited since */
    ck_assert_str_eq(note("held to its share"), "");
}
END_TEST

/* A space that uses what others leave free waits for room now and then: its share is no matter. */
START_TEST(coord_a_borrower_is_not_held)
{
    two_spaces();
    r.shard[0].use[0] = (struct wire_share_use){1000, 400, 190000000, 100000000, 5, 0};
    go(3000);
    ck_assert_str_eq(note("held to its share"), "");
}
END_TEST

START_TEST(coord_says_which_space_is_refused)
{
    two_spaces();
    r.shard[0].use[1] = (struct wire_share_use){1000, 0, 101000000, 100000000, 0, 3};
    go(3000);
    const char *text = note("space search is over its share");
    ck_assert_msg(strstr(text, "pushes are refused") != NULL, "%s", text);
}
END_TEST

START_TEST(coord_says_which_weight_has_no_space)
{
    two_spaces();
    ck_assert_str_eq(note("holds no tables"), "");
    weigh("serach", 2);
    coord_memory_set(r.coord, &r.memory);
    ck_assert_ptr_nonnull(strstr(note("holds no tables"), "serach"));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("shares");
    TCase *c = tcase_create("shares");
    tcase_set_timeout(c, 60);
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, coord_tells_no_shares_of_one_space);
    tcase_add_test(c, coord_shares_follow_the_weights);
    tcase_add_test(c, coord_shares_are_equal_by_default);
    tcase_add_test(c, coord_shares_have_a_part_each);
    tcase_add_test(c, coord_other_weights_are_told_at_once);
    tcase_add_test(c, coord_a_shard_that_starts_again_gets_the_shares);
    tcase_add_test(c, coord_a_new_coordinator_tells_its_own_shares);
    tcase_add_test(c, coord_the_last_space_has_all_again);
    tcase_add_test(c, coord_says_which_space_is_held_to_its_share);
    tcase_add_test(c, coord_a_borrower_is_not_held);
    tcase_add_test(c, coord_says_which_space_is_refused);
    tcase_add_test(c, coord_says_which_weight_has_no_space);
    suite_add_tcase(suite, c);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
