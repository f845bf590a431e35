/* test_lane.c: parts of a batch, and one lane's batches against fake shards in the simulator. */
#include "dense/model.h"
#include "tests/lib/dense_case.h"
#include "tests/lib/worker_fake.h"
#include "tests/lib/worker_files.h"

#include "proto/base/key.h"
#include "worker/train/lane_inner.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECOND UINT64_C(1000000000)

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
static uint32_t ends;
static uint32_t lane_ahead, lane_readers_wanted;
static const char *more_data = ""; /* more keys of the job's `data` */
static const char *batch_keys = "batch: 16";
static uint32_t with_statistics, prefetch = 2, values = 60, hot = 7;
static uint32_t times_are = 1; /* the first entry of a line is this and up to 59 more */

static const struct sim_options calm = {.seed = 1,
                                        .delay_min_ns = 50000,
                                        .delay_max_ns = 200000,
                                        .work_min_ns = 100000,
                                        .work_max_ns = 3000000};

/* ---- a lane without a trainer ---------------------------------------------------------------- */

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

static void ended(void *owner)
{
    (void)owner;
    ends++;
}

static void map_changed(void *context)
{
    (void)context;
    if (lane != NULL)
        lane_remap(lane);
}

static bool has_ended(void *context)
{
    (void)context;
    return ends > 0;
}

static bool has_map(void *context)
{
    (void)context;
    return client_map(base.client) != NULL;
}

static void open_with(const struct sim_options *options, const char *mode, uint32_t rows)
{
    static char data[1 << 16];
    size_t at = 0;
    struct err e = {0};
    for (uint32_t i = 0; i < rows; i++)
        at += (size_t)snprintf(data + at, sizeof data - at, "%u %u:1 %u:1\n", i % 2,
                               times_are + i % values, 3000 + i % hot);
    snprintf(text, sizeof text,
             "job: lane\ndata: {format: libsvm, train: [%s], cache: %s%s}\n"
             "tables:\n  - {name: emb, dim: 2, tablets: 64, init: {kind: zero}, optimizer: {kind: "
             "sgd, lr: 1}}\n"
             "model: {kind: probe}\n"
             "train: {%s, epochs: 1, consistency: %s, staleness: 2, prefetch: %u, lanes: 2, "
             "backend: cpu}\n"
             "net: {resend: 200ms}\n",
             worker_write("train.libsvm", data, at), worker_path("cache"), more_data, batch_keys,
             mode, prefetch);
    ck_assert_msg(job_parse(text, strlen(text), "test", NULL, &job, &e) == 0, "%s", e.text);
    ck_assert_int_eq(dataset_shape(&job, &shape, &e), 0);
    backend = dense_backend();
    ck_assert_int_eq(model_schemas(&job, &shape, schema, &table_count, &e), 0);
    ck_assert_int_eq(model_new(&job, &shape, backend, &model, &e), 0);
    schema[0].rules.stats = with_statistics;
    fake_open(&fake, options, text, 2, 2);
    fake.schema[0] = schema[0];
    fake.tables = table_count;
    fake.declared[0] = true;
    node = sim_node_new(fake.sim, "lane", &handler, NULL);
    struct client_options client = {.coordinator = FAKE_COORDINATOR, .on_map = map_changed};
    base = (struct lane_base){.env = sim_node_env(node),
                              .job = &job,
                              .model = model,
                              .schema = schema,
                              .table_count = table_count,
                              .ahead = lane_ahead,
                              .readers = lane_readers_wanted,
                              .worker = 9,
                              .stats = &stats};
    turns_init(&base.turns, base.env, 2);
    memset(&stats, 0, sizeof stats);
    ends = 0;
    ck_assert_int_eq(client_new(base.env, &client, &base.client, &e), 0);
    client_set_resend(base.client, 200);
    ck_assert_int_eq(dataset_open(&job, WIRE_TRAIN, &input, &e), 0);
    client_map_refresh(base.client);
    ck_assert(sim_run(fake.sim, 10 * SECOND, has_map, NULL));
    ck_assert_int_eq(lane_new(&base, ended, NULL, &lane, &e), 0);
    lane_begin(lane);
}

static struct wire_LANE_NEXT_reply task_of(uint64_t position, uint64_t rows, uint64_t first_batch,
                                           uint32_t batch_count)
{
    return (struct wire_LANE_NEXT_reply){.kind = WIRE_NEXT_TASK,
                                         .lane = 0,
                                         .generation = 1,
                                         .epoch = 1,
                                         .split = WIRE_TRAIN,
                                         .position = position,
                                         .rows = rows,
                                         .first_batch = first_batch,
                                         .batch_count = batch_count,
                                         .lr_scale = 1.0f,
                                         .run = FAKE_RUN};
}

static void run_task(const struct wire_LANE_NEXT_reply *task)
{
    ends = 0;
    lane_start(lane, task, input);
    ck_assert(has_ended(NULL) ||
              sim_run(fake.sim, sim_now_ns(fake.sim) + 100 * SECOND, has_ended, NULL));
    ck_assert(lane_idle(lane));
    ck_assert_uint_eq(ends, 1);
}

static uint64_t counted(const struct meter_times *t)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < METER_CELLS; i++)
        count += t->cell[i];
    return count;
}

static void setup(void)
{
    values = 60;
    hot = 7;
    worker_folder_make();
}

static void close_lane(void)
{
    lane_free(lane);
    client_free(base.client);
    dataset_close(input);
    fake_close(&fake);
    model_free(model);
    job_free(&job);
    lane = NULL;
}

static void teardown(void)
{
    if (lane != NULL)
        close_lane();
    worker_folder_remove();
}

/* ---- cases ----------------------------------------------------------------------------------- */

START_TEST(lane_pushes_every_batch_everywhere)
{
    open_with(&calm, "async", 200);
    struct wire_LANE_NEXT_reply task = task_of(0, 100, 1, 7);
    run_task(&task);
    ck_assert_int_eq(lane_result(lane)->status, 0);
    ck_assert_uint_eq(lane_result(lane)->examples, 100);
    ck_assert_uint_eq(lane_result(lane)->drawn, 100);
    ck_assert_uint_eq(fake_mark(&fake, 0), 7);
    ck_assert_uint_eq(fake.applied, 7 * 64);
    ck_assert_uint_eq(stats.batches, 7);
    task = task_of(100, 100, 8, 7); /* the next one, on the same memory */
    run_task(&task);
    ck_assert_uint_eq(fake_mark(&fake, 0), 14);
    ck_assert_uint_eq(lane_result(lane)->examples, 100);
}
END_TEST

