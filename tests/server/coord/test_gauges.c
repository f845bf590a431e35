/* test_gauges.c: a coordinator's figures for Prometheus, and how many series they are. */
#include "server/coord/gauges.h"
#include "server/coord/job/slot.h"
#include "tests/lib/fleet_fake.h"
#include "tests/lib/suite.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECOND UINT64_C(1000000000)
enum { ROWS = 4000, LANES = FAKE_LANES };

static struct {
    struct fleet_fake f;
    struct fake_worker worker;
    struct fake_client client;
    struct meter_sheet sheet;
} r;

static const char yaml[] =
    "job: many\ndata: {format: libsvm, train: [a], valid: [b], test: [c], max_bad: 0.01}"
    "\ntables: [{name: emb, dim: 4}]\nmodel: {kind: probe}\n"
    "train: {batch: 10, task_batches: 4, epochs: 2, lanes: 8, consistency: async}\n";

static void setup(void)
{
    memset(&r, 0, sizeof r);
    fleet_fake_start(&r.f);
}

static void teardown(void)
{
    meter_free(&r.sheet);
    fleet_fake_end(&r.f);
}

/* The sum of the samples of a metric whose last label has this value; NULL: of all. */
static double value(enum meter_id id, const char *last)
{
    double sum = 0;
    bool found = false;
    for (uint32_t i = 0; i < r.sheet.samples; i++) {
        const struct meter_sample *s = &r.sheet.sample[i];
        const char *label = r.sheet.text + s->text;
        if (s->id != id)
            continue;
        for (const char *p = meter_rows[id].labels; (p = strchr(p, ',')) != NULL; p++)
            label += strlen(label) + 1;
        if (last != NULL && strcmp(label, last) != 0)
            continue;
        sum += r.sheet.number[s->number];
        found = true;
    }
    ck_assert_msg(found, "%s is not told", meter_rows[id].name);
    return sum;
}

static void put(void)
{
    meter_clear(&r.sheet);
    coord_gauges_put(r.f.coord, &r.sheet);
    ck_assert_uint_eq(r.sheet.left_out, 0);
}

static bool half(void *context)
{
    (void)context;
    return r.client.submit_status != 0 || r.f.coord->slot[0].tasks->pushed > 20;
}

START_TEST(gauges_of_a_fleet_without_a_job)
{
    (void)sim_run(r.f.sim, sim_now_ns(r.f.sim) + SECOND, NULL, NULL);
    put();
    ck_assert_double_eq(value(METER_ID_SHARDS_WANTED, NULL), 2);
    ck_assert_double_eq(value(METER_ID_SHARD_READY, NULL), 2);
    ck_assert_double_eq(value(METER_ID_LEASE, NULL), 1);
    ck_assert_double_eq(value(METER_ID_REFUSED_SHARDS, NULL), 0);
    ck_assert_double_eq(value(METER_ID_COORD_REFUSALS, "DENIED"), 0); /* told before it occurs */
    uint64_t kept, bytes = coord_store_bytes(r.f.coord->fleet.store, &kept);
    ck_assert_uint_gt(bytes, 0);
    ck_assert_double_eq(value(METER_ID_COORD_STORE, "values"), (double)bytes);
    ck_assert_double_eq(value(METER_ID_COORD_STORE_STANDS, NULL), 0);
    for (uint32_t i = 0; i < r.sheet.samples; i++)
        ck_assert_uint_ne(r.sheet.sample[i].id, METER_ID_JOB_PHASE);
}
END_TEST

/* One worker and a job of ROWS rows. */
static void job_start(struct fake_worker *w)
{
    w->rows[0] = ROWS;
    w->rows[1] = 300;
    w->rows[2] = 200;
    w->batch = 10;
    w->seats = FAKE_SEATS;
    w->step_ns = 5000000;
    w->resend_ns = SECOND / 2;
    w->digest = 42;
    fake_worker_start(w, r.f.sim, "worker-0", r.f.shard, 2);
    fake_client_start(&r.client, r.f.sim, yaml, 1);
}

