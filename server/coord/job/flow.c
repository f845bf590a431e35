/* flow.c: changes of phase; flow.h has the diagram. */
#include "server/coord/job/flow.h"

#include "proto/base/assert.h"
#include "proto/base/log.h"
#include "server/coord/core/fresh.h"
#include "server/coord/core/names_job.h"
#include "server/coord/core/phase.h"
#include "server/coord/core/setup_state.h"
#include "server/coord/figures/guard.h"
#include "server/coord/figures/output.h"
#include "server/coord/figures/trace.h"
#include "server/coord/fleet/folder.h"
#include "server/coord/job/aside.h"
#include "server/coord/job/back.h"
#include "server/coord/job/course.h"
#include "server/coord/job/epoch.h"
#include "server/coord/job/handle.h"
#include "server/coord/job/parts.h"
#include "server/coord/job/report.h"
#include "server/coord/job/setup.h"
#include "server/coord/job/stop.h"
#include "server/coord/job/submit.h"
#include "server/coord/keep/checkpoint.h"
#include "server/coord/keep/cut.h"
#include "server/coord/keep/from.h"
#include "server/coord/work/grant.h"
#include "server/coord/work/grow.h"
#include "server/coord/work/objects.h"
#include "server/coord/work/replay.h"
#include "server/coord/work/ring_job.h"
#include "server/coord/work/taken.h"
#include "server/coord/work/task.h"
#include "server/coord/work/times.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define LEAVE_WAIT_NS UINT64_C(1500000000) /* the longest wait for workers' last figures */

/* ---- after a restart ------------------------------------------------------------------------- */

static int lanes_load(struct coord_job *j, struct err *e)
{
    struct coord_lane_record record[LIMIT_LANES];
    struct coord_tasks *t = j->tasks;
    SHOAL_ASSERT(t->lanes > 0 && t->lanes <= LIMIT_LANES);
    int rc = coord_store_get_fixed(j->store, "lanes", record, t->lanes * sizeof record[0], e);
    if (rc == SHOAL_E_NOT_FOUND)
        return 0;
    for (uint32_t l = 0; rc == 0 && l < t->lanes; l++) {
        t->lane[l].generation = record[l].generation;
        t->lane[l].next_batch = record[l].next_batch;
    }
    return rc;
}

/* Loads what the job had done before this coordinator started, or before the checkpoint that it
 * resumes from. */
static int past_load(struct coord_job *j, struct err *e)
{
    int rc = 0;
    if (!j->spec.train.skip)
        rc = lanes_load(j, e);
    if (rc == 0)
        rc = coord_ring_load(j, e);
    if (rc == 0)
        rc = coord_epoch_load(j, e);
    if (rc == 0)
        rc = coord_trace_load(j, e);
    return rc;
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
    case PHASE_DIGEST: /* a checkpoint does not hold the job's test figures */
        if (coord_from_loading(&j->at) && j->at.split[WIRE_TEST].used != 0)
            return PHASE_TEST;
        return was;
    case PHASE_FINISH:
        return PHASE_DIGEST;
    default:
        return PHASE_LANES;
    }
}

/* Loads the job from its stored file; keeps its progress. */
static int job_load_stored(struct coord_job *j, struct err *e)
{
    struct coord_progress at = j->at;
    void *yaml;
    size_t bytes;
    SHOAL_ASSERT(!j->parsed);
    int rc = coord_store_get(j->store, "job", &yaml, &bytes, e);
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
    rc = coord_store_get_fixed(j->store, "without", j->without, sizeof j->without, e);
    j->without[sizeof j->without - 1] = 0;
    if (rc == 0 || rc == SHOAL_E_NOT_FOUND)
        rc = coord_store_get_fixed(j->store, "translated", j->translated, sizeof j->translated, e);
    j->translated[sizeof j->translated - 1] = 0;
    return coord_store_optional(rc); /* an older coordinator stored none */
}

static int laned_load(struct coord_job *j, struct err *e)
{
    int rc = coord_store_get_fixed(j->store, "laned", &j->laned, sizeof j->laned, e);
    return coord_store_optional(rc); /* an older coordinator stored none */
}

