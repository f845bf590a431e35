/* test_seat.c: one seat against a coordinator and shards that answer as the case says. Its tasks
 * have no rows, so its pushes are ticks. A case may also set the result of its lane (--wrap). */
#include "tests/lib/suite.h"
#include "tests/lib/worker_script.h"
#include "worker/train/seat.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct seat_host host;
static struct seat *seat;
static struct stats stats;
static uint32_t freed, unknown, ended, fatals, brokens, releases;
static int fatal_status;
static bool held_elsewhere;
static uint32_t lanes_held; /* by the worker's seats, as the host says */
static int ready_status;
static struct dataset *input; /* the tasks' input; NULL: they have none */
static uint32_t aparts;

/* The coordinator's answers to the n-th LANE_NEXT and to every report; the shards' answers to every
 * push. */
static struct wire_LANE_NEXT_reply next[8];
static int next_status[8], report_status[8], push_status;
static uint32_t reports;

static bool answer(const struct wire *in, uint32_t node, uint32_t n, struct wire *out)
{
    ck_assert_uint_lt(n, 8);
    if (in->type == WIRE_TYPE_LANE_NEXT) {
        out->status = next_status[n];
        out->u.LANE_NEXT_reply = next[n];
    } else if (node == SCRIPT_COORDINATOR) {
        out->status = report_status[reports++];
    } else {
        out->status = push_status;
    }
    return true;
}

const struct lane_result *__real_lane_result(const struct lane *l);
const struct lane_result *__wrap_lane_result(const struct lane *l);
static void (*found)(struct lane_result *r); /* NULL: unchanged */

const struct lane_result *__wrap_lane_result(const struct lane *l)
{
    static struct lane_result result;
    if (found == NULL)
        return __real_lane_result(l);
    result = *__real_lane_result(l);
    found(&result);
    return &result;
}

static int on_ready(void *context, const struct wire_LANE_NEXT_reply *task, struct dataset **data,
                    struct err *e)
{
    (void)context, (void)task;
    *data = input;
    return ready_status == 0 ? 0 : err_set(e, ready_status, "scripted");
}

static void on_release(void *context, const struct dataset *data)
{
    (void)context, (void)data;
    releases++;
}

static void on_freed(void *context)
{
    (void)context;
    freed++;
}

static bool on_held(void *context, const struct seat *but, uint32_t lane, uint64_t generation)
{
    (void)context;
    ck_assert_ptr_eq(but, seat);
    ck_assert_uint_eq(lane, 5);
    ck_assert_uint_eq(generation, 9);
    return held_elsewhere;
}

static uint32_t on_lanes(void *context)
{
    (void)context;
    return lanes_held;
}

static void on_end(void *context)
{
    (void)context;
    ended++;
}

static void on_unknown(void *context)
{
    (void)context;
    unknown++;
}

static void on_fatal(void *context, int status, const char *text)
{
    (void)context;
    ck_assert_uint_gt(strlen(text), 0);
    fatals++;
    fatal_status = status;
}

static void on_apart(void *context, const char *text)
{
    (void)context;
    ck_assert_uint_gt(strlen(text), 0);
    aparts++;
}

static void on_broken(void *context, int status, const char *text)
{
    (void)context, (void)status, (void)text;
    brokens++;
}

static void setup(void)
{
    struct err e = {0};
    freed = unknown = ended = fatals = brokens = releases = reports = lanes_held = aparts = 0;
    input = NULL;
    fatal_status = ready_status = push_status = 0;
    held_elsewhere = false;
    found = NULL;
    memset(next, 0, sizeof next);
    memset(next_status, 0, sizeof next_status);
    memset(report_status, 0, sizeof report_status);
    for (uint32_t i = 0; i < 8; i++)
        next[i] = (struct wire_LANE_NEXT_reply){.kind = WIRE_NEXT_WAIT, .retry_ms = 5000};
    script_open(answer);
    host = (struct seat_host){.base = {.env = sim_node_env(script.own),
                                       .client = script.client,
                                       .job = &script.job,
                                       .model = script.model,
                                       .schema = script.schema,
                                       .table_count = 1,
                                       .stats = &stats},
                              .pass = 71,
                              .ready = on_ready,
                              .release = on_release,
                              .freed = on_freed,
                              .held = on_held,
                              .lanes = on_lanes,
                              .end = on_end,
                              .unknown = on_unknown,
                              .fatal = on_fatal,
                              .apart = on_apart,
                              .broken = on_broken};
    ck_assert_msg(seat_new(&host, &seat, &e) == 0, "%s", e.text);
    seat_begin(seat);
}

