/* test_coordinators.c: the coordinator of a list that is asked, in the simulator, against
 * coordinators that lead, stand by, are silent or dead. */
#include "proto/base/container_of.h"
#include "proto/wire/coordinators.h"
#include "tests/lib/suite.h"
#include "tests/sim/sim.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

#define MS UINT64_C(1000000)

/* ---- a client of three coordinators ---------------------------------------------------------- */

static struct {
    struct sim *sim;
    struct sim_node *node[3], *own;
    const char *says[3]; /* NULL: it leads; "": it answers a HELLO alone; else its refusal */
    uint32_t asked[3], hellos[3], answers, moves;
    struct coordinators c;
} world;

static void on_message(void *core, peer_t from, struct msg *m)
{
    struct wire w;
    struct err e;
    uint32_t i = (uint32_t)((struct sim_node **)core - world.node);
    ck_assert_int_eq(wire_decode(m, &w, &e), 0);
    msg_free(m);
    bool hello = w.type == WIRE_TYPE_HELLO;
    world.hellos[i] += hello;
    world.asked[i] += !hello;
    struct msg *out;
    struct wire reply;
    wire_reply_to(&w, 0, &reply);
    if (world.says[i] == NULL || (world.says[i][0] == '\0' && hello))
        out = wire_encode(&reply);
    else if (world.says[i][0] == 0)
        return;
    else
        out = wire_refusal(&w, SHOAL_E_NOT_LEADER, "%s", world.says[i]);
    env_send(sim_node_env(world.node[i]), from, out);
}

static void ask(void)
{
    struct wire w = {.type = WIRE_TYPE_SERVER_DISK, .id = 7};
    env_send(world.c.env, world.c.peer, wire_encode(&w));
    coordinators_asked(&world.c);
}

static void own_on_message(void *core, peer_t from, struct msg *m)
{
    struct wire w;
    struct err e;
    (void)core;
    ck_assert_int_eq(wire_decode(m, &w, &e), 0);
    msg_free(m);
    if (!coordinators_heard(&world.c, from, &w) && w.type == WIRE_TYPE_SERVER_DISK)
        world.answers++;
}

static void own_on_gone(void *core, peer_t peer)
{
    (void)core;
    coordinators_gone(&world.c, peer);
}

static void on_drained(void *core)
{
    (void)core;
}

static void moved(struct coordinators *c, peer_t before)
{
    ck_assert_ptr_eq(c, &world.c);
    ck_assert_uint_ne(before, c->peer);
    world.moves++;
    ask();
}

static const struct env_handler handler = {on_message, on_drained, NULL},
                                own_handler = {own_on_message, on_drained, own_on_gone};

static void listens(uint32_t i)
{
    char endpoint[16];
    (void)snprintf(endpoint, sizeof endpoint, "sim://%c", 'a' + (int)i);
    world.node[i] = sim_node_new(world.sim, endpoint, &handler, &world.node[i]);
    sim_listen(world.node[i], endpoint);
}

static void begin(const char *list)
{
    const struct sim_options options = {.seed = 1, .delay_min_ns = MS, .delay_max_ns = 2 * MS};
    struct err e;
    memset(&world, 0, sizeof world);
    world.sim = sim_new(&options);
    for (uint32_t i = 0; i < 3; i++)
        listens(i);
    world.own = sim_node_new(world.sim, "own", &own_handler, NULL);
    world.c.moved = moved;
    ck_assert_int_eq(coordinators_open(&world.c, sim_node_env(world.own), list, &e), 0);
    ask();
}

static bool answered(void *context)
{
    return world.answers >= *(uint32_t *)context;
}

/* Runs until there are `answers`; returns after how many ms, or `most_ms`. */
static uint64_t run(uint32_t answers, uint64_t most_ms)
{
    uint64_t begun_ns = sim_now_ns(world.sim);
    sim_run(world.sim, begun_ns + most_ms * MS, answered, &answers);
    return (sim_now_ns(world.sim) - begun_ns) / MS;
}

static void end(void)
{
    coordinators_close(&world.c);
    sim_free(world.sim);
}

/* ---- the list -------------------------------------------------------------------------------- */

