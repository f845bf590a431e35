/* test_trainer.c: a whole worker against a fake coordinator and shards in the simulator. The probe
 * model adds 1 to a key's row for each example that has it, so after the job every row shows
 * whether each example was applied exactly once. */
#include "tests/lib/dense_case.h"
#include "tests/lib/worker_fake.h"
#include "tests/lib/worker_files.h"

#include "proto/base/hash.h"
#include "proto/job/config.h"
#include "worker/data/dataset.h"
#include "worker/train/trainer.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SECOND UINT64_C(1000000000)
#define MAX_WORKERS 4

static struct backend *backend;
static uint32_t step_ms; /* for workers that are added later */
static bool commands;    /* workers may run commands */
static bool replays;     /* workers accept only replays */
static bool stay;        /* workers stay between jobs */
static bool listens;     /* workers may listen, each at sim://NAME */
static struct fake fake;
static char text[4096];
static struct trainer *worker[MAX_WORKERS];
static struct sim_node *worker_node[MAX_WORKERS];
static uint32_t workers;

static const struct sim_options calm = {.seed = 1,
                                        .delay_min_ns = 50000,
                                        .delay_max_ns = 200000,
                                        .work_min_ns = 100000,
                                        .work_max_ns = 3000000};

/* ---- a job and its input --------------------------------------------------------------------- */

static const char *lines_make(const char *name, uint32_t rows, uint32_t keys)
{
    static char data[1 << 16];
    size_t at = 0;
    for (uint32_t i = 0; i < rows; i++)
        at += (size_t)snprintf(data + at, sizeof data - at, "%u %u:1 %u:1\n", i % 3 == 0,
                               1 + i * 7 % keys, 1 + keys + i * 5 % 11);
    return worker_write(name, data, at);
}

static void job_make(uint32_t rows, const char *model, const char *mode)
{
    lines_make("valid.libsvm", 100, 50);
    snprintf(
        text, sizeof text,
        "job: fake\n"
        "data: {format: libsvm, train: [%s], valid: [%s], cache: %s}\n"
        "tables:\n"
        "  - {name: emb, dim: 2, tablets: 64, init: {kind: zero}, optimizer: {kind: sgd, lr: 1}}\n"
        "model: %s\n"
        "train: {batch: 16, epochs: 1, consistency: %s, staleness: 2, prefetch: 2, lanes: 2, "
        "backend: cpu}\n"
        "net: {resend: 200ms}\n",
        lines_make("train.libsvm", rows, 50), worker_path("valid.libsvm"), worker_path("cache"),
        model, mode);
}

/* Every key's row is the number of examples that have it. */
static void rows_check(void)
{
    struct job job;
    struct dataset *d;
    struct batch b;
    struct err e = {0};
    static float expected[1 << 16];
    uint32_t keys = 0;
    ck_assert_msg(job_parse(text, strlen(text), "test", NULL, &job, &e) == 0, "%s", e.text);
    ck_assert_msg(dataset_open(&job, WIRE_TRAIN, &d, &e) == 0, "%s", e.text);
    batch_init(&b);
    ck_assert_int_eq(batch_read(d, 1, 0, 0, (uint32_t)dataset_rows(d), &b, &e), 0);
    memset(expected, 0, sizeof expected);
    for (uint32_t i = 0; i < b.values; i++)
        expected[b.index[i]] += 1.0f;
    for (uint32_t k = 0; k < b.key_count; k++) {
        const struct fake_row *row = fake_row(&fake, 0, b.keys[k]);
        ck_assert_ptr_nonnull(row);
        ck_assert_float_eq(row->value[0], expected[k]);
        keys++;
    }
    ck_assert_uint_eq(fake_row_count(&fake, 0), keys);
    batch_free(&b);
    dataset_close(d);
    job_free(&job);
}

/* ---- workers --------------------------------------------------------------------------------- */

static uint32_t looked; /* calls of where */

/* trainer_options.where. */
static int where(void *context, char endpoint[256], char host[256], struct err *e)
{
    (void)e;
    looked++;
    (void)snprintf(endpoint, 256, "sim://worker-%u", (unsigned)(uintptr_t)context);
    host[0] = 0;
    return 0;
}

static struct trainer *worker_add(uint32_t lanes)
{
    char name[32];
    struct err e = {0};
    struct trainer_options options = {.coordinator = FAKE_COORDINATOR,
                                      .name = name,
                                      .pid = 100 + workers,
                                      .lanes_max = lanes,
                                      .backend = backend,
                                      .wait_ms = 5000,
                                      .step_ms = step_ms,
                                      .commands = commands,
                                      .replay = replays,
                                      .where = listens ? where : NULL,
                                      .context = (void *)(uintptr_t)workers,
                                      .stay = stay};
    snprintf(name, sizeof name, "worker-%u", workers);
    worker_node[workers] = sim_node_new(fake.sim, name, trainer_handler(), NULL);
    ck_assert_int_eq(
        trainer_new(sim_node_env(worker_node[workers]), &options, &worker[workers], &e), 0);
    sim_node_set_handler(worker_node[workers], trainer_handler(), worker[workers]);
    return worker[workers++];
}

static bool all_stopped(void *context)
{
    (void)context;
    for (uint32_t i = 0; i < workers; i++)
        if (worker[i] != NULL && !sim_stopped(worker_node[i]))
            return false;
    return true;
}

static bool half_way(void *context)
{
    (void)context;
    return fake.applied > 64 * 12;
}

static void run_to_the_end(void)
{
    ck_assert(sim_run(fake.sim, sim_now_ns(fake.sim) + 600 * SECOND, all_stopped, NULL));
}

static void ends_well(const struct trainer *t)
{
    struct err e = {0};
    ck_assert_msg(trainer_status(t, &e) == 0, "%s", e.text);
    ck_assert(trainer_settled(t));
}

static void setup(void)
{
    worker_folder_make();
    if (backend == NULL)
        backend = dense_backend();
}

