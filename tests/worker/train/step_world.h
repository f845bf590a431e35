/* step_world.h: workers of a network in step, in the simulator: each has a client and a struct
 * steps, and the test plays its lanes. It also plays the coordinator, which answers RING with what
 * the case says, and one shard, whose tables are a network of the test's own. */
#ifndef TESTS_WORKER_TRAIN_STEP_WORLD_H
#define TESTS_WORKER_TRAIN_STEP_WORLD_H

#include "proto/base/hash.h"
#include "proto/base/rng.h"
#include "tests/lib/dense_case.h"
#include "tests/lib/suite.h"
#include "tests/sim/sim.h"
#include "worker/train/step_inner.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORLD_MS UINT64_C(1000000)
#define WORLD_SECOND (1000 * WORLD_MS)
enum { WORLD_WORKERS = 4, WORLD_LANES = 4, WORLD_RUN = 5 };

struct worker {
    struct sim_node *node;
    struct client *client;
    struct steps *step;
    bool alive;
    uint64_t number;
    uint64_t next[WORLD_LANES]; /* the batch that a lane computes next; 0: the lane is not here */
    uint64_t last;              /* lanes stop behind this batch */
    bool slow;                  /* lanes compute, and do not come back: lane_back does it */
    uint64_t rows;              /* batches computed for their rows alone */
    uint64_t moved, late, lost, failed, unable;
    int status; /* of the newest `unable` */
    char text[ERR_TEXT_MAX];
    /* at the coordinator */
    peer_t peer;
    uint64_t id; /* of the request that waits; 0: none */
    struct wire_RING asked;
    uint32_t asks;
};

struct world {
    struct sim *sim;
    struct sim_node *coordinator, *shard;
    struct worker worker[WORLD_WORKERS];
    uint32_t workers;
    struct wire_RING_reply told; /* `member` is filled in for each worker */
    struct wire_ring_member member[WORLD_WORKERS];
    struct network *tables; /* at the shard */
    uint64_t mark[LIMIT_TABLETS], assigns, images;
    bool elsewhere;       /* what workers above 1 have counts for nothing */
    int refuse;           /* status of all answers to ASSIGN */
    uint64_t assign_late; /* ASSIGN of a step before the step after it was there */
    uint64_t weights[64]; /* by batch: a hash of those that the first lane computed it with */
};
static struct world world;
static struct job job;
static struct model *model;
static struct model_shape shape = {.fields = 2, .numerics = 1, .tasks = 1};
static struct table_schema schema[MODEL_TABLES_MAX];
static uint32_t table_count;
static size_t dense_floats, stats_floats;

/* ---- contributions --------------------------------------------------------------------------- */

static uint64_t world_weight(uint32_t lane, uint64_t batch)
{
    return (lane + batch) % 5; /* 0 in one of five */
}

/* The gradients of a lane's batch: functions of lane, batch and the weights that it is computed
 * with. */
static void world_gradients(uint32_t lane, uint64_t batch, const struct step_arrays *a)
{
    struct rng r = rng_of(lane + 1, batch, 3);
    for (size_t i = 0; i < a->dense_floats; i++)
        a->dense_gradients[i] = rng_float(&r) - 0.5f + 0.1f * a->dense[i];
    for (size_t i = 0; i < a->stats_floats; i++)
        a->stats_gradients[i] = 0.01f * (rng_float(&r) - 0.5f) + 0.02f * a->stats[i];
}

/* ---- lanes ----------------------------------------------------------------------------------- */

static struct step_lane lane_of(uint32_t lane, uint64_t mark)
{
    return (struct step_lane){.lane = lane, .run = WORLD_RUN, .generation = 1, .mark = mark};
}

static void lane_back(struct worker *w, uint32_t lane, enum step_turn turn)
{
    uint64_t batch = w->next[lane]++;
    step_back(w->step, lane);
    if (turn == STEP_GIVES)
        step_give(w->step, lane, batch, world_weight(lane, batch), 1);
    const struct step_lane name = lane_of(lane, batch);
    step_lane_acknowledged(w->step, &name);
}

