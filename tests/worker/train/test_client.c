/* test_client.c: requests and the map, in the simulator, against a peer whose answers each case
 * writes itself. */
#include "proto/base/container_of.h"
#include "proto/base/hash.h"
#include "tests/sim/sim.h"
#include "worker/train/client.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#define MS UINT64_C(1000000)

/* ---- a peer with a script -------------------------------------------------------------------- */

static struct {
    struct sim *sim;
    struct sim_node *peer, *node;
    struct client *client;
    int status[16];  /* status of answer n; beyond: 0 */
    bool silent[16]; /* the n-th request is not answered */
    uint64_t id[64]; /* id of request n */
    uint64_t at_ms[64];
    uint32_t seen, maps_seen, hellos, gone;
    uint64_t map_epoch_said;          /* in the last question for the map */
    bool echoes;                      /* each request comes back as a question */
    uint32_t answers_each;            /* copies of each answer */
    bool lives;                       /* the peer sends signs of life */
    uint32_t map_shards, map_leaders; /* the first ones lead; 0: all */
    const char *map_lines;
    uint32_t map_changes;
} world;

static struct wire in, out;

static void send_map(peer_t from)
{
    wire_reply_to(&in, 0, &out);
    out.u.MAP_GET_reply =
        (struct wire_MAP_GET_reply){.map_epoch = 3, .tablet_count = 4, .shards = world.map_shards};
    struct msg *m = wire_encode(&out);
    uint16_t *shard = msg_add(m, 8);
    uint32_t leaders = world.map_leaders != 0 ? world.map_leaders : world.map_shards;
    for (uint32_t t = 0; t < 4; t++)
        shard[t] = (uint16_t)(t * leaders / 4);
    memcpy(msg_add(m, strlen(world.map_lines)), world.map_lines, strlen(world.map_lines));
    env_send(sim_node_env(world.peer), from, m);
}

static void peer_on_message(void *core, peer_t from, struct msg *m)
{
    struct err e;
    (void)core;
    ck_assert_int_eq(wire_decode(m, &in, &e), 0);
    msg_free(m);
    if (in.type == WIRE_TYPE_HELLO) {
        world.hellos++;
        ck_assert_uint_eq(in.u.HELLO.version, WIRE_VERSION);
        if (in.id != 0 && world.lives)
            env_send(sim_node_env(world.peer), from, wire_refusal(&in, 0, "%s", ""));
        return;
    }
    if (in.type == WIRE_TYPE_MAP_GET) {
        world.maps_seen++;
        world.map_epoch_said = in.u.MAP_GET.map_epoch;
        send_map(from);
        return;
    }
    uint32_t n = world.seen++;
    ck_assert_uint_lt(n, 64);
    world.id[n] = in.id;
    world.at_ms[n] = sim_now_ns(world.sim) / MS;
    if (n < 16 && world.silent[n])
        return;
    if (world.echoes)
        env_send(sim_node_env(world.peer), from, wire_encode(&in));
    for (uint32_t copy = 0; copy < world.answers_each; copy++)
        env_send(sim_node_env(world.peer), from,
                 wire_refusal(&in, n < 16 ? world.status[n] : 0, "scripted"));
}

static void nothing(void *core)
{
    (void)core;
}

static void peer_on_gone(void *core, peer_t peer)
{
    (void)core, (void)peer;
    world.gone++;
}

static const struct env_handler peer_handler = {
    .on_message = peer_on_message, .on_drained = nothing, .on_peer_gone = peer_on_gone};

static void client_on_message(void *core, peer_t from, struct msg *m)
{
    (void)core;
    client_message(world.client, from, m);
}

static void client_on_gone(void *core, peer_t peer)
{
    (void)core;
    client_peer_gone(world.client, peer);
}

static const struct env_handler client_handler = {
    .on_message = client_on_message, .on_drained = nothing, .on_peer_gone = client_on_gone};

static void map_changed(void *context)
{
    (void)context;
    world.map_changes++;
}

/* ---- a request of the case ------------------------------------------------------------------- */

static struct question {
    struct request request;
    int status;
    uint32_t answers;
    enum request_verdict verdict; /* for refusals */
} question, other;

static struct msg *question_build(struct request *r)
{
    memset(&out, 0, sizeof out);
    out.type = WIRE_TYPE_WORKER_BEAT;
    out.id = r->id;
    return wire_encode(&out);
}

