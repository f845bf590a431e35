/* report.c: report.json. */
#include "server/coord/job/report.h"

#include "proto/base/assert.h"
#include "proto/base/hash.h"
#include "proto/base/json.h"
#include "proto/base/log.h"
#include "proto/base/minmax.h"
#include "proto/metric/measure.h"
#include "server/coord/core/phase.h"
#include "server/coord/figures/guard.h"
#include "server/coord/figures/jobs.h"
#include "server/coord/figures/judge.h"
#include "server/coord/figures/network.h"
#include "server/coord/figures/notes.h"
#include "server/coord/figures/output.h"
#include "server/coord/figures/progressive.h"
#include "server/coord/figures/report_job.h"
#include "server/coord/figures/trace.h"
#include "server/coord/keep/checkpoint.h"
#include "server/coord/work/amount.h"
#include "server/coord/work/objects.h"
#include "server/coord/work/replay.h"
#include "server/coord/work/task.h"
#include "server/coord/work/times.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const mode_name[] = {"async", "ssp", "bsp"};

/* with more epochs, only the first figures of each are told: a report is one message */
#define EPOCHS_WHOLE 1000u

/* brief: only the figures that a curve needs. */
static struct json *figures_json(const struct metric *metric, const struct job *job, bool brief)
{
    if (!brief)
        return measure_json_report(metric, job, NULL, false);
    struct json *j = json_new_object();
    struct metric mean;
    metric_mean(metric, job->model.task_weight, MAX(job->data.label_count, 1), &mean);
    if (metric_is_real(&mean)) {
        json_set_number(j, "rmse", mean.rmse);
        json_set_number(j, "mae", mean.mae);
        return j;
    }
    json_set_number(j, "auc", mean.auc);
    json_set_number(j, "logloss", mean.logloss);
    return j;
}

/* The mean loss of training: "train_logloss", or "train_loss". */
static void train_loss_set(struct json *to, const struct coord_job *j, double loss)
{
    char key[24];
    (void)snprintf(key, sizeof key, "train_%s", job_loss_name(&j->spec));
    json_set_number(to, key, loss);
}

static void train_tasks_set(struct json *item, const struct coord_job *j,
                            const struct coord_losses *l)
{
    struct json *list = json_new_array();
    for (uint32_t t = 0; t < j->spec.data.label_count; t++) {
        struct json *task = json_new_object();
        json_set_string(task, "label", j->spec.data.label[t]);
        train_loss_set(task, j, coord_losses_mean_of(l, t));
        json_append(list, task);
    }
    json_set(item, "tasks", list);
}

/* False: the job failed or was stopped, and the report tells what is known. */
static bool finished(const struct coord_job *j)
{
    return j->at.phase != PHASE_FAILED;
}

static uint32_t epochs_told(const struct coord_job *j)
{
    return j->at.epoch - coord_epoch_first(j) + 1;
}

static struct json *epochs_json(const struct coord_job *j)
{
    struct json *list = json_new_array();
    SHOAL_ASSERT(j->at.epoch <= coord_epochs(j));
    for (uint32_t n = coord_epoch_first(j); n <= j->at.epoch; n++) {
        const struct coord_epoch *e = &j->epoch[coord_epoch_slot(j, n)];
        if (j->at.phase == PHASE_FAILED && e->number != j->at.number)
            continue; /* its training did not end */
        struct json *item = json_new_object();
        json_set_int(item, "epoch", n);
        train_loss_set(item, j, coord_losses_mean(&e->train));
        const struct coord_evaluation *v = coord_judge_of_epoch(j, n);
        if (v == NULL)
            json_set_null(item, "valid");
        else
            json_set(item, "valid", figures_json(v->of, &j->spec, epochs_told(j) > EPOCHS_WHOLE));
        const struct coord_trained *trained = &j->windows->trained[coord_epoch_slot(j, n)];
        if (metric_most(trained->of, j->windows->labels) > 0)
            json_set(item, "train",
                     figures_json(trained->of, &j->spec, epochs_told(j) > EPOCHS_WHOLE));
        json_set_number(item, "seconds", e->seconds);
        json_set_int(item, "bad_lines", (int64_t)e->train.bad_lines);
        if (j->spec.data.label_count > 1 && epochs_told(j) <= EPOCHS_WHOLE)
            train_tasks_set(item, j, &e->train);
        json_append(list, item);
    }
    return list;
}

