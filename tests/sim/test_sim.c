/* test_sim.c: tests of the simulation: the same seed gives the same run, and faults have their
 * stated effects. */
#include "proto/base/container_of.h"
#include "proto/base/err.h"
#include "tests/sim/sim.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#define MS UINT64_C(1000000)
#define SECOND (1000 * MS)
#define LOG_MAX 4096

/* A core that records the messages that it gets and, if told to, replies. */
struct node {
    struct sim_node *sim;
    struct env *env;
    bool echo, stop_on_message, hang_up;
    uint32_t heard, drained, gone, fired, worked;
    peer_t gone_peer;
    uint64_t gone_ns;
    uint64_t value[LOG_MAX];
    peer_t from[LOG_MAX];
    uint64_t at_ns[LOG_MAX];
    int reply_rc;
    struct env_timer timer;
    struct env_work work;
    bool ran;
    struct env_probe probe;
    uint32_t probed;
    uint64_t probed_ns;
};

static struct msg *message(uint64_t value, size_t bulk_bytes)
{
    struct msg *m = msg_new();
    memcpy(msg_add(m, 8), &value, 8);
    if (bulk_bytes > 0)
        memset(msg_add(m, bulk_bytes), (int)(value & 0xff), bulk_bytes);
    return m;
}

static void on_message(void *core, peer_t from, struct msg *m)
{
    struct node *n = core;
    ck_assert_uint_lt(n->heard, LOG_MAX);
    memcpy(&n->value[n->heard], m->frame[0].data, 8);
    n->from[n->heard] = from;
    n->at_ns[n->heard] = env_now_ns(n->env);
    n->heard++;
    if (n->hang_up)
        env_disconnect(n->env, from);
    if (n->echo)
        n->reply_rc = env_send(n->env, from, m);
    else
        msg_free(m);
    if (n->stop_on_message)
        env_stop(n->env);
}

static void on_drained(void *core)
{
    struct node *n = core;
    n->drained++;
}

static void on_peer_gone(void *core, peer_t peer)
{
    struct node *n = core;
    n->gone++;
    n->gone_peer = peer;
    n->gone_ns = env_now_ns(n->env);
}

static const struct env_handler handler = {on_message, on_drained, on_peer_gone};

static void fire(struct env_timer *t)
{
    struct node *n = container_of(t, struct node, timer);
    ck_assert_uint_eq(t->due_ns, 0);
    n->fired++;
}

static void run(struct env_work *w)
{
    struct node *n = container_of(w, struct node, work);
    n->ran = true;
}

static void done(struct env_work *w)
{
    struct node *n = container_of(w, struct node, work);
    ck_assert(n->ran);
    n->worked++;
}

static void probe_done(struct env_probe *p)
{
    struct node *n = container_of(p, struct node, probe);
    ck_assert_ptr_null(p->impl);
    n->probed++;
    n->probed_ns = env_now_ns(n->env);
}

static struct node *node_new(struct sim *s, const char *name, const char *endpoint)
{
    struct node *n = calloc(1, sizeof(*n));
    n->sim = sim_node_new(s, name, &handler, n);
    n->env = sim_node_env(n->sim);
    n->timer.fire = fire;
    n->probe.done = probe_done;
    n->work.run = run;
    n->work.done = done;
    if (endpoint != NULL)
        sim_listen(n->sim, endpoint);
    return n;
}

static peer_t connect_to(struct node *n, const char *endpoint)
{
    peer_t peer = 0;
    ck_assert_int_eq(env_connect(n->env, endpoint, ENV_COORDINATOR, &peer), 0);
    ck_assert_uint_ne(peer, 0);
    return peer;
}

