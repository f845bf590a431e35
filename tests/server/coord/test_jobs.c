/* test_jobs.c: jobs that have ended: the list and the reports that the coordinator keeps. */
#include "proto/base/container_of.h"
#include "server/coord/coord.h"
#include "server/coord/core/phase.h"
#include "server/coord/figures/jobs.h"
#include "server/coord/job/report.h"
#include "server/coord/job/slot.h"
#include "server/coord/work/amount.h"
#include "tests/lib/server_fake.h"

#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECOND UINT64_C(1000000000)

static struct {
    struct sim *sim;
    struct sim_node *node;
    struct coord_store *store;
    struct coord *coord;
    struct fake_shard shard, *shards[1];
    struct fake_worker worker;
    struct fake_client client;
    char yaml[1024];
    uint64_t next_id;
} r;

/* ---- a client --------------------------------------------------------------------------------*/

static struct {
    struct env *env;
    struct sim_node *node;
    peer_t coordinator;
    bool answered;
    int status;
    struct wire reply;
    struct json *frame; /* owned */
} asker;

static void asker_message(void *core, peer_t from, struct msg *m)
{
    (void)core;
    (void)from;
    ck_assert_int_eq(wire_decode(m, &asker.reply, NULL), 0);
    asker.status = asker.reply.status;
    asker.answered = true;
    json_free(asker.frame);
    asker.frame = NULL;
    if (asker.status == 0 && asker.reply.type != WIRE_TYPE_STOP)
        ck_assert_int_eq(json_parse(m->frame[1].data, m->frame[1].bytes, &asker.frame, NULL), 0);
    msg_free(m);
}

static void asker_drained(void *core)
{
    (void)core;
}

static const struct env_handler asker_handler = {asker_message, asker_drained, NULL};

static bool answered(void *context)
{
    (void)context;
    return asker.answered;
}

static const struct json *ask(const struct wire *q)
{
    struct wire w = *q;
    if (asker.node == NULL) {
        asker.node = sim_node_new(r.sim, "asker", &asker_handler, NULL);
        asker.env = sim_node_env(asker.node);
        ck_assert_int_eq(
            env_connect(asker.env, "sim://coordinator", ENV_COORDINATOR, &asker.coordinator), 0);
    }
    w.id = ++r.next_id;
    asker.answered = false;
    (void)env_send(asker.env, asker.coordinator, wire_encode(&w));
    ck_assert(sim_run(r.sim, sim_now_ns(r.sim) + 10 * SECOND, answered, NULL));
    return asker.frame;
}

static const struct json *jobs(void)
{
    return ask(&(struct wire){.type = WIRE_TYPE_JOBS});
}

/* Returns the report of a job, NULL if the question was refused. */
static const struct json *report_of(uint64_t number)
{
    const struct json *j = ask(&(struct wire){.type = WIRE_TYPE_REPORT, .u.REPORT.run = number});
    return asker.status == 0 ? j : NULL;
}

static const char *text(const struct json *j, const char *path)
{
    return json_as_string(json_get(j, path), "-");
}

static double number(const struct json *j, const char *path)
{
    return json_as_number(json_get(j, path), -1);
}

/* ---- a cluster ------------------------------------------------------------------------------- */

static void coord_start(void)
{
    struct coord_options o = {.shards = 1, .lease_ms = 1000, .resend_ms = 200, .version = "test"};
    struct err e = {0};
    r.node = sim_node_new(r.sim, "coordinator", &coord_handler, NULL);
    ck_assert_msg(coord_new(&o, sim_node_env(r.node), r.store, &r.coord, &e) == 0, "%s", e.text);
    sim_node_set_handler(r.node, &coord_handler, r.coord);
    sim_listen(r.node, "sim://coordinator");
}

static void coord_restart(void)
{
    sim_kill(r.node);
    coord_free(r.coord);
    coord_start();
}

static void setup(void)
{
    static const struct sim_options calm = {
        .seed = 7, .delay_min_ns = 100000, .delay_max_ns = 1000000};
    (void)snprintf(
        r.yaml, sizeof r.yaml,
        "job: t\ndata: {format: libsvm, train: [a], valid: [b], test: [c], max_bad: 0.01}\n"
        "tables: [{name: emb, dim: 4}]\nmodel: {kind: probe}\ntrain: {batch: 10, task_batches: 4, "
        "epochs: 3, consistency: ssp, lanes: 2}\n");
    r.sim = sim_new(&calm);
    r.store = coord_store_memory();
    coord_start();
    r.shards[0] = &r.shard;
    fake_shard_start(&r.shard, r.sim, "server-0", 0, 1);
    struct fake_worker *w = &r.worker;
    w->rows[0] = 1005;
    w->rows[1] = 300;
    w->rows[2] = 200;
    w->batch = 10;
    w->seats = 2;
    w->step_ns = 5000000;
    w->resend_ns = SECOND / 2;
    w->digest = 42;
    for (uint32_t n = 0; n < FAKE_EPOCHS; n++)
        w->quality[n] = 0.6;
    fake_worker_start(w, r.sim, "worker-0", r.shards, 1);
}