static void teardown(void)
{
    seat_drop(seat);
    script_run_ms(1);
    seat_free(seat);
    script_close();
}

/* Returns a task of lane 5: one batch without rows, the 30th. */
static struct wire_LANE_NEXT_reply task_of_lane(void)
{
    return (struct wire_LANE_NEXT_reply){.kind = WIRE_NEXT_TASK,
                                         .task = 3,
                                         .lane = 5,
                                         .generation = 9,
                                         .first_batch = 30,
                                         .batch_count = 2,
                                         .mark = 29,
                                         .lr_scale = 1.0f,
                                         .run = SCRIPT_RUN};
}

/* ---- asking ---------------------------------------------------------------------------------- */

/* Whatever the coordinator says, a seat neither floods it nor sleeps for long. */
START_TEST(seat_waits_as_it_is_told_within_bounds)
{
    static const uint32_t told[] = {0, 1, 10, 11, 4999, 5000, 5001, UINT32_MAX},
                          waits[] = {200, 10, 10, 11, 4999, 5000, 5000, 5000};
    next[0].retry_ms = told[_i];
    seat_ask(seat);
    ck_assert(seat_is_asking(seat));
    script_run_ms(1);
    ck_assert_uint_eq(script_count(WIRE_TYPE_LANE_NEXT), 1);
    ck_assert(seat_is_asking(seat)); /* no other seat may ask meanwhile */
    script_run_ms(waits[_i] - 1);
    ck_assert_uint_eq(script_count(WIRE_TYPE_LANE_NEXT), 1);
    script_run_ms(2);
    ck_assert_uint_eq(script_count(WIRE_TYPE_LANE_NEXT), 2);
}
END_TEST

START_TEST(seat_without_a_lane_says_how_many_the_worker_has)
{
    lanes_held = 4;
    seat_ask(seat);
    script_run_ms(1);
    const struct wire_LANE_NEXT *q = &script_seen(WIRE_TYPE_LANE_NEXT, 0)->w.u.LANE_NEXT;
    ck_assert_uint_eq(q->pass, 71);
    ck_assert_uint_eq(q->lane, SEAT_NO_LANE);
    ck_assert_uint_eq(q->generation, 0);
    ck_assert_uint_eq(q->batch, 4);
}
END_TEST

/* AGAIN is retried; a lane that another worker has is released; an unknown worker joins again. */
START_TEST(seat_that_is_refused_what_it_asks_does_as_the_status_says)
{
    static const int status[] = {SHOAL_E_AGAIN, SHOAL_E_UNAVAILABLE, SHOAL_E_FENCED,
                                 SHOAL_E_OLD_RUN, SHOAL_E_CONFIG};
    next_status[0] = status[_i];
    seat_ask(seat);
    script_run_ms(200);
    ck_assert_uint_eq(script_count(WIRE_TYPE_LANE_NEXT), _i == 0 ? 2 : 1);
    ck_assert_uint_eq(unknown, _i == 1);
    ck_assert_uint_eq(freed, _i == 2 || _i == 3);
    ck_assert_int_eq(seat_is_free(seat), _i == 2 || _i == 3);
    ck_assert_uint_eq(fatals, _i == 4);
    ck_assert_int_eq(fatal_status, _i == 4 ? SHOAL_E_CONFIG : 0);
}
END_TEST

/* A late copy of a grant. */
START_TEST(seat_leaves_a_lane_that_another_has)
{
    next[0] = task_of_lane();
    held_elsewhere = true;
    seat_ask(seat);
    script_run_ms(10);
    ck_assert(seat_is_free(seat));
    ck_assert_uint_eq(seat_lane(seat), SEAT_NO_LANE);
    ck_assert_uint_eq(freed, 1);
    ck_assert_uint_eq(script_count(WIRE_TYPE_PUSH), 0);
}
END_TEST

/* Once a seat has work, the next seat may ask, even if the work has no lane. */
START_TEST(seat_that_has_work_lets_another_ask)
{
    static const enum wire_next kind[] = {WIRE_NEXT_TASK, WIRE_NEXT_EVAL, WIRE_NEXT_INDEX};
    next[0] = task_of_lane();
    next[0].kind = kind[_i];
    ready_status = SHOAL_E_AGAIN; /* the input is not there yet */
    seat_ask(seat);
    script_run_ms(1);
    ck_assert_uint_eq(freed, 1);
    ck_assert(!seat_is_free(seat) && !seat_is_asking(seat));
    ck_assert_uint_eq(seat_lane(seat), _i == 0 ? 5 : SEAT_NO_LANE);
}
END_TEST