static struct json *evaluations_json(const struct coord_job *j)
{
    struct json *list = json_new_array();
    for (uint32_t n = 1; n <= j->valid->count; n++) {
        const struct coord_evaluation *v = &j->valid->item[n - 1];
        if (metric_most(v->of, j->windows->labels) == 0)
            continue;
        struct json *item = figures_json(v->of, &j->spec, j->valid->count > EPOCHS_WHOLE);
        json_set_int(item, "epoch", v->epoch);
        json_set_int(item, "batch", (int64_t)v->batches);
        json_set_int(item, "examples", (int64_t)v->examples);
        json_set_number(item, "seconds", v->seconds);
        json_set_bool(item, "kept", j->at.phase != PHASE_FAILED && n == coord_judge_final(j));
        json_append(list, item);
    }
    return list;
}

/* Figures of all examples before they were learnt; null: none were scored, or another job did it
 * (train.skip). */
static void train_set(struct json *to, const struct coord_job *j)
{
    struct metric of[LIMIT_TASKS];
    uint64_t seen = 0;
    if (j->spec.train.skip || !coord_progressive_all(j->windows, of)) {
        json_set_null(to, "train");
        return;
    }
    struct json *by = measure_json_by(j->windows->by, &j->spec),
                *train = measure_json_report(of, &j->spec, by, true), *list = json_new_array();
    json_free(by);
    /* in a log that grows, windows end within rounds whose tasks are no longer known; the figures
     * of the rounds tell the same */
    bool placed =
        !coord_grow_on(j) && j->tasks->tasks > 0; /* none: it failed before it was dealt */
    for (uint32_t n = 0; placed && n < COORD_WINDOWS_MAX; n++) {
        uint32_t epoch;
        if (!coord_progressive_figures(j->windows, n, of))
            continue;
        struct json *item = figures_json(of, &j->spec, false);
        seen += metric_most(of, j->windows->labels);
        json_set_int(item, "batch",
                     (int64_t)coord_progressive_end(j, n, coord_judge_batches(j), &epoch));
        json_set_int(item, "epoch", epoch);
        json_set_int(item, "examples", (int64_t)seen);
        json_append(list, item);
    }
    json_set(train, "windows", list);
    json_set(to, "train", train);
}

/* A replay's days: figures of each before it was learnt. */
static void days_set(struct json *to, const struct coord_job *j)
{
    if (!j->spec.replay.on)
        return;
    struct json *replay = json_new_object();
    json_set_int(replay, "window", j->spec.replay.window);
    json_set_int(replay, "every", j->spec.replay.every);
    json_set_int(replay, "windows", j->replay->segments);
    json_set_int(replay, "left_out", j->replay->windows - j->replay->segments);
    json_set(replay, "days", json_hold(j->replay->days));
    json_set(to, "replay", replay);
}

static double per(double sum, uint64_t count)
{
    return count > 0 ? sum / (double)count : (double)NAN;
}

static void point_append(struct json *list, const struct coord_point *p, const struct job *job)
{
    uint32_t labels = job->data.label_count;
    struct json *item = json_new_object();
    SHOAL_ASSERT(p->reports > 0 && labels <= LIMIT_TASKS);
    json_set_int(item, "epoch", p->epoch);
    json_set_int(item, "examples", (int64_t)p->seen);
    json_set_number(item, "seconds", p->seconds);
    json_set_number(item, job_loss_name(job), p->weight > 0 ? p->loss / p->weight : (double)NAN);
    json_set_number(item, "dense_norm", per(p->dense_norm, p->measured));
    json_set_number(item, "row_norm", per(p->row_norm, p->measured));
    json_set_number(item, "staleness", per(p->staleness, p->pulls));
    json_set_number(item, "lr_scale", p->lr_scale);
    json_set_int(item, "skipped_steps", (int64_t)p->skipped);
    if (labels > 1) { /* the loss of each label, in the order of data.label */
        struct json *tasks = json_new_array();
        for (uint32_t t = 0; t < labels; t++)
            json_append_number(tasks, p->weight > 0 ? p->loss_task[t] / p->weight : (double)NAN);
        json_set(item, "tasks", tasks);
    }
    json_append(list, item);
}

static struct json *training_json(const struct coord_job *j)
{
    const struct coord_curve *c = &j->trace->curve;
    SHOAL_ASSERT(c->count <= COORD_CURVE_MAX);
    struct json *list = json_new_array();
    for (uint32_t i = 0; i < c->count; i++)
        point_append(list, &c->point[i], &j->spec);
    if (c->open.reports > 0)
        point_append(list, &c->open, &j->spec);
    return list;
}

