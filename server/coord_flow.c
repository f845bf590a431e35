/* coord_flow.c: phases; the diagram is in coord_flow.h. */
#include "server/coord_flow.h"
#include "proto/base/assert.h"
#include "proto/base/log.h"
#include "server/coord_core.h"
#include "server/coord_epoch.h"
#include "server/coord_grant.h"
#include "server/coord_report.h"
#include "server/coord_setup.h"
#include "server/coord_trace.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LEAVE_WAIT_NS 1500000000ull /* workers' last figures are waited for this long */

static const char *const phase_name[] = {"none", "waiting", "index", "tables", "setup",  "lanes", "train", "eval",
                                         "cut",  "restore", "test",  "digest", "finish", "done",  "failed"};

bool coord_flow_running(const struct coord *c)
{
    return c->job.at.phase != PHASE_NONE && c->job.at.phase != PHASE_DONE && c->job.at.phase != PHASE_FAILED;
}

const char *coord_flow_phase(const struct coord *c)
{
    return phase_name[c->job.at.phase];
}

uint32_t coord_flow_state(const struct coord *c)
{
    switch (c->job.at.phase) {
    case PHASE_NONE:
        return WIRE_JOB_NONE;
    case PHASE_WAITING:
        return WIRE_JOB_WAITING;
    case PHASE_INDEX:
    case PHASE_TABLES:
    case PHASE_SETUP:
        return WIRE_JOB_INDEX;
    case PHASE_LANES:
    case PHASE_TRAIN:
        return WIRE_JOB_TRAIN;
    case PHASE_DONE:
        return WIRE_JOB_DONE;
    case PHASE_FAILED:
        return WIRE_JOB_FAILED;
    default:
        return WIRE_JOB_EVAL;
    }
}

bool coord_flow_put(struct coord *c)
{
    uint64_t now = env_now_ns(c->env);

    if (coord_flow_running(c) && c->job.started_ns != 0) {
        c->job.at.elapsed_ns += now - c->job.started_ns;
        c->job.started_ns = now;
    }
    return coord_put(c, "progress", &c->job.at, sizeof c->job.at);
}

bool coord_flow_enter(struct coord *c, uint32_t phase)
{
    c->job.at.phase = phase;
    c->job.phase_ns = env_now_ns(c->env);
    log_info("job %s, epoch %u: %s", c->job.spec.name, c->job.at.epoch, phase_name[phase]);
    return coord_flow_put(c);
}

static void run_dropped(void *context, const struct coord_call *call, int status, const char *text)
{
    (void)context;
    if (status != 0)
        log_warn("run %llu was not dropped: %s", (unsigned long long)call->owner, text);
}

/* Marks and cuts of the job go; nobody waits for that. */
static void job_tidy(struct coord *c)
{
    struct wire w = {.type = WIRE_TYPE_RUN_DROP};

    w.u.RUN_DROP.run = c->job.at.run;
    (void)coord_call_start(&c->calls, &w, NULL, 0, false, COORD_NOBODY, false, c->job.at.run, NULL, run_dropped);
    if (c->job.at.best_cut != 0)
        coord_cut_drop(c, c->job.at.best_cut);
}

void coord_flow_fail(struct coord *c, int status, const char *format, ...)
{
    va_list arguments;

    if (!coord_flow_running(c))
        return;
    c->job.at.status = status;
    va_start(arguments, format);
    (void)vsnprintf(c->job.at.text, sizeof c->job.at.text, format, arguments);
    va_end(arguments);
    coord_call_cancel_all(&c->calls);
    coord_cut_cancel(c);
    if (c->job.at.phase >= PHASE_SETUP)
        job_tidy(c);
    coord_setup_forget(c);
    log_error("job %s failed in %s: %s", c->job.spec.name, phase_name[c->job.at.phase], c->job.at.text);
    (void)coord_flow_enter(c, PHASE_FAILED);
    coord_grant_dismiss(c);
}

/* ---- a job comes ------------------------------------------------------------------------------------------- */

