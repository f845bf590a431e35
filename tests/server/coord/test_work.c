/* test_work.c: a worker's report of a task: possible values are accepted, and each bound is
 * exact. */
#include "server/coord/job/handle.h"
#include "server/coord/job/slot.h"
#include "tests/lib/suite.h"

#include <check.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

enum { ROWS = 95, BATCHES = 10, WORKER = 5 };

static uint64_t now_of(struct env *of)
{
    (void)of;
    return 1;
}
static const struct env_ops ops = {.now_ns = now_of};
static struct env env = {.ops = &ops};

static struct coord c;
static struct coord_worker worker;
static struct table_schema table[LIMIT_TABLES];
static struct wire w;

/* A job of one task in lane 0, which the worker holds. The task has been reported already, so that
 * a valid report has no further effect. */
static void setup(void)
{
    struct err e = {0};
    c = (struct coord){.slots = 1};
    coord_slot_wire(&c);
    struct coord_tasks *t = c.slot[0].tasks;
    worker = (struct coord_worker){.number = WORKER};
    c.slot[0].table = table;
    c.slot[0].at.phase = PHASE_TRAIN;
    c.slot[0].at.epoch = 1;
    c.slot[0].spec.train.batch = 10;
    ck_assert_int_eq(coord_task_open(t, 1, WIRE_ASYNC, &e), 0);
    ck_assert_int_eq(
        coord_task_plan(t, 1, &(struct coord_segment){.rows = ROWS}, 1, 10, BATCHES, 0, &e), 0);
    ck_assert_uint_eq(t->tasks, 1);
    ck_assert_uint_eq(t->task[0].batch_count, BATCHES);
    t->lane[0].state = LANE_HELD;
    t->lane[0].worker = WORKER;
    t->lane[0].generation = 3;
    ck_assert_uint_eq(coord_task_append(t, 0), 0);
    t->task[0].reported = true;
    ck_assert_int_eq(coord_progressive_open(c.slot[0].windows, &c.slot[0].spec, 1, &e), 0);
}

static void teardown(void)
{
    coord_progressive_close(c.slot[0].windows);
    coord_task_close(c.slot[0].tasks);
}

/* Returns the report of a worker that has done all. */
static struct wire_TASK_DONE good(void)
{
    return (struct wire_TASK_DONE){.lane = 0,
                                   .generation = 3,
                                   .task = coord_task_number(c.slot[0].tasks, 0),
                                   .examples = ROWS,
                                   .drawn = ROWS,
                                   .loss_sum = 1,
                                   .weight_sum = ROWS,
                                   .batches = BATCHES,
                                   .measured = BATCHES,
                                   .skipped = BATCHES,
                                   .refused = BATCHES,
                                   .lr_scale = 1,
                                   .tasks = 1};
}

static int report(struct wire_TASK_DONE q, double loss)
{
    static struct metric_tally tally;
    static struct metric_tally_entry entry[METRIC_TALLY_CELLS];
    struct metric_tally_sums sums;
    const uint64_t histogram[64] = {0};
    struct coord_ask a = {.worker = &worker, .request = &w};
    struct msg *m = msg_new();
    memset(&tally, 0, sizeof tally);
    for (uint64_t i = 0; i < q.examples; i++)
        metric_tally_add(&tally, 0.5f, 1, 0.7);
    q.cells = metric_tally_put(&tally, 1, &sums, entry);
    w = (struct wire){.type = WIRE_TYPE_TASK_DONE};
    w.u.TASK_DONE = q;
    (void)msg_add(m, 0);
    memcpy(msg_add(m, sizeof histogram), histogram, sizeof histogram);
    char *at = msg_add(m, sizeof loss + sizeof sums + q.cells * sizeof entry[0]);
    memcpy(at, &loss, sizeof loss);
    memcpy(at + sizeof loss, &sums, sizeof sums);
    memcpy(at + sizeof loss + sizeof sums, entry, q.cells * sizeof entry[0]);
    a.m = m;
    int rc = coord_handle_task(&c.slot[0], &a);
    msg_free(m);
    return rc;
}

START_TEST(coord_reports_may_say_all_there_can_be)
{
    struct wire_TASK_DONE q = good();
    ck_assert_int_eq(report(q, 1), 0);
    q.bad_lines = ROWS; /* all lines, and no example */
    q.examples = 0;
    ck_assert_int_eq(report(q, 0), 0);
    q.drawn = q.bad_lines = 0;
    q.measured = q.skipped = q.batches = q.refused = 0;
    q.weight_sum = q.loss_sum = 0;
    ck_assert_int_eq(report(q, 0), 0);
}
END_TEST