/* How long each stage was busy; batches overlap. */
static struct json *busy_json(const struct wire_WORKER_BEAT *sum)
{
    struct json *b = json_new_object();
    json_set_number(b, "read", sum->file_busy_s);
    json_set_number(b, "parse", sum->parse_busy_s);
    json_set_number(b, "pull", sum->pull_busy_s);
    json_set_number(b, "compute", sum->compute_busy_s);
    json_set_number(b, "push", sum->push_busy_s);
    return b;
}

static void bottleneck_set(struct json *to, const struct wire_WORKER_BEAT *sum)
{
    struct coord_bottleneck found;
    coord_bottleneck_find(sum, &found);
    if (found.stage == NULL) {
        json_set_null(to, "bottleneck");
        return;
    }
    struct json *b = json_new_object();
    json_set_string(b, "stage", found.stage);
    json_set_number(b, "share", found.share);
    json_set_string(b, "next", found.next);
    json_set_number(b, "speedup_if_free", found.speedup_if_free); /* infinite: null */
    json_set(to, "bottleneck", b);
}

/* applied: every lane's batches, each once. skipped and recomputed: the cost of recovery and
 * resending. quarantined: batches applied without all or part of their gradients, which were
 * refused. */
static struct json *batches_json(const struct coord_job *j, const struct wire_WORKER_BEAT *sum)
{
    struct json *b = json_new_object();
    uint64_t applied = 0, all;
    for (uint32_t l = 0; l < j->tasks->lanes; l++)
        applied += j->tasks->lane[l].next_batch - 1;
    json_set_int(b, "applied", (int64_t)applied);
    json_set_int(b, "skipped", (int64_t)sum->skipped);
    json_set_int(b, "recomputed", (int64_t)sum->recomputed);
    json_set_int(b, "quarantined", (int64_t)coord_guard_refused(j, &all));
    return b;
}

/* A table's digest: XXH3 over its tablets' digests in tablet order, independent of the shards. */
static struct json *tables_json(const struct coord_job *j, uint64_t *rows)
{
    struct json *list = json_new_array();
    *rows = 0;
    for (uint32_t t = 0; t < j->at.tables; t++) {
        const struct table_schema *s = &j->table[t];
        struct json *item = json_new_object();
        json_set_string(item, "name", s->name);
        if (finished(j)) {
            SHOAL_ASSERT(s->tablet_first + (1ull << s->tablet_bits) <= j->tablets);
            json_set_int(item, "rows", (int64_t)j->table_rows[t]);
            json_set_hex(item, "digest",
                         hash_bytes(j->digest + s->tablet_first, 8ull << s->tablet_bits, 0));
        }
        coord_report_table_json(s, item);
        struct json *rules = coord_guard_rules_json(j, s->name);
        if (rules != NULL)
            json_set(item, "rules", rules);
        struct json *age = coord_guard_ages_json(j, s->name);
        if (age != NULL)
            json_set(item, "age", age);
        json_append(list, item);
        *rows += j->table_rows[t];
    }
    return list;
}

/* In a log that grows: the bad lines of all rounds, as each has lines of its own. Otherwise: of the
 * epoch with the most, since an epoch may have ended early or drawn other lines. */
static uint64_t bad_lines_once(const struct coord_job *j)
{
    uint32_t count = j->valid->count;
    uint64_t most = 0, open = 0;
    if (coord_epoch_open(j))
        open = j->tasks->bad_lines; /* the job failed within it */
    for (uint32_t n = 1; !coord_grow_on(j) && n <= j->at.epoch; n++) {
        uint64_t bad = j->epoch[coord_epoch_slot(j, n)].train.bad_lines;
        most = MAX(bad, most);
    }
    most = MAX(open, most);
    if (coord_grow_on(j))
        most = coord_epoch_losses(j).bad_lines + open;
    if (count > 0)
        most += j->valid->item[count - 1].bad_lines;
    return most + j->at.test_bad_lines;
}

static uint32_t servers_of(const struct coord_members *m)
{
    uint32_t servers = 0;
    for (uint32_t s = 0; s < m->shards; s++)
        servers += m->shard[s].server[0] != 0 && m->shard[s].index == 0;
    return servers;
}

/* Returns the epoch of evaluation n; when n is 0 (there was none), the last epoch. */
static uint32_t epoch_of(const struct coord_job *j, uint32_t n)
{
    if (n >= 1 && n <= j->valid->count && j->valid->item[n - 1].epoch != 0)
        return j->valid->item[n - 1].epoch;
    return j->at.epoch;
}

