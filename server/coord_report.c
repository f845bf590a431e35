/* coord_report.c: report.json and status. */
#include "server/coord_report.h"
#include "proto/base/hash.h"
#include "proto/base/json.h"
#include "proto/base/log.h"
#include "server/coord_core.h"
#include "server/coord_epoch.h"
#include "server/coord_flow.h"
#include "server/coord_watch.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const mode_name[] = {"async", "ssp", "bsp"};
static const char *const durability_name[] = {"memory", "journal", "fsync"};

static struct json *metric_json(const struct metric *m, bool whole)
{
    struct json *j = json_new_object();

    json_set_number(j, "auc", m->auc);
    json_set_number(j, "logloss", m->logloss);
    if (whole) {
        json_set_number(j, "calibration", m->calibration);
        json_set_int(j, "examples", (int64_t)m->examples);
    }
    return j;
}

static void metric_set(struct json *to, const char *key, const struct metric *m, bool whole)
{
    if (m->examples == 0)
        json_set_null(to, key);
    else
        json_set(to, key, metric_json(m, whole));
}

static double mean_loss(const struct coord_epoch *e)
{
    return e->examples == 0 ? NAN : e->loss_sum / (double)e->examples;
}

static struct json *epochs_json(const struct coord_job *j)
{
    struct json *list = json_new_array();

    for (uint32_t n = 1; n <= j->at.epoch; n++) {
        const struct coord_epoch *e = &j->epoch[n - 1];
        struct json *item = json_new_object();
        json_set_int(item, "epoch", n);
        json_set_number(item, "train_logloss", mean_loss(e));
        metric_set(item, "valid", &e->valid, false);
        json_set_number(item, "seconds", e->seconds);
        json_set_int(item, "bad_lines", (int64_t)e->bad_lines);
        json_append(list, item);
    }
    return list;
}

/* Smallest staleness that at least `share` of the pulls did not exceed. */
static int64_t histogram_quantile(const uint64_t *histogram, double share)
{
    uint64_t sum = 0, seen = 0;

    for (uint32_t i = 0; i < COORD_HISTOGRAM; i++)
        sum += histogram[i];
    for (uint32_t i = 0; i < COORD_HISTOGRAM; i++) {
        seen += histogram[i];
        if (sum > 0 && (double)seen >= share * (double)sum && seen > 0)
            return i;
    }
    return 0;
}

static struct json *staleness_json(const struct coord_job *j)
{
    struct json *s = json_new_object();

    json_set_int(s, "p50", histogram_quantile(j->at.staleness, 0.5));
    json_set_int(s, "p99", histogram_quantile(j->at.staleness, 0.99));
    json_set_int(s, "max", histogram_quantile(j->at.staleness, 1.0));
    return s;
}

static struct json *time_json(const struct wire_WORKER_BEAT *sum)
{
    struct json *t = json_new_object();

    json_set_number(t, "read", sum->read_s);
    json_set_number(t, "pull", sum->pull_s);
    json_set_number(t, "compute", sum->compute_s);
    json_set_number(t, "push", sum->push_s);
    json_set_number(t, "wait", sum->wait_s);
    return t;
}

/* Batches applied: every lane's batches, each once; the other two are what recovery and resending cost. */
static struct json *batches_json(const struct coord_job *j, const struct wire_WORKER_BEAT *sum)
{
    struct json *b = json_new_object();
    uint64_t applied = 0;

    for (uint32_t l = 0; l < j->tasks.lanes; l++)
        applied += j->tasks.lane[l].next_batch - 1;
    json_set_int(b, "applied", (int64_t)applied);
    json_set_int(b, "skipped", (int64_t)sum->skipped);
    json_set_int(b, "recomputed", (int64_t)sum->recomputed);
    return b;
}

/* A table's digest: XXH3 over its tablets' digests in tablet order, whichever shards they are on. */
static struct json *tables_json(const struct coord_job *j, uint64_t *rows)
{
    struct json *list = json_new_array();

    *rows = 0;
    for (uint32_t t = 0; t < j->at.tables; t++) {
        const struct table_schema *s = &j->table[t];
        struct json *item = json_new_object();
        json_set_string(item, "name", s->name);
        json_set_int(item, "rows", (int64_t)j->table_rows[t]);
        json_set_hex(item, "digest", hash_bytes(j->digest + s->tablet_first, 8ull << s->tablet_bits, 0));
        json_append(list, item);
        *rows += j->table_rows[t];
    }
    return list;
}

static uint64_t bad_lines_once(const struct coord_job *j)
{
    const struct coord_epoch *last = &j->epoch[j->at.epoch - 1];

    return last->bad_lines + last->valid_bad_lines + j->test_bad_lines;
}

static uint32_t servers_of(const struct coord_members *m)
{
    uint32_t servers = 0;

    for (uint32_t s = 0; s < m->shards; s++)
        servers += m->shard[s].server[0] != 0 && m->shard[s].index == 0;
    return servers;
}