static void teardown(void)
{
    coord_free(r.coord);
    sim_free(r.sim);
    coord_store_close(r.store);
    free(r.shard.shard_of);
    json_free(asker.frame);
    memset(&r, 0, sizeof r);
    memset(&asker, 0, sizeof asker);
}

static bool job_over(void *context)
{
    (void)context;
    return coord_phase_over(&r.coord->slot[0]) && r.coord->slot[0].at.phase != PHASE_NONE &&
           r.coord->slot[0].at.phase != PHASE_FINISH;
}

static bool second_epoch_half(void *context)
{
    (void)context;
    return job_over(NULL) ||
           (r.coord->slot[0].at.phase == PHASE_TRAIN && r.coord->slot[0].at.epoch == 2 &&
            coord_examples(&r.coord->slot[0]) > 1400);
}

static void submit(void)
{
    fake_client_start(&r.client, r.sim, r.yaml, 1);
}

static void until(bool (*done)(void *))
{
    ck_assert(sim_run(r.sim, sim_now_ns(r.sim) + 60 * SECOND, done, NULL));
}

static void trained_half(void)
{
    submit();
    until(second_epoch_half);
    ck_assert(coord_phase_running(&r.coord->slot[0]));
}

/* ---- tests ----------------------------------------------------------------------------------- */

START_TEST(jobs_list_a_running_and_a_finished_one)
{
    ck_assert_uint_eq(json_count(jobs()), 0);
    trained_half();
    const struct json *l = jobs();
    ck_assert_uint_eq(json_count(l), 1);
    ck_assert_str_eq(text(l, "0.state"), "running");
    ck_assert_str_eq(text(l, "0.job"), "t");
    ck_assert_str_eq(text(l, "0.model"), "probe");
    ck_assert(json_absent(json_get(l, "0.ended")));
    ck_assert_double_eq(number(l, "0.epoch"), 2);
    ck_assert_double_gt(number(l, "0.valid_auc"), 0);
    until(job_over);
    l = jobs();
    ck_assert_uint_eq(json_count(l), 1);
    ck_assert_str_eq(text(l, "0.state"), "finished");
    ck_assert_str_eq(text(l, "0.tables.0"), "table0");
    ck_assert_double_gt(number(l, "0.test_auc"), 0);
    ck_assert_double_eq(number(l, "0.examples"), 3 * 1005);
    const struct json *j = report_of(r.coord->slot[0].at.number);
    ck_assert_str_eq(text(j, "state"), "finished");
    ck_assert(json_absent(json_get(j, "reason")));
    ck_assert_uint_eq(json_count(json_get(j, "epochs")), 3);
}
END_TEST

/* A DROP is refused while a job runs, for its tables are in use; the refusal names the job. */
START_TEST(jobs_that_run_keep_their_fields)
{
    struct wire w = {.type = WIRE_TYPE_DROP};
    (void)strcpy(w.u.DROP.table, "emb");
    (void)strcpy(w.u.DROP.field, "a");
    trained_half();
    (void)ask(&w);
    ck_assert_int_eq(asker.status, SHOAL_E_BUSY);
    ck_assert_ptr_nonnull(strstr(asker.reply.error, "job t is running"));
    until(job_over);
    (void)ask(&w);
    ck_assert_int_ne(asker.status, SHOAL_E_BUSY);
}
END_TEST

/* 0: the job failed; 1: it was stopped. Its report has the measures of the training so far, and
 * lacks the figures that only a finished job has. */
START_TEST(jobs_that_did_not_finish_have_a_report)
{
    trained_half();
    if (_i == 0)
        coord_end_fail(&r.coord->slot[0], SHOAL_E_DATA, "too many lines are malformed");
    else
        ask(&(struct wire){.type = WIRE_TYPE_STOP, .u.STOP.job_only = true});
    until(job_over);
    const struct json *l = jobs();
    ck_assert_uint_eq(json_count(l), 1);
    ck_assert_str_eq(text(l, "0.state"), _i == 0 ? "failed" : "stopped");
    ck_assert_str_eq(text(l, "0.reason"),
                     _i == 0 ? "too many lines are malformed" : "stopped by request");
    const struct json *j = report_of(r.coord->slot[0].at.number);
    ck_assert_str_eq(text(j, "state"), _i == 0 ? "failed" : "stopped");
    ck_assert_str_eq(text(j, "reason"),
                     _i == 0 ? "too many lines are malformed" : "stopped by request");
    ck_assert_uint_eq(json_count(json_get(j, "epochs")), 1);
    ck_assert_double_gt(number(j, "epochs.0.valid.auc"), 0);
    ck_assert_double_gt(number(j, "examples"), 1005);
    ck_assert_double_gt(number(j, "seconds"), 0);
    ck_assert_uint_gt(json_count(json_get(j, "training")), 26);
    ck_assert_str_eq(text(j, "tables.0.name"), "table0");
    static const char *const unknown[] = {"tables.0.digest",    "tables.0.rows", "rows",
                                          "final_epoch",        "ended_by",      "test",
                                          "examples_per_second"};
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++)
        ck_assert_msg(json_absent(json_get(j, unknown[i])), "%s", unknown[i]);
    ck_assert(!json_as_bool(json_get(j, "evaluations.0.kept"), true));
}
END_TEST

