/* flow.c: phases; the diagram is in flow.h. */
#include "server/coord/flow.h"
#include "proto/base/assert.h"
#include "proto/base/log.h"
#include "server/coord/back.h"
#include "server/coord/core.h"
#include "server/coord/epoch.h"
#include "server/coord/grant.h"
#include "server/coord/phase.h"
#include "server/coord/report.h"
#include "server/coord/saved.h"
#include "server/coord/setup.h"
#include "server/coord/submit.h"
#include "server/coord/trace.h"
#include "server/coord/work.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define LEAVE_WAIT_NS UINT64_C(1500000000) /* workers' last figures are waited for this long */

/* ---- after a restart ------------------------------------------------------------------------- */

static int lanes_load(struct coord *c, struct err *e)
{
    struct coord_lane_record record[LIMIT_LANES];
    struct coord_tasks *t = &c->job.tasks;
    SHOAL_ASSERT(t->lanes > 0 && t->lanes <= LIMIT_LANES);
    int rc = coord_store_get_fixed(c->store, "lanes", record, t->lanes * sizeof record[0], e);
    if (rc == SHOAL_E_NOT_FOUND)
        return 0;
    for (uint32_t l = 0; rc == 0 && l < t->lanes; l++) {
        t->lane[l].generation = record[l].generation;
        t->lane[l].next_batch = record[l].next_batch;
    }
    return rc;
}

/* What was done of the job before this coordinator started, or before the checkpoint that the job
 * goes on from. */
static int past_load(struct coord *c, struct err *e)
{
    int rc = c->job.spec.train.skip ? 0 : lanes_load(c, e);
    if (rc == 0)
        rc = coord_epoch_load(c, e);
    return rc == 0 ? coord_trace_load(c, e) : rc;
}

static enum coord_phase phase_after_setup(const struct coord_job *j, enum coord_phase was)
{
    if (j->spec.train.skip)
        return j->at.split[WIRE_TEST].used != 0 ? PHASE_TEST : PHASE_DIGEST;
    switch (was) {
    case PHASE_CUT:
        return PHASE_EVAL;
    case PHASE_EVAL:
    case PHASE_RESTORE:
    case PHASE_TEST:
    case PHASE_GROW:
        return was;
    case PHASE_DIGEST: /* of a checkpoint: what the job had measured is not in it */
        return coord_from_loading(&j->at) && j->at.split[WIRE_TEST].used != 0 ? PHASE_TEST : was;
    case PHASE_FINISH:
        return PHASE_DIGEST;
    default:
        return PHASE_LANES;
    }
}

/* The job by its stored file, and its progress as it is. */
static int job_load_stored(struct coord *c, struct err *e)
{
    struct coord_job *j = &c->job;
    struct coord_progress at = j->at;
    void *yaml;
    size_t bytes;
    SHOAL_ASSERT(!j->parsed);
    int rc = coord_store_get(c->store, "job", &yaml, &bytes, e);
    if (rc == SHOAL_E_NOT_FOUND)
        return err_set(e, SHOAL_E_CORRUPT, "its file is not in the coordinator's store");
    if (rc != 0)
        return rc;
    rc = coord_submit_build(j, yaml, bytes, e);
    free(yaml);
    j->at = at;
    j->at.from_path[LIMIT_PATH - 1] = 0;
    if (rc != 0)
        return err_wrap(e, rc, "stored job");
    rc = coord_store_get_fixed(c->store, "without", j->without, sizeof j->without, e);
    j->without[sizeof j->without - 1] = 0;
    if (rc == 0 || rc == SHOAL_E_NOT_FOUND)
        rc = coord_store_get_fixed(c->store, "translated", j->translated, sizeof j->translated, e);
    j->translated[sizeof j->translated - 1] = 0;
    return rc == SHOAL_E_NOT_FOUND ? 0 : rc; /* a coordinator before it stored none */
}

static int laned_load(struct coord *c, struct err *e)
{
    int rc = coord_store_get_fixed(c->store, "laned", &c->job.laned, sizeof c->job.laned, e);
    return rc == SHOAL_E_NOT_FOUND ? 0 : rc; /* a coordinator before it stored none */
}

