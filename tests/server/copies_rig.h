/* copies_rig.h: the copies of one shard in the simulator, with a client that plays the coordinator
 * and another one that plays workers. The coordinator answers beats and IN_SYNC as its members say;
 * a takeover is the test's own (fleet_lead). Requests go through shard_rig.h: fleet_boss and
 * fleet_worker give the rig that sends to a copy. */
#ifndef TESTS_SERVER_COPIES_RIG_H
#define TESTS_SERVER_COPIES_RIG_H

#include "embedding/copy.h"
#include "tests/server/shard_rig.h"

#define FLEET_COPIES 3u
#define FLEET_LEASE_MS 600u

struct fleet_copy {
    struct sim_node *node;
    struct shard *shard; /* NULL: dead */
    char name[16], endpoint[32], dir[96];
    peer_t boss, worker;         /* connections to it */
    struct wire_SHARD_BEAT beat; /* the last one */
    uint32_t beats;
};

struct fleet {
    struct sim *sim;
    struct sim_node *coordinator, *workers;
    struct rig boss, worker;
    struct fleet_copy copy[FLEET_COPIES];
    enum durability durability;
    const char *dir; /* NULL: in memory */
    uint32_t copies; /* in the list; 0: the coordinator knows no copies */
    uint32_t leader; /* its place */
    uint64_t term;
    uint32_t in_sync, min_in_sync;
    bool deaf;               /* the coordinator answers no IN_SYNC */
    bool refuses;            /* it answers AGAIN where one adds a copy */
    bool stands_by;          /* it refuses all, as a coordinator that stands by */
    uint32_t in_sync_asked;  /* requests */
    uint32_t in_sync_wanted; /* the list of the newest one */
    uint64_t copy_rate;      /* of copies that start from now on */
};

static void fleet_reply_to(struct fleet *f, uint32_t i, struct wire_SHARD_BEAT_reply *out)
{
    *out = (struct wire_SHARD_BEAT_reply){.shards = 2,
                                          .cluster_high = RIG_CLUSTER,
                                          .lease_ms = 900,
                                          .copy = i,
                                          .copies = f->copies,
                                          .term = f->term,
                                          .in_sync = f->in_sync,
                                          .min_in_sync = f->min_in_sync,
                                          .shard_lease_ms = FLEET_LEASE_MS};
    if (i != f->leader)
        snprintf(out->leader, sizeof out->leader, "%.255s", f->copy[f->leader].endpoint);
}

static void fleet_boss_message(void *core, peer_t from, struct msg *m)
{
    struct fleet *f = core;
    static struct wire w, out;
    struct err e;
    ck_assert_int_eq(wire_decode(m, &w, &e), 0);
    if (w.reply) {
        rig_on_message(&f->boss, from, m);
        return;
    }
    msg_free(m);
    wire_reply_to(&w, 0, &out);
    if (f->stands_by) {
        f->in_sync_asked += w.type == WIRE_TYPE_IN_SYNC;
        env_send(sim_node_env(f->coordinator), from,
                 wire_refusal(&w, SHOAL_E_NOT_LEADER, COORDINATORS_NONE));
        return;
    }
    if (w.type == WIRE_TYPE_SHARD_BEAT) {
        uint32_t i = (uint32_t)(w.u.SHARD_BEAT.server[1] - '0');
        f->copy[i].beat = w.u.SHARD_BEAT;
        f->copy[i].beats++;
        f->copy[i].boss = from;
        fleet_reply_to(f, i, &out.u.SHARD_BEAT_reply);
    } else {
        ck_assert_int_eq(w.type, WIRE_TYPE_IN_SYNC);
        f->in_sync_asked++;
        f->in_sync_wanted = w.u.IN_SYNC.in_sync;
        if (f->deaf)
            return;
        if (w.u.IN_SYNC.term == f->term && f->refuses && (w.u.IN_SYNC.in_sync & ~f->in_sync) != 0)
            out.status = SHOAL_E_AGAIN;
        else if (w.u.IN_SYNC.term == f->term)
            out.u.IN_SYNC_reply.in_sync = f->in_sync = w.u.IN_SYNC.in_sync;
        else
            out.status = SHOAL_E_NOT_LEADER;
    }
    env_send(sim_node_env(f->coordinator), from, wire_encode(&out));
}

static const struct env_handler fleet_boss_handler = {.on_message = fleet_boss_message,
                                                      .on_drained = rig_on_drained};

__attribute__((unused)) static struct rig *fleet_boss(struct fleet *f, uint32_t i)
{
    f->boss.to = f->copy[i].boss;
    return &f->boss;
}

__attribute__((unused)) static struct rig *fleet_worker(struct fleet *f, uint32_t i)
{
    f->worker.to = f->copy[i].worker;
    return &f->worker;
}