START_TEST(sim_request_and_reply_take_their_time)
{
    struct sim *s =
        sim_new(&(struct sim_options){.seed = 1, .delay_min_ns = 2 * MS, .delay_max_ns = 2 * MS});
    struct node *server = node_new(s, "server", "sim://server"),
                *client = node_new(s, "client", NULL);
    server->echo = true;
    peer_t peer = connect_to(client, "sim://server");
    ck_assert_int_eq(env_send(client->env, peer, message(7, 1000)), 0);
    ck_assert_uint_eq(client->heard + server->heard, 0); /* a send delivers nothing by itself */
    ck_assert(!sim_run(s, SECOND, NULL, NULL));
    ck_assert_uint_eq(sim_now_ns(s), SECOND);
    ck_assert_uint_eq(server->at_ns[0], 2 * MS);
    ck_assert_uint_eq(client->at_ns[0], 4 * MS);
    ck_assert_uint_eq(client->value[0], 7);
    ck_assert_uint_eq(client->from[0], peer);
    ck_assert_uint_eq(server->drained, 1);
    ck_assert(!sim_step(s));
    ck_assert_int_eq(env_send(client->env, peer + 1, message(7, 0)),
                     SHOAL_E_UNAVAILABLE); /* a name that the server uses */
    ck_assert_int_eq(env_send(client->env, 999, message(7, 0)), SHOAL_E_UNAVAILABLE);
    sim_free(s);
    free(server);
    free(client);
    ck_assert_uint_eq(msg_frames_live(), 0);
}
END_TEST

/* A small busy simulation under faults; the trace shows its course. */
static uint64_t world(uint64_t seed, uint64_t other_value)
{
    struct sim *s = sim_new(&(struct sim_options){.seed = seed,
                                                  .drop = 0.1,
                                                  .duplicate = 0.1,
                                                  .delay_min_ns = MS,
                                                  .delay_max_ns = 50 * MS,
                                                  .reorder = true,
                                                  .work_min_ns = MS,
                                                  .work_max_ns = 9 * MS});
    struct node *server = node_new(s, "server", "sim://server"), *client[3];
    server->echo = true;
    peer_t peer[3];
    for (int i = 0; i < 3; i++) {
        client[i] = node_new(s, "client", NULL);
        peer[i] = connect_to(client[i], "sim://server");
        env_timer_start(client[i]->env, &client[i]->timer,
                        5 * MS + env_random(client[i]->env) % MS);
        env_work_start(client[i]->env, &client[i]->work);
    }
    for (uint64_t k = 0; k < 100; k++) {
        for (int i = 0; i < 3; i++) {
            env_send(client[i]->env, peer[i],
                     message(k * 3 + (uint64_t)i + (k == 99 ? other_value : 0), 0));
        }
        sim_run(s, sim_now_ns(s) + MS, NULL, NULL);
    }
    sim_kill(client[2]->sim);
    sim_run(s, SECOND, NULL, NULL);
    uint64_t trace = sim_trace(s);
    sim_free(s);
    free(server);
    for (int i = 0; i < 3; i++)
        free(client[i]);
    return trace;
}

START_TEST(sim_trace_is_a_function_of_the_seed)
{
    for (uint64_t seed = 0; seed < 20; seed++) {
        ck_assert_uint_eq(world(seed, 0), world(seed, 0));
        ck_assert_uint_ne(world(seed, 0), world(seed + 1, 0));
        ck_assert_uint_ne(world(seed, 0), world(seed, 5)); /* other bytes give another trace */
    }
    ck_assert_uint_eq(msg_frames_live(), 0);
}
END_TEST

START_TEST(sim_connections_are_in_order_unless_reordered)
{
    for (int reorder = 0; reorder < 2; reorder++) {
        struct sim *s =
            sim_new(&(struct sim_options){.seed = 5, .delay_max_ns = 100 * MS, .reorder = reorder});
        struct node *server = node_new(s, "server", "sim://server"),
                    *client = node_new(s, "client", NULL);
        peer_t peer = connect_to(client, "sim://server");
        for (uint64_t i = 0; i < 200; i++)
            ck_assert_int_eq(env_send(client->env, peer, message(i, 0)), 0);
        sim_run(s, SECOND, NULL, NULL);
        ck_assert_uint_eq(server->heard, 200);
        uint32_t backwards = 0;
        for (uint32_t i = 1; i < 200; i++)
            backwards += server->value[i] < server->value[i - 1];
        ck_assert(reorder ? backwards > 20 : backwards == 0);
        sim_free(s);
        free(server);
        free(client);
    }
}
END_TEST

