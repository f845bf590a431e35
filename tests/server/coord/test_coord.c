/* test_coord.c: whole jobs in the simulator: the real coordinator with fake shards, workers and a
 * client. */
#include "proto/base/json.h"
#include "proto/base/log.h"
#include "proto/base/log_ring.h"
#include "server/coord/coord.h"
#include "server/coord/core/phase.h"
#include "server/coord/core/setup_state.h"
#include "server/coord/job/epoch.h"
#include "server/coord/job/handle.h"
#include "server/coord/job/report.h"
#include "server/coord/job/setup.h"
#include "server/coord/job/slot.h"
#include "server/coord/job/status.h"
#include "server/coord/work/grant.h"
#include "tests/lib/coord_kept.h"
#include "tests/lib/coord_put.h"
#include "tests/lib/server_fake.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECOND UINT64_C(1000000000)

struct rig {
    struct sim *sim;
    struct sim_node *node;
    struct coord_store *store;
    struct coord *coord;
    struct fake_shard *shard[FAKE_SHARDS];
    struct fake_worker worker[3];
    struct fake_client client;
    uint32_t shards, workers;
    char yaml[1024];
    bool scalars_fail;
    uint32_t scalars; /* calls of write_scalars */
    uint64_t step;    /* step of the last call */
    char tags[4096];  /* each tag seen, once, in order */
    double last[64];  /* its last value, in the same order */
    double rate_most;
};

static struct rig r;

static int scalars_take(void *context, const char *run, uint64_t step,
                        const struct coord_scalar *scalar, uint32_t count, struct err *e)
{
    char tag[sizeof scalar->tag + 2];
    (void)context;
    ck_assert_ptr_eq(strstr(run, "t-"), run);
    ck_assert_uint_ge(step, r.step);
    r.step = step;
    r.scalars++;
    for (uint32_t i = 0; i < count; i++) {
        (void)snprintf(tag, sizeof tag, "%s\n", scalar[i].tag);
        if (strstr(r.tags, tag) == NULL)
            strcat(r.tags, tag);
        uint32_t line = 0;
        for (const char *p = r.tags; p != strstr(r.tags, tag); p++)
            line += *p == '\n';
        r.last[line] = scalar[i].value;
        if (strcmp(scalar[i].tag, "rate/examples_per_second") == 0 && scalar[i].value > r.rate_most)
            r.rate_most = scalar[i].value;
    }
    return r.scalars_fail ? err_set(e, SHOAL_E_IO, "the disk is full") : 0;
}

/* Returns the last value of a tag, -1 if it never came. */
static double scalar_last(const char *tag)
{
    uint32_t line = 0;
    const char *at = strstr(r.tags, tag);
    for (const char *p = r.tags; at != NULL && p != at; p++)
        line += *p == '\n';
    return at == NULL ? -1 : r.last[line];
}

static void coord_start(void)
{
    struct coord_options o = {.shards = r.shards,
                              .lease_ms = 1000,
                              .resend_ms = 200,
                              .version = "test",
                              .write_scalars = scalars_take};
    struct err e = {0};
    r.node = sim_node_new(r.sim, "coordinator", &coord_handler, NULL);
    ck_assert_msg(coord_new(&o, sim_node_env(r.node), r.store, &r.coord, &e) == 0, "%s", e.text);
    sim_node_set_handler(r.node, &coord_handler, r.coord);
    sim_listen(r.node, "sim://coordinator");
}

static void worker_add(uint32_t i)
{
    struct fake_worker *w = &r.worker[i];
    char name[24];
    w->rows[0] = 1005;
    w->rows[1] = 300;
    w->rows[2] = 200;
    w->batch = 10;
    w->seats = 2;
    w->step_ns = 5000000;
    w->resend_ns = SECOND / 2;
    w->digest = 42;
    for (uint32_t n = 0; n < FAKE_EPOCHS; n++)
        if (w->quality[n] == 0)
            w->quality[n] = 0.5 + 0.02 * n;
    (void)snprintf(name, sizeof name, "worker-%u", i);
    fake_worker_start(w, r.sim, name, r.shard, r.shards);
}

static const char *task_batches = "task_batches: 4, "; /* of rig_start's job */

static void rig_start(const char *train, uint32_t shards, uint32_t workers,
                      const struct sim_options *options)
{
    static const struct sim_options calm = {
        .seed = 7, .delay_min_ns = 100000, .delay_max_ns = 1000000};
    (void)snprintf(
        r.yaml, sizeof r.yaml,
        "job: t\ndata: {format: libsvm, train: [a], valid: [b], test: [c], max_bad: 0.01}\n"
        "tables: [{name: emb, dim: 4}]\nmodel: {kind: probe}\ntrain: {batch: 10, %s%s}\n",
        task_batches, train);
    r.sim = sim_new(options == NULL ? &calm : options);
    r.store = coord_store_memory();
    r.shards = shards;
    r.workers = workers;
    coord_start();
    for (uint32_t s = 0; s < shards; s++) {
        char name[24];
        (void)snprintf(name, sizeof name, "server-%u", s);
        r.shard[s] = calloc(1, sizeof *r.shard[s]);
        fake_shard_start(r.shard[s], r.sim, name, 0, 1);
    }
    for (uint32_t w = 0; w < workers; w++)
        worker_add(w);
    fake_client_start(&r.client, r.sim, r.yaml, workers);
}

static void rig_stop(void)
{
    coord_free(r.coord);
    sim_free(r.sim);
    coord_store_close(r.store);
    for (uint32_t s = 0; s < r.shards; s++) {
        free(r.shard[s]->shard_of);
        free(r.shard[s]);
    }
    memset(&r, 0, sizeof r);
}

static bool job_over(void *context)
{
    (void)context;
    return r.client.submit_status != 0 || r.client.state == WIRE_JOB_DONE ||
           r.client.state == WIRE_JOB_FAILED;
}

static bool worker_one_joined(void *context)
{
    (void)context;
    return r.worker[0].joined;
}

static void run_job(uint64_t seconds)
{
    ck_assert_msg(sim_run(r.sim, sim_now_ns(r.sim) + seconds * SECOND, job_over, NULL),
                  "job hangs in phase %u, epoch %u", r.coord->slot[0].at.phase,
                  r.coord->slot[0].at.epoch);
}

/* Every row of every epoch exactly once: invariant 3 of task.h, end to end. */
static void all_rows_once(uint32_t epochs)
{
    for (uint32_t e = 1; e <= epochs; e++)
        for (uint32_t row = 0; row < FAKE_ROWS; row++)
            ck_assert_msg(r.shard[0]->seen[e][row] == (row < 1005),
                          "epoch %u row %u applied %u times", e, row, r.shard[0]->seen[e][row]);
}

static void job_done(uint32_t epochs)
{
    ck_assert_msg(r.client.state == WIRE_JOB_DONE, "state %u: %s", r.client.state, r.client.text);
    ck_assert_int_eq(r.client.status, 0);
    all_rows_once(epochs);
}

static double report_number(const char *path)
{
    struct json *j;
    ck_assert_int_eq(json_parse(r.client.report, strlen(r.client.report), &j, NULL), 0);
    double x = json_as_number(json_get(j, path), -1);
    json_free(j);
    return x;
}

static struct json *report(void)
{
    struct json *j;
    ck_assert_int_eq(json_parse(r.client.report, strlen(r.client.report), &j, NULL), 0);
    return j;
}

START_TEST(coord_job_runs_to_its_report)
{
    rig_start("epochs: 3, consistency: ssp, lanes: 2", 2, 2, NULL);
    run_job(60);
    job_done(3);
    ck_assert_double_eq(report_number("examples"), 3 * 1005);
    ck_assert_double_eq(report_number("epochs.2.train_logloss"), 0.5);
    ck_assert_double_gt(report_number("test.auc"), 0.5);
    ck_assert_double_eq(report_number("test.examples"), 200);
    ck_assert_double_eq(report_number("tables.0.rows"), 256);
    struct json *all = report(); /* digests are compared between runs and releases */
    ck_assert_str_eq(json_as_string(json_get(all, "tables.0.digest"), ""), "0x05d213180e44f805");
    json_free(all);
    ck_assert_double_eq(report_number("batches.applied"), 3 * 101);
    ck_assert_double_eq(report_number("staleness.max"), 1);
    ck_assert(r.worker[0].ended && r.worker[1].ended);
    ck_assert_uint_eq(r.coord->slot[0].workers.count, 0);
    rig_stop();
}
END_TEST

START_TEST(coord_report_tells_the_measures)
{
    rig_start("epochs: 2, consistency: ssp, lanes: 2", 2, 2, NULL);
    (void)snprintf(r.yaml + strlen(r.yaml), 128,
                   "evaluate: {group: user, by: [hour], buckets: 5}\n");
    r.worker[0].context = r.worker[1].context = true;
    run_job(60);
    job_done(2);
    struct json *j = report(), *test = json_get(j, "test"), *by = json_get(test, "by.hour");
    ck_assert_double_eq(report_number("test.positives"), 100);
    ck_assert_double_eq(report_number("test.groups"), 7);
    ck_assert_double_gt(report_number("test.gauc"), 0.4);
    ck_assert_double_eq(report_number("test.auc_error"), 0);
    ck_assert_double_gt(report_number("test.ne"), 0.5);
    ck_assert_double_ge(report_number("valid.ece"), 0);
    ck_assert_uint_eq(json_count(json_get(test, "buckets")), 2); /* two scores: two of the five */
    ck_assert_double_eq(report_number("test.buckets.0.predicted"), 0.25);
    ck_assert_uint_eq(json_count(by), 3);
    double examples = 0;
    for (size_t i = 0; i < 3; i++)
        examples += json_as_number(json_get(json_array_at(by, i), "examples"), 0);
    ck_assert_double_eq(examples, 200);
    ck_assert_str_eq(json_as_string(json_get(json_array_at(by, 0), "key"), ""),
                     "0x0000000000000000");
    ck_assert(json_absent(json_get(j, "epochs.0.valid.buckets")) &&
              !json_absent(json_get(j, "valid.buckets")));
    ck_assert_double_gt(report_number("epochs.1.valid.gauc"), 0);
    by = json_get(j, "train.by.hour"); /* rows of all epochs by their number modulo 3 */
    ck_assert_uint_eq(json_count(by), 3);
    for (size_t i = 0; i < 3; i++) {
        const struct json *v = json_array_at(by, i);
        ck_assert_double_eq(json_as_number(json_get(v, "examples"), 0), 2 * 335);
        ck_assert_double_gt(json_as_number(json_get(v, "auc"), 0), 0.6);
        ck_assert(json_absent(json_get(v, "missed")) && json_absent(json_get(v, "auc_examples")));
    }
    json_free(j);
    rig_stop();
}
END_TEST

START_TEST(coord_report_has_the_training_curve)
{
    rig_start("epochs: 3, consistency: ssp, lanes: 2", 2, 2, NULL);
    run_job(60);
    job_done(3);
    struct json *j = report(), *curve = json_get(j, "training");
    ck_assert_uint_eq(json_count(curve), 3 * 26); /* a point for each of 26 tasks of 4 batches */
    const struct json *last = json_array_at(curve, 3 * 26 - 1);
    ck_assert_double_eq(json_as_number(json_get(last, "examples"), 0), 3 * 1005);
    ck_assert_double_eq(json_as_number(json_get(last, "epoch"), 0), 3);
    ck_assert_double_eq(json_as_number(json_get(last, "logloss"), 0), 0.5);
    ck_assert_double_eq(json_as_number(json_get(last, "dense_norm"), 0), 2);
    ck_assert_double_eq(json_as_number(json_get(last, "row_norm"), 0), 3);
    ck_assert_double_eq(json_as_number(json_get(last, "staleness"), 0), 0.25);
    ck_assert_double_gt(json_as_number(json_get(last, "seconds"), 0), 0);
    json_free(j);
    rig_stop();
}
END_TEST

/* The report keeps the figures from before the coordinator died, and scalars continue from
 * there. */
START_TEST(coord_restart_keeps_curve_and_details)
{
    rig_start("epochs: 3, consistency: ssp, lanes: 2", 2, 2, NULL);
    while (r.coord->slot[0].at.epoch < 3 || r.worker[0].batches + r.worker[1].batches < 240)
        ck_assert(sim_step(r.sim));
    uint32_t points = r.coord->slot[0].trace->curve.count;
    ck_assert_uint_gt(points, 52);
    sim_kill(r.node);
    coord_free(r.coord);
    coord_start();
    ck_assert_uint_eq(r.coord->slot[0].trace->curve.count, points);
    ck_assert_ptr_nonnull(r.coord->slot[0].details[WIRE_VALID]);
    run_job(120);
    job_done(3);
    struct json *j = report();
    size_t count = json_count(json_get(j, "training"));
    /* reports in flight may be lost: one a seat */
    ck_assert_uint_ge(count, 3 * 26 - 4);
    double seen =
        json_as_number(json_get(json_array_at(json_get(j, "training"), count - 1), "examples"), 0);
    ck_assert(seen <= 3 * 1005 && seen >= 3 * 1005 - 4 * 40);
    json_free(j);
    rig_stop();
}
END_TEST

static void coord_restart(void)
{
    sim_kill(r.node);
    coord_free(r.coord);
    coord_start();
}

/* The number of shards is raised or lowered, between two jobs and in the middle of one. When it was
 * accepted, about two thirds of all rows were read as initial values, with status 0. */
START_TEST(coord_other_number_of_shards_is_refused_once_there_are_tables)
{
    struct err e = {0};
    struct coord *other = NULL;
    rig_start("epochs: 1, consistency: ssp, lanes: 2", 2, 2, NULL);
    if (_i % 2 == 0)
        run_job(60);
    else
        while (r.coord->slot[0].at.phase != PHASE_TRAIN)
            ck_assert(sim_step(r.sim));
    sim_kill(r.node);
    coord_free(r.coord);
    r.node = sim_node_new(r.sim, "coordinator", &coord_handler, NULL);
    struct coord_options o = {.shards = _i < 2 ? 3 : 1, .version = "test"};
    ck_assert_int_eq(coord_new(&o, sim_node_env(r.node), r.store, &other, &e), SHOAL_E_CONFIG);
    ck_assert_ptr_nonnull(strstr(e.text, "set `shards: 2`"));
    ck_assert_ptr_nonnull(strstr(e.text, "shoal add SERVER"));
    sim_kill(r.node);
    coord_start(); /* as it says */
    if (_i % 2 != 0)
        run_job(60);
    job_done(1);
    rig_stop();
}
END_TEST

/* A coordinator that restarted during the job does not know its client. A new submit of the same
 * file right after the job's end used to be taken for a repeated one, and no job ran. */
START_TEST(coord_same_file_after_the_end_is_a_new_job)
{
    static struct fake_client next;
    rig_start("epochs: 1, consistency: ssp, lanes: 2", 2, 2, NULL);
    while (r.coord->slot[0].at.epoch < 1)
        ck_assert(sim_step(r.sim));
    coord_restart();
    run_job(60);
    job_done(1);
    memset(&next, 0, sizeof next);
    fake_client_start(&next, r.sim, r.yaml, 0);
    while (next.run == 0 && next.submit_status == 0)
        ck_assert(sim_step(r.sim));
    ck_assert_int_eq(next.submit_status, 0);
    ck_assert_uint_ne(next.run, r.client.run);
    rig_stop();
}
END_TEST

/* Figures of the test split, its bad lines included, survive a death after its evaluation. Damaged
 * curves are left out. */
START_TEST(coord_restart_keeps_the_test_splits_figures)
{
    struct err e = {0};
    rig_start("epochs: 1, consistency: ssp, lanes: 2", 1, 1, NULL);
    (void)snprintf(r.yaml + strlen(r.yaml), 128, "evaluate: {buckets: 5}\n");
    r.worker[0].eval_bad_lines = 1;
    while (r.coord->slot[0].at.phase != PHASE_DIGEST)
        ck_assert(sim_step(r.sim));
    uint64_t bad = r.coord->slot[0].at.test_bad_lines;
    ck_assert_uint_gt(bad, 0);
    if (_i == 1)
        ck_assert_int_eq(coord_store_put(r.store, "details/test", "{\"job\":", 7, &e), 0);
    coord_restart();
    ck_assert_uint_eq(r.coord->slot[0].at.test_bad_lines, bad);
    run_job(60);
    job_done(1);
    struct json *j = report();
    ck_assert(json_absent(json_get(j, "test.buckets")) == (_i == 1));
    ck_assert(!json_absent(json_get(j, "valid.buckets")));
    ck_assert_double_ge(json_as_number(json_get(j, "bad_lines"), 0), (double)bad);
    json_free(j);
    rig_stop();
}
END_TEST

/* A coordinator that dies in the middle of an epoch loses none of its time. */
START_TEST(coord_restart_keeps_the_time_spent)
{
    rig_start("epochs: 1, consistency: ssp, lanes: 2", 1, 1, NULL);
    /* ten seconds and a little of training by one worker with two lanes */
    r.worker[0].step_ns = SECOND / 10;
    while (r.coord->slot[0].at.phase != PHASE_TRAIN)
        ck_assert(sim_step(r.sim));
    uint64_t begun = sim_now_ns(r.sim);
    for (uint32_t kills = 0; kills < 2; kills++) {
        while (r.worker[0].batches < 30 * (kills + 1))
            ck_assert(sim_step(r.sim));
        coord_restart();
    }
    run_job(60);
    job_done(1);
    double all = (double)(sim_now_ns(r.sim) - begun) * 1e-9, train = report_number("train_seconds");
    /* each death may lose the time of one task, and pauses do not count */
    ck_assert_double_ge(train, all * 0.6);
    ck_assert_double_le(train, all);
    ck_assert_double_eq_tol(report_number("epochs.0.seconds"), train, 1e-6);
    ck_assert_double_eq_tol(report_number("examples_per_second"), 1005 / train, 1e-6);
    ck_assert_double_ge(report_number("seconds"), train);
    ck_assert_double_le(report_number("seconds"), all + 3);
    struct json *j = report();
    double before = 0;
    for (size_t i = 0; i < json_count(json_get(j, "training")); i++) {
        double now =
            json_as_number(json_get(json_array_at(json_get(j, "training"), i), "seconds"), -1);
        ck_assert_double_ge(now, before);
        before = now;
    }
    ck_assert_double_ge(before, train * 0.8);
    json_free(j);
    rig_stop();
}
END_TEST