/* Each stage of a traced batch is charged, in virtual time. A lane that is dropped gives up the
 * traces of its batches. */
START_TEST(lane_traces_one_batch_in_some)
{
    static const char *const mode[] = {"async", "ssp", "bsp"};
    struct traces traces = {0};
    traces_set(&traces, 3);
    open_with(&calm, mode[_i], 400);
    base.traces = &traces;
    struct wire_LANE_NEXT_reply task = task_of(0, 112, 1, 7);
    run_task(&task);
    for (uint64_t n = 0; n < 2; n++) {
        const struct trace *t = &traces.trace[n];
        uint64_t sum = 0;
        for (int s = 0; s < WIRE_STAGES; s++)
            sum += t->w.stage_ns[s];
        ck_assert_int_eq(t->state, TRACE_DONE);
        ck_assert_uint_eq(t->w.batch, 3 * (n + 1));
        ck_assert_uint_eq(t->w.run, FAKE_RUN);
        ck_assert_uint_eq(t->w.worker, 9);
        ck_assert_uint_eq(t->w.examples, 16);
        ck_assert_uint_gt(t->w.wall_ns, 0);
        ck_assert_uint_eq(t->w.wall_ns, sum);
        ck_assert_uint_gt(t->w.stage_ns[WIRE_STAGE_PULL], 0);
        ck_assert_uint_gt(t->w.stage_ns[WIRE_STAGE_PUSH], 0);
        for (int push = 0; push < 2; push++) {
            ck_assert_uint_gt(t->w.parts[push], 0);
            ck_assert_uint_ne(t->w.part[push][0].id, 0);
            uint64_t took = t->w.part[push][t->w.parts[push] - 1].took_ns,
                     stage = t->w.stage_ns[push ? WIRE_STAGE_PUSH : WIRE_STAGE_PULL];
            if (push || _i == 2)
                ck_assert_uint_eq(took, stage);
            else /* the last rows may come with the push before */
                ck_assert_uint_le(took, stage);
        }
    }
    ck_assert_int_eq(traces.trace[2].state, TRACE_FREE);
    fake_expire(&fake, 0); /* the lane is fenced: its next batches end here */
    task = task_of(112, 200, 8, 13);
    run_task(&task);
    ck_assert_int_eq(lane_result(lane)->status, SHOAL_E_FENCED);
    for (uint32_t i = 2; i < TRACE_PLACES; i++)
        ck_assert_int_eq(traces.trace[i].state, TRACE_FREE);
    close_lane();
    traces_close(&traces);
}
END_TEST

/* bsp pads lanes: batches after the last row are ticks for every tablet, without a pull. */
START_TEST(lane_pushes_ticks_for_empty_batches)
{
    open_with(&calm, _i == 0 ? "bsp" : "async", 100);
    struct wire_LANE_NEXT_reply task = task_of(90, 10, 1, 5);
    run_task(&task);
    ck_assert_int_eq(lane_result(lane)->status, 0);
    ck_assert_uint_eq(lane_result(lane)->examples, 10);
    ck_assert_uint_eq(fake_mark(&fake, 0), 5);
    ck_assert_uint_le(fake.pulls, 2);
}
END_TEST

/* Batches up to the mark are done everywhere. Later ones may be done in part, and count as computed
 * again. */
START_TEST(lane_goes_on_after_the_mark)
{
    open_with(&calm, "async", 200);
    for (uint32_t t = 0; t < 64; t++)
        fake.mark[t][0] = t < 10 ? 4 : 3;
    struct wire_LANE_NEXT_reply task = task_of(0, 112, 1, 7);
    task.mark = 3;
    run_task(&task);
    ck_assert_uint_eq(lane_result(lane)->examples, 64);
    ck_assert_uint_eq(fake_mark(&fake, 0), 7);
    ck_assert_uint_eq(fake.skipped, 10);
    ck_assert_uint_eq(stats.skipped, 1);
    ck_assert_uint_eq(stats.recomputed, 1);
    task.mark = 7; /* all done: no row is read */
    run_task(&task);
    ck_assert_int_eq(lane_result(lane)->status, 0);
    ck_assert_uint_eq(lane_result(lane)->examples, 0);
    task = task_of(0, 112, 7, 7);
    for (task.mark = 6; task.mark < 9; task.mark++) { /* the batch before, the first, the next */
        run_task(&task);
        ck_assert_uint_eq(lane_result(lane)->examples, 112 - (task.mark - 6) * 16);
    }
}
END_TEST

START_TEST(lane_ends_when_it_is_fenced)
{
    open_with(&calm, "async", 200);
    fake_expire(&fake, 0);
    struct wire_LANE_NEXT_reply task = task_of(0, 200, 1, 13);
    run_task(&task);
    ck_assert_int_eq(lane_result(lane)->status, SHOAL_E_FENCED);
    ck_assert_uint_eq(fake.applied, 0);
    ck_assert_uint_eq(fake_mark(&fake, 0), 0);
}
END_TEST

START_TEST(lane_gives_up_when_acknowledged_pushes_are_lost)
{
    open_with(&calm, "async", 200);
    struct wire_LANE_NEXT_reply task = task_of(0, 100, 6, 7);
    task.mark = 5; /* but the shards have none */
    run_task(&task);
    ck_assert_int_eq(lane_result(lane)->status, SHOAL_E_GAP);
}
END_TEST

static bool two_are_ready(void *context)
{
    uint32_t ready = 0;
    (void)context;
    for (uint32_t i = 0; i < lane->batch_count; i++)
        ready += lane->batch[i].state >= READY && lane->batch[i].state <= COMPUTED;
    return ready >= 2;
}

/* A push is lost, and the next ones meet a gap: the lost push is sent again at once, not after its
 * timeout. */
START_TEST(lane_fills_gaps)
{
    values = hot = 1000; /* no row is in two batches, so that pushes overlap */
    lane_ahead = lane_readers_wanted = 4;
    open_with(&calm, "async", 200);
    client_set_resend(base.client, 20000);
    uint64_t before = sim_now_ns(fake.sim);
    struct wire_LANE_NEXT_reply task = task_of(0, 200, 1, 13);
    ends = 0;
    lane_start(lane, &task, input);
    ck_assert(sim_run(fake.sim, before + SECOND, two_are_ready, NULL));
    fake.lose_count[WIRE_TYPE_PUSH] = 2;
    ck_assert(sim_run(fake.sim, before + 100 * SECOND, has_ended, NULL));
    ck_assert_int_eq(lane_result(lane)->status, 0);
    ck_assert_uint_gt(fake.gaps, 0);
    ck_assert_uint_lt(sim_now_ns(fake.sim) - before, SECOND);
    ck_assert_uint_eq(fake_mark(&fake, 0), 13);
    ck_assert_uint_eq(fake.applied, 13 * 64);
}
END_TEST

