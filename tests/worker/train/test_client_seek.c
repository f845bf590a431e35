/* test_client_seek.c: a shard whose server dies, stands still, or leads no more. */
#include "tests/lib/client_world.h"
#include "tests/lib/suite.h"

#include <check.h>

/* From the death of a server to the first request at the shard's new place, which the coordinator
 * names 100 ms later: below 200 ms. The same when the server still runs and leads no more. */
START_TEST(client_finds_a_shard_at_its_new_place)
{
    world_places_open();
    if (_i == 1) {
        old_place.answers = true;
        old_place.status = SHOAL_E_NOT_LEADER;
    }
    client_start(world.client, &question.request);
    client_start(world.client, &other.request);
    uint64_t lost_ns = sim_now_ns(world.sim), id[2] = {question.request.id, other.request.id};
    world_run_ms(1);
    ck_assert_uint_eq(old_place.seen, 2);
    uint32_t maps = world.maps_seen;
    if (_i == 0) {
        lost_ns = sim_now_ns(world.sim);
        sim_kill(old_place.node);
    }
    world_run_ms(99);
    ck_assert_uint_eq(new_place.seen, 0);
    world.map_lines = "sim://peer\nsim://new\n";
    new_place.answers = true;
    world_run_ms(98);
    ck_assert_uint_eq(new_place.seen, 2);
    ck_assert_uint_lt(new_place.at_ns[0] - lost_ns, 155 * WORLD_MS);
    ck_assert_uint_lt(new_place.at_ns[1] - lost_ns, 155 * WORLD_MS);
    ck_assert(new_place.id[0] == id[0] && new_place.id[1] == id[1]);
    ck_assert_uint_eq(question.answers, _i == 0 ? 1 : question.answers);
    ck_assert_int_eq(question.status, 0);
    ck_assert_int_eq(other.status, 0);
    ck_assert_uint_le(world.maps_seen - maps, 4); /* one each 50 ms */
    maps = world.maps_seen;
    world_run_ms(5000); /* it is found */
    ck_assert_uint_eq(world.maps_seen, maps);
    ck_assert_uint_eq(new_place.seen, 2);
}
END_TEST

/* A machine stands still or is cut off: no connection closes. Another copy leads 6 s later, as soon
 * as the lease is over. */
START_TEST(client_finds_another_place_of_a_silent_shard)
{
    world_places_open();
    world.lives = true;
    client_set_resend(world.client, 1000); /* the default */
    client_ping(world.client);
    client_start(world.client, &question.request);
    uint32_t beat = 3333;
    world_run_ms(beat);
    client_ping(world.client);
    world_run_ms(6000 - beat);
    uint64_t led_ns = sim_now_ns(world.sim);
    world.map_lines = "sim://peer\nsim://new\n";
    new_place.answers = true;
    world_run_ms(700);
    ck_assert_uint_eq(new_place.seen, 1);
    ck_assert_uint_lt(new_place.at_ns[0] - led_ns, 600 * WORLD_MS);
    uint32_t maps = world.maps_seen;
    world_run_ms(60000); /* it is found */
    ck_assert_uint_eq(world.maps_seen, maps);
}
END_TEST

/* The shard lets a request wait, and answers pings: nothing is sought. */
START_TEST(client_does_not_seek_a_shard_that_lives)
{
    world_places_open();
    world.lives = true;
    client_set_resend(world.client, 1000);
    client_start(world.client, &question.request);
    uint32_t maps = world.maps_seen;
    old_place.pongs = true;
    for (uint32_t i = 0; i < 9; i++) {
        client_ping(world.client);
        world_run_ms(3333);
    }
    ck_assert_uint_le(world.maps_seen - maps, old_place.seen - 3); /* one with each try */
}
END_TEST

/* A fleet that is down for hours is asked for once a second. Back at its old place, it gets at once
 * the requests that died with it. */
START_TEST(client_asks_seldom_for_what_stays_away)
{
    world_places_open();
    client_set_resend(world.client, 100000000);
    client_start(world.client, &question.request);
    world_run_ms(1);
    sim_kill(old_place.node);
    uint32_t maps = world.maps_seen;
    world_run_ms(2000);
    ck_assert_uint_ge(world.maps_seen - maps, 38);
    ck_assert_uint_le(world.maps_seen - maps, 42);
    world_run_ms(10000);
    maps = world.maps_seen;
    world_run_ms(3600 * 1000);
    ck_assert_uint_ge(world.maps_seen - maps, 3500);
    ck_assert_uint_le(world.maps_seen - maps, 3600);
    world_place_open(&old_place, "sim://old");
    old_place.answers = true;
    world_run_ms(1100);
    ck_assert_uint_ge(old_place.pings, 1);
    ck_assert_uint_eq(old_place.seen, 1);
    ck_assert_uint_eq(question.answers, 1);
    maps = world.maps_seen;
    world_run_ms(10000);
    ck_assert_uint_le(world.maps_seen, maps + 1);
}
END_TEST

/* _i 0: a request is lost with the place, and waits until the new one answers; 1: nothing is asked
 * of the shard while it is away, so nothing waits for it; 2: a request begins in that time. */
START_TEST(client_counts_how_long_a_request_is_without_its_shard)
{
    const uint64_t least_ms[] = {400, 0, 200}, most_ms[] = {460, 0, 260};
    world_places_open();
    if (_i == 0)
        client_start(world.client, &question.request);
    world_run_ms(1);
    sim_kill(old_place.node);
    world_run_ms(200);
    if (_i == 2)
        client_start(world.client, &question.request);
    world_run_ms(200);
    world.map_lines = "sim://peer\nsim://new\n";
    new_place.answers = true;
    world_run_ms(1000);
    if (_i == 1)
        client_start(world.client, &question.request);
    world_run_ms(100);
    ck_assert_uint_eq(question.answers, 1);
    ck_assert_uint_ge(client_absence_ns(world.client), least_ms[_i] * WORLD_MS);
    ck_assert_uint_le(client_absence_ns(world.client), most_ms[_i] * WORLD_MS);
}
END_TEST

/* Answers from before the end of the connection, and signs of life of a shard that does not lead,
 * do not end the search; an answer of another kind does. */
START_TEST(client_seeks_until_the_shard_leads)
{
    world_places_open();
    old_place.answers = true;
    old_place.status = SHOAL_E_NOT_LEADER;
    client_start(world.client, &question.request);
    world_run_ms(1000);
    client_ping(world.client);
    uint32_t maps = world.maps_seen;
    world_run_ms(500);
    ck_assert_uint_ge(world.maps_seen - maps, 9);
    old_place.status = 0;
    world_run_ms(1100);
    ck_assert_int_eq(question.status, 0);
    maps = world.maps_seen;
    world_run_ms(5000);
    ck_assert_uint_eq(world.maps_seen, maps);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("client_seek");
    TCase *c = suite_case(s, "client_seek", 100, world_setup, world_teardown);
    tcase_add_loop_test(c, client_finds_a_shard_at_its_new_place, 0, 2);
    tcase_add_test(c, client_finds_another_place_of_a_silent_shard);
    tcase_add_test(c, client_does_not_seek_a_shard_that_lives);
    tcase_add_test(c, client_asks_seldom_for_what_stays_away);
    tcase_add_loop_test(c, client_counts_how_long_a_request_is_without_its_shard, 0, 3);
    tcase_add_test(c, client_seeks_until_the_shard_leads);
    return suite_main(s);
}
