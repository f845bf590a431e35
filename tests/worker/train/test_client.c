/* test_client.c: what a client takes for a sign of its coordinator. */
#include "tests/lib/client_world.h"
#include "tests/lib/suite.h"

#include <check.h>

/* A message of a shard is no sign that the coordinator lives. */
START_TEST(client_hears_the_coordinator_alone)
{
    struct wire w = {.type = WIRE_TYPE_PULL, .reply = true, .id = 99, .status = SHOAL_E_BUSY};
    world_run_ms(50);
    uint64_t heard = client_heard_ns(world.client);
    client_message(world.client, UINT64_C(1) << 40, wire_encode(&w));
    ck_assert_uint_eq(client_heard_ns(world.client), heard);
    client_start(world.client, &question.request);
    world_run_ms(50);
    ck_assert_uint_gt(client_heard_ns(world.client), heard);
}
END_TEST

/* It is no sign of life either. */
START_TEST(client_takes_no_question_for_an_answer)
{
    world.echoes = true;
    world.answers_each = 0;
    client_start(world.client, &question.request);
    world_run_ms(500);
    ck_assert_uint_eq(question.answers, 0);
    ck_assert_uint_eq(client_heard_ns(world.client), 0);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("client");
    TCase *c = suite_case(s, "client", 100, world_setup, world_teardown);
    tcase_add_test(c, client_hears_the_coordinator_alone);
    tcase_add_test(c, client_takes_no_question_for_an_answer);
    return suite_main(s);
}