__attribute__((unused)) static void fleet_run(struct fleet *f, uint64_t ms)
{
    rig_run(&f->boss, ms);
}

__attribute__((unused)) static void fleet_start(struct fleet *f, uint32_t i)
{
    struct fleet_copy *c = &f->copy[i];
    struct err e = {0};
    snprintf(c->name, sizeof c->name, "s%u", i);
    snprintf(c->endpoint, sizeof c->endpoint, "sim://s%u", i);
    struct shard_options o = {
        .server = c->name, .shard_count = 1, .coordinator = "sim://coordinator"};
    if (f->dir != NULL) {
        snprintf(c->dir, sizeof c->dir, "%.80s/s%u", f->dir, i);
        o.engine.dir = c->dir;
    }
    o.copy_rate = f->copy_rate;
    o.engine.durability = f->durability;
    o.engine.segment_bytes = 1u << 20;
    o.engine.disk_watermark = 1;
    c->node = sim_node_new(f->sim, c->name, NULL, NULL);
    ck_assert_msg(shard_open(&o, sim_node_env(c->node), &c->shard, &e) == 0, "%s", e.text);
    sim_node_set_handler(c->node, &shard_handler, c->shard);
    sim_listen(c->node, c->endpoint);
    ck_assert_int_eq(shard_start(c->shard, c->endpoint, &e), 0);
    if (c->worker == 0)
        ck_assert_int_eq(
            env_connect(sim_node_env(f->workers), c->endpoint, ENV_COORDINATOR, &c->worker), 0);
    fleet_run(f, 10);
    ck_assert_uint_gt(c->beats, 0);
    rig_map(fleet_boss(f, i), 1, 1000);
    fleet_run(f, 10);
}

__attribute__((unused)) static void fleet_kill(struct fleet *f, uint32_t i)
{
    sim_kill(f->copy[i].node);
    shard_close(f->copy[i].shard, false);
    f->copy[i].shard = NULL;
}

/* Names another leader, and tells it at once. The old one is not in sync any more. */
__attribute__((unused)) static void fleet_lead(struct fleet *f, uint32_t i)
{
    struct wire w = {.type = WIRE_TYPE_SHARD_BEAT, .reply = true};
    f->in_sync &= ~(1u << f->leader);
    f->leader = i;
    f->term++;
    fleet_reply_to(f, i, &w.u.SHARD_BEAT_reply);
    env_send(sim_node_env(f->coordinator), f->copy[i].boss, wire_encode(&w));
    fleet_run(f, 20);
}

/* Makes two tables and the run on copy i, which leads. */
__attribute__((unused)) static void fleet_run_open(struct fleet *f, uint32_t i)
{
    rig_table(fleet_boss(f, i), 0, OPT_ADAGRAD);
    rig_table(fleet_boss(f, i), 1, OPT_SGD);
    fleet_run(f, 20);
    uint64_t open = rig_open(fleet_boss(f, i), RIG_RUN, 2, WIRE_SSP);
    fleet_run(f, 20);
    ck_assert_msg(rig_status(&f->boss, open) == 0, "%s", rig_reply(&f->boss, open)->error);
    rig_fence(fleet_boss(f, i), 0, 1, true);
    uint64_t fence = rig_fence(fleet_boss(f, i), 1, 1, true);
    fleet_run(f, 20);
    ck_assert_msg(rig_status(&f->boss, fence) == 0, "%s", rig_reply(&f->boss, fence)->error);
}

/* Begins with `started` copies of a list of `copies`, all in sync; copy 0 leads. */
__attribute__((unused)) static void fleet_new(struct fleet *f, uint32_t copies, uint32_t started)
{
    log_set_level(getenv("RIG_LOG") != NULL ? LOG_LEVEL_INFO : LOG_LEVEL_ERROR);
    f->boss.next_id = f->worker.next_id = 1;
    f->boss.answer = calloc(RIG_IDS, sizeof *f->boss.answer);
    f->worker.answer = calloc(RIG_IDS, sizeof *f->worker.answer);
    f->sim = f->boss.sim = f->worker.sim = sim_new(&(struct sim_options){.seed = 1,
                                                                         .delay_min_ns = MS / 10,
                                                                         .delay_max_ns = MS / 2,
                                                                         .work_min_ns = MS,
                                                                         .work_max_ns = MS});
    f->coordinator = f->boss.client = sim_node_new(f->sim, "coordinator", &fleet_boss_handler, f);
    f->workers = f->worker.client = sim_node_new(f->sim, "workers", &rig_handler, &f->worker);
    sim_listen(f->coordinator, "sim://coordinator");
    f->copies = copies;
    if (copies > 0) {
        f->term = 1;
        f->in_sync = (1u << started) - 1;
        f->min_in_sync = f->min_in_sync == 0 ? 1 : f->min_in_sync;
    }
    for (uint32_t i = 0; i < started; i++)
        fleet_start(f, i);
    fleet_run(f, 200); /* the followers find their leader */
    fleet_run_open(f, 0);
}