static void report_settings(const struct coord *c, struct json *r)
{
    const struct coord_job *j = &c->job;

    json_set_string(r, "backend", j->backend);
    json_set_int(r, "seed", (int64_t)j->spec.train.seed);
    json_set_string(r, "version", c->options.version);
    json_set_int(r, "servers", servers_of(&c->members));
    json_set_int(r, "shards", c->members.shards);
    json_set_int(r, "workers", j->workers_most);
    json_set_string(r, "consistency", mode_name[j->spec.train.mode]);
    json_set_string(r, "durability", durability_name[j->spec.durability]);
    json_set_int(r, "run", (int64_t)j->at.number);
    json_set_int(r, "best_epoch", j->at.best_epoch != 0 ? j->at.best_epoch : j->at.epoch);
    json_set_int(r, "restarts", j->at.restarts);
    json_set_int(r, "worker_deaths", j->at.worker_deaths);
    json_set_int(r, "cuts", j->at.cuts);
    if (j->kernel[0] != 0)
        json_set_string(r, "kernel", j->kernel);
}

/* The epoch whose rows the tables hold at the end: the best one, where early stopping restores it, else the last. */
static uint32_t final_epoch(const struct coord_job *j)
{
    return j->spec.train.early_stop.patience > 0 && j->at.best_epoch != 0 ? j->at.best_epoch : j->at.epoch;
}

static struct json *report_json(const struct coord *c)
{
    const struct coord_job *j = &c->job;
    struct json *r = json_new_object();
    struct wire_WORKER_BEAT sum;
    uint64_t rows, examples = 0, bad = 0;

    coord_member_sums(&c->members, &sum);
    for (uint32_t n = 0; n < j->at.epoch; n++)
        bad += j->epoch[n].bad_lines;
    examples = j->at.train_rows - (bad < j->at.train_rows ? bad : j->at.train_rows);
    double seconds = (double)j->at.elapsed_ns * 1e-9, train = (double)j->at.train_ns * 1e-9;
    json_set_string(r, "job", j->spec.name);
    json_set_int(r, "examples", (int64_t)examples);
    json_set_number(r, "seconds", seconds);
    json_set_number(r, "train_seconds", train);
    json_set_number(r, "examples_per_second", train > 0 ? (double)examples / train : 0);
    json_set(r, "epochs", epochs_json(j));
    metric_set(r, "valid", &j->epoch[final_epoch(j) - 1].valid, true);
    metric_set(r, "test", &j->at.test, true);
    json_set(r, "staleness", staleness_json(j));
    json_set(r, "time", time_json(&sum));
    json_set_int(r, "lanes", j->tasks.lanes);
    json_set(r, "batches", batches_json(j, &sum));
    json_set_int(r, "bad_lines", (int64_t)bad_lines_once(j));
    json_set_null(r, "teacher_auc");
    json_set(r, "tables", tables_json(j, &rows));
    json_set_int(r, "keys_pulled", (int64_t)sum.keys_pulled);
    json_set_int(r, "keys_pushed", (int64_t)sum.keys_pushed);
    json_set_int(r, "rows", (int64_t)rows);
    json_set_int(r, "peak_server_rss_bytes", (int64_t)c->members.rss_peak_bytes);
    report_settings(c, r);
    return r;
}