/* Copies of acknowledged pushes are still in the network: their bytes must stay unchanged (the fake
 * shard checks keys against tablets). */
START_TEST(lane_keeps_memory_while_frames_borrow_it)
{
    struct sim_options slow = calm;
    slow.reorder = true;
    slow.delay_max_ns = 60000000;
    open_with(&slow, "async", 400);
    client_set_resend(base.client, 5);
    struct wire_LANE_NEXT_reply task = task_of(0, 400, 1, 25);
    run_task(&task);
    ck_assert_int_eq(lane_result(lane)->status, 0);
    ck_assert_uint_gt(fake.skipped, 0);
    ck_assert_uint_eq(fake.applied, 25 * 64);
}
END_TEST

START_TEST(lane_dropped_writes_nothing_more)
{
    open_with(&calm, "async", 200);
    struct wire_LANE_NEXT_reply task = task_of(0, 200, 1, 13);
    ends = 0;
    lane_start(lane, &task, input);
    sim_run(fake.sim, sim_now_ns(fake.sim) + 5000000, NULL, NULL);
    lane_drop(lane, SHOAL_E_STOPPED);
    uint32_t pushes = fake.seen[WIRE_TYPE_PUSH];
    sim_run(fake.sim, sim_now_ns(fake.sim) + 10 * SECOND, NULL, NULL);
    ck_assert_uint_eq(ends, 1);
    ck_assert_int_eq(lane_result(lane)->status, SHOAL_E_STOPPED);
    ck_assert_uint_le(fake.seen[WIRE_TYPE_PUSH] - pushes, 6); /* already in the network */
}
END_TEST

START_TEST(lane_refuses_rows_that_are_not_there)
{
    open_with(&calm, "async", 100);
    struct wire_LANE_NEXT_reply task = task_of(90, 20, 1, 2);
    run_task(&task);
    ck_assert_int_eq(lane_result(lane)->status, SHOAL_E_DATA);
    ck_assert_ptr_nonnull(strstr(lane_result(lane)->text, "100"));
    task = task_of(90, 11, 1, 1); /* one too many */
    run_task(&task);
    ck_assert_ptr_nonnull(strstr(lane_result(lane)->text, "do all workers read the same files"));
    task = task_of(90, 10, 1, 1);
    run_task(&task);
    ck_assert_int_eq(lane_result(lane)->status, 0);
}
END_TEST

/* An object that changed since it was indexed would give other examples under the same numbers. */
START_TEST(lane_refuses_an_object_that_is_another)
{
    open_with(&calm, "async", 100);
    struct wire_LANE_NEXT_reply task = task_of(0, 16, 1, 1);
    task.object = 3;
    task.object_rows = dataset_rows(input) + (_i == 1);
    task.object_digest = dataset_digest(input) ^ (_i == 2);
    run_task(&task);
    ck_assert_int_eq(lane_result(lane)->status, _i == 0 ? 0 : SHOAL_E_DATA);
    ck_assert_uint_eq(fake.applied > 0, _i == 0);
}
END_TEST

START_TEST(lane_numbers_end_below_their_limit)
{
    open_with(&calm, "async", 20);
    struct wire_LANE_NEXT_reply task = task_of(0, 0, 1, 1);
    task.lane = LIMIT_LANES;
    run_task(&task);
    ck_assert_int_eq(lane_result(lane)->status, SHOAL_E_MALFORMED);
    task = task_of(0, 0, 0, 1);
    run_task(&task);
    ck_assert_int_eq(lane_result(lane)->status, SHOAL_E_MALFORMED);
}
END_TEST

/* An evaluation reads rows as they are, without waiting. */
START_TEST(lane_pulls_within_the_bound_of_its_job)
{
    static const char *const mode[] = {"async", "ssp", "bsp", "ssp"};
    static const uint32_t bound[] = {WIRE_BOUND_ASYNC, 2, 0, WIRE_BOUND_ASYNC};
    open_with(&calm, mode[_i], 100);
    struct wire_LANE_NEXT_reply task = task_of(0, 16, 1, 1);
    if (_i == 3)
        task.kind = WIRE_NEXT_EVAL;
    run_task(&task);
    ck_assert_int_eq(lane_result(lane)->status, 0);
    ck_assert_uint_eq(fake.pull.bound, bound[_i]);
    ck_assert_uint_eq(fake.pull.lane, _i == 3 ? UINT32_MAX : 0);
}
END_TEST

/* A refused batch is reported once, and every one is, whatever its memory was used for before. */
START_TEST(lane_tells_of_every_batch_that_was_refused)
{
    open_with(&calm, "async", 400);
    fake.poison_from = 1;
    fake.poison_to = 100;
    struct wire_LANE_NEXT_reply task = task_of(0, 400, 1, 25);
    run_task(&task);
    ck_assert_int_eq(lane_result(lane)->status, 0);
    ck_assert_uint_eq(lane_result(lane)->refused, 25);
}
END_TEST

static void (*computed)(struct env_work *w);

/* Makes every batch look measured, and two of them overflow. */
static void norms_measured(struct env_work *w)
{
    lane->output.dense_norm = lane->computing->number == 3 ? (double)INFINITY : 1.0;
    lane->output.row_norm = lane->computing->number == 5 ? (double)NAN : 2.0;
    computed(w);
}

/* A norm that is not finite would spoil the sum of all. */
START_TEST(lane_counts_no_norm_that_is_not_finite)
{
    open_with(&calm, "async", 100);
    computed = lane->compute.done;
    lane->compute.done = norms_measured;
    struct wire_LANE_NEXT_reply task = task_of(0, 100, 1, 7);
    run_task(&task);
    ck_assert_uint_eq(lane_result(lane)->batches, 7);
    ck_assert_double_eq(lane_result(lane)->dense_norm, 5);
    ck_assert_double_eq(lane_result(lane)->row_norm, 10);
    ck_assert_uint_eq(lane_result(lane)->measured, 5);
}
END_TEST

/* ---- looking ahead --------------------------------------------------------------------------- */

/* What a lane must find in its rows: the probe adds 1 to a row for each example that has it. */
static struct {
    void (*run)(struct env_work *w);
    uint64_t key[256];
    uint32_t examples[256], keys; /* of the batches before, that were not refused or skipped */
    uint64_t wrong, rows;
    uint64_t skip_every; /* one of so many steps is skipped; 0: none */
} probed;