static void teardown(void)
{
    for (uint32_t i = 0; i < workers; i++)
        if (worker[i] != NULL)
            trainer_free(worker[i]);
    workers = 0;
    listens = false;
    fake_close(&fake);
    worker_folder_remove();
}

/* ---- cases ----------------------------------------------------------------------------------- */

START_TEST(trainer_applies_every_example_once)
{
    job_make(1000, "{kind: probe}", "ssp");
    fake_open(&fake, &calm, text, 2, 2);
    worker_add(2);
    run_to_the_end();
    ends_well(worker[0]);
    rows_check();
    ck_assert_uint_eq(fake.examples, 1000);
    ck_assert_uint_eq(fake.drawn, 1000);
    ck_assert_uint_eq(fake.tasks_done, 16);
    ck_assert_uint_eq(fake.left, 1);
    ck_assert_uint_eq(fake.left_fatal, 0);
    ck_assert_uint_eq(fake.beat.examples, 1000);
    ck_assert_uint_eq(fake.beat.batches, 63);
    ck_assert_uint_eq(fake.beat.recomputed, 0);
    ck_assert_uint_eq(fake.skipped, 0);
    uint64_t pulls = 0;
    for (uint32_t i = 0; i < 64; i++)
        pulls += fake.staleness[i];
    /* each answer with rows counts, to a pull and to a push; the latter once for each batch */
    ck_assert_uint_gt(fake.echo_answers, 0);
    ck_assert_uint_ge(pulls, fake.pulls + fake.echo_answers);
}
END_TEST

/* Sent once, before training. An older coordinator refuses the message, and the job goes on. */
START_TEST(trainer_tells_what_the_input_looks_like)
{
    job_make(300, "{kind: probe}", "ssp");
    fake_open(&fake, &calm, text, 2, 2);
    if (_i == 1) {
        fake.refuse_status[WIRE_TYPE_PROFILE] = SHOAL_E_MALFORMED;
        fake.refuse_count[WIRE_TYPE_PROFILE] = 1000;
    }
    worker_add(2);
    run_to_the_end();
    ends_well(worker[0]);
    ck_assert_uint_eq(fake.seen[WIRE_TYPE_PROFILE], 1);
    ck_assert_uint_eq(fake.examples, 300);
}
END_TEST

START_TEST(trainer_charges_time_once)
{
    job_make(1000, "{kind: probe}", "async");
    fake_open(&fake, &calm, text, 2, 2);
    worker_add(2);
    run_to_the_end();
    const struct wire_WORKER_BEAT *b = &fake.beat;
    double charged = b->read_s + b->pull_s + b->compute_s + b->push_s + b->wait_s,
           now = (double)sim_now_ns(fake.sim) * 1e-9;
    ck_assert_double_gt(b->compute_s, 0);
    ck_assert_double_gt(b->read_s, 0);
    ck_assert_double_gt(b->wait_s, 0);
    ck_assert_double_le(charged, 2 * now);
    ck_assert_double_gt(charged, 2 * now * 0.8);
    /* the simulator's pool has a thread for each */
    ck_assert_double_eq_tol(b->compute_busy_s, b->compute_s, 1e-6);
    ck_assert_double_gt(b->parse_busy_s, b->read_s); /* most of it overlaps with computing */
    ck_assert_double_eq_tol(b->read_least_s, b->parse_busy_s, 1e-9); /* one reader a lane */
    ck_assert_double_eq_tol(b->pull_least_s, b->pull_busy_s / 3, 1e-9);
    ck_assert_double_eq_tol(b->push_least_s, b->push_busy_s, 1e-9);
    ck_assert_double_gt(b->push_busy_s, 0);
}
END_TEST

/* Loss, duplicates and reordering: the same rows. */
START_TEST(trainer_survives_a_bad_network)
{
    static const char *const modes[] = {"async", "ssp", "bsp"};
    struct sim_options bad = calm;
    bad.seed = 100 + (uint64_t)_i;
    bad.drop = 0.1;
    bad.duplicate = 0.2;
    bad.reorder = true;
    bad.delay_max_ns = 20000000;
    job_make(400, "{kind: probe}", modes[_i % 3]);
    fake_open(&fake, &bad, text, 1 + (uint32_t)_i % 4, 2);
    fake.scattered = _i % 2 == 1;
    worker_add(2);
    worker_add(1);
    run_to_the_end();
    ends_well(worker[0]);
    ends_well(worker[1]);
    rows_check();
    ck_assert_uint_eq(fake.examples, 400);
}
END_TEST

START_TEST(trainer_survives_passing_refusals)
{
    static const int statuses[] = {SHOAL_E_BUSY, SHOAL_E_NO_SPACE, SHOAL_E_AGAIN,
                                   SHOAL_E_NOT_LEADER};
    job_make(400, "{kind: probe}", "async");
    fake_open(&fake, &calm, text, 2, 2);
    fake.refuse_status[WIRE_TYPE_PUSH] = fake.refuse_status[WIRE_TYPE_PULL] = statuses[_i];
    fake.refuse_count[WIRE_TYPE_PUSH] = fake.refuse_count[WIRE_TYPE_PULL] = 20;
    worker_add(2);
    run_to_the_end();
    ends_well(worker[0]);
    rows_check();
}
END_TEST

START_TEST(trainer_goes_on_after_a_dead_worker)
{
    job_make(1000, "{kind: probe}", "ssp");
    fake_open(&fake, &calm, text, 3, 3);
    worker_add(3);
    ck_assert(sim_run(fake.sim, 100 * SECOND, half_way, NULL));
    /* Never freed, as in a real death: its work may be in progress. volatile, so that the leak
     * checker finds it. */
    static struct trainer *volatile dead;
    sim_kill(worker_node[0]);
    dead = worker[0];
    ck_assert_ptr_nonnull(dead);
    worker[0] = NULL;
    for (uint32_t l = 0; l < 3; l++)
        fake_expire(&fake, l);
    worker_add(2);
    run_to_the_end();
    ends_well(worker[1]);
    rows_check();
    ck_assert_uint_gt(fake.beat.examples, 0);
    ck_assert_uint_lt(fake.beat.examples, 1000);
}
END_TEST

