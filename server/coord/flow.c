/* flow.c: phases; the diagram is in flow.h. */
#include "server/coord/flow.h"
#include "proto/base/assert.h"
#include "proto/base/log.h"
#include "server/coord/core.h"
#include "server/coord/epoch.h"
#include "server/coord/grant.h"
#include "server/coord/report.h"
#include "server/coord/setup.h"
#include "server/coord/submit.h"
#include "server/coord/trace.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LEAVE_WAIT_NS 1500000000ull /* workers' last figures are waited for this long */

static const char *const phase_name[] = {"none",  "waiting", "index",  "tables", "setup",
                                         "lanes", "train",   "eval",   "cut",    "restore",
                                         "test",  "digest",  "finish", "done",   "failed"};

bool coord_flow_running(const struct coord *c)
{
    return c->job.at.phase != PHASE_NONE && c->job.at.phase != PHASE_DONE &&
           c->job.at.phase != PHASE_FAILED;
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

/* Marks and cuts of the job go; nobody waits for that, but for rows of a checkpoint that not all
 * servers could load: they go before another job begins (step_waiting), so that the same restore
 * can be tried again. */
static void job_tidy(struct coord *c)
{
    struct wire w = {.type = WIRE_TYPE_RUN_DROP};
    bool loading = c->job.at.from == FROM_TO_LOAD;

    w.u.RUN_DROP.run = c->job.at.run;
    if (loading) {
        w.type = WIRE_TYPE_LOAD_DROP;
        w.u.LOAD_DROP.run = c->job.at.run;
    }
    (void)coord_call_start(&c->calls, &w, NULL, 0, false, COORD_NOBODY, loading, c->job.at.run,
                           NULL, run_dropped);
    if (c->job.at.best_cut != 0)
        coord_cut_drop(c, c->job.at.best_cut);
}

static void from_let_go(struct coord *c)
{
    if (c->options.folder != NULL)
        c->options.folder->let_go(&c->job.from_hold);
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
    uint64_t unfinished = c->cut.state == CUT_HOLDING || c->cut.state == CUT_GOING ? c->cut.cut : 0;
    coord_checkpoint_give_up(c, SHOAL_E_STOPPED, "the job has ended");
    coord_call_cancel_all(&c->calls);
    coord_cut_cancel(c);
    if (unfinished != 0)
        coord_cut_drop(c, unfinished);
    from_let_go(c);
    if (c->job.at.phase >= PHASE_SETUP)
        job_tidy(c);
    coord_setup_forget(c);
    log_error("job %s failed in %s: %s", c->job.spec.name, phase_name[c->job.at.phase],
              c->job.at.text);
    (void)coord_flow_enter(c, PHASE_FAILED);
    coord_grant_dismiss(c);
}

void coord_flow_close(struct coord *c)
{
    struct coord_job *j = &c->job;

    coord_task_close(&j->tasks);
    coord_eval_close(&j->eval);
    coord_curve_close(&j->trace.curve);
    coord_guard_close(&j->guard);
    coord_roll_close(&j->roll);
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
    from_let_go(c);
    memset(j, 0, sizeof *j);
    j->from_hold = COORD_FOLDER_NONE;
}

/* ---- after a restart ------------------------------------------------------------------------- */

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

/* What was done of the job before this coordinator started, or before the checkpoint that the job
 * goes on from. */
static int past_load(struct coord *c, struct err *e)
{
    int status = lanes_load(c, e);

    if (status == 0)
        status = coord_epoch_load(c, e);
    return status == 0 ? coord_trace_load(c, e) : status;
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
    status = coord_submit_build(j, yaml, bytes, e);
    free(yaml);
    if (status != 0)
        return err_wrap(e, status, "stored job");
    j->at = at;
    j->at.from_path[LIMIT_PATH - 1] = 0;
    if (at.from == FROM_TO_LOAD && c->options.folder != NULL)
        /* gone: LOAD says so */
        (void)c->options.folder->hold(j->at.from_path, &j->from_hold, NULL);
    j->eval_number = (env_random(c->env) & 0xffffff) + 1;
    j->phase_ns = j->started_ns = env_now_ns(c->env);
    if (was < PHASE_SETUP) {
        j->at.phase = PHASE_WAITING;
        j->started_ns = 0;
        return 0;
    }
    status = coord_setup_load(c, e);
    if (status == 0)
        status = past_load(c, e);
    j->resume = phase_after_setup(at.from == FROM_TO_LOAD ? (enum coord_phase)at.from_phase : was);
    j->at.phase = PHASE_SETUP;
    log_info("job %s goes on in epoch %u, phase %s", j->spec.name, j->at.epoch,
             phase_name[j->resume]);
    return status;
}

int coord_flow_open(struct coord *c, struct err *e)
{
    c->job.from_hold = COORD_FOLDER_NONE;
    int status = coord_store_get_fixed(c->store, "progress", &c->job.at, sizeof c->job.at, e);

    if (status == SHOAL_E_NOT_FOUND) {
        memset(&c->job.at, 0, sizeof c->job.at);
        return 0;
    }
    if (status != 0)
        return status;
    c->job.at.text[ERR_TEXT_MAX - 1] = 0;
    if (c->job.at.phase > PHASE_FAILED)
        return err_set(e, SHOAL_E_CORRUPT,
                       "the stored job is in phase %u, which this version does not know",
                       c->job.at.phase);
    status = coord_cut_open(c, c->job.at.best_cut, e);
    if (status != 0)
        return status;
    if (coord_flow_running(c))
        return job_resume(c, e);
    if (c->job.at.run != 0)
        job_tidy(c); /* the last one may have died before the servers had heard */
    if (c->job.at.tables != 0 && coord_setup_load(c, e) != 0) {
        /* its tables can be read; without a map they cannot, no more */
        log_warn("tables of the last job: %s", e->text);
        free(c->job.shard_of);
        c->job.shard_of = NULL;
    }
    return coord_report_load(c, e);
}

/* ---- moving on ------------------------------------------------------------------------------- */

static bool step_waiting(struct coord *c)
{
    if (!coord_member_shards_ready(&c->members) || c->members.workers == 0 ||
        c->members.workers < c->job.at.workers_wanted ||
        coord_call_open_type(&c->calls, WIRE_TYPE_LOAD_DROP))
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
    const struct coord_progress *at = &c->job.at;
    if (at->from != FROM_NOTHING && (at->split[WIRE_TRAIN].rows != at->from_rows ||
                                     at->split[WIRE_TRAIN].digest != at->from_digest)) {
        coord_flow_fail(c, SHOAL_E_DATA,
                        "data.train has %llu rows (digest %016llx), the checkpoint in %s is of "
                        "%llu (%016llx): batches already done would "
                        "not be the same ones; name the files that it was made with",
                        (unsigned long long)at->split[WIRE_TRAIN].rows,
                        (unsigned long long)at->split[WIRE_TRAIN].digest, at->from_path,
                        (unsigned long long)at->from_rows, (unsigned long long)at->from_digest);
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
    if (status == 0 && j->at.from == FROM_TO_LOAD)
        status = past_load(c, &e);
    if (status != 0) {
        coord_flow_fail(c, status, "%s", e.text);
        return false;
    }
    j->resume = PHASE_LANES;
    if (j->at.from == FROM_TO_LOAD)
        j->resume = phase_after_setup((enum coord_phase)j->at.from_phase);
    else
        j->at.epoch = 1;
    coord_setup_forget(c);
    return coord_flow_enter(c, PHASE_SETUP);
}

static bool step_setup(struct coord *c)
{
    if (!coord_setup_complete(c))
        return false;
    if (c->job.at.from == FROM_TO_LOAD) {
        c->job.at.from = FROM_LOADED; /* stored with the phase that follows */
        from_let_go(c);
        log_info("job %s goes on from %s in epoch %u", c->job.spec.name, c->job.at.from_path,
                 c->job.at.epoch);
    }
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
    if (c->job.digested < c->job.at.tables || !c->job.guard.final)
        return false;
    return coord_flow_enter(c, PHASE_FINISH);
}

static bool step_finish(struct coord *c)
{
    struct err e = {0};

    if (c->members.workers > 0 && env_now_ns(c->env) - c->job.phase_ns < LEAVE_WAIT_NS)
        return false;
    if (coord_checkpoint_busy(c))
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
    coord_setup_greet(c);
    if (c->job.at.phase >= PHASE_SETUP && coord_flow_running(c))
        coord_setup_step(c);
    if (c->job.at.phase == PHASE_TRAIN)
        coord_guard_ask(c, false);
    coord_cut_tick(c);
    coord_checkpoint_step(c);
    while (c->fatal == 0 && step(c))
        continue;
}
