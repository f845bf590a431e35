/* epoch.c: planning of an epoch, the barrier, pauses, evaluation. */
#include "server/coord/job/epoch.h"

#include "proto/base/assert.h"
#include "proto/base/log.h"
#include "proto/base/minmax.h"
#include "proto/base/text.h"
#include "proto/job/bad_lines.h"
#include "proto/metric/measure.h"
#include "server/coord/core/phase.h"
#include "server/coord/figures/figures.h"
#include "server/coord/figures/guard.h"
#include "server/coord/figures/judge.h"
#include "server/coord/figures/progressive.h"
#include "server/coord/figures/trace.h"
#include "server/coord/job/course.h"
#include "server/coord/job/setup.h"
#include "server/coord/keep/checkpoint.h"
#include "server/coord/keep/cut.h"
#include "server/coord/work/amount.h"
#include "server/coord/work/eval.h"
#include "server/coord/work/grant.h"
#include "server/coord/work/grow.h"
#include "server/coord/work/objects.h"
#include "server/coord/work/replay.h"
#include "server/coord/work/ring_job.h"
#include "server/coord/work/source.h"
#include "server/coord/work/taken.h"
#include "server/coord/work/task.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool evaluated(struct coord_job *j);
static bool end_waits(struct coord_job *j);

static struct coord_epoch *epoch_at_hand(struct coord_job *j)
{
    return &j->epoch[coord_epoch_slot(j, j->at.epoch)];
}

static bool epoch_put(struct coord_job *j)
{
    uint32_t slot = coord_epoch_slot(j, j->at.epoch);
    return coord_job_put(j, coord_row_key("epoch", slot + 1).text, &j->epoch[slot],
                         sizeof j->epoch[slot]);
}

/* ---- details of an evaluation ---------------------------------------------------------------- */

static const char *const details_key[] = {"", "details/valid", "details/test"};

/* Stores the details as text: the job's number, then curves and tables as measure_json_details
 * makes them. */
static bool details_put(struct coord_job *j, uint32_t split, const struct measure *m)
{
    SHOAL_ASSERT(split == WIRE_VALID || split == WIRE_TEST);
    struct json *stored = json_new_object();
    json_free(j->details[split]);
    j->details[split] = measure_json_details(m, &j->spec);
    json_set_int(stored, "job", (int64_t)j->at.number);
    json_set(stored, "details", json_hold(j->details[split]));
    char *text = json_text(stored, 0);
    json_free(stored);
    /* without memory the report has no details */
    bool good = text == NULL || coord_job_put(j, details_key[split], text, strlen(text));
    free(text);
    return good;
}

/* Reads the details. Curves and tables are no state: if they are damaged, the report goes without
 * them. */
static int details_load(struct coord_job *j, uint32_t split, struct err *e)
{
    struct json *stored = NULL;
    struct err damage = {0};
    void *text;
    size_t bytes;
    int rc = coord_store_get(j->store, details_key[split], &text, &bytes, e);
    if (rc != 0)
        return coord_store_optional(rc);
    rc = json_parse(text, bytes, &stored, &damage);
    free(text);
    if (rc != 0) {
        log_warn("stored %s is damaged (%s): the report goes without", details_key[split],
                 damage.text);
        return 0;
    }
    if (json_as_int(json_get(stored, "job"), -1) == (int64_t)j->at.number)
        j->details[split] = json_hold(json_get(stored, "details"));
    json_free(stored);
    return 0;
}

/* An epoch is stored as finished before the progress that counts it. If the coordinator died in
 * between, the epoch is opened again with the time that it took, and closed once more. Its tables
 * are as its tasks left them: no task is dealt again. */
