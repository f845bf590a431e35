/* test_device.c: whole jobs on the stand-in device (libshoal_cudahost.so). One of its streams loses
 * the device, or finds no memory, at its n-th call: while a worker is made, in any call of a step,
 * or in evaluation. The worker must leave with its status, or go on with the CPU where that is
 * allowed. Another worker must get its lanes within the lease, and the job must end as without the
 * failure: under bsp bit for bit, else with each example counted once (model probe). */
#include "dense/model.h"
#include "tests/lib/server_fake.h"
#include "tests/lib/sim_play.h"
#include "tests/lib/suite.h"
#include "tests/lib/worker_files.h"

#include "dense/backend_ops.h"
#include "proto/base/json.h"

#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LEASE (1 * SECOND) /* sim_cluster.c */
enum { ROWS = 480 };

static struct backend *device, *cpu;
static struct cluster cluster;
static char yaml[2048];

/* The device's fault, and the observations. */
static struct {
    uint32_t stream; /* index of the stream among those opened, from 1; 0: none */
    uint32_t call;
    const char *how;      /* "lost", "full" */
    uint32_t predictions; /* the device that gets this prediction is lost; 0: none */
    uint32_t streams, predicted;
    uint32_t lane; /* the lane of the failed step; UINT32_MAX: none */
    uint64_t broken_ns, taken_ns;
} play;

/* ---- the model's place ----------------------------------------------------------------------- */

int __real_model_train(const struct model *m, struct model_run *r, const struct model_input *in,
                       uint64_t seed, uint32_t lane, uint64_t batch, struct model_output *out);
int __wrap_model_train(const struct model *m, struct model_run *r, const struct model_input *in,
                       uint64_t seed, uint32_t lane, uint64_t batch, struct model_output *out);
int __real_model_predict(const struct model *m, struct model_run *r, const struct model_input *in,
                         struct model_output *out);
int __wrap_model_predict(const struct model *m, struct model_run *r, const struct model_input *in,
                         struct model_output *out);
int __real_model_run_new(const struct model *m, uint32_t max_examples, struct model_run **out,
                         struct err *e);
int __wrap_model_run_new(const struct model *m, uint32_t max_examples, struct model_run **out,
                         struct err *e);

static void broken_note(uint32_t lane)
{
    if (play.broken_ns != 0)
        return;
    play.lane = lane;
    play.broken_ns = sim_now_ns(cluster.sim);
}

int __wrap_model_train(const struct model *m, struct model_run *r, const struct model_input *in,
                       uint64_t seed, uint32_t lane, uint64_t batch, struct model_output *out)
{
    int rc = __real_model_train(m, r, in, seed, lane, batch, out);
    if (rc != 0)
        broken_note(lane);
    else if (play.broken_ns != 0 && play.taken_ns == 0 && lane == play.lane)
        play.taken_ns = sim_now_ns(cluster.sim);
    return rc;
}

int __wrap_model_predict(const struct model *m, struct model_run *r, const struct model_input *in,
                         struct model_output *out)
{
    int rc = ++play.predicted == play.predictions ? SHOAL_E_UNAVAILABLE
                                                  : __real_model_predict(m, r, in, out);
    if (rc != 0)
        broken_note(UINT32_MAX);
    return rc;
}

int __wrap_model_run_new(const struct model *m, uint32_t max_examples, struct model_run **out,
                         struct err *e)
{
    char fail[32];
    snprintf(fail, sizeof fail, "%u:%s", play.call, play.how);
    if (++play.streams == play.stream)
        setenv("SHOAL_CUDAHOST_FAIL", fail, 1);
    int rc = __real_model_run_new(m, max_examples, out, e);
    unsetenv("SHOAL_CUDAHOST_FAIL");
    if (rc != 0)
        broken_note(UINT32_MAX);
    return rc;
}

static int cpu_take(void *context, struct backend **out, struct err *e)
{
    (void)context;
    (void)e;
    *out = cpu;
    return 0;
}

/* ---- the job --------------------------------------------------------------------------------- */

static void job_make(const char *model, const char *train)
{
    snprintf(
        yaml, sizeof yaml,
        "job: device\n"
        "data: {format: csv, label: label, train: [%s], valid: [%s], cache: %s}\n"
        "tables:\n"
        "  - {name: emb, dim: 4, tablets: 64, init: {kind: zero}, optimizer: {kind: sgd, lr: 1}}\n"
        "model: %s\n"
        "train: {batch: 8, epochs: 2, lanes: 2, task_batches: 10, %s}\n"
        "coordinator: {lease: 1s}\n"
        "net: {resend: 100ms}\n",
        worker_path("train.csv"), worker_path("train.csv"), worker_path("cache"), model, train);
}

