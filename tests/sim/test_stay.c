/* test_stay.c: workers that wait between jobs (trainer_options.stay). Cases are the next job, a job
 * of another shape or day, a job that failed here, input that is missing on one machine only, a
 * coordinator that is away, and a stop while workers wait. */
#include "dense/model.h"
#include "tests/lib/dense_case.h"
#include "tests/lib/server_fake.h"
#include "tests/lib/sim_cluster.h"
#include "tests/lib/worker_files.h"
#include "worker/train/trainer.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MS UINT64_C(1000000)
#define SECOND (1000 * MS)
#define BOUND (900 * SECOND)
enum { ROWS = 480, WORKERS = 2 };

static struct cluster cluster;
static char yaml[2048];
static uint32_t epochs;   /* epochs of the next job */
static uint64_t batch_ms; /* longest time of a worker for a batch */
static uint32_t tablets;  /* tablets of its table */

/* more: lines of the job file. */
static void job_make(const char *input, const char *model, const char *train, const char *more)
{
    snprintf(
        yaml, sizeof yaml,
        "job: stay\n"
        "data: {format: csv, label: label, train: [%s], cache: %s}\n"
        "tables:\n"
        "  - {name: emb, dim: 4, tablets: %u, init: {kind: zero}, optimizer: {kind: sgd, lr: 1}}\n"
        "model: %s\n"
        "train: {batch: 8, epochs: %u, task_batches: 10, consistency: bsp, %s}\n"
        "coordinator: {lease: 1s}\n"
        "net: {resend: 100ms}\n"
        "%s\n",
        input[0] == '"' ? input : worker_path(input), worker_path("cache"), tablets, model, epochs,
        train, more);
}

static void cluster_open(bool stay)
{
    struct cluster_options o = {.yaml = yaml, .servers = 2, .workers = WORKERS, .stay = stay};
    o.sim = (struct sim_options){.seed = 3,
                                 .delay_min_ns = MS / 20,
                                 .delay_max_ns = MS,
                                 .work_min_ns = MS / 10,
                                 .work_max_ns = batch_ms * MS};
    cluster_start(&cluster, &o, dense_backend());
}

static bool never(void *context)
{
    (void)context;
    return false;
}

static void pass(uint64_t ns)
{
    sim_run(cluster.sim, sim_now_ns(cluster.sim) + ns, never, NULL);
    cluster_run(&cluster, 0); /* frees the workers that left */
}

static void job_ends(uint32_t state, struct cluster_result *out)
{
    ck_assert(cluster_run(&cluster, sim_now_ns(cluster.sim) + BOUND));
    cluster_result(&cluster, out);
    ck_assert_msg(out->state == state, "%s", out->text);
    pass(5 * SECOND); /* time for the last messages */
}

/* Checks that the first WORKERS are connected, that none was started again, and that they report
 * this of themselves. */
static void all_tell(const char *wanted)
{
    char text[256];
    ck_assert_uint_eq(cluster.workers, WORKERS);
    for (uint32_t i = 0; i < WORKERS; i++) {
        ck_assert(cluster.worker[i].node != NULL && !cluster.worker[i].ended);
        trainer_describe(cluster.worker[i].trainer, text, sizeof text);
        ck_assert_msg(strncmp(text, wanted, strlen(wanted)) == 0, "%s", text);
    }
}

static void job_next(const char *model, const char *train, const char *more)
{
    job_make("train.csv", model, train, more);
    cluster_submit(&cluster);
}

static void input_write(uint32_t rows)
{
    static char data[1 << 16];
    size_t at = (size_t)snprintf(data, sizeof data, "label,a,b\n");
    for (uint32_t i = 0; i < rows; i++)
        at += (size_t)snprintf(data + at, sizeof data - at, "%u,%u,%u\n", i % 3 == 0, i * 7 % 50,
                               i * 5 % 11);
    worker_write("train.csv", data, at);
}

static void setup(void)
{
    worker_folder_make();
    epochs = 1;
    batch_ms = 4;
    tablets = 64;
    input_write(ROWS);
}

static void teardown(void)
{
    cluster_free(&cluster);
    worker_folder_remove();
}