static enum request_verdict question_reply(struct request *r, const struct wire *w,
                                           const struct msg *m)
{
    struct question *q = container_of(r, struct question, request);
    ck_assert_ptr_nonnull(m);
    q->answers++;
    q->status = w->status;
    return w->status == 0 ? REQUEST_DONE : q->verdict;
}

static void run_ms(uint64_t ms)
{
    sim_run(world.sim, sim_now_ns(world.sim) + ms * MS, NULL, NULL);
}

static void setup(void)
{
    struct sim_options options = {.seed = 3, .delay_min_ns = MS / 10, .delay_max_ns = MS / 10};
    struct client_options client = {.coordinator = "sim://peer", .on_map = map_changed};
    struct err e = {0};
    memset(&world, 0, sizeof world);
    world.answers_each = 1;
    world.map_shards = 2;
    world.map_lines = "sim://peer\nsim://peer\n";
    world.sim = sim_new(&options);
    world.peer = sim_node_new(world.sim, "peer", &peer_handler, NULL);
    sim_listen(world.peer, "sim://peer");
    sim_listen(world.peer, "sim://moved");
    world.node = sim_node_new(world.sim, "client", &client_handler, NULL);
    ck_assert_int_eq(client_new(sim_node_env(world.node), &client, &world.client, &e), 0);
    question = other = (struct question){.request = {.type = WIRE_TYPE_WORKER_BEAT,
                                                     .target = CLIENT_COORDINATOR,
                                                     .build = question_build,
                                                     .reply = question_reply},
                                         .verdict = REQUEST_LATER};
}

static void teardown(void)
{
    client_free(world.client);
    sim_free(world.sim);
}

/* ---- cases ----------------------------------------------------------------------------------- */

START_TEST(client_answers_once)
{
    world.answers_each = 3; /* late copies of an answer are dropped */
    client_start(world.client, &question.request);
    run_ms(100);
    ck_assert_uint_eq(question.answers, 1);
    ck_assert(!request_active(&question.request));
    ck_assert_uint_gt(client_heard_ns(world.client), 0);
    run_ms(5000);
    ck_assert_uint_eq(world.seen, 1);
}
END_TEST

START_TEST(client_sends_again_with_the_same_id)
{
    world.silent[0] = world.silent[1] = true;
    client_set_resend(world.client, 200);
    client_start(world.client, &question.request);
    run_ms(1000);
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
    run_ms(3000);
    ck_assert_uint_eq(world.seen, 5);
    ck_assert_uint_ge(world.at_ms[1] - world.at_ms[0], 50);
    ck_assert_uint_ge(world.at_ms[4] - world.at_ms[3], 400);
    ck_assert_int_eq(question.status, 0);
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
    run_ms(5000);
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
    run_ms(6000);
    ck_assert_uint_eq(world.seen, 9);
    for (int i = 0; i < 8; i++) {
        uint64_t gap = world.at_ms[i + 1] - world.at_ms[i];
        ck_assert(gap >= pause[i] && gap <= pause[i] + 1); /* and the time of the message */
    }
    client_start(world.client, &question.request);
    run_ms(1000);
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
    run_ms(1000);
    uint32_t before = world.seen;
    ck_assert_uint_ge(before, 5);
    client_cancel(world.client, &question.request);
    client_start(world.client, &question.request);
    run_ms(350);
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
    run_ms(1000);
    ck_assert_uint_eq(world.seen, 9);
    for (int i = 0; i < 8; i++)
        ck_assert_uint_le(world.at_ms[i + 1] - world.at_ms[i], 31);
}
END_TEST

/* A message of a shard is no sign that the coordinator lives. */
START_TEST(client_hears_the_coordinator_alone)
{
    struct wire w = {.type = WIRE_TYPE_PULL, .reply = true, .id = 99, .status = SHOAL_E_BUSY};
    run_ms(50);
    uint64_t heard = client_heard_ns(world.client);
    client_message(world.client, UINT64_C(1) << 40, wire_encode(&w));
    ck_assert_uint_eq(client_heard_ns(world.client), heard);
    client_start(world.client, &question.request);
    run_ms(50);
    ck_assert_uint_gt(client_heard_ns(world.client), heard);
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
    run_ms(10);
    for (size_t i = 0; i < sizeof maps / sizeof maps[0]; i++) {
        uint32_t before = world.hellos, gone = world.gone;
        world.map_lines = maps[i].lines;
        client_map_refresh(world.client);
        run_ms(100);
        ck_assert_uint_eq(world.hellos - before, maps[i].more);
        ck_assert_uint_eq(world.gone - gone, i == 0 ? 0 : maps[i].more); /* all are replaced */
    }
}
END_TEST