static uint32_t *examples_of(uint64_t key)
{
    uint32_t i = 0;
    while (i < probed.keys && probed.key[i] != key)
        i++;
    ck_assert_uint_lt(i, 256);
    if (i == probed.keys)
        probed.keys++;
    probed.key[i] = key;
    return &probed.examples[i];
}

/* Checks the rows of a batch before it is computed, and adds its own examples. */
static void own_writes_check(struct env_work *w)
{
    const struct lane_batch *b = lane->computing;
    const struct batch *batch = &b->rows->batch;
    bool skipped = probed.skip_every != 0 && b->number % probed.skip_every == 0,
         refused = b->number >= fake.poison_from && b->number < fake.poison_to;
    for (uint32_t i = 0; i < batch->key_count; i++) {
        probed.rows++;
        probed.wrong += b->rows->table[0].pulled[(size_t)i * schema[0].width] !=
                        (float)*examples_of(batch->keys[i]);
    }
    uint32_t found = batch->examples * batch->fields;
    if (batch->offset != NULL)
        found = batch->offset[found];
    for (uint32_t v = 0; v < found && !skipped && !refused; v++)
        ++*examples_of(batch->keys[batch->index[v]]);
    probed.run(w);
    lane->output.skipped = skipped;
}

/* Looks so many batches ahead. */
static void open_ahead(const struct sim_options *options, const char *mode, uint32_t batches)
{
    prefetch = batches;
    values = 30; /* keys come again two batches later */
    open_with(options, mode, 800);
    prefetch = 2;
    values = 60;
    memset(&probed, 0, sizeof probed);
    probed.run = lane->compute.run;
    lane->compute.run = own_writes_check;
}

static const uint32_t batches_ahead[] = {0, 1, 2, 5};

static void ahead_check(void)
{
    struct wire_LANE_NEXT_reply task = task_of(0, 400, 1, 25);
    run_task(&task);
    ck_assert_int_eq(lane_result(lane)->status, 0);
    task = task_of(400, 400, 26, 25);
    run_task(&task);
    ck_assert_int_eq(lane_result(lane)->status, 0);
    ck_assert_uint_gt(probed.rows, 50 * 16);
    ck_assert_msg(probed.wrong == 0, "%lu of %lu rows lack an own push, or have one too many",
                  probed.wrong, probed.rows);
    ck_assert_uint_eq(fake.applied, 50 * 64);
    ck_assert_uint_eq(fake_mark(&fake, 0), 50);
}

/* Whatever a lane pulls ahead, a batch is computed from rows that have all pushes before it. */
START_TEST(lane_sees_its_own_writes_however_far_it_looks_ahead)
{
    open_ahead(&calm, _i < 4 ? "async" : "ssp", batches_ahead[_i % 4]);
    ahead_check();
    ck_assert_uint_eq(stats.keys_echoed > 0, batches_ahead[_i % 4] > 0);
    ck_assert_uint_eq(stats.keys_missed, 0); /* under ssp, too: only other lanes can be behind */
    ck_assert_uint_eq(fake.echoes, stats.keys_echoed);
    /* a row is pulled or echoed once */
    ck_assert_uint_eq(stats.keys_pulled + stats.keys_echoed, probed.rows);
}
END_TEST

/* Some shard gives no rows with its answer: the batch pulls them. */
START_TEST(lane_pulls_what_did_not_come_with_a_push)
{
    open_ahead(&calm, "async", batches_ahead[_i % 4]);
    fake.echo_every = _i < 4 ? 1 : 3;
    ahead_check();
    ck_assert_uint_eq(fake.echoes_asked > fake.echoes, batches_ahead[_i % 4] > 0);
    ck_assert_uint_eq(stats.keys_missed, fake.echoes_asked - fake.echoes);
    ck_assert_uint_eq(stats.keys_pulled + stats.keys_echoed, probed.rows);
}
END_TEST

/* Rows of a push are as old as a pull at that moment: with a lane that is far behind they are too
 * old for some batches, which pull them again under the bound. */
START_TEST(lane_keeps_the_bound_for_rows_of_a_push)
{
    open_ahead(&calm, _i < 4 ? "ssp" : "async", 2);
    fake.echo_lag = (uint32_t)_i % 4;
    ahead_check();
    ck_assert_uint_eq(stats.keys_missed > 0, _i == 2 || _i == 3);
    ck_assert_uint_eq(stats.keys_echoed > 0, _i != 3);
    /* staleness 2: a batch that is d later takes rows of a lag up to 3 - d */
    ck_assert_uint_eq(lane_result(lane)->staleness[3] > 0, _i > 5);
}
END_TEST

/* A push that is skipped or refused for its values goes out without keys: no echo comes. */
START_TEST(lane_sees_its_own_writes_after_steps_that_are_skipped)
{
    open_ahead(&calm, "async", batches_ahead[_i % 4]);
    if (_i < 4) {
        probed.skip_every = 3;
    } else {
        fake.poison_from = 10;
        fake.poison_to = 20;
    }
    ahead_check();
    ck_assert_uint_eq(stats.keys_missed > 0, batches_ahead[_i % 4] > 0);
}
END_TEST

static void turn_fire(struct env_timer *t)
{
    fake_turn_map(&fake);
    client_map_refresh(base.client);
    env_timer_start(base.env, t, SECOND / 40);
}

/* Pushes and pulls are lost or refused, and tablets move: an earlier push may then be applied after
 * a pull that followed it. */
START_TEST(lane_sees_its_own_writes_through_failures)
{
    struct env_timer turn = {.fire = turn_fire};
    open_ahead(&calm, _i < 4 ? "async" : "ssp", batches_ahead[_i % 4]);
    client_set_resend(base.client, 20);
    fake.refuse_status[WIRE_TYPE_PUSH] = SHOAL_E_BUSY;
    fake.refuse_count[WIRE_TYPE_PUSH] = 7;
    turn_fire(&turn);
    ahead_check();
    env_timer_stop(base.env, &turn);
    ck_assert_uint_gt(fake.map_epoch, 4);
}
END_TEST

/* A push says how many batches the rows had that it was computed from. */
START_TEST(lane_pushes_say_how_old_their_rows_are)
{
    open_ahead(&calm, "async", batches_ahead[_i]);
    struct wire_LANE_NEXT_reply task = task_of(0, 160, 1, 10);
    run_task(&task);
    ck_assert_uint_ge(fake.push.clock, 10 - 1 - batches_ahead[_i]);
    ck_assert_uint_le(fake.push.clock, 9);
    ck_assert_uint_gt(fake.push.clock, 0);
}
END_TEST