START_TEST(trainer_drops_a_fenced_lane_without_a_write)
{
    job_make(1000, "{kind: probe}", "async");
    fake_open(&fake, &calm, text, 2, 2);
    worker_add(2);
    ck_assert(sim_run(fake.sim, 100 * SECOND, half_way, NULL));
    fake_expire(&fake, 0);
    fake_expire(&fake, 1);
    run_to_the_end();
    ends_well(worker[0]);
    rows_check();
}
END_TEST

START_TEST(trainer_joins_again_when_it_is_forgotten)
{
    job_make(1000, "{kind: probe}", "async");
    fake_open(&fake, &calm, text, 2, 2);
    worker_add(2);
    ck_assert(sim_run(fake.sim, 100 * SECOND, half_way, NULL));
    fake.forgets = true;
    fake.known = fake.workers + 1;
    for (uint32_t l = 0; l < 2; l++)
        fake_expire(&fake, l);
    run_to_the_end();
    ends_well(worker[0]);
    ck_assert_uint_eq(fake.workers, 2);
    ck_assert_uint_lt(fake.beat.examples, 1000); /* others: the old number */
    rows_check();
}
END_TEST

/* The coordinator forgets the worker while this question is unanswered: nothing of it may
 * remain. */
START_TEST(trainer_joins_again_whatever_it_was_at)
{
    static const enum wire_type at[] = {
        WIRE_TYPE_LEGEND,  WIRE_TYPE_TABLE_DECLARE, WIRE_TYPE_LANE_NEXT, WIRE_TYPE_INDEX_DONE,
        WIRE_TYPE_MAP_GET, WIRE_TYPE_TASK_DONE,     WIRE_TYPE_PULL,      WIRE_TYPE_PUSH};
    job_make(400, "{kind: probe}", "async");
    fake_open(&fake, &calm, text, 2, 2);
    fake.lease_ms = 300;
    fake.lose_count[at[_i]] = 100;
    worker_add(2);
    for (uint32_t i = 0; fake.seen[at[_i]] == 0; i++) {
        ck_assert_uint_lt(i, 10000);
        sim_run(fake.sim, sim_now_ns(fake.sim) + SECOND / 1000, NULL, NULL);
    }
    sim_run(fake.sim, sim_now_ns(fake.sim) + SECOND / 100, NULL, NULL);
    fake.lose_count[at[_i]] = 0;
    fake.forgets = true;
    fake.known = fake.workers + 1;
    for (uint32_t l = 0; l < 2 && fake.tables > 0; l++) /* else it has no lane */
        fake_expire(&fake, l);
    run_to_the_end();
    ends_well(worker[0]);
    ck_assert_uint_eq(fake.workers, 2);
    rows_check();
}
END_TEST

/* The names of its tables are sent under a number that is not known any more. */
START_TEST(trainer_that_may_not_declare_joins_again)
{
    job_make(100, "{kind: probe}", "async");
    fake_open(&fake, &calm, text, 1, 1);
    fake.refuse_status[WIRE_TYPE_LEGEND] = SHOAL_E_UNAVAILABLE;
    fake.refuse_count[WIRE_TYPE_LEGEND] = 1;
    worker_add(1);
    run_to_the_end();
    ends_well(worker[0]);
    ck_assert_uint_eq(fake.workers, 2);
}
END_TEST

START_TEST(trainer_beats_three_times_a_lease)
{
    job_make(100, "{kind: probe}", "async");
    fake_open(&fake, &calm, text, 1, 1);
    fake.lose_count[WIRE_TYPE_LANE_NEXT] = 1000;
    worker_add(1);
    sim_run(fake.sim, 3 * SECOND + SECOND / 2, NULL, NULL); /* a lease, and the time of joining */
    ck_assert_uint_eq(fake.seen[WIRE_TYPE_WORKER_BEAT], 3);
    sim_run(fake.sim, 6 * SECOND + SECOND / 2, NULL, NULL);
    ck_assert_uint_eq(fake.seen[WIRE_TYPE_WORKER_BEAT], 6);
    fake.lose_count[WIRE_TYPE_LANE_NEXT] = 0;
    run_to_the_end();
}
END_TEST

/* The coordinator asks for traces with its reply to a beat and gets those of later batches, the
 * last ones before the farewell. _i 1: a message with traces is lost; 2: it is asked as it joins,
 * and there is no beat before the farewell. */
START_TEST(trainer_sends_traces_when_it_is_asked)
{
    job_make(2000, "{kind: probe}", "async");
    fake_open(&fake, &calm, text, 2, 2);
    fake.lease_ms = _i == 2 ? 600000 : 60;
    fake.trace_every = 2;
    fake.lose_count[WIRE_TYPE_TRACES] = _i == 1;
    fake.trace_join = _i == 2 ? 2 : 0;
    worker_add(2);
    run_to_the_end();
    ends_well(worker[0]);
    ck_assert_uint_gt(fake.traces, 20);
    ck_assert(_i != 2 || fake.trace[0].batch == 2);
    uint64_t last[2] = {0};
    for (uint32_t i = 0; i < fake.traces; i++) {
        const struct wire_trace *t = &fake.trace[i];
        uint64_t sum = 0;
        for (int s = 0; s < WIRE_STAGES; s++)
            sum += t->stage_ns[s];
        ck_assert_uint_eq(t->batch % 2, 0);
        ck_assert_uint_gt(sum, 0);
        ck_assert_uint_eq(t->wall_ns, sum);
        ck_assert_uint_eq(t->worker, 1);
        last[t->lane] = MAX(last[t->lane], t->batch);
    }
    for (uint32_t l = 0; l < 2; l++)
        ck_assert_uint_ge(last[l] + 1, fake_mark(&fake, l));
}
END_TEST

static bool joined_twice(void *context)
{
    (void)context;
    return fake.workers == 2;
}

