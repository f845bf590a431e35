/* back.c: a job goes back to a checkpoint. back.h describes the steps and the invariants. */
#include "server/coord/job/back.h"

#include "proto/base/assert.h"
#include "proto/base/hash.h"
#include "proto/base/log.h"
#include "proto/base/minmax.h"
#include "server/coord/core/fresh.h"
#include "server/coord/core/phase.h"
#include "server/coord/core/setup_state.h"
#include "server/coord/fleet/folder.h"
#include "server/coord/job/course.h"
#include "server/coord/job/flow.h"
#include "server/coord/job/parts.h"
#include "server/coord/keep/checkpoint.h"
#include "server/coord/keep/cut.h"
#include "server/coord/keep/from.h"
#include "server/coord/keep/newest.h"
#include "server/coord/work/task.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct back_record { /* value of "back" */
    uint64_t number; /* the job's number */
    uint64_t times;
};
struct back_to { /* value of "back_to" */
    uint64_t number;
    uint64_t run; /* the run under which the job goes back */
};

struct back_tries { /* value of "back_tries" */
    uint64_t number;
    uint64_t path;    /* hash of the checkpoint's folder */
    uint64_t batches; /* batches done when the job went back */
    uint64_t futile;  /* number of returns in a row after which the job came no further */
};

/* A single server may die twice in a row and a machine three times. A job that makes no progress
 * after five returns fails for another reason. */
#define FUTILE_MAX 5u

bool coord_back_needs(const struct coord_job *j)
{
    if (!coord_phase_running(j) || j->at.phase < PHASE_SETUP || j->at.phase == PHASE_FINISH)
        return false;
    if (j->at.phase > PHASE_SETUP || j->opened == j->at.run)
        return true;
    if (coord_fresh_due(j) || j->at.from == FROM_BACK)
        return false;
    if (coord_from_loading(&j->at)) /* tables that the checkpoint lacks keep their rows */
        return coord_made_known(j->fleet, j->space);
    /* a restore runs under a new run, but it restores a cut of rows that shards have */
    return j->at.from == FROM_FLEET || j->resume == PHASE_RESTORE;
}

bool coord_back_rows_lost(const struct coord_job *j, uint32_t shard)
{
    SHOAL_ASSERT(shard < j->fleet->members.shards && j->fleet->members.shard[shard].seen);
    return coord_cluster_lost_of(j->fleet, shard, &j->space->numbers) && coord_back_needs(j);
}

int coord_back_load(struct coord_job *j, struct err *e)
{
    const struct coord_progress *at = &j->at;
    struct back_record record;
    struct coord_passed passed;
    struct back_to to;
    int rc = coord_store_get_fixed(j->store, "back", &record, sizeof record, e);
    if (rc == 0 && record.number == at->number)
        j->went_back = (uint32_t)record.times;
    if (rc == 0 || rc == SHOAL_E_NOT_FOUND)
        rc = coord_store_get_fixed(j->store, "passed", &passed, sizeof passed, e);
    if (rc == 0 && passed.number == at->number)
        j->passed = passed;
    if (rc == 0 || rc == SHOAL_E_NOT_FOUND)
        rc = coord_store_get_fixed(j->store, "back_to", &to, sizeof to, e);
    if (rc == 0 && to.number == at->number && to.run > at->run)
        coord_back_want(j, "the coordinator died while the job went back"); /* 2 */
    if (j->fleet->replace.from[0] != 0)
        coord_back_replaced(j);
    return coord_store_optional(rc);
}

/* ---- what the store says --------------------------------------------------------------------- */

/* The work since the checkpoint, or since the previous return, is lost: `vain_ns` adds its time. */
static struct coord_passed passed_of(const struct coord_job *j, uint64_t made_ns, uint64_t now_ns)
{
    struct coord_passed p = j->passed;
    uint64_t since = MAX(p.back_ns, made_ns);
    p.number = j->at.number;
    p.vain_ns += SAT_SUB(now_ns, since);
    p.back_ns = now_ns;
    return p;
}

/* `progress` is written last and synced together with the notes before it. "back_to" is stored
 * first, so that a coordinator that dies in between goes back again (invariant 2). */
