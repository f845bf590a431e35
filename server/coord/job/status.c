/* status.c: the state of the coordinator as JSON. */
#include "server/coord/job/status.h"

#include "proto/base/assert.h"
#include "proto/base/json.h"
#include "proto/base/log.h"
#include "proto/base/minmax.h"
#include "proto/base/text.h"
#include "server/coord/core/awaited.h"
#include "server/coord/core/phase.h"
#include "server/coord/figures/guard.h"
#include "server/coord/figures/judge.h"
#include "server/coord/figures/network.h"
#include "server/coord/figures/progressive.h"
#include "server/coord/figures/trace.h"
#include "server/coord/job/back.h"
#include "server/coord/job/sight.h"
#include "server/coord/job/stop.h"
#include "server/coord/keep/checkpoint.h"
#include "server/coord/keep/newest.h"
#include "server/coord/work/amount.h"
#include "server/coord/work/grow.h"
#include "server/coord/work/objects.h"
#include "server/coord/work/objects_index.h"
#include "server/coord/work/replay.h"
#include "server/coord/work/stall.h"
#include "server/coord/work/task.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

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

/* Writes where a shard's rows are, and how much of its budgets it uses. A budget of 0 means that
 * there is no limit. */
static void tier_json(struct json *item, const struct wire_SHARD_BEAT *f)
{
    const struct {
        const char *name;
        uint64_t value;
    } figure[] = {
        {"rows_memory", f->rows - MIN(f->cold_rows, f->rows)},
        {"rows_store", f->cold_rows},
        {"fetched", f->fetched},
        {"evicted", f->evicted},
        {"evicted_clean", f->evicted_clean},
        {"memory_bytes", f->memory_bytes},
        {"memory_max", f->memory_max},
        {"disk_bytes", f->disk_bytes},
        {"disk_max", f->disk_max},
        {"parked", f->parked},
    };
    for (size_t i = 0; i < sizeof figure / sizeof figure[0]; i++)
        json_set_int(item, figure[i].name, (int64_t)figure[i].value);
    json_set_bool(item, "disk_short", f->disk_short);
}

/* Returns the number of the map's tablets that each shard leads, in one walk over the map; owned by
 * the caller. NULL: no memory. */
static uint32_t *leds_count(const struct coord_fleet *f)
{
    uint32_t *led = calloc(MAX(f->members.shards, 1), sizeof *led);
    for (uint32_t i = 0; led != NULL && i < f->cluster.tablets; i++)
        if (f->cluster.shard_of[i] < f->members.shards)
            led[f->cluster.shard_of[i]]++;
    return led;
}

static struct json *servers_json(const struct coord_job *j)
{
    struct json *list = json_new_array();
    uint32_t *led = leds_count(j->fleet);
    COORD_EACH_SHARD (&j->fleet->members, s) {
        const struct coord_shard *shard = &j->fleet->members.shard[s];
        struct json *item = json_new_object();
        json_set_string(item, "name", shard->server);
        json_set_int(item, "shard", s);
        json_set_int(item, "index", shard->index);
        if (led != NULL)
            json_set_int(item, "tablets", led[s]);
        json_set_int(item, "map_epoch", (int64_t)shard->figures.map_epoch);
        json_set_bool(item, "placed", shard->placed);
        json_set_string(item, "endpoint", shard->endpoint);
        json_set_int(item, "rows", (int64_t)shard->figures.rows);
        json_set_int(item, "journal_bytes", (int64_t)shard->figures.journal_bytes);
        json_set_int(item, "rss_bytes", (int64_t)shard->figures.rss_bytes);
        bool ready = shard->ready && !coord_awaited_silent(j, shard);
        json_set_number(item, "pull_rate", ready ? shard->pull_rate : (double)NAN);
        json_set_number(item, "push_rate", ready ? shard->push_rate : (double)NAN);
        tier_json(item, &shard->figures);
        json_set_bool(item, "ready", ready);
        json_set_bool(item, "heard", !coord_awaited_unheard(j, shard));
        int64_t silent_ms = -1;
        if (shard->seen)
            silent_ms = (int64_t)((env_now_ns(j->fleet->env) - shard->beat_ns) / 1000000);
        json_set_int(item, "silent_ms", silent_ms);
        json_append(list, item);
    }
    free(led);
    return list;
}