/* All lanes compute a batch with the same weights, whenever they do. */
static void weights_check(uint64_t batch, const struct step_arrays *a)
{
    if (batch >= 64)
        return;
    uint64_t *seen = &world.weights[batch];
    uint64_t now = hash_bytes(a->dense, a->dense_floats * sizeof(float), 1);
    now = hash_bytes(a->stats, a->stats_floats * sizeof(float), now);
    if (*seen == 0)
        *seen = now;
    ck_assert_uint_eq(*seen, now);
}

static void lane_try(struct worker *w, uint32_t lane)
{
    struct step_arrays a;
    if (w->next[lane] == 0 || w->next[lane] > w->last)
        return;
    enum step_turn turn = step_admit(w->step, lane, w->next[lane], &a);
    w->late += turn == STEP_LATE;
    if (turn != STEP_GIVES && turn != STEP_ROWS)
        return;
    weights_check(w->next[lane], &a);
    world_gradients(lane, w->next[lane], &a);
    w->rows += turn == STEP_ROWS;
    if (!w->slow)
        lane_back(w, lane, turn);
}

static void lanes_try(void *context)
{
    struct worker *w = context;
    w->moved++;
    for (uint32_t lane = 0; lane < WORLD_LANES; lane++)
        lane_try(w, lane);
}

/* The coordinator grants a lane, with this mark. */
static void lane_grant(struct worker *w, uint32_t lane, uint64_t mark)
{
    const struct step_lane name = lane_of(lane, mark);
    w->next[lane] = mark + 1;
    step_lane_begin(w->step, &name);
    lane_try(w, lane);
}

/* ---- callbacks ------------------------------------------------------------------------------- */

static void on_stands(void *context, const struct wire_ring_member *member, uint32_t count,
                      uint32_t first, uint32_t end)
{
    struct worker *w = context;
    (void)member;
    (void)count;
    for (uint32_t lane = 0; lane < WORLD_LANES; lane++)
        if (w->next[lane] != 0 && (lane < first || lane >= end)) {
            const struct step_lane name = lane_of(lane, 0);
            w->next[lane] = 0;
            step_lane_end(w->step, &name);
        }
}

static void on_failed(void *context, int status, const char *text)
{
    struct worker *w = context;
    w->failed++;
    (void)snprintf(w->text, sizeof w->text, "%d: %s", status, text);
    step_end(w->step);
}

static void on_lost(void *context, const char *text)
{
    struct worker *w = context;
    w->lost++;
    (void)snprintf(w->text, sizeof w->text, "%s", text);
    step_end(w->step);
}

static void on_unable(void *context, int status, const char *text)
{
    struct worker *w = context;
    w->unable++;
    w->status = status;
    (void)snprintf(w->text, sizeof w->text, "%s", text);
    step_end(w->step);
}

static uint32_t lanes_held(void *context)
{
    const struct worker *w = context;
    uint32_t held = 0;
    for (uint32_t lane = 0; lane < WORLD_LANES; lane++)
        held += w->next[lane] != 0;
    return held;
}

/* ---- the coordinator and the shard ----------------------------------------------------------- */

static void ring_answer(struct worker *w)
{
    struct wire reply = {.type = WIRE_TYPE_RING, .reply = true, .id = w->id};
    reply.u.RING_reply = world.told;
    reply.u.RING_reply.member = WIRE_RING_MEMBERS;
    reply.u.RING_reply.there = world.told.source != WIRE_RING_TABLES && w->asked.has &&
                               w->asked.step == world.told.step &&
                               (!world.elsewhere || w->number == 1);
    for (uint32_t i = 0; i < world.told.members; i++)
        if (world.member[i].worker == w->number)
            reply.u.RING_reply.member = i;
    struct msg *m = wire_encode(&reply);
    size_t bytes = world.told.members * sizeof *world.member;
    void *frame = msg_add(m, bytes);
    ck_assert_ptr_nonnull(frame);
    memcpy(frame, world.member, bytes);
    w->id = 0;
    (void)env_send(sim_node_env(world.coordinator), w->peer, m);
}

