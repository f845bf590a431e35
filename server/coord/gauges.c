/* gauges.c: figures for Prometheus: of the fleet, and of the job in each slot. */
#include "server/coord/gauges.h"

#include "proto/base/assert.h"
#include "proto/base/minmax.h"
#include "proto/metric/metric.h"
#include "server/coord/core/awaited.h"
#include "server/coord/core/phase.h"
#include "server/coord/figures/guard.h"
#include "server/coord/figures/judge.h"
#include "server/coord/figures/network.h"
#include "server/coord/figures/progressive.h"
#include "server/coord/figures/queue.h"
#include "server/coord/job/sight.h"
#include "server/coord/job/slot.h"
#include "server/coord/job/status.h"
#include "server/coord/keep/checkpoint.h"
#include "server/coord/keep/checkpoint_keep.h"
#include "server/coord/work/amount.h"
#include "server/coord/work/grow.h"
#include "server/coord/work/ring_job.h"
#include "server/coord/work/stall.h"
#include "server/coord/work/task.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define NS 1e-9
#define PROBLEMS_PUT 64u /* series of problems, at most */
#define STREAMS_PUT 64u  /* series of streams of a job, and one for the rest */

_Static_assert(COORD_REASONS == METER_REASONS, "each count has a name");

/* ---- the fleet ---- */

static uint64_t silent_ns(const struct coord_fleet *f, const struct coord_shard *s)
{
    return SAT_SUB(env_now_ns(f->env), s->beat_ns);
}

static void shard_put(const struct coord_fleet *f, uint32_t shard, struct meter_sheet *out)
{
    const struct coord_shard *s = &f->members.shard[shard];
    const struct coord_copies_of *copies = coord_copies_shard(f, shard);
    uint64_t lease_ns = f->options.lease_ms * UINT64_C(1000000);
    char number[16];
    (void)snprintf(number, sizeof number, "%u", shard);
    bool there = s->seen && s->ready && silent_ns(f, s) <= lease_ns;
    meter_put(out, SHARD_READY, there, number, s->server, NULL);
    if (s->seen)
        meter_put(out, SHARD_SILENT, (double)silent_ns(f, s) * NS, number, s->server, NULL);
    if (copies != NULL && copies->term != 0) {
        meter_put(out, COPIES, __builtin_popcount(copies->in_sync), number, "in_sync", NULL);
        meter_put(out, COPIES, f->options.replicas, number, "wanted", NULL);
    }
}

static void followers_put(const struct coord_fleet *f, struct meter_sheet *out)
{
    char number[16];
    COORD_EACH_FOLLOWER(f, s, p, follower)
    {
        (void)snprintf(number, sizeof number, "%u", s);
        if (follower->seen)
            meter_put(out, SHARD_SILENT, (double)silent_ns(f, follower) * NS, number,
                      follower->server, NULL);
    }
}

/* A reason that never occurred has no series, but that of an alert does. */
static void refusals_put(const struct coord *c, struct meter_sheet *out)
{
    for (uint32_t i = 0; i < METER_REASONS; i++)
        if (meter_reason(i) != NULL && (c->refused_as[i] > 0 || i == -SHOAL_E_DENIED))
            meter_put(out, COORD_REFUSALS, (double)c->refused_as[i], meter_reason(i), NULL);
}

static uint32_t strangers(const struct coord_fleet *f)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < f->cluster.strangers; i++)
        count += coord_cluster_stranger_heard(f, &f->cluster.stranger[i]) &&
                 !f->cluster.stranger[i].drained;
    return count;
}

static bool has_text(const struct json *list, const char *text)
{
    bool has = false;
    for (size_t i = 0; i < json_count(list) && !has; i++)
        has = strcmp(json_as_string(json_get(json_array_at(list, i), "text"), ""), text) == 0;
    return has;
}

