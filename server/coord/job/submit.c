/* submit.c: takes a job: parsed, checked, numbered, stored. */
#include "server/coord/job/submit.h"

#include "proto/base/assert.h"
#include "proto/base/log.h"
#include "proto/base/minmax.h"
#include "proto/base/text.h"
#include "proto/job/given.h"
#include "server/coord/core/fresh.h"
#include "server/coord/core/phase.h"
#include "server/coord/core/setup_state.h"
#include "server/coord/figures/guard.h"
#include "server/coord/figures/judge.h"
#include "server/coord/figures/progressive.h"
#include "server/coord/figures/report_job.h"
#include "server/coord/figures/trace.h"
#include "server/coord/fleet/folder.h"
#include "server/coord/fleet/import.h"
#include "server/coord/job/back.h"
#include "server/coord/job/begin.h"
#include "server/coord/job/course.h"
#include "server/coord/job/held.h"
#include "server/coord/job/look.h"
#include "server/coord/job/parts.h"
#include "server/coord/job/setup.h"
#include "server/coord/keep/checkpoint.h"
#include "server/coord/keep/from.h"
#include "server/coord/work/eval.h"
#include "server/coord/work/grow.h"
#include "server/coord/work/objects.h"
#include "server/coord/work/replay.h"
#include "server/coord/work/source.h"
#include "server/coord/work/taken.h"
#include "server/coord/work/taken_names.h"
#include "server/coord/work/task.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int coord_submit_build(struct coord_job *j, const char *yaml, size_t bytes, struct err *e)
{
    SHOAL_ASSERT(!j->parsed && j->tasks->lanes == 0); /* it is new: no former job's state is lost */
    int rc = job_parse(yaml, bytes, "job", NULL, &j->spec, e);
    if (rc != 0)
        return rc;
    j->parsed = true;
    j->source = coord_source_of(&j->spec);
    if (j->spec.train.epochs > COORD_EPOCHS_MAX)
        return err_set(e, SHOAL_E_CONFIG, "train.epochs: %u, at most %u", j->spec.train.epochs,
                       COORD_EPOCHS_MAX);
    if (j->spec.train.early_stop.patience > 0 && j->spec.data.valid.count == 0)
        return err_set(
            e, SHOAL_E_CONFIG,
            "train.early_stop needs data.valid: name the files to measure by, or set patience: 0");
    j->yaml = malloc(bytes + 1);
    j->table = calloc(LIMIT_TABLES, sizeof *j->table);
    j->epoch = calloc(coord_epochs_kept(j), sizeof *j->epoch);
    if (j->yaml == NULL || j->table == NULL || j->epoch == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for the job");
    memcpy(j->yaml, yaml, bytes);
    j->yaml_bytes = bytes;
    rc = coord_curve_open(&j->trace->curve, e);
    if (rc == 0)
        rc = coord_progressive_open(j->windows, &j->spec, coord_epochs_kept(j), e);
    if (rc == 0)
        rc = coord_replay_open(j->replay, &j->spec, e);
    if (rc != 0)
        return rc;
    return coord_begin_lanes(j, e);
}

int coord_submit_asked_load(struct coord_job *j, struct err *e)
{
    int rc = coord_store_get_fixed(j->store, "asked", &j->asked, sizeof j->asked, e);
    j->asked.path[LIMIT_PATH - 1] = 0;
    if (rc == 0 && j->asked.number == j->at.number)
        return 0;
    if (rc != 0 && rc != SHOAL_E_NOT_FOUND)
        return rc;
    /* an earlier release stored none */
    j->asked = (struct coord_asked){
        .number = j->at.number, .start = j->at.from != FROM_NOTHING && !coord_from_resumes(&j->at)};
    memcpy(j->asked.path, j->at.from_path, sizeof j->asked.path);
    return 0;
}

/* For a job that goes on: puts the checkpoint's rows into the store under the new number, and its
 * progress into `j`. */
static int from_take(struct coord_job *j, const struct coord_from *f, struct err *e)
{
    struct coord_progress at = j->at;
    SHOAL_ASSERT(j->at.phase == PHASE_NONE);
    int rc = coord_from_begin(j, f, &at, f->start ? FROM_TO_START : FROM_TO_LOAD, &j->at, e);
    if (rc != 0 || f->start)
        return rc;
    j->passed = (struct coord_passed){.number = at.number, .before_ns = f->saved.at.elapsed_ns};
    if (!coord_job_note(j, "passed", &j->passed, sizeof j->passed))
        return coord_store_failed(e);
    return coord_grow_load(j, e);
}

/* Stores the new job's space, with its name. job: the former job of the slot. */
static int space_put(struct coord_job *job, struct coord_job *j, struct err *e)
{
    struct coord_space *s = j->space;
    /* one with tables gets another name when the job has dropped them (setup.c) */
    bool named = coord_space_holds(job->fleet, s) || strcmp(s->name, j->spec.space) == 0;
    if ((!named && !coord_space_put(job->fleet, s, j->spec.space, SPACE_IS)) ||
        !coord_job_put(job, COORD_SPACE_KEY, &s->number, sizeof s->number))
        return coord_store_failed(e);
    return 0;
}

static int job_begin(struct coord_job *job, uint64_t number, struct coord_job *j,
                     const struct coord_submit *submit, const struct coord_from *from, bool fleet,
                     struct err *e)
{
    SHOAL_ASSERT(!coord_phase_running(job) && j->parsed);
    uint64_t run = job->fleet->counters.next_run++;
    bool resumes = from != NULL && !from->start;
    j->at.number = number != 0 ? number : run;
    j->at.run = run;
    if (!coord_put(job->fleet, "counters", &job->fleet->counters, sizeof job->fleet->counters))
        return coord_store_failed(e);
    int rc = 0;
    if (from == NULL && fleet)
        rc = coord_taken_fleet(j, e);
    else if (from == NULL)
        rc = coord_taken_none(j, e);
    if (rc != 0)
        return rc;
    j->asked = (struct coord_asked){.number = j->at.number, .start = submit->start};
    (void)snprintf(j->asked.path, sizeof j->asked.path, "%s", submit->from);
    if (!coord_job_note(job, "asked", &j->asked, sizeof j->asked) ||
        !coord_fresh_want(job->fleet, j->space, j->at.number, j->spec.fresh_all,
                          text_if(fleet, j->without)) ||
        !coord_job_put(job, "without", j->without, sizeof j->without) ||
        !coord_job_note(job, "translated", j->translated, sizeof j->translated) ||
        !coord_report_job_begin(j))
        return coord_store_failed(e);
    job->watch.left_ns = 0; /* the job before set it */
    job->watch.failed_rounds = 0;
    job->watch.failed[0] = 0;
    j->at.map_epoch = job->at.map_epoch;
    j->at.lr_scale = 1;
    j->at.workers_wanted = submit->workers;
    j->at.split[WIRE_TRAIN].used = !j->spec.train.skip;
    j->at.split[WIRE_VALID].used = !j->spec.train.skip && j->spec.data.valid.count > 0;
    j->at.split[WIRE_TEST].used = j->spec.data.test.count > 0;
    j->eval_number = (env_random(job->fleet->env) & 0xffffff) + 1;
    if (from != NULL)
        rc = from_take(j, from, e);
    /* The lanes of a former job must not be taken for this job's when the coordinator dies before
     * it fences them. A job that resumes has put the checkpoint's lanes there. */
    if (rc == 0 && !resumes)
        rc = coord_store_remove(job->store, "lanes", e);
    if (rc == 0)
        rc = coord_import_break(job->fleet, j->space->numbers, e);
    if (rc != 0)
        return rc;
    return space_put(job, j, e); /* last: a job that is refused leaves that of the former one */
}

/* ---- the job --------------------------------------------------------------------------------- */

/* The optimizer must suit a network that begins anew; an existing network goes on as it began. */
static int network_begins(const struct job *spec, struct err *e)
{
    const struct optimizer_facts *facts = optimizer_facts(spec->dense_optimizer.kind);
    if (!facts->by_mean)
        return 0;
    return err_set(e, SHOAL_E_CONFIG,
                   "dense_optimizer.kind: %s steps by the mean over a row, and the network's rows "
                   "are blocks of which the last of a tensor is padded: a bias would learn much "
                   "too fast: take adagrad or adam",
                   facts->name);
}

/* Each worker of a ring holds a lane at least (work/ring.h). More may come: they wait for the place
 * of one that dies. */
static int ring_fits(const struct job *spec, uint32_t workers, struct err *e)
{
    uint32_t most = MIN(job_lanes(spec), WIRE_RING_MEMBERS);
    if (!spec->train.allreduce || workers <= most)
        return 0;
    return err_set(e, SHOAL_E_CONFIG,
                   "train.dense: allreduce: %u workers are too many for a ring, which has at most "
                   "%u, each with a lane at least, and train.lanes is %u: use --workers %u",
                   workers, WIRE_RING_MEMBERS, job_lanes(spec), most);
}

/* Makes the new job in `j`, and stores all of it but the progress. */
static int job_make(struct coord_job *job, uint64_t number, const struct coord_submit *submit,
                    struct coord_look *look, struct coord_job *j, struct err *e)
{
    bool fleet = coord_held_begins(submit), goes_on = submit->from[0] != 0 && !fleet;
    int rc = coord_submit_build(j, submit->yaml, submit->bytes, e);
    if (rc == 0)
        rc = coord_held_choose(job, submit, j, e);
    if (rc == 0)
        rc = coord_held_check(job, j->space, submit, &j->spec, e);
    if (rc == 0)
        rc = coord_member_durability_check(&job->fleet->members, &j->spec, e);
    if (rc == 0)
        rc = coord_checkpoint_check(job->fleet, &j->spec, e);
    if (rc == 0 && ((!goes_on && !fleet) || coord_begin_fresh(&j->spec, "dense")))
        rc = network_begins(&j->spec, e);
    if (rc == 0 && !goes_on && !fleet && j->spec.train.skip && j->spec.data.test.count > 0)
        rc = err_set(e, SHOAL_E_CONFIG,
                     "train.skip: data.test would be measured with tables that have no rows: name "
                     "a checkpoint with --resume or --start-from, or take train.skip away; without "
                     "data.test the job makes its tables, for rows to come (shoal import)");
    if (rc == 0 && goes_on && job->fleet->options.folder == NULL)
        rc = err_set(e, SHOAL_E_CONFIG, "this coordinator reads no checkpoints");
    if (rc == 0 && coord_look_needed(&j->spec, submit))
        rc = look == NULL ? SHOAL_E_AGAIN : coord_look_result(look, e);
    struct coord_from *from = NULL;
    if (rc == 0 && goes_on)
        from = &look->from;
    if (rc == 0)
        rc = coord_begin_given(j, from, submit->workers, e);
    if (rc == 0)
        rc = ring_fits(&j->spec, submit->workers, e);
    if (rc == 0)
        rc = coord_begin_names(j, from, fleet, e);
    if (rc == 0)
        rc = job_begin(job, number, j, submit, from, fleet, e);
    if (rc == 0 && fleet) {
        j->at.from = FROM_FLEET;
        (void)snprintf(j->at.from_path, sizeof j->at.from_path, "%s", COORD_FROM_FLEET);
    }
    if (rc == 0 && from != NULL) {
        j->from_hold = from->hold;
        from->hold = COORD_FOLDER_NONE;
    }
    return rc;
}

static bool same_text(const struct coord_job *j, const struct coord_submit *submit)
{
    char *mine = NULL, *theirs = NULL;
    size_t bytes = 0, more = 0;
    bool same = given_strip(j->yaml, j->yaml_bytes, &mine, &bytes, NULL) == 0 &&
                given_strip(submit->yaml, submit->bytes, &theirs, &more, NULL) == 0;
    while (same && bytes > 0 && mine[bytes - 1] == '\n')
        bytes--;
    while (same && more > 0 && theirs[more - 1] == '\n')
        more--;
    same = same && bytes == more && memcmp(mine, theirs, bytes) == 0;
    free(mine);
    free(theirs);
    return same;
}

/* True for a request that is sent again because its answer was lost: by the same peer, soon. After
 * a restart the coordinator does not know the peer. Then a job that runs is the answer to any
 * request with the same file, and a job that has ended is begun anew. */
bool coord_submit_again(const struct coord_job *j, peer_t from, const struct coord_submit *submit)
{
    const char *path = j->asked.path;
    if (!j->parsed || !same_text(j, submit) || strcmp(path, submit->from) != 0 ||
        (j->asked.path[0] != 0 && submit->start != (j->asked.start != 0)))
        return false;
    if (coord_phase_running(j))
        return j->submitter == from || j->submitter == 0;
    return j->submitter == from && env_now_ns(j->fleet->env) - j->phase_ns < UINT64_C(2000000000);
}

/* Returns a shard of the running job whose rows may be lost with its process. That ends the job,
 * and a repeated SUBMIT begins it anew. NULL: there is no such shard. */
static const struct coord_shard *rows_doubtful(const struct coord_job *j)
{
    const struct coord_members *m = &j->fleet->members;
    bool begun = coord_phase_running(j) && j->at.phase >= PHASE_SETUP;
    for (uint32_t i = 0; i < m->shards && begun; i++)
        if (!m->shard[i].seen && coord_shard_in_memory(&m->shard[i]))
            return &m->shard[i];
    return NULL;
}

/* A repeated request may name fewer or more workers: a job that waited for the first number might
 * wait without end. */
static int workers_take(struct coord_job *j, uint32_t workers, struct err *e)
{
    bool waits = coord_phase_running(j) && j->at.phase < PHASE_SETUP;
    if (!waits || workers == 0 || workers > LIMIT_WORKERS || workers == j->at.workers_wanted)
        return 0;
    int rc = ring_fits(&j->spec, workers, e);
    if (rc != 0)
        return rc;
    j->at.workers_wanted = workers;
    if (!coord_phase_put(j))
        return coord_store_failed(e);
    return 0;
}

/* The request names the job that runs. */
static int running_take(struct coord_job *j, const struct coord_submit *submit, struct err *e)
{
    if (j->submitter == 0) /* a run that was broken off is continued */
        coord_back_forgive(j);
    const struct coord_shard *doubtful = rows_doubtful(j);
    if (doubtful != NULL)
        return coord_held_awaited(
            j->fleet, doubtful, e,
            "has rows of this job in its memory, and has not been heard of since "
            "the coordinator started",
            "start it, or end the job with `shoal stop`");
    if (coord_goes_back(j)) /* or ends, and the repeated request begins it anew */
        return err_set(e, SHOAL_E_UNAVAILABLE,
                       "job %s goes back to its newest checkpoint: submit again in a moment",
                       j->spec.name);
    return workers_take(j, submit->workers, e);
}

void coord_submit_say(const struct coord_job *j, char said[ERR_TEXT_MAX])
{
    char names[ERR_TEXT_MAX / 2];
    said[0] = 0;
    coord_spaces_text(j->fleet, j->space, names, sizeof names);
    if (j->at.from == FROM_FLEET && j->space->emptied[0] != 0)
        (void)snprintf(said, ERR_TEXT_MAX,
                       "space %s: shoal drop has taken the rows that its last job left in %s",
                       j->space->name, j->space->emptied);
    if (names[0] == 0 || coord_space_holds(j->fleet, j->space))
        return;
    (void)snprintf(said, ERR_TEXT_MAX,
                   "space %s is new: its tables begin %s, beside those of %s, which stay. To go on "
                   "with tables of those, stop this job and set space: to their name",
                   j->spec.space,
                   j->at.from == FROM_NOTHING ? "empty" : "with those of the checkpoint", names);
}

/* Gives the job the claim of its look, now that the job is the one at hand. */
static void claim_pass(struct coord_job *j, struct coord_look *look)
{
    if (look == NULL)
        return;
    SHOAL_ASSERT(j->checkpoint->claim.path[0] == 0);
    j->checkpoint->claim = look->claim;
    look->claim.path[0] = 0;
}

/* number: that of a job that has waited; 0: it gets that of its run. */
static int job_take(struct coord_job *job, uint64_t number, peer_t from,
                    const struct coord_submit *submit, struct coord_look *look, struct err *e)
{
    struct made { /* the new job, before it takes the slot */
        struct coord_job job;
        struct coord_parts parts;
    };
    if (number == 0 && coord_submit_again(job, from, submit))
        return running_take(job, submit, e);
    if (coord_phase_running(job))
        return err_set(e, SHOAL_E_BUSY,
                       "job %s (run %" PRIu64 ") is running: wait for its end or stop it first",
                       job->spec.name, job->at.number);
    if (job->checkpoint->state != CHECKPOINT_IDLE)
        return err_set(e, SHOAL_E_BUSY,
                       "checkpoint %s of the last job is being made: submit again when it is there",
                       job->checkpoint->name);
    int rc = coord_drop_check(job->fleet, e);
    if (rc != 0)
        return rc;
    if (submit->workers > LIMIT_WORKERS)
        return err_set(e, SHOAL_E_USAGE, "%u workers, at most %u are possible", submit->workers,
                       LIMIT_WORKERS);
    struct made *m = calloc(1, sizeof *m);
    if (m == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for the job");
    struct coord_job *j = &m->job;
    coord_parts_join(j, &m->parts);
    j->fleet = job->fleet;
    j->end = job->end;
    j->store = job->store;
    j->slot = job->slot;
    j->space = job->space; /* until its own is chosen */
    j->from_hold = COORD_FOLDER_NONE;
    rc = job_make(job, number, submit, look, j, e);
    /* a job that is refused, or waits, has the shards told nothing */
    if (rc == 0 && (job->at.phase == PHASE_DONE || job->at.phase == PHASE_FAILED))
        coord_setup_forget(job);
    coord_parts_close(rc == 0 ? job : j); /* the former job, or what there is of the new one */
    struct coord_space *space = j->space;
    if (rc == 0)
        coord_parts_take(job, j);
    free(m);
    if (rc != 0)
        return rc;
    coord_setup_space(job, space);
    SHOAL_ASSERT(job->parsed && job->at.run >= job->at.number);
    job->submitter = from;
    coord_checkpoint_job(job);
    claim_pass(job, look);
    coord_worker_remove_all(&job->workers); /* workers of a job that failed a moment ago */
    coord_worker_forget_figures(&job->workers);
    coord_member_forget_rss(&job->fleet->members);
    char said[ERR_TEXT_MAX];
    coord_submit_say(job, said);
    if (said[0] != 0)
        log_info("job %s: %s", job->spec.name, said);
    /* Only now the text replaces the one of the job before, by which its tables are read: a job
     * that is refused leaves that one. */
    if (!coord_course_enter(job, PHASE_WAITING) ||
        !coord_job_put(job, "job", job->yaml, job->yaml_bytes))
        return coord_store_failed(e);
    return 0;
}

int coord_submit(struct coord_job *job, peer_t from, const struct coord_submit *submit,
                 struct coord_look *look, uint64_t *run, struct err *e)
{
    int rc = job_take(job, 0, from, submit, look, e);
    if (rc == 0)
        *run = job->at.number;
    return rc;
}

int coord_submit_waited(struct coord_job *job, uint64_t number, peer_t from,
                        const struct coord_submit *submit, struct coord_look *look, struct err *e)
{
    return job_take(job, number, from, submit, look, e);
}