int coord_report_make(struct coord *c, struct err *e)
{
    struct json *r = report_json(c);
    char *text = json_text(r, 2);
    struct err failed = {0};

    json_free(r);
    if (text == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for the report");
    free(c->job.report);
    c->job.report = text;
    if (!coord_put(c, "report", text, strlen(text)))
        return err_set(e, SHOAL_E_IO, "the coordinator's store failed");
    if (c->options.write_report != NULL && c->options.write_report(c->options.context, text, &failed) != 0)
        log_error("%s", failed.text);
    return 0;
}

int coord_report_load(struct coord *c, struct err *e)
{
    void *value;
    size_t bytes;

    if (c->job.at.phase != PHASE_DONE)
        return 0;
    int status = coord_store_get(c->store, "report", &value, &bytes, e);
    if (status != 0)
        return status == SHOAL_E_NOT_FOUND ? 0 : status;
    c->job.report = malloc(bytes + 1);
    if (c->job.report == NULL)
        status = err_set(e, SHOAL_E_NOMEM, "no memory for the report");
    else
        memcpy(c->job.report, value, bytes);
    if (status == 0)
        c->job.report[bytes] = 0;
    free(value);
    return status;
}

/* ---- status ------------------------------------------------------------------------------------------------ */

static struct json *lanes_json(const struct coord_tasks *t)
{
    struct json *list = json_new_array();

    for (uint32_t l = 0; l < t->lanes; l++) {
        struct json *item = json_new_object();
        json_set_int(item, "lane", l);
        json_set_int(item, "worker", (int64_t)t->lane[l].worker);
        json_set_int(item, "generation", (int64_t)t->lane[l].generation);
        json_set_int(item, "batch", (int64_t)t->lane[l].mark);
        json_append(list, item);
    }
    return list;
}

static struct json *servers_json(const struct coord *c)
{
    struct json *list = json_new_array();

    for (uint32_t s = 0; s < c->members.shards; s++) {
        const struct coord_shard *shard = &c->members.shard[s];
        struct json *item = json_new_object();
        json_set_string(item, "name", shard->server);
        json_set_int(item, "shard", s);
        json_set_string(item, "endpoint", shard->endpoint);
        json_set_int(item, "rows", (int64_t)shard->figures.rows);
        json_set_int(item, "journal_bytes", (int64_t)shard->figures.journal_bytes);
        json_set_int(item, "rss_bytes", (int64_t)shard->figures.rss_bytes);
        json_set_bool(item, "ready", shard->ready);
        json_set_int(item, "silent_ms", shard->seen ? (int64_t)((env_now_ns(c->env) - shard->beat_ns) / 1000000) : -1);
        json_append(list, item);
    }
    return list;
}

static struct json *workers_json(const struct coord *c)
{
    struct json *list = json_new_array();

    for (uint32_t i = 0; i < c->members.workers; i++) {
        const struct coord_worker *w = &c->members.worker[i];
        struct json *item = json_new_object();
        json_set_int(item, "worker", (int64_t)w->number);
        json_set_string(item, "name", w->name);
        json_set_int(item, "pid", w->pid);
        json_set_string(item, "backend", w->backend);
        json_set_int(item, "lanes", coord_lane_held(&c->job.tasks, w->number));
        json_set_int(item, "examples", (int64_t)w->figures.examples);
        json_set_int(item, "silent_ms", (int64_t)((env_now_ns(c->env) - w->beat_ns) / 1000000));
        json_append(list, item);
    }
    return list;
}

/* Examples of all epochs so far, by finished tasks. */
static uint64_t examples_so_far(const struct coord_job *j, double *loss_sum, uint64_t *loss_examples)
{
    uint64_t examples = j->at.train_rows;

    *loss_sum = 0;
    *loss_examples = 0;
    for (uint32_t i = 0; i < j->tasks.tasks; i++) {
        const struct coord_task *task = &j->tasks.task[i];
        if (j->at.phase == PHASE_TRAIN && task->pushed)
            examples += task->rows;
        *loss_sum += task->loss_sum;
        *loss_examples += task->examples;
    }
    return examples;
}

/* Workers' own counts between two questions, at least a second apart: finer than tasks. */
static void rate_sample(struct coord *c)
{
    struct wire_WORKER_BEAT sum;
    uint64_t now = env_now_ns(c->env);

    coord_member_sums(&c->members, &sum);
    if (c->job.rate_ns != 0 && now - c->job.rate_ns < 1000000000ull)
        return;
    if (c->job.rate_ns != 0 && sum.examples >= c->job.rate_examples)
        c->job.rate = (double)(sum.examples - c->job.rate_examples) / ((double)(now - c->job.rate_ns) * 1e-9);
    c->job.rate_ns = now;
    c->job.rate_examples = sum.examples;
}

char *coord_report_status(struct coord *c)
{
    const struct coord_job *j = &c->job;
    struct json *s = json_new_object();
    double loss_sum;
    uint64_t loss_examples;
    char missing[ERR_TEXT_MAX];

    rate_sample(c);
    uint64_t examples = examples_so_far(j, &loss_sum, &loss_examples);
    uint64_t all = j->at.split[WIRE_TRAIN].rows * j->spec.train.epochs;
    json_set_string(s, "job", j->spec.name);
    json_set_string(s, "state", coord_flow_phase(c));
    json_set_int(s, "run", (int64_t)j->at.number);
    json_set_int(s, "epoch", j->at.epoch);
    json_set_int(s, "epochs", j->spec.train.epochs);
    json_set_int(s, "examples", (int64_t)examples);
    json_set_number(s, "rate", j->rate);
    json_set_number(s, "loss", loss_examples == 0 ? NAN : loss_sum / (double)loss_examples);
    json_set_number(s, "eta_seconds", j->rate > 0 && all >= examples ? (double)(all - examples) / j->rate : NAN);
    json_set_int(s, "restarts", j->at.restarts);
    json_set_int(s, "worker_deaths", j->at.worker_deaths);
    if (coord_watch_missing(c, missing, sizeof missing))
        json_set_string(s, "waiting", missing);
    if (j->at.status != 0)
        json_set_string(s, "error", j->at.text);
    json_set(s, "lanes", lanes_json(&j->tasks));
    json_set(s, "workers", workers_json(c));
    json_set(s, "servers", servers_json(c));
    char *text = json_text(s, 0);
    json_free(s);
    return text;
}