int coord_flow_resume(struct coord *c, struct err *e)
{
    struct coord_job *j = &c->job;
    enum coord_phase was = (enum coord_phase)j->at.phase;
    struct coord_progress at = j->at;
    SHOAL_ASSERT(coord_phase_running(c));
    int rc = job_load_stored(c, e);
    if (rc == 0)
        rc = coord_submit_asked_load(c, e);
    if (rc == 0)
        rc = coord_stop_load(c, e);
    if (rc == 0)
        rc = coord_work_kernel_load(c, e);
    if (rc == 0)
        rc = coord_back_load(c, e);
    if (rc == 0)
        rc = laned_load(c, e);
    if (rc == 0)
        rc = coord_times_load(c, e);
    if (rc == 0)
        rc = coord_replay_windows_load(c, e);
    if (rc == 0)
        rc = coord_taken_load(c, e);
    if (rc != 0)
        return rc;
    if (coord_from_loading(&at) && j->from_hold == COORD_FOLDER_NONE)
        coord_from_hold(c);
    j->eval_number = (env_random(c->env) & 0xffffff) + 1;
    j->phase_ns = j->started_ns = env_now_ns(c->env);
    if (was < PHASE_SETUP) {
        for (uint32_t s = 0; s < JOB_SPLITS; s++)
            if (j->spec.data.objects.of[s].on) /* of their index nothing is loaded: it is made */
                j->at.split[s].known = 0;      /* again, but for a round's, of a checkpoint */
        if ((rc = coord_grow_load(c, j, e)) != 0)
            return rc;
        coord_phase_restart(c, PHASE_WAITING);
        j->started_ns = 0;
        return 0;
    }
    if (was > PHASE_SETUP && was != PHASE_RESTORE)
        j->opened = j->at.run; /* all were set up: what is missing now was lost */
    rc = coord_setup_load(c, e);
    if (rc == 0)
        rc = coord_objects_load(c, e);
    if (rc == 0)
        rc = past_load(c, e);
    j->resume =
        phase_after_setup(j, coord_from_loading(&at) ? (enum coord_phase)at.from_phase : was);
    coord_phase_restart(c, PHASE_SETUP);
    log_info("job %s goes on in epoch %u, phase %s", j->spec.name, j->at.epoch,
             coord_phase_text(j->resume));
    return rc;
}

/* One that is done: a checkpoint of its end may be asked for. Its tables can be read without. */
static void done_load(struct coord *c)
{
    struct coord_progress at = c->job.at;
    struct err e = {0};
    int rc = job_load_stored(c, &e);
    if (rc == 0 && (c->job.spec.replay.on || coord_grow_on(&c->job)))
        rc = coord_objects_load(c, &e);
    if (rc == 0)
        rc = past_load(c, &e);
    if (rc == 0)
        return;
    log_warn("no checkpoint can be made of the last job, but of its tables alone: %s", e.text);
    coord_submit_close(c);
    c->job.at = at;
}

/* The job that the store has goes on. What the store says of it may be damaged, or be of what a
 * worker said and no coordinator can go on with: then this job fails, and the cluster serves. Where
 * the disk fails, or memory, another start may well go on with it. */
static int resume_or_fail(struct coord *c, struct err *e)
{
    struct coord_progress at = c->job.at;
    char name[sizeof c->job.spec.name];
    int rc = coord_flow_resume(c, e);
    if (rc == 0 || rc == SHOAL_E_IO || rc == SHOAL_E_NOMEM || c->fatal != 0)
        return rc;
    memcpy(name, c->job.spec.name, sizeof name);
    coord_submit_close(c);
    c->job.at = at;
    memcpy(c->job.spec.name, name, sizeof name);
    (void)coord_end_fail(
        c, rc, "the coordinator has started again and cannot go on with the job: %s", e->text);
    return c->fatal;
}

int coord_flow_open(struct coord *c, struct err *e)
{
    c->job.from_hold = COORD_FOLDER_NONE;
    int rc = coord_store_get_fixed(c->store, "progress", &c->job.at, sizeof c->job.at, e);

    if (rc == SHOAL_E_NOT_FOUND) {
        memset(&c->job.at, 0, sizeof c->job.at);
        return 0;
    }
    if (rc != 0)
        return rc;
    rc = coord_submit_settle(c, e);
    if (rc != 0)
        return rc;
    c->job.at.text[ERR_TEXT_MAX - 1] = 0;
    if (c->job.at.phase > PHASE_GROW)
        return err_set(e, SHOAL_E_CORRUPT,
                       "the stored job is in phase %u, which this version does not know",
                       c->job.at.phase);
    if (c->job.at.best_cut == 0 || c->job.at.cut_of == 0) /* a store of before it was kept */
        c->job.at.cut_of = c->job.at.best_cut == 0 ? 0 : c->job.at.kept;
    rc = coord_cut_open(c, c->job.at.best_cut, e);
    if (rc != 0)
        return rc;
    rc = coord_phase_running(c) ? resume_or_fail(c, e) : 0;
    if (rc != 0 || coord_phase_running(c))
        return rc;
    if (c->job.at.run != 0)
        coord_end_tidy(c); /* the last one may have died before the servers had heard */
    if (c->job.at.phase == PHASE_DONE)
        done_load(c);
    if (c->job.at.tables != 0 && coord_setup_load(c, e) != 0) {
        log_warn("tables of the last job: %s", e->text);
        c->job.tablets = 0;
    }
    coord_made_adopt(c);
    coord_names_adopt(c);
    return coord_report_load(c, e);
}