START_TEST(sim_drops_and_duplicates_their_share)
{
    struct sim *s = sim_new(&(struct sim_options){.seed = 6, .drop = 0.3, .delay_max_ns = MS});
    struct node *server = node_new(s, "server", "sim://server"),
                *client = node_new(s, "client", NULL);
    peer_t peer = connect_to(client, "sim://server");
    for (uint64_t i = 0; i < 1000; i++) {
        env_send(client->env, peer, message(i, 0));
        sim_run(s, sim_now_ns(s) + MS, NULL, NULL);
    }
    ck_assert_uint_ge(server->heard, 700 - 75);
    ck_assert_uint_le(server->heard, 700 + 75);
    server->heard = 0;
    sim_faults(s, 0, 0.4);
    for (uint64_t i = 0; i < 1000; i++) {
        env_send(client->env, peer, message(i, 10));
        sim_run(s, sim_now_ns(s) + MS, NULL, NULL);
    }
    ck_assert_uint_ge(server->heard, 1400 - 80);
    ck_assert_uint_le(server->heard, 1400 + 80);
    server->heard = 0;
    sim_faults(s, 0, 0);
    for (uint64_t i = 0; i < 1000; i++) {
        env_send(client->env, peer, message(i, 0));
        sim_run(s, sim_now_ns(s) + MS, NULL, NULL);
    }
    ck_assert_uint_eq(server->heard, 1000);
    sim_free(s);
    free(server);
    free(client);
    ck_assert_uint_eq(msg_frames_live(), 0);
}
END_TEST

START_TEST(sim_killed_node_gets_nothing)
{
    struct sim *s = sim_new(&(struct sim_options){
        .seed = 7, .delay_min_ns = 10 * MS, .delay_max_ns = 10 * MS, .work_max_ns = MS});
    struct node *server = node_new(s, "server", "sim://server"),
                *client = node_new(s, "client", NULL);
    peer_t peer = connect_to(client, "sim://server");
    ck_assert_int_eq(env_send(client->env, peer, message(1, 0)), 0);
    sim_run(s, 20 * MS, NULL, NULL);
    ck_assert_uint_eq(server->heard, 1);
    peer_t old_name = server->from[0];
    env_timer_start(server->env, &server->timer, 5 * MS);
    env_work_start(server->env, &server->work);
    ck_assert_int_eq(env_send(client->env, peer, message(2, 0)), 0); /* in flight */
    sim_kill(server->sim);
    env_timer_stop(server->env, &server->timer); /* a core may still call this while it is freed */
    env_timer_start(server->env, &server->timer, MS);
    ck_assert_int_eq(env_send(server->env, old_name, message(3, 0)), SHOAL_E_UNAVAILABLE);
    /* no node listens: the message is lost */
    ck_assert_int_eq(env_send(client->env, peer, message(4, 0)), 0);
    struct node *again = node_new(s, "server", "sim://server");
    again->echo = true;
    sim_run(s, SECOND, NULL, NULL);
    ck_assert_uint_eq(server->heard, 1);
    ck_assert_uint_eq(server->fired + server->worked, 0);
    ck_assert_uint_eq(again->heard, 0); /* messages for the dead node are lost */
    ck_assert_int_eq(env_send(client->env, peer, message(5, 0)), 0);
    sim_run(s, 2 * SECOND, NULL, NULL);
    ck_assert_uint_eq(again->heard, 1);
    ck_assert_uint_eq(again->value[0], 5);
    ck_assert_uint_ne(again->from[0], old_name);
    ck_assert_uint_eq(client->heard, 1); /* the reply arrives on the old connection */
    ck_assert_uint_eq(client->from[0], peer);
    sim_kill(client->sim);
    /* a dead peer is silent */
    ck_assert_int_eq(env_send(again->env, again->from[0], message(6, 0)), 0);
    sim_run(s, 3 * SECOND, NULL, NULL);
    ck_assert_uint_eq(client->heard, 1);
    sim_free(s);
    free(server);
    free(again);
    free(client);
    ck_assert_uint_eq(msg_frames_live(), 0);
}
END_TEST