static struct json *workers_json(const struct coord_job *j)
{
    struct json *list = json_new_array();
    for (uint32_t i = 0; i < j->workers.count; i++) {
        const struct coord_worker *w = &j->workers.worker[i];
        struct json *item = json_new_object();
        json_set_int(item, "worker", (int64_t)w->number);
        json_set_string(item, "name", w->name);
        json_set_int(item, "pid", w->pid);
        coord_compute_set(item, &w->by);
        json_set_string(item, "build", w->build);
        json_set_int(item, "lanes", coord_lane_held(j->tasks, w->number));
        json_set_int(item, "examples", (int64_t)w->figures.examples);
        json_set_number(item, "rate", w->rated ? w->rate : (double)NAN);
        json_set_int(item, "refused", (int64_t)w->refused);
        json_set_int(item, "stalls", w->stalls);
        if (w->pace.step_s > 0)
            json_set_number(item, "step_ms", w->pace.step_s * 1e3);
        if (wire_clock_apart(w->figures.clock_ahead_s))
            json_set_int(item, "clock_ahead_s", w->figures.clock_ahead_s);
        json_set_int(item, "silent_ms",
                     (int64_t)((env_now_ns(j->fleet->env) - w->beat_ns) / 1000000));
        json_append(list, item);
    }
    return list;
}

/* Returns the names of the processes that listen on tcp without keys; NULL: there is none. */
static struct json *insecure_json(const struct coord_fleet *f)
{
    struct json *list = json_new_array();
    if (f->options.insecure)
        json_append_string(list, "coordinator");
    for (uint32_t s = 0; s < f->members.shards; s++) {
        const struct coord_shard *shard = &f->members.shard[s];
        if (shard->seen && shard->figures.insecure && shard->index == 0) /* once a server */
            json_append_string(list, shard->server);
    }
    COORD_EACH_FOLLOWER(f, s, p, follower)
    if (follower->seen && follower->figures.insecure && follower->index == 0)
        json_append_string(list, follower->server);
    if (json_count(list) > 0)
        return list;
    json_free(list);
    return NULL;
}

double coord_status_rate(const struct coord_job *j)
{
    bool trains = j->at.phase == PHASE_TRAIN, known = false;
    double rate = 0;
    for (uint32_t i = 0; i < j->workers.count && trains; i++) {
        const struct coord_worker *w = &j->workers.worker[i];
        if (env_now_ns(j->fleet->env) - w->beat_ns > coord_lease_ns(j))
            continue;
        rate += w->rate;
        known = known || w->rated;
    }
    if (trains && j->workers.count > 0 && !known)
        return NAN;
    return rate;
}

/* A replay's days: how many are over, and the last of them, in short. */
static struct json *days_json(const struct coord_job *j)
{
    enum { DAYS_TOLD = 16 };
    static const char *const figure[] = {"auc", "logloss", "rmse", "mae", "calibration"};
    struct json *days = json_new_object(), *last = json_new_array();
    size_t count = json_count(j->replay->days);
    for (size_t i = SAT_SUB(count, DAYS_TOLD); i < count; i++) {
        const struct json *day = json_array_at(j->replay->days, i), *of = json_get(day, "figures");
        struct json *told = json_new_object(), *figures = json_new_object();
        json_set_string(told, "from", json_as_string(json_get(day, "from"), ""));
        json_set_int(told, "examples", json_as_int(json_get(day, "examples"), 0));
        for (size_t k = 0; k < sizeof figure / sizeof figure[0]; k++)
            if (json_get(of, figure[k]) != NULL)
                json_set_number(figures, figure[k], json_as_number(json_get(of, figure[k]), NAN));
        json_set(told, "figures", figures);
        json_append(last, told);
    }
    json_set_int(days, "count", (int64_t)count);
    json_set(days, "last", last);
    return days;
}