static bool past_put(struct coord_job *j, const struct coord_from *from, struct coord_progress *at)
{
    struct coord_progress now = j->at;
    struct back_record record = {.number = now.number, .times = j->went_back + 1ull};
    struct back_to to = {.number = now.number, .run = j->fleet->counters.next_run++};
    struct err e = {0};
    now.run = to.run;
    now.phase = PHASE_SETUP;
    now.elapsed_ns += env_now_ns(j->fleet->env) - j->started_ns;
    const struct coord_passed passed = passed_of(j, from->saved.at.elapsed_ns, now.elapsed_ns);
    if (!coord_put(j->fleet, "counters", &j->fleet->counters, sizeof j->fleet->counters) ||
        !coord_job_put(j, "back_to", &to, sizeof to) ||
        !coord_fresh_again(j->fleet, j->space, now.number) ||
        coord_from_begin(j, from, &now, FROM_BACK, at, &e) != 0)
        return false;
    at->elapsed_ns = now.elapsed_ns; /* the lost work still took its time */
    return coord_job_note(j, "back", &record, sizeof record) &&
           coord_job_note(j, "passed", &passed, sizeof passed) &&
           coord_job_put(j, "progress", at, sizeof *at) && coord_replace_done(j->fleet);
}

/* ---- going back ------------------------------------------------------------------------------ */

/* Ends the run that the job had. The shards then refuse its pushes, and so do the shards that load
 * later. */
static void run_end(struct coord_job *j)
{
    struct wire w = {.type = WIRE_TYPE_RUN_DROP};
    coord_course_take_back(j, "the job goes back");
    if (j->at.best_cut != 0)
        coord_cut_drop(j, j->at.best_cut);
    w.u.RUN_DROP.run = j->at.run;
    (void)coord_call_start(&j->fleet->calls,
                           &(struct coord_call){.context = j,
                                                .request = w,
                                                .target = COORD_NOBODY,
                                                .owner = j->at.run,
                                                .on_done = coord_cut_run_dropped});
}

/* Opens the job again, as the store now describes it. Keeps the roll of its workers and the peer
 * that submitted it. */
static int job_again(struct coord_job *j, const struct coord_progress *at, int *hold, struct err *e)
{
    struct {
        struct coord_roll roll;
        peer_t submitter;
        char kernel[sizeof j->kernel], backend[sizeof j->backend];
    } was = {.roll = j->roll, .submitter = j->submitter};
    memcpy(was.kernel, j->kernel, sizeof was.kernel);
    memcpy(was.backend, j->backend, sizeof was.backend);
    j->roll = (struct coord_roll){0};
    coord_parts_close(j);
    j->at = *at;
    j->from_hold = *hold;
    *hold = COORD_FOLDER_NONE;
    j->roll = was.roll;
    j->submitter = was.submitter;
    memcpy(j->kernel, was.kernel, sizeof j->kernel);
    memcpy(j->backend, was.backend, sizeof j->backend);
    return coord_flow_resume(j, e);
}

uint64_t coord_back_batches(const struct coord_job *j)
{
    const struct coord_tasks *t = j->tasks;
    uint64_t sum = 0;
    for (uint32_t i = 0; i < t->lanes; i++) {
        const struct coord_lane *l = &t->lane[i];
        uint64_t next = l->next_batch;
        if (l->task != COORD_NO_TASK)
            next = t->task[l->task].first_batch;
        sum += MAX(l->mark, next - 1);
    }
    return sum;
}

/* True when the job has gone back to this checkpoint FUTILE_MAX times without coming further than
 * before. The count is in the store, because the coordinator itself may be the process that
 * dies. */
static bool is_futile(struct coord_job *j, const char *path)
{
    struct back_tries now = {.number = j->at.number,
                             .path = hash_bytes(path, strlen(path), 0),
                             .batches = coord_back_batches(j)};
    struct back_tries was;
    int rc = coord_store_get_fixed(j->store, "back_tries", &was, sizeof was, NULL);
    bool again = rc == 0 && was.number == now.number && was.path == now.path;
    if (again && now.batches <= was.batches) {
        now.batches = was.batches;
        now.futile = was.futile + 1;
    }
    if (now.futile >= FUTILE_MAX)
        return true;
    /* a store that fails stops the coordinator */
    (void)coord_job_note(j, "back_tries", &now, sizeof now);
    return false;
}

void coord_back_forgive(struct coord_job *j)
{
    static const struct back_tries none;
    struct back_tries was;
    int rc = coord_store_get_fixed(j->store, "back_tries", &was, sizeof was, NULL);
    if (rc == 0 && was.number == j->at.number)
        (void)coord_job_note(j, "back_tries", &none, sizeof none);
}