/* Every worker gets what it does not know yet. */
static void world_tell(void)
{
    world.told.news++;
    for (uint32_t i = 0; i < world.workers; i++)
        if (world.worker[i].id != 0)
            ring_answer(&world.worker[i]);
}

static void ring_asked(peer_t from, const struct wire *in)
{
    struct worker *w = NULL;
    for (uint32_t i = 0; i < world.workers; i++)
        if (world.worker[i].number == in->u.RING.pass)
            w = &world.worker[i];
    ck_assert_ptr_nonnull(w);
    w->peer = from;
    w->id = in->id;
    w->asked = in->u.RING;
    w->asks++;
    if (world.told.news > 0 && w->asked.seen != world.told.news)
        ring_answer(w);
}

static void map_answer(peer_t from, const struct wire *in)
{
    struct wire reply;
    const char *line = "sim://shard\n";
    const struct table_schema *last = &schema[table_count - 1];
    uint32_t tablets = last->tablet_first + (1u << last->tablet_bits);
    wire_reply_to(in, 0, &reply);
    reply.u.MAP_GET_reply = (struct wire_MAP_GET_reply){
        .map_epoch = 1, .tablet_count = tablets, .shards = 1, WIRE_TABLES_IS(table_set_first(3))};
    struct msg *m = wire_encode(&reply);
    memset(msg_add(m, tablets * sizeof(uint16_t)), 0, tablets * sizeof(uint16_t));
    memcpy(msg_add(m, strlen(line)), line, strlen(line));
    (void)env_send(sim_node_env(world.coordinator), from, m);
}

/* The marks are counted over the tablets of both parts. */
static uint32_t mark_of(enum network_part part, uint32_t tablet)
{
    if (part == NETWORK_DENSE)
        return tablet;
    return network_tablets(world.tables, NETWORK_DENSE) + tablet;
}

static void image_answer(peer_t from, const struct wire *in)
{
    const struct wire_IMAGE *q = &in->u.IMAGE;
    enum network_part part = q->table - model_tables(model);
    struct wire reply;
    wire_reply_to(in, 0, &reply);
    reply.u.IMAGE_reply.mark = world.mark[mark_of(part, q->tablet)];
    struct msg *m = wire_encode(&reply);
    network_image_write(world.tables, part, q->tablet,
                        msg_add(m, network_image_bytes(world.tables, part, q->tablet)));
    world.images++;
    (void)env_send(sim_node_env(world.shard), from, m);
}

static void assign_answer(peer_t from, const struct wire *in, const struct msg *frames)
{
    const struct wire_ASSIGN *q = &in->u.ASSIGN;
    enum network_part part = q->table - model_tables(model);
    uint64_t *mark = &world.mark[mark_of(part, q->tablet)];
    struct wire reply;
    ck_assert_uint_lt(q->from, q->to); /* a shard refuses it */
    wire_reply_to(in, world.refuse, &reply);
    world.assigns++;
    for (uint32_t i = 0; i < world.workers; i++)
        if (world.worker[i].number == q->worker)
            world.assign_late += world.told.rest == 0 && !step_has(world.worker[i].step, q->to + 1);
    if (world.refuse == 0 && *mark < q->to) {
        ck_assert_int_eq(network_image_take(world.tables, part, q->tablet, frames->frame[1].data,
                                            frames->frame[1].bytes, NULL),
                         0);
        *mark = q->to;
    }
    (void)env_send(sim_node_env(world.shard), from, wire_encode(&reply));
}