static void report_settings(const struct coord_job *j, struct json *r)
{
    SHOAL_ASSERT(j->spec.train.mode < sizeof mode_name / sizeof mode_name[0]);
    json_set_string(r, "model", job_model_name(j->spec.model.kind));
    if (finished(j) || j->backend[0] != 0)
        json_set_string(r, "backend", j->backend);
    json_set(r, "backends", coord_roll_json(&j->roll));
    json_set_int(r, "seed", (int64_t)j->spec.train.seed);
    json_set_string(r, "version", j->fleet->options.version);
    json_set_int(r, "servers", servers_of(&j->fleet->members));
    json_set_int(r, "shards", coord_member_count(&j->fleet->members));
    json_set_int(r, "workers", j->tally.workers_most);
    json_set_string(r, "consistency", mode_name[j->spec.train.mode]);
    json_set_string(r, "durability",
                    job_durability_name(coord_member_durability(&j->fleet->members)));
    if (finished(j) || j->at.best != 0)
        json_set_int(r, "best_epoch", epoch_of(j, j->at.best));
    if (finished(j)) {
        json_set_int(r, "final_epoch", epoch_of(j, coord_judge_final(j)));
        json_set_string(r, "ended_by", j->spec.train.skip ? NULL : coord_judge_ended(j));
    }
    json_set_int(r, "restarts", j->at.restarts);
    json_set_int(r, "worker_deaths", j->at.worker_deaths);
    json_set_int(r, "went_back", j->went_back);
    json_set_number(r, "disk_short_seconds", (double)j->short_ns * 1e-9);
    json_set_int(r, "cuts", j->at.cuts);
    json_set(r, "checkpoints", coord_checkpoint_json(j));
    json_set_int(r, "checkpoints_made", j->checkpoint->list->made);
    json_set_int(r, "checkpoints_failed", j->checkpoint->list->failed);
    if (coord_from_resumes(&j->at))
        json_set_string(r, "from", j->at.from_path);
    else if (j->at.from != FROM_NOTHING)
        json_set_string(r, "start_from", j->at.from_path);
    if (j->kernel[0] != 0)
        json_set_string(r, "kernel", j->kernel);
}

static void evaluation_set(struct json *to, const char *key, const struct coord_job *j,
                           const struct metric *metric, uint32_t split)
{
    SHOAL_ASSERT(split == WIRE_VALID || split == WIRE_TEST);
    if (metric_most(metric, MAX(j->spec.data.label_count, 1)) == 0)
        json_set_null(to, key);
    else
        json_set(to, key, measure_json_report(metric, &j->spec, j->details[split], true));
}

/* Adds what a worker saw of data.train; null: no worker reported it. */
static void input_set(struct json *to, const struct coord_job *j)
{
    static const char *const key[] = {"rows", "whole", "over_lines", "fields"};
    if (j->profile == NULL) {
        json_set_null(to, "input");
        return;
    }
    struct json *input = json_new_object();
    for (size_t i = 0; i < sizeof key / sizeof key[0]; i++)
        if (json_get(j->profile, key[i]) != NULL)
            json_set(input, key[i], json_hold(json_get(j->profile, key[i])));
    json_set(to, "input", input);
}

/* Adds which job it is, and how it ended. */
static struct json *report_begin(const struct coord_job *j)
{
    struct json *r = json_new_object();
    if (j->spec.name[0] != 0)
        json_set_string(r, "job", j->spec.name);
    json_set_int(r, "run", (int64_t)j->at.number);
    json_set_string(r, "state", coord_jobs_state(j));
    if (!finished(j))
        json_set_string(r, "reason", j->at.text);
    return r;
}

/* The report of a job that ended with an earlier coordinator, or whose stored state cannot be read:
 * its figures were lost with that coordinator. */
static struct json *report_bare(const struct coord_job *j)
{
    static const char *const lists[] = {"epochs", "evaluations", "training", "tables", "notes"};
    struct json *r = report_begin(j);
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++)
        json_set(r, lists[i], json_new_array());
    json_set_string(r, "version", j->fleet->options.version);
    coord_report_job_dates(j, r);
    return r;
}