/* Returns the problems of all jobs that run; those of the fleet once. */
static struct json *problems_of(struct coord *c)
{
    const struct coord_job *newest = coord_slot_newest(c);
    struct json *found = coord_sight_found(newest);
    COORD_EACH_JOB (c, j) {
        struct json *more = NULL;
        if (j != newest && coord_phase_running(j))
            more = coord_sight_found(j);
        for (size_t i = 0; i < json_count(more); i++) {
            struct json *p = json_array_at(more, i);
            if (!has_text(found, json_as_string(json_get(p, "text"), "")))
                json_append(found, json_hold(p));
        }
        json_free(more);
    }
    return found;
}

/* Puts a series for each problem; of those with the same labels the oldest. */
static void problems_put(struct coord *c, struct meter_sheet *out)
{
    struct json *found = problems_of(c);
    struct {
        const char *kind, *of;
        double seconds;
    } put[PROBLEMS_PUT];
    uint32_t count = 0;
    for (size_t i = 0; i < json_count(found); i++) {
        const struct json *p = json_array_at(found, i);
        const char *kind = json_as_string(json_get(p, "problem"), ""),
                   *of = json_as_string(json_get(p, "of"), "");
        double seconds = coord_sight_seconds(&c->fleet, p);
        uint32_t at = 0;
        while (at < count && (strcmp(put[at].kind, kind) != 0 || strcmp(put[at].of, of) != 0))
            at++;
        if (at == PROBLEMS_PUT)
            continue;
        if (at == count) {
            put[count].kind = kind;
            put[count].of = of;
            put[count++].seconds = 0;
        }
        put[at].seconds = MAX(put[at].seconds, seconds);
    }
    for (uint32_t i = 0; i < count; i++)
        meter_put(out, PROBLEM, put[i].seconds, put[i].kind, put[i].of, NULL);
    meter_put(out, PROBLEMS, (double)json_count(found), NULL);
    json_free(found);
}

static void store_put(const struct coord_fleet *f, struct meter_sheet *out)
{
    uint64_t kept, values = coord_store_bytes(f->store, &kept);
    meter_put(out, COORD_STORE, (double)values, "values", NULL);
    meter_put(out, COORD_STORE, (double)kept, "kept", NULL);
    meter_put_times(out, COORD_STORE_SECONDS, &f->writes.times, NULL);
    meter_put(out, COORD_STORE_STANDS,
              (double)coord_writes_stand_ns(&f->writes, env_now_ns(f->env)) * NS, NULL);
}

static void fleet_put(struct coord *c, struct meter_sheet *out)
{
    const struct coord_fleet *f = &c->fleet;
    const struct coord_moves *m = &f->moves;
    struct json *idle = coord_sight_idle(f);
    uint64_t left = 0;
    COORD_EACH_SHARD (&f->members, s)
        shard_put(f, s, out);
    followers_put(f, out);
    for (uint32_t t = 0; m->kind != MOVES_NONE && t < MIN(m->tablets, f->cluster.tablets); t++)
        left += m->goal[t] != f->cluster.shard_of[t];
    store_put(f, out);
    meter_put(out, SHARDS_WANTED, coord_member_count(&f->members), NULL);
    meter_put(out, REFUSED_SHARDS, strangers(f), NULL);
    meter_put(out, LEASE, (double)coord_fleet_lease_ns(f) * NS, NULL);
    refusals_put(c, out);
    problems_put(c, out);
    meter_put(out, IDLE, (double)json_count(idle), NULL);
    meter_put(out, QUEUED, f->queue->count, NULL);
    meter_put(out, MOVES_LEFT, (double)left, NULL);
    meter_put(out, MOVED, m->moved, NULL);
    json_free(idle);
}

/* ---- a job ---- */

static const char *const lane_states[] = {"free", "granting", "held", "closing"};

