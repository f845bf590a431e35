/* test_lane_step.c: a lane's batches where the workers keep the network in step: one worker with
 * one lane, against fake shards in the simulator. The case answers RING: a ring of this worker. */
#include "tests/lib/dense_case.h"
#include "tests/lib/suite.h"
#include "tests/lib/worker_fake.h"
#include "tests/lib/worker_files.h"
#include "worker/train/lane_inner.h"
#include "worker/train/step_inner.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECOND UINT64_C(1000000000)
enum { BATCHES = 12 };

static struct fake fake;
static struct job job;
static char text[2048];
static struct backend *backend;
static struct model_shape shape;
static struct model *model;
static struct table_schema schema[MODEL_TABLES_MAX];
static uint32_t table_count;
static struct stats stats;
static struct lane_base base;
static struct dataset *input;
static struct sim_node *node;
static struct lane *lane;
static struct network *empty; /* what the tables have */
static bool ended, bsp;
static bool apart;                                     /* no two examples share a key */
static uint64_t given_early, pushed_early, of_network; /* what no case may see */

static const struct sim_options calm = {.seed = 1,
                                        .delay_min_ns = 50000,
                                        .delay_max_ns = 200000,
                                        .work_min_ns = 100000,
                                        .work_max_ns = 3000000};

/* ---- the coordinator and the shards ---------------------------------------------------------- */

static struct msg *ring_answer(const struct wire *in)
{
    struct wire reply;
    const struct wire_ring_member member = {.worker = 1, .lanes = 1, .endpoint = "sim://lane"};
    wire_reply_to(in, 0, &reply);
    reply.u.RING_reply = (struct wire_RING_reply){.run = FAKE_RUN,
                                                  .news = 1,
                                                  .ring = 1,
                                                  .state = WIRE_RING_STANDS,
                                                  .members = 1,
                                                  .lanes = 1,
                                                  .starts = 1,
                                                  .source = WIRE_RING_TABLES,
                                                  .generation = 1};
    struct msg *m = wire_encode(&reply);
    memcpy(msg_add(m, sizeof member), &member, sizeof member);
    return m;
}

static struct msg *image_answer(const struct wire *in)
{
    const struct wire_IMAGE *q = &in->u.IMAGE;
    enum network_part part = q->table - model_tables(model);
    struct wire reply;
    wire_reply_to(in, 0, &reply);
    struct msg *m = wire_encode(&reply);
    network_image_write(empty, part, q->tablet,
                        msg_add(m, network_image_bytes(empty, part, q->tablet)));
    return m;
}

static bool other(struct fake_node *n, peer_t from, const struct wire *w, const struct msg *m)
{
    (void)m;
    if (w->type == WIRE_TYPE_RING && w->u.RING.seen == 0)
        (void)env_send(sim_node_env(n->node), from, ring_answer(w));
    else if (w->type == WIRE_TYPE_IMAGE)
        (void)env_send(sim_node_env(n->node), from, image_answer(w));
    if (w->type == WIRE_TYPE_PULL)
        of_network += w->u.PULL.table != 0 && w->u.PULL.lane != UINT32_MAX;
    if (w->type == WIRE_TYPE_PUSH) {
        of_network += w->u.PUSH.table != 0;
        pushed_early += bsp && !step_has(base.step, w->u.PUSH.to);
    }
    return w->type == WIRE_TYPE_RING || w->type == WIRE_TYPE_IMAGE;
}

/* ---- a lane with a step ---------------------------------------------------------------------- */

static void on_message(void *core, peer_t from, struct msg *m)
{
    (void)core;
    client_message(base.client, from, m);
}

static void nothing(void *core)
{
    (void)core;
}

static const struct env_handler handler = {.on_message = on_message, .on_drained = nothing};

static void on_end(void *owner)
{
    (void)owner;
    ended = true;
}

static void map_changed(void *context)
{
    (void)context;
    step_remap(base.step);
}

/* Counts steps that are made before the lane's pushes before them are acknowledged. */
static void moved(void *context)
{
    (void)context;
    if (lane == NULL)
        return;
    given_early += !lane_idle(lane) && base.step->at > lane_mark(lane) + 1;
    lane_look(lane);
}

static void stands(void *context, const struct wire_ring_member *member, uint32_t count,
                   uint32_t first, uint32_t end)
{
    (void)context;
    (void)member;
    (void)count;
    ck_assert(first == 0 && end == 1);
}