/* Reports that are left over at an epoch's end must not show as a burst of the rate. */
START_TEST(coord_scalars_have_no_rate_of_a_moment)
{
    rig_start("epochs: 3, consistency: ssp, lanes: 7", 1, 2, NULL);
    /* Four rounds of tasks in about two seconds: one lane's last report is due for writing, and
     * those of the other lanes follow at once. */
    for (uint32_t w = 0; w < 2; w++) {
        r.worker[w].seats = 4;
        r.worker[w].step_ns = (uint64_t)(105 + _i) * SECOND / 1000;
    }
    run_job(120);
    job_done(3);

    double usual = report_number("examples_per_second");
    ck_assert_double_gt(r.rate_most, usual * 0.5);
    ck_assert_double_lt(r.rate_most, usual * 2);
    rig_stop();
}
END_TEST

/* Workers report their examples only every few seconds: the status must neither show a rate of zero
 * in between nor all examples as those of one second. */
START_TEST(coord_status_tells_the_rate_of_jumps)
{
    rig_start("epochs: 3, consistency: ssp, lanes: 2", 1, 2, NULL);
    double most = 0;
    uint32_t told = 0, asked = 0;
    uint64_t begun = sim_now_ns(r.sim);
    for (uint32_t w = 0; w < 2; w++)
        r.worker[w].step_ns = SECOND;
    while (!sim_run(r.sim, sim_now_ns(r.sim) + SECOND, job_over, NULL)) {
        if (_i == 1 && sim_now_ns(r.sim) - begun < 30 * SECOND)
            continue; /* the first question comes late: its answer has a rate, too */
        char *text = coord_status_text(&r.coord->slot[0]);
        struct json *j;
        ck_assert_int_eq(json_parse(text, strlen(text), &j, NULL), 0);
        double rate = json_as_number(json_get(j, "rate"), 0);
        ck_assert_msg(_i == 0 || asked > 0 || rate > 0, "%s", text);
        most = rate > most ? rate : most;
        told += rate > 0;
        asked += strcmp(json_as_string(json_get(j, "state"), ""), "train") == 0;
        json_free(j);
        free(text);
    }
    double usual = report_number("examples_per_second");
    ck_assert_double_lt(most, usual * 2);
    ck_assert_uint_gt(told, asked / 2);
    rig_stop();
}
END_TEST

/* The first beat with examples tells the rate, also when it comes soon after the lane, and no beat
 * before it tells a rate of 0. */
START_TEST(coord_status_tells_the_rate_from_the_first_beat)
{
    uint32_t learnt = 0;
    rig_start("epochs: 1, consistency: ssp, lanes: 2", 1, 1, NULL);
    r.coord->fleet.options.lease_ms = 10000;
    r.worker[0].step_ns = SECOND / 50;
    while (!sim_run(r.sim, sim_now_ns(r.sim) + SECOND / 20, job_over, NULL)) {
        const struct coord_job *at = &r.coord->slot[0];
        struct json *j = coord_status_json(&r.coord->slot[0]);
        const struct json *rate = json_get(j, "rate");
        bool learns = at->workers.count > 0 && at->workers.worker[0].figures.examples > 0;
        if (at->at.phase == PHASE_TRAIN && at->workers.count > 0)
            ck_assert_msg(learns ? json_as_number(rate, 0) > 0 : json_absent(rate),
                          "%d: %g a second", learns, json_as_number(rate, -1));
        learnt += learns;
        json_free(j);
    }
    ck_assert_uint_gt(learnt, 20);
    rig_stop();
}
END_TEST

/* The figures of the status page are those of the status; the map's cells stand for all tablets,
 * and the curves are of one length. */
START_TEST(coord_picture_has_the_status_the_map_and_the_curves)
{
    struct json *p;
    uint32_t tablets = 0;
    rig_start("epochs: 3, consistency: ssp, lanes: 2", 2, 2, NULL);
    run_job(120);
    job_done(3);
    r.coord->picture.load = calloc(1, sizeof *r.coord->picture.load);
    r.coord->picture.tablets = 1; /* the load of one tablet is known */
    r.coord->picture.load[0] = 5;
    char *text = coord_picture_text(r.coord);
    ck_assert_int_eq(json_parse(text, strlen(text), &p, NULL), 0);
    free(text);
    struct json *s = coord_picture_status(r.coord, &r.coord->slot[0]);
    char *mine = json_text(s, 0), *its = json_text(json_get(p, "status"), 0);
    ck_assert_str_eq(mine, its);
    free(mine);
    free(its);
    json_free(s);
    const struct json *shards = json_get(p, "map.shards"), *curve = json_get(p, "curve");
    ck_assert_uint_eq(json_count(shards), 2);
    for (size_t i = 0; i < json_count(shards); i++) {
        const struct json *shard = json_array_at(shards, i);
        const char *cells = json_as_string(json_get(shard, "cells"), "");
        ck_assert_uint_eq(strlen(cells), (size_t)json_as_int(json_get(shard, "tablets"), 0));
        ck_assert_uint_eq(strspn(cells, i == 0 ? "90" : "0"), strlen(cells));
        ck_assert_double_eq(json_as_number(json_get(shard, "load"), -1), i == 0);
        tablets += (uint32_t)strlen(cells);
    }
    ck_assert_int_eq(json_as_int(json_get(p, "map.tablets"), 0), tablets);
    ck_assert_int_eq(json_as_int(json_get(p, "map.cell"), 0), 1);
    ck_assert_int_eq(json_as_int(json_get(p, "map.hottest.shard"), -1), 0);
    ck_assert_double_eq(json_as_number(json_get(p, "map.hottest.share"), 0), 1);
    ck_assert_uint_gt(tablets, 0);
    ck_assert_uint_gt(json_count(json_get(curve, "examples")), 2);
    ck_assert_uint_eq(json_count(json_get(curve, "examples")),
                      json_count(json_get(curve, "logloss")));
    ck_assert_uint_eq(json_count(json_get(curve, "examples")), json_count(json_get(curve, "rate")));
    ck_assert_uint_gt(json_count(json_get(p, "auc.auc")), 2);
    ck_assert_uint_eq(json_count(json_get(p, "auc.auc")), json_count(json_get(p, "auc.examples")));
    ck_assert_str_eq(json_as_string(json_get(p, "jobs.0.state"), ""), "finished");
    json_free(p);
    rig_stop();
}
END_TEST

/* Reports of several lanes come in bursts: a rate is that of a second at least. */
START_TEST(coord_picture_tells_no_burst_as_the_rate)
{
    static const double seconds[] = {1, 1.0000001, 2.5, 2.50001};
    struct json *p;
    rig_start("epochs: 1, consistency: ssp, lanes: 2", 1, 1, NULL);
    run_job(60);
    struct coord_curve *c = &r.coord->slot[0].trace->curve;
    for (c->count = 0; c->count < 4; c->count++)
        c->point[c->count] = (struct coord_point){
            .seen = 100u << c->count, .seconds = seconds[c->count], .loss = 1, .weight = 1};
    char *text = coord_picture_text(r.coord);
    ck_assert_int_eq(json_parse(text, strlen(text), &p, NULL), 0);
    free(text);
    const struct json *rate = json_get(p, "curve.rate");
    ck_assert(json_absent(json_array_at(rate, 0)) && json_absent(json_array_at(rate, 1)));
    ck_assert_double_eq_tol(json_as_number(json_array_at(rate, 2), 0), 200 / 1.5, 0.01);
    ck_assert_double_eq_tol(json_as_number(json_array_at(rate, 3), 0), 600 / 1.5, 0.01);
    json_free(p);
    rig_stop();
}
END_TEST

/* A fact that is found again goes on, and begins anew when it was away. */
START_TEST(coord_problems_are_told_since_when)
{
    struct coord_since s = {.count = 0};
    char text[64];
    ck_assert_double_eq(coord_since_seconds(&s, "away a-1", 5 * SECOND), 0);
    ck_assert_double_eq(coord_since_seconds(&s, "away a-2", 6 * SECOND), 0);
    ck_assert_double_eq(coord_since_seconds(&s, "away a-1", 7 * SECOND), 2);
    ck_assert_double_eq(coord_since_seconds(&s, "away a-2", 9 * SECOND), 3);
    ck_assert_double_eq(coord_since_seconds(&s, "away a-1", 11 * SECOND),
                        0); /* not found for longer than COORD_SINCE_GONE_NS */
    for (uint32_t i = 0; i < 2 * COORD_SINCE_MAX; i++) {
        (void)snprintf(text, sizeof text, "away s%u", i);
        (void)coord_since_seconds(&s, text, 12 * SECOND + i);
    }
    ck_assert_uint_eq(s.count, COORD_SINCE_MAX);
    ck_assert_double_eq(coord_since_seconds(&s, "away s255", 13 * SECOND + 255), 1);
}
END_TEST

static void same_fact(const char *a, const char *b, bool same)
{
    char one[128], other[128];
    coord_since_fact(a, one, sizeof one);
    coord_since_fact(b, other, sizeof other);
    ck_assert_msg((strcmp(one, other) == 0) == same, "%s|%s", one, other);
}

/* What a job waits for goes on when numbers, a cause or an advice change. */
START_TEST(coord_sentences_with_one_beginning_are_one_fact)
{
    same_fact("waits for server a (tcp://a:1), not heard for 3 s: start it again",
              "waits for server a: its disk has not answered for 2 s", true);
    same_fact("waits for a worker: none is there",
              "waits for a worker: none is there; the last one left, w-17: no such file", true);
    same_fact("checkpoint folder /kept has not answered for 9 s",
              "checkpoint folder /kept has not answered for 10 s", true);
    same_fact("waits for server a: x", "waits for server b: x", false);
}
END_TEST

/* Shards in one state have one sentence, whose words do not depend on the shard. */
START_TEST(coord_shards_in_one_state_have_the_same_words)
{
    const char *const of = "shard 0: 1 of its 2 copies are in sync; the same holds for 29 others",
                      *const with = "server b waits: no place for shard 3 of it: remove shard-3";
    ck_assert_uint_ne(coord_since_words(of), coord_since_words(with));
    ck_assert_uint_eq(coord_since_words(of),
                      coord_since_words("shard 7: 1 of its 2 copies are in sync; the same holds "
                                        "for 22 others"));
    ck_assert_uint_eq(
        coord_since_words(with),
        coord_since_words("server b waits: no place for shard 4 of it: remove shard-4"));
}
END_TEST

START_TEST(coord_scalars_tell_training_and_evaluation)
{
    r.scalars_fail = _i == 1;
    rig_start("epochs: 3, consistency: ssp, lanes: 2", 2, 2, NULL);
    (void)snprintf(r.yaml + strlen(r.yaml), 128, "evaluate: {group: user, by: [hour]}\n");
    r.worker[0].context = r.worker[1].context = true;
    run_job(60);
    if (_i == 1) { /* the job is done, and its status says that its curves were lost */
        ck_assert_int_eq(r.client.state, WIRE_JOB_DONE);
        ck_assert_int_eq(r.client.status, SHOAL_E_IO);
        all_rows_once(3);
        ck_assert_uint_eq(r.scalars, 1);
        rig_stop();
        return;
    }
    job_done(3);
    /* three of epochs, which are shorter than two seconds; three of valid; one of test */
    ck_assert_uint_eq(r.scalars, 3 + 3 + 1);
    ck_assert_uint_eq(r.step, 3 * 1005);
    ck_assert_double_eq(scalar_last("train/logloss"), 0.5);
    ck_assert_double_eq(scalar_last("lr/scale"), 1);
    ck_assert_double_eq(scalar_last("norm/dense"), 2);
    ck_assert_double_eq(scalar_last("norm/rows"), 3);
    ck_assert_double_eq(scalar_last("staleness/p99"), 1);
    ck_assert_double_gt(scalar_last("rate/examples_per_second"), 100);
    ck_assert_double_eq_tol(scalar_last("valid/auc"), report_number("valid.auc"), 1e-12);
    ck_assert_double_eq_tol(scalar_last("test/gauc"), report_number("test.gauc"), 1e-12);
    ck_assert_double_eq_tol(scalar_last("test/ne"), report_number("test.ne"), 1e-12);
    ck_assert_double_eq(scalar_last("train/skipped_steps"), -1);
    rig_stop();
}
END_TEST

START_TEST(coord_best_epoch_by_group_auc)
{
    static const double quality[FAKE_EPOCHS] = {0, 0.6, 0.9, 0.7, 0.65, 0.6};
    memset(&r, 0, sizeof r);
    for (uint32_t i = 0; i < 2; i++) {
        memcpy(r.worker[i].quality, quality, sizeof quality);
        r.worker[i].context = true;
    }
    rig_start("epochs: 10, consistency: ssp, lanes: 2, early_stop: {metric: gauc, patience: 2}", 2,
              2, NULL);
    (void)snprintf(r.yaml + strlen(r.yaml), 128, "evaluate: {group: user, by: [hour]}\n");
    run_job(120);
    job_done(4);
    ck_assert_double_eq(report_number("best_epoch"), 2);
    ck_assert_double_eq(report_number("valid.gauc"), report_number("epochs.1.valid.gauc"));
    ck_assert_double_gt(report_number("epochs.1.valid.gauc"), report_number("epochs.3.valid.gauc"));
    rig_stop();
}
END_TEST

/* A worker with another job file, or with false figures: its figures are refused and not
 * counted. */
START_TEST(coord_predictions_of_another_job_are_refused)
{
    rig_start("epochs: 1, consistency: ssp, lanes: 2", 2, 1, NULL);
    r.worker[0].context = true; /* the job has no group */
    ck_assert(!sim_run(r.sim, 20 * SECOND, job_over, NULL));
    ck_assert_int_eq(r.worker[0].refused, SHOAL_E_MALFORMED);
    ck_assert_uint_eq(r.coord->slot[0].eval->measured, 0);
    rig_stop();
}
END_TEST

START_TEST(coord_epoch_ends_only_when_all_lanes_are_done)
{
    rig_start("epochs: 2, consistency: async, lanes: 4", 1, 2, NULL);
    r.worker[1].step_ns = 100 * r.worker[0].step_ns; /* one worker is very slow */
    while (r.coord->slot[0].at.phase != PHASE_DONE && sim_step(r.sim)) {
        if (r.coord->slot[0].at.phase != PHASE_EVAL || r.coord->slot[0].at.epoch != 1)
            continue;
        for (uint32_t row = 0; row < 1005; row++)
            ck_assert_uint_eq(r.shard[0]->seen[1][row], 1);
        ck_assert_uint_eq(r.shard[0]->seen[2][0], 0);
    }
    run_job(60);
    job_done(2);
    rig_stop();
}
END_TEST

START_TEST(coord_dead_workers_lane_goes_to_another_with_a_higher_generation)
{
    uint64_t before[2] = {0, 0};
    rig_start("epochs: 2, consistency: ssp, lanes: 2", 2, 2, NULL);
    r.worker[0].dead_batch = 10;
    while (r.worker[0].batches < 10)
        ck_assert(sim_step(r.sim));
    uint32_t seat = r.worker[0].seat[0].lane < 2 ? 0 : 1;
    uint32_t lane = r.worker[0].seat[seat].lane;
    ck_assert_uint_lt(lane, 2);
    before[lane] = r.worker[0].seat[seat].generation;
    run_job(120);
    job_done(2);
    ck_assert_uint_gt(r.coord->slot[0].tasks->lane[lane].generation, before[lane]);
    ck_assert_double_eq(report_number("worker_deaths"), 1);
    rig_stop();
}
END_TEST

START_TEST(coord_frozen_worker_is_told_to_leave_and_writes_nothing)
{
    rig_start("epochs: 12, consistency: ssp, lanes: 2", 2, 2, NULL);
    while (r.worker[0].batches < 10)
        ck_assert(sim_step(r.sim));
    sim_pause(r.worker[0].node, sim_now_ns(r.sim) + 2 * SECOND); /* the lease is one second */
    run_job(120);
    job_done(12); /* no row twice although it continued its task when it woke up */
    ck_assert_uint_gt(r.worker[0].fenced + r.worker[0].leaves + r.worker[0].unknown, 0);
    rig_stop();
}
END_TEST

START_TEST(coord_bsp_pads_lanes_to_equal_length)
{
    rig_start("epochs: 2, consistency: bsp, lanes: 3", 2, 2, NULL);
    run_job(60);
    job_done(2);
    /* 101 batches over 3 lanes: 8 rounds of 12, then 5 left as 2 each: 34 a lane, one empty. */
    for (uint32_t l = 0; l < 3; l++)
        ck_assert_uint_eq(r.coord->slot[0].tasks->lane[l].next_batch - 1, 2 * 34);
    ck_assert_uint_eq(r.shard[0]->ticks, 2);
    rig_stop();
}
END_TEST

START_TEST(coord_bsp_survives_a_death_with_the_same_batches)
{
    rig_start("epochs: 2, consistency: bsp, lanes: 3", 1, 3, NULL);
    r.worker[1].dead_batch = 17;
    run_job(120);
    job_done(2);
    for (uint32_t l = 0; l < 3; l++)
        ck_assert_uint_eq(r.coord->slot[0].tasks->lane[l].next_batch - 1, 2 * 34);
    rig_stop();
}
END_TEST

START_TEST(coord_lost_doubled_and_reordered_messages_change_nothing)
{
    struct sim_options rough = {.seed = (uint64_t)_i + 1,
                                .drop = 0.1,
                                .duplicate = 0.1,
                                .delay_min_ns = 100000,
                                .delay_max_ns = 40000000,
                                .reorder = true};
    rig_start(_i % 2 == 0 ? "epochs: 3, consistency: ssp, lanes: 3"
                          : "epochs: 3, consistency: bsp, lanes: 3",
              2, 2, &rough);
    if (_i % 3 == 0)
        r.worker[0].dead_batch = 20;
    run_job(900);
    job_done(3);
    rig_stop();
}
END_TEST

START_TEST(coord_best_epoch_is_restored)
{
    static const double quality[FAKE_EPOCHS] = {0, 0.6, 0.9, 0.7, 0.65, 0.6};
    memset(&r, 0, sizeof r);
    for (uint32_t i = 0; i < 2; i++)
        memcpy(r.worker[i].quality, quality, sizeof quality);
    rig_start("epochs: 10, consistency: ssp, lanes: 2, early_stop: {metric: auc, patience: 2, "
              "lr_decay: 0.5}",
              2, 2, NULL);
    run_job(120);
    job_done(4); /* 2 is the best, 3 and 4 are misses */
    ck_assert_double_eq(report_number("best_epoch"), 2);
    ck_assert_double_gt(report_number("valid.auc"), 0.85);
    for (uint32_t s = 0; s < 2; s++) {
        ck_assert_uint_ge(r.shard[s]->restores, 1);
        ck_assert_uint_eq(r.shard[s]->newest_run, r.coord->slot[0].at.run);
        ck_assert_uint_ne(r.shard[s]->newest_run, r.client.run);
        /* the newest one is dropped at the end */
        ck_assert_uint_eq(r.shard[s]->dropped, r.coord->slot[0].at.best_cut);
    }
    ck_assert_double_eq_tol(r.coord->slot[0].at.lr_scale, 0.25, 1e-12);
    rig_stop();
}
END_TEST

