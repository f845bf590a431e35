/* test_client_shards.c: the map is fetched, and its shards are connected. */
#include "tests/lib/client_world.h"
#include "tests/lib/suite.h"

#include <check.h>

START_TEST(client_without_a_place_asks_for_the_map)
{
    question.request.target = 1;
    client_start(world.client, &question.request);
    world_run_ms(500);
    ck_assert_uint_eq(question.answers, 1);
    ck_assert_uint_eq(world.map_epoch_said, 0);
    client_map_refresh(world.client);
    world_run_ms(10);
    ck_assert_uint_eq(world.map_epoch_said, 3); /* which it has */
}
END_TEST

START_TEST(client_waits_for_a_complete_map)
{
    question.request.target = 1;
    world.map_lines = "sim://peer\n\n"; /* shard 1 is not up yet */
    client_map_refresh(world.client);
    client_start(world.client, &question.request);
    world_run_ms(1000);
    ck_assert_ptr_null(client_map(world.client));
    ck_assert_uint_eq(world.seen, 0);
    world.map_lines = "sim://peer\nsim://peer\n";
    world_run_ms(1000);
    ck_assert_ptr_nonnull(client_map(world.client));
    ck_assert_uint_eq(client_map(world.client)->epoch, 3);
    ck_assert_uint_eq(world.map_changes, 1);
    ck_assert_uint_eq(question.answers, 1);
    client_map_refresh(world.client); /* the same map: no notice */
    world_run_ms(100);
    ck_assert_uint_eq(world.map_changes, 1);
    world.map_shards = 1;
    world.map_lines = "sim://peer\n";
    client_map_refresh(world.client);
    world_run_ms(100);
    ck_assert_uint_eq(world.map_changes, 2);
}
END_TEST

/* A shard that has not answered three times is looked up in the map; the coordinator's address is
 * never looked up. */
START_TEST(client_looks_at_the_map_at_the_fourth_try)
{
    for (int i = 0; i < 8; i++)
        world.silent[i] = true;
    client_set_resend(world.client, 100);
    client_map_refresh(world.client);
    world_run_ms(10);
    uint32_t before = world.maps_seen;
    question.request.target = _i == 0 ? 1 : CLIENT_COORDINATOR;
    client_start(world.client, &question.request);
    world_run_ms(250);
    ck_assert_uint_eq(world.seen, 3);
    ck_assert_uint_eq(world.maps_seen, before);
    world_run_ms(100);
    ck_assert_uint_eq(world.seen, 4);
    ck_assert_uint_eq(world.maps_seen, before + (_i == 0));
}
END_TEST

/* A server that was set up anew has its old address and another key: messages to the former one
 * never arrive. */
START_TEST(client_connects_again_when_a_shard_has_another_key)
{
    static const struct {
        const char *lines;
        uint32_t more;
    } maps[] = {{"sim://peer a\nsim://peer b\n", 2},
                {"sim://peer a\nsim://peer b\n", 0},
                {"sim://peer a\nsim://peer c\n", 1},
                {"sim://moved a\nsim://peer c\n", 1},
                {"sim://moved a\nsim://peer\n", 1}};
    world_run_ms(10);
    for (size_t i = 0; i < sizeof maps / sizeof maps[0]; i++) {
        uint32_t before = world.hellos, gone = world.gone;
        world.map_lines = maps[i].lines;
        client_map_refresh(world.client);
        world_run_ms(100);
        ck_assert_uint_eq(world.hellos - before, maps[i].more);
        ck_assert_uint_eq(world.gone - gone, i == 0 ? 0 : maps[i].more); /* all are replaced */
    }
}
END_TEST

/* A server is drained, then switched off: the coordinator names no endpoint of its shard. */
START_TEST(client_leaves_a_shard_that_has_left_alone)
{
    struct client_reach reach;
    world_places_open();
    world.map_leaders = 1;
    world.map_lines = "sim://peer\n\n";
    sim_kill(old_place.node);
    world.lives = true;
    world_run_ms(200);
    uint32_t maps = world.maps_seen;
    for (uint32_t beat = 0; beat < 10; beat++) {
        client_ping(world.client);
        world_run_ms(3333);
    }
    ck_assert_uint_eq(world.maps_seen, maps);
    client_reach(world.client, &reach);
    ck_assert_uint_eq(reach.late_ns, 0);
    world.map_leaders = 0; /* the number is given again */
    world.map_lines = "sim://peer\nsim://new\n";
    new_place.answers = true;
    client_start(world.client, &question.request);
    world_run_ms(2000);
    ck_assert_uint_eq(question.answers, 1);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("client_shards");
    TCase *c = suite_case(s, "client_shards", 100, world_setup, world_teardown);
    tcase_add_test(c, client_without_a_place_asks_for_the_map);
    tcase_add_test(c, client_waits_for_a_complete_map);
    tcase_add_loop_test(c, client_looks_at_the_map_at_the_fourth_try, 0, 2);
    tcase_add_test(c, client_connects_again_when_a_shard_has_another_key);
    tcase_add_test(c, client_leaves_a_shard_that_has_left_alone);
    return suite_main(s);
}