START_TEST(sim_timers_and_work_follow_the_virtual_clock)
{
    struct sim *s =
        sim_new(&(struct sim_options){.seed = 8, .work_min_ns = 3 * MS, .work_max_ns = 3 * MS});
    struct node *n = node_new(s, "node", NULL);
    env_timer_start(n->env, &n->timer, 10 * MS);
    env_timer_start(n->env, &n->timer, 20 * MS);
    ck_assert_uint_eq(n->timer.due_ns, 20 * MS);
    env_work_start(n->env, &n->work);
    sim_run(s, 2 * MS, NULL, NULL);
    ck_assert(!n->ran); /* run is called at the end of the work's time */
    sim_run(s, 15 * MS, NULL, NULL);
    ck_assert_uint_eq(n->worked, 1);
    ck_assert_uint_eq(n->fired, 0);
    sim_run(s, 20 * MS, NULL, NULL);
    ck_assert_uint_eq(n->fired, 1);
    env_timer_start(n->env, &n->timer, MS);
    env_timer_stop(n->env, &n->timer);
    env_timer_stop(n->env, &n->timer);
    ck_assert(!sim_step(s));
    sim_free(s);
    free(n);
}
END_TEST

START_TEST(sim_wedged_node_beats_and_ends_no_work)
{
    struct sim *s = sim_new(&(struct sim_options){.seed = 8, .work_max_ns = MS});
    struct node *n = node_new(s, "node", NULL);
    env_work_start(n->env, &n->work);
    sim_wedge(n->sim, 50 * MS);
    env_timer_start(n->env, &n->timer, 10 * MS);
    sim_run(s, 49 * MS, NULL, NULL);
    ck_assert_uint_eq(n->fired, 1);
    ck_assert_uint_eq(n->worked, 0);
    sim_run(s, 50 * MS, NULL, NULL);
    ck_assert_uint_eq(n->worked, 1);
    sim_free(s);
    free(n);
}
END_TEST

START_TEST(sim_paused_node_gets_all_at_once_and_in_order)
{
    struct sim *s = sim_new(&(struct sim_options){.seed = 9, .delay_max_ns = MS});
    struct node *server = node_new(s, "server", "sim://server"),
                *client = node_new(s, "client", NULL);
    peer_t peer = connect_to(client, "sim://server");
    sim_pause(server->sim, 500 * MS);
    for (uint64_t i = 0; i < 50; i++)
        env_send(client->env, peer, message(i, 0));
    sim_run(s, 499 * MS, NULL, NULL);
    ck_assert_uint_eq(server->heard, 0);
    sim_run(s, 600 * MS, NULL, NULL);
    ck_assert_uint_eq(server->heard, 50);
    ck_assert_uint_lt(server->drained, 50); /* messages come in batches */
    for (uint64_t i = 0; i < 50; i++) {
        ck_assert_uint_eq(server->value[i], i);
        ck_assert_uint_eq(server->at_ns[i], 500 * MS);
    }
    sim_pause(server->sim, 2 * SECOND);
    uint32_t accepted = 0;
    int rc = 0;
    while (rc == 0 && accepted < 10000) {
        rc = env_send(client->env, peer, message(1, 0));
        accepted += rc == 0;
    }
    ck_assert_int_eq(rc, SHOAL_E_BUSY); /* its queue is bounded, as the real one */
    ck_assert_uint_ge(accepted, LIMIT_PEER_QUEUE);
    sim_free(s);
    free(server);
    free(client);
}
END_TEST

static bool has_heard(void *context)
{
    const struct node *n = context;
    return n->heard >= 3;
}

START_TEST(sim_stop_ends_a_node_and_a_condition_ends_a_run)
{
    struct sim *s =
        sim_new(&(struct sim_options){.seed = 10, .delay_min_ns = MS, .delay_max_ns = MS});
    struct node *server = node_new(s, "server", "sim://server"),
                *client = node_new(s, "client", NULL);
    peer_t peer = connect_to(client, "sim://server");
    for (uint64_t i = 0; i < 5; i++) {
        env_send(client->env, peer, message(i, 0));
        sim_run(s, sim_now_ns(s) + MS / 4, NULL, NULL);
    }
    ck_assert(sim_run(s, SECOND, has_heard, server));
    ck_assert_uint_eq(server->heard, 3);
    server->stop_on_message = server->echo = true;
    env_timer_start(server->env, &server->timer, 10 * MS);
    sim_run(s, 2 * SECOND, NULL, NULL);
    ck_assert_uint_eq(server->heard, 4);
    ck_assert(sim_stopped(server->sim));
    ck_assert(!sim_stopped(client->sim));
    ck_assert_uint_eq(server->fired, 0);
    ck_assert_uint_eq(client->heard, 1); /* sent before it stopped */
    sim_free(s);
    free(server);
    free(client);
}
END_TEST