/* Only jobs whose workers sum up the network need an endpoint. */
START_TEST(trainer_listens_for_a_job_that_needs_it)
{
    listens = true;
    job_make(100, "{kind: probe}", "async");
    fake_open(&fake, &calm, text, 1, 1);
    worker_add(1);
    run_to_the_end();
    ends_well(worker[0]);
    ck_assert_uint_eq(fake.workers, 1);
    ck_assert_str_eq(fake.endpoint, "");
}
END_TEST

/* The job is known from the answer to the first join; _i 1: the address is in use. */
START_TEST(trainer_tells_its_endpoint_with_a_second_join)
{
    struct err e = {0};
    listens = true;
    job_make(100, "{kind: deepfm, hidden: [4]}", "async, dense: allreduce");
    fake_open(&fake, &calm, text, 1, 1);
    if (_i == 1)
        sim_listen(sim_node_new(fake.sim, "other", NULL, NULL), "sim://worker-0");
    worker_add(1);
    ck_assert_int_eq(sim_run(fake.sim, SECOND, _i == 0 ? joined_twice : all_stopped, NULL), true);
    ck_assert_uint_eq(fake.workers, 2 - (uint64_t)_i);
    ck_assert_str_eq(fake.endpoint, _i == 0 ? "sim://worker-0" : "");
    if (_i == 1) {
        ck_assert_int_eq(trainer_status(worker[0], &e), SHOAL_E_UNAVAILABLE);
        ck_assert_msg(strstr(e.text, "sim://worker-0 is in use") != NULL, "%s", e.text);
        ck_assert_uint_eq(fake.left_fatal, 0); /* the job goes on without it */
        return;
    }
    trainer_leave(worker[0]);
    run_to_the_end();
    ends_well(worker[0]);
}
END_TEST

static bool joined_once(void *context)
{
    (void)context;
    return fake.workers == 1;
}

/* The thread that finds the address is waited for. */
START_TEST(trainer_leaves_while_its_door_opens)
{
    struct sim_options slow = calm;
    listens = true;
    looked = 0;
    slow.work_min_ns = SECOND;
    slow.work_max_ns = SECOND;
    job_make(100, "{kind: deepfm, hidden: [4]}", "async, dense: allreduce");
    fake_open(&fake, &slow, text, 1, 1);
    worker_add(1);
    ck_assert(sim_run(fake.sim, SECOND, joined_once, NULL));
    sim_run(fake.sim, sim_now_ns(fake.sim) + SECOND / 100, NULL, NULL);
    trainer_leave(worker[0]);
    ck_assert(!trainer_settled(worker[0]));
    ck_assert_uint_eq(looked, 0);
    run_to_the_end();
    ends_well(worker[0]);
    ck_assert_uint_eq(looked, 1);
    ck_assert_uint_eq(fake.workers, 1); /* it has not joined again */
    ck_assert_uint_eq(fake.left, 1);
}
END_TEST

/* A coordinator that is gone does not get the farewell. */
START_TEST(trainer_leaves_though_nobody_listens)
{
    job_make(1000, "{kind: probe}", "async");
    fake_open(&fake, &calm, text, 2, 2);
    worker_add(2);
    ck_assert(sim_run(fake.sim, 100 * SECOND, half_way, NULL));
    sim_kill(fake.node[FAKE_SHARDS].node);
    trainer_leave(worker[0]);
    sim_run(fake.sim, sim_now_ns(fake.sim) + 3 * SECOND, NULL, NULL);
    ck_assert(sim_stopped(worker_node[0]));
    ends_well(worker[0]);
}
END_TEST

/* Even if several seats have no work. */
START_TEST(trainer_asks_for_one_lane_at_a_time)
{
    struct sim_options slow = calm;
    slow.work_min_ns = slow.work_max_ns = SECOND / 2;
    job_make(400, "{kind: probe}", "async");
    fake_open(&fake, &slow, text, 2, 1);
    worker_add(4);
    sim_run(fake.sim, 10 * SECOND, NULL, NULL);
    uint32_t before = fake.seen[WIRE_TYPE_LANE_NEXT];
    sim_run(fake.sim, 15 * SECOND, NULL, NULL);
    uint32_t asked = fake.seen[WIRE_TYPE_LANE_NEXT] - before;
    ck_assert_msg(asked > 80 && asked < 120, "%u times in 5 s, told to wait 50 ms", asked);
    run_to_the_end();
    rows_check();
}
END_TEST

static bool all_held(void *context)
{
    (void)context;
    return fake.lane[0].holder != 0 && fake.lane[1].holder != 0 && fake.lane[2].holder != 0;
}

/* A clock of bsp needs all lanes, so one worker must take them all. */
START_TEST(trainer_has_a_seat_for_every_lane_of_bsp)
{
    job_make(1000, "{kind: probe}", _i == 0 ? "bsp" : "async");
    fake_open(&fake, &calm, text, 2, 3);
    worker_add(1);
    ck_assert_int_eq(sim_run(fake.sim, 100 * SECOND, all_held, NULL), _i == 0);
    run_to_the_end();
    rows_check();
}
END_TEST

/* The worker uses net.resend of the job's file. */
START_TEST(trainer_sends_again_as_the_job_says)
{
    job_make(100, "{kind: probe}", "async");
    fake_open(&fake, &calm, text, 1, 1);
    fake.lose_count[WIRE_TYPE_INDEX_DONE] = 3;
    worker_add(1);
    run_to_the_end();
    ends_well(worker[0]);
    ck_assert_uint_gt(sim_now_ns(fake.sim), 3 * SECOND / 5);
    ck_assert_uint_lt(sim_now_ns(fake.sim), 2 * SECOND);
}
END_TEST

static bool all_trained(void *context)
{
    (void)context;
    return fake.examples == 400;
}