/* A warm lane takes no memory from malloc for messages, and releases every frame. */
START_TEST(lane_allocates_nothing_when_warm)
{
    if (_i == 1)
        batch_keys = "batch: 4, window: 4";
    open_with(&calm, "async", 2000);
    struct wire_LANE_NEXT_reply task = task_of(0, 1000, 1, 63);
    run_task(&task);
    sim_run(fake.sim, sim_now_ns(fake.sim) + SECOND, NULL, NULL);
    uint64_t allocations = msg_allocations();
    task = task_of(1000, 1000, 64, 63);
    run_task(&task);
    ck_assert_uint_le(msg_allocations() - allocations, 4);
    ck_assert_uint_eq(fake_mark(&fake, 0), 126);
}
END_TEST

/* The resources of a lane, as seen after every event. */
struct flow_seen {
    uint32_t reading, read, pulling, full, floats; /* the maximum at one moment */
    bool overlapped;                               /* a batch was read while another was computed */
};

static uint32_t in_states(enum batch_state from, enum batch_state to)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < lane->batch_count; i++)
        count += lane->batch[i].state >= from && lane->batch[i].state <= to;
    return count;
}

static void most(uint32_t *most, uint32_t now)
{
    *most = now > *most ? now : *most;
}

static bool flow_look(void *context)
{
    struct flow_seen *s = context;
    uint32_t floats = 0;
    for (uint32_t i = 0; i < lane->batch_count; i++)
        floats += rows_has_floats(lane->batch[i].rows);
    most(&s->reading, in_states(READING, READING));
    most(&s->read, in_states(READING, READ));
    most(&s->pulling, in_states(PULLING, COMPUTED));
    most(&s->full, in_states(PULLING, DRAINING));
    most(&s->floats, floats);
    s->overlapped = s->overlapped || (lane->computing != NULL && in_states(READING, READING) > 0);
    return ends > 0;
}

static bool pushes_look(void *context)
{
    most(context, in_states(PUSHING, PUSHING));
    return ends > 0;
}

/* A shard holds one batch of a lane until its clock is complete. */
START_TEST(lane_pushes_one_batch_at_a_time_under_bsp)
{
    uint32_t pushing = 0;
    values = hot = 1000; /* no row is in two batches */
    open_with(&calm, _i == 0 ? "async" : "bsp", 400);
    fake.push_late_ns = SECOND / 20;
    struct wire_LANE_NEXT_reply task = task_of(0, 400, 1, 25);
    ends = 0;
    lane_start(lane, &task, input);
    ck_assert(sim_run(fake.sim, sim_now_ns(fake.sim) + 100 * SECOND, pushes_look, &pushing));
    if (_i == 0)
        ck_assert_uint_gt(pushing, 1);
    else
        ck_assert_uint_eq(pushing, 1);
}
END_TEST

/* Batches are read ahead in parallel up to the limit; the queues between the stages are bounded,
 * and so is the memory. */
START_TEST(lane_reads_ahead_within_its_bounds)
{
    static const uint32_t ahead[] = {1, 3, 8, 8}, readers[] = {1, 3, 2, 8};
    struct sim_options slow = calm;
    struct flow_seen seen = {0};
    slow.delay_max_ns = 20000000; /* pulls take as long as reading and computing */
    lane_ahead = ahead[_i];
    lane_readers_wanted = readers[_i];
    open_with(&slow, "async", 800);
    struct wire_LANE_NEXT_reply task = task_of(0, 800, 1, 50);
    ends = 0;
    lane_start(lane, &task, input);
    ck_assert(sim_run(fake.sim, sim_now_ns(fake.sim) + 100 * SECOND, flow_look, &seen));
    ck_assert_int_eq(lane_result(lane)->status, 0);
    ck_assert_uint_eq(fake_mark(&fake, 0), 50);
    ck_assert_uint_eq(seen.reading, readers[_i]);
    ck_assert_uint_eq(seen.read, ahead[_i]);
    ck_assert_uint_eq(seen.pulling, 3); /* 1 + prefetch */
    ck_assert_uint_le(seen.full, 5);    /* 3 + prefetch */
    ck_assert_uint_le(seen.floats, 5);  /* however many are read ahead */
    ck_assert_uint_gt(stats.busy_ns[STAGE_PARSE], 0);
    ck_assert_uint_gt(stats.busy_ns[STAGE_COMPUTE], 0);
    ck_assert_uint_gt(stats.busy_ns[STAGE_PULL], 0);
    ck_assert_uint_gt(stats.busy_ns[STAGE_PUSH], 0);
    ck_assert_uint_eq(stats.busy_ns[STAGE_FILE], 0); /* no clock was passed */
}
END_TEST

/* Where reading is the slow stage, reading several batches at a time helps. */
START_TEST(lane_reads_in_parallel)
{
    struct sim_options slow = calm;
    uint64_t took[2];
    slow.work_min_ns = 1000000; /* now reading is slower, now computing */
    slow.work_max_ns = 15000000;
    for (uint32_t i = 0; i < 2; i++) {
        lane_ahead = lane_readers_wanted = i == 0 ? 1 : 4;
        open_with(&slow, "async", 640);
        struct wire_LANE_NEXT_reply task = task_of(0, 640, 1, 40);
        struct flow_seen seen = {0};
        uint64_t begin = sim_now_ns(fake.sim);
        ends = 0;
        lane_start(lane, &task, input);
        ck_assert(sim_run(fake.sim, begin + 100 * SECOND, flow_look, &seen));
        ck_assert(seen.overlapped);
        took[i] = sim_now_ns(fake.sim) - begin;
        close_lane();
    }
    ck_assert_uint_lt(took[1], took[0]);
    ck_assert_uint_eq(lane_readers(16, 2), 8);
    ck_assert_uint_eq(lane_readers(2, 2), 1);
    ck_assert_uint_eq(lane_readers(3, 2), 2);
    ck_assert_uint_eq(lane_readers(1, 8), 1);
    ck_assert_uint_eq(lane_readers(0, 8), 1);
    ck_assert_uint_eq(lane_readers(500, 1), LANE_READERS_MAX);
}
END_TEST

/* A push names its worker and the time of its examples, which a shard cannot know. */
START_TEST(lane_pushes_say_whose_they_are_and_of_what_time)
{
    if (_i == 1)
        more_data = ", time: 1, time_unit: s"; /* the first entry of a line: 1..60 */
    open_with(&calm, "async", 200);
    struct wire_LANE_NEXT_reply task = task_of(0, 16, 1, 1);
    task.task = 5;
    run_task(&task);
    ck_assert_int_eq(lane_result(lane)->status, 0);
    ck_assert_uint_eq(fake.push.worker, 9);
    ck_assert_uint_eq(fake.push.task, 5);
    if (_i == 0)
        ck_assert_uint_eq(fake.push.event_time, 0);
    else
        ck_assert(fake.push.event_time >= 1 && fake.push.event_time <= 60);
    task = task_of(16, 0, 2, 1); /* a batch without rows has no time */
    run_task(&task);
    ck_assert_uint_eq(fake.push.event_time, 0);
}
END_TEST