static void on_message(void *core, peer_t from, struct msg *m)
{
    struct wire in;
    struct err e = {0};
    (void)core;
    ck_assert_msg(wire_decode(m, &in, &e) == 0, "%s", e.text);
    if (in.type == WIRE_TYPE_RING)
        ring_asked(from, &in);
    else if (in.type == WIRE_TYPE_MAP_GET)
        map_answer(from, &in);
    else if (in.type == WIRE_TYPE_IMAGE)
        image_answer(from, &in);
    else if (in.type == WIRE_TYPE_ASSIGN)
        assign_answer(from, &in, m);
    msg_free(m);
}

static void on_worker_message(void *core, peer_t from, struct msg *m)
{
    struct worker *w = core;
    struct wire in;
    struct err e = {0};
    ck_assert_msg(wire_decode(m, &in, &e) == 0, "%s", e.text);
    if (step_message(w->step, from, &in, m))
        msg_free(m);
    else
        client_message(w->client, from, m);
}

static void on_map(void *context)
{
    struct worker *w = context;
    step_remap(w->step);
}

static void on_drained(void *core)
{
    (void)core;
}

/* ---- life ------------------------------------------------------------------------------------ */

static void world_model(const char *more)
{
    static char text[1024];
    struct err e = {0};
    (void)snprintf(
        text, sizeof text,
        "job: step\ndata: {format: libsvm, train: [none]}\n"
        "tables: [{name: emb, dim: 2, tablets: 16, init: {kind: zero}, optimizer: {kind: "
        "sgd, lr: 0.1}}]\n"
        "model: {kind: deepfm, hidden: [8, 4], norm: batch}\n"
        "train: {batch: 16, consistency: async, lanes: %u, backend: cpu, dense: "
        "allreduce%s}\nnet: {resend: 50ms}\n",
        WORLD_LANES, more);
    ck_assert_msg(job_parse(text, strlen(text), "test", NULL, &job, &e) == 0, "%s", e.text);
    ck_assert_int_eq(model_schemas(&job, &shape, schema, &table_count, &e), 0);
    ck_assert_int_eq(model_new(&job, &shape, dense_backend(), &model, &e), 0);
    dense_floats = model_dense_floats(model);
    stats_floats = model_stats_floats(model);
    ck_assert(dense_floats > 0 && stats_floats > 0 && table_count == 3);
}

static struct network *world_network(void)
{
    struct network *n = NULL;
    struct network_options o = {0};
    for (uint32_t i = 0; i < NETWORK_PARTS; i++) {
        o.part[i].schema = &schema[model_tables(model) + i];
        model_blocks(model, i == NETWORK_STATS, &o.part[i].keys, &o.part[i].block,
                     &o.part[i].count);
    }
    ck_assert_int_eq(network_new(&o, &n, NULL), 0);
    return n;
}

static struct worker *world_worker(void)
{
    static const struct env_handler handler = {.on_message = on_worker_message,
                                               .on_drained = on_drained};
    struct worker *w = &world.worker[world.workers++];
    struct err e = {0};
    char name[16], endpoint[32];
    ck_assert_uint_le(world.workers, WORLD_WORKERS);
    (void)snprintf(name, sizeof name, "w%u", world.workers);
    (void)snprintf(endpoint, sizeof endpoint, "sim://%s", name);
    *w = (struct worker){.alive = true, .number = world.workers, .last = UINT64_MAX};
    w->node = sim_node_new(world.sim, name, &handler, w);
    sim_listen(w->node, endpoint);
    const struct client_options client = {
        .coordinator = "sim://coordinator", .on_map = on_map, .context = w};
    ck_assert_int_eq(client_new(sim_node_env(w->node), &client, &w->client, &e), 0);
    client_set_resend(w->client, 50);
    const struct step_options o = {.env = sim_node_env(w->node),
                                   .client = w->client,
                                   .job = &job,
                                   .model = model,
                                   .backend = dense_backend(),
                                   .schema = schema,
                                   .table_count = table_count,
                                   .lanes = WORLD_LANES,
                                   .moved = lanes_try,
                                   .stands = on_stands,
                                   .failed = on_failed,
                                   .lost = on_lost,
                                   .unable = on_unable,
                                   .lanes_held = lanes_held,
                                   .context = w};
    ck_assert_msg(step_new(&o, &w->step, &e) == 0, "%s", e.text);
    client_map_refresh(w->client);
    const struct step_begin as = {
        .worker = w->number, .pass = w->number, .run = WORLD_RUN, .lease_ms = 1000};
    step_begin(w->step, &as);
    return w;
}

