/* shard_rig.h: one shard in the simulator, with a client that plays coordinator and workers at
 * once.
 *
 * Ids count up from 1; rig_reply(id) is the reply to a request, and rig_status(id) its status (1
 * while there is none). By default table 0 has width 2, initial value 0 and SGD with rate 1, so
 * that a row is minus the sum of its gradients. */
#ifndef TESTS_SERVER_SHARD_RIG_H
#define TESTS_SERVER_SHARD_RIG_H

#include "embedding/engine/engine_state.h"
#include "proto/base/hash.h"
#include "proto/base/key.h"
#include "proto/base/log.h"
#include "server/shard/shard.h"
#include "tests/lib/table_sets.h"
#include "tests/sim/sim.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RIG_IDS 4096
#define RIG_BITS 4u
#define RIG_RUN 7u
#define RIG_CLUSTER 5u
#define MS UINT64_C(1000000)
#define RIG_WAITING 1

struct rig_answer {
    bool got;
    struct wire w;
    struct msg *m;
};

struct rig {
    struct sim *sim;
    struct sim_node *shard_node, *client;
    struct shard *shard;
    peer_t to; /* from the client to the shard, over the connection of its beats */
    uint64_t next_id;
    struct rig_answer *answer;
    const char *dir; /* NULL: the engine keeps all in memory */
    enum durability durability;
    uint64_t journal_max; /* 0: the engine's default */
    uint64_t waiting_max; /* bytes of the request pool; 0: its default */
    uint64_t memory;      /* of the engine; 0: no limit */
    uint64_t work_ns;     /* time of the engine's slow work; 0: 1 ms */
    bool stalled;         /* after a start, tablets do not recover by themselves */
    bool traced;          /* its pulls and pushes are marked as traced */
    bool alone;           /* the shard knows no coordinator and obeys every peer */
    uint32_t beats, ready_beats;
    struct wire_SHARD_BEAT beat; /* the last one */
    uint32_t number, foreign;    /* the coordinator's number for it; added to the cluster's name */
};

static void rig_on_message(void *core, peer_t from, struct msg *m)
{
    struct rig *r = core;
    static struct wire w, out;
    struct err e;
    ck_assert_int_eq(wire_decode(m, &w, &e), 0);
    if (w.type == WIRE_TYPE_SHARD_BEAT && !w.reply) {
        wire_reply_to(&w, 0, &out);
        out.u.SHARD_BEAT_reply.shard = r->number;
        out.u.SHARD_BEAT_reply.shards = 2;
        out.u.SHARD_BEAT_reply.cluster_high = RIG_CLUSTER + r->foreign;
        r->beat = w.u.SHARD_BEAT;
        r->beats++;
        r->to = from;
        r->ready_beats += w.u.SHARD_BEAT.ready;
        out.u.SHARD_BEAT_reply.lease_ms = 9000;
        env_send(sim_node_env(r->client), from, wire_encode(&out));
        msg_free(m);
        return;
    }
    ck_assert(w.reply && w.id < RIG_IDS);
    msg_free(r->answer[w.id].m);
    r->answer[w.id] = (struct rig_answer){true, w, m};
}

static void rig_on_drained(void *core)
{
    (void)core;
}

static const struct env_handler rig_handler = {.on_message = rig_on_message,
                                               .on_drained = rig_on_drained};

__attribute__((unused)) static void rig_run(struct rig *r, uint64_t ms)
{
    sim_run(r->sim, sim_now_ns(r->sim) + ms * MS, NULL, NULL);
}

__attribute__((unused)) static struct wire rig_wire(struct rig *r, enum wire_type type)
{
    struct wire w;
    memset(&w, 0, sizeof w);
    w.type = type;
    w.id = r->next_id++;
    ck_assert_uint_lt(w.id, RIG_IDS);
    return w;
}

/* Sends with up to two raw frames; a push has a third one, which asks for no rows. Returns the
 * id. */
