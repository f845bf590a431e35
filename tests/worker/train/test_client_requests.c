/* test_client_requests.c: requests in flight: sent again, answered once, held back. */
#include "tests/lib/client_world.h"
#include "tests/lib/suite.h"

#include <check.h>

START_TEST(client_answers_once)
{
    world.answers_each = 3; /* late copies of an answer are dropped */
    client_start(world.client, &question.request);
    world_run_ms(100);
    ck_assert_uint_eq(question.answers, 1);
    ck_assert(!request_active(&question.request));
    ck_assert_uint_gt(client_heard_ns(world.client), 0);
    world_run_ms(5000);
    ck_assert_uint_eq(world.seen, 1);
}
END_TEST

START_TEST(client_sends_again_with_the_same_id)
{
    world.silent[0] = world.silent[1] = true;
    client_set_resend(world.client, 200);
    client_start(world.client, &question.request);
    world_run_ms(1000);
    ck_assert_uint_eq(world.seen, 3);
    ck_assert_uint_eq(world.id[0], world.id[2]);
    ck_assert_uint_eq(world.at_ms[1] - world.at_ms[0], 200);
    ck_assert_uint_eq(question.answers, 1);
}
END_TEST

START_TEST(client_pauses_when_told_later)
{
    for (int i = 0; i < 4; i++)
        world.status[i] = SHOAL_E_BUSY;
    client_start(world.client, &question.request);
    world_run_ms(3000);
    ck_assert_uint_eq(world.seen, 5);
    ck_assert_uint_ge(world.at_ms[1] - world.at_ms[0], 50);
    ck_assert_uint_ge(world.at_ms[4] - world.at_ms[3], 400);
    ck_assert_int_eq(question.status, 0);
}
END_TEST

/* Temporary errors are retried; any other error goes to the caller. */
START_TEST(client_knows_what_passes)
{
    static const int passes[] = {SHOAL_E_BUSY,        SHOAL_E_AGAIN,    SHOAL_E_NO_SPACE,
                                 SHOAL_E_TIMEOUT,     SHOAL_E_NO_TABLE, SHOAL_E_IO,
                                 SHOAL_E_UNAVAILABLE, SHOAL_E_NOMEM,    SHOAL_E_STOPPED},
                     stays[] = {0,
                                SHOAL_E_FENCED,
                                SHOAL_E_OLD_RUN,
                                SHOAL_E_GAP,
                                SHOAL_E_SCHEMA,
                                SHOAL_E_MALFORMED,
                                SHOAL_E_NOT_LEADER,
                                SHOAL_E_NOT_FINITE,
                                SHOAL_E_DENIED,
                                SHOAL_E_VERSION};
    for (size_t i = 0; i < sizeof passes / sizeof passes[0]; i++)
        ck_assert_msg(client_passing(passes[i]), "%s", err_text(passes[i]));
    for (size_t i = 0; i < sizeof stays / sizeof stays[0]; i++)
        ck_assert_msg(!client_passing(stays[i]), "%s", err_text(stays[i]));
}
END_TEST

START_TEST(client_ids_grow)
{
    client_start(world.client, &question.request);
    client_start(world.client, &other.request);
    world_run_ms(10);
    client_start(world.client, &question.request);
    world_run_ms(10);
    ck_assert_uint_eq(world.seen, 3);
    ck_assert_uint_lt(world.id[0], world.id[1]);
    ck_assert_uint_lt(world.id[1], world.id[2]);
}
END_TEST

/* The pause between unanswered requests grows up to eight times; any answer, even a refusal, resets
 * it. */
START_TEST(client_slows_down_while_nothing_comes)
{
    static const uint64_t gap[] = {100, 100, 100, 200, 400, 800, 800, 800};
    for (int i = 0; i < 12; i++)
        world.silent[i] = i != 8;
    world.status[8] = SHOAL_E_BUSY;
    client_set_resend(world.client, 100);
    client_start(world.client, &question.request);
    world_run_ms(5000);
    for (int i = 0; i < 8; i++)
        ck_assert_uint_eq(world.at_ms[i + 1] - world.at_ms[i], gap[i]);
    ck_assert_uint_eq(world.at_ms[9] - world.at_ms[8], 50);
    for (int i = 0; i < 3; i++)
        ck_assert_uint_eq(world.at_ms[i + 10] - world.at_ms[i + 9], gap[i]);
    ck_assert_uint_eq(question.answers, 2);
}
END_TEST

/* The pause between refused requests doubles, up to a second; the next question resets it. */
START_TEST(client_pauses_a_second_at_most)
{
    static const uint64_t pause[] = {50, 100, 200, 400, 800, 1000, 1000, 1000};
    for (int i = 0; i < 8; i++)
        world.status[i] = SHOAL_E_BUSY;
    world.status[9] = SHOAL_E_BUSY;
    world.silent[10] = true;
    client_set_resend(world.client, 300);
    client_start(world.client, &question.request);
    world_run_ms(6000);
    ck_assert_uint_eq(world.seen, 9);
    for (int i = 0; i < 8; i++) {
        uint64_t gap = world.at_ms[i + 1] - world.at_ms[i];
        ck_assert(gap >= pause[i] && gap <= pause[i] + 1); /* and the time of the message */
    }
    client_start(world.client, &question.request);
    world_run_ms(1000);
    ck_assert_uint_eq(world.seen, 12);
    ck_assert_uint_le(world.at_ms[10] - world.at_ms[9], 51);
    ck_assert_uint_eq(world.at_ms[11] - world.at_ms[10], 300);
}
END_TEST