/* Times after the task's limit are clamped, whatever this machine's calendar says. */
START_TEST(lane_clamps_times_to_the_tasks_limit)
{
    struct sim_options dated = calm;
    dated.wall_s = _i == 0 ? 1 : 1700000000;
    more_data = ", time: 1, time_unit: s";
    times_are = _i == 0 ? 1 : 100000;
    open_with(&dated, "async", 200);
    struct wire_LANE_NEXT_reply task = task_of(0, 200, 1, 13);
    task.time_limit = 99000;
    run_task(&task);
    ck_assert_int_eq(lane_result(lane)->status, 0);
    ck_assert_uint_eq(lane_result(lane)->clamped, stats.clamped);
    ck_assert_uint_eq(lane_result(lane)->first_time, times_are);
    ck_assert_uint_gt(lane_result(lane)->last_time, times_are);
    ck_assert_uint_le(lane_result(lane)->last_time, times_are + 59);
    if (_i == 0) {
        ck_assert_uint_le(fake.push.event_time, 60);
        ck_assert_uint_eq(stats.clamped, 0);
    } else {
        ck_assert_uint_eq(fake.push.event_time, task.time_limit);
        ck_assert_uint_eq(stats.clamped, 200);
    }
    struct wire_WORKER_BEAT beat;
    stats_to_wire(&stats, 9, &beat);
    ck_assert_uint_eq(beat.clamped_times, stats.clamped);
}
END_TEST

/* Every example shows its two keys once, however the keys are split into parts; half of the
 * examples are clicks. */
START_TEST(lane_pushes_shows_and_clicks)
{
    with_statistics = 1;
    open_with(&calm, _i == 0 ? "async" : "bsp", 200);
    fake.scattered = true;
    client_map_refresh(base.client);
    struct wire_LANE_NEXT_reply task = task_of(0, 200, 1, 13);
    run_task(&task);
    ck_assert_int_eq(lane_result(lane)->status, 0);
    ck_assert_double_eq(fake.shows, 400);
    ck_assert_double_eq(fake.clicks, 200);
    const struct fake_row *row =
        fake_row(&fake, 0, key_of_value(0, "7", 1)); /* the probe's 1 an example, beside them */
    ck_assert_ptr_nonnull(row);
    ck_assert_double_eq((double)row->value[0], 4);
}
END_TEST

/* A window is one batch on its way: pulled once, pushed once under one number, and its keys' shows
 * and clicks are counted as those of a batch of as many rows. */
START_TEST(lane_pulls_and_pushes_a_window_as_one_batch)
{
    static const char *const keys[] = {"batch: 48", "batch: 16, window: 3"};
    uint64_t pulls = 0, applied = 0;
    with_statistics = 1;
    for (uint32_t w = 0; w < 2; w++) {
        batch_keys = keys[w];
        open_with(&calm, "bsp", 200);
        struct wire_LANE_NEXT_reply task = task_of(0, 200, 1, 6);
        run_task(&task);
        const struct lane_result *r = lane_result(lane);
        const struct fake_row *row = fake_row(&fake, 0, key_of_value(0, "7", 1));
        ck_assert_int_eq(r->status, 0);
        ck_assert_uint_eq(r->examples, 200);
        ck_assert_uint_eq(r->batches, 5);
        ck_assert_uint_eq(stats.batches, 6);
        ck_assert_uint_eq(counted(&stats.steps), 5);
        ck_assert_uint_eq(fake_mark(&fake, 0), 6);
        ck_assert_double_eq(fake.shows, 400);
        ck_assert_double_eq(fake.clicks, 200);
        ck_assert_ptr_nonnull(row);
        ck_assert_double_eq((double)row->value[0], 4);
        if (w == 0) {
            pulls = fake.pulls;
            applied = fake.applied;
        }
        ck_assert_uint_eq(fake.pulls, pulls);
        ck_assert_uint_eq(fake.applied, applied);
        close_lane();
    }
}
END_TEST

/* Pushes are slow and all other stages are fast: the time is charged to push, although the next
 * batches wait unpulled (async: no memory is left; bsp: one push at a time). */
START_TEST(lane_charges_slow_pushes_to_push)
{
    lane_ahead = lane_readers_wanted = 4;
    open_with(&calm, _i == 0 ? "async" : "bsp", 1600);
    client_set_resend(base.client, 20000);
    fake.push_late_ns = SECOND / 10;
    struct wire_LANE_NEXT_reply task = task_of(0, 1600, 1, 100);
    uint64_t begin = sim_now_ns(fake.sim);
    run_task(&task);
    uint64_t took = sim_now_ns(fake.sim) - begin;
    ck_assert_int_eq(lane_result(lane)->status, 0);
    ck_assert_uint_gt(took, SECOND);
    ck_assert_uint_gt(stats.time_ns[STATS_PUSH], took / 10 * 8);
    ck_assert_uint_lt(stats.time_ns[STATS_PULL], took / 10);
    /* the gradients are as old as their pushes take, and each step is timed */
    ck_assert_uint_eq(counted(&stats.gradient_ages), 100);
    ck_assert_uint_ge(stats.gradient_ages.sum_ns, 100 * fake.push_late_ns);
    ck_assert_uint_ge(lane_gradient_age(lane), fake.push_late_ns);
    ck_assert_uint_eq(counted(&stats.steps), 100);
}
END_TEST

/* A lane that looks two batches ahead has the first rows of a batch while the two pushes before it
 * are still to come: the gradient is as old as these rows. */
START_TEST(lane_counts_the_age_of_the_first_rows)
{
    open_ahead(&calm, "async", 2);
    client_set_resend(base.client, 20000);
    fake.push_late_ns = SECOND / 10;
    struct wire_LANE_NEXT_reply task = task_of(0, 400, 1, 25);
    run_task(&task);
    ck_assert_int_eq(lane_result(lane)->status, 0);
    ck_assert_uint_eq(counted(&stats.gradient_ages), 25);
    ck_assert_uint_ge(stats.gradient_ages.sum_ns, 25 * 2 * fake.push_late_ns);
    ck_assert_uint_ge(lane_gradient_age(lane), 2 * fake.push_late_ns);
}
END_TEST

static void beat_fire(struct env_timer *t)
{
    lane_account(lane);
    env_timer_start(base.env, t, SECOND / 25);
}