/* _i 0: rates go down at each second miss; 1: a slightly better value is no gain. */
START_TEST(coord_gains_and_rates_have_a_patience_of_their_own)
{
    static const double quality[FAKE_EPOCHS] = {0, 0.6, 0.9, 0.7, 0.65, 0.6};
    static const char *const keys[] = {"patience: 3, lr_decay: 0.5, lr_patience: 2}",
                                       "patience: 2, lr_decay: 0.5, min_delta: 0.5}"};
    char train[160];
    memset(&r, 0, sizeof r);
    for (uint32_t i = 0; i < 2; i++)
        memcpy(r.worker[i].quality, quality, sizeof quality);
    (void)snprintf(train, sizeof train,
                   "epochs: 10, consistency: ssp, lanes: 2, early_stop: {metric: auc, %s",
                   keys[_i]);
    rig_start(train, 2, 2, NULL);
    run_job(120);
    job_done(_i == 0 ? 5 : 3);
    ck_assert_double_eq(report_number("best_epoch"), _i == 0 ? 2 : 1);
    ck_assert_double_eq_tol(r.coord->slot[0].at.lr_scale, _i == 0 ? 0.5 : 0.25, 1e-12);
    rig_stop();
}
END_TEST

START_TEST(coord_report_says_that_a_job_still_gained)
{
    static const double quality[][FAKE_EPOCHS] = {{0, 0.6, 0.7, 0.8}, {0, 0.6, 0.8, 0.8}};
    memset(&r, 0, sizeof r);
    for (uint32_t i = 0; i < 2; i++)
        memcpy(r.worker[i].quality, quality[_i], sizeof quality[_i]);
    rig_start("epochs: 3, consistency: ssp, lanes: 2", 2, 2, NULL);
    run_job(120);
    job_done(3);
    ck_assert_ptr_nonnull(strstr(r.coord->slot[0].report, "\"notes\": ["));
    ck_assert_int_eq(strstr(r.coord->slot[0].report, "train.epochs ended the job") != NULL,
                     _i == 0);
    rig_stop();
}
END_TEST

/* After a checkpoint the first epoch is always kept, even if it beats the best of all by too little
 * to be a gain. The next epoch may be a gain on the best and none on the kept one. */
START_TEST(coord_gain_over_the_best_is_kept)
{
    static const double quality[FAKE_EPOCHS] = {0, 0.6, 0.8, 0.8, 0.6, 0.6, 0.6};
    memset(&r, 0, sizeof r);
    for (uint32_t i = 0; i < 2; i++)
        memcpy(r.worker[i].quality, quality, sizeof quality);
    rig_start("epochs: 10, consistency: ssp, lanes: 2, early_stop: {metric: auc, patience: 2}", 2,
              2, NULL);
    struct coord_progress *at = &r.coord->slot[0].at;
    while (at->epoch < 3 || at->phase != PHASE_EVAL)
        ck_assert(sim_step(r.sim));
    ck_assert_uint_eq(at->kept, 2);
    at->best = 1;
    at->best_value -= 1.2e-6; /* the third will equal the second */
    at->kept_value -= 0.5e-6;
    run_job(120);
    job_done(5);
    ck_assert_double_eq(report_number("best_epoch"), 3);
    ck_assert_double_eq(report_number("final_epoch"), 3);
    rig_stop();
}
END_TEST

START_TEST(coord_refused_cut_is_made_again_under_a_new_number)
{
    rig_start("epochs: 3, consistency: ssp, lanes: 2, early_stop: {metric: auc, patience: 2}", 2, 2,
              NULL);
    r.shard[1]->refuse_go = true;
    run_job(120);
    job_done(3);
    ck_assert_uint_eq(r.shard[0]->cut, r.shard[1]->cut);
    rig_stop();
}
END_TEST

START_TEST(coord_restarted_shard_is_set_up_again)
{
    rig_start("epochs: 3, consistency: ssp, lanes: 2", 2, 2, NULL);
    while (r.worker[0].batches < 20)
        ck_assert(sim_step(r.sim));
    struct fake_shard *s = r.shard[1];
    sim_kill(s->node);
    s->map_count = 0; /* the map is lost; rows, marks and generations are in the journal */
    (void)sim_run(r.sim, sim_now_ns(r.sim) + SECOND, NULL, NULL);
    fake_shard_start(s, r.sim, "server-1", 0, 2);
    run_job(120);
    job_done(3);
    ck_assert_uint_gt(s->map_count, 0);
    ck_assert_uint_eq(s->number, 1);
    ck_assert_double_eq(report_number("restarts"), 1);
    rig_stop();
}
END_TEST

/* Marks and clocks differ between shards if a worker died during its pushes. If each shard
 * placed a lane by its own marks, the lane could wait on one shard for a lane that waits for it
 * on another. */
START_TEST(coord_lane_has_one_clock_on_all_shards)
{
    rig_start("epochs: 3, consistency: ssp, lanes: 1", 2, 2, NULL);
    r.shard[0]->low = 90;
    r.shard[1]->low = 93;
    while (r.worker[0].batches + r.worker[1].batches < 5)
        ck_assert(sim_step(r.sim));
    for (uint32_t s = 0; s < 2; s++) {
        const struct fake_lane *l = &r.shard[s]->run.lane[0];
        ck_assert(l->live);
        ck_assert_uint_eq(l->at, 0);
        ck_assert_uint_eq(l->clock, 93);
        r.shard[s]->low = 0; /* it was alone: it continues from its mark */
    }
    struct fake_worker *heir = &r.worker[r.worker[0].batches != 0];
    sim_kill(r.worker[r.worker[0].batches == 0].node);
    uint64_t mark = r.shard[0]->run.lane[0].mark;
    r.shard[1]->run.lane[0].mark = mark + 2;
    while (heir->batches < 2)
        ck_assert(sim_step(r.sim));
    for (uint32_t s = 0; s < 2; s++) {
        ck_assert_uint_eq(r.shard[s]->run.lane[0].at, mark);
        ck_assert_uint_eq(r.shard[s]->run.lane[0].clock, mark);
    }
    run_job(120);
    job_done(3);
    rig_stop();
}
END_TEST

/* Two lanes come while none is live: neither is behind the other. */
START_TEST(coord_lanes_that_come_together_begin_together)
{
    rig_start("epochs: 3, consistency: ssp, lanes: 2", 2, 2, NULL);
    r.worker[1].step_ns *= 4;
    const struct fake_lane *l = r.shard[0]->run.lane;
    while (r.coord->slot[0].at.epoch < 2 || !l[0].live || !l[1].live)
        ck_assert(sim_step(r.sim));
    ck_assert_uint_ne(l[0].at, l[1].at);
    ck_assert_uint_eq(l[0].clock, l[1].clock);
    run_job(120);
    job_done(3);
    rig_stop();
}
END_TEST

/* If the shards know of no live lane, a lane begins with the held lane that is furthest behind, not
 * with a clock that a free lane left. */
START_TEST(coord_lane_begins_with_the_last_of_those_held)
{
    struct coord_lane *l = NULL;
    uint32_t held = 0, left = 0, lanes[3] = {0}, dies;
    uint64_t number;
    bool his[4];
    rig_start("epochs: 3, consistency: ssp, lanes: 4", 2, 3, NULL);
    for (uint32_t w = 0; w < 3; w++)
        r.worker[w].step_ns *= 20; /* work is left when the lease is over */
    while (held < 4) {
        ck_assert(sim_step(r.sim));
        l = r.coord->slot[0].at.phase == PHASE_TRAIN ? r.coord->slot[0].tasks->lane : NULL;
        for (held = 0; l != NULL && held < 4 && l[held].state == LANE_HELD;)
            held++;
    }
    for (uint32_t i = 0; i < 4; i++)
        for (uint32_t w = 0; w < 3; w++)
            lanes[w] += l[i].worker == r.worker[w].number;
    for (dies = 0; dies < 3 && lanes[dies] != 2;)
        dies++;
    ck_assert_uint_lt(dies, 3);
    number = r.worker[dies].number;
    for (uint32_t i = 0; i < 4; i++) {
        his[i] = l[i].worker == number;
        l[i].clock = his[i] ? 2 : left++ == 0 ? 9 : 6;
    }
    sim_kill(r.worker[dies].node);
    for (left = 2; left > 0;) {
        ck_assert(sim_step(r.sim));
        for (uint32_t i = 0; i < 4; i++) {
            l = &r.coord->slot[0].tasks->lane[i];
            if (!his[i] || l->state != LANE_HELD || l->worker == number)
                continue;
            ck_assert_uint_eq(r.shard[0]->run.lane[i].clock, 6);
            ck_assert_uint_eq(r.shard[1]->run.lane[i].clock, 6);
            his[i] = false;
            left--;
        }
    }
    run_job(120);
    job_done(3);
    rig_stop();
}
END_TEST

/* Power took the shard's last fences: an older generation could write there, and a lane that has
 * left would count in its clock for ever. */
START_TEST(coord_fences_are_told_again)
{
    rig_start(_i == 0 ? "epochs: 3, consistency: ssp, lanes: 2"
                      : "epochs: 3, consistency: bsp, lanes: 2",
              2, 2, NULL);
    while (r.worker[0].batches < 20)
        ck_assert(sim_step(r.sim));
    struct fake_shard *s = r.shard[1];
    uint32_t told = s->told, steps = 0;
    sim_kill(s->node);
    for (uint32_t l = 0; l < 2; l++) {
        ck_assert_uint_gt(s->run.lane[l].generation, 0);
        s->run.lane[l].generation = 0;
        s->run.lane[l].live = !s->run.lane[l].live;
    }
    fake_shard_start(s, r.sim, "server-1", 0, 2);
    for (; s->told == told && steps < 100000; steps++)
        ck_assert(sim_step(r.sim));
    ck_assert_uint_eq(s->told, told + 1);
    for (uint32_t l = 0; l < 2; l++) {
        ck_assert_uint_eq(s->run.lane[l].generation, r.shard[0]->run.lane[l].generation);
        ck_assert_int_eq(s->run.lane[l].live, r.shard[0]->run.lane[l].live);
    }
    run_job(120);
    job_done(3);
    rig_stop();
}
END_TEST

/* A killed process loses nothing; a machine that restarted may have lost pushes. All lanes go back,
 * and their workers join again. After a lane's last task no other message would reveal the loss. */
START_TEST(coord_machine_that_started_again)
{
    bool boots = _i != 0, loses = _i == 2;
    rig_start("epochs: 3, consistency: ssp, lanes: 2", 2, 2, NULL);
    while (r.worker[0].batches < 20)
        ck_assert(sim_step(r.sim));
    const struct coord_lane *lane = r.coord->slot[0].tasks->lane;
    if (loses) /* no lane has a task */
        while (r.coord->slot[0].at.phase != PHASE_EVAL)
            ck_assert(sim_step(r.sim));
    struct fake_shard *s = r.shard[1];
    uint64_t before[2] = {lane[0].generation, lane[1].generation};
    sim_kill(s->node);
    s->boot += boots;
    s->run.lane[1].mark -= loses;
    fake_shard_start(s, r.sim, "server-1", 0, 2);
    while (!r.coord->slot[0].setup.shard[1].done ||
           r.coord->fleet.members.shard[1].incarnation != 2)
        ck_assert(sim_step(r.sim));
    for (uint32_t l = 0; l < 2; l++)
        ck_assert_int_eq(lane[l].generation > before[l], boots);
    run_job(120);
    if (loses) {
        ck_assert_int_eq(r.client.status, SHOAL_E_CORRUPT);
        ck_assert_ptr_nonnull(strstr(r.client.text, "lane 1 stands at batch"));
        ck_assert_ptr_nonnull(strstr(r.client.text, "a server has lost pushes"));
    } else {
        job_done(3);
        ck_assert_double_eq(report_number("examples"), 3 * 1005);
        ck_assert_double_eq(report_number("worker_deaths"), 0);
    }
    rig_stop();
}
END_TEST

/* bsp: a shard serves rows as of its newest clock and the one before. A shard that lost more than
 * the others can go back used to refuse the worker's pull; the worker left and joined again,
 * without end. */
START_TEST(coord_clocks_apart_end_the_job)
{
    rig_start("epochs: 2, consistency: bsp, lanes: 2", _i == 2 ? 2 : 1, 2, NULL);
    r.shard[_i == 2]->ahead = _i == 0 ? 1 : 2;
    run_job(120);
    if (_i == 0) {
        job_done(2);
    } else {
        ck_assert_int_eq(r.client.status, SHOAL_E_CORRUPT);
        ck_assert_ptr_nonnull(strstr(r.client.text, "stands at clock 0 on server server-"));
        ck_assert_ptr_nonnull(strstr(r.client.text, _i == 2 ? "server server-1 has clock 2"
                                                            : "server server-0 has clock 2"));
        ck_assert_ptr_nonnull(strstr(r.client.text, "start the job again"));
    }
    rig_stop();
}
END_TEST

/* The shard gets the map, for readers, and nothing else. Once its rows are all back, it gets the
 * rest. */
START_TEST(coord_shard_that_reads_its_rows_back_has_the_map)
{
    rig_start("epochs: 3, consistency: ssp, lanes: 2", 2, 2, NULL);
    while (r.worker[0].batches < 20)
        ck_assert(sim_step(r.sim));
    struct fake_shard *s = r.shard[1];
    uint32_t tablets = s->map_count, fences = s->fences;
    sim_kill(s->node);
    s->map_count = 0;
    fake_shard_start(s, r.sim, "server-1", 0, 2);
    s->ready = false;
    (void)sim_run(r.sim, sim_now_ns(r.sim) + 3 * SECOND, NULL, NULL);
    ck_assert_uint_eq(s->map_count, tablets);
    ck_assert_uint_eq(s->fences, fences);
    s->ready = true;
    run_job(120);
    job_done(3);
    ck_assert_double_eq(report_number("restarts"), 1);
    rig_stop();
}
END_TEST

START_TEST(coord_restarted_shard_ends_a_job_in_memory)
{
    rig_start("epochs: 3, consistency: ssp, lanes: 2", 2, 2, NULL);
    sim_kill(r.client.node);
    (void)snprintf(r.yaml + strlen(r.yaml), 64, "durability: memory\n");
    memset(&r.client, 0, sizeof r.client);
    fake_client_start(&r.client, r.sim, r.yaml, 2);
    r.shard[0]->in_memory = r.shard[1]->in_memory = true;
    while (r.worker[0].batches < 20)
        ck_assert(sim_step(r.sim));
    sim_kill(r.shard[1]->node);
    fake_shard_start(r.shard[1], r.sim, "server-1", 0, 2);
    run_job(60);
    ck_assert_int_eq(r.client.status, SHOAL_E_UNAVAILABLE);
    ck_assert_ptr_nonnull(
        strstr(r.client.text, "server server-1 died, and its rows were in memory"));
    ck_assert_ptr_nonnull(strstr(r.client.text, "--set fresh=all), with checkpoint: {dir"));
    rig_stop();
}
END_TEST

START_TEST(coord_restarted_coordinator_goes_on)
{
    rig_start(_i % 2 == 0
                  ? "epochs: 3, consistency: ssp, lanes: 2, early_stop: {metric: auc, patience: 3}"
                  : "epochs: 3, consistency: bsp, lanes: 2",
              2, 2, NULL);
    for (uint32_t kills = 1; kills <= 3; kills++) {
        for (int steps = 0; steps < 400 + 211 * _i && !job_over(NULL); steps++)
            ck_assert(sim_step(r.sim));
        uint32_t was = r.coord->slot[0].at.phase;
        sim_kill(r.node);
        coord_free(r.coord);
        coord_start();
        const struct coord_job *j = &r.coord->slot[0];
        if (was > PHASE_LANES && was < PHASE_FINISH) /* a missing run was lost */
            ck_assert(j->opened == j->at.run && j->laned == j->at.run);
        ck_assert(was > PHASE_SETUP || j->opened == 0);
    }
    run_job(120);
    job_done(3);
    ck_assert_double_eq(report_number("examples"), 3 * 1005);
    rig_stop();
}
END_TEST

/* A job that says no length of its tasks, begun by a release that cut them otherwise: they stay as
 * they are, so that each example still counts once. */
START_TEST(coord_goes_on_with_tasks_as_another_release_has_cut_them)
{
    task_batches = "";
    rig_start("epochs: 2, consistency: ssp, lanes: 2", 2, 2, NULL);
    struct coord_job *j = &r.coord->slot[0];
    while (j->at.phase != PHASE_SETUP)
        ck_assert(sim_step(r.sim));
    j->spec.train.task_batches = 6; /* an eighth of 50 */
    while (j->at.phase != PHASE_TRAIN || j->tasks->pushed < 5)
        ck_assert(sim_step(r.sim));
    ck_assert_uint_eq(j->tasks->task[0].batch_count, 6);
    coord_restart();
    j = &r.coord->slot[0];
    while (j->tasks->tasks == 0)
        ck_assert(sim_step(r.sim));
    ck_assert_uint_eq(j->spec.train.task_batches, 0);
    ck_assert_uint_eq(j->tasks->task[0].batch_count, 6);
    ck_assert_uint_ge(j->tasks->pushed, 3);
    run_job(120);
    job_done(2);
    ck_assert_double_eq(report_number("examples"), 2 * 1005);
    ck_assert_uint_eq(j->tasks->task[0].batch_count, 8); /* of its next epoch */
    rig_stop();
}
END_TEST

/* Another release, which cut the epoch otherwise, went on with it: the rows of its batches are not
 * known here. */