static void failed(void *context, int status, const char *why)
{
    (void)context;
    ck_abort_msg("%d: %s", status, why);
}

static void lost(void *context, const char *why)
{
    (void)context;
    ck_abort_msg("%s", why);
}

static void unable(void *context, int status, const char *why)
{
    (void)context;
    ck_abort_msg("%d: %s", status, why);
}

static uint32_t lanes_held(void *context)
{
    (void)context;
    return 1;
}

static bool has_map(void *context)
{
    (void)context;
    return client_map(base.client) != NULL && base.step->state == STEP_OPEN;
}

static bool has_ended(void *context)
{
    (void)context;
    return ended;
}

static void step_make(void)
{
    const struct step_options o = {.env = base.env,
                                   .client = base.client,
                                   .job = &job,
                                   .model = model,
                                   .backend = backend,
                                   .schema = schema,
                                   .table_count = table_count,
                                   .lanes = 1,
                                   .moved = moved,
                                   .stands = stands,
                                   .failed = failed,
                                   .lost = lost,
                                   .unable = unable,
                                   .lanes_held = lanes_held};
    const struct step_begin as = {.worker = 1, .pass = 1, .run = FAKE_RUN, .lease_ms = 1000};
    struct network_options n = {0};
    for (uint32_t i = 0; i < NETWORK_PARTS && model_tables(model) + i < table_count; i++) {
        n.part[i].schema = &schema[model_tables(model) + i];
        model_blocks(model, i == NETWORK_STATS, &n.part[i].keys, &n.part[i].block,
                     &n.part[i].count);
    }
    ck_assert_int_eq(network_new(&n, &empty, NULL), 0);
    ck_assert_int_eq(step_new(&o, &base.step, NULL), 0);
    step_begin(base.step, &as);
}

static void open_lane(const char *mode, const char *batch, const char *norm, uint32_t rows)
{
    static char data[1 << 16];
    size_t at = 0;
    struct err e = {0};
    bsp = strcmp(mode, "bsp") == 0;
    given_early = pushed_early = of_network = 0;
    for (uint32_t i = 0; i < rows; i++)
        at += (size_t)snprintf(data + at, sizeof data - at, "%u %u:1 %u:1\n", i % 3 == 0,
                               1 + i % (apart ? rows : 20), 3000 + i % (apart ? rows : 7));
    snprintf(text, sizeof text,
             "job: lane\ndata: {format: libsvm, train: [%s], cache: %s}\n"
             "tables:\n  - {name: emb, dim: 2, tablets: 16, init: {kind: uniform}, optimizer: "
             "{kind: sgd, lr: 0.1}}\n"
             "model: {kind: deepfm, hidden: [4], norm: %s}\n"
             "train: {%s, epochs: 1, consistency: %s, prefetch: 2, lanes: 1, backend: cpu, dense: "
             "allreduce}\nnet: {resend: 100ms}\n",
             worker_write("train.libsvm", data, at), worker_path("cache"), norm, batch, mode);
    ck_assert_msg(job_parse(text, strlen(text), "test", NULL, &job, &e) == 0, "%s", e.text);
    ck_assert_int_eq(dataset_shape(&job, &shape, &e), 0);
    backend = dense_backend();
    ck_assert_int_eq(model_schemas(&job, &shape, schema, &table_count, &e), 0);
    ck_assert_int_eq(model_new(&job, &shape, backend, &model, &e), 0);
    fake_open(&fake, &calm, text, 2, 1);
    fake.other = other;
    fake.tables = table_count;
    for (uint32_t t = 0; t < table_count; t++) {
        fake.schema[t] = schema[t];
        fake.declared[t] = true;
    }
    node = sim_node_new(fake.sim, "lane", &handler, NULL);
    const struct client_options client = {.coordinator = FAKE_COORDINATOR, .on_map = map_changed};
    memset(&stats, 0, sizeof stats);
    base = (struct lane_base){.env = sim_node_env(node),
                              .job = &job,
                              .model = model,
                              .backend = backend,
                              .schema = schema,
                              .table_count = table_count,
                              .worker = 1,
                              .stats = &stats};
    turns_init(&base.turns, base.env, 2);
    ck_assert_int_eq(client_new(base.env, &client, &base.client, &e), 0);
    client_set_resend(base.client, 100);
    step_make();
    ck_assert_int_eq(dataset_open(&job, WIRE_TRAIN, &input, &e), 0);
    client_map_refresh(base.client);
    ck_assert(sim_run(fake.sim, 10 * SECOND, has_map, NULL));
    ck_assert_int_eq(lane_new(&base, on_end, NULL, &lane, &e), 0);
    lane_begin(lane);
}