/* ---- moving on ------------------------------------------------------------------------------- */

static bool step_waiting(struct coord *c)
{
    struct err e;
    /* a server may be heard of after the submit alone */
    int rc = coord_member_durability_check(&c->members, &c->job.spec, &e);
    if (rc != 0)
        return coord_end_fail(c, rc, "%s", e.text);
    if (!coord_cluster_ready(&c->cluster) || !coord_member_shards_ready(&c->members) ||
        c->members.workers == 0 || c->members.workers < c->job.at.workers_wanted ||
        coord_call_open_type(&c->calls, WIRE_TYPE_LOAD_DROP))
        return false;
    c->job.started_ns = env_now_ns(c->env);
    return coord_phase_enter(c, PHASE_INDEX);
}

static bool step_index(struct coord *c)
{
    for (uint32_t s = 0; s < 3; s++)
        if (c->job.at.split[s].used != 0 && c->job.at.split[s].known == 0)
            return false;
    if (c->job.spec.train.skip)
        return coord_phase_enter(c, PHASE_TABLES);
    if (c->job.at.split[WIRE_TRAIN].rows == 0)
        return coord_end_fail(c, SHOAL_E_DATA, "data.train has no rows");
    const struct coord_progress *at = &c->job.at;
    if (coord_from_resumes(at) && (at->split[WIRE_TRAIN].rows != at->from_rows ||
                                   at->split[WIRE_TRAIN].digest != at->from_digest))
        return coord_end_fail(
            c, SHOAL_E_DATA,
            "data.train has %" PRIu64 " rows (digest %016" PRIx64
            "), the checkpoint in %s is of %" PRIu64 " (%016" PRIx64
            "): batches already done would not be the same ones; name the files that it "
            "was made with",
            at->split[WIRE_TRAIN].rows, at->split[WIRE_TRAIN].digest, at->from_path, at->from_rows,
            at->from_digest);
    return coord_phase_enter(c, PHASE_TABLES);
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
    SHOAL_ASSERT(j->declared_total <= LIMIT_TABLES && j->tablets == 0);
    if (!coord_cluster_ready(&c->cluster))
        return false; /* a server came back with a newer map than the store's */
    if (c->checkpoint.state != CHECKPOINT_IDLE)
        return false; /* of the tables as they are (checkpoint.h) */
    int rc = coord_fresh_due(c)
                 ? 0
                 : coord_member_made_check(&c->members, c->job.at.from == FROM_FLEET, &e);
    if (rc == 0 && !coord_fresh_begin(c)) /* the map may be one that the rows do not fit */
        return false;
    if (rc == 0)
        rc = coord_setup_map(c, &e);
    if (rc == 0 && j->at.from == FROM_TO_LOAD)
        rc = past_load(c, &e);
    if (rc != 0)
        return coord_end_fail(c, rc, "%s", e.text);
    j->resume = phase_after_setup(j, (enum coord_phase)j->at.from_phase);
    if (j->at.from != FROM_TO_LOAD)
        j->at.epoch = 1;
    coord_call_forget(&c->calls);
    return coord_phase_enter(c, PHASE_SETUP);
}

/* From now on a mark that lies behind its lane is a loss. */
static bool laned_note(struct coord *c)
{
    c->job.laned = c->job.at.run;
    return coord_note(c, "laned", &c->job.laned, sizeof c->job.laned);
}

/* A checkpoint of an evaluation, or of a log that is waited for: it is gone on with without
 * PHASE_LANES, from marks that were loaded as the lanes stand. Behind training they say nothing:
 * those of a job that was done are 0. */
static bool loads_marks(const struct coord_job *j)
{
    return coord_from_loading(&j->at) && j->at.from != FROM_TO_START &&
           (j->resume == PHASE_EVAL || j->resume == PHASE_GROW);
}