static void world_open(const char *more, double lost)
{
    static const struct env_handler handler = {.on_message = on_message, .on_drained = on_drained};
    const struct sim_options o = {.seed = 3,
                                  .drop = lost,
                                  .duplicate = lost,
                                  .delay_min_ns = WORLD_MS / 10,
                                  .delay_max_ns = WORLD_MS,
                                  .reorder = lost > 0,
                                  .work_min_ns = WORLD_MS,
                                  .work_max_ns = 3 * WORLD_MS};
    memset(&world, 0, sizeof world);
    world_model(more);
    world.sim = sim_new(&o);
    world.coordinator = sim_node_new(world.sim, "coordinator", &handler, NULL);
    world.shard = sim_node_new(world.sim, "shard", &handler, NULL);
    sim_listen(world.coordinator, "sim://coordinator");
    sim_listen(world.shard, "sim://shard");
    world.tables = world_network();
}

static void world_kill(struct worker *w)
{
    sim_kill(w->node); /* its threads come back no more, and its memory stays until world_close */
    w->alive = false;
}

static void world_run(uint64_t ms)
{
    (void)sim_run(world.sim, sim_now_ns(world.sim) + ms * WORLD_MS, NULL, NULL);
}

static void world_close(void)
{
    for (uint32_t i = 0; i < world.workers; i++) {
        struct worker *w = &world.worker[i];
        if (w->alive) {
            step_end(w->step);
            world_run(100);
            step_free(w->step);
            client_free(w->client);
        }
    }
    sim_free(world.sim);
    network_free(world.tables);
    model_free(model);
    job_free(&job);
}

/* The coordinator names a ring of these workers, which gathers, then stands at this step. */
static void world_gather(const uint32_t *worker, uint32_t count)
{
    world.told = (struct wire_RING_reply){.run = WORLD_RUN,
                                          .news = world.told.news,
                                          .ring = world.told.ring + 1,
                                          .state = WIRE_RING_GATHERS,
                                          .lanes = WORLD_LANES,
                                          .starts = world.told.starts,
                                          .generation = 1,
                                          .published = world.told.published};
    if (world.told.starts == 0)
        world.told.starts = count;
    for (uint32_t i = 0; i < count; i++) {
        world.member[i] = (struct wire_ring_member){.worker = worker[i] + 1,
                                                    .first = i * WORLD_LANES / count,
                                                    .lanes = (i + 1) * WORLD_LANES / count -
                                                             i * WORLD_LANES / count};
        (void)snprintf(world.member[i].endpoint, sizeof world.member[i].endpoint, "sim://w%u",
                       worker[i] + 1);
    }
    world_tell();
    world_run(200);
}

static void world_stand(uint32_t count, uint64_t step, uint32_t source)
{
    world.told.state = WIRE_RING_STANDS;
    world.told.members = count;
    world.told.step = step;
    world.told.source = source;
    for (uint32_t i = 0; i < count; i++) {
        const struct wire_RING *said = &world.worker[world.member[i].worker - 1].asked;
        world.member[i].keeps = 0;
        if (source != WIRE_RING_TABLES && said->has)
            world.member[i].keeps = said->keeps;
    }
    world_tell();
    world_run(200);
}

/* A ring of the first `count` workers, which read what the tables have. */
static void world_ring(uint32_t count)
{
    static const uint32_t all[] = {0, 1, 2, 3};
    while (world.workers < count)
        (void)world_worker();
    world_run(50);
    world_gather(all, count);
    world_stand(count, 0, WIRE_RING_TABLES);
}