START_TEST(map_lines_fit_to_the_last_byte)
{
    uint16_t shard = 0;
    struct wire_MAP_GET_reply reply = {.map_epoch = 1, .tablet_count = 1, .shards = 1};
    struct frame numbers = {.data = &shard, .bytes = sizeof shard};
    for (uint32_t more = 0; more < 4; more++) {
        char line[MAP_ENDPOINT_BYTES + MAP_KEY_BYTES + 8];
        size_t endpoint = MAP_ENDPOINT_BYTES - 1 + (more & 1),
               key = MAP_KEY_BYTES - 1 + (more >> 1);
        struct map m;
        struct err e;
        memset(line, 'e', endpoint);
        line[endpoint] = ' ';
        memset(line + endpoint + 1, 'k', key);
        line[endpoint + 1 + key] = '\n';
        client_map_init(&m);
        ck_assert_int_eq(client_map_take(&m, &reply, &numbers,
                                         &(struct frame){.data = line, .bytes = endpoint + key + 2},
                                         &e),
                         more == 0 ? 0 : SHOAL_E_MALFORMED);
        if (more == 0) {
            ck_assert_uint_eq(strlen(m.endpoint[0]), endpoint);
            ck_assert_uint_eq(strlen(m.key[0]), key);
        }
        client_map_close(&m);
    }
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
    run_ms(10);
    client_start(world.client, &question.request);
    run_ms(10);
    ck_assert_uint_eq(world.seen, 3);
    ck_assert_uint_lt(world.id[0], world.id[1]);
    ck_assert_uint_lt(world.id[1], world.id[2]);
}
END_TEST

START_TEST(client_forgets_what_is_cancelled)
{
    client_start(world.client, &question.request);
    client_cancel(world.client, &question.request);
    client_cancel(world.client, &question.request);
    run_ms(5000);
    ck_assert_uint_eq(question.answers, 0);
    ck_assert_uint_eq(world.seen, 1);
}
END_TEST

START_TEST(client_is_not_fooled_by_another_type)
{
    question.request.type = WIRE_TYPE_INDEX_DONE; /* the answers come as WORKER_BEAT */
    client_start(world.client, &question.request);
    run_ms(500);
    ck_assert_uint_eq(question.answers, 0);
}
END_TEST

/* It is no sign of life either. */
START_TEST(client_takes_no_question_for_an_answer)
{
    world.echoes = true;
    world.answers_each = 0;
    client_start(world.client, &question.request);
    run_ms(500);
    ck_assert_uint_eq(question.answers, 0);
    ck_assert_uint_eq(client_heard_ns(world.client), 0);
}
END_TEST

START_TEST(client_without_a_place_asks_for_the_map)
{
    question.request.target = 1;
    client_start(world.client, &question.request);
    run_ms(500);
    ck_assert_uint_eq(question.answers, 1);
    ck_assert_uint_eq(world.map_epoch_said, 0);
    client_map_refresh(world.client);
    run_ms(10);
    ck_assert_uint_eq(world.map_epoch_said, 3); /* which it has */
}
END_TEST

START_TEST(client_is_not_fooled_by_another_sender)
{
    world.silent[0] = true;
    client_start(world.client, &question.request);
    run_ms(10);
    struct wire w = {.type = WIRE_TYPE_WORKER_BEAT, .reply = true, .id = question.request.id};
    ck_assert_uint_ne(w.id, 0);
    client_message(world.client, UINT64_C(1) << 40, wire_encode(&w));
    ck_assert_uint_eq(question.answers, 0);
    run_ms(1000); /* asked again, and answered by the right peer */
    ck_assert_uint_eq(question.answers, 1);
}
END_TEST

START_TEST(client_muted_holds_writes_back)
{
    question.request.write = true;
    client_mute(world.client, true);
    client_start(world.client, &question.request);
    client_start(world.client, &other.request);
    run_ms(3000);
    ck_assert_uint_eq(world.seen, 1);
    ck_assert_uint_eq(other.answers, 1);
    client_mute(world.client, false);
    run_ms(10);
    ck_assert_uint_eq(question.answers, 1);
}
END_TEST