int coord_flow_resume(struct coord_job *j, struct err *e)
{
    enum coord_phase was = (enum coord_phase)j->at.phase;
    struct coord_progress at = j->at;
    SHOAL_ASSERT(coord_phase_running(j));
    int rc = job_load_stored(j, e);
    if (rc == 0)
        rc = coord_submit_asked_load(j, e);
    if (rc == 0)
        rc = coord_stop_load(j, e);
    if (rc == 0)
        rc = coord_handle_kernel_load(j, e);
    if (rc == 0)
        rc = coord_tally_load(j, e);
    if (rc == 0)
        rc = coord_back_load(j, e);
    if (rc == 0 && at.best_cut != 0)
        rc = coord_home_open(j, at.best_cut, e);
    if (rc == 0)
        rc = laned_load(j, e);
    if (rc == 0)
        rc = coord_times_load(j, e);
    if (rc == 0)
        rc = coord_replay_windows_load(j, e);
    if (rc == 0)
        rc = coord_taken_load(j, e);
    if (rc != 0)
        return rc;
    if (coord_from_loading(&at) && j->from_hold == COORD_FOLDER_NONE)
        coord_from_hold(j);
    j->eval_number = (env_random(j->fleet->env) & 0xffffff) + 1;
    j->phase_ns = j->started_ns = env_now_ns(j->fleet->env);
    if (was < PHASE_SETUP) {
        /* The index of objects is made again; coord_grow_load has that of a checkpoint's round. */
        for (uint32_t s = 0; s < JOB_SPLITS; s++)
            if (j->spec.data.objects.of[s].on)
                j->at.split[s].known = 0;
        if ((rc = coord_grow_load(j, e)) != 0)
            return rc;
        coord_phase_restart(j, PHASE_WAITING);
        j->started_ns = 0;
        return 0;
    }
    if (was > PHASE_SETUP && was != PHASE_RESTORE)
        j->opened = j->at.run; /* all shards had opened it: rows that are missing now were lost */
    rc = coord_setup_load(j, e);
    if (rc == 0)
        rc = coord_objects_load(j, e);
    if (rc == 0)
        rc = past_load(j, e);
    if (coord_from_loading(&at))
        was = (enum coord_phase)at.from_phase;
    j->resume = phase_after_setup(j, was);
    coord_phase_restart(j, PHASE_SETUP);
    log_info("job %s goes on in epoch %u, phase %s", j->spec.name, j->at.epoch,
             coord_phase_text(j->resume));
    return rc;
}

/* Loads a job that is done, as a checkpoint of its end may be asked for. Its tables can be read
 * even if this fails. */
static void done_load(struct coord_job *j)
{
    struct coord_progress at = j->at;
    struct err e = {0};
    int rc = job_load_stored(j, &e);
    if (rc == 0 && (j->spec.replay.on || coord_grow_on(j)))
        rc = coord_objects_load(j, &e);
    if (rc == 0)
        rc = past_load(j, &e);
    if (rc == 0)
        return;
    log_warn("no checkpoint can be made of the last job, but of its tables alone: %s", e.text);
    coord_parts_close(j);
    j->at = at;
}

/* The stored job goes on. If its stored values are damaged, or a worker's report makes it
 * impossible to go on, this job fails and the cluster keeps serving. If the disk or memory fails,
 * the coordinator ends, because another start may succeed. */
static int resume_or_fail(struct coord_job *j, struct err *e)
{
    struct coord_progress at = j->at;
    char name[sizeof j->spec.name];
    int rc = coord_flow_resume(j, e);
    if (rc == 0 || rc == SHOAL_E_IO || rc == SHOAL_E_NOMEM || j->fleet->fatal != 0)
        return rc;
    memcpy(name, j->spec.name, sizeof name);
    coord_parts_close(j);
    j->at = at;
    memcpy(j->spec.name, name, sizeof name);
    (void)coord_end_fail(
        j, rc, "the coordinator has started again and cannot go on with the job: %s", e->text);
    return j->fleet->fatal;
}