static struct json *report_json(const struct coord_job *j)
{
    struct json *r = report_begin(j);
    struct wire_WORKER_BEAT sum;
    struct coord_losses all = coord_epoch_losses(j);
    uint64_t rows, examples;
    coord_worker_sums(&j->workers, &sum);
    examples = coord_trace_trained(j);
    double seconds = (double)j->at.elapsed_ns * 1e-9, train = (double)j->at.train_ns * 1e-9;
    json_set_int(r, "examples", (int64_t)examples);
    if (job_draws(&j->spec))
        json_set_int(r, "drawn", (int64_t)all.drawn);
    json_set_number(r, "seconds", seconds);
    json_set_number(r, "seconds_before", (double)j->passed.before_ns * 1e-9);
    json_set_number(r, "seconds_in_vain", (double)j->passed.vain_ns * 1e-9);
    if (finished(j)) { /* otherwise the training of the last epoch is not in it */
        json_set_number(r, "train_seconds", train);
        json_set_number(r, "examples_per_second", train > 0 ? (double)examples / train : 0);
    }
    json_set(r, "epochs", epochs_json(j));
    json_set(r, "evaluations", evaluations_json(j));
    static const struct metric none[LIMIT_TASKS];
    uint32_t final = finished(j) ? coord_judge_final(j) : j->valid->count;
    evaluation_set(r, "valid", j, final == 0 ? none : j->valid->item[final - 1].of, WIRE_VALID);
    evaluation_set(r, "test", j, j->at.test, WIRE_TEST);
    train_set(r, j);
    days_set(r, j);
    json_set(r, "training", training_json(j));
    json_set(r, "staleness", coord_trace_staleness_json(j));
    json_set(r, "time", coord_trace_time_json(&sum));
    json_set(r, "busy", busy_json(&sum));
    bottleneck_set(r, &sum);
    if (sum.site_s > 0)
        json_set_number(r, "idle", sum.site_waited_s / sum.site_s);
    json_set_int(r, "skipped_steps", (int64_t)sum.skipped_steps);
    json_set_int(r, "lanes", j->tasks->lanes);
    if (j->tally.lanes_moved > 0)
        json_set_int(r, "lanes_moved", j->tally.lanes_moved);
    struct json *experts = coord_experts_json(&j->trace->experts, &j->spec);
    if (experts != NULL)
        json_set(r, "experts", experts);
    struct json *ring = coord_network_json(j, &sum);
    if (ring != NULL)
        json_set(r, "ring", ring);
    json_set(r, "batches", batches_json(j, &sum));
    json_set(r, "refused", coord_guard_json(j));
    json_set_int(r, "bad_lines", (int64_t)bad_lines_once(j));
    struct json *where = json_new_array();
    for (uint32_t i = 0; i < j->bad_told; i++)
        json_append_string(where, j->bad_where[i]);
    json_set(r, "bad_where", where);
    json_set(r, "notes", coord_notes_json(j));
    input_set(r, j);
    if (j->warning[0] != 0)
        json_set_string(r, "warning", j->warning);
    coord_objects_json(j, r);
    coord_times_json(j, r);
    json_set_int(r, "clamped_times", (int64_t)sum.clamped_times);
    if (j->spec.data.partition.step > 0 && j->spec.data.time[0] != 0)
        json_set_int(r, "outside_partition", (int64_t)sum.outside_partition);
    json_set_null(r, "teacher_auc");
    json_set(r, "tables", tables_json(j, &rows));
    json_set_int(r, "keys_pulled", (int64_t)sum.keys_pulled);
    json_set_int(r, "keys_pushed", (int64_t)sum.keys_pushed);
    json_set_int(r, "keys_echoed", (int64_t)sum.keys_echoed);
    json_set_int(r, "keys_missed", (int64_t)sum.keys_missed);
    if (finished(j))
        json_set_int(r, "rows", (int64_t)rows);
    json_set_int(r, "peak_server_rss_bytes", (int64_t)j->fleet->members.rss_peak_bytes);
    report_settings(j, r);
    coord_report_job_json(j, r);
    return r;
}

/* Keeps the last items of a list of epochs. With very many, a report would exceed a message and a
 * value of the store, and the job could not end. */
static void list_cut(struct json *r, const char *key)
{
    const struct json *all = json_get(r, key);
    size_t count = json_count(all);
    struct json *last = NULL;
    if (count > EPOCHS_WHOLE)
        last = json_new_array();
    if (last == NULL)
        return;
    for (size_t i = count - EPOCHS_WHOLE; i < count; i++)
        json_append(last, json_hold(json_array_at(all, i)));
    json_set(r, key, last);
}