/* A worker that stays between jobs asks again after any refusal, and works once it is accepted. */
START_TEST(trainer_that_stays_asks_again_where_it_is_refused)
{
    char told[256];
    job_make(400, "{kind: probe}", "async");
    fake_open(&fake, &calm, text, 2, 2);
    fake.refuse_status[WIRE_TYPE_WORKER_JOIN] = SHOAL_E_CONFIG;
    fake.refuse_count[WIRE_TYPE_WORKER_JOIN] = 5;
    stay = true;
    struct trainer *t = worker_add(2);
    stay = false;
    sim_run(fake.sim, 1 * SECOND, all_stopped, NULL);
    trainer_describe(t, told, sizeof told);
    ck_assert_msg(strstr(told, "refused this worker: ") != NULL, "%s", told);
    ck_assert(sim_run(fake.sim, 60 * SECOND, all_trained, NULL));
    sim_run(fake.sim, sim_now_ns(fake.sim) + SECOND, all_stopped, NULL);
    ck_assert(!sim_stopped(worker_node[0]));
    ck_assert_uint_ge(fake.workers, 3); /* it joins again after each end */
    trainer_leave(t);
    run_to_the_end();
    ends_well(t);
    rows_check();
}
END_TEST

/* Other workers may do a job that fails here: the worker asks less and less often. */
START_TEST(trainer_that_stays_looks_ever_later_at_what_fails_here)
{
    char told[256];
    job_make(400, "{kind: probe}", "async");
    fake_open(&fake, &calm, text, 2, 2);
    fake.refuse_status[WIRE_TYPE_LEGEND] = SHOAL_E_CONFIG;
    fake.refuse_count[WIRE_TYPE_LEGEND] = 1000000;
    stay = true;
    struct trainer *t = worker_add(2);
    stay = false;
    sim_run(fake.sim, 1000 * SECOND, all_stopped, NULL);
    ck_assert(!sim_stopped(worker_node[0]));
    /* at 0, 0, 1, 3, 7, 15, 31, 61 and then each 30 s */
    ck_assert_uint_ge(fake.workers, 38);
    ck_assert_uint_le(fake.workers, 40);
    trainer_describe(t, told, sizeof told);
    ck_assert_msg(strstr(told, "told to refuse") != NULL, "%s", told);
    fake.refuse_count[WIRE_TYPE_LEGEND] = 0;
    ck_assert(sim_run(fake.sim, 1070 * SECOND, all_trained, NULL));
    trainer_leave(t);
    run_to_the_end();
    ends_well(t);
    rows_check();
}
END_TEST

/* The file has the same name. In the same job the worker keeps the input that it has read. */
START_TEST(trainer_reads_the_input_of_another_job_anew)
{
    char item[1200], rest[sizeof text];
    uint32_t runs = 0;
    job_make(1000, "{kind: probe}", "async");
    snprintf(item, sizeof item, "train: [%s]", worker_path("train.libsvm"));
    char *at = strstr(text, item);
    ck_assert_ptr_nonnull(at);
    snprintf(rest, sizeof rest, "%s", at + strlen(item));
    snprintf(item, sizeof item, "train: [\"cmd:echo ran >> %s; cat %s\"]", worker_path("ran"),
             worker_path("train.libsvm"));
    snprintf(at, sizeof text - (size_t)(at - text), "%s%s", item, rest);
    commands = true;
    fake_open(&fake, &calm, text, 2, 2);
    fake.job = 7;
    worker_add(2);
    commands = false;
    ck_assert(sim_run(fake.sim, 100 * SECOND, half_way, NULL));
    fake.job += (uint64_t)_i;
    fake.forgets = true;
    fake.known = fake.workers + 1;
    for (uint32_t l = 0; l < 2; l++)
        fake_expire(&fake, l);
    run_to_the_end();
    ends_well(worker[0]);
    FILE *ran = fopen(worker_path("ran"), "r");
    ck_assert_ptr_nonnull(ran);
    while (fgets(item, sizeof item, ran) != NULL)
        runs++;
    fclose(ran);
    ck_assert_uint_eq(runs, 1 + (uint32_t)_i);
}
END_TEST

START_TEST(trainer_follows_the_map)
{
    job_make(1000, "{kind: probe}", "async");
    fake_open(&fake, &calm, text, 3, 2);
    worker_add(2);
    ck_assert(sim_run(fake.sim, 100 * SECOND, half_way, NULL));
    for (uint32_t l = 0; l < 2; l++)
        for (uint32_t s = 0; s < 3; s++)
            fake.fence[s][l] = fake.lane[l].generation; /* the next workers know the lanes */
    fake_turn_map(&fake);
    run_to_the_end();
    ends_well(worker[0]);
    rows_check();
    ck_assert_uint_ge(fake.seen[WIRE_TYPE_MAP_GET], 2);
}
END_TEST

START_TEST(trainer_evaluates)
{
    job_make(200, "{kind: probe}", "async");
    fake_open(&fake, &calm, text, 2, 2);
    fake.valid_rows_wanted = 1;
    worker_add(2);
    run_to_the_end();
    ends_well(worker[0]);
    ck_assert_uint_eq(fake.eval_examples, 100);
    ck_assert_float_eq_tol(fake.eval_score_sum, 50.0f, 0.001f); /* the probe predicts 1/2 */
    ck_assert_uint_eq(fake.beat.examples, 200);
}
END_TEST

/* A model with dense tables: blocks are pulled and pushed like rows, and the loss falls. */
START_TEST(trainer_trains_dense_tables)
{
    job_make(2000, "{kind: deepfm, hidden: [8, 4], norm: batch}", "ssp");
    fake_open(&fake, &calm, text, 2, 2);
    fake.scattered = _i == 1;
    fake.valid_rows_wanted = 1;
    worker_add(2);
    run_to_the_end();
    ends_well(worker[0]);
    ck_assert_uint_eq(fake.tables, 3);
    ck_assert_uint_gt(fake_row_count(&fake, 1), 0);
    ck_assert_uint_gt(fake_row_count(&fake, 2), 0);
    ck_assert_uint_eq(fake.eval_examples, 100);
    ck_assert(fake.loss_sum > 0 && fake.loss_sum < 2000 * 2);
    ck_assert_double_eq_tol(fake.loss_task, fake.loss_sum, 1e-6); /* one label, weight 1 */
    ck_assert_double_eq(fake.weight_sum, (double)fake.examples);
    ck_assert_uint_gt(fake.batches, 0);
}
END_TEST

