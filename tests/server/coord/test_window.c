/* test_window.c: figures of training by window: each task counts once, over joined windows,
 * restarts and epochs. */
#include "server/coord/figures/progressive.h"
#include "server/coord/job/slot.h"
#include "server/coord/keep/saved.h"
#include "tests/lib/suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

enum { TASKS = 100, EPOCHS = 3, JOB = 7 };

static struct coord c;
static struct coord_epoch epochs[EPOCHS]; /* finished ones have their job */

/* A coordinator that starts, or restarts, on this store: an epoch has 100 tasks of one batch
 * each. */
static void begin(struct coord_store *store, uint64_t number, uint32_t epoch)
{
    struct err e = {0};
    struct coord_job *j = &c.slot[0];
    c = (struct coord){.fleet.store = store, .slot[0].store = store};
    coord_slot_wire(&c);
    j->parsed = true;
    j->epoch = epochs;
    j->at.number = number;
    j->at.epoch = epoch;
    j->spec.train.epochs = EPOCHS;
    j->spec.train.batch = 10;
    j->at.split[WIRE_TRAIN].rows = TASKS * 10;
    ck_assert_int_eq(coord_task_open(j->tasks, 1, WIRE_ASYNC, &e), 0);
    ck_assert_int_eq(coord_task_plan(j->tasks, epoch, &(struct coord_segment){.rows = TASKS * 10},
                                     1, 10, 1, 0, &e),
                     0);
    ck_assert_int_eq(coord_progressive_open(j->windows, &j->spec, EPOCHS, &e), 0);
    ck_assert_int_eq(coord_progressive_load(&c.slot[0], &e), 0);
}

static void end(void)
{
    coord_progressive_close(c.slot[0].windows);
    coord_task_close(c.slot[0].tasks);
}

/* Counts a task with its number plus one examples. */
static void count(uint32_t task)
{
    struct metric_tally *told = &c.slot[0].windows->told[0];
    *told = (struct metric_tally){.loss = 0};
    for (uint32_t i = 0; i <= task; i++)
        metric_tally_add(told, 0.5f, (float)(i % 2), 0.7);
    ck_assert(coord_progressive_count(&c.slot[0], task));
}

static uint64_t sum(uint32_t from, uint32_t to)
{
    return (uint64_t)to * (to + 1) / 2 - (uint64_t)from * (from + 1) / 2;
}

/* Returns the examples of all tasks before the n-th of the job. */
static uint64_t before(uint64_t n)
{
    return n / TASKS * sum(0, TASKS) + sum(0, (uint32_t)(n % TASKS));
}

/* Checks the windows after `tasks` tasks were counted. */
static void check(uint64_t tasks)
{
    const struct coord_progressive *w = c.slot[0].windows;
    struct metric of;
    uint32_t windows = (uint32_t)((tasks + w->stride - 1) / w->stride);
    ck_assert(tasks <= w->stride * COORD_WINDOWS_MAX &&
              (w->stride == 1 || tasks > w->stride / 2 * COORD_WINDOWS_MAX));
    for (uint32_t n = 0; n < COORD_WINDOWS_MAX; n++) {
        uint64_t to = (n + 1) * w->stride < tasks ? (n + 1) * w->stride : tasks;
        ck_assert_int_eq(coord_progressive_figures(w, n, &of), n < windows);
        if (n < windows)
            ck_assert_uint_eq(of.examples, before(to) - before(n * w->stride));
    }
    ck_assert(coord_progressive_all(w, &of));
    ck_assert_uint_eq(of.examples, before(tasks));
    ck_assert(coord_progressive_newest(w, &of));
    ck_assert_uint_eq(of.examples,
                      before(tasks) - before(windows > 2 ? (windows - 2) * w->stride : 0));
}