/* ---- at work --------------------------------------------------------------------------------- */

START_TEST(seat_goes_on_with_its_lane_from_what_is_done)
{
    next[0] = task_of_lane();
    seat_ask(seat);
    script_run_ms(10);
    ck_assert_uint_eq(script_count(WIRE_TYPE_PUSH), 4); /* two batches, two shards */
    const struct wire_TASK_DONE *done = &script_seen(WIRE_TYPE_TASK_DONE, 0)->w.u.TASK_DONE;
    ck_assert_uint_eq(done->pass, 71);
    ck_assert_uint_eq(done->lane, 5);
    ck_assert_uint_eq(done->generation, 9);
    ck_assert_uint_eq(done->task, 3);
    const struct wire_LANE_NEXT *q = &script_seen(WIRE_TYPE_LANE_NEXT, 1)->w.u.LANE_NEXT;
    ck_assert_uint_eq(q->lane, 5);
    ck_assert_uint_eq(q->generation, 9);
    ck_assert_uint_eq(q->batch, 31);
}
END_TEST

/* FENCED and OLD_RUN end the task without a report. GAP: acknowledged pushes are lost, and the
 * worker joins again to continue from the rest. Any other status ends the job. */
START_TEST(seat_whose_pushes_are_refused_does_as_the_status_says)
{
    static const int status[] = {SHOAL_E_FENCED, SHOAL_E_OLD_RUN, SHOAL_E_GAP, SHOAL_E_SCHEMA};
    next[0] = task_of_lane();
    next[0].batch_count = 1;
    push_status = SHOAL_E_TIMEOUT;
    seat_ask(seat);
    script_run_ms(10);
    push_status = status[_i];
    script_run_ms(_i == 2 ? 100 : 1000);
    if (_i == 2) /* ten in a row, from two shards */
        for (uint32_t i = 0; i < 100 && unknown == 0 && fatals == 0; i++) {
            script.count = 0;
            script_run_ms(100);
        }
    ck_assert_int_eq(seat_is_free(seat), _i < 2);
    ck_assert_uint_eq(freed, _i < 2 ? 2 : 1);
    ck_assert_uint_eq(unknown, _i == 2);
    ck_assert_uint_eq(fatals, _i == 3);
    ck_assert_uint_eq(script_count(WIRE_TYPE_TASK_DONE), 0);
}
END_TEST

static void device_fails(struct lane_result *r)
{
    r->status = SHOAL_E_UNAVAILABLE;
    r->broken = true;
    (void)snprintf(r->text, sizeof r->text, "the device failed");
}

static void input_fails(struct lane_result *r)
{
    device_fails(r);
    r->broken = false;
}

/* A device that fails ends this worker, and not the job. */
START_TEST(seat_whose_device_fails_ends_the_worker_alone)
{
    next[0] = task_of_lane();
    found = _i == 0 ? device_fails : input_fails;
    seat_ask(seat);
    script_run_ms(100);
    ck_assert_uint_eq(brokens, _i == 0);
    ck_assert_uint_eq(fatals, _i == 1);
    ck_assert_uint_eq(script_count(WIRE_TYPE_TASK_DONE), 0);
}
END_TEST

/* ---- proving what it reads ---- */

/* Opens a log of three rows. */
static void input_open(void)
{
    static struct job job;
    static char path[] = "/tmp/shoal-seat-XXXXXX";
    char text[256];
    struct err e;
    int fd = mkstemp(path);
    ck_assert_int_eq(write(fd, "1 1:1\n0 2:1\n1 3:1\n", 18), 18);
    (void)close(fd);
    (void)snprintf(text, sizeof text,
                   "job: t\ndata: {format: libsvm, train: [%s]}\ntables: [{name: emb, dim: 2}]\n"
                   "model: {kind: probe}\n",
                   path);
    ck_assert_msg(job_parse(text, strlen(text), "job", NULL, &job, &e) == 0, "%s", e.text);
    ck_assert_msg(dataset_open(&job, WIRE_TRAIN, &input, &e) == 0, "%s", e.text);
    (void)unlink(path);
}