static void epoch_reopen(struct coord_job *j)
{
    uint64_t before = coord_epoch_amount(j).rows_before;
    uint32_t phase = coord_from_loading(&j->at) ? j->at.from_phase : j->at.phase;
    struct coord_epoch *epoch = &j->epoch[coord_epoch_slot(j, j->at.epoch)];
    if (coord_epoch_open(j) || j->at.train_rows > before || phase >= PHASE_RESTORE)
        return;
    j->epoch_spent_ns = (uint64_t)(epoch->seconds * 1e9);
    *epoch = (struct coord_epoch){.number = 0};
}

int coord_epoch_load(struct coord_job *j, struct err *e)
{
    if (j->at.epoch < 1 || j->at.epoch > coord_epochs(j))
        return err_set(e, SHOAL_E_CORRUPT, "the stored job is in epoch %u of %u", j->at.epoch,
                       coord_epochs(j));
    for (uint32_t n = coord_epoch_first(j); n <= j->at.epoch; n++) {
        uint32_t slot = coord_epoch_slot(j, n);
        struct coord_epoch stored;
        int rc = coord_store_get_fixed(j->store, coord_row_key("epoch", slot + 1).text, &stored,
                                       sizeof stored, e);
        if (rc != 0 && rc != SHOAL_E_NOT_FOUND)
            return rc;
        if (rc == 0 && stored.number == j->at.number)
            j->epoch[slot] = stored;
    }
    epoch_reopen(j);
    int rc = coord_judge_load(j, e);
    if (rc == 0)
        rc = coord_progressive_load(j, e);
    if (rc == 0)
        rc = coord_replay_load(j, e);
    if (rc == 0)
        rc = details_load(j, WIRE_VALID, e);
    if (rc == 0)
        rc = details_load(j, WIRE_TEST, e);
    return rc;
}

/* ---- training -------------------------------------------------------------------------------- */

/* The epoch's tasks are cut anew at each start of the coordinator and in a job that goes on from a
 * checkpoint, and their numbers must mean the same rows. So where some are given out they keep the
 * length of the first, as another release may have chosen it. 0: none is given out. */
static int batches_given_out(const struct coord_job *j, uint32_t *batches, struct err *e)
{
    struct coord_task_record first;
    int rc = coord_store_get_fixed(j->store, "task/0", &first, sizeof first, e);
    *batches = 0;
    if (rc == 0 && first.run == j->at.run && first.epoch == j->at.epoch)
        *batches = first.batch_count;
    return rc == SHOAL_E_NOT_FOUND ? 0 : rc;
}

/* The batches of a task. For shuffled event files the lanes stay near each other, within the groups
 * of blocks that a worker holds (worker/data/groups.h). Under bsp the tasks decide which rows meet
 * in a clock, and of objects a piece may be shorter than a task: there each release cuts alike. */
static int batches_of_task(const struct coord_job *j, const struct coord_plan *p, uint32_t *batches,
                           struct err *e)
{
    const struct job *job = &j->spec;
    uint64_t rows = p->whole.rows;
    uint32_t said = job->train.task_batches, lanes = j->tasks->lanes, batch = job_batch_rows(job),
             shortest = 1;
    int rc = 0;
    if (said == 0 && !j->tasks->dealt && p->segments == 1 && p->segment->pieces == 0) {
        shortest = COORD_TASK_LEAST;
        if (job->evaluate.every_batches > 0) /* evaluations lie between tasks */
            shortest = (uint32_t)MIN(job->evaluate.every_batches, COORD_TASK_LEAST);
        rc = batches_given_out(j, &said, e);
    }
    *batches = coord_task_batches(rows, batch, lanes, said, shortest);
    uint64_t near = LIMIT_NEAR_ROWS / ((uint64_t)lanes * batch) + 1;
    bool grouped = said == 0 && job->data.format == DATA_EVENTS && job->data.shuffle &&
                   job->data.shuffle_within == 0;
    if (grouped && *batches > near)
        *batches = coord_task_batches(rows, batch, lanes, (uint32_t)near, shortest);
    return rc;
}