/* The coordinator's own store. */
static struct json *store_json(const struct coord_fleet *f)
{
    struct json *store = json_new_object();
    uint64_t kept, writes, values = coord_store_bytes(f->store, &kept);
    double mean_s = coord_writes_mean_s(&f->writes, &writes);
    json_set_string(store, "place", text_or(f->options.store, ""));
    json_set_int(store, "bytes", (int64_t)values);
    json_set_int(store, "kept_bytes", (int64_t)kept);
    json_set_int(store, "writes", (int64_t)writes);
    json_set_number(store, "write_ms", mean_s * 1e3);
    return store;
}

/* Sets the problems, the things that the job waits for, each with its age, and the notes. */
static void troubles_set(struct json *s, struct coord_job *j)
{
    char text[ERR_TEXT_MAX], fact[ERR_TEXT_MAX];
    struct json *found = coord_sight_found(j), *seconds = json_new_array();
    if (coord_status_waits(j, text, sizeof text)) {
        coord_since_fact(text, fact, sizeof fact);
        json_set_string(s, "waiting", text);
        json_set_number(s, "waiting_seconds",
                        coord_since_seconds(&j->fleet->since, fact, env_now_ns(j->fleet->env)));
    }
    for (size_t i = 0; i < json_count(found); i++)
        json_append_number(seconds, coord_sight_seconds(j->fleet, json_array_at(found, i)));
    json_set(s, "problem_seconds", seconds);
    json_set(s, "problems", coord_sight_texts(found));
    json_free(found);
    json_set(s, "notes", coord_sight_notes(j));
}

/* The time until all rows are trained, at `rate` examples a second. Where training leaves rows out,
 * a row is less than an example. NaN: not known. */
static double eta_seconds(const struct coord_job *j, double rate)
{
    uint64_t rows = coord_examples(j), all = coord_epoch_amount(j).rows * j->spec.train.epochs;
    if (!(rate > 0) || rows > all || coord_grow_on(j))
        return NAN;
    double left = (double)(all - rows);
    if (job_draws(&j->spec) && rows == 0)
        return NAN;
    if (job_draws(&j->spec))
        left *= (double)coord_trace_seen(j) / (double)rows;
    return left / rate;
}

/* Returns the lines of training that data.sample and data.negatives have taken so far. */
static uint64_t drawn_lines(const struct coord_job *j)
{
    uint64_t drawn = coord_epoch_losses(j).drawn;
    if (coord_epoch_open(j))
        drawn += j->tasks->drawn;
    return drawn;
}