/* The number of rows and the digest go to the coordinator once, before the first task; with another
 * input no row is pushed. */
START_TEST(seat_proves_its_input_before_it_begins)
{
    static const int status[] = {0,
                                 SHOAL_E_DATA,
                                 SHOAL_E_FENCED,
                                 SHOAL_E_OLD_RUN,
                                 SHOAL_E_MALFORMED,
                                 SHOAL_E_AGAIN,
                                 SHOAL_E_UNAVAILABLE};
    bool works = _i == 0 || _i == 4 || _i == 5;
    input_open();
    next[0] = next[1] = task_of_lane();
    next[1].first_batch = 32;
    next[1].mark = 31;
    report_status[0] = status[_i];
    seat_ask(seat);
    script_run_ms(1000);
    const struct wire_INDEX_DONE *q = &script_seen(WIRE_TYPE_INDEX_DONE, 0)->w.u.INDEX_DONE;
    ck_assert_uint_eq(q->rows, 3);
    ck_assert_uint_eq(q->digest, dataset_digest(input));
    ck_assert_uint_eq(q->split, WIRE_TRAIN);
    ck_assert_uint_eq(script_count(WIRE_TYPE_INDEX_DONE), _i == 5 ? 2 : 1);
    ck_assert_int_eq(script_count(WIRE_TYPE_PUSH) > 0, works);
    ck_assert_uint_eq(script_count(WIRE_TYPE_TASK_DONE), works ? 2 : 0);
    ck_assert_int_eq(host.proved[WIRE_TRAIN], works);
    ck_assert_uint_eq(aparts, _i == 1);
    ck_assert_int_eq(seat_is_free(seat), _i == 2 || _i == 3);
    ck_assert_uint_eq(unknown, _i == 6);
    ck_assert_uint_eq(fatals, 0);
}
END_TEST

START_TEST(seat_that_is_dropped_proves_nothing)
{
    input_open();
    next[0] = next[1] = task_of_lane();
    report_status[0] = SHOAL_E_AGAIN;
    seat_ask(seat);
    script_run_ms(5);
    seat_drop(seat);
    ck_assert(seat_is_free(seat));
    host.proved[WIRE_TRAIN] = true;
    seat_ask(seat);
    script_run_ms(1000);
    ck_assert_uint_eq(script_count(WIRE_TYPE_INDEX_DONE), 1);
    ck_assert_uint_eq(script_count(WIRE_TYPE_TASK_DONE), 1);
}
END_TEST

/* A worker that cannot read an input that others have read leaves without ending the job. */
START_TEST(seat_that_cannot_read_its_task_leaves_alone)
{
    static const int status[] = {SHOAL_E_NOINPUT, SHOAL_E_DATA, SHOAL_E_CHECKSUM, SHOAL_E_IO};
    next[0] = task_of_lane();
    ready_status = status[_i];
    seat_ask(seat);
    script_run_ms(10);
    ck_assert_uint_eq(aparts, _i < 3);
    ck_assert_uint_eq(fatals, _i == 3);
}
END_TEST

/* ---- reporting ------------------------------------------------------------------------------- */

static void much(struct lane_result *r)
{
    r->examples = 101;
    r->bad_lines = 102;
    r->drawn = 103;
    r->batches = 104;
    r->skipped = 105;
    r->measured = 106;
    r->refused = 107;
    r->loss_sum = 1.5;
    r->weight_task[0] = 2.5;
    r->weight_sum = 2.5;
    r->dense_norm = 3.5;
    r->row_norm = 4.5;
    r->lr_scale = 5.5f;
    r->experts = 8;
    (void)snprintf(r->bad_where, sizeof r->bad_where, "line 7");
    (void)snprintf(r->refused_where, sizeof r->refused_where, "row 8");
}

/* Every figure of the lane's result is reported, each in its own place. */
START_TEST(seat_reports_all_that_its_lane_found)
{
    next[0] = task_of_lane();
    found = much;
    seat_ask(seat);
    script_run_ms(100);
    const struct wire_TASK_DONE *q = &script_seen(WIRE_TYPE_TASK_DONE, 0)->w.u.TASK_DONE;
    ck_assert(q->pass == 71 && q->lane == 5 && q->generation == 9 && q->task == 3);
    ck_assert(q->examples == 101 && q->bad_lines == 102 && q->drawn == 103 && q->batches == 104);
    ck_assert(q->skipped == 105 && q->measured == 106 && q->refused == 107 && q->tasks == 1);
    ck_assert(q->loss_sum == 1.5 && q->weight_sum == 2.5 && q->dense_norm_sum == 3.5);
    ck_assert(q->row_norm_sum == 4.5 && q->lr_scale == 5.5f && q->experts == 8);
    ck_assert_str_eq(q->bad_where, "line 7");
    ck_assert_str_eq(q->refused_where, "row 8");
}
END_TEST