START_TEST(coord_windows_have_every_task_once)
{
    memset(epochs, 0, sizeof epochs);
    struct coord_store *store = coord_store_memory();
    struct metric of;
    begin(store, JOB, 1);
    ck_assert(!coord_progressive_all(c.slot[0].windows, &of));
    for (uint32_t epoch = 1; epoch <= EPOCHS; epoch++) {
        for (uint32_t t = 0; t < TASKS; t++) {
            uint64_t tasks = (uint64_t)(epoch - 1) * TASKS + t + 1;
            count(t);
            check(tasks);
            if (t % 29 == 28) { /* killed */
                end();
                begin(store, JOB, epoch);
                check(tasks);
                uint64_t stride = c.slot[0].windows->stride;
                ck_assert_uint_eq(c.slot[0].windows->serial,
                                  (tasks + stride - 1) / stride * stride);
            }
            if (t % 29 == 10) {
                ck_assert(coord_progressive_recent(c.slot[0].windows, &of));
                ck_assert_uint_eq(of.examples, sum(t - 10, t + 1));
                ck_assert(!coord_progressive_recent(c.slot[0].windows, &of));
            }
        }
        (void)coord_progressive_recent(c.slot[0].windows, &of);
        ck_assert(coord_progressive_epoch(&c.slot[0]));
        ck_assert_uint_eq(c.slot[0].windows->trained[epoch - 1].of[0].examples, sum(0, TASKS));
        ck_assert_uint_eq(metric_tally_examples(c.slot[0].windows->epoch), 0);
        c.slot[0].epoch[epoch - 1].number = JOB;
        end();
        begin(store, JOB, epoch); /* killed after its end */
        ck_assert_uint_eq(metric_tally_examples(c.slot[0].windows->epoch), 0);
        end();
        begin(store, JOB, epoch < EPOCHS ? epoch + 1 : epoch); /* and in the next epoch */
        for (uint32_t n = 0; n < EPOCHS; n++)
            ck_assert_uint_eq(c.slot[0].windows->trained[n].of[0].examples,
                              n < epoch ? sum(0, TASKS) : 0);
        ck_assert_uint_eq(metric_tally_examples(c.slot[0].windows->epoch), 0);
    }
    end();
    begin(store, JOB + 1, EPOCHS); /* another job finds none of it */
    ck_assert(!coord_progressive_all(c.slot[0].windows, &of));
    ck_assert_uint_eq(c.slot[0].windows->trained[0].of[0].examples, 0);
    end();
    coord_store_close(store);
}
END_TEST

/* A checkpoint that has one row. */
static struct coord_store *rows_of(const char *key, struct coord_store *from)
{
    struct coord_store *rows = coord_store_memory();
    void *value;
    size_t bytes;
    ck_assert_int_eq(coord_store_get(from, key, &value, &bytes, NULL), 0);
    ck_assert_int_eq(coord_store_put(rows, key, value, bytes, NULL), 0);
    free(value);
    return rows;
}

/* A job goes back to a checkpoint: windows that were stored later do not count any more. */
START_TEST(coord_windows_are_forgotten_from_an_epoch_on)
{
    memset(epochs, 0, sizeof epochs);
    struct coord_store *store = coord_store_memory();
    struct metric of;
    begin(store, JOB, 1);
    for (uint32_t epoch = 1; epoch <= EPOCHS; epoch++) {
        for (uint32_t t = 0; t < TASKS; t++)
            count(t);
        if (epoch < EPOCHS) {
            ck_assert(coord_progressive_epoch(&c.slot[0]));
            end();
            begin(store, JOB, epoch + 1);
        }
    }
    struct coord_saved saved = {.rows = rows_of("trained/1", store)};
    ck_assert(coord_saved_put(&c.slot[0], &saved, JOB));
    coord_saved_close(&saved);
    end();
    begin(store, JOB, EPOCHS);
    ck_assert(!coord_progressive_all(c.slot[0].windows, &of));
    ck_assert_uint_eq(metric_tally_examples(c.slot[0].windows->epoch), 0);
    ck_assert_uint_eq(c.slot[0].windows->trained[0].of[0].examples, sum(0, TASKS));
    ck_assert_uint_eq(c.slot[0].windows->trained[1].of[0].examples, 0);
    end();
    coord_store_close(store);
}
END_TEST

/* Windows of four tasks: the 25th ends with the first epoch, the next one is of the second. No
 * window ends behind the trained tasks. */