/* NULL: out of memory. */
static char *report_text(struct json *r)
{
    static const char *const lists[] = {"epochs", "evaluations", "training"};
    char *text = json_text(r, 2);
    if (text != NULL && strlen(text) >= COORD_VALUE_MAX) {
        free(text); /* without indentation it is half as long */
        text = json_text(r, 0);
    }
    if (text != NULL && strlen(text) >= COORD_VALUE_MAX) {
        free(text);
        for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++)
            list_cut(r, lists[i]);
        json_append_string(json_get(r, "notes"),
                           "epochs, evaluations and training tell of the last 1,000 alone: of all "
                           "of them the report would have been too long");
        text = json_text(r, 2);
    }
    return text;
}

int coord_report_make(struct coord_job *j, struct err *e)
{
    SHOAL_ASSERT(j->at.phase == PHASE_FINISH && j->digested >= j->at.tables);
    coord_progressive_finish(j->windows);
    struct json *r = report_json(j);
    char *text = report_text(r);
    json_free(r);
    if (text == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for the report");
    free(j->report);
    j->report = text;
    if (!coord_job_put(j, "report", text, strlen(text)))
        return coord_store_failed(e);
    coord_output_report(j);
    return 0;
}

void coord_report_ended(struct coord_job *j)
{
    if (j->fleet->fatal != 0 || j->at.phase == PHASE_NONE || coord_phase_running(j) ||
        j->at.number == 0 || coord_jobs_kept(j))
        return;
    if (j->report == NULL) {
        bool known = j->parsed && j->at.phase == PHASE_FAILED;
        if (known)
            coord_progressive_finish(j->windows);
        struct json *r = known ? report_json(j) : report_bare(j);
        j->report = report_text(r);
        json_free(r);
    }
    if (j->report != NULL)
        (void)coord_jobs_keep(j);
}

int coord_report_load(struct coord_job *j, struct err *e)
{
    void *value;
    size_t bytes;
    if (j->at.phase == PHASE_FAILED) {
        int rc = coord_jobs_text(j->fleet, j->at.number, &j->report, e);
        return coord_store_optional(rc);
    }
    if (j->at.phase != PHASE_DONE)
        return 0;
    int rc = coord_store_get(j->store, "report", &value, &bytes, e);
    if (rc != 0)
        return coord_store_optional(rc);
    j->report = malloc(bytes + 1);
    if (j->report == NULL)
        rc = err_set(e, SHOAL_E_NOMEM, "no memory for the report");
    else
        memcpy(j->report, value, bytes);
    if (rc == 0)
        j->report[bytes] = 0;
    free(value);
    return rc;
}

/* ---- bottleneck ---- */

enum { READING, PULLING, COMPUTING, PUSHING, BOUND, STAGES };

struct stage {
    const char *name;
    double charge; /* lane time that the stage limits */
    double least;  /* lane time that the stage would take alone */
};

static double larger(double a, double b)
{
    return MAX(a, b);
}

void coord_bottleneck_find(const struct wire_WORKER_BEAT *sum, struct coord_bottleneck *out)
{
    const struct stage stage[STAGES] = {
        [READING] = {sum->parse_busy_s > sum->file_busy_s ? "parse" : "read", sum->read_s,
                     sum->read_least_s},
        [PULLING] = {"pull", sum->pull_s, sum->pull_least_s},
        [COMPUTING] = {"compute", sum->compute_s, sum->compute_busy_s},
        [PUSHING] = {"push", sum->push_s, sum->push_least_s},
        [BOUND] = {"bound", sum->held_s, sum->held_s},
    };
    double worked = 0, least = 0;
    int first = 0, next = -1;
    *out = (struct coord_bottleneck){0};
    for (int i = 0; i < STAGES; i++) {
        worked += stage[i].charge;
        if (stage[i].charge > stage[first].charge)
            first = i;
    }
    if (!(worked > 0))
        return;
    for (int i = 0; i < STAGES; i++) {
        if (i == first)
            continue;
        least = larger(least, stage[i].least);
        if (next < 0 ||
            larger(stage[i].charge, stage[i].least) > larger(stage[next].charge, stage[next].least))
            next = i;
    }
    SHOAL_ASSERT(next >= 0 && next != first);
    double rest = larger(worked - stage[first].charge, least);
    out->stage = stage[first].name;
    out->next = stage[next].name;
    out->share = stage[first].charge / worked;
    out->speedup_if_free = (double)INFINITY;
    if (rest > 0)
        out->speedup_if_free = larger(1.0, worked / rest);
}