struct json *coord_status_json(struct coord_job *j)
{
    struct json *s = json_new_object();
    struct coord_losses sum = {.examples = 0};
    struct wire_WORKER_BEAT stages;
    double rate = coord_status_rate(j);
    for (uint32_t i = 0; i < j->tasks->tasks; i++)
        coord_losses_add(&sum, &j->tasks->task[i].sum);
    uint64_t examples = coord_examples(j);
    bool grows = coord_grow_on(j);
    json_set_string(s, "job", j->spec.name);
    json_set_string(s, "state", coord_phase_name(j));
    json_set_int(s, "run", (int64_t)j->at.number);
    json_set_string(s, "space", j->spec.space);
    json_set_int(s, "workers_wanted", j->at.workers_wanted);
    json_set_int(s, "wall_s", (int64_t)env_wall_s(j->fleet->env));
    json_set_int(s, "epoch", j->at.epoch);
    if (grows)
        json_set_null(s, "epochs");
    else
        json_set_int(s, "epochs", j->spec.train.epochs);
    json_set_int(s, "examples", (int64_t)examples);
    if (job_draws(&j->spec))
        json_set_int(s, "drawn", (int64_t)drawn_lines(j));
    json_set_number(s, "rate", rate);
    json_set_number(s, "loss", coord_losses_mean(&sum));
    json_set_string(s, "loss_name", job_loss_name(&j->spec));
    struct metric of[LIMIT_TASKS], now;
    if (j->parsed && coord_progressive_newest(j->windows, of)) {
        metric_mean(of, j->spec.model.task_weight, j->windows->labels, &now);
        if (metric_is_real(&now))
            json_set_number(s, "train_rmse", now.rmse);
        else
            json_set_number(s, "train_auc", now.auc);
        json_set_number(s, "train_calibration", now.calibration);
    }
    if (j->valid->count > 0 && coord_judge_mean(j, j->valid->count, &now)) {
        if (metric_is_real(&now))
            json_set_number(s, "valid_rmse", now.rmse);
        else
            json_set_number(s, "valid_auc", now.auc);
    }
    json_set_number(s, "eta_seconds", eta_seconds(j, rate));
    json_set_number(s, "stands_seconds", (double)coord_stall_ns(j) * 1e-9);
    json_set_int(s, "restarts", j->at.restarts);
    json_set_int(s, "worker_deaths", j->at.worker_deaths);
    json_set_int(s, "went_back", j->went_back);
    coord_checkpoint_status(j, s);
    struct json *publish = coord_checkpoint_publish_json(j);
    if (publish != NULL)
        json_set(s, "publish", publish);
    coord_worker_sums(&j->workers, &stages);
    json_set(s, "staleness", coord_trace_staleness_json(j));
    json_set(s, "time", coord_trace_time_json(&stages));
    struct json *ring = coord_network_status(j, &stages);
    if (ring != NULL)
        json_set(s, "ring", ring);
    troubles_set(s, j);
    if (j->warning[0] != 0)
        json_set_string(s, "warning", j->warning);
    if (j->profile != NULL)
        json_set(s, "input", json_hold(j->profile));
    if (j->spec.replay.on)
        json_set(s, "days", days_json(j));
    coord_objects_json(j, s);
    double listed = NAN;
    if (grows && j->grow->listed_ns != 0)
        listed = (double)(env_now_ns(j->fleet->env) - j->grow->listed_ns) * 1e-9;
    if (grows)
        json_set_number(json_get(s, "objects"), "listed_seconds", listed);
    if (j->at.status != 0)
        json_set_string(s, "error", j->at.text);
    if (j->parsed)
        json_set(s, "refused", coord_guard_json(j));
    struct json *insecure = insecure_json(j->fleet);
    if (insecure != NULL)
        json_set(s, "insecure", insecure);
    json_set(s, "idle", coord_sight_idle(j->fleet));
    json_set(s, "store", store_json(j->fleet));
    json_set(s, "cluster", coord_cluster_json(j->fleet));
    json_set(s, "spaces", coord_made_json(j->fleet));
    json_set(s, "lanes", lanes_json(j->tasks));
    json_set(s, "workers", workers_json(j));
    json_set(s, "servers", servers_json(j));
    return s;
}

char *coord_status_text(struct coord_job *j)
{
    struct json *s = coord_status_json(j);
    char *text = json_text(s, 0);
    json_free(s);
    return text;
}

void coord_status_line(struct coord_job *j, char *text, size_t bytes)
{
    char missing[ERR_TEXT_MAX];
    uint32_t ready = 0;
    const struct coord_members *m = &j->fleet->members;
    for (uint32_t i = 0; i < m->shards; i++)
        ready += m->shard[i].ready && !coord_awaited_silent(j, &m->shard[i]);
    bool waits = coord_status_waits(j, missing, sizeof missing);
    char of[32] = "";
    if (!coord_grow_on(j))
        (void)snprintf(of, sizeof of, " of %u", j->spec.train.epochs);
    char rate[32] = "";
    if (isfinite(coord_status_rate(j)))
        (void)snprintf(rate, sizeof rate, " %.0f/s,", coord_status_rate(j));
    if (coord_phase_running(j))
        (void)snprintf(text, bytes,
                       "job %s: %s, epoch %u%s, %" PRIu64 " examples,%s %u workers%s%s",
                       j->spec.name, coord_phase_name(j), j->at.epoch, of, coord_examples(j), rate,
                       j->workers.count, text_if(waits, "; "), text_if(waits, missing));
    else
        (void)snprintf(text, bytes, "no job, %u of %u shards ready%s%s%s%s", ready,
                       coord_member_count(&j->fleet->members), text_if(j->parsed, "; the last, "),
                       text_if(j->parsed, j->spec.name), text_if(j->parsed, ": "),
                       text_if(j->parsed, coord_phase_name(j)));
}

