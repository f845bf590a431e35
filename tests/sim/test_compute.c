/* test_compute.c: whole jobs whose model is checked, replaced or broken: every model_train of the
 * cluster's workers is wrapped here (the linker's --wrap).
 *
 * The bound. The data has one value in every line, so its row is in every batch; the replaced
 * model adds 1 to this row's float number `lane` with each batch. The row therefore counts the
 * batches of each lane that it has, and the tests compare the shards' clocks of these batches with
 * the bound; of its own lane it must have all batches before, however far the lane looks ahead.
 *
 * Broken devices. From some step on a worker's device fails: the worker must leave with status 69
 * or 70, and the job must end as without the failure. */
#include "dense/model.h"
#include "proto/base/key.h"
#include "proto/wire/wire.h"
#include "server/coord/job/slot.h"
#include "server/coord/work/task.h"
#include "server/shard/shard.h"
#include "tests/lib/dense_case.h"
#include "tests/lib/sim_play.h"
#include "tests/lib/suite.h"
#include "tests/lib/worker_files.h"

#include <check.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 1600 };

static struct backend *backend;
static struct cluster cluster;
static char yaml[2048];

/* Settings and results of the replaced model. */
static struct {
    bool counts;           /* gradients are counts of batches, rows are checked */
    uint32_t staleness;    /* the bound for that check */
    uint32_t skip_every;   /* one of this many batches is skipped; 0: none */
    uint32_t poison_every; /* one of this many batches has a gradient that is not finite; 0: none */
    /* the device that gets this step fails, then and at every later call; 0: none */
    uint64_t fail_at;
    int fail_status;
    bool pinned;   /* arrays are checked */
    uint32_t seen; /* arrays that were seen, a bit each */
    bool fail_new; /* making the next run fails with fail_status */
    const struct model_run *failed;
    uint64_t steps, broken, skipped;
    uint64_t unseen; /* batches whose row lacks an own push */
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
const char *__real_model_run_error(const struct model_run *r);
const char *__wrap_model_run_error(const struct model_run *r);

/* ---- the arrays that go to a device ---------------------------------------------------------- */

void *__real_backend_host_alloc(const struct backend *b, size_t bytes);
void *__wrap_backend_host_alloc(const struct backend *b, size_t bytes);
void __real_backend_host_free(const struct backend *b, void *p);
void __wrap_backend_host_free(const struct backend *b, void *p);

/* Memory from host_alloc that is not freed. */
static struct pinned {
    const char *at;
    size_t bytes;
} pinned[4096];
static uint32_t pinned_count;

void *__wrap_backend_host_alloc(const struct backend *b, size_t bytes)
{
    char *p = __real_backend_host_alloc(b, bytes);
    ck_assert_uint_lt(pinned_count, 4096);
    if (p != NULL)
        pinned[pinned_count++] = (struct pinned){p, bytes};
    return p;
}

void __wrap_backend_host_free(const struct backend *b, void *p)
{
    for (uint32_t i = 0; i < pinned_count; i++)
        if (p != NULL && pinned[i].at == p)
            pinned[i] = pinned[--pinned_count];
    __real_backend_host_free(b, p);
}

static void pinned_check(const char *name, const void *array, size_t bytes)
{
    const char *at = array;
    for (uint32_t i = 0; i < pinned_count && at != NULL; i++)
        if (pinned[i].at <= at && at + bytes <= pinned[i].at + pinned[i].bytes)
            return;
    ck_assert_msg(at == NULL, "%s, %zu bytes, is not of backend_host_alloc", name, bytes);
}

/* Checks the arrays that dense/model/run_input.c uploads and downloads. */
static void arrays_check(const struct model *m, const struct model_input *in,
                         const struct model_output *out, bool train)
{
    size_t f = sizeof(float), width = model_row_width(m), n = in->examples;
    play.seen |= (in->weight != NULL) << 0 | (in->numeric != NULL) << 1 |
                 (in->offset != NULL) << 2 | (in->dense != NULL) << 3 | (in->stats != NULL) << 4 |
                 train << 5 | !train << 6;
    pinned_check("label", in->label, n * f);
    pinned_check("weight", in->weight, n * f);
    pinned_check("numeric", in->numeric, n * f);
    pinned_check("index", in->index, n * sizeof *in->index);
    pinned_check("offset", in->offset, (2 * n + 1) * sizeof *in->offset);
    pinned_check("rows", in->rows, in->row_count * width * f);
    pinned_check("dense", in->dense, model_dense_floats(m) * f);
    pinned_check("stats", in->stats, model_stats_floats(m) * f);
    pinned_check("scores", out->scores, n * f);
    if (!train)
        return;
    pinned_check("row gradients", out->row_gradients, in->row_count * width * f);
    pinned_check("dense gradients", out->dense_gradients, model_dense_floats(m) * f);
    pinned_check("stats gradients", out->stats_gradients, model_stats_floats(m) * f);
}

/* ---- the model, replaced --------------------------------------------------------------------- */

/* Returns the shard that leads the row that is in every batch. */
static const struct shard *shard_of_hot(uint64_t key)
{
    for (uint32_t i = 0; i < cluster.options.servers; i++) {
        struct shard *s = cluster.server[i].shard;
        if (lead_keys(&s->lead, table_schema_of(engine_table(s->engine, 0)), &key, 1))
            return s;
    }
    ck_abort_msg("nobody leads the row");
    return NULL;
}

/* True when the row has every push with a clock up to that of the batch less s + 1, of the lanes
 * that were live when it was read: a lane of whose pushes it has none since the lane was granted
 * may not have been. */
static bool within_bound(const float *row, uint32_t lane, uint64_t batch)
{
    uint64_t run = cluster.coord->slot[0].at.run, clock, seen, low;
    const struct engine *g = shard_of_hot(key_of_value(0, "x", 1))->engine;
    ck_assert_int_eq(engine_clock(g, run, lane, batch, &clock, &low), 0);
    for (uint32_t i = 0; i < 3; i++) {
        const struct coord_lane *l = &cluster.coord->slot[0].tasks->lane[i];
        if (!engine_lane_live(g, run, i) || (i != lane && (uint64_t)row[i] <= l->at))
            continue;
        ck_assert_int_eq(engine_clock(g, run, i, (uint64_t)row[i], &seen, &low), 0);
        if (seen + play.staleness + 1 < clock)
            return false;
    }
    return true;
}

static void count_step(const struct model *m, const struct model_input *in, uint32_t lane,
                       uint64_t batch, struct model_output *out)
{
    uint32_t width = model_row_width(m);
    const float *row = in->rows + (size_t)in->index[0] * width;
    uint64_t before = batch - 1, skips = 0;
    if (play.skip_every != 0)
        skips = before / play.skip_every;
    play.broken += !within_bound(row, lane, batch);
    play.unseen += (uint64_t)row[lane] < before - skips;
    memset(out->row_gradients, 0, (size_t)in->row_count * width * sizeof(float));
    for (uint32_t i = 0; i < in->row_count; i++)
        out->row_gradients[(size_t)i * width + lane] = -1.0f;
    if (out->dense_gradients != NULL)
        memset(out->dense_gradients, 0, model_dense_floats(m) * sizeof(float));
    for (uint32_t i = 0; i < in->examples; i++)
        out->scores[i] = 0.5f;
    out->loss_sum = 0.5 * in->examples;
    out->weight_sum = in->examples;
}

/* Skips a step. With a window that is one slice of its batch. */
static void skip_step(struct model_output *out)
{
    out->skipped = true;
    out->row_gradients[0] = NAN; /* it would end the job if it were pushed */
    play.skipped++;
}

int __wrap_model_train(const struct model *m, struct model_run *r, const struct model_input *in,
                       uint64_t seed, uint32_t lane, uint64_t batch, struct model_output *out)
{
    if (play.pinned)
        arrays_check(m, in, out, true);
    if (++play.steps == play.fail_at)
        play.failed = r;
    if (play.failed == r)
        return play.fail_status;
    bool skips = play.skip_every != 0 && batch % play.skip_every == 0;
    if (!play.counts) {
        int rc = __real_model_train(m, r, in, seed, lane, batch, out);
        if (skips)
            skip_step(out);
        if (play.poison_every != 0 && batch % play.poison_every == 0)
            out->row_gradients[(batch % in->row_count) * model_row_width(m) + 1] =
                batch % 2 == 0 ? NAN : -1e30f;
        return rc;
    }
    count_step(m, in, lane, batch, out);
    if (skips)
        skip_step(out);
    return 0;
}

int __wrap_model_predict(const struct model *m, struct model_run *r, const struct model_input *in,
                         struct model_output *out)
{
    if (play.pinned)
        arrays_check(m, in, out, false);
    return __real_model_predict(m, r, in, out);
}

int __wrap_model_run_new(const struct model *m, uint32_t max_examples, struct model_run **out,
                         struct err *e)
{
    if (!play.fail_new)
        return __real_model_run_new(m, max_examples, out, e);
    play.fail_new = false;
    return err_set(e, play.fail_status, "the device is taken");
}

const char *__wrap_model_run_error(const struct model_run *r)
{
    return play.failed == r ? "the device fell out of the machine" : __real_model_run_error(r);
}

/* ---- the job --------------------------------------------------------------------------------- */

static void job_make(const char *model, const char *train)
{
    bool counts = strstr(model, "fm}") != NULL;
    snprintf(
        yaml, sizeof yaml,
        "job: compute\n"
        "data: {format: csv, label: label, train: [%s], cache: %s}\n"
        "tables:\n"
        "  - {name: emb, dim: 4, tablets: 64, init: {kind: %s}, optimizer: {kind: sgd, lr: %s}}\n"
        "model: %s\n"
        "train: {batch: 8, epochs: 2, lanes: 3, backend: cpu, task_batches: 20, %s}\n"
        "coordinator: {lease: 1s}\n"
        "net: {resend: 100ms}\n",
        worker_path("train.csv"), worker_path("cache"), counts ? "zero" : "uniform",
        counts ? "1" : "0.1", model, train);
}

static void start(uint64_t seed, uint32_t servers, uint32_t workers)
{
    struct cluster_options o = {.yaml = yaml, .servers = servers, .workers = workers};
    o.sim = sim_play_net(seed);
    play.steps = play.unseen = play.broken = play.skipped = 0;
    play.failed = NULL;
    cluster_start(&cluster, &o, backend);
}

static void finish(struct cluster_result *out)
{
    sim_play_end(&cluster, 2 * ROWS, out);
    cluster_run(&cluster, sim_now_ns(cluster.sim) + 5 * SECOND); /* the workers leave */
}

/* ---- cases ----------------------------------------------------------------------------------- */

/* The control: the check finds rows that are pulled without a bound. */
START_TEST(rows_beyond_the_bound_are_seen)
{
    struct cluster_result result;
    play.staleness = 0;
    play.counts = true;
    job_make("{kind: fm}", "consistency: async, prefetch: 1");
    start(1, 1, 2);
    finish(&result);
    ck_assert_uint_gt(play.broken, 0);
    cluster_free(&cluster);
}
END_TEST

static uint64_t pulls_of_all(void)
{
    uint64_t pulls = 0;
    for (uint32_t i = 0; i < cluster.options.servers; i++)
        pulls += cluster.server[i].shard->counts.pulls;
    return pulls;
}

/* Rows that are pulled, and rows that come with earlier pushes, however near the bound is: only
 * where another lane is behind it are rows pulled that a push could have brought. */
START_TEST(rows_are_within_the_bound)
{
    static const uint32_t prefetch[] = {0, 1, 2, 5}, staleness[] = {2, 0, 1};
    struct cluster_result result;
    char train[96];
    play.staleness = staleness[_i];
    play.counts = true;
    for (uint64_t seed = 1; seed <= 12; seed++) {
        uint32_t ahead = prefetch[seed % 4];
        (void)snprintf(train, sizeof train, "consistency: ssp, staleness: %u, prefetch: %u",
                       play.staleness, ahead);
        job_make("{kind: fm}", train);
        start(seed, 1 + (uint32_t)seed % 2, 2);
        finish(&result);
        ck_assert_msg(play.broken == 0 && play.unseen == 0,
                      "staleness %u, prefetch %u, seed %" PRIu64 ": of %" PRIu64 " rows %" PRIu64
                      " are beyond the bound, %" PRIu64 " lack own pushes",
                      play.staleness, ahead, seed, play.steps, play.broken, play.unseen);
        int64_t echoed = sim_play_reported(&cluster, NULL, "keys_echoed"),
                missed = sim_play_reported(&cluster, NULL, "keys_missed");
        if (seed <= 4)
            printf("staleness %u, prefetch %u: %" PRIu64 " pulls, %" PRId64 " keys echoed, %" PRId64
                   " missed\n",
                   play.staleness, ahead, pulls_of_all(), echoed, missed);
        ck_assert_int_eq(echoed > 0, ahead > 0);
        ck_assert_int_le(sim_play_reported(&cluster, "staleness", "max"), play.staleness);
        cluster_free(&cluster);
    }
}
END_TEST

static bool rows_finite(void)
{
    for (uint32_t i = 0; i < cluster.options.servers; i++)
        for (uint32_t table = 0; table < LIMIT_TABLES; table++) {
            const struct table *t = engine_table(cluster.server[i].shard->engine, table);
            uint64_t keys[70];
            float rows[70 * 16];
            if (t == NULL || table_schema_of(t)->dense != 0)
                continue;
            for (uint32_t k = 0; k < 70; k++) { /* columns hot, a and b are fields 0, 1 and 2 */
                char text[8];
                int n = k == 69 ? snprintf(text, sizeof text, "x")
                                : snprintf(text, sizeof text, "%u", k < 60 ? k : k - 60);
                keys[k] = key_of_value(k == 69 ? 0 : k < 60 ? 1 : 2, text, (size_t)n);
            }
            ck_assert_uint_le(table_schema_of(t)->width, 16);
            table_pull(t, keys, 70, rows);
            for (uint32_t x = 0; x < 70 * table_schema_of(t)->width; x++)
                if (!isfinite(rows[x]))
                    return false;
        }
    return true;
}

/* A step that overflowed is pushed as a tick: batches go on, and no row has its gradients. */
START_TEST(skipped_steps_are_ticks)
{
    static const char *const modes[] = {
        "consistency: ssp, staleness: 2, prefetch: 1",
        "consistency: ssp, staleness: 8, prefetch: 3", "consistency: bsp",
        "consistency: ssp, staleness: 2, prefetch: 1, window: 3", "consistency: bsp, window: 2"};
    struct cluster_result result;
    play.staleness = _i == 1 ? 8 : 2;
    play.counts = _i < 3; /* a slice is no batch whose clock the shards know */
    play.skip_every = 5;  /* at most one slice of a window of 3 */
    job_make("{kind: fm}", modes[_i]);
    start(1, 2, 2);
    finish(&result);
    ck_assert_uint_gt(play.skipped, 10);
    if (_i < 2) /* under bsp some batches are empty */
        ck_assert_uint_eq(play.unseen, 0);
    ck_assert_int_eq(sim_play_reported(&cluster, NULL, "skipped_steps"), (int64_t)play.skipped);
    ck_assert(_i < 3 || rows_finite());
    cluster_free(&cluster);
}
END_TEST

static int64_t refused(const char *path)
{
    int64_t batches = sim_play_reported(&cluster, path, "refused");
    return batches > 0 ? batches : 0;
}

/* Batches with a gradient that must not be pushed are skipped and counted by field and worker, and
 * no row has them. Under bsp the result does not depend on the division of tablets among shards. */
START_TEST(poisoned_batches_go_by)
{
    static const char *const modes[] = {
        "consistency: bsp, prefetch: 0, max_refused: 0.5",
        "consistency: ssp, staleness: 2, prefetch: 1, max_refused: 0.5",
        "consistency: async, prefetch: 1, max_refused: 0.5",
        "consistency: bsp, window: 3, max_refused: 0.9"};
    const bool bsp = _i % 3 == 0;
    struct cluster_result first, got;
    play.poison_every = 9; /* one slice of every third window of 3 */
    job_make("{kind: deepfm, hidden: [4], norm: batch}", modes[_i]);
    for (uint32_t servers = 1; servers <= 3; servers++) {
        start(servers, servers, 2);
        finish(&got);
        ck_assert(rows_finite());
        int64_t batches = sim_play_reported(&cluster, "refused", "batches"), fields = 0,
                workers = 0;
        ck_assert_int_ge(batches, 2 * ROWS / 8 / 9 - 3);
        ck_assert_int_le(batches, 2 * ROWS / 8 / 9 + 3);
        ck_assert_int_eq(sim_play_reported(&cluster, "batches", "quarantined"), batches);
        for (int i = 0; i < 8; i++) {
            char path[48];
            (void)snprintf(path, sizeof path, "refused.by_field.%d", i);
            fields += refused(path);
            (void)snprintf(path, sizeof path, "refused.by_worker.%d", i);
            workers += refused(path);
        }
        ck_assert_int_eq(fields, batches); /* one bad row in each, in one push */
        ck_assert_int_eq(workers, batches);
        if (servers == 1)
            first = got;
        for (uint32_t i = 0; i < got.tables && bsp; i++)
            ck_assert_str_eq(got.digest[i], first.digest[i]);
        cluster_free(&cluster);
    }
}
END_TEST

/* Every array of every step is in memory from the backend: weights, numbers, offsets, those of
 * slices and all others. */
START_TEST(arrays_of_every_step_are_of_the_backend)
{
    static char data[ROWS * 24];
    struct cluster_result result;
    size_t at = (size_t)snprintf(data, sizeof data, "label,hot,a,n,w\n");
    for (uint32_t i = 0; i < ROWS; i++)
        at += (size_t)snprintf(data + at, sizeof data - at, "%u,x,%u|%u,%u,%u\n", i % 2, i % 60,
                               i % 7, i % 5, 1 + i % 3);
    worker_write("many.csv", data, at);
    play.pinned = true;
    snprintf(yaml, sizeof yaml,
             "job: compute\n"
             "data: {format: csv, label: label, weight: w, train: [%s], valid: [%s], cache: %s, "
             "columns: [\n"
             "  {name: hot}, {name: a, type: multi}, {name: n, type: number}]}\n"
             "tables:\n"
             "  - {name: emb, dim: 4, tablets: 64, optimizer: {kind: sgd, lr: 0.1}}\n"
             "model: {kind: deepfm, hidden: [4], norm: batch}\n"
             "train: {batch: 8, epochs: 2, lanes: 3, backend: cpu, task_batches: 20, consistency: "
             "ssp, staleness: 8, prefetch: 1, window: %d}\n"
             "coordinator: {lease: 1s}\n"
             "net: {resend: 100ms}\n",
             worker_path("many.csv"), worker_path("many.csv"), worker_path("cache"),
             _i == 0 ? 1 : 4);
    start(1, 1, 2);
    finish(&result);
    ck_assert_uint_eq(play.seen, 0x7f);
    cluster_free(&cluster);
}
END_TEST

/* Statuses of a failed device, and the worker's exit status. */
static const int statuses[] = {SHOAL_E_UNAVAILABLE, SHOAL_E_INTERNAL, SHOAL_E_NOMEM};
static const int exits[] = {69, 70, 70};

/* The result equals that of a run without a failed device, bit for bit; also where the device of
 * one slice fails. */
START_TEST(a_failed_device_costs_a_worker_not_the_job)
{
    struct cluster_result calm, got;
    uint32_t left = 0;
    const int status = _i % 3;
    job_make("{kind: deepfm, hidden: [4], norm: batch}",
             _i < 3 ? "consistency: bsp, prefetch: 0" : "consistency: bsp, window: 2");
    start(1, 2, 2);
    finish(&calm);
    cluster_free(&cluster);
    play.fail_at = 60;
    play.fail_status = statuses[status];
    start(1, 2, 2);
    finish(&got);
    for (uint32_t i = 0; i < 2; i++) {
        ck_assert(cluster.worker[i].ended);
        if (cluster.worker[i].status == 0)
            continue;
        ck_assert_int_eq(cluster.worker[i].status, statuses[status]);
        ck_assert_int_eq(err_exit_status(cluster.worker[i].status), exits[status]);
        left++;
    }
    ck_assert_uint_eq(left, 1);
    for (uint32_t i = 0; i < calm.tables; i++)
        ck_assert_str_eq(got.digest[i], calm.digest[i]);
    cluster_free(&cluster);
}
END_TEST

/* A loss that is not finite fails the job, not the worker; the sentence says what to try. */
START_TEST(a_loss_that_is_not_finite_ends_the_job_and_says_what_to_do)
{
    struct cluster_result result;
    job_make("{kind: probe}",
             _i == 0 ? "consistency: ssp, precision: fp16" : "consistency: ssp, precision: bf16");
    play.fail_at = 20;
    play.fail_status = SHOAL_E_NOT_FINITE;
    start(1, 1, 2);
    ck_assert(cluster_run(&cluster, BOUND));
    cluster_result(&cluster, &result);
    ck_assert_int_eq(result.state, WIRE_JOB_FAILED);
    ck_assert_ptr_nonnull(strstr(result.text, "lower the learning rate"));
    ck_assert_msg((strstr(result.text, "set train.precision to bf16") != NULL) == (_i == 0), "%s",
                  result.text);
    cluster_free(&cluster);
}
END_TEST

/* A device that cannot be opened at the start, or has too little memory, does not fail the job
 * either. */
START_TEST(a_device_that_is_taken_costs_a_worker)
{
    struct cluster_result result;
    job_make("{kind: probe}", "consistency: ssp, staleness: 2, prefetch: 1");
    play.fail_new = true;
    play.fail_status = statuses[_i];
    start(1, 1, 2);
    finish(&result);
    ck_assert(!play.fail_new);
    ck_assert_int_eq(cluster.worker[0].status + cluster.worker[1].status, statuses[_i]);
    ck_assert_int_eq(err_exit_status(statuses[_i]), exits[_i]);
    cluster_free(&cluster);
}
END_TEST

/* The only worker fails: the job waits for another one and then goes on. */
START_TEST(a_job_waits_for_a_worker_whose_device_works)
{
    struct cluster_result result;
    job_make("{kind: probe}", "consistency: ssp, staleness: 2, prefetch: 1");
    play.fail_at = 60;
    play.fail_status = SHOAL_E_UNAVAILABLE;
    start(1, 1, 1);
    ck_assert(!cluster_run(&cluster, 60 * SECOND));
    ck_assert(cluster.worker[0].ended);
    ck_assert_int_eq(cluster.worker[0].status, SHOAL_E_UNAVAILABLE);
    play.failed = NULL;
    cluster_worker_start(&cluster);
    finish(&result);
    cluster_free(&cluster);
}
END_TEST

static void setup(void)
{
    static const struct sim_column columns[] = {{"hot", 0}, {"a", 60}, {"b", 9}};
    sim_play_input(columns, 3, ROWS, 1);
    memset(&play, 0, sizeof play);
    if (backend == NULL)
        backend = dense_backend();
}

static void teardown(void)
{
    worker_folder_remove();
}

int main(void)
{
    Suite *s = suite_create("compute");
    TCase *c = suite_case(s, "compute", 300, setup, teardown);
    tcase_add_test(c, rows_beyond_the_bound_are_seen);
    tcase_add_loop_test(c, rows_are_within_the_bound, 0, 3);
    tcase_add_loop_test(c, arrays_of_every_step_are_of_the_backend, 0, 2);
    tcase_add_loop_test(c, skipped_steps_are_ticks, 0, 5);
    tcase_add_loop_test(c, a_loss_that_is_not_finite_ends_the_job_and_says_what_to_do, 0, 2);
    tcase_add_loop_test(c, poisoned_batches_go_by, 0, 4);
    tcase_add_loop_test(c, a_failed_device_costs_a_worker_not_the_job, 0, 6);
    tcase_add_loop_test(c, a_device_that_is_taken_costs_a_worker, 0, 3);
    tcase_add_test(c, a_job_waits_for_a_worker_whose_device_works);
    return suite_main(s);
}