int coord_epoch_cut(struct coord_job *j, struct err *e)
{
    struct coord_plan p = {.segments = 1, .whole.rows = j->at.split[WIRE_TRAIN].rows};
    p.segment = &p.whole;
    j->tasks->holder = j->objects[WIRE_TRAIN].holder;
    j->tasks->objects = j->objects[WIRE_TRAIN].count;
    int rc = j->source->plan(j, &p, e);
    if (rc != 0)
        return rc;
    if (p.task_batches == 0)
        rc = batches_of_task(j, &p, &p.task_batches, e);
    if (rc != 0)
        return rc;
    return coord_task_plan(j->tasks, j->at.epoch, p.segment, p.segments, job_batch_rows(&j->spec),
                           p.task_batches, coord_now_ns(j), e);
}

/* Sets where training stops next. */
static bool epoch_stop(struct coord_job *j)
{
    struct err e = {0};
    coord_judge_stop(j);
    bool scored = j->at.split[WIRE_VALID].used == 0 || coord_judge_made(j);
    int rc = coord_replay_stop(j, scored, &e);
    return rc == 0 || coord_end_fail(j, rc, "%s", e.text);
}

bool coord_epoch_plan(struct coord_job *j)
{
    struct err e = {0};
    uint32_t missing = 0;
    int rc = coord_epoch_cut(j, &e);
    for (uint32_t i = 0; rc == 0 && i < j->tasks->tasks; i++) {
        char key[COORD_KEY_MAX];
        struct coord_task_record record;
        (void)snprintf(key, sizeof key, "task/%u", i);
        rc = coord_store_get_fixed(j->store, key, &record, sizeof record, &e);
        if (rc == 0) {
            rc = coord_task_from_record(j->tasks, i, j->at.run, &record, &e);
            missing = 0;
        } else if (rc == SHOAL_E_NOT_FOUND) {
            rc = 0;
            /* Every epoch uses the keys again, lowest first, so a gap ends the search. But a round
             * of bsp is dealt in any order, and tasks of objects go by the worker that holds the
             * object. */
            if (++missing == j->tasks->lanes && j->tasks->holder == NULL)
                break;
        }
    }
    if (rc == SHOAL_E_CORRUPT)
        return coord_end_fail(j, rc,
                              "epoch %u: %s. Submit the job again, from a checkpoint that was made "
                              "before (--resume) or from its beginning",
                              j->at.epoch, e.text);
    if (rc != 0)
        return coord_end_fail(j, rc, "epoch %u: %s", j->at.epoch, e.text);
    coord_task_resume(j->tasks);
    SHOAL_ASSERT(j->tasks->epoch == j->at.epoch);
    SHOAL_ASSERT(j->tasks->pushed <= j->tasks->tasks && j->tasks->reported <= j->tasks->tasks);
    return epoch_stop(j);
}

/* True when the bad lines exceed the job's limit; the job then fails. */
static bool bad_lines_fail(struct coord_job *j, uint64_t bad, uint64_t lines, const char *split)
{
    double limit = j->spec.data.max_bad;
    if (lines == 0 || (double)bad <= limit * (double)lines)
        return false;
    struct err e;
    char what[32];
    (void)snprintf(what, sizeof what, "data.%s: ", split);
    int rc =
        bad_lines_refuse(&e, what, bad, lines, limit, text_if(j->bad_told > 0, j->bad_where[0]));
    coord_end_fail(j, rc, "%s", e.text);
    return true;
}

enum { BAD_LINES_OF = 1000 };

bool coord_epoch_bad_train(struct coord_job *j, const struct coord_losses *so_far, uint64_t left)
{
    const struct coord_losses *before = &j->grow->at.before;
    uint64_t bad = before->bad_lines + so_far->bad_lines, lines = before->drawn + so_far->drawn;
    bool few = (left > 0 || coord_grow_on(j)) && lines < BAD_LINES_OF;
    return !few && (double)bad > j->spec.data.max_bad * (double)(lines + left) &&
           bad_lines_fail(j, bad, lines, "train");
}