__attribute__((unused)) static void fleet_free(struct fleet *f)
{
    for (uint32_t i = 0; i < FLEET_COPIES; i++)
        if (f->copy[i].shard != NULL)
            shard_close(f->copy[i].shard, false);
    for (int i = 0; i < RIG_IDS; i++) {
        msg_free(f->boss.answer[i].m);
        msg_free(f->worker.answer[i].m);
    }
    free(f->boss.answer);
    free(f->worker.answer);
    sim_free(f->sim);
}

/* Pushes batch `to` of lane 0 to copy i. */
__attribute__((unused)) static uint64_t fleet_push(struct fleet *f, uint32_t i, uint64_t to)
{
    return rig_push(fleet_worker(f, i), (struct rig_push_args){.from = to - 1,
                                                               .to = to,
                                                               .key = rig_key((uint32_t)to % 16, 0),
                                                               .gradient = (float)to + 0.5f});
}

/* Pushes batch `to` of lane 0 with so many keys. */
__attribute__((unused)) static uint64_t fleet_push_many(struct fleet *f, uint32_t i, uint64_t to,
                                                        uint32_t keys)
{
    struct rig *r = fleet_worker(f, i);
    uint64_t *key = malloc(keys * sizeof *key);
    float *gradient = malloc(keys * 2 * sizeof *gradient);
    for (uint32_t k = 0; k < keys; k++) {
        key[k] = rig_key(k % 16, k / 16);
        gradient[2 * k] = (float)to + 0.5f;
        gradient[2 * k + 1] = (float)k;
    }
    struct wire w = rig_wire(r, WIRE_TYPE_PUSH);
    w.u.PUSH = (struct wire_PUSH){.run = RIG_RUN,
                                  .generation = 1,
                                  .from = to - 1,
                                  .to = to,
                                  .tablet_count = 1u << RIG_BITS,
                                  .lr_scale = 1,
                                  .key_count = keys,
                                  .map_epoch = 1};
    uint64_t id =
        rig_send(r, &w, 2, key, keys * sizeof *key, gradient, keys * 2 * sizeof *gradient);
    free(key);
    free(gradient);
    return id;
}

/* Pushes batches from `first` on, `count` of them, and checks that they are answered. */
__attribute__((unused)) static void fleet_train(struct fleet *f, uint32_t i, uint64_t first,
                                                uint64_t count)
{
    for (uint64_t to = first; to < first + count; to++) {
        uint64_t id = fleet_push(f, i, to);
        fleet_run(f, 10);
        ck_assert_msg(rig_status(&f->worker, id) == 0, "batch %d: %s", (int)to,
                      rig_status(&f->worker, id) == RIG_WAITING ? "waits"
                                                                : rig_reply(&f->worker, id)->error);
    }
}

/* A number from all rows, marks, steps and the sequence of a copy. */
__attribute__((unused)) static uint64_t fleet_digest(struct fleet *f, uint32_t i)
{
    struct engine *g = f->copy[i].shard->engine;
    struct engine_stats stats;
    struct err e;
    engine_stats_get(g, &stats);
    uint64_t sum = hash_bytes(&stats.sequence, sizeof stats.sequence, stats.rows);
    for (uint32_t t = 0; t < 2; t++) {
        uint64_t steps = engine_steps(g, RIG_RUN, t);
        sum = hash_bytes(&steps, sizeof steps, sum);
        for (uint32_t tablet = 0; tablet < 1u << RIG_BITS; tablet++) {
            uint64_t digest, mark[2];
            const struct table *whole = engine_whole(g, t, tablet, &e);
            ck_assert_ptr_nonnull(whole);
            ck_assert_int_eq(table_digest(whole, tablet, &digest), 0);
            for (uint32_t lane = 0; lane < 2; lane++)
                mark[lane] = engine_mark_range(g, RIG_RUN, lane, t, tablet, 1);
            sum = hash_bytes(mark, sizeof mark, sum + digest);
        }
    }
    return sum;
}

__attribute__((unused)) static void fleet_equal(struct fleet *f, uint32_t a, uint32_t b)
{
    ck_assert_uint_eq(fleet_digest(f, a), fleet_digest(f, b));
}

/* Cuts both directions of a line. */
__attribute__((unused)) static void fleet_cut(struct fleet *f, struct sim_node *a,
                                              struct sim_node *b, uint64_t ms)
{
    sim_cut(a, b, sim_now_ns(f->sim) + ms * MS);
    sim_cut(b, a, sim_now_ns(f->sim) + ms * MS);
}

#endif