static int back_refuse(struct coord_job *j, const char *why, const char *path)
{
    coord_end_fail(
        j, SHOAL_E_UNAVAILABLE,
        "%s; and the job has gone back to its checkpoint %u times and never came further "
        "than before: mend what fails there, then go on with --resume %s",
        why, FUTILE_MAX, path);
    return SHOAL_E_UNAVAILABLE;
}

/* The errand has read the newest checkpoint, or found that none can be read. */
static void go_back(struct coord_job *j, struct coord_newest *n)
{
    char why[sizeof j->lost];
    struct coord_progress at;
    struct err e = {0};
    int rc = n->rc;
    memcpy(why, j->lost, sizeof why);
    if (rc != 0)
        coord_end_fail(j, rc, "%s; and the job cannot go back to its checkpoint: %s", why,
                       n->e.text);
    else if (j->fleet->replace.from[0] == 0 && is_futile(j, n->from.path))
        rc = back_refuse(j, why, n->from.path);
    if (rc != 0)
        return;
    log_warn("%s; job %s goes back to %s: what was trained since is trained again", why,
             j->spec.name, n->from.path);
    if (!past_put(j, &n->from, &at))
        return;
    run_end(j);
    coord_setup_forget(j);
    j->watch.left_ns = env_now_ns(j->fleet->env); /* all workers join anew */
    j->watch.left[0] = 0;
    coord_worker_remove_all(&j->workers);
    /* the next one is due as after the job's start */
    j->checkpoint->last_ns = j->checkpoint->retry_ns = 0;
    rc = job_again(j, &at, &n->from.hold, &e);
    if (rc == 0)
        return;
    log_error("the job cannot be read back: %s; stopping, to begin with what is stored", e.text);
    j->fleet->fatal = rc;
    env_stop(j->fleet->env);
}

static void newest_read(void *context, struct coord_errand *r, int rc, const struct err *e)
{
    struct coord_job *j = context;
    struct coord_newest *n = coord_newest_of(r);
    SHOAL_ASSERT(j->newest == n);
    j->newest = NULL;
    if (rc != 0) { /* the next step reads it again when the folder answers */
        log_warn("job %s cannot go back yet: %s", j->spec.name, e->text);
        return;
    }
    if (coord_goes_back(j) && j->at.number == n->number && j->fleet->fatal == 0)
        go_back(j, n);
    coord_errand_leave(j->fleet, r);
}

/* Begins to read the newest checkpoint. While its folder hangs, each step tries again. */
static void read_begin(struct coord_job *j, const char *path)
{
    struct err e = {0};
    bool own =
        j->fleet->replace.from[0] == 0 && coord_checkpoint_newest(j, 0, (char[LIMIT_PATH]){0});
    if (coord_errand_check(j->fleet, own ? j->spec.checkpoint.dir : path, &e) != 0)
        return;
    coord_course_take_back(j, "the job goes back");
    int rc = coord_newest_begin(j, newest_read, &j->newest, &e);
    if (rc != 0)
        coord_end_fail(j, rc, "%s; and the job cannot go back to its checkpoint: %s", j->lost,
                       e.text);
}

void coord_back_lost(struct coord_job *j, uint32_t shard)
{
    SHOAL_ASSERT(coord_phase_running(j) && j->at.phase >= PHASE_SETUP);
    coord_back_want(j, "server %s died, and its rows were in memory alone (durability: memory)",
                    j->fleet->members.shard[shard].server);
    j->lost_rows = true;
}

void coord_back_replaced(struct coord_job *j)
{
    SHOAL_ASSERT(j->fleet->replace.from[0] != 0);
    coord_back_want(j, "a server whose data_dir is lost is replaced");
}

void coord_back_step(struct coord_job *j)
{
    char path[LIMIT_PATH];
    if (!coord_goes_back(j) || j->newest != NULL)
        return;
    if (coord_checkpoint_comes(j)) { /* the newest may be the first one */
        coord_checkpoint_coming_step(j);
        return;
    }
    const char *why = j->lost;
    if (coord_newest_path(j, path))
        read_begin(j, path);
    else if (j->lost_rows)
        coord_end_fail(j, SHOAL_E_UNAVAILABLE,
                       "%s: they are lost, and there is no checkpoint; " COORD_BACK_ADVICE, why);
    else
        coord_end_fail(j, SHOAL_E_CORRUPT,
                       "%s; start the job again, with checkpoint: {dir: FOLDER, every_minutes: N} "
                       "to go back to, or with durability: fsync",
                       why);
}