/* A label that some rows lack: 4 of 100 have it, with a loss of 0.5. Batches without any are not
 * losses of 0. */
static void rare(struct lane_result *r)
{
    r->examples = 100;
    r->loss_sum = 3;
    r->weight_sum = 100;
    r->loss_task[0] = 2;
    r->weight_task[0] = 4;
}

START_TEST(seat_reports_the_mean_loss_of_the_rows_that_have_the_label)
{
    next[0] = task_of_lane();
    found = rare;
    seat_ask(seat);
    script_run_ms(100);
    const struct script_seen *seen = script_seen(WIRE_TYPE_TASK_DONE, 0);
    ck_assert_double_eq(seen->w.u.TASK_DONE.loss_sum, 50);
    ck_assert_double_eq(seen->w.u.TASK_DONE.weight_sum, 100);
}
END_TEST

START_TEST(seat_reports_the_bad_lines_of_an_evaluation)
{
    next[0] = (struct wire_LANE_NEXT_reply){.kind = WIRE_NEXT_EVAL, .task = 8, .run = SCRIPT_RUN};
    found = much;
    seat_ask(seat);
    script_run_ms(100);
    const struct wire_EVAL_DONE *q = &script_seen(WIRE_TYPE_EVAL_DONE, 0)->w.u.EVAL_DONE;
    ck_assert(q->pass == 71 && q->task == 8 && q->bad_lines == 102);
}
END_TEST

/* A report that is refused for good is done as well: the coordinator has its reasons. */
START_TEST(seat_whose_report_is_refused_does_as_the_status_says)
{
    static const int status[] = {SHOAL_E_AGAIN, SHOAL_E_UNAVAILABLE, SHOAL_E_FENCED,
                                 SHOAL_E_OLD_RUN, SHOAL_E_CONFIG};
    next[0] = task_of_lane();
    report_status[0] = status[_i];
    seat_ask(seat);
    script_run_ms(200);
    ck_assert_uint_eq(script_count(WIRE_TYPE_TASK_DONE), _i == 0 ? 2 : 1);
    ck_assert_uint_eq(script_count(WIRE_TYPE_LANE_NEXT), _i == 0 || _i == 4 ? 2 : 1);
    ck_assert_uint_eq(unknown, _i == 1);
    ck_assert_int_eq(seat_is_free(seat), _i == 2 || _i == 3);
    ck_assert_uint_eq(fatals, 0);
}
END_TEST

/* An evaluation changes neither the lane nor the seat's wish for one. */
START_TEST(seat_after_an_evaluation_is_as_it_was)
{
    struct wire_LANE_NEXT_reply eval = {.kind = WIRE_NEXT_EVAL, .task = 8, .run = SCRIPT_RUN};
    next[0] = task_of_lane();
    next[_i] = eval; /* with a lane, or without */
    seat_ask(seat);
    script_run_ms(100);
    ck_assert_uint_eq(script_seen(WIRE_TYPE_EVAL_DONE, 0)->w.u.EVAL_DONE.task, 8);
    ck_assert_int_eq(seat_is_free(seat), _i == 0);
    ck_assert_uint_eq(script_count(WIRE_TYPE_LANE_NEXT), _i == 0 ? 1 : 3);
    if (_i == 1) {
        ck_assert_uint_eq(script_seen(WIRE_TYPE_LANE_NEXT, 2)->w.u.LANE_NEXT.lane, 5);
        ck_assert_uint_eq(script_seen(WIRE_TYPE_LANE_NEXT, 2)->w.u.LANE_NEXT.batch, 31);
    }
}
END_TEST

/* An input that cannot be read ends the job; for an object the coordinator decides. A replay then
 * has no windows. */