int coord_flow_open(struct coord_job *j, struct err *e)
{
    j->from_hold = COORD_FOLDER_NONE;
    int rc = coord_store_get_fixed(j->store, "progress", &j->at, sizeof j->at, e);
    if (rc == SHOAL_E_NOT_FOUND) {
        memset(&j->at, 0, sizeof j->at);
        return 0;
    }
    if (rc != 0)
        return rc;
    j->at.text[ERR_TEXT_MAX - 1] = 0;
    if (j->at.phase > PHASE_GROW)
        return err_set(e, SHOAL_E_CORRUPT,
                       "the stored job is in phase %u, which this version does not know",
                       j->at.phase);
    if (j->at.best_cut == 0 || j->at.cut_of == 0) /* the store is older than `cut_of` */
        j->at.cut_of = j->at.best_cut == 0 ? 0 : j->at.kept;
    rc = coord_cut_open(j, j->at.best_cut, e);
    if (rc != 0)
        return rc;
    if (coord_phase_running(j))
        rc = resume_or_fail(j, e);
    if (rc != 0 || coord_phase_running(j))
        return rc;
    if (j->at.run != 0)
        coord_cut_run_drop(
            j); /* the previous coordinator may have died before it told the servers */
    if (j->at.phase == PHASE_DONE)
        done_load(j);
    if (j->at.tables != 0 && coord_setup_load(j, e) != 0) {
        log_warn("tables of the last job: %s", e->text);
        j->tablets = 0;
    }
    if (j->space->number < LIMIT_SPACES) { /* else another slot's job has them (slot.h) */
        coord_made_adopt(j);
        coord_names_adopt(j);
    }
    return coord_report_load(j, e);
}

/* ---- moving on ------------------------------------------------------------------------------- */

static bool step_waiting(struct coord_job *j)
{
    struct err e;
    /* a server may first beat after the submit */
    int rc = coord_member_durability_check(&j->fleet->members, &j->spec, &e);
    if (rc != 0)
        return coord_end_fail(j, rc, "%s", e.text);
    if (!coord_cluster_ready(&j->fleet->cluster) ||
        !coord_member_shards_ready(&j->fleet->members) || j->workers.count == 0 ||
        j->workers.count < j->at.workers_wanted ||
        coord_call_open_type(&j->fleet->calls, j, WIRE_TYPE_ROWS_GO))
        return false;
    j->started_ns = env_now_ns(j->fleet->env);
    return coord_course_enter(j, PHASE_INDEX);
}

static bool step_index(struct coord_job *j)
{
    if (coord_grow_ended(j))
        return coord_end_fail(j, SHOAL_E_NOINPUT,
                              "data.train has nothing up to data.kafka.until that the tables have "
                              "not learnt: nothing is changed");
    for (uint32_t s = 0; s < 3; s++)
        if (j->at.split[s].used != 0 && j->at.split[s].known == 0)
            return false;
    if (j->spec.train.skip)
        return coord_course_enter(j, PHASE_TABLES);
    if (j->at.split[WIRE_TRAIN].rows == 0)
        return coord_end_fail(j, SHOAL_E_DATA, "data.train has no rows");
    const struct coord_progress *at = &j->at;
    if (coord_from_resumes(at) && (at->split[WIRE_TRAIN].rows != at->from_rows ||
                                   at->split[WIRE_TRAIN].digest != at->from_digest))
        return coord_end_fail(
            j, SHOAL_E_DATA,
            "data.train has %" PRIu64 " rows (digest %016" PRIx64
            "), the checkpoint in %s is of %" PRIu64 " (%016" PRIx64
            "): batches already done would not be the same ones; name the files that it "
            "was made with",
            at->split[WIRE_TRAIN].rows, at->split[WIRE_TRAIN].digest, at->from_path, at->from_rows,
            at->from_digest);
    return coord_course_enter(j, PHASE_TABLES);
}