START_TEST(gauges_of_a_job_are_bounded_and_true)
{
    struct fake_worker *w = &r.worker;
    job_start(w);
    ck_assert(sim_run(r.f.sim, sim_now_ns(r.f.sim) + 60 * SECOND, half, NULL));
    ck_assert_int_eq(r.client.submit_status, 0);
    put();
    const struct coord_tasks *t = r.f.coord->slot[0].tasks;
    /* a lane more is two series more: those of the largest job fit */
    uint32_t of_lanes = 0;
    for (uint32_t i = 0; i < r.sheet.samples; i++)
        of_lanes += strstr(meter_rows[r.sheet.sample[i].id].labels, ",lane") != NULL;
    uint32_t held = 0; /* only such a lane is behind another one */
    for (uint32_t l = 0; l < t->lanes; l++)
        held += t->lane[l].state == LANE_HELD || t->lane[l].state == LANE_GRANTING;
    ck_assert_uint_gt(held, 0);
    ck_assert_uint_eq(of_lanes, LANES + held);
    ck_assert_uint_lt(r.sheet.series - of_lanes + 2 * LIMIT_LANES, METER_SERIES);
    ck_assert_double_eq(value(METER_ID_LANES, NULL), LANES);
    ck_assert_double_eq(value(METER_ID_TASKS, "done"), t->pushed);
    ck_assert_double_eq(value(METER_ID_TASKS, "planned"), t->tasks);
    ck_assert_double_eq(value(METER_ID_JOB_PHASE, "train"), 1);
    ck_assert_double_eq(value(METER_ID_JOB_RUNNING, "many"), 1);
    ck_assert_double_eq(value(METER_ID_WORKERS, "many"), 1);
    ck_assert_double_lt(value(METER_ID_WORKER_SILENT, "many"), 1);
    ck_assert_double_eq(value(METER_ID_LANE_BATCHES, "0"), (double)t->lane[0].mark);
    uint64_t newest = 0;
    for (uint32_t l = 0; l < t->lanes; l++)
        newest = t->lane[l].mark > newest ? t->lane[l].mark : newest;
    char lane[16];
    for (uint32_t l = 0; l < t->lanes; l++) {
        (void)snprintf(lane, sizeof lane, "%u", l);
        if (t->lane[l].state == LANE_HELD)
            ck_assert_double_eq(value(METER_ID_LANE_BEHIND, lane),
                                (double)(newest - t->lane[l].mark));
    }
}
END_TEST

/* Labels that are numbers tell their error in place of AUC and logloss. */
START_TEST(gauges_of_numbers)
{
    struct metric_tally *const *window = r.f.coord->slot[0].windows->window;
    job_start(&r.worker);
    ck_assert(sim_run(r.f.sim, sim_now_ns(r.f.sim) + 60 * SECOND, half, NULL));
    for (uint32_t n = 0; n < COORD_WINDOWS_MAX; n++)
        if (window[n] != NULL) {
            metric_tally_clear(window[n], 1, 1);
            metric_tally_add(window[n], 5, 2, 0);
        }
    put();
    ck_assert_double_eq(value(METER_ID_RMSE, "train"), 3);
    ck_assert_double_eq(value(METER_ID_MAE, "train"), 3);
    ck_assert_double_eq(value(METER_ID_CALIBRATION, "train"), 2.5);
    for (uint32_t i = 0; i < r.sheet.samples; i++)
        ck_assert(r.sheet.sample[i].id != METER_ID_AUC && r.sheet.sample[i].id != METER_ID_LOGLOSS);
}
END_TEST

/* A shard beyond those wanted, a request that is refused, and a worker that has gone silent. */
START_TEST(gauges_of_what_is_refused_and_silent)
{
    struct fake_worker *w = &r.worker;
    static struct fake_shard surplus;
    (void)sim_run(r.f.sim, sim_now_ns(r.f.sim) + SECOND, NULL, NULL);
    fake_shard_start(&surplus, r.f.sim, "server-9", 0, 1);
    (void)sim_run(r.f.sim, sim_now_ns(r.f.sim) + SECOND, NULL, NULL);
    put();
    ck_assert_double_eq(value(METER_ID_REFUSED_SHARDS, NULL), 1);
    job_start(w);
    ck_assert(sim_run(r.f.sim, sim_now_ns(r.f.sim) + 60 * SECOND, half, NULL));
    put();
    ck_assert_double_lt(value(METER_ID_WORKER_SILENT, "many"), 0.5);
    const double refused = value(METER_ID_COORD_REFUSALS, NULL);
    ck_assert_double_gt(refused, 0); /* the surplus shard's beats */
    sim_kill(w->node);
    (void)sim_run(r.f.sim, sim_now_ns(r.f.sim) + SECOND * 3 / 4, NULL, NULL);
    put();
    ck_assert_double_gt(value(METER_ID_WORKER_SILENT, "many"), 0.5);
    ck_assert_double_gt(value(METER_ID_COORD_REFUSALS, NULL), refused);
    free(surplus.shard_of);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("gauges");
    TCase *c = suite_case(s, "gauges", 60, setup, teardown);
    tcase_add_test(c, gauges_of_a_fleet_without_a_job);
    tcase_add_test(c, gauges_of_a_job_are_bounded_and_true);
    tcase_add_test(c, gauges_of_numbers);
    tcase_add_test(c, gauges_of_what_is_refused_and_silent);
    return suite_main(s);
}