START_TEST(sim_disconnect_is_told_and_final)
{
    struct sim *s =
        sim_new(&(struct sim_options){.seed = 11, .delay_min_ns = MS, .delay_max_ns = MS});
    struct node *server = node_new(s, "server", "sim://server"),
                *client = node_new(s, "client", NULL);
    peer_t peer = connect_to(client, "sim://server");
    server->hang_up = true;
    env_send(client->env, peer, message(1, 0));
    env_send(client->env, peer, message(2, 0));
    sim_run(s, 10 * MS, NULL, NULL);
    env_send(client->env, peer, message(3, 0));
    sim_run(s, 20 * MS, NULL, NULL);
    ck_assert_uint_eq(server->heard, 3);
    /* after the disconnect it is a new peer, also for messages that were in flight */
    ck_assert_uint_ne(server->from[1], server->from[0]);
    ck_assert_uint_ne(server->from[2], server->from[1]);
    server->hang_up = false;
    env_send(client->env, peer, message(4, 0));
    sim_run(s, 30 * MS, NULL, NULL);
    env_send(server->env, server->from[3], message(5, 0)); /* in flight when the client leaves */
    env_disconnect(client->env, peer);
    ck_assert_int_eq(env_send(client->env, peer, message(6, 0)), SHOAL_E_UNAVAILABLE);
    sim_run(s, SECOND, NULL, NULL);
    ck_assert_uint_eq(server->gone, 1);
    ck_assert_uint_eq(client->heard, 0);
    ck_assert_int_eq(env_send(server->env, server->from[3], message(7, 0)), SHOAL_E_UNAVAILABLE);
    sim_free(s);
    free(server);
    free(client);
    ck_assert_uint_eq(msg_frames_live(), 0);
}
END_TEST

/* A process that ends closes its connections, whether it was killed or has stopped: the other end
 * of each is told once, a message's delay later. */
START_TEST(sim_end_of_a_node_is_told_to_its_peers)
{
    struct sim *s =
        sim_new(&(struct sim_options){.seed = 12, .delay_min_ns = MS, .delay_max_ns = MS});
    struct node *server = node_new(s, "server", "sim://server"),
                *client = node_new(s, "client", NULL), *idle = node_new(s, "idle", NULL);
    peer_t peer = connect_to(client, "sim://server"), unused = connect_to(idle, "sim://server");
    peer_t closed = connect_to(client, "sim://server");
    env_disconnect(client->env, closed);
    env_send(client->env, peer, message(1, 0));
    sim_run(s, 10 * MS, NULL, NULL);
    if (_i == 0) {
        sim_kill(server->sim);
    } else {
        env_stop(server->env);
        sim_kill(server->sim); /* as a test does with a node that has stopped */
    }
    ck_assert_uint_eq(client->gone, 0);
    sim_run(s, 20 * MS, NULL, NULL);
    ck_assert_uint_eq(client->gone, 1);
    ck_assert_uint_eq(client->gone_peer, peer);
    ck_assert_uint_eq(client->gone_ns, 11 * MS);
    ck_assert_uint_eq(idle->gone, 1); /* connected, though it has sent nothing */
    ck_assert_uint_eq(idle->gone_peer, unused);
    struct node *again = node_new(s, "server", "sim://server"); /* a connection out stays */
    env_send(client->env, peer, message(2, 0));
    sim_run(s, 30 * MS, NULL, NULL);
    ck_assert_uint_eq(again->heard, 1);
    sim_kill(client->sim);
    sim_run(s, 40 * MS, NULL, NULL);
    ck_assert_uint_eq(again->gone, 1);
    ck_assert_uint_eq(again->gone_peer, again->from[0]);
    ck_assert_int_eq(env_send(again->env, again->from[0], message(3, 0)), SHOAL_E_UNAVAILABLE);
    sim_free(s);
    free(server);
    free(again);
    free(client);
    free(idle);
}
END_TEST