START_TEST(coord_tasks_of_two_cuts_end_the_job)
{
    struct coord_task_record record;
    struct err e = {0};
    rig_start("epochs: 2, consistency: ssp, lanes: 2", 2, 2, NULL);
    struct coord_job *j = &r.coord->slot[0];
    while (j->at.phase != PHASE_TRAIN || j->tasks->pushed < 5)
        ck_assert(sim_step(r.sim));
    ck_assert_int_eq(coord_store_get_fixed(j->store, "task/3", &record, sizeof record, &e), 0);
    record.batch_count = 3;
    ck_assert_int_eq(coord_put_now(j->store, "task/3", &record, sizeof record, &e), 0);
    coord_restart();
    run_job(120);
    ck_assert_int_eq(r.client.status, SHOAL_E_CORRUPT);
    ck_assert_ptr_nonnull(strstr(r.client.text, "epoch 1: task 3 is stored with 3 batches from"));
    ck_assert_ptr_nonnull(strstr(r.client.text, "is cut to 4: another release has gone on with "
                                                "this epoch, so it is not known which rows are "
                                                "learnt. Submit the job again, from a checkpoint "
                                                "that was made before (--resume) or from its "
                                                "beginning"));
    rig_stop();
}
END_TEST

/* The repeated evaluation finds the best epoch again, and it is kept. */
START_TEST(coord_death_at_the_cut_keeps_the_best_epoch)
{
    static const double quality[FAKE_EPOCHS] = {0, 0.6, 0.9, 0.7, 0.65, 0.6};
    memset(&r, 0, sizeof r);
    for (uint32_t i = 0; i < 2; i++)
        memcpy(r.worker[i].quality, quality, sizeof quality);
    rig_start("epochs: 10, consistency: ssp, lanes: 2, early_stop: {metric: auc, patience: 2, "
              "lr_decay: 0.5}",
              2, 2, NULL);
    while (r.coord->slot[0].at.phase != PHASE_CUT || r.coord->slot[0].at.epoch != 2)
        ck_assert(sim_step(r.sim));
    for (int i = 0; i < _i; i++)
        ck_assert(sim_step(r.sim));
    coord_restart();
    run_job(120);
    job_done(4);
    ck_assert_double_eq(report_number("best_epoch"), 2);
    ck_assert_double_eq_tol(r.coord->slot[0].at.lr_scale, 0.25, 1e-12);
    ck_assert_uint_ge(r.shard[0]->restores, 1);
    rig_stop();
}
END_TEST

/* The run that RESTORE opens may be on no shard yet: a restarted coordinator must not ask for it as
 * for a lost one. */
START_TEST(coord_death_at_the_restore_keeps_the_best_epoch)
{
    static const double quality[FAKE_EPOCHS] = {0, 0.6, 0.9, 0.7, 0.65, 0.6};
    memset(&r, 0, sizeof r);
    for (uint32_t i = 0; i < 2; i++)
        memcpy(r.worker[i].quality, quality, sizeof quality);
    rig_start("epochs: 10, consistency: ssp, lanes: 2, early_stop: {metric: auc, patience: 2}", 2,
              2, NULL);
    while (r.coord->slot[0].at.phase != PHASE_RESTORE)
        ck_assert(sim_step(r.sim));
    for (int i = 0; i < 3 * _i; i++)
        ck_assert(sim_step(r.sim));
    ck_assert_uint_eq(r.coord->slot[0].at.phase, PHASE_RESTORE);
    coord_restart();
    run_job(120);
    job_done(4);
    ck_assert_double_eq(report_number("best_epoch"), 2);
    for (uint32_t s = 0; s < 2; s++)
        ck_assert_uint_eq(r.shard[s]->newest_run, r.coord->slot[0].at.run);
    rig_stop();
}
END_TEST

/* The part of one shard cannot be read: no other shard has gone back by then. */
START_TEST(coord_rotten_cut_leaves_all_as_they_were)
{
    static const double quality[FAKE_EPOCHS] = {0, 0.6, 0.9, 0.7, 0.65, 0.6};
    memset(&r, 0, sizeof r);
    memcpy(r.worker[0].quality, quality, sizeof quality);
    rig_start("epochs: 10, consistency: ssp, lanes: 2, early_stop: {metric: auc, patience: 2}", 3,
              1, NULL);
    r.shard[1]->rotten = true;
    run_job(120);
    ck_assert_int_eq(r.client.status, SHOAL_E_CORRUPT);
    ck_assert_ptr_nonnull(strstr(r.client.text, "the best, cannot be restored"));
    ck_assert_ptr_nonnull(strstr(r.client.text, "block checksum mismatch"));
    for (uint32_t i = 0; i < 3; i++)
        ck_assert_uint_eq(r.shard[i]->restores, 0);
    ck_assert_uint_ge(r.shard[0]->looks + r.shard[2]->looks, 1);
    rig_stop();
}
END_TEST

/* ---- evaluations within an epoch ------------------------------------------------------------- */

static void evaluations_are(const double *batch, uint32_t count)
{
    struct json *j = report(), *list = json_get(j, "evaluations");
    ck_assert_uint_eq(json_count(list), count);
    for (uint32_t i = 0; i < count; i++) {
        const struct json *item = json_array_at(list, i);
        ck_assert_double_eq(json_as_number(json_get(item, "batch"), -1), batch[i]);
        ck_assert_double_le(json_as_number(json_get(item, "examples"), -1), 10 * batch[i]);
    }
    json_free(j);
}

/* Four batches a task; under bsp a round has eight, of two lanes. The last evaluation would come
 * less than half of 20 batches before the epoch's end, so the end's evaluation takes its place. */
static void batches_evaluated(bool bsp)
{
    static const double by_task[] = {20, 40, 60, 80, 101, 121, 141, 161, 181, 202},
                        by_round[] = {24, 40, 64, 80, 101, 125, 141, 165, 181, 202};
    evaluations_are(bsp ? by_round : by_task, 10);
}

START_TEST(coord_evaluates_every_so_many_batches)
{
    static const char *const mode[] = {"async", "ssp", "bsp"};
    char train[96];
    (void)snprintf(train, sizeof train, "epochs: 2, consistency: %s, lanes: 2", mode[_i]);
    rig_start(train, 2, 2, NULL);
    (void)snprintf(r.yaml + strlen(r.yaml), 64, "evaluate: {every_batches: 20}\n");
    run_job(120);
    job_done(2);
    batches_evaluated(_i == 2);
    ck_assert_double_eq(report_number("examples"), 2 * 1005);
    ck_assert_double_eq(report_number("evaluations.9.examples"), 2 * 1005);
    ck_assert_double_eq(report_number("epochs.1.valid.auc"), report_number("valid.auc"));
    ck_assert(strstr(r.client.report, "\"ended_by\": \"epochs\"") != NULL);
    rig_stop();
}
END_TEST

/* An evaluation within an epoch is no training, and the training before it counts once, even if the
 * coordinator dies in the evaluation (1), or in the next epoch before its first evaluation (2). */
START_TEST(coord_evaluations_take_no_time_of_training)
{
    rig_start("epochs: 2, consistency: ssp, lanes: 2", 1, 1, NULL);
    (void)snprintf(r.yaml + strlen(r.yaml), 64, "evaluate: {every_batches: 40}\n");
    r.worker[0].step_ns = SECOND / 5;
    if (_i != 0) {
        while (_i == 1 ? r.coord->slot[0].at.phase != PHASE_EVAL
                       : r.coord->slot[0].at.epoch != 2 || r.worker[0].batches < 101 + 38)
            ck_assert(sim_step(r.sim));
        coord_restart();
    }
    run_job(120);
    job_done(2);
    struct json *j = report(), *list = json_get(j, "evaluations");
    double train = report_number("train_seconds"), all = (double)sim_now_ns(r.sim) * 1e-9;
    double before = 0;
    ck_assert_uint_eq(json_count(list), 6);
    for (size_t i = 0; i < 6; i++) {
        double seconds = json_as_number(json_get(json_array_at(list, i), "seconds"), -1);
        ck_assert(seconds - before >= (_i == 2 ? 1 : 2) && seconds - before <= 6);
        before = seconds;
    }
    ck_assert_double_eq_tol(before, train, 1e-6);
    ck_assert_double_ge(train, 202 / 2 * 0.2 - (_i == 2 ? 3 : 0));
    ck_assert_double_eq_tol(report_number("epochs.0.seconds") + report_number("epochs.1.seconds"),
                            train, 1e-6);
    double seconds = report_number("seconds");
    /* all but the time between the curve's last point and the new set-up */
    ck_assert(seconds >= train && seconds <= all && seconds >= all - (_i == 2 ? 2.5 : 1));
    json_free(j);
    rig_stop();
}
END_TEST

/* A worker asks on only when its report was answered, and a report of a lane that is free is
 * refused. So one that is missing when all lanes are free is that of a worker that died. */
START_TEST(coord_report_that_is_missing_holds_up_no_epoch)
{
    rig_start("epochs: 2, consistency: ssp, lanes: 1", 1, 1, NULL);
    struct coord_tasks *t = r.coord->slot[0].tasks;
    while (r.coord->slot[0].at.phase != PHASE_TRAIN || t->reported < t->tasks)
        ck_assert(sim_step(r.sim));
    ck_assert_uint_eq(t->pushed, t->tasks - 1);
    t->reported--;
    (void)sim_run(r.sim, sim_now_ns(r.sim) + SECOND / 2, NULL, NULL);
    ck_assert_uint_ne(r.coord->slot[0].at.phase * 8 + r.coord->slot[0].at.epoch,
                      PHASE_TRAIN * 8 + 1);
    rig_stop();
}
END_TEST

/* ---- examples before they are learnt --------------------------------------------------------- */

static void train_is(const char *path, uint64_t rows)
{
    static struct metric_tally all;
    struct metric is;
    char key[64];
    memset(&all, 0, sizeof all);
    fake_tally(0, rows, &all);
    metric_tally_figures(&all, &is);
    (void)snprintf(key, sizeof key, "%s.auc", path);
    ck_assert_double_eq_tol(report_number(key), is.auc, 1e-12);
    (void)snprintf(key, sizeof key, "%s.logloss", path);
    ck_assert_double_eq_tol(report_number(key), is.logloss, 1e-12);
    (void)snprintf(key, sizeof key, "%s.calibration", path);
    ck_assert_double_eq_tol(report_number(key), is.calibration, 1e-12);
}

/* The restarted coordinator has the counts that it stored. */
static void restart_forgets_nothing(void)
{
    static struct metric_tally epoch, window;
    epoch = r.coord->slot[0].windows->epoch[0];
    window = r.coord->slot[0].windows->window[26][0];
    ck_assert_uint_eq(metric_tally_examples(&epoch), 9 * 40);
    coord_restart();
    ck_assert_int_eq(memcmp(&epoch, r.coord->slot[0].windows->epoch, sizeof epoch), 0);
    ck_assert_int_eq(memcmp(&window, r.coord->slot[0].windows->window[26], sizeof window), 0);
}

static void windows_are(uint32_t count, double examples)
{
    struct json *j = report(), *list = json_get(j, "train.windows");
    const struct json *last = json_array_at(list, count - 1);
    double seen = 0;
    ck_assert_uint_eq(json_count(list), count);
    for (uint32_t i = 0; i < count; i++) {
        double at = json_as_number(json_get(json_array_at(list, i), "examples"), -1);
        ck_assert_double_gt(at, seen);
        seen = at;
    }
    ck_assert_double_eq(seen, examples);
    ck_assert_double_eq(json_as_number(json_get(last, "batch"), -1), examples / 1005 * 101);
    json_free(j);
}

/* Every example counts once, whatever the order of reports. */
START_TEST(coord_tells_what_was_scored_before_it_was_learnt)
{
    static const char *const mode[] = {"async", "ssp", "bsp"};
    char train[96];
    (void)snprintf(train, sizeof train, "epochs: 2, consistency: %s, lanes: 2", mode[_i]);
    rig_start(train, 2, 2, NULL);
    run_job(240);
    job_done(2);
    train_is("epochs.0.train", 1005);
    train_is("epochs.1.train", 1005);
    ck_assert_double_eq(report_number("train.examples"), 2 * 1005);
    ck_assert_double_eq_tol(report_number("train.auc"), report_number("epochs.0.train.auc"), 1e-12);
    ck_assert_double_gt(report_number("train.auc_error"), 0);
    windows_are(52, 2 * 1005);
    ck_assert_double_gt(scalar_last("train/auc"), 0.5);
    ck_assert_double_gt(scalar_last("train/calibration"), 0);
    rig_stop();
}
END_TEST

/* A restarted coordinator takes lanes away: the reports of unfinished tasks may be lost, but none
 * counts twice. */
START_TEST(coord_restart_counts_no_example_twice)
{
    rig_start("epochs: 2, consistency: bsp, lanes: 2", 2, 2, NULL);
    while (r.coord->slot[0].at.phase != PHASE_TRAIN || r.coord->slot[0].at.epoch != 2 ||
           r.coord->slot[0].tasks->reported != 9)
        ck_assert(sim_step(r.sim));
    restart_forgets_nothing();
    run_job(240);
    job_done(2);
    train_is("epochs.0.train", 1005);
    double examples = report_number("train.examples");
    ck_assert(examples >= 2 * 1005 - 2 * 40 && examples <= 2 * 1005);
    for (uint32_t n = 0; n < COORD_WINDOWS_MAX; n++)
        ck_assert(r.coord->slot[0].windows->window[n] == NULL ||
                  metric_tally_examples(r.coord->slot[0].windows->window[n]) <= 40);
    rig_stop();
}
END_TEST

/* True when the report of a task is in flight and was not received yet. */
static bool one_reports(void)
{
    for (uint32_t w = 0; w < r.workers; w++)
        for (uint32_t s = 0; s < r.worker[w].seats; s++) {
            const struct fake_seat *seat = &r.worker[w].seat[s];
            uint32_t task = coord_task_index(r.coord->slot[0].tasks, seat->task.task);
            if (seat->state == FAKE_REPORTING && task != COORD_NO_TASK &&
                !r.coord->slot[0].tasks->task[task].reported)
                return true;
        }
    return false;
}

/* A task is pushed and its report is lost: the job's report says how many examples the training
 * figures lack. The examples were trained all the same. */
START_TEST(coord_restart_tells_what_it_has_not_heard)
{
    rig_start(_i % 2 == 0 ? "epochs: 2, consistency: ssp, lanes: 2"
                          : "epochs: 2, consistency: bsp, lanes: 2",
              2, 2, NULL);
    while (r.coord->slot[0].at.phase != PHASE_TRAIN ||
           r.coord->slot[0].at.epoch != 1u + (_i / 2) % 2 || r.coord->slot[0].tasks->reported < 9 ||
           !one_reports())
        ck_assert(sim_step(r.sim));
    if (_i < 4)
        coord_restart();
    run_job(240);
    job_done(2);
    char lack[96];
    double heard = report_number("train.examples");
    ck_assert_int_eq(heard < 2 * 1005, _i < 4);
    (void)snprintf(lack, sizeof lack, "figures of training lack %.0f of 2010 examples",
                   2 * 1005 - heard);
    ck_assert_int_eq(strstr(r.client.report, lack) != NULL, _i < 4);
    ck_assert_double_eq(report_number("examples"), 2 * 1005);
    ck_assert_double_eq(report_number("evaluations.0.examples"), 1005);
    ck_assert_double_eq(report_number("evaluations.1.examples"), 2 * 1005);
    rig_stop();
}
END_TEST

/* 10 epochs with 26 tasks: neighbouring windows are joined. */
START_TEST(coord_windows_of_a_long_job_are_coarser)
{
    rig_start("epochs: 10, consistency: bsp, lanes: 2", 2, 2, NULL);
    run_job(240);
    job_done(10);
    ck_assert_uint_eq(r.coord->slot[0].windows->stride, 4);
    train_is("train", 1005);
    ck_assert_double_eq(report_number("train.examples"), 10 * 1005);
    windows_are(65, 10 * 1005);
    rig_stop();
}
END_TEST

/* The quality is best after 40 batches of the one epoch. */
static double best_at_40(const struct fake_worker *w)
{
    uint64_t applied = w->shard[0]->run.lane[0].mark + w->shard[0]->run.lane[1].mark;
    return applied < 40 ? 0.6 : applied == 40 ? 0.9 : 0.7;
}

static void early_start(void)
{
    memset(&r, 0, sizeof r);
    r.worker[0].quality_now = r.worker[1].quality_now = best_at_40;
    rig_start("epochs: 1, consistency: bsp, lanes: 2, early_stop: {metric: auc, patience: 2, "
              "lr_decay: 0.5}",
              2, 2, NULL);
    (void)snprintf(r.yaml + strlen(r.yaml), 64, "evaluate: {every_batches: 20}\n");
}

/* The evaluations after 64 and 80 batches are misses. */
static void early_ended(void)
{
    static const double batch[] = {24, 40, 64, 80};
    ck_assert_msg(r.client.state == WIRE_JOB_DONE, "state %u: %s", r.client.state, r.client.text);
    for (uint32_t row = 0; row < 1005; row++)
        ck_assert_uint_eq(r.shard[0]->seen[1][row], row < 800);
    evaluations_are(batch, 4);
    struct json *j = report();
    ck_assert_double_gt(report_number("valid.auc"), 0.85);
    ck_assert_double_eq(report_number("valid.auc"), report_number("evaluations.1.auc"));
    ck_assert(json_as_bool(json_get(j, "evaluations.1.kept"), false));
    ck_assert_double_eq(report_number("examples"), 800);
    ck_assert_str_eq(json_as_string(json_get(j, "ended_by"), ""), "early_stop");
    ck_assert_double_eq_tol(r.coord->slot[0].at.lr_scale, 0.25, 1e-12);
    ck_assert_uint_ge(r.shard[0]->restores, 1);
    ck_assert_uint_eq(r.shard[0]->run.lane[0].mark + r.shard[0]->run.lane[1].mark, 40);
    json_free(j);
    rig_stop();
}

START_TEST(coord_one_epoch_stops_early_and_keeps_the_best)
{
    early_start();
    run_job(120);
    early_ended();
}
END_TEST

/* The coordinator dies _i * 7 messages after the second evaluation begins. */
START_TEST(coord_death_within_an_epoch_changes_no_evaluation)
{
    early_start();
    while (r.coord->slot[0].at.phase != PHASE_EVAL || r.coord->slot[0].valid->count != 1)
        ck_assert(sim_step(r.sim));
    for (int i = 0; i < 7 * _i; i++)
        ck_assert(sim_step(r.sim));
    coord_restart();
    run_job(240);
    early_ended();
}
END_TEST

/* A job that has reached its limit of minutes ends as after its last epoch, with the tables that it
 * has. */
static void minutes_start(bool bsp)
{
    rig_start(bsp ? "epochs: 9, consistency: bsp, lanes: 2, max_minutes: 0.002"
                  : "epochs: 9, consistency: ssp, lanes: 2, max_minutes: 0.002",
              2, 2, NULL);
}