static void run(uint32_t workers, int (*replace)(void *, struct backend **, struct err *),
                struct cluster_result *out)
{
    struct cluster_options o = {.yaml = yaml, .servers = 1, .workers = workers, .replace = replace};
    o.sim = sim_play_net(3);
    play.streams = play.predicted = 0;
    play.broken_ns = play.taken_ns = 0;
    cluster_start(&cluster, &o, device);
    ck_assert_msg(cluster_run(&cluster, BOUND), "call %u %s: the job does not end", play.call,
                  play.how);
    cluster_result(&cluster, out);
    ck_assert_msg(out->state == WIRE_JOB_DONE, "call %u %s: %s", play.call, play.how, out->text);
    ck_assert_uint_eq(out->examples, 2 * ROWS);
    cluster_run(&cluster, sim_now_ns(cluster.sim) + 5 * SECOND); /* the workers leave */
}

static void digests_equal(const struct cluster_result *a, const struct cluster_result *b)
{
    ck_assert_uint_eq(a->tables, b->tables);
    for (uint32_t i = 0; i < a->tables; i++)
        ck_assert_msg(strcmp(a->digest[i], b->digest[i]) == 0, "call %u %s: table %u is another",
                      play.call, play.how, i);
}

/* Returns the status of the one worker that failed; 0: all ended well. */
static int status_of_all(uint32_t workers)
{
    int rc = 0;
    for (uint32_t i = 0; i < workers; i++) {
        ck_assert_msg(cluster.worker[i].ended, "call %u %s: worker %u does not end", play.call,
                      play.how, i);
        ck_assert(rc == 0 || cluster.worker[i].status == 0);
        rc = rc == 0 ? cluster.worker[i].status : rc;
    }
    return rc;
}

/* Numbers of calls to try: each of the first ones, then some. */
static uint32_t call_next(uint32_t call)
{
    return call < 64 ? call + 1 : call + call / 4;
}

struct seen {
    /* calls that were tried, that were reached, and after which another worker got the lane */
    uint32_t runs, broken, taken;
    /* time from the failure until another worker had computed a batch of the lane */
    uint64_t longest_ns;
};

static void seen_add(struct seen *s)
{
    uint64_t took = play.taken_ns - play.broken_ns;
    s->runs++;
    s->broken += play.broken_ns != 0;
    if (play.taken_ns == 0)
        return;
    s->taken++;
    ck_assert_msg(took < LEASE, "call %u %s: the lane was nobody's for %" PRIu64 " ms", play.call,
                  play.how, took / MS);
    s->longest_ns = took > s->longest_ns ? took : s->longest_ns;
}

static void seen_tell(const char *name, const struct seen *s, uint32_t broken, uint32_t taken)
{
    printf(
        "%s, %s: %u calls tried, %u failed, %u lanes taken, at most %.1f ms after (lease %.0f)\n",
        name, play.how, s->runs, s->broken, s->taken, (double)s->longest_ns / 1e6,
        (double)LEASE / 1e6);
    ck_assert_uint_ge(s->broken, broken);
    ck_assert_uint_ge(s->taken, taken);
}

/* ---- cases ----------------------------------------------------------------------------------- */

static const char *const hows[] = {"lost", "full"};
static const int statuses[] = {SHOAL_E_UNAVAILABLE, SHOAL_E_NOMEM};

/* The device fails in any call: the worker leaves (also with auto, because another device would
 * give other bits), and the other worker ends the job bit for bit. */
START_TEST(a_device_that_fails_in_any_call_costs_a_worker)
{
    struct cluster_result calm, got;
    struct seen seen = {0};
    play.how = hows[_i];
    job_make("{kind: deepfm, hidden: [4], norm: batch}",
             "backend: auto, consistency: bsp, prefetch: 0");
    run(2, NULL, &calm);
    cluster_free(&cluster);
    play.stream = 1;
    for (play.call = 1; play.call < 6000; play.call = call_next(play.call)) {
        run(2, cpu_take, &got);
        int status = status_of_all(2);
        ck_assert_int_eq(status, play.broken_ns == 0 ? 0 : statuses[_i]);
        digests_equal(&calm, &got);
        seen_add(&seen);
        cluster_free(&cluster);
    }
    /* memory is allocated only at the start */
    seen_tell("bsp", &seen, _i == 0 ? 64 : 24, _i == 0 ? 48 : 8);
}
END_TEST

/* The error of a full device says what to make smaller. */
START_TEST(a_device_that_is_full_says_what_to_make_smaller)
{
    struct cluster_result got;
    play.how = "full";
    play.stream = 1;
    job_make("{kind: deepfm, hidden: [4]}", "backend: auto, consistency: ssp, staleness: 2");
    for (play.call = 1; play.call < 40; play.call++) {
        struct err e = {0};
        run(2, cpu_take, &got);
        if (play.broken_ns != 0) {
            ck_assert_int_eq(status_of_all(2), SHOAL_E_NOMEM);
            e = cluster.worker[cluster.worker[0].status == 0].error;
            ck_assert_msg(strstr(e.text, "make train.batch") != NULL &&
                              strstr(e.text, "smaller") != NULL,
                          "call %u: %s", play.call, e.text);
        }
        cluster_free(&cluster);
    }
}
END_TEST