/* The epoch's training is over, even if tasks are left: sums it up. */
static bool epoch_close(struct coord_job *j)
{
    const struct coord_tasks *t = j->tasks;
    struct coord_epoch *epoch = epoch_at_hand(j);
    SHOAL_ASSERT(t->epoch == j->at.epoch && coord_epoch_open(j));
    *epoch = (struct coord_epoch){.number = j->at.number,
                                  .seconds = (double)coord_phase_trained_ns(j) * 1e-9};
    for (uint32_t i = 0; i < t->tasks; i++) {
        coord_losses_add(&epoch->train, &t->task[i].sum);
        if (t->task[i].pushed)
            j->at.train_rows += t->task[i].rows;
    }
    if (coord_epoch_bad_train(j, &epoch->train, 0))
        return false;
    coord_trace_epoch(j);
    j->at.train_ns += coord_phase_trained_ns(j);
    j->epoch_ns = coord_now_ns(j);
    j->epoch_spent_ns = 0;
    log_info("epoch %u: %s %.6f, %.1f s", j->at.epoch, job_loss_name(&j->spec),
             coord_losses_mean(&epoch->train), epoch->seconds);
    return coord_progressive_epoch(j) && coord_grant_lanes_put(j) && coord_replay_note(j) &&
           coord_taken_learnt(j) && epoch_put(j);
}

/* Training pauses for an evaluation, whose time does not count as training. */
static void epoch_pause(struct coord_job *j)
{
    SHOAL_ASSERT(j->at.phase == PHASE_TRAIN && coord_epoch_open(j));
    j->epoch_spent_ns = j->at.counted_ns = coord_phase_trained_ns(j);
    j->epoch_ns = coord_now_ns(j);
    coord_trace_flush(j);
}

static bool epoch_goes_on(struct coord_job *j)
{
    if (!epoch_stop(j))
        return false;
    j->epoch_ns = j->tasks->planned_ns = coord_now_ns(j);
    return coord_course_enter(j, PHASE_TRAIN);
}

/* All lanes have done the tasks up to their stop: an evaluation follows. With the epoch's last task
 * it covers the whole epoch. */
static bool step_train(struct coord_job *j)
{
    struct coord_tasks *t = j->tasks;
    coord_judge_time(j);
    coord_replay_gate(j);
    if (t->pushed < t->stop)
        coord_ring_go(j, RING_FOR_PAUSE); /* a step may be lost with its worker, and comes again */
    if (!coord_task_drained(t))
        return false;
    if (!coord_ring_rest(j, RING_FOR_PAUSE))
        return false;
    /* a report that is missing is that of a worker that has died or lost its lane: no other is
     * taken (handle.c) */
    SHOAL_ASSERT(t->pushed == t->stop && t->reported <= t->tasks);
    if (!coord_replay_end(j) || (t->stop < t->tasks && end_waits(j)))
        return false;
    coord_ring_go(j, RING_FOR_PAUSE);
    if (t->stop < t->tasks)
        epoch_pause(j);
    else if (!epoch_close(j))
        return false;
    if (j->at.split[WIRE_VALID].used != 0 && !coord_judge_made(j))
        return coord_epoch_resume(j, PHASE_EVAL);
    return evaluated(j);
}

static bool epoch_next(struct coord_job *j)
{
    SHOAL_ASSERT(j->at.epoch < coord_epochs(j));
    j->at.epoch++;
    if (!coord_epoch_plan(j))
        return false;
    j->epoch_ns = coord_now_ns(j);
    j->epoch_spent_ns = j->at.counted_ns = 0;
    return coord_course_enter(j, PHASE_TRAIN);
}

/* ---- after training -------------------------------------------------------------------------- */