START_TEST(trainer_waits_for_a_job)
{
    job_make(100, "{kind: probe}", "async");
    fake_open(&fake, &calm, text, 1, 1);
    fake.no_job = true;
    worker_add(1);
    sim_run(fake.sim, 20 * SECOND, NULL, NULL);
    ck_assert(!sim_stopped(worker_node[0]));
    ck_assert_uint_gt(fake.seen[WIRE_TYPE_WORKER_JOIN], 50);
    fake.no_job = false;
    run_to_the_end();
    ends_well(worker[0]);
    rows_check();
}
END_TEST

START_TEST(trainer_ends_when_nobody_answers)
{
    struct err e = {0};
    job_make(100, "{kind: probe}", "async");
    fake_open(&fake, &calm, text, 1, 1);
    sim_kill(fake.node[FAKE_SHARDS].node);
    worker_add(1);
    run_to_the_end();
    ck_assert_int_eq(trainer_status(worker[0], &e), SHOAL_E_UNAVAILABLE);
    ck_assert_ptr_nonnull(strstr(e.text, FAKE_COORDINATOR));
    ck_assert_int_eq(err_exit_status(e.code), 69);
    ck_assert_uint_le(sim_now_ns(fake.sim), 6 * SECOND);
}
END_TEST

START_TEST(trainer_says_why_it_cannot_go_on)
{
    struct err e = {0};
    job_make(100, "{kind: probe}", "async");
    fake_open(&fake, &calm, text, 1, 1);
    ck_assert_int_eq(remove(worker_path("train.libsvm")), 0);
    worker_add(1);
    run_to_the_end();
    ck_assert_int_eq(trainer_status(worker[0], &e), SHOAL_E_NOINPUT);
    ck_assert_uint_eq(fake.left_fatal, 1);
    ck_assert_int_eq(fake.fail_status, SHOAL_E_NOINPUT);
    ck_assert_ptr_nonnull(strstr(fake.fail_text, "train.libsvm"));
}
END_TEST

/* Total size of the names of the network's columns; 0: unchanged. */
static size_t columns_take;

int __real_legend_put(const char *job, size_t bytes, const struct legend *n, char **out,
                      size_t *out_bytes, struct err *e);
int __wrap_legend_put(const char *job, size_t bytes, const struct legend *n, char **out,
                      size_t *out_bytes, struct err *e);
int __wrap_legend_put(const char *job, size_t bytes, const struct legend *n, char **out,
                      size_t *out_bytes, struct err *e)
{
    if (columns_take == 0 || n == NULL)
        return __real_legend_put(job, bytes, n, out, out_bytes, e);
    struct legend wide = *n;
    wide.input = malloc(columns_take + 1);
    ck_assert_ptr_nonnull(wide.input);
    memset(wide.input, 'x', columns_take);
    wide.input[columns_take] = 0;
    int rc = __real_legend_put(job, bytes, &wide, out, out_bytes, e);
    free(wide.input);
    return rc;
}

/* The message must not be repeated for ever. */
START_TEST(trainer_says_that_names_take_too_much)
{
    struct err e = {0};
    job_make(100, "{kind: probe}", "async");
    fake_open(&fake, &calm, text, 1, 1);
    worker_add(1);
    columns_take = LEGEND_BYTES_MAX;
    run_to_the_end();
    columns_take = 0;
    ck_assert_msg(trainer_status(worker[0], &e) == SHOAL_E_TOO_BIG, "%s", e.text);
    ck_assert_uint_eq(fake.left_fatal, 1);
    ck_assert_ptr_nonnull(strstr(fake.fail_text, "at most 262144 are possible: give the columns"));
}
END_TEST

/* A worker that refuses a job does not end it for others. */
START_TEST(trainer_for_replays_leaves_another_job_to_the_others)
{
    struct err e = {0};
    job_make(100, "{kind: probe}", "async");
    fake_open(&fake, &calm, text, 2, 1);
    replays = true;
    worker_add(1);
    replays = false;
    worker_add(2);
    run_to_the_end();
    ck_assert_int_eq(trainer_status(worker[0], &e), SHOAL_E_CONFIG);
    ck_assert_ptr_nonnull(strstr(e.text, "is no replay"));
    ck_assert_int_eq(trainer_status(worker[1], &e), 0);
    ck_assert_uint_eq(fake.left_fatal, 0);
    rows_check();
}
END_TEST

/* Any client of the coordinator can submit jobs: their commands run only if the worker allows
 * it. */
START_TEST(trainer_runs_commands_only_where_allowed)
{
    static const char *const input[] = {"{cmd: \"%s\"}", "\"cmd:%s\""};
    struct err e = {0};
    char command[512], item[600], from[600];
    job_make(100, "{kind: probe}", "async");
    (void)snprintf(from, sizeof from, "train: [%s]", worker_path("train.libsvm"));
    char *at = strstr(text, from);
    ck_assert_ptr_nonnull(at);
    (void)snprintf(command, sizeof command, "touch %s; cat %s", worker_path("ran"),
                   worker_path("train.libsvm"));
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    (void)snprintf(item, sizeof item, input[_i % 2], command);
#pragma GCC diagnostic pop
    static char rest[sizeof text];
    (void)snprintf(rest, sizeof rest, "%s", at + strlen(from));
    (void)snprintf(at, sizeof text - (size_t)(at - text), "train: [%s]%s", item, rest);
    commands = _i >= 2;
    fake_open(&fake, &calm, text, 1, 1);
    worker_add(1);
    run_to_the_end();
    ck_assert_int_eq(trainer_status(worker[0], &e), commands ? 0 : SHOAL_E_DENIED);
    ck_assert_int_eq(access(worker_path("ran"), F_OK), commands ? 0 : -1);
    if (commands)
        ck_assert_int_eq(remove(worker_path("ran")), 0);
    else
        ck_assert_ptr_nonnull(strstr(fake.fail_text, "--allow-commands"));
    ck_assert_ptr_null(strstr(fake.fail_text, "touch")); /* a command may contain a password */
    commands = false;
}
END_TEST