/* ---- watch ---- */

#define SAY_NS UINT64_C(10000000000)

/* A server that never came has no name here, so the text names those that came, and those that wait
 * until all have come (cluster.h). */
static void came_text(const struct coord_fleet *f, char *text, size_t bytes)
{
    const struct coord_members *m = &f->members;
    const struct coord_claims *claims = &f->cluster.claims;
    uint32_t came = claims->count;
    size_t n = 0;
    char names[ERR_TEXT_MAX / 2] = "";
    for (uint32_t i = 0; i < claims->count && n < sizeof names; i++)
        if (claims->claim[i].beat.shard_index == 0)
            n += (size_t)snprintf(names + n, sizeof names - n, "%s%s", n > 0 ? ", " : ", of ",
                                  claims->claim[i].beat.server);
    for (uint32_t i = 0; i < m->shards; i++) {
        if (!m->shard[i].seen)
            continue;
        came++;
        if (m->shard[i].index == 0 && n < sizeof names)
            n += (size_t)snprintf(names + n, sizeof names - n, "%s%s", n > 0 ? ", " : ", of ",
                                  m->shard[i].server);
    }
    COORD_EACH_FOLLOWER(f, s, p, follower)
    came += follower->seen;
    (void)snprintf(text, bytes,
                   "waits for servers: %u of the %u shards of the coordinator's file have come%s; "
                   "start the others, or see in their logs why they ended",
                   came, coord_copies_wanted(f), names);
}

bool coord_status_waits(const struct coord_job *j, char *text, size_t bytes)
{
    uint64_t hangs;
    text[0] = 0;
    if (!coord_phase_running(j))
        return false;
    if (coord_goes_back(j)) {
        (void)snprintf(text, bytes,
                       "waits for its newest checkpoint, to go back to it: the folder of that is "
                       "being read");
        return true;
    }
    const struct coord_shard *s = coord_awaited_missing(j);
    const char *refused = NULL;
    if (s != NULL)
        refused = coord_cluster_refused(j->fleet, s->server, s->index);
    if (refused != NULL)
        (void)snprintf(text, bytes, "waits for server %s, which is there and is refused: %.380s",
                       s->server, refused);
    else if (s != NULL && coord_copies_leaderless(j->fleet, (uint32_t)(s - j->fleet->members.shard),
                                                  text, bytes))
        return true;
    else if (s != NULL &&
             (hangs = coord_sight_hangs(j->fleet, (uint32_t)(s - j->fleet->members.shard))) > 0)
        (void)snprintf(text, bytes,
                       "waits for server %s: its disk has not answered for %" PRIu64
                       " s; a restart would hang as well",
                       s->server, hangs);
    else if (s != NULL && s->server[0] != 0)
        (void)snprintf(text, bytes,
                       "waits for server %s (%s), not heard for %" PRIu64 " s: start it again",
                       s->server, text_unless_empty(s->endpoint, "not seen yet"),
                       (coord_awaited_silent_ns(j, s) / UINT64_C(1000000000)));
    else if (s != NULL)
        came_text(j->fleet, text, bytes);
    else if ((s = coord_awaited_reading(j->fleet)) != NULL)
        (void)snprintf(text, bytes,
                       "waits for server %s (%s): it has started and reads its rows back",
                       s->server, s->endpoint);
    else if ((s = coord_awaited_short(j->fleet)) != NULL)
        (void)snprintf(text, bytes,
                       "waits for disk: %s takes no pushes, too little is free; free some, or "
                       "lower its disk_free%s",
                       s->server, text_if(s->figures.disk_max > 0, ", or raise its disk"));
    else if (coord_call_put_off_ns(&j->fleet->calls) > COORD_SHORT_NS)
        (void)snprintf(text, bytes, "waits for server %s: %.400s",
                       j->fleet->members.shard[j->fleet->calls.waits.shard].server,
                       j->fleet->calls.waits.text);
    else if (j->workers.count == 0 &&
             env_now_ns(j->fleet->env) - j->watch.worker_ns > coord_lease_ns(j))
        (void)snprintf(text, bytes, "waits for a worker: none is there%s%s%.400s",
                       text_if(j->spec.model.kind == MODEL_EXTERNAL,
                               " (model.kind: external: start the program that has the network, "
                               "which joins through libshoal; shoal-worker has none for it)"),
                       text_if(j->watch.failed[0] != 0, "; the last one left, "), j->watch.failed);
    else if (j->at.phase == PHASE_WAITING && j->workers.count < j->at.workers_wanted &&
             env_now_ns(j->fleet->env) - j->phase_ns > coord_lease_ns(j))
        (void)snprintf(text, bytes,
                       "waits for workers: %u of the %u that the job asked for are there",
                       j->workers.count, j->at.workers_wanted);
    else if (!coord_stop_waits(j, text, bytes) && !coord_objects_waits(j, text, bytes) &&
             !coord_grow_waits(j, text, bytes))
        (void)coord_stall_waits(j, text, bytes);
    return text[0] != 0;
}