START_TEST(client_waits_for_a_complete_map)
{
    question.request.target = 1;
    world.map_lines = "sim://peer\n\n"; /* shard 1 is not up yet */
    client_map_refresh(world.client);
    client_start(world.client, &question.request);
    run_ms(1000);
    ck_assert_ptr_null(client_map(world.client));
    ck_assert_uint_eq(world.seen, 0);
    world.map_lines = "sim://peer\nsim://peer\n";
    run_ms(1000);
    ck_assert_ptr_nonnull(client_map(world.client));
    ck_assert_uint_eq(client_map(world.client)->epoch, 3);
    ck_assert_uint_eq(world.map_changes, 1);
    ck_assert_uint_eq(question.answers, 1);
    client_map_refresh(world.client); /* the same map: no notice */
    run_ms(100);
    ck_assert_uint_eq(world.map_changes, 1);
    world.map_shards = 1;
    world.map_lines = "sim://peer\n";
    client_map_refresh(world.client);
    run_ms(100);
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
    run_ms(10);
    uint32_t before = world.maps_seen;
    question.request.target = _i == 0 ? 1 : CLIENT_COORDINATOR;
    client_start(world.client, &question.request);
    run_ms(250);
    ck_assert_uint_eq(world.seen, 3);
    ck_assert_uint_eq(world.maps_seen, before);
    run_ms(100);
    ck_assert_uint_eq(world.seen, 4);
    ck_assert_uint_eq(world.maps_seen, before + (_i == 0));
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
    run_ms(10);
    ck_assert_uint_eq(world.seen, 1);
    client_mute(world.client, false);
    run_ms(10);
    ck_assert_uint_eq(world.seen, 2);
    ck_assert_uint_eq(question.answers, 1);
    ck_assert_uint_eq(other.answers, 0);
}
END_TEST

START_TEST(map_refuses_what_does_not_fit)
{
    uint16_t shards[4] = {0, 0, 1, 1};
    struct wire_MAP_GET_reply reply = {.map_epoch = 1, .tablet_count = 4, .shards = 2};
    struct frame numbers = {.data = shards, .bytes = sizeof shards};
    char good[] = "a\nb\n", few[] = "a\n", open[] = "a\nb";
    struct map m;
    struct err e;
    client_map_init(&m);
    ck_assert_int_eq(
        client_map_take(&m, &reply, &numbers, &(struct frame){.data = good, .bytes = 4}, &e), 0);
    ck_assert(client_map_complete(&m));
    ck_assert_uint_eq(client_map_stretch(&m, 0, 4), 2);
    ck_assert_uint_eq(client_map_stretch(&m, 3, 4), 1);
    ck_assert_int_eq(
        client_map_take(&m, &reply, &numbers, &(struct frame){.data = few, .bytes = 2}, &e),
        SHOAL_E_MALFORMED);
    ck_assert_int_eq(
        client_map_take(&m, &reply, &numbers, &(struct frame){.data = open, .bytes = 3}, &e),
        SHOAL_E_MALFORMED);
    numbers.bytes = 6;
    ck_assert_int_eq(
        client_map_take(&m, &reply, &numbers, &(struct frame){.data = good, .bytes = 4}, &e),
        SHOAL_E_MALFORMED);
    numbers.bytes = 8;
    shards[3] = 2;
    ck_assert_int_eq(
        client_map_take(&m, &reply, &numbers, &(struct frame){.data = good, .bytes = 4}, &e),
        SHOAL_E_MALFORMED);
    ck_assert_uint_eq(m.shard[3], 1); /* as it was */
    static char lines[2 * (LIMIT_SHARDS + 1)];
    for (size_t i = 0; i < sizeof lines; i++)
        lines[i] = i % 2 == 0 ? 'a' : '\n';
    for (reply.shards = LIMIT_SHARDS; reply.shards <= LIMIT_SHARDS + 1; reply.shards++)
        ck_assert_int_eq(
            client_map_take(&m, &reply, &numbers,
                            &(struct frame){.data = lines, .bytes = 2 * (size_t)reply.shards}, &e),
            reply.shards <= LIMIT_SHARDS ? 0 : SHOAL_E_MALFORMED);
    client_map_close(&m);
}
END_TEST