__attribute__((unused)) static uint64_t rig_send(struct rig *r, const struct wire *w, int frames,
                                                 const void *a, size_t a_bytes, const void *b,
                                                 size_t b_bytes)
{
    struct msg *m = wire_encode(w);
    ck_assert_ptr_nonnull(m);
    for (int i = 0; i < frames; i++) {
        const void *from = i ? b : a;
        size_t bytes = i ? b_bytes : a_bytes;
        void *to = msg_add(m, bytes);
        ck_assert_ptr_nonnull(to);
        if (bytes)
            memcpy(to, from, bytes);
    }
    if (w->type == WIRE_TYPE_PUSH && frames < 3)
        ck_assert_ptr_nonnull(msg_add(m, 0));
    ck_assert_int_eq(env_send(sim_node_env(r->client), r->to, m), 0);
    return w->id;
}

__attribute__((unused)) static int rig_status(const struct rig *r, uint64_t id)
{
    return r->answer[id].got ? r->answer[id].w.status : RIG_WAITING;
}

__attribute__((unused)) static const struct wire *rig_reply(const struct rig *r, uint64_t id)
{
    ck_assert_msg(r->answer[id].got, "no reply to %d yet", (int)id);
    return &r->answer[id].w;
}

/* Returns the only float of the reply to a pull of one key. */
__attribute__((unused)) static float rig_value(const struct rig *r, uint64_t id)
{
    ck_assert_int_eq(rig_status(r, id), 0);
    return *(const float *)r->answer[id].m->frame[1].data;
}

__attribute__((unused)) static uint64_t rig_pull(struct rig *r, uint32_t lane, uint64_t batch,
                                                 uint32_t bound, uint64_t key)
{
    struct wire w = rig_wire(r, WIRE_TYPE_PULL);
    w.u.PULL = (struct wire_PULL){.run = RIG_RUN,
                                  .lane = lane,
                                  .batch = batch,
                                  .bound = bound,
                                  .key_count = 1,
                                  .map_epoch = 1,
                                  .traced = r->traced};
    return rig_send(r, &w, 1, &key, sizeof key, NULL, 0);
}

struct rig_push_args {
    uint32_t lane, table;
    uint64_t generation, from, to; /* generation 0: 1 */
    uint32_t first, count;         /* count 0: all tablets */
    uint64_t key;
    float gradient;
    uint64_t id; /* 0: a new one */
};

__attribute__((unused)) static uint64_t rig_push(struct rig *r, struct rig_push_args a)
{
    float g[2] = {a.gradient, a.gradient};
    struct wire w = rig_wire(r, WIRE_TYPE_PUSH);
    if (a.id)
        w.id = a.id;
    w.u.PUSH = (struct wire_PUSH){.run = RIG_RUN,
                                  .table = a.table,
                                  .lane = a.lane,
                                  .generation = a.generation ? a.generation : 1,
                                  .from = a.from,
                                  .to = a.to,
                                  .tablet_first = a.first,
                                  .tablet_count = a.count ? a.count : 1u << RIG_BITS,
                                  .lr_scale = 1,
                                  .key_count = a.key ? 1 : 0,
                                  .map_epoch = 1,
                                  .traced = r->traced};
    return rig_send(r, &w, 2, &a.key, a.key ? sizeof a.key : 0, g, a.key ? sizeof g : 0);
}

/* The message of a push: the fields of w, and its frames. keys, gradients (w's key_count, 2); bits:
 * as PUSH's third frame, of this many bytes; 0: it asks for no rows. */
__attribute__((unused)) static struct msg *rig_push_message(const struct wire *w,
                                                            const uint64_t *keys,
                                                            const float *gradients,
                                                            const uint8_t *bits, size_t bit_bytes)
{
    const size_t count = w->u.PUSH.key_count;
    struct msg *m = wire_encode(w);
    ck_assert_ptr_nonnull(m);
    memcpy(msg_add(m, count * sizeof *keys), keys, count * sizeof *keys);
    memcpy(msg_add(m, 2 * count * sizeof *gradients), gradients, 2 * count * sizeof *gradients);
    void *wanted = msg_add(m, bit_bytes);
    ck_assert_ptr_nonnull(wanted);
    if (bit_bytes > 0)
        memcpy(wanted, bits, bit_bytes);
    return m;
}