static void lanes_put(const struct coord_job *j, struct meter_sheet *out)
{
    const char *space = j->spec.space, *name = j->spec.name;
    const struct coord_tasks *t = j->tasks;
    uint32_t count[4] = {0};
    uint64_t newest = 0;
    char lane[16];
    for (uint32_t l = 0; l < t->lanes; l++) {
        SHOAL_ASSERT(t->lane[l].state < 4);
        count[t->lane[l].state]++;
        newest = MAX(newest, t->lane[l].mark);
    }
    for (uint32_t i = 0; i < 4; i++)
        meter_put(out, LANES, count[i], space, name, lane_states[i], NULL);
    for (uint32_t l = 0; l < t->lanes; l++) {
        (void)snprintf(lane, sizeof lane, "%u", l);
        meter_put(out, LANE_BATCHES, (double)t->lane[l].mark, space, name, lane, NULL);
        if (t->lane[l].state == LANE_HELD || t->lane[l].state == LANE_GRANTING)
            meter_put(out, LANE_BEHIND, (double)(newest - t->lane[l].mark), space, name, lane,
                      NULL);
    }
    meter_put(out, TASKS, t->tasks, space, name, "planned", NULL);
    meter_put(out, TASKS, t->frontier, space, name, "given", NULL);
    meter_put(out, TASKS, t->pushed, space, name, "done", NULL);
}

static void figures_put(const struct coord_job *j, const struct metric *m, const char *of,
                        struct meter_sheet *out)
{
    const char *space = j->spec.space, *name = j->spec.name;
    if (metric_is_real(m)) {
        meter_put(out, RMSE, m->rmse, space, name, of, NULL);
        meter_put(out, MAE, m->mae, space, name, of, NULL);
    } else {
        meter_put(out, AUC, m->auc, space, name, of, NULL);
        meter_put(out, LOGLOSS, m->logloss, space, name, of, NULL);
    }
    meter_put(out, CALIBRATION, m->calibration, space, name, of, NULL);
}

static void quality_put(const struct coord_job *j, struct meter_sheet *out)
{
    struct metric of[LIMIT_TASKS], now;
    if (j->parsed && coord_progressive_newest(j->windows, of)) {
        metric_mean(of, j->spec.model.task_weight, j->windows->labels, &now);
        figures_put(j, &now, "train", out);
    }
    if (j->valid->count > 0 && coord_judge_mean(j, j->valid->count, &now))
        figures_put(j, &now, "valid", out);
}

static void checkpoints_put(const struct coord_job *j, struct meter_sheet *out)
{
    const char *space = j->spec.space, *name = j->spec.name;
    const struct coord_checkpoint *k = j->checkpoint;
    const struct coord_checkpoint_record *r = coord_checkpoint_record(j, 0);
    uint64_t age_ns;
    if (k->list == NULL)
        return;
    meter_put(out, CHECKPOINTS, k->list->made, space, name, "made", NULL);
    meter_put(out, CHECKPOINTS, k->list->failed, space, name, "failed", NULL);
    if (j->at.phase == PHASE_TRAIN && k->last_ns != 0)
        meter_put(out, CHECKPOINT_SINCE, (double)(env_now_ns(j->fleet->env) - k->last_ns) * NS,
                  space, name, NULL);
    meter_put(out, CHECKPOINT_EVERY, j->spec.checkpoint.every_minutes * 60, space, name, NULL);
    if (coord_checkpoint_age(j, &age_ns))
        meter_put(out, CHECKPOINT_AGE, (double)age_ns * NS, space, name, NULL);
    if (r == NULL)
        return;
    meter_put(out, CHECKPOINT_BYTES, (double)r->bytes, space, name, NULL);
    meter_put(out, CHECKPOINT_SECONDS, r->seconds, space, name, "all", NULL);
    meter_put(out, CHECKPOINT_SECONDS, r->held_seconds, space, name, "held", NULL);
}

/* Streams of a log that grows. */
static void streams_put(const struct coord_job *j, struct meter_sheet *out)
{
    const char *space = j->spec.space, *name = j->spec.name;
    const struct positions *p = &j->grow->streams;
    double rest = 0;
    for (uint32_t i = 0; coord_grow_on(j) && i < p->count; i++) {
        double behind = (double)coord_grow_behind(j, &p->of[i]);
        if (i < STREAMS_PUT)
            meter_put(out, STREAM_BEHIND, behind, space, name, p->of[i].stream, NULL);
        else
            rest += behind;
    }
    if (coord_grow_on(j) && p->count > STREAMS_PUT)
        meter_put(out, STREAM_BEHIND, rest, space, name, "other", NULL);
}

