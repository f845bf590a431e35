/* client_world.c: a client in the simulator, and peers whose answers each case writes itself. */
#include "tests/lib/client_world.h"

#include "proto/base/container_of.h"

#include <check.h>
#include <string.h>

struct world world;
struct world_question question, other;
struct world_place old_place, new_place;
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
    world.at_ms[n] = sim_now_ns(world.sim) / WORLD_MS;
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

static int resolve(const char *endpoint, char numeric[256], struct err *e)
{
    (void)endpoint;
    numeric[0] = '\0';
    return world.name_status == 0 ? 0 : err_set(e, world.name_status, "no such name");
}

static void map_changed(void *context)
{
    (void)context;
    world.map_changes++;
}

/* ---- a request of the case ------------------------------------------------------------------- */

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
    struct world_question *q = container_of(r, struct world_question, request);
    ck_assert_ptr_nonnull(m);
    q->answers++;
    q->status = w->status;
    return w->status == 0 ? REQUEST_DONE : q->verdict;
}

void world_run_ms(uint64_t ms)
{
    sim_run(world.sim, sim_now_ns(world.sim) + ms * WORLD_MS, NULL, NULL);
}

void world_setup(void)
{
    struct sim_options options = {
        .seed = 3, .delay_min_ns = WORLD_MS / 10, .delay_max_ns = WORLD_MS / 10};
    struct client_options client = {
        .coordinator = "sim://peer", .resolve = resolve, .on_map = map_changed};
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
    question = other = (struct world_question){.request = {.type = WIRE_TYPE_WORKER_BEAT,
                                                           .target = CLIENT_COORDINATOR,
                                                           .build = question_build,
                                                           .reply = question_reply},
                                               .verdict = REQUEST_LATER};
}

void world_teardown(void)
{
    client_free(world.client);
    sim_free(world.sim);
}

/* ---- a shard that moves ---------------------------------------------------------------------- */

static void place_on_message(void *core, peer_t from, struct msg *m)
{
    struct world_place *p = core;
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

void world_place_open(struct world_place *p, const char *endpoint)
{
    static const struct env_handler handler = {.on_message = place_on_message,
                                               .on_drained = nothing};
    memset(p, 0, sizeof *p);
    p->endpoint = endpoint;
    p->node = sim_node_new(world.sim, "place", &handler, p);
    sim_listen(p->node, endpoint);
}

void world_places_open(void)
{
    world.map_lines = "sim://peer\nsim://old\n";
    world_place_open(&old_place, "sim://old");
    world_place_open(&new_place, "sim://new");
    client_map_refresh(world.client);
    world_run_ms(10);
    question.request.target = other.request.target = 1;
}