START_TEST(coord_windows_end_where_their_last_task_does)
{
    static const struct {
        uint32_t n;
        uint64_t trained, end;
        uint32_t epoch;
    } cases[] = {{0, 1000, 4, 1},   {24, 1000, 100, 1}, {25, 1000, 104, 2}, {49, 1000, 200, 2},
                 {25, 103, 103, 2}, {25, 101, 101, 2},  {24, 100, 100, 1},  {24, 99, 99, 1}};
    struct coord_store *store = coord_store_memory();
    begin(store, JOB, 1);
    c.slot[0].windows->stride = 4;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint32_t epoch = 0;
        ck_assert_uint_eq(coord_progressive_end(&c.slot[0], cases[i].n, cases[i].trained, &epoch),
                          cases[i].end);
        ck_assert_uint_eq(epoch, cases[i].epoch);
    }
    end();
    coord_store_close(store);
}
END_TEST

/* Counts `examples` examples for one task, with a loss of 0.75 each. */
static void count_many(uint32_t task, uint64_t examples)
{
    struct metric_tally *told = &c.slot[0].windows->told[0];
    *told = (struct metric_tally){.loss = examples * (METRIC_TALLY_ONE / 4 * 3),
                                  .predicted = examples * (METRIC_TALLY_ONE / 2)};
    told->positives[METRIC_TALLY_CELLS / 2] = examples / 2;
    told->negatives[METRIC_TALLY_CELLS / 2] = examples / 2;
    ck_assert(coord_progressive_count(&c.slot[0], task));
}

/* More examples than one message can report: the stored sums are restored and do not wrap. */
START_TEST(coord_windows_count_as_many_as_there_are)
{
    const uint64_t many = UINT64_C(60000000000);
    struct coord_store *store = coord_store_memory();
    struct metric of;
    begin(store, JOB, 1);
    count_many(0, many);
    end();
    begin(store, JOB, 1); /* killed in the epoch */
    ck_assert_uint_eq(metric_tally_examples(c.slot[0].windows->epoch), many);
    ck_assert(coord_progressive_figures(c.slot[0].windows, 0, &of));
    ck_assert_uint_eq(of.examples, many);
    for (uint32_t t = 1; t < 4; t++)
        count_many(t, many);
    ck_assert(coord_progressive_all(c.slot[0].windows, &of));
    ck_assert_uint_eq(of.examples, 4 * many);
    ck_assert_double_eq_tol(of.logloss, 0.75, 1e-9);
    ck_assert_double_eq_tol(of.calibration, 1, 1e-9);
    end();
    coord_store_close(store);
}
END_TEST

/* With objects that are dealt the number of an epoch's tasks depends on its drawn order. */
START_TEST(coord_windows_follow_epochs_of_any_number_of_tasks)
{
    struct coord_store *store = coord_store_memory();
    struct metric of;
    memset(epochs, 0, sizeof epochs);
    begin(store, JOB, 1);
    c.slot[0].spec.data.objects.of[WIRE_TRAIN].on = true;
    c.slot[0].source = coord_source_of(&c.slot[0].spec);
    c.slot[0].tasks->dealt = true;
    for (uint32_t t = 0; t < TASKS; t++)
        count(t);
    c.slot[0].tasks->epoch = 2;
    c.slot[0].tasks->tasks = TASKS / 2;
    for (uint32_t t = 0; t < 10; t++)
        count(t);
    ck_assert(coord_progressive_newest(c.slot[0].windows, &of));
    ck_assert_uint_eq(of.examples, sum(8, 10));
    c.slot[0].tasks->tasks = TASKS;
    end();
    coord_store_close(store);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("coord_window");
    TCase *t = suite_case(s, "window", 60, NULL, NULL);
    tcase_add_test(t, coord_windows_have_every_task_once);
    tcase_add_test(t, coord_windows_are_forgotten_from_an_epoch_on);
    tcase_add_test(t, coord_windows_count_as_many_as_there_are);
    tcase_add_test(t, coord_windows_follow_epochs_of_any_number_of_tasks);
    tcase_add_test(t, coord_windows_end_where_their_last_task_does);
    return suite_main(s);
}