static void restored(struct coord_job *j, int status, const char *text, uint64_t cut)
{
    char name[COORD_JUDGE_NAME];
    SHOAL_ASSERT(j->at.phase == PHASE_RESTORE && cut == j->at.best_cut);
    if (status != 0) {
        coord_end_fail(j, status, "the tables of %s, the best, cannot be restored: %s",
                       coord_judge_name(j, j->at.kept, name), text);
        return;
    }
    j->opened = j->at.run;
    (void)coord_epoch_resume(j, j->at.split[WIRE_TEST].used != 0 ? PHASE_TEST : PHASE_DIGEST);
}

/* Restores the kept cut. The new run's number is stored before a shard opens it. */
static bool restore_begin(struct coord_job *j)
{
    uint64_t run = j->fleet->counters.next_run++;
    if (!coord_put(j->fleet, "counters", &j->fleet->counters, sizeof j->fleet->counters))
        return false;
    j->at.run = run;
    if (!coord_course_enter(j, PHASE_RESTORE))
        return false;
    coord_cut_order(j, &(struct coord_cut_order){
                           .restore = true, .cut = j->at.best_cut, .run = run, .done = restored});
    return false;
}

static bool eval_begin(struct coord_job *j, enum coord_phase phase)
{
    uint32_t split = phase == PHASE_EVAL ? WIRE_VALID : WIRE_TEST;
    struct err e = {0};
    SHOAL_ASSERT(phase == PHASE_EVAL || phase == PHASE_TEST);
    if (j->tasks->epoch != j->at.epoch && phase == PHASE_EVAL && coord_epoch_open(j)) {
        /* After a restart within an epoch all appended tasks are pushed, or there would have been
         * no evaluation. */
        if (!coord_epoch_plan(j))
            return false;
        coord_task_settle(j->tasks);
    }
    coord_eval_close(j->eval);
    struct coord_eval_objects objects = {.holder = j->objects[split].holder,
                                         .count = j->objects[split].count,
                                         .files = j->spec.data.objects.of[split].open == NULL};
    if (objects.count > 0)
        objects.piece = coord_objects_pieces(j, split, 0, &objects.pieces);
    int rc = coord_eval_open(j->eval, j->eval_number++, split, j->at.split[split].rows, &objects,
                             &j->spec, &e);
    if (rc != 0)
        return coord_end_fail(j, rc, "%s: %s", phase == PHASE_EVAL ? "data.valid" : "data.test",
                              e.text);
    return coord_course_enter(j, phase);
}

bool coord_epoch_resume(struct coord_job *j, enum coord_phase phase)
{
    switch (phase) {
    case PHASE_EVAL:
    case PHASE_TEST:
        return eval_begin(j, phase);
    case PHASE_RESTORE:
        return restore_begin(j);
    case PHASE_GROW:
        coord_grow_wait(j);
        return coord_course_enter(j, PHASE_GROW);
    default:
        SHOAL_ASSERT(phase == PHASE_DIGEST);
        if (!coord_course_enter(j, PHASE_DIGEST))
            return false;
        coord_setup_digest(j);
        coord_guard_ask(j, true);
        return true;
    }
}

static bool training_ended(struct coord_job *j)
{
    bool early = j->spec.train.early_stop.patience > 0;
    if (coord_epoch_open(j) && !epoch_close(j))
        return false;
    if (early && j->at.kept != j->valid->count && j->at.best_cut != 0)
        return coord_epoch_resume(j, PHASE_RESTORE);
    return coord_epoch_resume(j, j->at.split[WIRE_TEST].used != 0 ? PHASE_TEST : PHASE_DIGEST);
}

/* The evaluations are done, and their tables are kept if they are the best: goes on. */
static bool evaluated(struct coord_job *j)
{
    if (coord_grow_on(j) && !coord_epoch_open(j))
        return coord_epoch_resume(j, PHASE_GROW);
    if (coord_judge_over(j) && !end_waits(j))
        return training_ended(j);
    if (coord_epoch_open(j))
        return epoch_goes_on(j);
    return epoch_next(j);
}