/* The tables may get numbers that a job with a newer run had while this one waited; a shard opens
 * no run that is older than the newest of its tables. The new run is stored with the next phase: no
 * shard knows the former one. LOAD, which opens the run of a load, has no such rule. */
static bool run_renew(struct coord_job *j)
{
    struct coord_counters *c = &j->fleet->counters;
    if (coord_from_loading(&j->at) || j->at.run + 1 >= c->next_run)
        return true;
    SHOAL_ASSERT(j->opened != j->at.run);
    j->at.run = c->next_run++;
    return coord_put(j->fleet, "counters", c, sizeof *c) && coord_grow_run(j);
}

static bool step_tables(struct coord_job *j)
{
    struct err e = {0};
    if (j->declared_total == 0)
        return false;
    for (uint32_t t = 0; t < j->declared_total; t++)
        if (!j->declared[t])
            return false;
    SHOAL_ASSERT(j->declared_total <= LIMIT_TABLES && j->tablets == 0);
    COORD_EACH_SPACE (j->fleet, s)
        if (s != j->space && s->drops_all)
            return false; /* a shard that is late would drop tables of this job, too */
    if (!coord_cluster_ready(&j->fleet->cluster))
        return false; /* a server came back with a newer map than the store's */
    if (j->checkpoint->state != CHECKPOINT_IDLE || coord_aside_check(j->fleet, j->space, &e) != 0)
        return false; /* a checkpoint of the tables before is being made (checkpoint.h, aside.h) */
    int rc = 0;
    /* a new space has no rows to miss */
    if (!coord_fresh_due(j) && coord_space_holds(j->fleet, j->space))
        rc = coord_cluster_made_check(j->fleet, &j->space->numbers, j->at.from == FROM_FLEET, &e);
    if (rc == 0 && !coord_fresh_due(j)) /* while it waited, a server lost them */
        rc = coord_space_whole(j->space, SHOAL_E_NOINPUT, &e);
    if (rc == 0 && (!run_renew(j) || !coord_fresh_begin(j)))
        return false; /* both before the new map, which may not fit the old rows */
    if (rc == 0)
        rc = coord_setup_map(j, &e);
    if (rc == 0 && j->at.from == FROM_TO_LOAD)
        rc = past_load(j, &e);
    if (rc != 0)
        return coord_end_fail(j, rc, "%s", e.text);
    j->resume = phase_after_setup(j, (enum coord_phase)j->at.from_phase);
    if (j->at.from != FROM_TO_LOAD)
        j->at.epoch = 1;
    coord_setup_forget(j);
    return coord_course_enter(j, PHASE_SETUP);
}

/* From now on a mark that lies behind its lane means lost pushes. */
static bool laned_note(struct coord_job *j)
{
    j->laned = j->at.run;
    return coord_job_note(j, "laned", &j->laned, sizeof j->laned);
}

/* True for a checkpoint of PHASE_EVAL or PHASE_GROW: the job resumes without PHASE_LANES, and the
 * loaded marks match the lanes. In later phases marks tell nothing: those of a job that was done
 * are 0. */
static bool loads_marks(const struct coord_job *j)
{
    return coord_from_loading(&j->at) && j->at.from != FROM_TO_START &&
           (j->resume == PHASE_EVAL || j->resume == PHASE_GROW);
}

static bool step_setup(struct coord_job *j)
{
    if (!coord_setup_all(j) || !coord_fresh_done(j) || !coord_names_settled(j) ||
        !coord_taken_settled(j) || !coord_made_take(j) ||
        !coord_space_emptied_put(j->fleet, j->space, NULL))
        return false;
    j->opened = j->at.run;
    bool loaded = loads_marks(j);
    if (loaded && !laned_note(j))
        return false;
    if (coord_from_loading(&j->at)) {
        bool starts = j->at.from == FROM_TO_START;
        j->at.from = starts ? FROM_STARTED : FROM_LOADED; /* stored with the next phase */
        coord_from_let_go(j);
        log_info("job %s %s %s in epoch %u", j->spec.name,
                 starts ? "starts from the tables of" : "goes on from", j->at.from_path,
                 j->at.epoch);
    }
    if (j->resume == PHASE_LANES) {
        if (!coord_epoch_plan(j) || !coord_course_enter(j, PHASE_LANES))
            return false;
        coord_grant_fence_all(j);
        return true;
    }
    if (!coord_epoch_resume(j, j->resume))
        return false;
    /* power may have been lost while no coordinator ran */
    if (!loaded && coord_grant_marks_known(j))
        coord_grant_fence_all(j);
    return true;
}