static void minutes_ended(void)
{
    struct json *j = report();
    ck_assert_msg(r.client.state == WIRE_JOB_DONE, "state %u: %s", r.client.state, r.client.text);
    ck_assert_str_eq(json_as_string(json_get(j, "ended_by"), ""), "max_minutes");
    double examples = report_number("examples"), seconds = report_number("train_seconds");
    ck_assert_double_gt(examples, 0);
    ck_assert_double_lt(examples, 1005);
    ck_assert(seconds >= 0.12 && seconds < 0.3);
    ck_assert_uint_eq(json_count(json_get(j, "epochs")), 1);
    ck_assert_uint_eq(json_count(json_get(j, "evaluations")), 1);
    ck_assert_double_eq(report_number("evaluations.0.examples"), examples);
    ck_assert_double_eq(report_number("test.examples"), 200);
    uint32_t seen = 0;
    for (uint32_t row = 0; row < 1005; row++)
        seen += r.shard[0]->seen[1][row];
    ck_assert_double_eq(examples, seen);
    json_free(j);
    rig_stop();
}

START_TEST(coord_minutes_end_a_job)
{
    minutes_start(_i == 0);
    run_job(120);
    minutes_ended();
}
END_TEST

/* Ends the coordinator, and starts one with the values that were kept. */
static void die_and_return(struct coord_kept *k)
{
    struct coord_store *dead = r.store;
    r.store = k->values;
    coord_restart();
    coord_store_close(dead);
}

/* Lets the store fail after `put` further transactions, until the coordinator is dead of it or the
 * job is over; then restarts the coordinator with what was kept. */
static void die_at_put(uint32_t put)
{
    struct coord_kept k = {.left = put};
    coord_kept_attach(&k, r.store, NULL);
    while (r.coord->fleet.fatal == 0 && !job_over(NULL))
        ck_assert(sim_step(r.sim));
    die_and_return(&k);
}

/* The job is to fail, and the coordinator dies before that is stored: the restarted one does not
 * know of the failure, and must find the run on the shards. */
START_TEST(coord_death_before_a_failure_is_stored_goes_on)
{
    struct coord_kept k = {.left = 0};
    rig_start(_i == 0 ? "epochs: 2, consistency: bsp, lanes: 2"
                      : "epochs: 2, consistency: ssp, lanes: 2",
              2, 2, NULL);
    while (r.worker[0].batches + r.worker[1].batches < 20)
        ck_assert(sim_step(r.sim));
    coord_kept_attach(&k, r.store, NULL);
    coord_end_fail(&r.coord->slot[0], SHOAL_E_STOPPED, "stopped by request");
    coord_fleet_end(&r.coord->fleet);
    ck_assert_int_ne(r.coord->fleet.fatal, 0);
    (void)sim_run(r.sim, sim_now_ns(r.sim) + SECOND / 10, NULL, NULL); /* its messages arrive */
    die_and_return(&k);
    run_job(240);
    job_done(2);
    rig_stop();
}
END_TEST

/* The coordinator dies at an epoch's end, in its training and its evaluation. */
START_TEST(coord_death_at_an_epochs_end_changes_nothing)
{
    static const double batch[] = {101, 202};
    rig_start(_i % 2 == 0 ? "epochs: 2, consistency: bsp, lanes: 2"
                          : "epochs: 2, consistency: ssp, lanes: 2",
              2, 2, NULL);
    while (r.coord->slot[0].tasks->pushed < r.coord->slot[0].tasks->tasks ||
           r.coord->slot[0].at.phase != PHASE_TRAIN)
        ck_assert(sim_step(r.sim));
    die_at_put((uint32_t)_i / 2);
    run_job(240);
    job_done(2);
    evaluations_are(batch, 2);
    ck_assert_double_eq(report_number("examples"), 2 * 1005);
    rig_stop();
}
END_TEST

/* Training ends within its epoch, and the coordinator dies at each value that it stores then: no
 * evaluation runs twice, and no example is lost. */
START_TEST(coord_death_at_the_end_within_an_epoch_changes_nothing)
{
    uint32_t put = (uint32_t)_i / 3;
    if (_i % 3 == 0)
        early_start();
    else
        minutes_start(_i % 3 == 1);
    while (r.coord->slot[0].at.phase != PHASE_EVAL ||
           (_i % 3 == 0 && r.coord->slot[0].valid->count != 3))
        ck_assert(sim_step(r.sim));
    die_at_put(put);
    run_job(240);
    if (_i % 3 == 0)
        early_ended();
    else
        minutes_ended();
}
END_TEST

START_TEST(coord_evaluates_every_so_many_minutes)
{
    rig_start("epochs: 1, consistency: bsp, lanes: 2", 2, 2, NULL);
    (void)snprintf(r.yaml + strlen(r.yaml), 64, "evaluate: {every_minutes: 0.001}\n");
    run_job(120);
    job_done(1);
    struct json *j = report(), *list = json_get(j, "evaluations");
    double before = 0;
    ck_assert_uint_ge(json_count(list), 3);
    for (size_t i = 0; i < json_count(list); i++) {
        double seconds = json_as_number(json_get(json_array_at(list, i), "seconds"), -1);
        ck_assert(i + 1 == json_count(list) || seconds - before >= 0.06);
        before = seconds;
    }
    json_free(j);
    rig_stop();
}
END_TEST

/* A job's lanes begin at batch 1, whatever the former job had stored. */
START_TEST(coord_former_jobs_lanes_are_forgotten)
{
    struct coord_lane_record stale[3] = {{9, 77}, {9, 77}, {9, 77}};
    struct err e = {0};
    rig_start("epochs: 2, consistency: ssp, lanes: 2", 2, 1, NULL);
    ck_assert_int_eq(
        coord_store_put(r.store, "lanes", stale, (uint32_t)(2 + _i) * sizeof stale[0], &e), 0);
    while (r.coord->slot[0].at.phase != PHASE_SETUP)
        ck_assert(sim_step(r.sim));
    coord_restart();
    run_job(120);
    job_done(2);
    rig_stop();
}
END_TEST

static bool task_hole(const struct coord_tasks *t)
{
    for (uint32_t i = 1; i < t->tasks; i++)
        if (t->task[i].first_batch != 0 && t->task[i - 1].first_batch == 0)
            return true;
    return false;
}

/* Lanes of bsp get the tasks of a round in any order: a stored task counts even if an earlier one
 * is not stored. */
START_TEST(coord_death_within_a_round_loses_no_task)
{
    struct sim_options o = {.seed = 40 + (uint64_t)_i,
                            .delay_min_ns = 100000,
                            .delay_max_ns = 40000000,
                            .reorder = true};
    rig_start("epochs: 2, consistency: bsp, lanes: 3", 2, 2, &o);
    while (!task_hole(r.coord->slot[0].tasks))
        ck_assert(sim_step(r.sim));
    ck_assert(coord_grant_lanes_put(&r.coord->slot[0])); /* as any lane's fence does */
    coord_restart();
    run_job(120);
    job_done(2);
    rig_stop();
}
END_TEST

/* Every message arrives twice: a worker of one seat still holds one lane, not one for each copy of
 * its question. */
START_TEST(coord_doubled_question_is_granted_once)
{
    struct sim_options o = {.seed = 5,
                            .duplicate = 1,
                            .delay_min_ns = 100000,
                            .delay_max_ns = 30000000,
                            .reorder = true};
    rig_start("epochs: 2, consistency: ssp, lanes: 4", 2, 1, &o);
    r.worker[0].seats = 1;
    while (!job_over(NULL)) {
        ck_assert(sim_step(r.sim));
        ck_assert_uint_le(coord_lane_held(r.coord->slot[0].tasks, r.worker[0].number), 1);
    }
    job_done(2);
    rig_stop();
}
END_TEST

/* A question of a former job arrives late, when the current job has fewer lanes: the lane that it
 * was granted does not exist. */
START_TEST(coord_late_copy_of_a_former_jobs_question_waits)
{
    struct wire w = {.type = WIRE_TYPE_LANE_NEXT};
    rig_start("epochs: 2, consistency: ssp, lanes: 4", 2, 1, NULL);
    r.worker[0].seats = 4;
    struct coord_tasks *t = r.coord->slot[0].tasks;
    while (t->lane == NULL || t->lanes < 4 || t->lane[3].state != LANE_GRANTING)
        ck_assert(sim_step(r.sim));
    const struct coord_worker *asker = &r.coord->slot[0].workers.worker[0];
    ck_assert_uint_eq(asker->asked_lane, 3);
    w.id = asker->asked_id;
    w.u.LANE_NEXT = (struct wire_LANE_NEXT){.pass = asker->pass, .lane = COORD_NO_LANE};
    peer_t granted_to = t->lane[3].ask_peer;
    t->lanes = 2 + (uint32_t)_i; /* as in a job without a lane 3 */
    struct coord_ask a = {.from = granted_to + 1, .request = &w};
    ck_assert_int_eq(coord_grant_next(&r.coord->slot[0], &a), 0);
    t->lanes = 4;
    ck_assert_uint_eq(t->lane[3].ask_peer, granted_to);
    rig_stop();
}
END_TEST

/* Ids of a worker's questions rise: an earlier one was answered, or is no longer waited for. */
START_TEST(coord_question_from_before_is_granted_nothing)
{
    struct wire w = {.type = WIRE_TYPE_LANE_NEXT};
    rig_start("epochs: 2, consistency: ssp, lanes: 4", 2, 1, NULL);
    r.worker[0].seats = 1;
    struct coord_tasks *t = r.coord->slot[0].tasks;
    while (r.worker[0].batches < 10)
        ck_assert(sim_step(r.sim));
    const struct coord_worker *asker = &r.coord->slot[0].workers.worker[0];
    uint64_t asked = asker->asked_id;
    w.id = asked - 1;
    w.u.LANE_NEXT = (struct wire_LANE_NEXT){.pass = asker->pass, .lane = COORD_NO_LANE, .batch = 1};
    struct coord_ask a = {.from = asker->peer, .request = &w};
    ck_assert_int_eq(coord_grant_next(&r.coord->slot[0], &a), 0);
    ck_assert_uint_eq(asker->asked_id, asked);
    ck_assert_uint_eq(coord_lane_held(t, asker->number), 1);
    rig_stop();
}
END_TEST

/* Only the holder of a lane, in its present generation, can say what is done of it: neither another
 * worker (0), nor one that lost the lane and has it again (1). */
START_TEST(coord_question_of_a_lane_is_its_holders)
{
    struct wire w = {.type = WIRE_TYPE_LANE_NEXT, .id = 1 << 20};
    rig_start("epochs: 2, consistency: ssp, lanes: 4", 2, 2, NULL);
    const struct fake_seat *holder = &r.worker[0].seat[0];
    while (holder->state != FAKE_WORKING || holder->task.kind != WIRE_NEXT_TASK ||
           !r.worker[1].joined)
        ck_assert(sim_step(r.sim));
    const struct coord_lane *l = &r.coord->slot[0].tasks->lane[holder->lane];
    uint32_t task = l->task;
    w.u.LANE_NEXT = (struct wire_LANE_NEXT){.pass = r.worker[_i == 0].pass,
                                            .lane = holder->lane,
                                            .generation = l->generation - (_i == 1),
                                            .batch = holder->task.first_batch + 100};
    struct coord_ask a = {.from = 1, .request = &w};
    ck_assert_int_eq(coord_grant_next(&r.coord->slot[0], &a), 0);
    ck_assert_uint_eq(l->task, task);
    ck_assert(!r.coord->slot[0].tasks->task[task].pushed);
    rig_stop();
}
END_TEST

/* A shard refused a lane, and the worker dropped it without a message: the lane is taken back and
 * granted again. */
START_TEST(coord_lane_dropped_in_silence_is_dealt_again)
{
    rig_start("epochs: 2, consistency: ssp, lanes: 2", 2, 1, NULL);
    while (r.worker[0].batches < 30)
        ck_assert(sim_step(r.sim));
    struct fake_seat *seat = &r.worker[0].seat[0];
    while (seat->lane == UINT32_MAX || seat->state != FAKE_WORKING)
        ck_assert(sim_step(r.sim));
    seat->lane = UINT32_MAX;
    seat->generation = seat->batch = 0;
    seat->state = FAKE_RESTING;
    run_job(30);
    job_done(2);
    rig_stop();
}
END_TEST

START_TEST(coord_silent_server_ends_a_job_in_memory)
{
    rig_start("epochs: 3, consistency: ssp, lanes: 2", 2, 2, NULL);
    sim_kill(r.client.node);
    (void)snprintf(r.yaml + strlen(r.yaml), 64, "durability: memory\n");
    memset(&r.client, 0, sizeof r.client);
    fake_client_start(&r.client, r.sim, r.yaml, 2);
    r.shard[0]->in_memory = r.shard[1]->in_memory = true;
    while (r.worker[0].batches < 20)
        ck_assert(sim_step(r.sim));
    sim_kill(r.shard[1]->node);
    run_job(10);
    ck_assert_int_eq(r.client.status, SHOAL_E_UNAVAILABLE);
    ck_assert_ptr_nonnull(strstr(r.client.text, "server-1 has not been heard"));
    rig_stop();
}
END_TEST

static void status_ask(struct fake_client *f, uint64_t id)
{
    struct wire w = {.type = WIRE_TYPE_STATUS, .id = id};
    (void)env_send(f->env, f->coordinator, wire_encode(&w));
}

static peer_t worker_peer(const char *name)
{
    const struct coord_workers *m = &r.coord->slot[0].workers;
    for (uint32_t i = 0; i < m->count; i++)
        if (strcmp(m->worker[i].name, name) == 0)
            return m->worker[i].peer;
    return 0;
}

/* Numbers of workers are public, in logs and in STATUS, and grant no access. A worker whose
 * connection broke shows its pass on the next one. */
START_TEST(coord_stranger_with_a_workers_number_is_nobody)
{
    rig_start("epochs: 3, consistency: ssp, lanes: 2", 2, 2, NULL);
    while (r.worker[0].batches < 20)
        ck_assert(sim_step(r.sim));
    for (uint64_t number = 0; number < 10; number++) {
        struct wire w = {.type = WIRE_TYPE_WORKER_LEAVE, .id = UINT64_C(1) << 50 | number};
        w.u.WORKER_LEAVE = (struct wire_WORKER_LEAVE){number, true, SHOAL_E_DATA, "it is so"};
        (void)env_send(r.client.env, r.client.coordinator, wire_encode(&w));
        w.type = WIRE_TYPE_LANE_NEXT;
        w.u.LANE_NEXT = (struct wire_LANE_NEXT){number, 0, 1, 1000};
        (void)env_send(r.client.env, r.client.coordinator, wire_encode(&w));
    }
    peer_t before = worker_peer("worker-0"), again;
    ck_assert_int_eq(env_connect(r.worker[0].env, "sim://coordinator", ENV_COORDINATOR, &again), 0);
    r.worker[0].coordinator = again;
    for (int i = 0; i < 10000 && worker_peer("worker-0") == before; i++)
        ck_assert(sim_step(r.sim));
    ck_assert_uint_ne(worker_peer("worker-0"), before);
    run_job(60);
    job_done(3);
    ck_assert_uint_eq(r.worker[0].unknown, 0);
    ck_assert_double_eq(report_number("worker_deaths"), 0);
    rig_stop();
}
END_TEST

/* Its own log may only say that no answer comes. */
START_TEST(coord_program_of_another_release_is_told)
{
    const struct wire w = {.type = WIRE_TYPE_HELLO, .id = 1, .u.HELLO.role = "server"};
    rig_start("epochs: 1, consistency: ssp, lanes: 2", 1, 1, NULL);
    ck_assert(sim_run(r.sim, 60 * SECOND, worker_one_joined, NULL));
    struct msg *m = wire_encode(&w);
    unsigned char *header = m->frame[0].data;
    ck_assert_uint_eq(header[1], WIRE_OLDEST); /* the first field is the version */
    header[1]--;
    log_set_level(LOG_LEVEL_WARN);
    (void)env_send(r.client.env, r.client.coordinator, m);
    run_job(60);
    bool told = false;
    for (unsigned i = 0; log_ring_line(i) != NULL; i++)
        told = told || strstr(log_ring_line(i), "a program of another release is refused") != NULL;
    ck_assert(told);
    job_done(1);
    rig_stop();
}
END_TEST

/* The lane's fence is in flight: the lane goes to another worker as soon as possible. */
START_TEST(coord_worker_may_die_while_a_lane_is_granted_to_it)
{
    rig_start("epochs: 3, consistency: ssp, lanes: 2", 2, 2, NULL);
    const struct coord_lane *lane = NULL;
    while (lane == NULL || lane->state != LANE_GRANTING) {
        ck_assert(sim_step(r.sim));
        lane = r.coord->slot[0].tasks->lane;
    }
    uint64_t who = lane->worker;
    for (uint32_t s = 0; s < r.shards; s++)
        sim_pause(r.shard[s]->node, sim_now_ns(r.sim) + 4 * SECOND);
    sim_kill(r.worker[r.worker[0].number == who ? 0 : 1].node);
    while (coord_worker_find(&r.coord->slot[0].workers, who) != NULL)
        ck_assert(sim_step(r.sim)); /* its lease runs out before a server answers */
    ck_assert_uint_ne(r.coord->slot[0].tasks->lane[0].worker, who);
    run_job(60);
    job_done(3);
    rig_stop();
}
END_TEST

/* The split, or the part of an evaluation, that the dead worker was to read goes to another
 * worker. */
START_TEST(coord_worker_may_die_while_it_reads)
{
    rig_start("epochs: 2, consistency: ssp, lanes: 2", 2, 2, NULL);
    uint64_t who = 0;
    while (who == 0) {
        ck_assert(sim_step(r.sim));
        const struct coord_job *j = &r.coord->slot[0];
        if (_i == 0)
            who = j->objects[WIRE_TRAIN].item.worker;
        else if (j->at.phase == PHASE_EVAL)
            who = j->eval->task[0].item.worker;
    }
    ck_assert(r.worker[0].number == who || r.worker[1].number == who);
    sim_kill(r.worker[r.worker[0].number == who ? 0 : 1].node);
    run_job(60);
    job_done(2);
    ck_assert_double_eq(report_number("worker_deaths"), 1);
    rig_stop();
}
END_TEST

/* Only the holder of a lane, in its present generation, can report its task: neither another worker
 * (0), nor one that lost the lane and has it again (1). */