static bool step_setup(struct coord *c)
{
    if (!coord_member_all_set_up(&c->members) || !coord_fresh_done(c) || !coord_names_settled(c) ||
        !coord_taken_settled(c) || !coord_made_take(c))
        return false;
    c->job.opened = c->job.at.run;
    bool loaded = loads_marks(&c->job);
    if (loaded && !laned_note(c))
        return false;
    if (coord_from_loading(&c->job.at)) {
        bool starts = c->job.at.from == FROM_TO_START;
        c->job.at.from = starts ? FROM_STARTED : FROM_LOADED; /* stored with the next phase */
        coord_from_let_go(c, &c->job);
        log_info("job %s %s %s in epoch %u", c->job.spec.name,
                 starts ? "starts from the tables of" : "goes on from", c->job.at.from_path,
                 c->job.at.epoch);
    }
    if (c->job.resume == PHASE_LANES) {
        if (!coord_epoch_plan(c) || !coord_phase_enter(c, PHASE_LANES))
            return false;
        coord_grant_fence_all(c);
        return true;
    }
    if (!coord_epoch_resume(c, c->job.resume))
        return false;
    /* while this coordinator was away power may have been, too */
    if (!loaded && coord_grant_marks_known(c))
        coord_grant_fence_all(c);
    return true;
}

static bool step_lanes(struct coord *c)
{
    for (uint32_t l = 0; l < c->job.tasks.lanes; l++)
        if (c->job.tasks.lane[l].state != LANE_FREE)
            return false;
    c->job.epoch_ns = c->job.tasks.planned_ns = env_now_ns(c->env);
    return laned_note(c) && coord_phase_enter(c, PHASE_TRAIN);
}

static bool step_digest(struct coord *c)
{
    SHOAL_ASSERT(c->job.digested <= c->job.at.tables);
    if (c->job.digested < c->job.at.tables || coord_call_open_type(&c->calls, WIRE_TYPE_FENCE) ||
        !c->job.guard.final || coord_checkpoint_end_due(c))
        return false;
    return coord_phase_enter(c, PHASE_FINISH);
}

static bool step_finish(struct coord *c)
{
    struct err e = {0};
    if (c->members.workers > 0 && env_now_ns(c->env) - c->job.phase_ns < LEAVE_WAIT_NS)
        return false;
    if (coord_checkpoint_busy(c))
        return false;
    SHOAL_ASSERT(c->job.digested == c->job.at.tables && c->job.guard.final);
    if (c->job.report == NULL) {
        if (coord_output_figures_wait(c)) /* the report tells what is missing of them */
            return false;
        coord_checkpoint_missed(c);
        /* after a restart behind training nothing has told where its tasks were */
        bool planned = c->job.spec.train.skip || coord_grow_on(&c->job) ||
                       c->job.tasks.epoch == c->job.at.epoch;
        int rc = planned ? 0 : coord_epoch_cut(c, &e);
        if (rc == 0)
            rc = coord_report_make(c, &e);
        if (rc != 0)
            return coord_end_fail(c, rc, "%s", e.text);
    }
    if (coord_output_report_waits(c))
        return false;
    c->job.at.status = c->job.missed.status;
    memcpy(c->job.at.text, c->job.missed.text, sizeof c->job.at.text);
    if (!coord_phase_enter(c, PHASE_DONE))
        return false;
    coord_end_tidy(c); /* once it is stored: a run that is dropped cannot be gone on with */
    return true;
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
    case PHASE_CUT:
    case PHASE_TEST:
    case PHASE_GROW:
        return coord_epoch_step(c);
    case PHASE_DIGEST:
        return step_digest(c);
    case PHASE_FINISH:
        return step_finish(c);
    default:
        return false; /* RESTORE goes on in its callback */
    }
}

void coord_flow_step(struct coord *c)
{
    if (c->fatal != 0)
        return;
    coord_back_step(c);
    coord_cluster_step(c);
    if (coord_goes_back(c)) /* nothing that is done with the rows counts */
        return;
    coord_names_step(c);
    coord_taken_step(c);
    coord_drop_step(c);
    coord_setup_greet(c);
    bool setting = c->job.at.phase >= PHASE_SETUP && !coord_phase_over(c);
    if (setting || coord_checkpoint_opening(c)) /* else none is needed */
        coord_setup_step(c);
    if (c->job.at.phase == PHASE_TRAIN)
        coord_guard_ask(c, false);
    coord_cut_tick(c);
    coord_checkpoint_step(c);
    coord_stop_step(c);
    while (c->fatal == 0 && step(c))
        continue;
    coord_report_ended(c);
}