/* A job fails before it has trained, in each phase up to training. */
START_TEST(jobs_that_did_not_begin_have_a_report)
{
    static const enum coord_phase phase[] = {PHASE_WAITING, PHASE_INDEX, PHASE_SETUP, PHASE_LANES};
    submit();
    while (r.coord->slot[0].at.phase != phase[_i])
        ck_assert(sim_step(r.sim));
    coord_end_fail(&r.coord->slot[0], SHOAL_E_DATA, "no rows");
    (void)jobs(); /* the loop's step stores the report */
    const struct json *j = report_of(r.coord->slot[0].at.number);
    ck_assert_str_eq(text(j, "state"), "failed");
    ck_assert_str_eq(text(j, "job"), "t");
    ck_assert_uint_eq(json_count(json_get(j, "epochs")), 0);
    ck_assert_double_eq(number(j, "examples"), 0);
    ck_assert(json_absent(json_get(j, "valid")) && json_absent(json_get(j, "best_epoch")));
    ck_assert_str_eq(text(jobs(), "0.reason"), "no rows");
}
END_TEST

/* Both reports are there after another job has come, and after a restart; 1: the restart comes
 * before the step that stores the report. */
START_TEST(jobs_survive_a_restart)
{
    trained_half();
    coord_end_fail(&r.coord->slot[0], SHOAL_E_DATA, "the first");
    uint64_t first = r.coord->slot[0].at.number;
    if (_i == 0)
        until(job_over), (void)jobs();
    coord_restart();
    (void)sim_run(r.sim, sim_now_ns(r.sim) + SECOND, NULL, NULL);
    memset(&r.client, 0, sizeof r.client);
    submit();
    (void)sim_run(r.sim, sim_now_ns(r.sim) + SECOND / 2, NULL, NULL);
    until(job_over);
    uint64_t second = r.coord->slot[0].at.number;
    ck_assert_uint_ne(first, second);
    for (int again = 0; again < 2; again++) {
        const struct json *l = jobs();
        ck_assert_uint_eq(json_count(l), 2);
        ck_assert_double_eq(number(l, "0.number"), (double)first);
        ck_assert_str_eq(text(l, "0.state"), "failed");
        ck_assert_double_eq(number(l, "1.number"), (double)second);
        ck_assert_str_eq(text(l, "1.state"), "finished");
        ck_assert_str_eq(text(report_of(first), "reason"), "the first");
        ck_assert_uint_eq(asker.reply.u.REPORT_reply.state, WIRE_JOB_FAILED);
        ck_assert_int_eq(asker.reply.u.REPORT_reply.job_status, SHOAL_E_DATA);
        ck_assert_str_eq(asker.reply.u.REPORT_reply.job_text, "the first");
        if (_i == 0)
            ck_assert_uint_eq(json_count(json_get(asker.frame, "epochs")), 1);
        ck_assert_double_eq(number(report_of(second), "run"), (double)second);
        ck_assert_ptr_null(report_of(second + 7));
        ck_assert_ptr_nonnull(strstr(asker.reply.error, "shoal jobs"));
        coord_restart();
    }
}
END_TEST

/* The loop's step would store the reports a moment later. 0: the next job comes in the same turn of
 * the loop as the end; 1: the stop order also ends the coordinator. */
START_TEST(jobs_are_kept_before_they_are_out_of_sight)
{
    trained_half();
    (void)jobs(); /* connects */
    uint64_t first = r.coord->slot[0].at.number;
    struct wire stop = {.type = WIRE_TYPE_STOP, .id = 1},
                next = {.type = WIRE_TYPE_SUBMIT, .id = 2};
    (void)snprintf(next.u.SUBMIT.from, LIMIT_PATH, "fleet");
    next.u.SUBMIT.start = true;
    struct msg *m = wire_encode(&next);
    memcpy(msg_add(m, strlen(r.yaml)), r.yaml, strlen(r.yaml));
    if (_i == 0) {
        coord_end_fail(&r.coord->slot[0], SHOAL_E_STOPPED, "stopped by request");
        coord_handler.on_message(r.coord, asker.coordinator, m);
        ck_assert_uint_ne(r.coord->slot[0].at.number, first);
    } else {
        coord_handler.on_message(r.coord, asker.coordinator, wire_encode(&stop));
        msg_free(m);
        coord_restart();
    }
    ck_assert_str_eq(text(jobs(), "0.state"), "stopped");
    ck_assert_uint_eq(json_count(json_get(report_of(first), "epochs")), 1);
}
END_TEST