__attribute__((unused)) static uint64_t rig_table(struct rig *r, uint32_t table,
                                                  enum optimizer_kind kind)
{
    struct table_schema *s = calloc(1, sizeof *s);
    snprintf(s->name, sizeof s->name, "t%u", table);
    s->table = table;
    s->width = 2;
    s->tablet_bits = RIG_BITS;
    s->tablet_first = table << RIG_BITS;
    s->seed = 1;
    s->optimizer = (struct optimizer_spec){
        .kind = kind, .lr = 1, .eps = 1e-8f, .beta1 = 0.9f, .beta2 = 0.999f};
    struct wire w = rig_wire(r, WIRE_TYPE_TABLE_CREATE);
    wire_schema_to(s, &w.u.TABLE_CREATE);
    free(s);
    return rig_send(r, &w, 1, NULL, 0, NULL, 0);
}

/* Maps all tablets of two tables to the shard, except those from `foreign` on, which another shard
 * leads. */
__attribute__((unused)) static uint64_t rig_map(struct rig *r, uint64_t epoch, uint32_t foreign)
{
    uint16_t shard_of[2u << RIG_BITS];
    for (uint32_t i = 0; i < 2u << RIG_BITS; i++)
        shard_of[i] = i >= foreign;
    struct wire w = rig_wire(r, WIRE_TYPE_MAP_SET);
    w.u.MAP_SET = (struct wire_MAP_SET){.map_epoch = epoch,
                                        .tablet_count = 2u << RIG_BITS,
                                        .cluster_high = RIG_CLUSTER + r->foreign};
    return rig_send(r, &w, 1, shard_of, sizeof shard_of, NULL, 0);
}

__attribute__((unused)) static uint64_t rig_open(struct rig *r, uint64_t run, uint32_t lanes,
                                                 uint32_t mode)
{
    struct wire w = rig_wire(r, WIRE_TYPE_RUN_OPEN);
    w.u.RUN_OPEN = (struct wire_RUN_OPEN){.run = run, .lanes = lanes, .mode = mode};
    return rig_send(r, &w, 0, NULL, 0, NULL, 0);
}

__attribute__((unused)) static uint64_t rig_fence(struct rig *r, uint32_t lane, uint64_t generation,
                                                  bool live)
{
    struct wire w = rig_wire(r, WIRE_TYPE_FENCE);
    w.u.FENCE =
        (struct wire_FENCE){.run = RIG_RUN, .lane = lane, .generation = generation, .live = live};
    return rig_send(r, &w, 0, NULL, 0, NULL, 0);
}

/* Sends all `count` fences of a run; count 0: the run has none. */
__attribute__((unused)) static uint64_t
rig_fences(struct rig *r, uint64_t run, const struct wire_lane_fence *fence, uint32_t count)
{
    struct wire w = rig_wire(r, WIRE_TYPE_FENCES);
    w.u.FENCES = (struct wire_FENCES){.run = run, .lane_count = count};
    return rig_send(r, &w, 1, fence, count * sizeof *fence, NULL, 0);
}

__attribute__((unused)) static uint64_t rig_simple(struct rig *r, enum wire_type type)
{
    struct wire w = rig_wire(r, type);
    return rig_send(r, &w, 0, NULL, 0, NULL, 0);
}

/* Returns a key in tablet `tablet`; n selects one of them. */
__attribute__((unused)) static uint64_t rig_key(uint32_t tablet, uint32_t n)
{
    return key_unmix(((uint64_t)tablet << (64 - RIG_BITS)) + n + 1);
}

/* Starts a shard that listens and sends beats; it holds only what its dir has. */
__attribute__((unused)) static void rig_shard(struct rig *r)
{
    r->shard_node = sim_node_new(r->sim, "shard", NULL, NULL);
    struct shard_options o = {
        .server = "s", .shard_count = 1, .coordinator = r->alone ? NULL : "sim://client"};
    struct err e = {0};
    o.engine.dir = r->dir;
    o.engine.durability = r->durability;
    o.engine.journal_max = r->journal_max;
    o.engine.memory = r->memory;
    o.waiting_max = r->waiting_max;
    o.engine.segment_bytes = 1u << 20;
    o.engine.disk_watermark = 1;
    ck_assert_msg(shard_open(&o, sim_node_env(r->shard_node), &r->shard, &e) == 0, "%s", e.text);
    if (r->stalled)
        env_timer_stop(sim_node_env(r->shard_node), &r->shard->engine->reload_timer);
    sim_node_set_handler(r->shard_node, &shard_handler, r->shard);
    sim_listen(r->shard_node, "sim://shard");
    ck_assert_int_eq(shard_start(r->shard, "sim://shard", &e), 0);
    r->to = 0;
    if (r->alone)
        ck_assert_int_eq(
            env_connect(sim_node_env(r->client), "sim://shard", ENV_COORDINATOR, &r->to), 0);
    rig_run(r, 5);
    ck_assert_uint_ne(r->to, 0);
}