/* A push that a shard refuses for its values is sent again as a tick: every lane ends, and each
 * refused batch is reported once, however often it was requested. */
START_TEST(trainer_goes_on_after_a_poisoned_push)
{
    static const char *const modes[] = {"async", "ssp", "bsp"};
    struct sim_options bad = calm;
    bad.seed = 7 + (uint64_t)_i;
    if (_i >= 3) {
        bad.drop = 0.1;
        bad.duplicate = 0.3;
        bad.reorder = true;
        bad.delay_max_ns = 40000000;
    }
    job_make(400, "{kind: probe}", modes[_i % 3]);
    fake_open(&fake, &bad, text, 2, 2);
    fake.poison_from = 3;
    fake.poison_to = 5;
    worker_add(2);
    run_to_the_end();
    ends_well(worker[0]);
    ck_assert_uint_eq(fake.examples, 400);
    ck_assert_uint_eq(fake.left_fatal, 0);
    ck_assert_uint_eq(fake.refused, 2 * 2); /* two batches of each of two lanes */
    ck_assert_uint_ge(fake.poisoned, 4);
    ck_assert_uint_ge(fake.ticks, 4);
    ck_assert_ptr_nonnull(strstr(fake.refused_where, "shard "));
    for (uint32_t l = 0; l < 2; l++)
        ck_assert_uint_ge(fake_mark(&fake, l), 4);
}
END_TEST

START_TEST(trainer_leaves_in_good_order)
{
    job_make(1000, "{kind: probe}", "async");
    fake_open(&fake, &calm, text, 2, 2);
    worker_add(2);
    ck_assert(sim_run(fake.sim, 100 * SECOND, half_way, NULL));
    trainer_leave(worker[0]);
    run_to_the_end();
    ends_well(worker[0]);
    ck_assert_uint_eq(fake.left, 1);
    worker_add(2);
    run_to_the_end();
    ends_well(worker[1]);
    rows_check();
}
END_TEST

/* Nothing is pushed once the coordinator has been silent for longer than the lease. */
START_TEST(trainer_stops_pushing_when_its_lease_must_be_over)
{
    struct sim_options slow = calm;
    slow.work_max_ns = 300000000; /* the job takes about 15 s */
    job_make(3000, "{kind: probe}", "async");
    fake_open(&fake, &slow, text, 2, 2);
    fake.lease_ms = 300;
    fake.task_batches = 90;
    worker_add(2);
    ck_assert(sim_run(fake.sim, 100 * SECOND, half_way, NULL));
    sim_pause(fake.node[FAKE_SHARDS].node, sim_now_ns(fake.sim) + 20 * SECOND);
    /* the lease, and the time until its check */
    sim_run(fake.sim, sim_now_ns(fake.sim) + SECOND * 45 / 100, NULL, NULL);
    uint32_t pushes = fake.seen[WIRE_TYPE_PUSH];
    sim_run(fake.sim, sim_now_ns(fake.sim) + 10 * SECOND, NULL, NULL);
    ck_assert_uint_eq(fake.seen[WIRE_TYPE_PUSH], pushes);
    ck_assert_uint_lt(pushes, 188 * 2); /* there was more to push */
    run_to_the_end();
    ends_well(worker[0]);
    rows_check();
}
END_TEST

/* A step that returns neither a result nor an error would hold its lane for ever. The wait for a
 * device is limited, and its lane goes to another worker; a processor may take any time. */
START_TEST(trainer_leaves_a_device_that_hangs)
{
    struct sim_options slow = calm;
    struct err e = {0};
    slow.work_min_ns = slow.work_max_ns = 3 * SECOND;
    slow.seed = 2; /* with this seed each of the two workers gets a lane */
    job_make(300, "{kind: probe}", "async");
    fake_open(&fake, &slow, text, 2, 2);
    fake.lease_ms = 300;
    step_ms = 1000;
    worker_add(1);
    step_ms = 0;
    worker_add(2);
    run_to_the_end();
    if (backend_is_device(backend)) {
        ck_assert_int_eq(trainer_status(worker[0], &e), SHOAL_E_UNAVAILABLE);
        ck_assert_msg(strstr(e.text, "has not come back from the device") != NULL, "%s", e.text);
        ck_assert(!trainer_settled(worker[0])); /* because the step is still running */
        worker[0] = NULL;
    } else {
        ends_well(worker[0]);
    }
    ends_well(worker[1]);
    rows_check();
}
END_TEST

/* The same applies if the coordinator has forgotten the worker meanwhile. Otherwise the worker
 * waits for its threads and joins again. */
START_TEST(trainer_that_is_forgotten_does_not_wait_for_a_device_that_hangs)
{
    struct sim_options slow = calm;
    struct err e = {0};
    uint64_t now = 0;
    slow.work_min_ns = slow.work_max_ns = 30 * SECOND;
    job_make(300, "{kind: probe}", "async");
    fake_open(&fake, &slow, text, 2, 2);
    fake.lease_ms = 300;
    step_ms = 2000;
    worker_add(1);
    step_ms = 0;
    /* the first batch's */
    for (; fake.seen[WIRE_TYPE_PULL] < 2 && now < 600 * SECOND; now += SECOND / 10)
        sim_run(fake.sim, now, NULL, NULL);
    sim_run(fake.sim, now += SECOND, NULL, NULL);
    ck_assert(!trainer_settled(worker[0]));
    fake.forgets = true;
    fake.known = fake.workers + 1;
    fake_expire(&fake, 0);
    fake_expire(&fake, 1);
    sim_run(fake.sim, now += 10 * SECOND, NULL, NULL);
    ck_assert_int_eq(sim_stopped(worker_node[0]), backend_is_device(backend));
    if (backend_is_device(backend)) {
        ck_assert_int_eq(trainer_status(worker[0], &e), SHOAL_E_UNAVAILABLE);
        ck_assert_msg(strstr(e.text, "has not come back from the device") != NULL, "%s", e.text);
        worker[0] = NULL;
        return;
    }
    sim_run(fake.sim, now += 60 * SECOND, NULL, NULL); /* a processor may take any time */
    ck_assert(!sim_stopped(worker_node[0]));
    worker[0] = NULL;
}
END_TEST