/* Ends `count` jobs, one after the other, each with a report of `bytes` bytes. */
static uint64_t ended(uint32_t count, size_t bytes)
{
    struct coord_job *j = &r.coord->slot[0];
    uint64_t first = j->at.number + 1;
    for (uint32_t i = 0; i < count; i++) {
        char *report = malloc(bytes + 32);
        ck_assert_ptr_nonnull(report);
        (void)sprintf(report, "{\"epochs\":[],\"pad\":\"%0*d\"}", (int)bytes, 0);
        j->at.number++;
        free(j->report);
        j->report = report;
        ck_assert(coord_phase_put(&r.coord->slot[0]));
        coord_report_ended(&r.coord->slot[0]);
        ck_assert(coord_jobs_kept(j));
    }
    return first;
}

static void failed_one(void)
{
    trained_half();
    coord_end_fail(&r.coord->slot[0], SHOAL_E_DATA, "no rows");
    coord_report_ended(&r.coord->slot[0]);
}

START_TEST(jobs_are_bounded_by_number)
{
    failed_one();
    uint64_t oldest = r.coord->slot[0].at.number, first = ended(100, 10);
    const struct json *l = jobs();
    ck_assert_uint_eq(json_count(l), 100);
    ck_assert_double_eq(number(l, "0.number"), (double)first);
    ck_assert_double_eq(number(l, "99.number"), (double)first + 99);
    ck_assert_ptr_null(report_of(oldest));
    ck_assert_ptr_nonnull(report_of(first));
    coord_restart();
    ck_assert_uint_eq(json_count(jobs()), 100);
    char key[COORD_KEY_MAX];
    void *value;
    size_t bytes;
    (void)snprintf(key, sizeof key, "report/%" PRIu64, oldest);
    ck_assert_int_eq(coord_store_get(r.store, key, &value, &bytes, NULL), SHOAL_E_NOT_FOUND);
}
END_TEST

/* A job stays in the list when its report has been removed. */
START_TEST(jobs_are_bounded_by_bytes)
{
    failed_one();
    uint64_t first = ended(9, COORD_JOBS_BYTES / 8);
    ck_assert_uint_eq(json_count(jobs()), 10);
    ck_assert_ptr_null(report_of(first + 1));
    ck_assert_ptr_nonnull(strstr(asker.reply.error, "not kept any more"));
    ck_assert_ptr_nonnull(report_of(first + 2));
    first = ended(1, COORD_JOBS_BYTES - 64); /* the newest report always stays */
    ck_assert_ptr_nonnull(report_of(first));
    ck_assert_ptr_null(report_of(first - 1));
    ck_assert_uint_eq(json_count(jobs()), 11);
}
END_TEST

START_TEST(jobs_of_a_list_that_cannot_be_read_are_begun_anew)
{
    failed_one();
    ck_assert_int_eq(coord_store_put(r.store, "jobs", "[{", 2, NULL), 0);
    coord_restart();
    (void)sim_run(r.sim, sim_now_ns(r.sim) + SECOND, NULL, NULL);
    const struct json *l = jobs();
    ck_assert_uint_eq(json_count(l), 1);
    ck_assert_str_eq(text(l, "0.reason"), "no rows");
    ck_assert_uint_eq(json_count(json_get(report_of(r.coord->slot[0].at.number), "epochs")), 1);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("coord_jobs");
    TCase *t = tcase_create("coord_jobs");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 60);
    tcase_add_test(t, jobs_list_a_running_and_a_finished_one);
    tcase_add_test(t, jobs_that_run_keep_their_fields);
    tcase_add_loop_test(t, jobs_that_did_not_finish_have_a_report, 0, 2);
    tcase_add_loop_test(t, jobs_that_did_not_begin_have_a_report, 0, 4);
    tcase_add_loop_test(t, jobs_survive_a_restart, 0, 2);
    tcase_add_loop_test(t, jobs_are_kept_before_they_are_out_of_sight, 0, 2);
    tcase_add_test(t, jobs_are_bounded_by_number);
    tcase_add_test(t, jobs_are_bounded_by_bytes);
    tcase_add_test(t, jobs_of_a_list_that_cannot_be_read_are_begun_anew);
    suite_add_tcase(s, t);
    SRunner *sr = srunner_create(s);
    srunner_run_all(sr, CK_NORMAL);
    int failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed == 0 ? 0 : 1;
}