/* Neither a pull that waits for other lanes nor an unreachable shard sends an answer: signs of life
 * tell them apart. */
START_TEST(client_knows_which_shard_owes_a_sign_of_life)
{
    struct client_reach reach;
    uint64_t late_ns, round_ns;
    client_map_refresh(world.client);
    run_ms(100);
    ck_assert_ptr_nonnull(client_map(world.client));
    world.lives = true;
    for (uint32_t beat = 0; beat < 3; beat++) {
        client_reach(world.client, &reach);
        ck_assert_uint_eq(reach.slow_us, 0); /* too few answers to tell */
        client_ping(world.client);
        run_ms(100);
    }
    client_reach(world.client, &reach);
    ck_assert_uint_eq(reach.late_ns, 0);
    ck_assert_uint_gt(reach.slow_us, 0);
    ck_assert_uint_le(reach.slow_us, 100000);
    world.lives = false;
    for (uint32_t beat = 0; beat < 5; beat++) {
        client_ping(world.client);
        run_ms(1000);
    }
    client_reach(world.client, &reach);
    ck_assert_uint_eq(reach.late_ns / MS, 5000); /* since the first one, not the last */
    ck_assert(client_way(world.client, reach.late_shard, &late_ns, &round_ns));
    ck_assert_uint_eq(late_ns, reach.late_ns);
    ck_assert_uint_gt(round_ns, 0); /* of its last answer */
    ck_assert(
        !client_way(world.client, client_map(world.client)->shard_count, &late_ns, &round_ns));
    ck_assert(!reach.unnamed); /* names are not looked up here */
    world.lives = true;
    client_ping(world.client);
    run_ms(100);
    client_reach(world.client, &reach);
    ck_assert_uint_eq(reach.late_ns, 0);
}
END_TEST

/* ---- a shard that moves ---------------------------------------------------------------------- */

static struct place {
    struct sim_node *node;
    const char *endpoint;
    bool answers, pongs;
    int status;
    uint32_t seen, pings;
    uint64_t id[64], at_ns[64];
} old_place, new_place;

static void place_on_message(void *core, peer_t from, struct msg *m)
{
    struct place *p = core;
    struct err e;
    ck_assert_int_eq(wire_decode(m, &in, &e), 0);
    msg_free(m);
    bool ping = in.type == WIRE_TYPE_HELLO;
    if (ping) {
        p->pings += in.id != 0;
    } else {
        ck_assert_uint_lt(p->seen, 64);
        p->at_ns[p->seen] = sim_now_ns(world.sim);
        p->id[p->seen++] = in.id;
    }
    if (p->answers || (ping && p->pongs))
        env_send(sim_node_env(p->node), from, wire_refusal(&in, ping ? 0 : p->status, "%s", ""));
}

static void place_open(struct place *p, const char *endpoint)
{
    static const struct env_handler handler = {.on_message = place_on_message,
                                               .on_drained = nothing};
    memset(p, 0, sizeof *p);
    p->endpoint = endpoint;
    p->node = sim_node_new(world.sim, "place", &handler, p);
    sim_listen(p->node, endpoint);
}

/* Two requests are in flight to shard 1 at its old place, which does not answer them. */
static void places_open(void)
{
    world.map_lines = "sim://peer\nsim://old\n";
    place_open(&old_place, "sim://old");
    place_open(&new_place, "sim://new");
    client_map_refresh(world.client);
    run_ms(10);
    question.request.target = other.request.target = 1;
}

/* From the death of a server to the first request at the shard's new place, which the coordinator
 * names 100 ms later: below 200 ms. The same when the server still runs and leads no more. */