static bool step_lanes(struct coord_job *j)
{
    for (uint32_t l = 0; l < j->tasks->lanes; l++)
        if (j->tasks->lane[l].state != LANE_FREE)
            return false;
    j->epoch_ns = j->tasks->planned_ns = env_now_ns(j->fleet->env);
    return laned_note(j) && coord_course_enter(j, PHASE_TRAIN);
}

static bool step_digest(struct coord_job *j)
{
    SHOAL_ASSERT(j->digested <= j->at.tables);
    if (j->digested < j->at.tables || coord_call_open_type(&j->fleet->calls, j, WIRE_TYPE_FENCE) ||
        !j->guard->final || coord_checkpoint_end_due(j))
        return false;
    return coord_course_enter(j, PHASE_FINISH);
}

static bool step_finish(struct coord_job *j)
{
    struct err e = {0};
    if (j->workers.count > 0 && env_now_ns(j->fleet->env) - j->phase_ns < LEAVE_WAIT_NS)
        return false;
    if (coord_checkpoint_busy(j))
        return false;
    SHOAL_ASSERT(j->digested == j->at.tables && j->guard->final);
    if (j->report == NULL) {
        if (coord_output_figures_wait(j)) /* the report says which figures are missing */
            return false;
        coord_checkpoint_missed(j);
        /* after a restart in a phase behind training the tasks are not planned yet */
        bool planned = j->spec.train.skip || coord_grow_on(j) || j->tasks->epoch == j->at.epoch;
        int rc = 0;
        if (!planned)
            rc = coord_epoch_cut(j, &e);
        if (rc == 0)
            rc = coord_report_make(j, &e);
        if (rc != 0)
            return coord_end_fail(j, rc, "%s", e.text);
    }
    if (coord_output_report_waits(j))
        return false;
    j->at.status = j->missed.status;
    memcpy(j->at.text, j->missed.text, sizeof j->at.text);
    if (!coord_course_enter(j, PHASE_DONE))
        return false;
    coord_cut_run_drop(j); /* after the phase is stored: a job whose run is dropped cannot go on */
    return true;
}

static bool step(struct coord_job *j)
{
    switch (j->at.phase) {
    case PHASE_WAITING:
        return step_waiting(j);
    case PHASE_INDEX:
        return step_index(j);
    case PHASE_TABLES:
        return step_tables(j);
    case PHASE_SETUP:
        return step_setup(j);
    case PHASE_LANES:
        return step_lanes(j);
    case PHASE_TRAIN:
    case PHASE_EVAL:
    case PHASE_CUT:
    case PHASE_TEST:
    case PHASE_GROW:
        return coord_epoch_step(j);
    case PHASE_DIGEST:
        return step_digest(j);
    case PHASE_FINISH:
        return step_finish(j);
    default:
        return false; /* RESTORE goes on in its callback */
    }
}

void coord_flow_step(struct coord_job *j)
{
    if (j->fleet->fatal != 0)
        return;
    coord_setup_greet(j);
    bool setting = j->at.phase >= PHASE_SETUP && !coord_phase_over(j);
    if (setting || coord_checkpoint_opening(j)) /* else no shard needs setting up */
        coord_setup_step(j);
    if (j->at.phase == PHASE_TRAIN)
        coord_guard_ask(j, false);
    coord_cut_tick(j);
    coord_checkpoint_step(j);
    coord_stop_step(j);
    while (j->fleet->fatal == 0 && step(j))
        continue;
    coord_ring_step(j);
    coord_report_ended(j);
}