START_TEST(a_list_has_one_to_five_endpoints)
{
    static const char *const bad[] = {"",
                                      "a:1",
                                      "tcp://a:1,",
                                      ",tcp://a:1",
                                      "tcp://a:1,,tcp://b:1",
                                      "tcp://a:1 ; b:1,c",
                                      "x://1,x://2,x://3,x://4,x://5,x://6"};
    struct coordinators c;
    struct err e;
    ck_assert_int_eq(coordinators_parse("tcp://a:1, tcp://b:2,ipc:///c", &c, &e), 0);
    ck_assert_uint_eq(c.count, 3);
    ck_assert_str_eq(c.endpoint[0], "tcp://a:1");
    ck_assert_str_eq(c.endpoint[1], "tcp://b:2");
    ck_assert_str_eq(c.endpoint[2], "ipc:///c");
    ck_assert_int_eq(coordinators_parse("x://1,x://2,x://3,x://4,x://5", &c, &e), 0);
    ck_assert_uint_eq(c.count, 5);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        ck_assert_int_eq(coordinators_parse(bad[i], &c, &e), SHOAL_E_CONFIG);
    char longer[2 * COORDINATORS_BYTES];
    memset(longer, 'x', sizeof longer);
    memcpy(longer, "tcp://", 6);
    longer[COORDINATORS_BYTES] = 0;
    ck_assert_int_eq(coordinators_parse(longer, &c, &e), SHOAL_E_CONFIG);
    longer[COORDINATORS_BYTES - 1] = 0;
    ck_assert_int_eq(coordinators_parse(longer, &c, &e), 0);
}
END_TEST

START_TEST(tcp_is_found_anywhere_in_the_list)
{
    ck_assert(coordinators_tcp("tcp://a:1"));
    ck_assert(coordinators_tcp("ipc:///a,tcp://b:1"));
    ck_assert(!coordinators_tcp("ipc:///a,ipc:///b"));
}
END_TEST

/* A stand-in for name_toward: one machine alone has an address. */
static int toward_b(const char *endpoint, char address[64], struct err *e)
{
    if (strcmp(endpoint, "tcp://b:1") != 0)
        return err_set(e, SHOAL_E_UNAVAILABLE, "no way to %s", endpoint);
    memcpy(address, "10.0.0.7", sizeof "10.0.0.7");
    return 0;
}

START_TEST(the_address_towards_any_of_the_list_counts)
{
    char address[64] = "";
    struct err e = {0};
    ck_assert_int_eq(coordinators_toward("tcp://a:1,tcp://b:1", toward_b, address, &e), 0);
    ck_assert_str_eq(address, "10.0.0.7");
    ck_assert_int_eq(coordinators_toward("tcp://a:1,tcp://c:1", toward_b, address, &e),
                     SHOAL_E_UNAVAILABLE);
    ck_assert_str_eq(e.text, "no way to tcp://c:1");
    ck_assert_int_eq(coordinators_toward("tcp", toward_b, address, &e), SHOAL_E_CONFIG);
}
END_TEST

/* ---- refusals -------------------------------------------------------------------------------- */

START_TEST(the_one_that_a_refusal_names_is_asked_at_once)
{
    begin("sim://a,sim://b,sim://c");
    world.says[0] = "the coordinator at sim://c leads";
    ck_assert_uint_lt(run(1, 1000), 20);
    ck_assert_uint_eq(world.answers, 1);
    ck_assert_str_eq(coordinators_endpoint(&world.c), "sim://c");
    ck_assert_uint_eq(world.asked[1], 0);
    end();
}
END_TEST

START_TEST(an_endpoint_outside_the_list_is_not_followed)
{
    begin("sim://a,sim://b");
    world.says[0] = world.says[1] = "the coordinator at sim://c leads";
    ck_assert_uint_eq(run(1, 3000), 3000);
    ck_assert_uint_eq(world.asked[2] + world.hellos[2], 0);
    ck_assert_uint_ge(world.asked[1], 5); /* the next one of the list is asked */
    world.says[1] = NULL;
    ck_assert_uint_lt(run(1, 1000), 400);
    ck_assert_str_eq(coordinators_endpoint(&world.c), "sim://b");
    end();
}
END_TEST

START_TEST(while_none_leads_the_list_is_asked_at_a_bounded_rate)
{
    begin("sim://a,sim://b");
    world.says[0] = world.says[1] = COORDINATORS_NONE;
    (void)run(1, 2500);
    ck_assert_uint_ge(world.moves, 20);
    ck_assert_uint_le(world.moves, 25);
    (void)run(1, 57500); /* seldom, after a while */
    ck_assert_uint_le(world.moves, 64 + 60);
    ck_assert_uint_ge(world.moves, 64 + 45);
    world.says[1] = NULL;
    ck_assert_uint_lt(run(1, 10000), 2200);
    uint32_t moves = world.moves;
    (void)run(2, 5000); /* it stays */
    ck_assert_uint_eq(world.moves, moves);
    end();
}
END_TEST