START_TEST(client_finds_a_shard_at_its_new_place)
{
    places_open();
    if (_i == 1) {
        old_place.answers = true;
        old_place.status = SHOAL_E_NOT_LEADER;
    }
    client_start(world.client, &question.request);
    client_start(world.client, &other.request);
    uint64_t lost_ns = sim_now_ns(world.sim), id[2] = {question.request.id, other.request.id};
    run_ms(1);
    ck_assert_uint_eq(old_place.seen, 2);
    uint32_t maps = world.maps_seen;
    if (_i == 0) {
        lost_ns = sim_now_ns(world.sim);
        sim_kill(old_place.node);
    }
    run_ms(99);
    ck_assert_uint_eq(new_place.seen, 0);
    world.map_lines = "sim://peer\nsim://new\n";
    new_place.answers = true;
    run_ms(98);
    ck_assert_uint_eq(new_place.seen, 2);
    ck_assert_uint_lt(new_place.at_ns[0] - lost_ns, 155 * MS);
    ck_assert_uint_lt(new_place.at_ns[1] - lost_ns, 155 * MS);
    ck_assert(new_place.id[0] == id[0] && new_place.id[1] == id[1]);
    ck_assert_uint_eq(question.answers, _i == 0 ? 1 : question.answers);
    ck_assert_int_eq(question.status, 0);
    ck_assert_int_eq(other.status, 0);
    ck_assert_uint_le(world.maps_seen - maps, 4); /* one each 50 ms */
    maps = world.maps_seen;
    run_ms(5000); /* it is found */
    ck_assert_uint_eq(world.maps_seen, maps);
    ck_assert_uint_eq(new_place.seen, 2);
}
END_TEST

/* A machine stands still or is cut off: no connection closes. Another copy leads 6 s later, as soon
 * as the lease is over. */
START_TEST(client_finds_another_place_of_a_silent_shard)
{
    places_open();
    world.lives = true;
    client_set_resend(world.client, 1000); /* the default */
    client_ping(world.client);
    client_start(world.client, &question.request);
    uint32_t beat = 3333;
    run_ms(beat);
    client_ping(world.client);
    run_ms(6000 - beat);
    uint64_t led_ns = sim_now_ns(world.sim);
    world.map_lines = "sim://peer\nsim://new\n";
    new_place.answers = true;
    run_ms(700);
    ck_assert_uint_eq(new_place.seen, 1);
    ck_assert_uint_lt(new_place.at_ns[0] - led_ns, 600 * MS);
    uint32_t maps = world.maps_seen;
    run_ms(60000); /* it is found */
    ck_assert_uint_eq(world.maps_seen, maps);
}
END_TEST

/* The shard lets a request wait, and answers pings: nothing is sought. */
START_TEST(client_does_not_seek_a_shard_that_lives)
{
    places_open();
    world.lives = true;
    client_set_resend(world.client, 1000);
    client_start(world.client, &question.request);
    uint32_t maps = world.maps_seen;
    old_place.pongs = true;
    for (uint32_t i = 0; i < 9; i++) {
        client_ping(world.client);
        run_ms(3333);
    }
    ck_assert_uint_le(world.maps_seen - maps, old_place.seen - 3); /* one with each try */
}
END_TEST

/* A fleet that is down for hours is asked for once a second. Back at its old place, it gets at once
 * the requests that died with it. */
START_TEST(client_asks_seldom_for_what_stays_away)
{
    places_open();
    client_set_resend(world.client, 100000000);
    client_start(world.client, &question.request);
    run_ms(1);
    sim_kill(old_place.node);
    uint32_t maps = world.maps_seen;
    run_ms(2000);
    ck_assert_uint_ge(world.maps_seen - maps, 38);
    ck_assert_uint_le(world.maps_seen - maps, 42);
    run_ms(10000);
    maps = world.maps_seen;
    run_ms(3600 * 1000);
    ck_assert_uint_ge(world.maps_seen - maps, 3500);
    ck_assert_uint_le(world.maps_seen - maps, 3600);
    place_open(&old_place, "sim://old");
    old_place.answers = true;
    run_ms(1100);
    ck_assert_uint_ge(old_place.pings, 1);
    ck_assert_uint_eq(old_place.seen, 1);
    ck_assert_uint_eq(question.answers, 1);
    maps = world.maps_seen;
    run_ms(10000);
    ck_assert_uint_le(world.maps_seen, maps + 1);
}
END_TEST

/* _i 0: a request is lost with the place, and waits until the new one answers; 1: nothing is asked
 * of the shard while it is away, so nothing waits for it; 2: a request begins in that time. */
START_TEST(client_counts_how_long_a_request_is_without_its_shard)
{
    const uint64_t least_ms[] = {400, 0, 200}, most_ms[] = {460, 0, 260};
    places_open();
    if (_i == 0)
        client_start(world.client, &question.request);
    run_ms(1);
    sim_kill(old_place.node);
    run_ms(200);
    if (_i == 2)
        client_start(world.client, &question.request);
    run_ms(200);
    world.map_lines = "sim://peer\nsim://new\n";
    new_place.answers = true;
    run_ms(1000);
    if (_i == 1)
        client_start(world.client, &question.request);
    run_ms(100);
    ck_assert_uint_eq(question.answers, 1);
    ck_assert_uint_ge(client_absence_ns(world.client), least_ms[_i] * MS);
    ck_assert_uint_le(client_absence_ns(world.client), most_ms[_i] * MS);
}
END_TEST