/* w: the sums of all workers. */
static void ring_put(const struct coord_job *j, const struct wire_WORKER_BEAT *w,
                     struct meter_sheet *out)
{
    const char *space = j->spec.space, *name = j->spec.name;
    const struct coord_ring *r = &j->ring->ring;
    uint32_t members = 0;
    if (!coord_ring_on(j))
        return;
    if (r->state == RING_STANDS)
        members = r->count;
    meter_put(out, RING, (double)r->number, space, name, NULL);
    meter_put(out, RING_MEMBERS, members, space, name, NULL);
    meter_put(out, RING_STEPS, (double)w->ring_steps, space, name, NULL);
    meter_put(out, RING_BYTES, (double)w->ring_bytes, space, name, NULL);
    meter_put(out, RING_AGE, coord_network_age_s(j), space, name, NULL);
}

static void workers_put(const struct coord_job *j, struct meter_sheet *out)
{
    const char *space = j->spec.space, *name = j->spec.name;
    struct wire_WORKER_BEAT w;
    coord_worker_sums(&j->workers, &w);
    const struct {
        const char *stage;
        double seconds;
    } time[] = {{"read", w.read_s},      {"pull", w.pull_s}, {"compute", w.compute_s},
                {"ring", w.ring_wait_s}, {"push", w.push_s}, {"wait", w.wait_s}};
    for (size_t i = 0; i < sizeof time / sizeof time[0]; i++)
        meter_put(out, JOB_LANE_SECONDS, time[i].seconds, space, name, time[i].stage, NULL);
    uint64_t now_ns = env_now_ns(j->fleet->env), beat_ns = now_ns;
    for (uint32_t i = 0; i < j->workers.count; i++)
        beat_ns = MIN(beat_ns, j->workers.worker[i].beat_ns);
    meter_put(out, WORKER_SILENT, (double)(now_ns - beat_ns) * NS, space, name, NULL);
    meter_put(out, WORKERS, j->workers.count, space, name, NULL);
    meter_put(out, WORKERS_WANTED, j->at.workers_wanted, space, name, NULL);
    meter_put(out, WORKER_DEATHS, j->at.worker_deaths, space, name, NULL);
    meter_put(out, JOB_BAD_LINES, (double)w.bad_lines, space, name, NULL);
    ring_put(j, &w, out);
}

static void job_put(const struct coord_job *j, struct meter_sheet *out)
{
    const char *space = j->spec.space, *name = j->spec.name;
    char text[ERR_TEXT_MAX];
    uint64_t batches;
    if (!j->parsed || j->at.number == 0)
        return;
    meter_put(out, JOB_PHASE, 1, space, name, coord_phase_name(j), NULL);
    meter_put(out, JOB_RUNNING, coord_phase_running(j), space, name, NULL);
    meter_put(out, JOB_WAITS, coord_status_waits(j, text, sizeof text), space, name, NULL);
    meter_put(out, JOB_STANDS, (double)coord_stall_ns(j) * NS, space, name, NULL);
    meter_put(out, EPOCH, j->at.epoch, space, name, NULL);
    meter_put(out, JOB_EXAMPLES, (double)coord_examples(j), space, name, NULL);
    meter_put(out, JOB_RATE, coord_status_rate(j), space, name, NULL);
    meter_put(out, JOB_REFUSED, (double)coord_guard_refused(j, &batches), space, name, NULL);
    meter_put(out, JOB_RESTARTS, j->at.restarts, space, name, NULL);
    lanes_put(j, out);
    quality_put(j, out);
    checkpoints_put(j, out);
    workers_put(j, out);
    streams_put(j, out);
}

void coord_gauges_put(struct coord *c, struct meter_sheet *out)
{
    fleet_put(c, out);
    COORD_EACH_JOB (c, j)
        job_put(j, out);
}
