/* test_client_ping.c: pings to shards. */
#include "tests/lib/client_world.h"
#include "tests/lib/suite.h"

#include <check.h>

/* Neither a pull that waits for other lanes nor an unreachable shard sends an answer: signs of life
 * tell them apart. */
START_TEST(client_knows_which_shard_owes_a_sign_of_life)
{
    struct client_reach reach;
    uint64_t late_ns, round_ns;
    client_map_refresh(world.client);
    world_run_ms(100);
    ck_assert_ptr_nonnull(client_map(world.client));
    world.lives = true;
    for (uint32_t beat = 0; beat < 3; beat++) {
        client_reach(world.client, &reach);
        ck_assert_uint_eq(reach.slow_us, 0); /* too few answers to tell */
        client_ping(world.client);
        world_run_ms(100);
    }
    client_reach(world.client, &reach);
    ck_assert_uint_eq(reach.late_ns, 0);
    ck_assert_uint_gt(reach.slow_us, 0);
    ck_assert_uint_le(reach.slow_us, 100000);
    world.lives = false;
    for (uint32_t beat = 0; beat < 5; beat++) {
        client_ping(world.client);
        world_run_ms(1000);
    }
    client_reach(world.client, &reach);
    ck_assert_uint_eq(reach.late_ns / WORLD_MS, 5000); /* since the first one, not the last */
    ck_assert(client_way(world.client, reach.late_shard, &late_ns, &round_ns));
    ck_assert_uint_eq(late_ns, reach.late_ns);
    ck_assert_uint_gt(round_ns, 0); /* of its last answer */
    ck_assert(
        !client_way(world.client, client_map(world.client)->shard_count, &late_ns, &round_ns));
    ck_assert(!reach.unnamed);
    world.lives = true;
    client_ping(world.client);
    world_run_ms(100);
    client_reach(world.client, &reach);
    ck_assert_uint_eq(reach.late_ns, 0);
}
END_TEST

/* The name of a silent shard is looked up; a shard that answers has an address. */
START_TEST(client_tells_a_shard_whose_name_has_no_address)
{
    struct client_reach reach;
    client_map_refresh(world.client);
    world_run_ms(100);
    world.name_status = SHOAL_E_UNAVAILABLE;
    for (uint32_t beat = 0; beat < 2; beat++) {
        client_reach(world.client, &reach);
        ck_assert(!reach.unnamed);
        client_ping(world.client);
        world_run_ms(1000);
    }
    client_reach(world.client, &reach);
    ck_assert(reach.unnamed);
    world.lives = true;
    client_ping(world.client);
    world_run_ms(100);
    client_reach(world.client, &reach);
    ck_assert(!reach.unnamed);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("client_ping");
    TCase *c = suite_case(s, "client_ping", 100, world_setup, world_teardown);
    tcase_add_test(c, client_knows_which_shard_owes_a_sign_of_life);
    tcase_add_test(c, client_tells_a_shard_whose_name_has_no_address);
    return suite_main(s);
}