/* Answers from before the end of the connection, and signs of life of a shard that does not lead,
 * do not end the search; an answer of another kind does. */
START_TEST(client_seeks_until_the_shard_leads)
{
    places_open();
    old_place.answers = true;
    old_place.status = SHOAL_E_NOT_LEADER;
    client_start(world.client, &question.request);
    run_ms(1000);
    client_ping(world.client);
    uint32_t maps = world.maps_seen;
    run_ms(500);
    ck_assert_uint_ge(world.maps_seen - maps, 9);
    old_place.status = 0;
    run_ms(1100);
    ck_assert_int_eq(question.status, 0);
    maps = world.maps_seen;
    run_ms(5000);
    ck_assert_uint_eq(world.maps_seen, maps);
}
END_TEST

/* A server is drained, then switched off: the coordinator names no endpoint of its shard. */
START_TEST(client_leaves_a_shard_that_has_left_alone)
{
    struct client_reach reach;
    places_open();
    world.map_leaders = 1;
    world.map_lines = "sim://peer\n\n";
    sim_kill(old_place.node);
    world.lives = true;
    run_ms(200);
    uint32_t maps = world.maps_seen;
    for (uint32_t beat = 0; beat < 10; beat++) {
        client_ping(world.client);
        run_ms(3333);
    }
    ck_assert_uint_eq(world.maps_seen, maps);
    client_reach(world.client, &reach);
    ck_assert_uint_eq(reach.late_ns, 0);
    world.map_leaders = 0; /* the number is given again */
    world.map_lines = "sim://peer\nsim://new\n";
    new_place.answers = true;
    client_start(world.client, &question.request);
    run_ms(2000);
    ck_assert_uint_eq(question.answers, 1);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("client");
    TCase *c = tcase_create("client");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, client_answers_once);
    tcase_add_test(c, client_sends_again_with_the_same_id);
    tcase_add_test(c, client_pauses_when_told_later);
    tcase_add_test(c, client_leaves_a_shard_that_has_left_alone);
    tcase_add_test(c, client_knows_what_passes);
    tcase_add_test(c, client_ids_grow);
    tcase_add_test(c, client_slows_down_while_nothing_comes);
    tcase_add_test(c, client_pauses_a_second_at_most);
    tcase_add_test(c, client_asks_as_before_what_was_given_up);
    tcase_add_test(c, client_pauses_as_a_request_says);
    tcase_add_loop_test(c, client_looks_at_the_map_at_the_fourth_try, 0, 2);
    tcase_add_test(c, client_that_may_write_again_sends_writes);
    tcase_add_test(c, client_hears_the_coordinator_alone);
    tcase_add_test(c, client_connects_again_when_a_shard_has_another_key);
    tcase_add_test(c, map_lines_fit_to_the_last_byte);
    tcase_add_test(c, client_forgets_what_is_cancelled);
    tcase_add_test(c, client_is_not_fooled_by_another_type);
    tcase_add_test(c, client_is_not_fooled_by_another_sender);
    tcase_add_test(c, client_takes_no_question_for_an_answer);
    tcase_add_test(c, client_without_a_place_asks_for_the_map);
    tcase_add_test(c, client_muted_holds_writes_back);
    tcase_add_test(c, client_waits_for_a_complete_map);
    tcase_add_test(c, map_refuses_what_does_not_fit);
    tcase_add_test(c, client_knows_which_shard_owes_a_sign_of_life);
    tcase_add_loop_test(c, client_finds_a_shard_at_its_new_place, 0, 2);
    tcase_add_test(c, client_finds_another_place_of_a_silent_shard);
    tcase_add_test(c, client_does_not_seek_a_shard_that_lives);
    tcase_add_test(c, client_asks_seldom_for_what_stays_away);
    tcase_add_test(c, client_seeks_until_the_shard_leads);
    tcase_add_loop_test(c, client_counts_how_long_a_request_is_without_its_shard, 0, 3);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? 0 : 1;
}