static int64_t joined_by(const char *backend, char why[512])
{
    struct json *r;
    struct err e = {0};
    int64_t count = 0;
    ck_assert_int_eq(json_parse(cluster.client->report, strlen(cluster.client->report), &r, &e), 0);
    const struct json *list = json_get(r, "backends");
    for (size_t i = 0; i < json_count(list); i++) {
        const struct json *item = json_array_at(list, i);
        if (strcmp(json_as_string(json_get(item, "backend"), ""), backend) != 0)
            continue;
        count += json_as_int(json_get(item, "joined"), 0);
        snprintf(why, 512, "%s", json_as_string(json_get(item, "why"), ""));
    }
    json_free(r);
    return count;
}

/* With auto and without bsp the worker itself goes on with the CPU, alone or beside another worker;
 * the report says so. */
START_TEST(a_worker_whose_device_is_lost_goes_on_by_the_cpu)
{
    static const char *const modes[] = {
        "backend: auto, consistency: ssp, staleness: 2, prefetch: 1",
        "backend: auto, consistency: async, prefetch: 3"};
    struct cluster_result calm, got;
    struct seen seen = {0};
    char why[512];
    play.how = "lost";
    job_make("{kind: probe}", modes[_i % 2]);
    run(2, NULL, &calm);
    cluster_free(&cluster);
    play.stream = 1;
    for (play.call = 1; play.call < 3000; play.call = call_next(play.call)) {
        uint32_t workers = 1 + play.call % 2;
        run(workers, cpu_take, &got);
        ck_assert_int_eq(status_of_all(workers), 0);
        ck_assert_str_eq(got.digest[0], calm.digest[0]);
        seen_add(&seen);
        if (play.taken_ns != 0) {
            ck_assert_int_eq(joined_by("cpu", why), 1);
            ck_assert_ptr_eq(strstr(why, "auto: the device was lost: the device failed "), why);
            ck_assert_ptr_nonnull(strstr(why, "planted failure of call"));
        }
        cluster_free(&cluster);
    }
    seen_tell(_i == 0 ? "ssp, auto" : "async, auto", &seen, 64, 48);
}
END_TEST

/* A worker whose device is named by the job, or that has no other backend, leaves. */
START_TEST(a_worker_that_was_told_its_device_leaves)
{
    struct cluster_result got;
    play.how = "lost";
    play.stream = 1;
    play.call = 200;
    job_make("{kind: probe}", _i == 0 ? "backend: cuda, consistency: ssp, staleness: 2"
                                      : "backend: auto, consistency: ssp, staleness: 2");
    run(2, _i == 0 ? cpu_take : NULL, &got);
    ck_assert_uint_ne(play.broken_ns, 0);
    ck_assert_int_eq(status_of_all(2), SHOAL_E_UNAVAILABLE);
    ck_assert_int_eq(err_exit_status(SHOAL_E_UNAVAILABLE), 69);
    cluster_free(&cluster);
}
END_TEST

/* The device is lost while it predicts: another worker, or the same one with the CPU, takes the
 * evaluation's task. */
START_TEST(a_device_lost_in_evaluation_costs_no_example)
{
    struct cluster_result calm, got;
    bool automatic = _i % 2 == 1;
    char why[512];
    play.how = "lost";
    job_make("{kind: probe}", automatic ? "backend: auto, consistency: ssp, staleness: 2"
                                        : "backend: cuda, consistency: ssp, staleness: 2");
    run(2, NULL, &calm);
    cluster_free(&cluster);
    for (play.predictions = 1; play.predictions < 12; play.predictions++) {
        run(2, cpu_take, &got);
        ck_assert_uint_ne(play.broken_ns, 0);
        ck_assert_int_eq(status_of_all(2), automatic ? 0 : SHOAL_E_UNAVAILABLE);
        ck_assert_str_eq(got.digest[0], calm.digest[0]);
        ck_assert_int_eq(joined_by("cpu", why), automatic);
        cluster_free(&cluster);
    }
}
END_TEST

static void setup(void)
{
    static const struct sim_column columns[] = {{"a", 60}, {"b", 9}};
    struct err e = {0};
    sim_play_input(columns, 2, ROWS, 1);
    if (getenv("SHOAL_SIM_LOG") == NULL)
        /* every failure is logged, and there are hundreds */
        ck_assert_ptr_nonnull(freopen("/dev/null", "w", stderr));
    memset(&play, 0, sizeof play);
    if (device == NULL)
        ck_assert_msg(backend_load_module("libshoal_cudahost.so", &device, &e) == 0, "%s", e.text);
    if (cpu == NULL)
        ck_assert_msg(backend_load(BACKEND_CPU, &cpu, &e) == 0, "%s", e.text);
}

static void teardown(void)
{
    worker_folder_remove();
}

int main(void)
{
    Suite *s = suite_create("device");
    TCase *c = suite_case(s, "device", 300, setup, teardown);
    tcase_add_loop_test(c, a_device_that_fails_in_any_call_costs_a_worker, 0, 2);
    tcase_add_test(c, a_device_that_is_full_says_what_to_make_smaller);
    tcase_add_loop_test(c, a_worker_whose_device_is_lost_goes_on_by_the_cpu, 0, 2);
    tcase_add_loop_test(c, a_worker_that_was_told_its_device_leaves, 0, 2);
    tcase_add_loop_test(c, a_device_lost_in_evaluation_costs_no_example, 0, 2);
    return suite_main(s);
}