/* One impossible value at a time. */
START_TEST(coord_reports_that_cannot_be_are_refused)
{
    struct wire_TASK_DONE q = good();
    double loss = 1;
    int expected = SHOAL_E_MALFORMED;
    switch (_i) {
    case 0:
        q.examples = ROWS + 1;
        break;
    case 1:
        q.drawn = ROWS + 1;
        break;
    case 2:
        q.examples = 0, q.drawn = 7, q.bad_lines = 8;
        break;
    case 3:
        q.refused = BATCHES + 1;
        break;
    case 4:
        q.measured = BATCHES + 1;
        break;
    case 5:
        q.skipped = BATCHES + 1;
        break;
    case 6:
        q.tasks = 2;
        break;
    case 7:
        q.weight_sum = -1;
        break;
    case 8:
        q.loss_sum = (double)INFINITY;
        break;
    case 9:
        loss = (double)NAN;
        break;
    case 10:
        q.dense_norm_sum = -1;
        break;
    case 11:
        q.row_norm_sum = -1;
        break;
    case 12:
        q.lr_scale = NAN;
        break;
    case 13:
        q.by_count = 1;
        break;
    case 14:
        q.experts = 1; /* of a model that has none */
        break;
    case 15:
        q.lane = 1, expected = SHOAL_E_FENCED;
        break;
    case 16:
        q.generation = 2, expected = SHOAL_E_FENCED;
        break;
    case 17:
        q.task++, expected = SHOAL_E_FENCED;
        break;
    case 18:
        worker.number++, expected = SHOAL_E_FENCED;
        break;
    default:
        c.slot[0].at.phase = PHASE_EVAL, expected = SHOAL_E_FENCED;
    }
    ck_assert_int_eq(report(q, loss), expected);
}
END_TEST

/* No row of a task has a label: its values count all rows, and none is left over. */
START_TEST(coord_values_without_labels_count_their_rows)
{
    struct coord_progressive *windows = c.slot[0].windows;
    struct wire_TASK_DONE q = good();
    struct err e;
    struct {
        double loss;
        struct metric_tally_sums sums;
        struct metric_by_head head;
        struct metric_by_told told;
        struct metric_by_task task;
        struct metric_by_more more;
    } frame = {.told = {.key = 7, .examples = ROWS}};
    coord_progressive_close(windows);
    c.slot[0].spec.evaluate.by.count = 1;
    ck_assert_int_eq(coord_progressive_open(windows, &c.slot[0].spec, 1, &e), 0);
    q.by_count = q.values = 1;
    q.more = true;
    ck_assert(coord_progressive_told(&c.slot[0], &q, &frame));
    coord_progressive_by(windows, windows->by);
    ck_assert_uint_eq(windows->by[0].rest_examples, 0);
    c.slot[0].spec.evaluate.by.count = 0;
}
END_TEST

/* The first five different ones, in the order of their reports. */
START_TEST(coord_bad_lines_are_named_once_each)
{
    static const char *const heard[] = {"a:1", "", "a:2", "a:1", "a:3", "a:4", "a:4", "a:5", "a:6"};
    struct wire_TASK_DONE q = good();
    struct err e = {0};
    ck_assert_uint_eq(COORD_BAD_TOLD, 5);
    ck_assert_int_eq(coord_curve_open(&c.slot[0].trace->curve, &e), 0);
    c.fleet.env = &env;
    c.slot[0].spec.train.epochs = 1;
    c.fleet.store = coord_store_memory();
    c.slot[0].store = c.fleet.store;
    q.examples = q.refused = 0;
    for (size_t i = 0; i < sizeof heard / sizeof heard[0]; i++) {
        c.slot[0].tasks->task[0].reported = false;
        c.slot[0].tasks->reported = 0;
        (void)snprintf(q.bad_where, sizeof q.bad_where, "%s", heard[i]);
        ck_assert_int_eq(report(q, 1), 0);
    }
    ck_assert_uint_eq(c.slot[0].bad_told, COORD_BAD_TOLD);
    for (uint32_t i = 0; i < COORD_BAD_TOLD; i++) {
        char where[8];
        (void)snprintf(where, sizeof where, "a:%u", i + 1);
        ck_assert_str_eq(c.slot[0].bad_where[i], where);
    }
    coord_store_close(c.fleet.store);
    coord_curve_close(&c.slot[0].trace->curve);
}
END_TEST