/* Every pull is held for the bound: that counts as waiting, however often the time is read
 * meanwhile. */
START_TEST(lane_charges_held_pulls_to_waiting)
{
    struct env_timer beat = {.fire = beat_fire};
    lane_ahead = lane_readers_wanted = 4;
    open_with(&calm, "async", 1600);
    client_set_resend(base.client, 20000);
    fake.hold_ns = SECOND / 10;
    if (_i == 1)
        beat_fire(&beat);
    struct wire_LANE_NEXT_reply task = task_of(0, 1600, 1, 100);
    uint64_t begin = sim_now_ns(fake.sim);
    run_task(&task);
    uint64_t took = sim_now_ns(fake.sim) - begin;
    env_timer_stop(base.env, &beat);
    ck_assert_int_eq(lane_result(lane)->status, 0);
    ck_assert_uint_gt(took, SECOND);
    ck_assert_uint_gt(stats.held_ns, took / 10 * 8);
    ck_assert_uint_le(stats.held_ns, took);
    ck_assert_uint_lt(stats.time_ns[STATS_PULL], took / 10);
}
END_TEST

static void split_check(struct rows *r, const struct map *map, uint32_t keys_most)
{
    struct err e = {0};
    uint32_t tablet = 0, key = 0;
    ck_assert_msg(rows_split(r, map, true, &e) == 0, "%s", e.text);
    for (uint32_t i = 0; i < r->part_count; i++) {
        const struct part *p = &r->part[i];
        ck_assert_uint_eq(p->tablet_first, tablet);
        ck_assert_uint_eq(p->key_first, key);
        ck_assert_uint_le(p->key_count, keys_most);
        for (uint32_t t = 0; t < p->tablet_count; t++)
            ck_assert_uint_eq(map->shard[tablet + t], p->shard);
        for (uint32_t k = 0; k < p->key_count; k++) {
            uint32_t in = key_tablet(key_mix(r->table[0].keys[key + k]), schema[0].tablet_bits);
            ck_assert(in >= tablet && in < tablet + p->tablet_count);
        }
        tablet += p->tablet_count;
        key += p->key_count;
    }
    ck_assert_uint_eq(tablet, 64);
    ck_assert_uint_eq(key, r->table[0].key_count);
}

/* Parts cover every tablet once, follow any map, and never exceed the size of a message. */
START_TEST(rows_split_covers_every_tablet)
{
    struct rows *r;
    struct map map = {.tablet_count = 64, .shard_count = 3};
    struct err e = {0};
    uint32_t count = 300000;
    open_with(&calm, "async", 20);
    schema[0].width = 100; /* 16 MiB / 400 = 41943 keys a message */
    ck_assert_int_eq(rows_new(model, NULL, schema, 1, 16, 1, &r, &e), 0);
    uint64_t *keys = malloc(count * sizeof *keys);
    for (uint32_t i = 0; i < count; i++)
        keys[i] = i;
    qsort(keys, count, sizeof *keys, key_by_mixed);
    uint64_t *own = r->batch.keys;
    map.shard = calloc(64, sizeof *map.shard);
    for (int kind = 0; kind < 3; kind++) {
        for (uint32_t t = 0; t < 64; t++)
            map.shard[t] = (uint16_t)(kind == 0 ? 0 : kind == 1 ? t / 22 : t % 3);
        r->table[0].keys = keys;
        r->table[0].key_count = count;
        split_check(r, &map, 41943);
        ck_assert_uint_ge(r->part_count, kind == 2 ? 64 : 8);
        r->table[0].key_count = 0;
        split_check(r, &map, 0);
        ck_assert_uint_eq(r->part_count, kind == 0 ? 1 : kind == 1 ? 3 : 64);
    }
    schema[0].width = 4096; /* 1024 keys a message, 4687 in a tablet: impossible to send */
    r->table[0].key_count = count;
    ck_assert_int_eq(rows_split(r, &map, true, &e), SHOAL_E_TOO_BIG);
    map.tablet_count = 63;
    ck_assert_int_eq(rows_split(r, &map, true, &e), SHOAL_E_INTERNAL);
    r->batch.keys = own;
    rows_release(r);
    free(map.shard);
    free(keys);
    schema[0].width = model_row_width(model);
}
END_TEST

/* The memory of a batch stays as long as a frame borrows from it. */
START_TEST(rows_live_as_long_as_their_frames)
{
    struct rows *r;
    struct err e = {0};
    uint64_t keys[2] = {1, 2};
    open_with(&calm, "async", 20);
    ck_assert_int_eq(rows_new(model, NULL, schema, 1, 16, 1, &r, &e), 0);
    r->table[0].keys = keys;
    r->table[0].key_count = 2;
    struct part p = {.tablet_count = 64, .key_count = 2};
    struct msg *m = msg_new();
    ck_assert(rows_quiet(r));
    ck_assert_int_eq(rows_add_keys(r, &p, true, m), 0);
    ck_assert(!rows_quiet(r));
    ck_assert_ptr_eq(m->frame[0].data, keys);
    struct msg *second = msg_new();
    ck_assert_int_eq(rows_add_keys(r, &p, true, second), 0);
    msg_free(m);
    ck_assert(!rows_quiet(r));
    rows_release(r);
    ck_assert_mem_eq(second->frame[0].data, keys, sizeof keys);
    msg_free(second); /* the last reference: a sanitizer would report an error */
}
END_TEST

static uint32_t transfers_done;

static void transfer_done(struct transfer *t)
{
    (void)t;
    transfers_done++;
}

static bool transfer_over(void *context)
{
    (void)context;
    return transfers_done > 0;
}

/* No shard applies a part of a batch with a bad gradient: valid parts are sent as ticks, bad ones
 * as they are, to be refused and reported. */