__attribute__((unused)) static void rig_start(struct rig *r, uint64_t seed)
{
    log_set_level(LOG_LEVEL_ERROR);
    r->next_id = 1;
    r->answer = calloc(RIG_IDS, sizeof *r->answer);
    uint64_t work_ns = r->work_ns ? r->work_ns : MS;
    r->sim = sim_new(&(struct sim_options){.seed = seed,
                                           .delay_min_ns = MS / 10,
                                           .delay_max_ns = MS / 2,
                                           .work_min_ns = work_ns,
                                           .work_max_ns = work_ns});
    r->client = sim_node_new(r->sim, "client", &rig_handler, r);
    sim_listen(r->client, "sim://client");
    rig_shard(r);
}

/* Kills the shard (or stops it cleanly) and starts a new process on the same folder. Like the
 * coordinator, the rig then sends the map again, and fences that are no newer than the shard's. */
__attribute__((unused)) static void rig_restart(struct rig *r, bool clean)
{
    if (!clean)
        sim_kill(r->shard_node);
    shard_close(r->shard, clean);
    if (clean)
        sim_kill(r->shard_node);
    rig_shard(r);
    rig_map(r, 1, 1000);
    rig_fences(r, RIG_RUN, NULL, 0);
    rig_run(r, 5);
}

/* Starts a shard with two tables, the map, and a run of `lanes` live lanes of generation 1, which
 * pushes to `tables` (one bit each; 0: all). */
__attribute__((unused)) static void rig_new_of(struct rig *r, uint32_t mode, uint32_t lanes,
                                               enum optimizer_kind kind, uint64_t tables)
{
    rig_start(r, 1); /* r: zeros, or dir, durability and work_ns */
    uint64_t id = rig_table(r, 0, kind);
    rig_table(r, 1, kind);
    rig_run(r, 5);
    ck_assert_msg(rig_status(r, id) == 0, "%s", r->answer[id].w.error);
    rig_map(r, 1, 1000);
    struct wire w = rig_wire(r, WIRE_TYPE_RUN_OPEN);
    w.u.RUN_OPEN = (struct wire_RUN_OPEN){
        .run = RIG_RUN, .lanes = lanes, .mode = mode, WIRE_TABLES_IS(set_of(tables))};
    id = rig_send(r, &w, 0, NULL, 0, NULL, 0);
    rig_run(r, 5);
    ck_assert_msg(rig_status(r, id) == 0, "%s", r->answer[id].w.error);
    for (uint32_t i = 0; i < lanes; i++)
        id = rig_fence(r, i, 1, true);
    rig_run(r, 5);
    ck_assert_msg(rig_status(r, id) == 0, "%s", r->answer[id].w.error);
}

__attribute__((unused)) static void rig_new(struct rig *r, uint32_t mode, uint32_t lanes,
                                            enum optimizer_kind kind)
{
    rig_new_of(r, mode, lanes, kind, 0);
}

__attribute__((unused)) static void rig_free(struct rig *r)
{
    /* no request is lost */
    ck_assert_uint_eq(request_pool_used(&r->shard->pool),
                      r->shard->clock.waiting + bsp_held(&r->shard->bsp));
    shard_close(r->shard, false);
    for (int i = 0; i < RIG_IDS; i++)
        msg_free(r->answer[i].m);
    free(r->answer);
    sim_free(r->sim);
}

__attribute__((unused)) static int rig_main(const char *name, const TTest *const *tests,
                                            size_t count)
{
    Suite *s = suite_create(name);
    TCase *c = tcase_create(name);
    tcase_set_timeout(c, 60);
    for (size_t i = 0; i < count; i++)
        tcase_add_test(c, tests[i]);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? 1 : 0;
}

#endif