/* Clears the figures of the round that had the same slot. */
static bool slot_clear(struct coord_job *j, uint32_t round)
{
    static const struct coord_epoch no_epoch;
    static const struct coord_trained untrained;
    uint32_t slot = coord_epoch_slot(j, round);
    j->epoch[slot] = no_epoch;
    j->windows->trained[slot] = untrained;
    return coord_job_note(j, coord_row_key("epoch", slot + 1).text, &no_epoch, sizeof no_epoch) &&
           coord_job_note(j, coord_row_key("trained", slot + 1).text, &untrained, sizeof untrained);
}

/* All new objects are indexed: begins the next round, unless they have no rows. */
static bool round_next(struct coord_job *j)
{
    const struct coord_split whole = j->objects[WIRE_TRAIN].whole;
    struct err e = {0};
    bool told = true;
    int rc = 0;
    if (whole.rows > 0)
        rc = coord_taken_round(j, j->at.epoch + 1, &told, &e);
    if (rc == 0 && told)
        rc = coord_grow_round(j, &whole, j->at.epoch + 1, &e);
    if (rc == SHOAL_E_CORRUPT) { /* what is learnt stays, and the job goes on */
        log_warn("round %u does not begin: %s; the log is listed again", j->at.epoch + 1, e.text);
        coord_grow_again(j);
        return false;
    }
    if (rc != 0)
        return coord_end_fail(j, rc, "%s", e.text);
    if (!told)
        return false;
    log_info("round %u: %" PRIu64 " rows in %u objects, %u left out", j->at.epoch + 1, whole.rows,
             j->objects[WIRE_TRAIN].count - j->objects[WIRE_TRAIN].left_out,
             j->objects[WIRE_TRAIN].left_out);
    if (whole.rows == 0) {
        coord_grow_wait(j);
        return false;
    }
    j->at.split[WIRE_TRAIN] = whole;
    return slot_clear(j, j->at.epoch + 1) && epoch_next(j);
}

/* True while the checkpoint of a growing job's end is to be made first: now the job can still be
 * resumed from it. */
static bool end_waits(struct coord_job *j)
{
    if (!coord_grow_on(j) || !coord_judge_over(j))
        return false;
    j->grow->ending = coord_checkpoint_end_due(j);
    return j->grow->ending;
}

static bool step_grow(struct coord_job *j)
{
    const struct coord_objects *o = &j->objects[WIRE_TRAIN];
    struct err e = {0};
    (void)coord_grow_ended(j);
    if (coord_judge_over(j))
        return coord_taken_undo(j) && !end_waits(j) && training_ended(j);
    int rc = coord_grow_take(j, &e);
    if (rc != 0)
        return coord_end_fail(j, rc, "%s", e.text);
    return o->count > 0 && o->known == o->count && round_next(j);
}

static void cut_made(struct coord_job *j, int status, const char *text, uint64_t cut)
{
    uint64_t former = j->at.best_cut;
    char name[COORD_JUDGE_NAME];
    struct err e = {0};
    SHOAL_ASSERT(j->at.phase == PHASE_CUT && j->at.kept == j->valid->count);
    if (status == SHOAL_E_NO_SPACE) {
        (void)snprintf(j->cut_why, sizeof j->cut_why, "%s", text);
        j->cut_over = j->cut_missed = true;
        return;
    }
    if (status != 0) {
        coord_end_fail(j, status, "the tables of %s cannot be kept: %s",
                       coord_judge_name(j, j->at.kept, name), text);
        return;
    }
    SHOAL_ASSERT(cut < j->fleet->counters.next_cut);
    if (coord_home_keep(j, cut, &e) != 0) {
        coord_end_fail(j, e.code, "%s", e.text);
        return;
    }
    j->at.best_cut = cut;
    j->at.cut_of = j->at.kept;
    j->at.cuts++;
    if (!coord_phase_put(j))
        return;
    if (former != 0)
        coord_cut_drop(j, former);
    j->cut_over = true;
}