START_TEST(a_list_of_one_waits_until_it_leads)
{
    begin("sim://a");
    peer_t peer = world.c.peer;
    world.says[0] = _i == 0 ? COORDINATORS_NONE : "the coordinator at sim://b leads";
    (void)run(1, 2000);
    ck_assert_uint_eq(world.answers, 0);
    world.says[0] = NULL;
    ck_assert_uint_lt(run(1, 1000), 150);
    ck_assert_uint_eq(world.c.peer, peer);
    ck_assert_uint_eq(world.asked[1], 0);
    end();
}
END_TEST

/* Other refusals with this status, such as that of a term that is over, are answers. */
START_TEST(another_refusal_is_an_answer)
{
    static const char *const says[] = {"the term is over", "the coordinator at  leads",
                                       "the coordinator at sim://b leads no more",
                                       "no coordinator leads yet: no"};
    begin("sim://a,sim://b");
    world.says[0] = says[_i];
    ck_assert_uint_lt(run(1, 1000), 20);
    ck_assert_uint_eq(world.answers, 1);
    (void)run(2, 3000);
    ck_assert_uint_eq(world.moves, 0);
    end();
}
END_TEST

/* ---- deaths ---------------------------------------------------------------------------------- */

START_TEST(a_closed_connection_goes_to_the_next_one)
{
    begin("sim://a,sim://b");
    (void)run(1, 1000);
    sim_kill(world.node[0]);
    ck_assert_uint_lt(run(2, 1000), 20);
    ck_assert_str_eq(coordinators_endpoint(&world.c), "sim://b");
    listens(0);
    sim_kill(world.node[1]);
    ck_assert_uint_lt(run(3, 1000), 200);
    ck_assert_str_eq(coordinators_endpoint(&world.c), "sim://a");
    end();
}
END_TEST

START_TEST(silence_goes_to_the_next_one_after_a_second)
{
    begin("sim://a,sim://b");
    (void)run(1, 1000);
    sim_cut(world.own, world.node[0], UINT64_MAX);
    (void)run(2, 3000); /* an idle connection owes nothing */
    ck_assert_uint_eq(world.moves, 0);
    ask();
    uint64_t took_ms = run(2, 5000);
    ck_assert_uint_ge(took_ms, 900);
    ck_assert_uint_le(took_ms, 1200);
    ck_assert_str_eq(coordinators_endpoint(&world.c), "sim://b");
    end();
}
END_TEST

START_TEST(a_slow_answer_keeps_the_connection)
{
    begin("sim://a,sim://b");
    world.says[0] = "";
    for (uint32_t i = 0; i < 8; i++) {
        (void)run(1, 1000);
        ask();
    }
    ck_assert_uint_ge(world.hellos[0], 4);
    ck_assert_uint_eq(world.moves, 0);
    end();
}
END_TEST

START_TEST(a_list_of_one_keeps_its_connection)
{
    begin("sim://a");
    peer_t peer = world.c.peer;
    sim_cut(world.own, world.node[0], 5000 * MS);
    (void)run(2, 3000);
    sim_kill(world.node[0]);
    (void)run(2, 3000);
    listens(0);
    ask();
    ck_assert_uint_lt(run(2, 1000), 20);
    ck_assert_uint_eq(world.c.peer, peer);
    ck_assert_uint_eq(world.moves + world.hellos[0], 0);
    end();
}
END_TEST

int main(void)
{
    Suite *s = suite_create("coordinators");
    TCase *t = suite_case(s, "coordinators", 30, NULL, NULL);
    tcase_add_test(t, a_list_has_one_to_five_endpoints);
    tcase_add_test(t, tcp_is_found_anywhere_in_the_list);
    tcase_add_test(t, the_address_towards_any_of_the_list_counts);
    tcase_add_test(t, the_one_that_a_refusal_names_is_asked_at_once);
    tcase_add_test(t, an_endpoint_outside_the_list_is_not_followed);
    tcase_add_test(t, while_none_leads_the_list_is_asked_at_a_bounded_rate);
    tcase_add_loop_test(t, a_list_of_one_waits_until_it_leads, 0, 2);
    tcase_add_loop_test(t, another_refusal_is_an_answer, 0, 4);
    tcase_add_test(t, a_closed_connection_goes_to_the_next_one);
    tcase_add_test(t, silence_goes_to_the_next_one_after_a_second);
    tcase_add_test(t, a_slow_answer_keeps_the_connection);
    tcase_add_test(t, a_list_of_one_keeps_its_connection);
    return suite_main(s);
}