/* An older worker adds up values that overflowed: the rest of its report is valid. */
START_TEST(coord_norms_that_are_not_finite_are_not_known)
{
    static const double sum[] = {INFINITY, NAN, 20};
    struct wire_TASK_DONE q = good();
    const struct coord_point *p = &c.slot[0].trace->recent;
    struct err e = {0};
    ck_assert_int_eq(coord_curve_open(&c.slot[0].trace->curve, &e), 0);
    c.fleet.env = &env;
    c.slot[0].spec.train.epochs = 1;
    c.fleet.store = coord_store_memory();
    c.slot[0].store = c.fleet.store;
    c.slot[0].tasks->task[0].reported = false;
    q.refused = 0;
    q.dense_norm_sum = _i < 3 ? sum[_i] : 20;
    q.row_norm_sum = _i < 3 ? 30 : sum[_i - 3];
    bool known = isfinite(q.dense_norm_sum) && isfinite(q.row_norm_sum);
    ck_assert_int_eq(report(q, 1), 0);
    ck_assert_uint_eq(p->batches, BATCHES);
    ck_assert_uint_eq(p->examples, ROWS);
    ck_assert_uint_eq(p->measured, known ? BATCHES : 0);
    ck_assert_double_eq(p->dense_norm, known ? 20 : 0);
    ck_assert_double_eq(p->row_norm, known ? q.row_norm_sum : 0);
    coord_store_close(c.fleet.store);
    coord_curve_close(&c.slot[0].trace->curve);
}
END_TEST

static int declare(uint32_t number, uint32_t total, uint32_t width)
{
    static const struct wire_TABLE_CREATE blank;
    struct table_schema s = {.width = width,
                             .table = number,
                             .tablet_bits = 4,
                             .seed = 1,
                             .optimizer = {.kind = OPT_SGD, .lr = 1}};
    struct wire_TABLE_CREATE create = blank;
    struct coord_ask a = {.worker = &worker, .request = &w};
    struct msg *m = msg_new();
    (void)snprintf(s.name, sizeof s.name, "t%u", number);
    wire_schema_to(&s, &create);
    w = (struct wire){.type = WIRE_TYPE_TABLE_DECLARE};
    memcpy(&w.u.TABLE_DECLARE, &create, offsetof(struct wire_TABLE_DECLARE, declared_total));
    w.u.TABLE_DECLARE.declared_total = total;
    (void)msg_add(m, 0);
    (void)msg_add(m, 0);
    a.m = m;
    int rc = coord_handle_declare(&c.slot[0], &a);
    msg_free(m);
    return rc;
}

/* All workers of a job declare the same tables, from the first to the last. */
START_TEST(coord_tables_are_declared_alike)
{
    ck_assert_int_eq(declare(0, 0, 2), SHOAL_E_SCHEMA);
    ck_assert_int_eq(declare(0, LIMIT_TABLES + 1, 2), SHOAL_E_SCHEMA);
    ck_assert_int_eq(declare(2, 2, 2), SHOAL_E_SCHEMA);
    ck_assert_uint_eq(c.slot[0].declared_total, 0);
    ck_assert_int_eq(declare(1, 2, 2), 0);
    ck_assert_uint_eq(c.slot[0].declared_total, 2);
    ck_assert_int_eq(declare(0, 3, 2), SHOAL_E_SCHEMA);
    ck_assert_int_eq(declare(0, 1, 2), SHOAL_E_SCHEMA);
    ck_assert(!c.slot[0].declared[0]);
    ck_assert_int_eq(declare(1, 2, 2), 0);
    ck_assert_int_eq(declare(1, 2, 3), SHOAL_E_SCHEMA);
    ck_assert_int_eq(declare(0, 2, 3), 0);
    ck_assert(c.slot[0].declared[0] && c.slot[0].table[1].width == 2);
}
END_TEST

static int index_done(uint32_t split, int status, const char *text)
{
    struct coord_ask a = {.worker = &worker, .request = &w};
    w = (struct wire){.type = WIRE_TYPE_INDEX_DONE};
    w.u.INDEX_DONE =
        (struct wire_INDEX_DONE){.split = split, .rows = ROWS, .digest = 7, .fail_status = status};
    (void)snprintf(w.u.INDEX_DONE.fail_text, sizeof w.u.INDEX_DONE.fail_text, "%s", text);
    return coord_handle_index(&c.slot[0], &a);
}