START_TEST(coord_report_of_a_task_is_its_holders)
{
    rig_start("epochs: 3, consistency: ssp, lanes: 4", 2, 2, NULL);
    struct fake_seat *holder = &r.worker[0].seat[0], *other = &r.worker[1].seat[0];
    while (holder->state != FAKE_WORKING || other->state != FAKE_WORKING ||
           holder->task.kind != WIRE_NEXT_TASK || other->task.kind != WIRE_NEXT_TASK)
        ck_assert(sim_step(r.sim));
    other->task = holder->task;
    other->lane = holder->lane;
    other->generation = holder->generation - (_i == 1);
    other->at = holder->task.first_batch + holder->task.batch_count;
    if (_i == 1) {
        r.worker[1].pass = r.worker[0].pass;
        sim_pause(r.worker[0].node, sim_now_ns(r.sim) + 2 * SECOND);
    }
    while (other->state == FAKE_WORKING || other->state == FAKE_REPORTING)
        ck_assert(sim_step(r.sim));
    ck_assert_int_eq(other->state, FAKE_RESTING); /* FENCED; else it would ask for more */
    uint32_t task = coord_task_index(r.coord->slot[0].tasks, holder->task.task);
    ck_assert(!r.coord->slot[0].tasks->task[task].reported);
    rig_stop();
}
END_TEST

/* A job fails, and the next one begins before its workers have asked. They know the former job's
 * file, model and tables, so they join again. */
START_TEST(coord_workers_of_a_former_job_join_the_next)
{
    struct wire stop = {.type = WIRE_TYPE_STOP, .id = UINT64_C(1) << 50, .u.STOP.job_only = true};
    rig_start("epochs: 3, consistency: ssp, lanes: 2", 2, 2, NULL);
    while (r.worker[0].batches < 20)
        ck_assert(sim_step(r.sim));
    uint64_t before = r.coord->fleet.members.next_worker;
    for (uint32_t i = 0; i < 2; i++)
        sim_pause(r.worker[i].node, sim_now_ns(r.sim) + SECOND / 4);
    (void)env_send(r.client.env, r.client.coordinator, wire_encode(&stop));
    while (r.coord->slot[0].at.phase != PHASE_FAILED)
        ck_assert(sim_step(r.sim));
    sim_kill(r.client.node);
    memset(&r.client, 0, sizeof r.client);
    fake_client_start(&r.client, r.sim, r.yaml, 2);
    while (r.coord->slot[0].at.phase != PHASE_INDEX)
        ck_assert(sim_step(r.sim));
    ck_assert_uint_eq(r.coord->slot[0].workers.count, 2);
    for (uint32_t i = 0; i < 2; i++)
        ck_assert_uint_ge(r.coord->slot[0].workers.worker[i].number, before);
    run_job(60);
    ck_assert_uint_eq(r.client.state, WIRE_JOB_DONE);
    rig_stop();
}
END_TEST

/* The report of 100,000 epochs, the maximum of a job, would be larger than a value of the store. */
START_TEST(coord_report_of_very_many_epochs_is_cut)
{
    struct json *report;
    struct err e;
    rig_start("epochs: 100000, consistency: ssp, lanes: 2", 1, 1, NULL);
    while (r.coord->slot[0].at.phase != PHASE_TRAIN)
        ck_assert(sim_step(r.sim));
    struct coord_job *j = &r.coord->slot[0];
    j->at.epoch = j->tasks->epoch = 100000;
    j->at.phase = PHASE_FINISH;
    j->digested = j->at.tables;
    for (uint32_t n = 1; n <= j->at.epoch; n++) {
        struct coord_trained *t = &j->windows->trained[coord_epoch_slot(j, n)];
        t->of[0].examples = 3;
        t->of[0].auc = t->of[0].logloss = 1.0 / 3 + n * 1e-9;
        j->epoch[coord_epoch_slot(j, n)].seconds = 100.0 / 3;
        j->epoch[coord_epoch_slot(j, n)].train.bad_lines = UINT64_C(1) << 50;
    }
    ck_assert_int_eq(coord_report_make(&r.coord->slot[0], &e), 0);
    ck_assert_int_eq(json_parse(j->report, strlen(j->report), &report, &e), 0);
    ck_assert_uint_eq(json_count(json_get(report, "epochs")), 1000);
    ck_assert_int_eq(json_as_int(json_get(report, "epochs.0.epoch"), 0), 99001);
    ck_assert_int_eq(json_as_int(json_get(report, "epochs.999.epoch"), 0), 100000);
    ck_assert_ptr_nonnull(strstr(j->report, "tell of the last 1,000 alone"));
    json_free(report);
    rig_stop();
}
END_TEST

static void stop_send(uint64_t id)
{
    struct wire stop = {.type = WIRE_TYPE_STOP, .id = id, .u.STOP.job_only = true};
    (void)env_send(r.client.env, r.client.coordinator, wire_encode(&stop));
    (void)sim_run(r.sim, sim_now_ns(r.sim) + SECOND / 100, NULL, NULL);
}

/* A client repeats its question each second until it is answered: a coordinator that stood still
 * finds several copies. Copies end neither the next job (0) nor a job that was asked for an orderly
 * end (1), even after the coordinator's restart (2). */
START_TEST(coord_copy_of_a_stop_asks_nothing)
{
    const uint64_t id = UINT64_C(1) << 50;
    rig_start("epochs: 3, consistency: ssp, lanes: 2", 1, 1, NULL);
    while (r.worker[0].batches < 10)
        ck_assert(sim_step(r.sim));
    if (_i > 0)
        r.coord->slot[0].spec.data.objects.grow_ms = 1000;
    stop_send(id);
    ck_assert_int_eq(r.coord->slot[0].at.phase == PHASE_FAILED, _i == 0);
    if (_i == 0) {
        sim_kill(r.client.node);
        memset(&r.client, 0, sizeof r.client);
        fake_client_start(&r.client, r.sim, r.yaml, 1);
        while (r.coord->slot[0].at.phase == PHASE_FAILED)
            ck_assert(sim_step(r.sim));
    }
    if (_i == 2)
        r.coord->stopped.id = 0;
    stop_send(id);
    ck_assert_int_ne(r.coord->slot[0].at.phase, PHASE_FAILED);
    stop_send(id + 1); /* another order ends it */
    ck_assert_int_eq(r.coord->slot[0].at.phase, PHASE_FAILED);
    rig_stop();
}
END_TEST

/* A question has forty bytes, and each answer reads all tasks. So the text is rebuilt at most five
 * times a second, and at each change of phase. */
START_TEST(coord_status_is_not_made_for_each_question)
{
    rig_start("epochs: 3, consistency: ssp, lanes: 2", 2, 2, NULL);
    while (r.worker[0].batches < 20)
        ck_assert(sim_step(r.sim));
    uint32_t before = r.coord->told[0].made;
    uint64_t began = sim_now_ns(r.sim);
    for (uint32_t i = 0; i < 500; i++) {
        status_ask(&r.client, UINT64_C(1) << 50 | i);
        (void)sim_run(r.sim, sim_now_ns(r.sim) + SECOND / 500, NULL, NULL);
    }
    ck_assert_uint_ge(sim_now_ns(r.sim) - began, SECOND);
    ck_assert_uint_le(r.coord->told[0].made - before, 6 + 6);
    ck_assert_uint_ge(r.coord->told[0].made - before, 5);
    run_job(60);
    job_done(3);
    rig_stop();
}
END_TEST

/* With durability journal the job waits for the server, and the status says so. */
START_TEST(coord_silent_server_is_named_in_the_status)
{
    rig_start("epochs: 3, consistency: ssp, lanes: 2", 2, 2, NULL);
    while (r.worker[0].batches < 20)
        ck_assert(sim_step(r.sim));
    sim_kill(r.shard[1]->node);
    (void)sim_run(r.sim, sim_now_ns(r.sim) + 30 * SECOND, NULL, NULL);
    char *text = coord_status_text(&r.coord->slot[0]);
    ck_assert_ptr_nonnull(strstr(text, "waits for server server-1"));
    free(text);
    fake_shard_start(r.shard[1], r.sim, "server-1", 0, 2);
    run_job(60);
    job_done(3);
    text = coord_status_text(&r.coord->slot[0]);
    ck_assert_ptr_null(strstr(text, "waiting"));
    free(text);
    rig_stop();
}
END_TEST

/* A job that has not begun tells what it waits for. A server that never came has no name, so the
 * status names those that came; then it counts the workers. */
START_TEST(coord_status_says_who_has_not_come)
{
    rig_start("epochs: 1, consistency: ssp, lanes: 2", 3, 1, NULL);
    sim_kill(r.shard[1]->node); /* before its first beat: its port was taken */
    sim_kill(r.client.node);
    memset(&r.client, 0, sizeof r.client);
    fake_client_start(&r.client, r.sim, r.yaml, 2);
    (void)sim_run(r.sim, sim_now_ns(r.sim) + 3 * SECOND, NULL, NULL);
    char *text = coord_status_text(&r.coord->slot[0]);
    ck_assert_msg(strstr(text, "2 of the 3 shards of the coordinator's file have come, of "
                               "server-0, server-2; start the others") != NULL,
                  "%s", text);
    free(text);
    fake_shard_start(r.shard[1], r.sim, "server-1", 0, 1);
    (void)sim_run(r.sim, sim_now_ns(r.sim) + 3 * SECOND, NULL, NULL);
    text = coord_status_text(&r.coord->slot[0]);
    ck_assert_msg(strstr(text, "waits for workers: 1 of the 2") != NULL, "%s", text);
    free(text);
    worker_add(1);
    run_job(60);
    job_done(1);
    rig_stop();
}
END_TEST

/* SIGSTOP, a paused machine or a slow disk stops the coordinator for far longer than a lease, ten
 * times. The beats of that time lie in its sockets, so no worker or server counts as dead. */
START_TEST(coord_that_stood_still_kills_nobody)
{
    rig_start(_i == 0 ? "epochs: 3, consistency: ssp, lanes: 2"
                      : "epochs: 3, consistency: ssp, lanes: 2}\ndurability: memory\n#",
              2, 2, NULL);
    for (uint32_t n = 1; n <= 10; n++) {
        while (r.worker[0].batches < 6 * n && r.client.state != WIRE_JOB_DONE)
            ck_assert(sim_step(r.sim));
        sim_pause(r.node, sim_now_ns(r.sim) + 15 * SECOND);
        (void)sim_run(r.sim, sim_now_ns(r.sim) + 16 * SECOND, NULL, NULL);
    }
    run_job(120);
    job_done(3);
    ck_assert_double_eq(report_number("worker_deaths"), 0);
    ck_assert_double_eq(report_number("restarts"), 0);
    rig_stop();
}
END_TEST

/* A worker that dies while the coordinator stands still is found dead afterwards. */
START_TEST(coord_that_stood_still_finds_the_dead)
{
    rig_start("epochs: 3, consistency: ssp, lanes: 2", 1, 2, NULL);
    while (r.worker[0].batches < 10)
        ck_assert(sim_step(r.sim));
    sim_pause(r.node, sim_now_ns(r.sim) + 15 * SECOND);
    sim_kill(r.worker[0].node);
    run_job(120);
    job_done(3);
    ck_assert_double_eq(report_number("worker_deaths"), 1);
    rig_stop();
}
END_TEST

static bool best_cut_waits(void *context)
{
    (void)context;
    return r.coord->slot[0].at.phase == PHASE_CUT;
}

/* A server dies at the end of the evaluation and stays away: the cut of the best epoch waits for
 * it. */
START_TEST(coord_cut_of_the_best_epoch_waits_for_a_server)
{
    rig_start("epochs: 3, consistency: ssp, lanes: 2, early_stop: {metric: auc, patience: 2}", 2, 2,
              NULL);
    ck_assert(sim_run(r.sim, 60 * SECOND, best_cut_waits, NULL));
    sim_kill(r.shard[1]->node);
    (void)sim_run(r.sim, sim_now_ns(r.sim) + 3600 * SECOND, NULL, NULL);
    ck_assert_uint_eq(r.coord->slot[0].at.phase, PHASE_CUT);
    fake_shard_start(r.shard[1], r.sim, "server-1", 0, 2);
    run_job(60);
    job_done(3);
    rig_stop();
}
END_TEST

/* The disk is full at an epoch's cut: the older cut is kept, and the job goes on. _i 0: at the
 * first epoch, when none is kept; 1: at the second. */
START_TEST(coord_cut_without_room_keeps_the_older_one)
{
    rig_start("epochs: 3, consistency: ssp, lanes: 2, early_stop: {metric: auc, patience: 3}", 1, 2,
              NULL);
    for (uint32_t n = 0; n < 2; n++)
        for (uint32_t e = 0; e < 3; e++)
            r.worker[n].quality[e + 1] = e == (uint32_t)_i ? 0.9 : 0.6 - 0.1 * e;
    while (r.coord->slot[0].at.phase != PHASE_EVAL ||
           r.coord->slot[0].at.epoch != 1u + (uint32_t)_i)
        ck_assert(sim_step(r.sim));
    r.shard[0]->no_room = true;
    while (r.coord->slot[0].at.phase != PHASE_TRAIN)
        ck_assert(sim_step(r.sim));
    r.shard[0]->no_room = false;
    run_job(60);
    job_done(3);
    ck_assert_double_eq(report_number("best_epoch"), 1 + _i);
    /* the first epoch was kept before the second; without a kept one the last epoch's tables
     * stay */
    ck_assert_double_eq(report_number("final_epoch"), _i == 0 ? 2 : 1);
    rig_stop();
}
END_TEST

/* A shard was stopped for longer than its HOLD, and released its pushes before GO. Its part belongs
 * to another instant, so the cut is made again. */
START_TEST(coord_uneven_cut_is_made_again)
{
    rig_start("epochs: 2, consistency: ssp, lanes: 2, early_stop: {metric: auc, patience: 2}", 2, 2,
              NULL);
    ck_assert(sim_run(r.sim, 60 * SECOND, best_cut_waits, NULL));
    r.shard[1]->lets_go = true;
    uint64_t first = r.coord->fleet.counters.next_cut;
    run_job(60);
    job_done(2);
    ck_assert_uint_ge(r.coord->fleet.counters.next_cut, first + 1);
    ck_assert(!r.shard[1]->lets_go);
    rig_stop();
}
END_TEST

START_TEST(coord_too_many_bad_lines_end_the_job)
{
    rig_start("epochs: 3, consistency: ssp, lanes: 2", 1, 1, NULL);
    r.worker[0].bad_lines = 2; /* 40 rows a task */
    run_job(60);
    ck_assert_int_eq(r.client.state, WIRE_JOB_FAILED);
    ck_assert_int_eq(r.client.status, SHOAL_E_DATA);
    ck_assert_ptr_nonnull(strstr(r.client.text, "train.txt:7: no label"));
    ck_assert_ptr_nonnull(strstr(r.client.text, "data.max_bad allows 1 %"));
    rig_stop();
}
END_TEST

/* A bad hour of the log does not end its job while other lines can make up for it. A growing log is
 * judged over all its rounds, but not over a few lines. */
START_TEST(coord_bad_lines_are_a_share_of_all)
{
    rig_start("epochs: 3, consistency: ssp, lanes: 2", 1, 1, NULL);
    while (r.coord->slot[0].at.phase != PHASE_TRAIN)
        ck_assert(sim_step(r.sim));
    struct coord_job *j = &r.coord->slot[0];
    struct coord_losses hour = {.bad_lines = 150, .drawn = 100000},
                        round = {.bad_lines = 1, .drawn = 500};
    j->spec.data.max_bad = 0.001;
    ck_assert(!coord_epoch_bad_train(&r.coord->slot[0], &hour, 50000));
    ck_assert(!coord_epoch_bad_train(&r.coord->slot[0], &round, 1));
    j->spec.data.objects.grow_ms = _i == 2 ? 1000 : 0;
    ck_assert(_i != 2 || !coord_epoch_bad_train(&r.coord->slot[0], &round, 0));
    j->grow->at.before = (struct coord_losses){.bad_lines = 1, .drawn = 1500};
    ck_assert(_i != 2 || !coord_epoch_bad_train(&r.coord->slot[0], &round, 0));
    j->grow->at.before.drawn = _i == 2 ? 1499 : 0;
    j->grow->at.before.bad_lines = _i == 2;
    ck_assert(
        coord_epoch_bad_train(&r.coord->slot[0], _i == 0 ? &hour : &round, _i == 0 ? 49999 : 0));
    ck_assert_int_eq(j->at.status, SHOAL_E_DATA);
    rig_stop();
}
END_TEST

/* The share of malformed lines counts only the lines that the sampling of negatives took: one of 40
 * is allowed, one of 30 is too many. */
START_TEST(coord_bad_lines_are_a_share_of_the_drawn_ones)
{
    rig_start("epochs: 1, consistency: ssp, lanes: 2", 1, 1, NULL);
    memcpy(strstr(r.yaml, "max_bad: 0.01"), "max_bad: 0.03", 13);
    r.worker[0].bad_lines = 1;
    r.worker[0].undrawn = _i == 0 ? 0 : 10;
    run_job(60);
    ck_assert_int_eq(r.client.state, _i == 0 ? WIRE_JOB_DONE : WIRE_JOB_FAILED);
    ck_assert_int_eq(r.client.status, _i == 0 ? 0 : SHOAL_E_DATA);
    rig_stop();
}
END_TEST

/* The worker trains on 4 rows of each task and counts the others as drawn. There are 26 tasks: 25
 * have 40 rows, the last one has 5. */
START_TEST(coord_drawn_lines_are_told)
{
    rig_start("epochs: 2, consistency: ssp, lanes: 2", 1, 1, NULL);
    memcpy(strstr(r.yaml, "max_bad: 0.01"), "sample: 0.500", 13);
    r.worker[0].undrawn = 4;
    const struct coord_job *j = &r.coord->slot[0];
    while (j->at.epoch < 2 || j->tasks->reported < 12)
        ck_assert(sim_step(r.sim));
    struct json *s = coord_status_json(&r.coord->slot[0]);
    double drawn = json_as_number(json_get(s, "drawn"), 0);
    ck_assert_double_eq(drawn, 1005 - 26 * 4 + 36.0 * j->tasks->reported);
    json_free(s);
    run_job(60);
    job_done(2);
    ck_assert_double_eq(report_number("drawn"), 2 * (1005 - 26 * 4));
    rig_stop();
}
END_TEST