START_TEST(seat_says_what_it_could_not_index)
{
    bool object = _i == 1;
    next[0] = (struct wire_LANE_NEXT_reply){
        .kind = WIRE_NEXT_INDEX, .split = WIRE_TRAIN, .object = object ? 7 : 0};
    ready_status = SHOAL_E_NOINPUT;
    script.job.replay.on = _i == 2;
    seat_ask(seat);
    script_run_ms(10);
    script.job.replay.on = false;
    if (object) {
        const struct wire_OBJECT_DONE *q = &script_seen(WIRE_TYPE_OBJECT_DONE, 0)->w.u.OBJECT_DONE;
        ck_assert_uint_eq(q->object, 6); /* objects are numbered from 0 there */
        ck_assert_int_eq(q->fail_status, SHOAL_E_NOINPUT);
        ck_assert_str_eq(q->fail_text, "scripted");
    } else {
        const struct wire_INDEX_DONE *q = &script_seen(WIRE_TYPE_INDEX_DONE, 0)->w.u.INDEX_DONE;
        ck_assert_uint_eq(q->split, WIRE_TRAIN);
        ck_assert_int_eq(q->fail_status, SHOAL_E_NOINPUT);
        ck_assert_str_eq(q->fail_text, "scripted");
    }
    ck_assert_uint_eq(fatals, !object);
    ck_assert_int_eq(fatal_status, object ? 0 : SHOAL_E_NOINPUT);
    ck_assert_int_eq(seat_is_free(seat), object);
}
END_TEST

/* In any state, nothing more is sent, and the next question is that of a new seat. */
START_TEST(seat_that_is_dropped_has_no_lane)
{
    next[0] = task_of_lane();
    next[1] = task_of_lane();
    push_status = _i == 0 ? SHOAL_E_TIMEOUT : 0;
    if (_i == 1)
        report_status[0] = SHOAL_E_AGAIN;
    seat_ask(seat);
    script_run_ms(_i == 2 ? 0 : 10);
    seat_drop(seat);
    ck_assert_uint_eq(seat_lane(seat), SEAT_NO_LANE);
    ck_assert_uint_eq(seat_generation(seat), 0);
    uint32_t before = script.count;
    script_run_ms(6000);
    ck_assert(seat_is_free(seat));
    ck_assert_uint_le(script.count - before, _i == 2); /* messages in the network */
}
END_TEST

START_TEST(seat_ends_with_the_job)
{
    next[0] = (struct wire_LANE_NEXT_reply){.kind = _i == 0 ? WIRE_NEXT_END : 99};
    seat_ask(seat);
    script_run_ms(10);
    ck_assert_uint_eq(ended, _i == 0);
    ck_assert_int_eq(fatal_status, _i == 0 ? 0 : SHOAL_E_MALFORMED);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("seat");
    TCase *c = suite_case(s, "seat", 60, setup, teardown);
    tcase_add_loop_test(c, seat_waits_as_it_is_told_within_bounds, 0, 8);
    tcase_add_test(c, seat_without_a_lane_says_how_many_the_worker_has);
    tcase_add_loop_test(c, seat_that_is_refused_what_it_asks_does_as_the_status_says, 0, 5);
    tcase_add_test(c, seat_leaves_a_lane_that_another_has);
    tcase_add_loop_test(c, seat_that_has_work_lets_another_ask, 0, 3);
    tcase_add_test(c, seat_goes_on_with_its_lane_from_what_is_done);
    tcase_add_loop_test(c, seat_whose_pushes_are_refused_does_as_the_status_says, 0, 4);
    tcase_add_loop_test(c, seat_whose_device_fails_ends_the_worker_alone, 0, 2);
    tcase_add_test(c, seat_reports_all_that_its_lane_found);
    tcase_add_test(c, seat_reports_the_mean_loss_of_the_rows_that_have_the_label);
    tcase_add_test(c, seat_reports_the_bad_lines_of_an_evaluation);
    tcase_add_loop_test(c, seat_whose_report_is_refused_does_as_the_status_says, 0, 5);
    tcase_add_loop_test(c, seat_after_an_evaluation_is_as_it_was, 0, 2);
    tcase_add_loop_test(c, seat_says_what_it_could_not_index, 0, 3);
    tcase_add_loop_test(c, seat_proves_its_input_before_it_begins, 0, 7);
    tcase_add_test(c, seat_that_is_dropped_proves_nothing);
    tcase_add_loop_test(c, seat_that_cannot_read_its_task_leaves_alone, 0, 4);
    tcase_add_loop_test(c, seat_that_is_dropped_has_no_lane, 0, 3);
    tcase_add_loop_test(c, seat_ends_with_the_job, 0, 2);
    return suite_main(s);
}