/* A machine that is gone, or a pause, tells nothing. */
START_TEST(sim_end_behind_a_cut_line_is_silent)
{
    struct sim *s =
        sim_new(&(struct sim_options){.seed = 13, .delay_min_ns = MS, .delay_max_ns = MS});
    struct node *server = node_new(s, "server", "sim://server"),
                *client = node_new(s, "client", NULL);
    peer_t peer = connect_to(client, "sim://server");
    env_send(client->env, peer, message(1, 0));
    sim_run(s, 10 * MS, NULL, NULL);
    sim_pause(server->sim, 50 * MS);
    sim_run(s, 60 * MS, NULL, NULL);
    sim_cut(server->sim, client->sim, SECOND);
    sim_kill(server->sim);
    sim_run(s, 2 * SECOND, NULL, NULL);
    ck_assert_uint_eq(client->gone, 0);
    sim_free(s);
    free(server);
    free(client);
}
END_TEST

static enum env_probe_answer probe(struct sim *s, struct node *n, const char *endpoint)
{
    uint32_t before = n->probed;
    env_probe_start(n->env, &n->probe, endpoint);
    ck_assert_uint_eq(n->probed, before); /* not from inside the call */
    sim_run(s, sim_now_ns(s) + SECOND, NULL, NULL);
    ck_assert_uint_eq(n->probed, before + 1);
    return n->probe.answer;
}

/* A paused process still listens; a cut line, either way, tells nothing within a second. */
START_TEST(sim_probe_knows_whether_a_node_listens)
{
    struct sim *s =
        sim_new(&(struct sim_options){.seed = 14, .delay_min_ns = MS, .delay_max_ns = MS});
    struct node *server = node_new(s, "server", "sim://server"),
                *client = node_new(s, "client", NULL);
    ck_assert_int_eq(probe(s, client, "sim://nowhere"), ENV_PROBE_REFUSED);
    ck_assert_uint_eq(client->probed_ns, 2 * MS);
    ck_assert_int_eq(probe(s, client, "sim://server"), ENV_PROBE_ANSWERS);
    sim_pause(server->sim, 100 * SECOND);
    ck_assert_int_eq(probe(s, client, "sim://server"), ENV_PROBE_ANSWERS);
    sim_cut(server->sim, client->sim, sim_now_ns(s) + 2 * SECOND);
    uint64_t begun_ns = sim_now_ns(s);
    ck_assert_int_eq(probe(s, client, "sim://server"), ENV_PROBE_UNKNOWN);
    ck_assert_uint_eq(client->probed_ns, begun_ns + SECOND);
    sim_kill(server->sim);
    ck_assert_int_eq(probe(s, client, "sim://server"), ENV_PROBE_UNKNOWN);
    ck_assert_int_eq(probe(s, client, "sim://server"), ENV_PROBE_REFUSED);
    uint32_t before = client->probed;
    env_probe_start(client->env, &client->probe, "sim://server");
    env_probe_stop(client->env, &client->probe);
    env_probe_stop(client->env, &client->probe);
    ck_assert(!sim_step(s));
    env_probe_start(client->env, &client->probe, "sim://server");
    sim_kill(client->sim);
    env_probe_stop(client->env, &client->probe); /* a core may still call this while it is freed */
    sim_run(s, sim_now_ns(s) + 2 * SECOND, NULL, NULL);
    ck_assert_uint_eq(client->probed, before);
    sim_free(s);
    free(server);
    free(client);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sim");
    TCase *t = tcase_create("sim");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, sim_request_and_reply_take_their_time);
    tcase_add_test(t, sim_trace_is_a_function_of_the_seed);
    tcase_add_test(t, sim_connections_are_in_order_unless_reordered);
    tcase_add_test(t, sim_drops_and_duplicates_their_share);
    tcase_add_test(t, sim_killed_node_gets_nothing);
    tcase_add_test(t, sim_timers_and_work_follow_the_virtual_clock);
    tcase_add_test(t, sim_wedged_node_beats_and_ends_no_work);
    tcase_add_test(t, sim_paused_node_gets_all_at_once_and_in_order);
    tcase_add_test(t, sim_stop_ends_a_node_and_a_condition_ends_a_run);
    tcase_add_test(t, sim_disconnect_is_told_and_final);
    tcase_add_loop_test(t, sim_end_of_a_node_is_told_to_its_peers, 0, 2);
    tcase_add_test(t, sim_end_behind_a_cut_line_is_silent);
    tcase_add_test(t, sim_probe_knows_whether_a_node_listens);
    suite_add_tcase(suite, t);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