/* A cancelled request that was not answered starts with the shortest pause again. */
START_TEST(client_asks_as_before_what_was_given_up)
{
    for (int i = 0; i < 16; i++)
        world.silent[i] = true;
    client_set_resend(world.client, 100);
    client_start(world.client, &question.request);
    world_run_ms(1000);
    uint32_t before = world.seen;
    ck_assert_uint_ge(before, 5);
    client_cancel(world.client, &question.request);
    client_start(world.client, &question.request);
    world_run_ms(350);
    ck_assert_uint_eq(world.seen, before + 4);
}
END_TEST

/* A request with a pause of its own always waits that long. */
START_TEST(client_pauses_as_a_request_says)
{
    for (int i = 0; i < 8; i++)
        world.status[i] = SHOAL_E_BUSY;
    question.request.pause_ms = 30;
    client_start(world.client, &question.request);
    world_run_ms(1000);
    ck_assert_uint_eq(world.seen, 9);
    for (int i = 0; i < 8; i++)
        ck_assert_uint_le(world.at_ms[i + 1] - world.at_ms[i], 31);
}
END_TEST

/* A request that is no write is not repeated. */
START_TEST(client_that_may_write_again_sends_writes)
{
    world.silent[0] = true;
    client_start(world.client, &other.request);
    question.request.write = true;
    client_mute(world.client, true);
    client_start(world.client, &question.request);
    world_run_ms(10);
    ck_assert_uint_eq(world.seen, 1);
    client_mute(world.client, false);
    world_run_ms(10);
    ck_assert_uint_eq(world.seen, 2);
    ck_assert_uint_eq(question.answers, 1);
    ck_assert_uint_eq(other.answers, 0);
}
END_TEST

START_TEST(client_forgets_what_is_cancelled)
{
    client_start(world.client, &question.request);
    client_cancel(world.client, &question.request);
    client_cancel(world.client, &question.request);
    world_run_ms(5000);
    ck_assert_uint_eq(question.answers, 0);
    ck_assert_uint_eq(world.seen, 1);
}
END_TEST

START_TEST(client_is_not_fooled_by_another_type)
{
    question.request.type = WIRE_TYPE_INDEX_DONE; /* the answers come as WORKER_BEAT */
    client_start(world.client, &question.request);
    world_run_ms(500);
    ck_assert_uint_eq(question.answers, 0);
}
END_TEST

START_TEST(client_is_not_fooled_by_another_sender)
{
    world.silent[0] = true;
    client_start(world.client, &question.request);
    world_run_ms(10);
    struct wire w = {.type = WIRE_TYPE_WORKER_BEAT, .reply = true, .id = question.request.id};
    ck_assert_uint_ne(w.id, 0);
    client_message(world.client, UINT64_C(1) << 40, wire_encode(&w));
    ck_assert_uint_eq(question.answers, 0);
    world_run_ms(1000); /* asked again, and answered by the right peer */
    ck_assert_uint_eq(question.answers, 1);
}
END_TEST

START_TEST(client_muted_holds_writes_back)
{
    question.request.write = true;
    client_mute(world.client, true);
    client_start(world.client, &question.request);
    client_start(world.client, &other.request);
    world_run_ms(3000);
    ck_assert_uint_eq(world.seen, 1);
    ck_assert_uint_eq(other.answers, 1);
    client_mute(world.client, false);
    world_run_ms(10);
    ck_assert_uint_eq(question.answers, 1);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("client_requests");
    TCase *c = suite_case(s, "client_requests", 100, world_setup, world_teardown);
    tcase_add_test(c, client_answers_once);
    tcase_add_test(c, client_sends_again_with_the_same_id);
    tcase_add_test(c, client_pauses_when_told_later);
    tcase_add_test(c, client_knows_what_passes);
    tcase_add_test(c, client_ids_grow);
    tcase_add_test(c, client_slows_down_while_nothing_comes);
    tcase_add_test(c, client_pauses_a_second_at_most);
    tcase_add_test(c, client_asks_as_before_what_was_given_up);
    tcase_add_test(c, client_pauses_as_a_request_says);
    tcase_add_test(c, client_that_may_write_again_sends_writes);
    tcase_add_test(c, client_forgets_what_is_cancelled);
    tcase_add_test(c, client_is_not_fooled_by_another_type);
    tcase_add_test(c, client_is_not_fooled_by_another_sender);
    tcase_add_test(c, client_muted_holds_writes_back);
    return suite_main(s);
}