/* A few refused batches are only reported, with their fields and workers; too many end the job. */
START_TEST(coord_refused_batches_are_told)
{
    rig_start("epochs: 2, consistency: ssp, lanes: 2, max_refused: 0.5", 2, 1, NULL);
    r.worker[0].refused_batches = 1;
    r.shard[0]->status = "{\"gradients\": {\"run\": 99999999999999, \"lost\": 2, \"by_field\": "
                         "[{\"table\": \"emb\", \"field\": 5, \"refused\": 3, "
                         "\"clipped\": 1}, {\"refused\": 7}], \"by_worker\": [{\"worker\": 1, "
                         "\"refused\": 2, \"clipped\": 4}]}, "
                         "\"tables\": [{\"name\": \"table0\", \"rows\": 9, \"not_admitted\": 5, "
                         "\"evicted\": -1, \"ages_run\": 99999999999999, \"ages\": "
                         "[1, 2, -7, 1, \"x\"]}, {\"name\": \"former\", \"aged\": 1}]}";
    r.shard[1]->status = _i == 0 ? r.shard[0]->status
                         /* that of another job */
                         : _i == 1 ? "{\"gradients\": {\"run\": 0, \"by_field\": [{\"table\": "
                                     "\"emb\", \"field\": 5, \"refused\": 100}]}, "
                                     "\"tables\": [{\"name\": \"table0\", \"ages_run\": 0, "
                                     "\"ages\": [0, 0, 0, 0, 0, 100]}]}"
                                   : "no JSON";
    run_job(60);
    job_done(2);
    ck_assert_double_eq(report_number("batches.quarantined"), 2 * 26); /* one of each task */
    ck_assert_double_eq(report_number("refused.batches"), 2 * 26);
    struct json *j = report();
    ck_assert_uint_eq(json_count(json_get(j, "refused.by_field")), 2);
    /* values that are 0, negative or no number are left out */
    ck_assert_uint_eq(json_members(json_get(j, "tables.0.rules")), 1);
    ck_assert_ptr_null(json_get(j, "tables.1.rules"));
    ck_assert_ptr_null(json_get(j, "tables.1.age"));
    json_free(j);
    double times = _i == 0 ? 2 : 1;
    ck_assert_double_eq(report_number("refused.by_field.0.field"), 5);
    ck_assert_double_eq(report_number("refused.by_field.0.refused"), 3 * times);
    ck_assert_double_eq(report_number("refused.by_field.0.clipped"), 1 * times);
    ck_assert_double_eq(report_number("refused.by_field.1.refused"), 7 * times);
    ck_assert_double_eq(report_number("refused.by_worker.0.refused"), 2 * times);
    ck_assert_double_eq(report_number("refused.lost"), 2 * times);
    ck_assert_double_eq(report_number("tables.0.rules.not_admitted"), 5 * times);
    ck_assert_double_eq(report_number("tables.0.age.pushes"), 4 * times);
    ck_assert_double_eq(report_number("tables.0.age.p50"), 1);
    ck_assert_double_eq(report_number("tables.0.age.max"), 3);
    ck_assert_double_eq(report_number("tables.0.age.mean"), 1.25);
    rig_stop();
}
END_TEST

/* The count is stored with the tasks. */
START_TEST(coord_restart_keeps_refused_batches)
{
    rig_start("epochs: 2, consistency: ssp, lanes: 2, max_refused: 1", 2, 2, NULL);
    r.worker[0].refused_batches = r.worker[1].refused_batches = 1;
    for (uint32_t kills = 1; kills <= 3; kills++) {
        while (r.worker[0].batches + r.worker[1].batches < 50 * kills)
            ck_assert(sim_step(r.sim));
        coord_restart();
    }
    while (r.coord->slot[0].at.phase != PHASE_DIGEST)
        ck_assert(sim_step(r.sim));
    coord_restart();
    run_job(120);
    job_done(2);
    ck_assert_double_le(report_number("batches.quarantined"), 2 * 26);
    /* reports in flight may be lost */
    ck_assert_double_ge(report_number("batches.quarantined"), 2 * 26 - 12);
    rig_stop();
}
END_TEST

START_TEST(coord_too_many_refused_batches_end_the_job)
{
    static const char *const share[] = {"0.01", "0.2", "0"};
    rig_start(_i == 0   ? "epochs: 2, consistency: ssp, lanes: 2"
              : _i == 1 ? "epochs: 2, consistency: ssp, lanes: 2, max_refused: 0.2"
                        : "epochs: 2, consistency: ssp, lanes: 2, max_refused: 0",
              1, 1, NULL);
    r.worker[0].refused_batches = 1; /* a task has four batches */
    run_job(60);
    ck_assert_int_eq(r.client.state, WIRE_JOB_FAILED);
    ck_assert_int_eq(r.client.status, SHOAL_E_NOT_FINITE);
    ck_assert_int_eq(err_exit_status(r.client.status), 65);
    ck_assert_ptr_nonnull(strstr(r.client.text, _i == 2 ? "1 of 4 batches were refused"
                                                        : "11 of 44 batches were refused"));
    ck_assert_ptr_nonnull(strstr(r.client.text, share[_i]));
    ck_assert_ptr_nonnull(
        strstr(r.client.text, "key 0x0005 of field 5; worker 1; kept in /x/quarantine.jsonl"));
    rig_stop();
}
END_TEST

/* Under bsp, devices that differ in one number are two kinds, however long their names are; under
 * ssp the difference does not matter. */
START_TEST(coord_bsp_takes_one_kind_of_device)
{
    static const char *const kernels[][2] = {
        {"cublasLt 130002 sm_90 132 SMs NVIDIA H100 80GB HBM3",
         "cublasLt 130002 sm_90 114 SMs NVIDIA H100 80GB HBM3"},
        {"cublasLt 130002 sm_120 188 SMs NVIDIA RTX PRO 6000 Blackwell Workstation Edition of a "
         "very long name, number 1",
         "cublasLt 130002 sm_120 188 SMs NVIDIA RTX PRO 6000 Blackwell Workstation Edition of a "
         "very long name, number 2"},
        {"SkylakeX", "cublasLt 130002 sm_90 132 SMs NVIDIA H100 80GB HBM3"}};
    bool bsp = _i % 2 == 0;
    rig_start(bsp ? "epochs: 2, consistency: bsp, lanes: 2"
                  : "epochs: 2, consistency: ssp, lanes: 2",
              1, 1, NULL);
    r.worker[0].kernel = kernels[_i / 2][0];
    ck_assert(sim_run(r.sim, 60 * SECOND, worker_one_joined, NULL));
    r.worker[1].kernel = kernels[_i / 2][1];
    worker_add(1);
    run_job(60);
    job_done(2);
    ck_assert_int_eq(r.worker[1].refused, bsp ? SHOAL_E_CONFIG : 0);
    ck_assert(r.worker[1].joined == !bsp);
    if (bsp) {
        ck_assert_ptr_nonnull(strstr(r.worker[1].refused_text, "one kind of device"));
        ck_assert_ptr_nonnull(strstr(r.worker[1].refused_text, kernels[_i / 2][1]));
    }
    rig_stop();
}
END_TEST

/* The worker that began the job is gone with its coordinator. The next worker is compared with the
 * device that the job began on; it is not taken for the first. */
START_TEST(coord_bsp_keeps_its_kind_of_device_over_a_restart)
{
    rig_start("epochs: 2, consistency: bsp, lanes: 2", 1, 1, NULL);
    while (r.worker[0].batches < 10)
        ck_assert(sim_step(r.sim));
    sim_kill(r.worker[0].node);
    coord_restart();
    r.worker[1].kernel = "another";
    worker_add(1);
    (void)sim_run(r.sim, sim_now_ns(r.sim) + 5 * SECOND, NULL, NULL);
    ck_assert_int_eq(r.worker[1].refused, SHOAL_E_CONFIG);
    ck_assert(!r.worker[1].joined);
    worker_add(2);
    run_job(60);
    job_done(2);
    rig_stop();
}
END_TEST

static bool other_answered(void *context)
{
    (void)context;
    return r.worker[1].joined || r.worker[1].refused != 0;
}

static bool indexing(void *context)
{
    (void)context;
    return r.coord->slot[0].at.phase == PHASE_INDEX && r.worker[0].joined;
}

/* While the input is still being read the rule is the same: the coordinator waits two leases for
 * the worker that set the job's device to join again. */
START_TEST(coord_bsp_keeps_its_kind_of_device_before_training)
{
    rig_start("epochs: 2, consistency: bsp, lanes: 2", 1, 1, NULL);
    r.worker[0].wedge_kind = WIRE_NEXT_INDEX;
    ck_assert(sim_run(r.sim, 60 * SECOND, indexing, NULL));
    if (_i == 1)
        sim_kill(r.worker[0].node);
    coord_restart();
    r.worker[0].wedge_kind = 0;
    r.worker[0].wedged = false;
    r.worker[1].kernel = "another";
    worker_add(1);
    ck_assert(sim_run(r.sim, sim_now_ns(r.sim) + 60 * SECOND, other_answered, NULL));
    ck_assert_int_eq(r.worker[1].refused, SHOAL_E_CONFIG);
    if (_i == 1) {
        sim_kill(r.worker[1].node);
        (void)sim_run(r.sim, sim_now_ns(r.sim) + 60 * SECOND, NULL, NULL);
        r.worker[2].kernel = "another";
        worker_add(2);
    }
    run_job(200);
    job_done(2);
    ck_assert_str_eq(r.coord->slot[0].kernel, _i == 1 ? "another" : "k");
    rig_stop();
}
END_TEST

/* A worker whose device fails before the job begins is not waited for, and no lanes are kept for
 * it. */
START_TEST(coord_goes_on_without_a_worker_whose_device_failed)
{
    rig_start("epochs: 2, consistency: ssp, lanes: 2", 1, 0, NULL);
    sim_kill(r.client.node);
    memset(&r.client, 0, sizeof r.client);
    r.workers = 2;
    fake_client_start(&r.client, r.sim, r.yaml, 2);
    r.worker[1].broken = SHOAL_E_UNAVAILABLE;
    worker_add(1);
    (void)sim_run(r.sim, SECOND, NULL, NULL);
    worker_add(0);
    run_job(60);
    job_done(2);
    ck_assert_uint_eq(r.worker[1].leaves, 1);
    ck_assert_uint_le(sim_now_ns(r.sim), 10 * SECOND);
    rig_stop();
}
END_TEST

/* Status and report tell which device each worker computes on, and why. A worker that comes back
 * with another backend has two lines. */
START_TEST(coord_tells_on_what_workers_compute)
{
    struct json *j;
    rig_start("epochs: 2, consistency: ssp, lanes: 2", 1, 2, NULL);
    ck_assert(sim_run(r.sim, 60 * SECOND, worker_one_joined, NULL));
    char *text = coord_status_text(&r.coord->slot[0]);
    ck_assert_int_eq(json_parse(text, strlen(text), &j, NULL), 0);
    ck_assert_str_eq(json_as_string(json_get(j, "workers.0.kernel"), ""), "k");
    ck_assert_ptr_nonnull(
        strstr(json_as_string(json_get(j, "workers.0.device"), ""), "device of worker-"));
    ck_assert_str_eq(json_as_string(json_get(j, "workers.0.build"), ""), "1.2.3 abc");
    ck_assert_str_eq(json_as_string(json_get(j, "workers.0.why"), ""), "a test");
    json_free(j);
    free(text);
    struct coord_compute by = {.backend = "cpu", .why = "its device was lost"};
    coord_roll_note(&r.coord->slot[0].roll, "worker-1", &by);
    coord_roll_note(&r.coord->slot[0].roll, "worker-1", &by);
    run_job(60);
    job_done(2);
    ck_assert_int_eq(json_parse(r.client.report, strlen(r.client.report), &j, NULL), 0);
    const struct json *list = json_get(j, "backends");
    ck_assert_uint_eq(json_count(list), 3);
    for (size_t i = 0; i < 3; i++) {
        const struct json *b = json_array_at(list, i);
        bool again = strcmp(json_as_string(json_get(b, "why"), ""), "its device was lost") == 0;
        ck_assert_int_eq(json_as_int(json_get(b, "joined"), 0), again ? 2 : 1);
        ck_assert_str_eq(json_as_string(json_get(b, "backend"), ""), "cpu");
        ck_assert_ptr_nonnull(strstr(json_as_string(json_get(b, "name"), ""), "worker-"));
    }
    json_free(j);
    rig_stop();
}
END_TEST

/* A worker that leaves again and again because of its device takes one place, and takes the same
 * one when it comes back. */
START_TEST(coord_counts_a_broken_worker_once)
{
    struct coord_roll roll = {0};
    struct coord_compute by = {.backend = "cuda"}, other = {.backend = "cpu"};
    ck_assert(!coord_roll_note(&roll, "a", &by));
    ck_assert(!coord_roll_note(&roll, "b", &by));
    ck_assert(coord_roll_broken(&roll, "a"));
    ck_assert(!coord_roll_broken(&roll, "a"));
    ck_assert(coord_roll_broken(&roll, "b"));
    ck_assert(coord_roll_note(&roll, "a", &other)); /* with another backend: the same worker */
    ck_assert(!coord_roll_note(&roll, "a", &by));
    ck_assert(coord_roll_broken(&roll, "a"));
    coord_roll_close(&roll);
}
END_TEST

START_TEST(coord_missing_input_ends_the_job)
{
    rig_start("epochs: 3, consistency: ssp, lanes: 2", 1, 1, NULL);
    r.worker[0].fatal_status = SHOAL_E_NOINPUT;
    run_job(60);
    ck_assert_int_eq(r.client.status, SHOAL_E_NOINPUT);
    ck_assert_ptr_nonnull(strstr(r.client.text, "no such file"));
    rig_stop();
}
END_TEST

/* A worker fails although another one has read the same input: the job does not end. */
START_TEST(coord_late_worker_fails_alone)
{
    static const struct {
        enum coord_phase phase;
        uint64_t examples; /* the leaving worker's; the other one joined anew */
        bool alike;        /* both have one name: the other one is its former self */
        uint64_t left;     /* leases since the other worker left; 0: it is there */
        bool ends;
        int status;
        uint64_t asked; /* the id of its question for a lane; 0: none */
    } at[] = {{PHASE_TRAIN, 0, false, 0, false, SHOAL_E_NOINPUT, 1},
              {PHASE_SETUP, 0, false, 0, false, SHOAL_E_NOINPUT, 0},
              {PHASE_EVAL, 0, false, 0, false, SHOAL_E_NOINPUT, 1},
              {PHASE_TRAIN, 1, false, 0, true, SHOAL_E_NOINPUT, 1},
              {PHASE_TABLES, 0, false, 0, true, SHOAL_E_NOINPUT, 0},
              {PHASE_TRAIN, 0, true, 0, true, SHOAL_E_NOINPUT, 1},
              {PHASE_TRAIN, 0, false, 1, false, SHOAL_E_NOINPUT, 1},
              {PHASE_TRAIN, 0, false, 2, true, SHOAL_E_NOINPUT, 1},
              {PHASE_TRAIN, 0, false, 0, false, SHOAL_E_DATA, 0},
              {PHASE_TRAIN, 0, false, 0, true, SHOAL_E_DATA, 1},
              {PHASE_TABLES, 0, false, 0, true, SHOAL_E_DATA, 0}};
    rig_start("epochs: 3, consistency: ssp, lanes: 2", 1, 2, NULL);
    struct coord_workers *m = &r.coord->slot[0].workers;
    while (r.coord->slot[0].at.phase != PHASE_TRAIN || m->count < 2)
        ck_assert(sim_step(r.sim));
    m->worker[0].figures.examples = 0;
    m->worker[1].figures.examples = at[_i].examples;
    if (at[_i].alike)
        memcpy(m->worker[0].name, m->worker[1].name, sizeof m->worker[0].name);
    if (at[_i].left != 0) {
        memcpy(r.coord->slot[0].watch.left, m->worker[0].name, sizeof m->worker[0].name);
        coord_worker_remove(m, m->worker[0].number);
        r.coord->slot[0].watch.left_ns =
            env_now_ns(r.coord->fleet.env) - at[_i].left * coord_lease_ns(&r.coord->slot[0]);
        m->worker[1] = m->worker[0];
    }
    uint32_t workers = m->count;
    m->worker[1].asked_id = at[_i].asked;
    r.coord->slot[0].at.phase = at[_i].phase;
    struct wire w = {.type = WIRE_TYPE_WORKER_LEAVE};
    w.u.WORKER_LEAVE = (struct wire_WORKER_LEAVE){.pass = m->worker[1].pass,
                                                  .fatal = true,
                                                  .fail_status = at[_i].status,
                                                  .fail_text = "no such file"};
    struct coord_ask a = {.request = &w};
    memcpy(a.who.key, m->worker[1].key, sizeof a.who.key);
    ck_assert_int_eq(coord_handle_leave(&r.coord->slot[0], &a), 0);
    ck_assert_uint_eq(m->count, workers - 1);
    ck_assert_int_eq(r.coord->slot[0].at.status, at[_i].ends ? at[_i].status : 0);
    rig_stop();
}
END_TEST

/* Worker i leaves because its input is missing. The job goes on, unless all other workers fail
 * alike. */
static void leave_for(uint32_t i, bool fatal)
{
    struct wire w = {.type = WIRE_TYPE_WORKER_LEAVE};
    w.u.WORKER_LEAVE = (struct wire_WORKER_LEAVE){.pass = r.coord->slot[0].workers.worker[i].pass,
                                                  .fatal = fatal,
                                                  .fail_status = SHOAL_E_NOINPUT,
                                                  .fail_text = "no such file"};
    struct coord_ask a = {.request = &w};
    memcpy(a.who.key, r.coord->slot[0].workers.worker[i].key, sizeof a.who.key);
    ck_assert_int_eq(coord_handle_leave(&r.coord->slot[0], &a), 0);
}

/* In a large fleet another worker is always there, and has just joined to fail as well (0), even if
 * each has its own name (2). One that works now keeps the job alive (1). */
START_TEST(coord_all_that_fail_alike_end_the_job)
{
    struct wire w = {.type = WIRE_TYPE_WORKER_JOIN};
    rig_start("epochs: 3, consistency: ssp, lanes: 2", 1, 2, NULL);
    struct coord_workers *m = &r.coord->slot[0].workers;
    while (r.coord->slot[0].at.phase != PHASE_TRAIN || m->count < 2)
        ck_assert(sim_step(r.sim));
    uint32_t left = 0;
    for (; r.coord->slot[0].at.status == 0 && left < 100; left++) {
        m->worker[0].figures.examples = 0;
        m->worker[1].figures.examples = left > 2 && _i == 1;
        memcpy(w.u.WORKER_JOIN.name, m->worker[0].name, sizeof m->worker[0].name);
        if (_i == 2)
            (void)snprintf(w.u.WORKER_JOIN.name, sizeof w.u.WORKER_JOIN.name, "host-%u", left);
        (void)snprintf(w.u.WORKER_JOIN.kernel, sizeof w.u.WORKER_JOIN.kernel, "%s",
                       r.coord->slot[0].kernel);
        leave_for(0, true); /* the oldest; it joins again as the newest */
        struct coord_ask a = {.request = &w};
        wire_reply_to(&w, 0, &a.reply);
        ck_assert_int_eq(coord_handle_join(&r.coord->slot[0], &a),
                         r.coord->slot[0].at.status == 0 ? 0 : a.e.code);
    }
    ck_assert_int_eq(r.coord->slot[0].at.status, _i != 1 ? SHOAL_E_NOINPUT : 0);
    ck_assert_uint_eq(left, _i != 1 ? 12 : 100); /* each has joined for the sixth time */
    rig_stop();
}
END_TEST