/* A worker that is told to leave waits at most half a lease for a device. */
START_TEST(trainer_that_is_told_to_leave_does_not_wait_for_a_device)
{
    struct sim_options slow = calm;
    slow.work_min_ns = slow.work_max_ns = 3 * SECOND;
    job_make(300, "{kind: probe}", "async");
    fake_open(&fake, &slow, text, 2, 2);
    fake.lease_ms = 300;
    worker_add(2);
    uint64_t now = 0, told = 0;
    for (; told == 0 && now < 100 * SECOND; now += SECOND / 10) {
        /* until a step of 3 s runs */
        sim_run(fake.sim, now, NULL, NULL);
        if (fake.seen[WIRE_TYPE_PULL] >= 4)
            told = now + SECOND / 2;
    }
    ck_assert_uint_gt(told, 0);
    sim_run(fake.sim, told, NULL, NULL);
    ck_assert(!trainer_settled(worker[0]));
    trainer_leave(worker[0]);
    sim_run(fake.sim, told + SECOND, NULL, NULL);
    ck_assert_int_eq(sim_stopped(worker_node[0]), backend_is_device(backend));
    if (backend_is_device(backend)) {
        ck_assert_int_eq(trainer_status(worker[0], NULL), 0);
        worker[0] = NULL; /* while a thread runs a step the process just ends */
        return;
    }
    run_to_the_end();
}
END_TEST

/* The same seed gives the same run, event for event. The first run fills the cache of the input,
 * from which the others read. */
START_TEST(trainer_is_deterministic)
{
    uint64_t trace[4];
    job_make(300, "{kind: probe}", "ssp");
    for (uint64_t i = 0; i < 4; i++) {
        struct sim_options bad = calm;
        bad.seed = i == 3 ? 8 : 7;
        bad.drop = 0.1;
        bad.reorder = true;
        fake_open(&fake, &bad, text, 2, 2);
        worker_add(2);
        run_to_the_end();
        trace[i] = sim_trace(fake.sim);
        if (i < 3) {
            trainer_free(worker[0]);
            fake_close(&fake);
            workers = 0;
        }
    }
    ck_assert_uint_eq(trace[1], trace[2]);
    ck_assert_uint_ne(trace[1], trace[3]);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("trainer");
    TCase *c = tcase_create("trainer");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_set_timeout(c, 60);
    tcase_add_test(c, trainer_applies_every_example_once);
    tcase_add_loop_test(c, trainer_tells_what_the_input_looks_like, 0, 2);
    tcase_add_test(c, trainer_charges_time_once);
    tcase_add_loop_test(c, trainer_survives_a_bad_network, 0, 12);
    tcase_add_loop_test(c, trainer_survives_passing_refusals, 0, 4);
    tcase_add_test(c, trainer_goes_on_after_a_dead_worker);
    tcase_add_test(c, trainer_drops_a_fenced_lane_without_a_write);
    tcase_add_test(c, trainer_joins_again_when_it_is_forgotten);
    tcase_add_loop_test(c, trainer_joins_again_whatever_it_was_at, 0, 8);
    tcase_add_loop_test(c, trainer_has_a_seat_for_every_lane_of_bsp, 0, 2);
    tcase_add_test(c, trainer_that_may_not_declare_joins_again);
    tcase_add_test(c, trainer_beats_three_times_a_lease);
    tcase_add_loop_test(c, trainer_sends_traces_when_it_is_asked, 0, 3);
    tcase_add_test(c, trainer_listens_for_a_job_that_needs_it);
    tcase_add_loop_test(c, trainer_tells_its_endpoint_with_a_second_join, 0, 2);
    tcase_add_test(c, trainer_leaves_while_its_door_opens);
    tcase_add_test(c, trainer_leaves_though_nobody_listens);
    tcase_add_test(c, trainer_asks_for_one_lane_at_a_time);
    tcase_add_test(c, trainer_sends_again_as_the_job_says);
    tcase_add_test(c, trainer_that_stays_asks_again_where_it_is_refused);
    tcase_add_test(c, trainer_that_stays_looks_ever_later_at_what_fails_here);
    tcase_add_loop_test(c, trainer_reads_the_input_of_another_job_anew, 0, 2);
    tcase_add_test(c, trainer_follows_the_map);
    tcase_add_test(c, trainer_evaluates);
    tcase_add_loop_test(c, trainer_trains_dense_tables, 0, 2);
    tcase_add_test(c, trainer_waits_for_a_job);
    tcase_add_test(c, trainer_ends_when_nobody_answers);
    tcase_add_test(c, trainer_says_why_it_cannot_go_on);
    tcase_add_test(c, trainer_says_that_names_take_too_much);
    tcase_add_test(c, trainer_for_replays_leaves_another_job_to_the_others);
    tcase_add_loop_test(c, trainer_runs_commands_only_where_allowed, 0, 4);
    tcase_add_loop_test(c, trainer_goes_on_after_a_poisoned_push, 0, 9);
    tcase_add_test(c, trainer_leaves_in_good_order);
    tcase_add_test(c, trainer_stops_pushing_when_its_lease_must_be_over);
    tcase_add_test(c, trainer_leaves_a_device_that_hangs);
    tcase_add_test(c, trainer_that_is_forgotten_does_not_wait_for_a_device_that_hangs);
    tcase_add_test(c, trainer_that_is_told_to_leave_does_not_wait_for_a_device);
    tcase_add_test(c, trainer_is_deterministic);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? 0 : 1;
}