void coord_flow_close(struct coord *c)
{
    struct coord_job *j = &c->job;

    coord_task_close(&j->tasks);
    coord_eval_close(&j->eval);
    coord_curve_close(&j->trace.curve);
    for (uint32_t s = 0; s < 3; s++)
        json_free(j->details[s]);
    if (j->parsed)
        job_free(&j->spec);
    free(j->yaml);
    free(j->table);
    free(j->shard_of);
    free(j->epoch);
    free(j->digest);
    free(j->report);
    memset(j, 0, sizeof *j);
}

/* What follows from the text alone. */
static int job_build(struct coord_job *j, const char *yaml, size_t bytes, struct err *e)
{
    int status = job_parse(yaml, bytes, "job", NULL, &j->spec, e);

    if (status != 0)
        return status;
    j->parsed = true;
    if (j->spec.train.epochs > COORD_EPOCHS_MAX)
        return err_set(e, SHOAL_E_CONFIG, "train.epochs: %u, at most %u", j->spec.train.epochs, COORD_EPOCHS_MAX);
    if (j->spec.train.early_stop.patience > 0 && j->spec.data.valid.count == 0)
        return err_set(e, SHOAL_E_CONFIG,
                       "train.early_stop needs data.valid: name the files to measure by, or set patience: 0");
    j->yaml = malloc(bytes + 1);
    j->table = calloc(LIMIT_TABLES, sizeof *j->table);
    j->epoch = calloc(j->spec.train.epochs, sizeof *j->epoch);
    if (j->yaml == NULL || j->table == NULL || j->epoch == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for the job");
    memcpy(j->yaml, yaml, bytes);
    j->yaml_bytes = bytes;
    status = coord_curve_open(&j->trace.curve, e);
    if (status != 0)
        return status;
    return coord_task_open(&j->tasks, job_lanes(&j->spec), j->spec.train.mode, e);
}

static int job_begin(struct coord *c, struct coord_job *j, uint32_t workers, struct err *e)
{
    uint64_t run = c->counters.next_run++;

    /* What a former job had in its lanes must not be taken for this one's when the coordinator dies before it fences
     * them. */
    int status = coord_store_remove(c->store, "lanes", e);
    if (status != 0)
        return status;
    if (!coord_put(c, "counters", &c->counters, sizeof c->counters) || !coord_put(c, "job", j->yaml, j->yaml_bytes))
        return err_set(e, SHOAL_E_IO, "the coordinator's store failed");
    j->at.number = j->at.run = run;
    j->at.map_epoch = c->job.at.map_epoch;
    j->at.lr_scale = 1;
    j->at.workers_wanted = workers;
    j->at.split[WIRE_TRAIN].used = 1;
    j->at.split[WIRE_VALID].used = j->spec.data.valid.count > 0;
    j->at.split[WIRE_TEST].used = j->spec.data.test.count > 0;
    j->eval_number = (env_random(c->env) & 0xffffff) + 1;
    return 0;
}

int coord_flow_submit(struct coord *c, peer_t from, const char *yaml, size_t bytes, uint32_t workers, uint64_t *run,
                      struct err *e)
{
    struct coord_job *j;

    /* A request that is sent again, its answer being lost; after a restart nobody knows who had sent it. */
    bool sender = c->job.submitter == from || c->job.submitter == 0;
    if (c->job.parsed && sender && c->job.yaml_bytes == bytes &&
        memcmp(c->job.yaml, yaml, bytes) == 0 &&
        (coord_flow_running(c) || env_now_ns(c->env) - c->job.phase_ns < 2000000000ull)) {
        *run = c->job.at.number;
        return 0;
    }
    if (coord_flow_running(c))
        return err_set(e, SHOAL_E_BUSY, "job %s (run %llu) is running: wait for its end or stop it first",
                       c->job.spec.name, (unsigned long long)c->job.at.number);
    if (workers > LIMIT_WORKERS)
        return err_set(e, SHOAL_E_USAGE, "%u workers, at most %u are possible", workers, LIMIT_WORKERS);
    if (c->job.at.phase == PHASE_DONE || c->job.at.phase == PHASE_FAILED)
        coord_setup_forget(c);
    j = calloc(1, sizeof *j);
    if (j == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for the job");
    struct coord_job former = c->job;
    int status = job_build(j, yaml, bytes, e);
    if (status == 0)
        status = job_begin(c, j, workers, e);
    if (status == 0) {
        coord_flow_close(c);
        c->job = *j;
    } else {
        c->job = *j; /* what there is of it goes */
        coord_flow_close(c);
        c->job = former;
    }
    free(j);
    if (status != 0)
        return status;
    c->job.submitter = from;
    coord_member_forget_figures(&c->members);
    *run = c->job.at.number;
    return coord_flow_enter(c, PHASE_WAITING) ? 0 : err_set(e, SHOAL_E_IO, "the coordinator's store failed");
}

/* ---- after a restart --------------------------------------------------------------------------------------- */

static int lanes_load(struct coord *c, struct err *e)
{
    struct coord_lane_record record[LIMIT_LANES];
    struct coord_tasks *t = &c->job.tasks;

    int status = coord_store_get_fixed(c->store, "lanes", record, t->lanes * sizeof record[0], e);
    if (status == SHOAL_E_NOT_FOUND)
        return 0;
    for (uint32_t l = 0; status == 0 && l < t->lanes; l++) {
        t->lane[l].generation = record[l].generation;
        t->lane[l].next_batch = record[l].next_batch;
    }
    return status;
}

static enum coord_phase phase_after_setup(enum coord_phase was)
{
    switch (was) {
    case PHASE_CUT:
        return PHASE_EVAL;
    case PHASE_EVAL:
    case PHASE_RESTORE:
    case PHASE_TEST:
    case PHASE_DIGEST:
        return was;
    case PHASE_FINISH:
        return PHASE_DIGEST;
    default:
        return PHASE_LANES;
    }
}

static int job_resume(struct coord *c, struct err *e)
{
    struct coord_job *j = &c->job;
    enum coord_phase was = (enum coord_phase)j->at.phase;
    struct coord_progress at = j->at;
    void *yaml;
    size_t bytes;

    int status = coord_store_get(c->store, "job", &yaml, &bytes, e);
    if (status != 0)
        return status;
    status = job_build(j, yaml, bytes, e);
    free(yaml);
    if (status != 0)
        return err_wrap(e, status, "stored job");
    j->at = at;
    j->eval_number = (env_random(c->env) & 0xffffff) + 1;
    j->phase_ns = j->started_ns = env_now_ns(c->env);
    if (was < PHASE_SETUP) {
        j->at.phase = PHASE_WAITING;
        j->started_ns = 0;
        return 0;
    }
    status = coord_setup_load(c, e);
    if (status == 0)
        status = lanes_load(c, e);
    if (status == 0)
        status = coord_epoch_load(c, e);
    if (status == 0)
        status = coord_trace_load(c, e);
    j->resume = phase_after_setup(was);
    j->at.phase = PHASE_SETUP;
    log_info("job %s goes on in epoch %u, phase %s", j->spec.name, j->at.epoch, phase_name[j->resume]);
    return status;
}

int coord_flow_open(struct coord *c, struct err *e)
{
    int status = coord_store_get_fixed(c->store, "progress", &c->job.at, sizeof c->job.at, e);

    if (status == SHOAL_E_NOT_FOUND) {
        memset(&c->job.at, 0, sizeof c->job.at);
        return 0;
    }
    if (status != 0)
        return status;
    c->job.at.text[ERR_TEXT_MAX - 1] = 0;
    if (c->job.at.phase > PHASE_FAILED)
        return err_set(e, SHOAL_E_CORRUPT, "the stored job is in phase %u, which this version does not know",
                       c->job.at.phase);
    if (coord_flow_running(c))
        return job_resume(c, e);
    if (c->job.at.run != 0)
        job_tidy(c); /* the last one may have died before the servers had heard */
    return coord_report_load(c, e);
}

/* ---- moving on --------------------------------------------------------------------------------------------- */

static bool step_waiting(struct coord *c)
{
    if (!coord_member_shards_ready(&c->members) || c->members.workers == 0 ||
        c->members.workers < c->job.at.workers_wanted)
        return false;
    c->job.started_ns = env_now_ns(c->env);
    return coord_flow_enter(c, PHASE_INDEX);
}

static bool step_index(struct coord *c)
{
    for (uint32_t s = 0; s < 3; s++)
        if (c->job.at.split[s].used != 0 && c->job.at.split[s].known == 0)
            return false;
    if (c->job.at.split[WIRE_TRAIN].rows == 0) {
        coord_flow_fail(c, SHOAL_E_DATA, "data.train has no rows");
        return false;
    }
    return coord_flow_enter(c, PHASE_TABLES);
}

static bool step_tables(struct coord *c)
{
    struct coord_job *j = &c->job;
    struct err e = {0};

    if (j->declared_total == 0)
        return false;
    for (uint32_t t = 0; t < j->declared_total; t++)
        if (!j->declared[t])
            return false;
    int status = coord_setup_map(c, &e);
    if (status != 0) {
        coord_flow_fail(c, status, "%s", e.text);
        return false;
    }
    j->resume = PHASE_LANES;
    j->at.epoch = 1;
    coord_setup_forget(c);
    return coord_flow_enter(c, PHASE_SETUP);
}

static bool step_setup(struct coord *c)
{
    if (!coord_setup_complete(c))
        return false;
    if (c->job.resume == PHASE_LANES) {
        if (!coord_epoch_plan(c) || !coord_flow_enter(c, PHASE_LANES))
            return false;
        coord_grant_fence_all(c);
        return true;
    }
    return coord_epoch_resume(c, c->job.resume);
}

static bool step_lanes(struct coord *c)
{
    for (uint32_t l = 0; l < c->job.tasks.lanes; l++)
        if (c->job.tasks.lane[l].state != LANE_FREE)
            return false;
    c->job.epoch_ns = c->job.tasks.planned_ns = env_now_ns(c->env);
    return coord_flow_enter(c, PHASE_TRAIN);
}

static bool step_digest(struct coord *c)
{
    if (c->job.digested < c->job.at.tables)
        return false;
    return coord_flow_enter(c, PHASE_FINISH);
}

static bool step_finish(struct coord *c)
{
    struct err e = {0};

    if (c->members.workers > 0 && env_now_ns(c->env) - c->job.phase_ns < LEAVE_WAIT_NS)
        return false;
    int status = coord_report_make(c, &e);
    if (status != 0) {
        coord_flow_fail(c, status, "%s", e.text);
        return false;
    }
    job_tidy(c);
    return coord_flow_enter(c, PHASE_DONE);
}

static bool step(struct coord *c)
{
    switch (c->job.at.phase) {
    case PHASE_WAITING:
        return step_waiting(c);
    case PHASE_INDEX:
        return step_index(c);
    case PHASE_TABLES:
        return step_tables(c);
    case PHASE_SETUP:
        return step_setup(c);
    case PHASE_LANES:
        return step_lanes(c);
    case PHASE_TRAIN:
    case PHASE_EVAL:
    case PHASE_TEST:
        return coord_epoch_step(c);
    case PHASE_DIGEST:
        return step_digest(c);
    case PHASE_FINISH:
        return step_finish(c);
    default:
        return false; /* CUT and RESTORE go on in their callback */
    }
}

void coord_flow_step(struct coord *c)
{
    if (c->fatal != 0)
        return;
    if (c->job.at.phase >= PHASE_SETUP && coord_flow_running(c))
        coord_setup_step(c);
    coord_cut_tick(c);
    while (c->fatal == 0 && step(c))
        continue;
}