/* In a split of objects each object is reported separately. A report for the whole split used to
 * make it known without objects: its tasks had none, and the look-up of their holder read outside
 * the array. */
START_TEST(coord_index_of_objects_is_not_told_as_one)
{
    c.slot[0].at.split[WIRE_TRAIN].used = c.slot[0].at.split[WIRE_VALID].used = 1;
    c.slot[0].spec.data.objects.of[WIRE_TRAIN].on = true;
    ck_assert_int_eq(index_done(WIRE_TRAIN, 0, ""), SHOAL_E_MALFORMED);
    ck_assert_int_eq(index_done(WIRE_TRAIN, SHOAL_E_DATA, "bad"), SHOAL_E_MALFORMED);
    ck_assert_uint_eq(c.slot[0].at.split[WIRE_TRAIN].known, 0);
    ck_assert_uint_eq(c.slot[0].at.phase, PHASE_TRAIN);
    ck_assert_int_eq(index_done(WIRE_VALID, 0, ""), 0);
    ck_assert_uint_eq(c.slot[0].at.split[WIRE_VALID].known, 1);
}
END_TEST

/* Its tasks would be evaluated, although the job did not ask for it. */
START_TEST(coord_objects_of_a_split_that_is_not_used_are_none)
{
    struct msg m = {.frame_count = 3};
    struct coord_ask a = {.worker = &worker, .request = &w, .m = &m};
    c.fleet.env = &env;
    c.slot[0].spec.data.objects.of[WIRE_TEST].on = true;
    w = (struct wire){.type = WIRE_TYPE_OBJECTS};
    w.u.OBJECTS = (struct wire_OBJECTS){.split = WIRE_TEST, .count = 1};
    m.frame[1].data = "a\n";
    m.frame[1].bytes = 2;
    ck_assert_int_eq(coord_handle_objects(&c.slot[0], &a), 0);
    ck_assert_uint_eq(c.slot[0].objects[WIRE_TEST].count, 0);
    w = (struct wire){.type = WIRE_TYPE_OBJECT_DONE};
    w.u.OBJECT_DONE = (struct wire_OBJECT_DONE){.split = WIRE_TEST};
    ck_assert_int_eq(coord_handle_object(&c.slot[0], &a), SHOAL_E_MALFORMED);
}
END_TEST

START_TEST(coord_reports_are_of_tasks_of_the_lane)
{
    struct wire_TASK_DONE q = good();
    c.slot[0].tasks->task[0].lane = 1;
    ck_assert_int_eq(report(q, 1), SHOAL_E_FENCED);
    c.slot[0].tasks->task[0].lane = 0;
    c.slot[0].tasks->task[0].first_batch = 0; /* not granted yet */
    ck_assert_int_eq(report(q, 1), SHOAL_E_FENCED);
    c.slot[0].tasks->task[0].first_batch = 1;
    ck_assert_int_eq(report(q, 1), 0);
}
END_TEST

START_TEST(coord_failures_without_a_word_are_said_to_be)
{
    static const struct coord_worker of = {.name = "w"};
    struct err e;
    ck_assert_int_eq(coord_worker_failed(&of, SHOAL_E_IO, "no such file", &e), SHOAL_E_IO);
    ck_assert_str_eq(e.text, "worker w: no such file");
    ck_assert_int_eq(coord_worker_failed(&of, 0, "", &e), SHOAL_E_INTERNAL);
    ck_assert_str_eq(e.text, "worker w: it gave no reason");
}
END_TEST

int main(void)
{
    Suite *s = suite_create("coord_work");
    TCase *t = suite_case(s, "work", 60, setup, teardown);
    tcase_add_test(t, coord_reports_may_say_all_there_can_be);
    tcase_add_test(t, coord_bad_lines_are_named_once_each);
    tcase_add_test(t, coord_values_without_labels_count_their_rows);
    tcase_add_test(t, coord_tables_are_declared_alike);
    tcase_add_test(t, coord_index_of_objects_is_not_told_as_one);
    tcase_add_test(t, coord_objects_of_a_split_that_is_not_used_are_none);
    tcase_add_test(t, coord_reports_are_of_tasks_of_the_lane);
    tcase_add_test(t, coord_failures_without_a_word_are_said_to_be);
    tcase_add_loop_test(t, coord_norms_that_are_not_finite_are_not_known, 0, 6);
    tcase_add_loop_test(t, coord_reports_that_cannot_be_are_refused, 0, 20);
    return suite_main(s);
}