START_TEST(coord_status_says_why_the_last_worker_left)
{
    rig_start("epochs: 3, consistency: ssp, lanes: 2", 1, 1, NULL);
    while (r.worker[0].batches < 10)
        ck_assert(sim_step(r.sim));
    leave_for(0, false);
    sim_kill(r.worker[0].node);
    (void)sim_run(r.sim, sim_now_ns(r.sim) + 30 * SECOND, NULL, NULL);
    char *text = coord_status_text(&r.coord->slot[0]);
    ck_assert_msg(strstr(text, "waits for a worker: none is there; the last one left, worker-0: "
                               "no such file") != NULL,
                  "%s", text);
    free(text);
    worker_add(1);
    while (r.worker[1].batches < 10) /* the next beat tells what it has trained */
        ck_assert(sim_step(r.sim));
    (void)sim_run(r.sim, sim_now_ns(r.sim) + 3 * SECOND, NULL, NULL);
    ck_assert_str_eq(r.coord->slot[0].watch.failed, "");
    run_job(60);
    job_done(3);
    rig_stop();
}
END_TEST

static int text_ask(void)
{
    const struct wire w = {.type = WIRE_TYPE_JOB_TEXT};
    struct coord_ask a = {.from = r.coord->fleet.members.shard[0].peer, .request = &w};
    wire_reply_to(&w, 0, &a.reply);
    return coord_made_job_text(&r.coord->slot[0], &a);
}

/* A reader of the tables would number the fields as in its own files. */
START_TEST(coord_job_without_names_has_no_text_yet)
{
    rig_start("epochs: 3, consistency: ssp, lanes: 2", 2, 1, NULL);
    ck_assert_int_eq(text_ask(), SHOAL_E_AGAIN);
    while (r.coord->slot[0].at.phase != PHASE_INDEX)
        ck_assert(sim_step(r.sim));
    ck_assert_int_eq(text_ask(), SHOAL_E_AGAIN);
    while (r.worker[0].batches < 10) /* tables of an older release's workers have no names */
        ck_assert(sim_step(r.sim));
    ck_assert_int_eq(text_ask(), 0);
    rig_stop();
}
END_TEST

/* The servers have dropped the run: the fence of a lane would be requested for ever. */
START_TEST(coord_failed_job_fences_no_lane)
{
    rig_start("epochs: 3, consistency: ssp, lanes: 2", 2, 1, NULL);
    while (r.worker[0].batches < 10)
        ck_assert(sim_step(r.sim));
    uint64_t worker = r.coord->slot[0].workers.worker[0].number;
    ck_assert_uint_gt(coord_lane_held(r.coord->slot[0].tasks, worker), 0);
    coord_end_fail(&r.coord->slot[0], SHOAL_E_STOPPED, "stopped");
    coord_grant_worker_gone(&r.coord->slot[0], worker);
    ck_assert_uint_eq(coord_lane_held(r.coord->slot[0].tasks, worker), 0);
    ck_assert(!coord_call_open_type(&r.coord->fleet.calls, &r.coord->slot[0], WIRE_TYPE_FENCE));
    rig_stop();
}
END_TEST

/* The shard came back late and was opening the run when RESTORE, which opens the next one,
 * began. */
START_TEST(coord_shard_that_opens_a_run_is_set_up_for_restore)
{
    rig_start("epochs: 3, consistency: ssp, lanes: 2", 2, 1, NULL);
    while (r.worker[0].batches < 10)
        ck_assert(sim_step(r.sim));
    struct coord_setup_shard *s = &r.coord->slot[0].setup.shard[0];
    coord_call_forget_shard(&r.coord->fleet.calls, NULL, 0);
    coord_setup_lost(&r.coord->slot[0], 0);
    r.coord->slot[0].at.phase = PHASE_RESTORE;
    s->step = r.coord->slot[0].at.tables + 2;
    coord_setup_step(&r.coord->slot[0]);
    ck_assert(s->done);
    rig_stop();
}
END_TEST

START_TEST(coord_wrong_job_file_is_refused)
{
    rig_start("epochs: 3, consistency: mostly", 1, 1, NULL);
    run_job(10);
    ck_assert_int_eq(r.client.submit_status, SHOAL_E_CONFIG);
    rig_stop();
}
END_TEST

/* The last block of a tensor is padded, so its mean is too small. A network that already exists may
 * continue: here that of a fleet, which has none. */
START_TEST(coord_network_begins_with_no_mean_over_a_block)
{
    rig_start("epochs: 1, lanes: 2}\ndense_optimizer: {kind: row_adagrad", 1, 1, NULL);
    r.client.from = _i == 0 ? NULL : "fleet";
    run_job(10);
    ck_assert_int_eq(r.client.submit_status, _i == 0 ? SHOAL_E_CONFIG : SHOAL_E_NOINPUT);
    ck_assert_msg(strstr(r.client.text, _i == 0 ? "dense_optimizer.kind: row_adagrad" : "no job") !=
                      NULL,
                  "%s", r.client.text);
    rig_stop();
}
END_TEST

/* A ring has a lane for each worker, and a bound. */
START_TEST(coord_ring_of_too_many_workers_is_refused)
{
    static const struct {
        const char *train, *told;
        uint32_t workers;
    } row[] = {
        {"epochs: 1, dense: allreduce, lanes: 2", "3 workers are too many for a ring", 3},
        {"epochs: 1, dense: allreduce, lanes: 100", "train.lanes is 100: use --workers 64", 65}};
    rig_start(row[_i].train, 1, 1, NULL);
    memcpy(strstr(r.yaml, "probe"), "dcnv2", 5); /* a model that has a network */
    r.client.workers = row[_i].workers;
    run_job(10);
    ck_assert_int_eq(r.client.submit_status, SHOAL_E_CONFIG);
    ck_assert_msg(strstr(r.client.text, row[_i].told) != NULL, "%s", r.client.text);
    rig_stop();
}
END_TEST

/* The job is over, and servers and coordinator start again: readers of the tables still get the
 * map. */
START_TEST(coord_tells_the_map_without_a_job)
{
    rig_start("epochs: 1, consistency: ssp, lanes: 2", 2, 1, NULL);
    run_job(60);
    job_done(1);
    uint32_t tablets = r.shard[0]->map_count;
    uint64_t epoch = r.shard[0]->map_epoch;
    for (uint32_t again = 0; again < 2; again++) {
        if (_i == 1) {
            sim_kill(r.node);
            coord_free(r.coord);
            coord_start();
        }
        for (uint32_t i = 0; i < 2; i++) {
            char name[24];
            sim_kill(r.shard[i]->node);
            r.shard[i]->map_count = 0;
            r.shard[i]->map_epoch = 0;
            (void)snprintf(name, sizeof name, "server-%u", i);
            fake_shard_start(r.shard[i], r.sim, name, 0, 2 + again);
        }
        (void)sim_run(r.sim, sim_now_ns(r.sim) + SECOND, NULL, NULL);
        for (uint32_t i = 0; i < 2; i++) {
            ck_assert_uint_eq(r.shard[i]->map_count, tablets);
            ck_assert_uint_eq(r.shard[i]->map_epoch, epoch);
        }
        ck_assert_uint_gt(r.coord->slot[0].tablets, 0); /* MAP_GET and TABLE_GET use it */
    }
    memset(r.shard[0]->seen, 0, sizeof r.shard[0]->seen); /* the next job runs as usual */
    sim_kill(r.client.node);
    memset(&r.client, 0, sizeof r.client);
    worker_add(1);
    fake_client_start(&r.client, r.sim, r.yaml, 1);
    run_job(60);
    job_done(1);
    rig_stop();
}
END_TEST

START_TEST(coord_next_job_may_follow)
{
    rig_start("epochs: 1, consistency: ssp, lanes: 2", 2, 1, NULL);
    run_job(60);
    job_done(1);
    uint64_t first = r.client.run;
    memset(r.shard[0]->seen, 0, sizeof r.shard[0]->seen);
    memset(&r.client, 0, sizeof r.client);
    worker_add(1);
    fake_client_start(&r.client, r.sim, r.yaml, 1);
    run_job(60);
    job_done(1);
    ck_assert_uint_gt(r.client.run, first);
    rig_stop();
}
END_TEST

int main(void)
{
    Suite *s = suite_create("coord");
    TCase *t = tcase_create("jobs");
    log_init("test_coord");
    log_set_level(getenv("SHOAL_LOG") == NULL ? LOG_LEVEL_ERROR : LOG_LEVEL_DEBUG);
    tcase_set_timeout(t, 120);
    tcase_add_test(t, coord_job_runs_to_its_report);
    tcase_add_test(t, coord_report_tells_the_measures);
    tcase_add_test(t, coord_report_has_the_training_curve);
    tcase_add_test(t, coord_restart_keeps_curve_and_details);
    tcase_add_loop_test(t, coord_other_number_of_shards_is_refused_once_there_are_tables, 0, 4);
    tcase_add_test(t, coord_same_file_after_the_end_is_a_new_job);
    tcase_add_loop_test(t, coord_restart_keeps_the_test_splits_figures, 0, 2);
    tcase_add_test(t, coord_restart_keeps_the_time_spent);
    tcase_add_loop_test(t, coord_scalars_have_no_rate_of_a_moment, 0, 3);
    tcase_add_loop_test(t, coord_status_tells_the_rate_of_jumps, 0, 2);
    tcase_add_test(t, coord_status_tells_the_rate_from_the_first_beat);
    tcase_add_test(t, coord_problems_are_told_since_when);
    tcase_add_test(t, coord_sentences_with_one_beginning_are_one_fact);
    tcase_add_test(t, coord_shards_in_one_state_have_the_same_words);
    tcase_add_test(t, coord_picture_has_the_status_the_map_and_the_curves);
    tcase_add_test(t, coord_picture_tells_no_burst_as_the_rate);
    tcase_add_loop_test(t, coord_scalars_tell_training_and_evaluation, 0, 2);
    tcase_add_test(t, coord_best_epoch_by_group_auc);
    tcase_add_test(t, coord_predictions_of_another_job_are_refused);
    tcase_add_test(t, coord_epoch_ends_only_when_all_lanes_are_done);
    tcase_add_test(t, coord_dead_workers_lane_goes_to_another_with_a_higher_generation);
    tcase_add_test(t, coord_frozen_worker_is_told_to_leave_and_writes_nothing);
    tcase_add_test(t, coord_bsp_pads_lanes_to_equal_length);
    tcase_add_test(t, coord_bsp_survives_a_death_with_the_same_batches);
    tcase_add_loop_test(t, coord_lost_doubled_and_reordered_messages_change_nothing, 0, 12);
    tcase_add_test(t, coord_best_epoch_is_restored);
    tcase_add_loop_test(t, coord_evaluations_take_no_time_of_training, 0, 3);
    tcase_add_test(t, coord_report_that_is_missing_holds_up_no_epoch);
    tcase_add_loop_test(t, coord_evaluates_every_so_many_batches, 0, 3);
    tcase_add_test(t, coord_one_epoch_stops_early_and_keeps_the_best);
    tcase_add_loop_test(t, coord_death_within_an_epoch_changes_no_evaluation, 0, 24);
    tcase_add_loop_test(t, coord_minutes_end_a_job, 0, 2);
    tcase_add_loop_test(t, coord_death_before_a_failure_is_stored_goes_on, 0, 2);
    tcase_add_loop_test(t, coord_death_at_an_epochs_end_changes_nothing, 0, 40);
    tcase_add_loop_test(t, coord_death_at_the_end_within_an_epoch_changes_nothing, 0, 36);
    tcase_add_test(t, coord_evaluates_every_so_many_minutes);
    tcase_add_loop_test(t, coord_tells_what_was_scored_before_it_was_learnt, 0, 3);
    tcase_add_test(t, coord_restart_counts_no_example_twice);
    tcase_add_loop_test(t, coord_restart_tells_what_it_has_not_heard, 0, 6);
    tcase_add_test(t, coord_windows_of_a_long_job_are_coarser);
    tcase_add_loop_test(t, coord_gains_and_rates_have_a_patience_of_their_own, 0, 2);
    tcase_add_loop_test(t, coord_report_says_that_a_job_still_gained, 0, 2);
    tcase_add_test(t, coord_gain_over_the_best_is_kept);
    tcase_add_test(t, coord_refused_cut_is_made_again_under_a_new_number);
    tcase_add_test(t, coord_restarted_shard_is_set_up_again);
    tcase_add_test(t, coord_shard_that_reads_its_rows_back_has_the_map);
    tcase_add_test(t, coord_restarted_shard_ends_a_job_in_memory);
    tcase_add_loop_test(t, coord_restarted_coordinator_goes_on, 0, 8);
    tcase_add_test(t, coord_goes_on_with_tasks_as_another_release_has_cut_them);
    tcase_add_test(t, coord_tasks_of_two_cuts_end_the_job);
    tcase_add_loop_test(t, coord_death_at_the_cut_keeps_the_best_epoch, 0, 12);
    tcase_add_loop_test(t, coord_death_at_the_restore_keeps_the_best_epoch, 0, 4);
    tcase_add_test(t, coord_rotten_cut_leaves_all_as_they_were);
    tcase_add_test(t, coord_lane_has_one_clock_on_all_shards);
    tcase_add_test(t, coord_lane_begins_with_the_last_of_those_held);
    tcase_add_test(t, coord_lanes_that_come_together_begin_together);
    tcase_add_loop_test(t, coord_fences_are_told_again, 0, 2);
    tcase_add_loop_test(t, coord_clocks_apart_end_the_job, 0, 3);
    tcase_add_loop_test(t, coord_machine_that_started_again, 0, 3);
    tcase_add_loop_test(t, coord_former_jobs_lanes_are_forgotten, 0, 2);
    tcase_add_loop_test(t, coord_death_within_a_round_loses_no_task, 0, 8);
    tcase_add_test(t, coord_doubled_question_is_granted_once);
    tcase_add_loop_test(t, coord_late_copy_of_a_former_jobs_question_waits, 0, 2);
    tcase_add_test(t, coord_lane_dropped_in_silence_is_dealt_again);
    tcase_add_test(t, coord_silent_server_ends_a_job_in_memory);
    tcase_add_test(t, coord_stranger_with_a_workers_number_is_nobody);
    tcase_add_test(t, coord_program_of_another_release_is_told);
    tcase_add_test(t, coord_worker_may_die_while_a_lane_is_granted_to_it);
    tcase_add_loop_test(t, coord_worker_may_die_while_it_reads, 0, 2);
    tcase_add_test(t, coord_question_from_before_is_granted_nothing);
    tcase_add_loop_test(t, coord_question_of_a_lane_is_its_holders, 0, 2);
    tcase_add_loop_test(t, coord_report_of_a_task_is_its_holders, 0, 2);
    tcase_add_test(t, coord_workers_of_a_former_job_join_the_next);
    tcase_add_test(t, coord_status_is_not_made_for_each_question);
    tcase_add_test(t, coord_silent_server_is_named_in_the_status);
    tcase_add_test(t, coord_status_says_who_has_not_come);
    tcase_add_loop_test(t, coord_that_stood_still_kills_nobody, 0, 2);
    tcase_add_test(t, coord_that_stood_still_finds_the_dead);
    tcase_add_test(t, coord_cut_of_the_best_epoch_waits_for_a_server);
    tcase_add_loop_test(t, coord_cut_without_room_keeps_the_older_one, 0, 2);
    tcase_add_test(t, coord_uneven_cut_is_made_again);
    tcase_add_test(t, coord_too_many_bad_lines_end_the_job);
    tcase_add_loop_test(t, coord_bad_lines_are_a_share_of_all, 0, 3);
    tcase_add_test(t, coord_drawn_lines_are_told);
    tcase_add_loop_test(t, coord_bad_lines_are_a_share_of_the_drawn_ones, 0, 2);
    tcase_add_loop_test(t, coord_refused_batches_are_told, 0, 3);
    tcase_add_test(t, coord_restart_keeps_refused_batches);
    tcase_add_loop_test(t, coord_too_many_refused_batches_end_the_job, 0, 3);
    tcase_add_test(t, coord_counts_a_broken_worker_once);
    tcase_add_test(t, coord_missing_input_ends_the_job);
    tcase_add_loop_test(t, coord_late_worker_fails_alone, 0, 11);
    tcase_add_test(t, coord_report_of_very_many_epochs_is_cut);
    tcase_add_loop_test(t, coord_copy_of_a_stop_asks_nothing, 0, 3);
    tcase_add_loop_test(t, coord_all_that_fail_alike_end_the_job, 0, 3);
    tcase_add_test(t, coord_status_says_why_the_last_worker_left);
    tcase_add_test(t, coord_failed_job_fences_no_lane);
    tcase_add_test(t, coord_job_without_names_has_no_text_yet);
    tcase_add_test(t, coord_shard_that_opens_a_run_is_set_up_for_restore);
    tcase_add_loop_test(t, coord_bsp_takes_one_kind_of_device, 0, 6);
    tcase_add_test(t, coord_bsp_keeps_its_kind_of_device_over_a_restart);
    tcase_add_loop_test(t, coord_bsp_keeps_its_kind_of_device_before_training, 0, 2);
    tcase_add_test(t, coord_goes_on_without_a_worker_whose_device_failed);
    tcase_add_test(t, coord_tells_on_what_workers_compute);
    tcase_add_test(t, coord_wrong_job_file_is_refused);
    tcase_add_loop_test(t, coord_network_begins_with_no_mean_over_a_block, 0, 2);
    tcase_add_loop_test(t, coord_ring_of_too_many_workers_is_refused, 0, 2);
    tcase_add_loop_test(t, coord_tells_the_map_without_a_job, 0, 2);
    tcase_add_test(t, coord_next_job_may_follow);
    suite_add_tcase(s, t);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