/* ---- cases ----------------------------------------------------------------------------------- */

/* Runs two jobs; the second has another model, other lanes and batches, so nothing of the first is
 * used again. */
static void two_jobs(bool stay, struct cluster_result *second)
{
    struct cluster_result first;
    job_make("train.csv", "{kind: deepfm, hidden: [4]}", "lanes: 2", "");
    cluster_open(stay);
    job_ends(WIRE_JOB_DONE, &first);
    ck_assert_uint_eq(first.examples, ROWS);
    if (stay)
        all_tell("waiting for a job");
    job_next("{kind: deepfm, hidden: [8, 4]}", "lanes: 3", "fresh: [all]");
    job_ends(WIRE_JOB_DONE, second);
    ck_assert_uint_eq(second->examples, ROWS);
}

START_TEST(the_next_job_needs_no_worker_started)
{
    struct cluster_result anew, stayed;
    two_jobs(false, &anew);
    ck_assert_uint_gt(cluster.workers, WORKERS);
    cluster_free(&cluster);
    two_jobs(true, &stayed);
    all_tell("waiting for a job");
    ck_assert_uint_eq(anew.tables, stayed.tables);
    for (uint32_t i = 0; i < anew.tables; i++)
        ck_assert_str_eq(anew.digest[i], stayed.digest[i]);
}
END_TEST

/* The job's map exists only when its tables do. _i: they have more tablets, or a new table is
 * behind them. */
START_TEST(the_next_job_may_have_more_tablets)
{
    struct cluster_result done;
    job_make("train.csv", "{kind: deepfm, hidden: [4]}", "lanes: 2", "");
    cluster_open(true);
    job_ends(WIRE_JOB_DONE, &done);
    tablets = _i == 0 ? 128 : 64;
    job_next(_i == 0 ? "{kind: deepfm, hidden: [4]}" : "{kind: deepfm, hidden: [4], norm: batch}",
             "lanes: 2", _i == 0 ? "fresh: [all]" : "fresh: [dense]");
    job_ends(WIRE_JOB_DONE, &done);
    ck_assert_uint_eq(done.examples, ROWS);
    all_tell("waiting for a job");
}
END_TEST

START_TEST(a_job_that_fails_here_is_not_the_end)
{
    struct cluster_result bad, good;
    job_make("nothing.csv", "{kind: probe}", "lanes: 2", "");
    cluster_open(true);
    job_ends(WIRE_JOB_FAILED, &bad);
    ck_assert_msg(strstr(bad.text, "nothing.csv") != NULL, "%s", bad.text);
    all_tell("waiting for a job");
    job_next("{kind: probe}", "lanes: 2", "");
    job_ends(WIRE_JOB_DONE, &good);
    ck_assert_uint_eq(good.examples, ROWS);
    all_tell("waiting for a job");
}
END_TEST

/* The same job again: its input is a command, which is run anew for each job, so the second job has
 * the new rows. */
START_TEST(the_same_job_s_command_is_run_anew)
{
    struct cluster_result day;
    char command[600];
    snprintf(command, sizeof command, "\"cmd:cat %s\"", worker_path("train.csv"));
    job_make(command, "{kind: probe}", "lanes: 2", "fresh: [all]");
    cluster_open(true);
    job_ends(WIRE_JOB_DONE, &day);
    ck_assert_uint_eq(day.examples, ROWS);
    input_write(ROWS / 2);
    cluster_submit(&cluster);
    job_ends(WIRE_JOB_DONE, &day);
    ck_assert_uint_eq(day.examples, ROWS / 2);
}
END_TEST

/* One more machine lacks the input: the others' job goes on, and the machine joins once it has the
 * input. */