/* Rows that were in the memory of a process are lost with it, unless another copy in sync can take
 * over: the job waits for the server's return only if it can then go back to a checkpoint. */
static void memory_look(struct coord_job *j)
{
    char path[LIMIT_PATH];
    if (!coord_phase_running(j) || j->at.phase < PHASE_SETUP || j->at.phase == PHASE_FINISH ||
        coord_newest_path(j, path))
        return;
    for (uint32_t i = 0; i < j->fleet->members.shards; i++) {
        const struct coord_shard *s = &j->fleet->members.shard[i];
        uint64_t silent = coord_awaited_silent_ns(j, s);
        if (!coord_shard_in_memory(s) || coord_copies_others(j->fleet, i) ||
            silent <= 2 * j->fleet->options.lease_ms * UINT64_C(1000000) ||
            coord_cluster_led_of(&j->fleet->cluster, i, &j->space->numbers) == 0)
            continue;
        coord_end_fail(j, SHOAL_E_UNAVAILABLE,
                       "server %s has not been heard for %" PRIu64
                       " s: its rows were in memory alone and count as lost; " COORD_BACK_ADVICE,
                       s->server, silent / UINT64_C(1000000000));
        return;
    }
}

/* Adds up the time that a full disk cost the job, for its report. */
static void short_look(struct coord_job *j)
{
    uint64_t now = env_now_ns(j->fleet->env), since = j->watch.short_ns;
    bool any = false;
    for (uint32_t i = 0; i < j->fleet->members.shards; i++)
        any |= j->fleet->members.shard[i].short_ns != 0;
    j->watch.short_ns = any && coord_phase_running(j) ? now : 0;
    if (since != 0 && j->watch.short_ns != 0)
        j->short_ns += now - since;
}

/* Looks for problems also while no status is asked for, so that it is known since when they are. */
static void problems_look(struct coord_job *j)
{
    uint64_t now = env_now_ns(j->fleet->env);
    struct json *found;
    if (now - j->watch.looked_ns < COORD_SINCE_LOOK_NS)
        return;
    j->watch.looked_ns = now;
    found = json_new_object();
    troubles_set(found, j);
    json_free(found);
}

void coord_watch_tick(struct coord_job *j)
{
    char text[ERR_TEXT_MAX];
    uint64_t now = env_now_ns(j->fleet->env);
    problems_look(j);
    if (j->workers.count > 0)
        j->watch.worker_ns = now;
    memory_look(j);
    short_look(j);
    SHOAL_ASSERT(j->watch.said_ns <= now);
    if (now - j->watch.said_ns < SAY_NS || !coord_status_waits(j, text, sizeof text))
        return;
    j->watch.said_ns = now;
    log_event(JOB_WAITS, j->spec.name, "job %s %s", j->spec.name, text);
}