static void start_task(uint64_t first, uint32_t batches, uint64_t rows)
{
    const struct wire_LANE_NEXT_reply task = {.kind = WIRE_NEXT_TASK,
                                              .generation = 1,
                                              .epoch = 1,
                                              .split = WIRE_TRAIN,
                                              .rows = rows,
                                              .first_batch = first,
                                              .batch_count = batches,
                                              .lr_scale = 1.0f,
                                              .run = FAKE_RUN};
    ended = false;
    lane_start(lane, &task, input);
}

/* Tasks of up to 20 batches, from this one on. */
static void run_task(uint64_t first, uint32_t batches, uint64_t rows)
{
    start_task(first, batches, rows);
    ck_assert(ended || sim_run(fake.sim, sim_now_ns(fake.sim) + 100 * SECOND, has_ended, NULL));
}

static void settle(void)
{
    (void)sim_run(fake.sim, sim_now_ns(fake.sim) + SECOND / 10, NULL, NULL);
}

static void close_lane(void)
{
    ck_assert_uint_eq(given_early, 0);
    ck_assert_uint_eq(pushed_early, 0);
    ck_assert_uint_eq(of_network, 0);
    step_end(base.step);
    settle();
    lane_free(lane);
    lane = NULL;
    step_free(base.step);
    network_free(empty);
    client_free(base.client);
    dataset_close(input);
    fake_close(&fake);
    model_free(model);
    job_free(&job);
}

static void setup(void)
{
    apart = false;
    worker_folder_make();
}

static void teardown(void)
{
    worker_folder_remove();
}

/* ---- cases ----------------------------------------------------------------------------------- */

START_TEST(lane_makes_a_step_of_each_batch)
{
    static const char *const modes[] = {"async", "ssp", "bsp"};
    for (size_t i = 0; i < 3; i++) {
        open_lane(modes[i], "batch: 16", "batch", 300);
        run_task(1, BATCHES, 180); /* the last batches: 4 examples, and none */
        settle();
        ck_assert_uint_eq(base.step->at, BATCHES);
        ck_assert_uint_eq(fake_mark(&fake, 0), 0); /* dense tables have no marks of lanes */
        ck_assert_uint_eq(lane_mark(lane), BATCHES);
        ck_assert_int_eq(lane_result(lane)->status, 0);
        ck_assert_uint_eq(lane_result(lane)->examples, 180);
        run_task(BATCHES + 1, 3, 48);
        settle();
        ck_assert_uint_eq(base.step->at, BATCHES + 3);
        close_lane();
    }
}
END_TEST

/* Acknowledgements that come late hold the steps up, but for the newest one, also where a batch
 * needs no row of the batch before. */
START_TEST(lane_gives_when_the_push_before_is_acknowledged)
{
    apart = true;
    open_lane("async", "batch: 16", "batch", 300);
    fake.push_late_ns = SECOND / 2;
    uint64_t begun = sim_now_ns(fake.sim);
    run_task(1, BATCHES, 192);
    settle();
    ck_assert_uint_eq(base.step->at, BATCHES);
    ck_assert_uint_ge(sim_now_ns(fake.sim) - begun, SECOND);
    close_lane();
}
END_TEST

START_TEST(lane_of_bsp_pushes_after_the_step)
{
    open_lane("bsp", "batch: 16", "batch", 300);
    run_task(1, BATCHES, 192);
    settle();
    ck_assert_uint_eq(base.step->at, BATCHES);
    close_lane();
}
END_TEST

/* Batches up to the step are pushed, and change the network no more. */
START_TEST(lane_of_a_made_step_pushes_its_rows_alone)
{
    uint64_t before, after;
    open_lane("async", "batch: 16", "batch", 300);
    run_task(1, BATCHES, 192);
    settle();
    ck_assert_int_eq(network_digest(base.step->network, &before), 0);
    uint32_t pushes = fake.seen[WIRE_TYPE_PUSH];
    run_task(BATCHES, 1, 16);
    settle();
    ck_assert_uint_eq(base.step->at, BATCHES);
    ck_assert_uint_gt(fake.seen[WIRE_TYPE_PUSH], pushes);
    ck_assert_int_eq(network_digest(base.step->network, &after), 0);
    ck_assert_uint_eq(after, before);
    run_task(BATCHES - 1, 1, 16); /* too old: its weights are gone */
    ck_assert_int_eq(lane_result(lane)->status, SHOAL_E_GAP);
    close_lane();
}
END_TEST