/* Every lane is granted to the member that holds it. */
static void world_grant(uint64_t mark)
{
    for (uint32_t i = 0; i < world.told.members; i++)
        for (uint32_t l = 0; l < world.member[i].lanes; l++)
            lane_grant(&world.worker[world.member[i].worker - 1], world.member[i].first + l, mark);
}

/* Float i of the ring's array, summed over the lanes (lanes, floats) from a start on. */
static float world_float(const struct network *n, const float *x, uint64_t step, uint32_t start,
                         size_t i, bool weighted)
{
    uint32_t first = (uint32_t)(start * WORLD_LANES / world.told.starts);
    size_t floats = dense_floats + stats_floats, at = i, from = 0;
    const uint32_t *order = network_order(n, NETWORK_DENSE);
    float sum = 0;
    bool any = false;
    if (!weighted) {
        order = network_order(n, NETWORK_STATS);
        from = dense_floats;
        at -= dense_floats;
    }
    at = from + order[at / BLOCK_FLOATS] * BLOCK_FLOATS + at % BLOCK_FLOATS;
    for (uint32_t k = 0; k < WORLD_LANES; k++) {
        uint32_t l = (first + k) % WORLD_LANES;
        float w = (float)world_weight(l, step), v = x[l * floats + at];
        if (w == 0)
            continue;
        if (weighted)
            v = w * v;
        sum = any ? sum + v : v;
        any = true;
    }
    return sum;
}

/* The digest of the network after these steps of all lanes, made in one place. */
static uint64_t world_undisturbed(uint64_t last)
{
    struct network *n = world_network();
    size_t floats = dense_floats + stats_floats;
    float *x = calloc(WORLD_LANES * floats, sizeof *x), *sum = calloc(floats, sizeof *sum);
    struct way_cut cut;
    uint64_t digest;
    struct way_array array;
    network_deal(n, world.told.starts);
    network_array(n, &array);
    ck_assert_int_eq(way_cut(&array, world.told.starts, &cut, NULL), 0);
    for (uint64_t step = 1; step <= last; step++) {
        uint64_t weight = 0;
        for (uint32_t l = 0; l < WORLD_LANES; l++) {
            const struct step_arrays a = {.dense = network_weights(n, NETWORK_DENSE),
                                          .stats = network_weights(n, NETWORK_STATS),
                                          .dense_gradients = x + l * floats,
                                          .stats_gradients = x + l * floats + dense_floats,
                                          .dense_floats = dense_floats,
                                          .stats_floats = stats_floats};
            world_gradients(l, step, &a);
            weight += world_weight(l, step);
        }
        for (uint32_t c = 0; c < cut.chunks; c++) {
            struct way_place p = way_place(&cut, c);
            for (size_t i = p.at; i < p.at + p.floats; i++)
                sum[i] = world_float(n, x, step, c % world.told.starts, i, p.weighted);
        }
        if (weight == 0)
            network_skip(n, step);
        else
            ck_assert_int_eq(network_step(n, sum, weight, 1, step, NULL), 0);
    }
    ck_assert_int_eq(network_digest(n, &digest), 0);
    if (job.train.sharded) { /* of the weights alone */
        digest = hash_bytes(network_weights(n, NETWORK_DENSE), dense_floats * sizeof(float), 0);
        digest =
            hash_bytes(network_weights(n, NETWORK_STATS), stats_floats * sizeof(float), digest);
    }
    network_free(n);
    free(x);
    free(sum);
    return digest;
}

static void world_check(const struct worker *w, uint64_t step)
{
    uint64_t digest;
    ck_assert_uint_eq(w->step->at, step);
    ck_assert_int_eq(network_digest(w->step->network, &digest), 0);
    ck_assert_uint_eq(digest, world_undisturbed(step));
}

#endif