static bool eval_valid_ended(struct coord_job *j, const struct measure *m)
{
    char name[COORD_JUDGE_NAME], text[COORD_FIGURES_TEXT];
    struct metric mean;
    SHOAL_ASSERT(j->at.phase == PHASE_EVAL && j->eval->split == WIRE_VALID);
    SHOAL_ASSERT(m->options.tasks >= 1 && m->options.tasks <= LIMIT_TASKS);
    if (!coord_judge_note(j, m, j->eval->bad_lines))
        return false;
    if (coord_judge_mean(j, j->valid->count, &mean))
        log_info("%s: valid %s", coord_judge_name(j, j->valid->count, name),
                 coord_figures_text(&mean, text));
    bool keep = coord_judge_keeps(j), early = j->spec.train.early_stop.patience > 0;
    /* The report has the details of the evaluation whose tables the job ends with: the best one, or
     * without early stopping the last one. */
    if ((keep || j->at.kept == 0 || !early) && !details_put(j, WIRE_VALID, m))
        return false;
    coord_eval_close(j->eval);
    if (!keep || !early || coord_judge_over(j))
        return evaluated(j);
    if (!coord_course_enter(j, PHASE_CUT))
        return false;
    j->cut_over = j->cut_missed = false;
    coord_cut_order(j, &(struct coord_cut_order){.patient = true, .done = cut_made});
    return false;
}

static bool step_eval(struct coord_job *j)
{
    const struct measure *m;
    struct metric mean;
    struct err e = {0};
    bool valid = j->at.phase == PHASE_EVAL;
    if (!coord_eval_complete(j->eval))
        return false;
    SHOAL_ASSERT(j->eval->split == (valid ? WIRE_VALID : WIRE_TEST));
    SHOAL_ASSERT(j->eval->bad_lines <= j->eval->rows);
    if (bad_lines_fail(j, j->eval->bad_lines, j->eval->rows, valid ? "valid" : "test"))
        return false;
    int rc = coord_eval_finish(j->eval, &m, &e);
    if (rc != 0)
        return coord_end_fail(j, rc, "%s", e.text);
    coord_trace_eval(j, j->eval->split, m->metric);
    if (valid)
        return eval_valid_ended(j, m);
    memcpy(j->at.test, m->metric, sizeof m->metric);
    j->at.test_bad_lines = j->eval->bad_lines;
    metric_mean(m->metric, j->spec.model.task_weight, m->options.tasks, &mean);
    char text[COORD_FIGURES_TEXT];
    log_info("test: %s over %" PRIu64 " examples", coord_figures_text(&mean, text), mean.examples);
    bool good = details_put(j, WIRE_TEST, m);
    coord_eval_close(j->eval);
    return good && coord_epoch_resume(j, PHASE_DIGEST);
}

/* PHASE_CUT is over. Until then the judge's figures say which tables are kept (saved.c). */
static bool step_cut(struct coord_job *j)
{
    if (j->cut_missed)
        coord_judge_missed(j, j->cut_why);
    return evaluated(j);
}

bool coord_epoch_step(struct coord_job *j)
{
    uint32_t phase = j->at.phase;
    SHOAL_ASSERT(phase == PHASE_TRAIN || phase == PHASE_EVAL || phase == PHASE_TEST ||
                 phase == PHASE_GROW || phase == PHASE_CUT);
    if (phase == PHASE_TRAIN)
        return step_train(j);
    if (coord_call_open_type(&j->fleet->calls, j, WIRE_TYPE_FENCE))
        return false; /* the marks are checked: power loss may have taken some */
    if (phase == PHASE_CUT)
        return j->cut_over && step_cut(j);
    if (phase == PHASE_GROW)
        return step_grow(j);
    return step_eval(j);
}