START_TEST(input_that_is_missing_here_ends_nobody_s_job)
{
    struct cluster_result done;
    char text[256] = "";
    epochs = 60;
    batch_ms = 100;
    job_make("train.csv", "{kind: probe}", "lanes: 3", "");
    cluster_open(true);
    pass(5 * SECOND);
    ck_assert_int_eq(rename(worker_path("train.csv"), worker_path("away")), 0);
    uint32_t late = cluster_worker_start(&cluster);
    uint32_t told = 0;
    for (uint32_t i = 0; i < 40; i++) { /* it joins again and again, to see whether it can work */
        pass(SECOND / 4);
        trainer_describe(cluster.worker[late].trainer, text, sizeof text);
        told += strstr(text, "train.csv: No such file") != NULL;
        ck_assert_msg(strstr(text, " 0 examples") != NULL || strstr(text, "job stay: ") == NULL,
                      "%s", text);
    }
    ck_assert_uint_gt(told, 20);
    ck_assert_int_eq(rename(worker_path("away"), worker_path("train.csv")), 0);
    pass(20 * SECOND);
    trainer_describe(cluster.worker[late].trainer, text, sizeof text);
    ck_assert_msg(strncmp(text, "job stay: ", 10) == 0, "%s", text);
    job_ends(WIRE_JOB_DONE, &done);
    ck_assert_uint_eq(done.examples, UINT64_C(60) * ROWS);
}
END_TEST

START_TEST(a_silent_coordinator_is_waited_for)
{
    struct cluster_result good;
    job_make("train.csv", "{kind: probe}", "lanes: 2", "");
    cluster_open(true);
    cluster_coord_kill(&cluster);
    pass(3600 * SECOND);
    all_tell("waiting for the coordinator at sim://coordinator");
    cluster_coord_start(&cluster);
    job_ends(WIRE_JOB_DONE, &good);
    all_tell("waiting for a job");
}
END_TEST

/* Hours pass without a job. The coordinator has answered hundreds of times that there is none, so
 * no worker may report it as silent. */
START_TEST(waiting_is_not_silence)
{
    struct cluster_result done;
    char line[256];
    job_make("train.csv", "{kind: probe}", "lanes: 2", "");
    cluster_open(true);
    job_ends(WIRE_JOB_DONE, &done);
    FILE *said = tmpfile();
    int kept = dup(STDERR_FILENO);
    fflush(stderr);
    dup2(fileno(said), STDERR_FILENO);
    pass(3600 * SECOND);
    dup2(kept, STDERR_FILENO);
    close(kept);
    rewind(said);
    while (fgets(line, sizeof line, said) != NULL)
        ck_assert_msg(strstr(line, "has not been answered") == NULL, "%s", line);
    fclose(said);
    all_tell("waiting for a job");
}
END_TEST

START_TEST(work_is_told)
{
    job_make("train.csv", "{kind: probe}", "lanes: 2", "");
    cluster_open(true);
    char text[256] = "";
    uint64_t until = sim_now_ns(cluster.sim) + BOUND;
    while (strncmp(text, "job stay: ", 10) != 0) {
        ck_assert_uint_lt(sim_now_ns(cluster.sim), until);
        pass(10 * MS);
        trainer_describe(cluster.worker[0].trainer, text, sizeof text);
    }
    ck_assert_msg(strstr(text, " lanes, ") != NULL && strstr(text, "/s") != NULL, "%s", text);
}
END_TEST

START_TEST(who_waits_leaves_at_once)
{
    struct cluster_result done;
    job_make("train.csv", "{kind: probe}", "lanes: 2", "");
    cluster_open(true);
    job_ends(WIRE_JOB_DONE, &done);
    for (uint32_t i = 0; i < WORKERS; i++)
        trainer_leave(cluster.worker[i].trainer);
    pass(100 * MS);
    for (uint32_t i = 0; i < WORKERS; i++)
        ck_assert(cluster.worker[i].ended && cluster.worker[i].status == 0);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("stay");
    TCase *t = tcase_create("jobs");
    tcase_set_timeout(t, 120);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, the_next_job_needs_no_worker_started);
    tcase_add_loop_test(t, the_next_job_may_have_more_tablets, 0, 2);
    tcase_add_test(t, a_job_that_fails_here_is_not_the_end);
    tcase_add_test(t, the_same_job_s_command_is_run_anew);
    tcase_add_test(t, input_that_is_missing_here_ends_nobody_s_job);
    tcase_add_test(t, a_silent_coordinator_is_waited_for);
    tcase_add_test(t, waiting_is_not_silence);
    tcase_add_test(t, work_is_told);
    tcase_add_test(t, who_waits_leaves_at_once);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