START_TEST(transfer_of_a_bad_batch_pushes_nothing_good)
{
    enum { COUNT = 100 };
    static float gradients[COUNT * 16];
    uint64_t keys[COUNT];
    struct rows *r;
    struct transfer t;
    struct err e = {0};
    open_with(&calm, "async", 20);
    ck_assert_int_eq(rows_new(model, NULL, schema, 1, 16, 1, &r, &e), 0);
    for (uint32_t i = 0; i < COUNT; i++)
        keys[i] = i;
    qsort(keys, COUNT, sizeof *keys, key_by_mixed);
    uint64_t of_last = 0;
    const uint16_t *shard = client_map(base.client)->shard;
    for (uint32_t i = 0; i < COUNT; i++)
        of_last += shard[key_tablet(key_mix(keys[i]), schema[0].tablet_bits)] == shard[63];
    ck_assert(of_last > 0 && of_last < COUNT);
    r->table[0].keys = keys;
    r->table[0].key_count = COUNT;
    r->table[0].gradients = gradients;
    ck_assert_uint_le(COUNT * (size_t)schema_push_floats(&schema[0]),
                      sizeof gradients / sizeof *gradients);
    for (uint64_t bad = 0; bad < 2; bad++) {
        gradients[COUNT * (size_t)schema_push_floats(&schema[0]) - 1] = bad ? NAN : 0.0f;
        rows_check(r);
        ck_assert_int_eq(r->poisoned, bad);
        transfer_init(&t, base.client, r);
        t.done = transfer_done;
        transfers_done = 0;
        const struct transfer_name name = {
            .run = FAKE_RUN, .generation = 1, .batch = 1 + bad, .lr_scale = 1};
        ck_assert_int_eq(transfer_start(&t, &name, true, &e), 0);
        ck_assert(sim_run(fake.sim, sim_now_ns(fake.sim) + 10 * SECOND, transfer_over, NULL));
        ck_assert_uint_eq(t.keys, bad ? of_last : COUNT);
        transfer_close(&t);
    }
    rows_release(r);
}
END_TEST

/* After a gap the parts that overlap it are sent again, if they belong to its table and were sent
 * before. */
START_TEST(transfer_sends_again_what_overlaps)
{
    static const struct {
        uint32_t table, first, count;
        uint64_t order;
        uint32_t waiting, sent;
    } cases[] = {{0, 0, 32, 0, 1, 0},          {0, 0, 32, UINT64_MAX, 1, 1},
                 {0, 31, 1, UINT64_MAX, 1, 1}, {0, 32, 1, UINT64_MAX, 1, 1},
                 {0, 31, 2, UINT64_MAX, 2, 2}, {0, 0, 64, UINT64_MAX, 2, 2},
                 {1, 0, 64, UINT64_MAX, 0, 0}};
    uint64_t keys[1];
    struct rows *r;
    struct transfer t;
    struct err e = {0};
    open_with(&calm, "async", 20);
    client_set_resend(base.client, 60000);
    ck_assert_int_eq(rows_new(model, NULL, schema, 1, 16, 1, &r, &e), 0);
    r->table[0].keys = keys;
    transfer_init(&t, base.client, r);
    const struct transfer_name name = {.run = FAKE_RUN, .generation = 1, .batch = 1, .lr_scale = 1};
    fake.lose_count[WIRE_TYPE_PUSH] = 100;
    ck_assert_int_eq(transfer_start(&t, &name, true, &e), 0);
    ck_assert_uint_eq(t.pending, 2);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct part p = {.table = cases[i].table,
                         .tablet_first = cases[i].first,
                         .tablet_count = cases[i].count};
        (void)sim_run(fake.sim, sim_now_ns(fake.sim) + SECOND / 100, NULL, NULL);
        uint32_t before = fake.lose_count[WIRE_TYPE_PUSH];
        ck_assert_uint_eq(transfer_resend(&t, &p, cases[i].order), cases[i].waiting);
        (void)sim_run(fake.sim, sim_now_ns(fake.sim) + SECOND / 100, NULL, NULL);
        ck_assert_uint_eq(before - fake.lose_count[WIRE_TYPE_PUSH], cases[i].sent);
    }
    transfer_close(&t);
    rows_release(r);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("lane");
    TCase *c = tcase_create("lane");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_set_timeout(c, 60);
    tcase_add_test(c, lane_pushes_every_batch_everywhere);
    tcase_add_loop_test(c, lane_traces_one_batch_in_some, 0, 3);
    tcase_add_loop_test(c, lane_pushes_ticks_for_empty_batches, 0, 2);
    tcase_add_test(c, lane_goes_on_after_the_mark);
    tcase_add_test(c, lane_ends_when_it_is_fenced);
    tcase_add_test(c, lane_gives_up_when_acknowledged_pushes_are_lost);
    tcase_add_test(c, lane_fills_gaps);
    tcase_add_test(c, lane_keeps_memory_while_frames_borrow_it);
    tcase_add_test(c, lane_dropped_writes_nothing_more);
    tcase_add_test(c, lane_refuses_rows_that_are_not_there);
    tcase_add_loop_test(c, lane_refuses_an_object_that_is_another, 0, 3);
    tcase_add_test(c, lane_numbers_end_below_their_limit);
    tcase_add_loop_test(c, lane_pushes_one_batch_at_a_time_under_bsp, 0, 2);
    tcase_add_loop_test(c, lane_pulls_within_the_bound_of_its_job, 0, 4);
    tcase_add_test(c, lane_tells_of_every_batch_that_was_refused);
    tcase_add_test(c, lane_counts_no_norm_that_is_not_finite);
    tcase_add_loop_test(c, lane_sees_its_own_writes_however_far_it_looks_ahead, 0, 8);
    tcase_add_loop_test(c, lane_pulls_what_did_not_come_with_a_push, 0, 8);
    tcase_add_loop_test(c, lane_keeps_the_bound_for_rows_of_a_push, 0, 8);
    tcase_add_loop_test(c, lane_sees_its_own_writes_after_steps_that_are_skipped, 0, 8);
    tcase_add_loop_test(c, lane_sees_its_own_writes_through_failures, 0, 8);
    tcase_add_loop_test(c, lane_pushes_say_how_old_their_rows_are, 0, 4);
    tcase_add_loop_test(c, lane_allocates_nothing_when_warm, 0, 2);
    tcase_add_loop_test(c, lane_reads_ahead_within_its_bounds, 0, 4);
    tcase_add_test(c, lane_reads_in_parallel);
    tcase_add_loop_test(c, lane_pushes_say_whose_they_are_and_of_what_time, 0, 2);
    tcase_add_loop_test(c, lane_clamps_times_to_the_tasks_limit, 0, 2);
    tcase_add_loop_test(c, lane_pushes_shows_and_clicks, 0, 2);
    tcase_add_test(c, lane_pulls_and_pushes_a_window_as_one_batch);
    tcase_add_loop_test(c, lane_charges_slow_pushes_to_push, 0, 2);
    tcase_add_test(c, lane_counts_the_age_of_the_first_rows);
    tcase_add_loop_test(c, lane_charges_held_pulls_to_waiting, 0, 2);
    tcase_add_test(c, rows_split_covers_every_tablet);
    tcase_add_test(c, rows_live_as_long_as_their_frames);
    tcase_add_test(c, transfer_of_a_bad_batch_pushes_nothing_good);
    tcase_add_test(c, transfer_sends_again_what_overlaps);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? 0 : 1;
}