/* A lane that goes on too late is dropped when the thread that reads its next batch is back. Until
 * then the worker has not settled: the lane's rows may lack batches that the network has. */
START_TEST(lane_that_is_dropping_has_not_settled)
{
    open_lane("async", "batch: 16", "batch", 300);
    run_task(1, BATCHES, 192);
    settle();
    uint32_t seen = 0;
    start_task(BATCHES - 1, 6, 96);
    while (!ended) {
        ck_assert(sim_step(fake.sim));
        if (ended || !lane->dropping)
            continue;
        seen++;
        ck_assert(base.step->slot[0].runs);
    }
    ck_assert_uint_gt(seen, 0);
    ck_assert(!base.step->slot[0].runs);
    ck_assert_int_eq(lane_result(lane)->status, SHOAL_E_GAP);
    start_task(BATCHES + 1, 3, 48);
    ck_assert(base.step->slot[0].runs);
    lane_drop(lane, SHOAL_E_STOPPED); /* its seat has let it go */
    ck_assert(!base.step->slot[0].runs);
    ck_assert(ended || sim_run(fake.sim, sim_now_ns(fake.sim) + SECOND, has_ended, NULL));
    close_lane();
}
END_TEST

static void weights_after(const char *batch, uint32_t batches, float *out, size_t floats)
{
    open_lane("async", batch, "none", 300);
    run_task(1, batches, 96);
    settle();
    ck_assert_uint_eq(base.step->at, batches);
    ck_assert_uint_eq(model_dense_floats(model), floats);
    memcpy(out, network_weights(base.step->network, NETWORK_DENSE), floats * sizeof *out);
    close_lane();
}

/* A batch of three slices makes the step of one batch that is as large as they are. */
START_TEST(lane_window_gives_the_mean_of_its_slices)
{
    float one[4096], other[4096];
    open_lane("async", "batch: 16", "none", 300);
    size_t floats = model_dense_floats(model);
    ck_assert_uint_le(floats, 4096);
    close_lane();
    weights_after("batch: 48", 1, one, floats);
    weights_after("batch: 16, window: 3", 1, other, floats);
    double differ = 0, moved_by = 0;
    open_lane("async", "batch: 16", "none", 300);
    const float *initial = network_weights(base.step->network, NETWORK_DENSE);
    for (size_t i = 0; i < floats; i++) {
        differ += (one[i] - other[i]) * (double)(one[i] - other[i]);
        moved_by += (one[i] - initial[i]) * (double)(one[i] - initial[i]);
    }
    close_lane();
    ck_assert_double_gt(moved_by, 0);
    ck_assert_double_lt(differ, moved_by * 1e-8);
}
END_TEST

/* An evaluation reads the network from the tables. */
START_TEST(lane_that_evaluates_pulls_the_network)
{
    open_lane("async", "batch: 16", "batch", 300);
    const struct wire_LANE_NEXT_reply task = {
        .kind = WIRE_NEXT_EVAL, .split = WIRE_TRAIN, .rows = 100, .run = FAKE_RUN};
    ended = false;
    lane_start(lane, &task, input);
    ck_assert(sim_run(fake.sim, sim_now_ns(fake.sim) + 100 * SECOND, has_ended, NULL));
    ck_assert_int_eq(lane_result(lane)->status, 0);
    ck_assert_uint_eq(fake.pull.lane, UINT32_MAX);
    ck_assert_uint_gt(fake.pull.table, 0); /* the last pull is of the network */
    run_task(1, 2, 32);
    settle();
    ck_assert_uint_eq(base.step->at, 2);
    close_lane();
}
END_TEST

int main(void)
{
    Suite *s = suite_create("lane_step");
    TCase *t = suite_case(s, "lane_step", 100, setup, teardown);
    tcase_add_test(t, lane_makes_a_step_of_each_batch);
    tcase_add_test(t, lane_gives_when_the_push_before_is_acknowledged);
    tcase_add_test(t, lane_of_bsp_pushes_after_the_step);
    tcase_add_test(t, lane_of_a_made_step_pushes_its_rows_alone);
    tcase_add_test(t, lane_that_is_dropping_has_not_settled);
    tcase_add_test(t, lane_window_gives_the_mean_of_its_slices);
    tcase_add_test(t, lane_that_evaluates_pulls_the_network);
    return suite_main(s);
}
