/* epoch.c: barrier, pauses, evaluation. */
#include "server/coord/epoch.h"
#include "proto/base/assert.h"
#include "proto/base/log.h"
#include "proto/base/plant.h"
#include "proto/job/bad_lines.h"
#include "proto/metric/measure.h"
#include "server/coord/grant.h"
#include "server/coord/phase.h"
#include "server/coord/setup.h"
#include "server/coord/trace.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* after the last push: reports of tasks that were lost are not waited for longer */
#define REPORT_WAIT_NS UINT64_C(3000000000)

static bool evaluated(struct coord *c);
static bool end_waits(struct coord *c);

static struct coord_epoch *epoch_at_hand(struct coord *c)
{
    return &c->job.epoch[coord_epoch_slot(&c->job, c->job.at.epoch)];
}

static bool epoch_put(struct coord *c)
{
    char key[COORD_KEY_MAX];
    (void)snprintf(key, sizeof key, "epoch/%u", coord_epoch_slot(&c->job, c->job.at.epoch) + 1);
    return coord_put(c, key, epoch_at_hand(c), sizeof(struct coord_epoch));
}

/* ---- details of an evaluation ---------------------------------------------------------------- */

static const char *const details_key[] = {"", "details/valid", "details/test"};

/* Kept as text: the job's number, then curves and tables as measure_json_details makes them. */
static bool details_put(struct coord *c, uint32_t split, const struct measure *m)
{
    SHOAL_ASSERT(split == WIRE_VALID || split == WIRE_TEST);
    struct json *stored = json_new_object();
    json_free(c->job.details[split]);
    c->job.details[split] = measure_json_details(m, &c->job.spec);
    json_set_int(stored, "job", (int64_t)c->job.at.number);
    json_set(stored, "details", json_hold(c->job.details[split]));
    char *text = json_text(stored, 0);
    json_free(stored);
    /* without them the report is shorter */
    bool good = text == NULL || coord_put(c, details_key[split], text, strlen(text));
    free(text);
    return good;
}

/* Curves and tables are no state: damaged ones make the report shorter and stop nobody. */
static int details_load(struct coord *c, uint32_t split, struct err *e)
{
    struct json *stored = NULL;
    struct err damage = {0};
    void *text;
    size_t bytes;
    int rc = coord_store_get(c->store, details_key[split], &text, &bytes, e);
    if (rc != 0)
        return rc == SHOAL_E_NOT_FOUND ? 0 : rc;
    rc = json_parse(text, bytes, &stored, &damage);
    free(text);
    if (rc != 0) {
        log_warn("stored %s is damaged (%s): the report goes without", details_key[split],
                 damage.text);
        return 0;
    }
    if (json_as_int(json_get(stored, "job"), -1) == (int64_t)c->job.at.number)
        c->job.details[split] = json_hold(json_get(stored, "details"));
    json_free(stored);
    return 0;
}

/* An epoch is stored as over before the progress that counts it: of a coordinator that died between
 * the two it is open still, with the time that it took, and is closed once more. Its tables are
 * those that its tasks left: no task is dealt again. */
static void epoch_reopen(struct coord_job *j)
{
    uint64_t before = coord_replay_rows_before(j);
    uint32_t phase = coord_from_loading(&j->at) ? j->at.from_phase : j->at.phase;
    struct coord_epoch *epoch = &j->epoch[coord_epoch_slot(j, j->at.epoch)];
    if (coord_epoch_open(j) || j->at.train_rows > before || phase >= PHASE_RESTORE)
        return;
    j->epoch_spent_ns = (uint64_t)(epoch->seconds * 1e9);
    *epoch = (struct coord_epoch){.number = 0};
}

int coord_epoch_load(struct coord *c, struct err *e)
{
    if (c->job.at.epoch < 1 || c->job.at.epoch > coord_epochs(&c->job))
        return err_set(e, SHOAL_E_CORRUPT, "the stored job is in epoch %u of %u", c->job.at.epoch,
                       coord_epochs(&c->job));
    for (uint32_t n = coord_epoch_first(&c->job); n <= c->job.at.epoch; n++) {
        uint32_t slot = coord_epoch_slot(&c->job, n);
        char key[COORD_KEY_MAX];
        struct coord_epoch stored;
        (void)snprintf(key, sizeof key, "epoch/%u", slot + 1);
        int rc = coord_store_get_fixed(c->store, key, &stored, sizeof stored, e);
        if (rc != 0 && rc != SHOAL_E_NOT_FOUND)
            return rc;
        if (rc == 0 && stored.number == c->job.at.number)
            c->job.epoch[slot] = stored;
    }
    epoch_reopen(&c->job);
    int rc = coord_judge_load(c, e);
    if (rc == 0)
        rc = coord_window_load(c, e);
    if (rc == 0)
        rc = coord_replay_load(c, e);
    if (rc == 0)
        rc = details_load(c, WIRE_VALID, e);
    return rc != 0 ? rc : details_load(c, WIRE_TEST, e);
}

/* ---- training -------------------------------------------------------------------------------- */

/* Lanes of a drawn epoch of event files stay near each other, within the groups of blocks that a
 * worker holds (worker/data/groups.h). */
static uint32_t batches_of_task(const struct coord_job *j, uint64_t rows)
{
    const struct job *job = &j->spec;
    uint32_t said = job->train.task_batches, lanes = j->tasks.lanes, batch = job->train.batch;
    uint32_t batches = coord_task_batches(rows, batch, lanes, said);
    uint64_t near = LIMIT_NEAR_ROWS / ((uint64_t)lanes * batch) + 1;
    bool grouped = said == 0 && job->data.format == DATA_EVENTS && job->data.shuffle &&
                   job->data.shuffle_within == 0;
    return grouped && batches > near ? coord_task_batches(rows, batch, lanes, (uint32_t)near)
                                     : batches;
}

int coord_epoch_cut(struct coord *c, struct err *e)
{
    struct coord_job *j = &c->job;
    struct coord_segment whole = {.rows = j->at.split[WIRE_TRAIN].rows};
    bool replay = j->spec.replay.on;
    if (j->spec.data.objects.of[WIRE_TRAIN].on && !replay)
        whole.piece = coord_objects_pieces(j, WIRE_TRAIN, j->at.epoch, &whole.pieces);
    j->tasks.holder = j->objects[WIRE_TRAIN].holder;
    j->tasks.objects = j->objects[WIRE_TRAIN].count;
    uint32_t batches = replay ? coord_replay_task_batches(j) : batches_of_task(j, whole.rows);
    int rc = coord_replay_fits(j, e);
    return rc != 0 ? rc
                   : coord_task_plan(&j->tasks, j->at.epoch, replay ? j->replay.segment : &whole,
                                     replay ? j->replay.segments : 1, j->spec.train.batch, batches,
                                     env_now_ns(c->env), e);
}

/* Where training stops next. */
static bool epoch_stop(struct coord *c)
{
    struct err e = {0};
    coord_judge_stop(c);
    bool scored = c->job.at.split[WIRE_VALID].used == 0 || coord_judge_made(c);
    int rc = coord_replay_stop(c, scored, &e);
    return rc == 0 || coord_end_fail(c, rc, "%s", e.text);
}

bool coord_epoch_plan(struct coord *c)
{
    struct coord_job *j = &c->job;
    struct err e = {0};
    uint32_t missing = 0;
    int rc = coord_epoch_cut(c, &e);
    for (uint32_t i = 0; rc == 0 && i < j->tasks.tasks; i++) {
        char key[COORD_KEY_MAX];
        struct coord_task_record record;
        (void)snprintf(key, sizeof key, "task/%u", i);
        rc = coord_store_get_fixed(c->store, key, &record, sizeof record, &e);
        if (rc == 0) {
            (void)coord_task_from_record(&j->tasks, i, j->at.run, &record);
            missing = 0;
        } else if (rc == SHOAL_E_NOT_FOUND) {
            rc = 0;
            /* Keys are used again by every epoch, lowest first; but a round of bsp is dealt in any
             * order, and tasks of objects are, by who holds them. */
            if (++missing == j->tasks.lanes && j->tasks.holder == NULL)
                break;
        }
    }
    if (rc != 0)
        return coord_end_fail(c, rc, "epoch %u: %s", j->at.epoch, e.text);
    coord_task_resume(&j->tasks);
    SHOAL_ASSERT(j->tasks.epoch == j->at.epoch);
    SHOAL_ASSERT(j->tasks.pushed <= j->tasks.tasks && j->tasks.reported <= j->tasks.tasks);
    return epoch_stop(c);
}

/* Whether bad of lines is over the job's limit; the job then fails. */
static bool bad_lines_fail(struct coord *c, uint64_t bad, uint64_t lines, const char *split)
{
    double limit = c->job.spec.data.max_bad;
    if (lines == 0 || (double)bad <= limit * (double)lines)
        return false;
    struct err e;
    char what[32];
    (void)snprintf(what, sizeof what, "data.%s: ", split);
    int rc = bad_lines_refuse(&e, what, bad, lines, limit,
                              c->job.bad_told > 0 ? c->job.bad_where[0] : "");
    coord_end_fail(c, rc, "%s", e.text);
    return true;
}

enum { BAD_LINES_OF = 1000 };

bool coord_epoch_bad_train(struct coord *c, const struct coord_losses *so_far, uint64_t left)
{
    const struct coord_losses *before = &c->job.grow.at.before;
    uint64_t bad = before->bad_lines + so_far->bad_lines, lines = before->drawn + so_far->drawn;
    bool few = (left > 0 || coord_grow_on(&c->job)) && lines < BAD_LINES_OF;
    return !few && (double)bad > c->job.spec.data.max_bad * (double)(lines + left) &&
           bad_lines_fail(c, bad, lines, "train");
}

/* Its training is over, be it that tasks are left: sums. */
static bool epoch_close(struct coord *c)
{
    struct coord_job *j = &c->job;
    const struct coord_tasks *t = &j->tasks;
    struct coord_epoch *epoch = epoch_at_hand(c);
    SHOAL_ASSERT(t->epoch == j->at.epoch && coord_epoch_open(j));
    *epoch = (struct coord_epoch){.number = j->at.number,
                                  .seconds = (double)coord_phase_trained_ns(c) * 1e-9};
    for (uint32_t i = 0; i < t->tasks; i++) {
        coord_losses_add(&epoch->train, &t->task[i].sum);
        j->at.train_rows += t->task[i].pushed ? t->task[i].rows : 0;
    }
    if (coord_epoch_bad_train(c, &epoch->train, 0))
        return false;
    coord_trace_epoch(c);
    j->at.train_ns += coord_phase_trained_ns(c);
    j->epoch_ns = env_now_ns(c->env);
    j->epoch_spent_ns = 0;
    log_info("epoch %u: logloss %.6f, %.1f s", j->at.epoch, coord_losses_mean(&epoch->train),
             epoch->seconds);
    return coord_window_epoch(c) && coord_grant_lanes_put(c) && coord_replay_note(c) &&
           coord_taken_learnt(c) && epoch_put(c);
}

/* It goes on after an evaluation, whose time is not training's. */
static void epoch_pause(struct coord *c)
{
    struct coord_job *j = &c->job;
    SHOAL_ASSERT(j->at.phase == PHASE_TRAIN && coord_epoch_open(j));
    j->epoch_spent_ns = j->at.counted_ns = coord_phase_trained_ns(c);
    j->epoch_ns = env_now_ns(c->env);
    coord_trace_flush(c);
}

static bool epoch_goes_on(struct coord *c)
{
    if (!epoch_stop(c))
        return false;
    c->job.epoch_ns = c->job.tasks.planned_ns = env_now_ns(c->env);
    return coord_phase_enter(c, PHASE_TRAIN);
}

/* All lanes have done the tasks up to where they stop: evaluation, which with the epoch's last one
 * is of the whole epoch. */
static bool step_train(struct coord *c)
{
    struct coord_job *j = &c->job;
    struct coord_tasks *t = &j->tasks;
    coord_judge_time(c);
    coord_replay_gate(c);
    if (!coord_task_drained(t) ||
        (t->reported < t->stop && env_now_ns(c->env) - t->last_pushed_ns < REPORT_WAIT_NS))
        return false;
    SHOAL_ASSERT(t->pushed == t->stop && t->reported <= t->tasks);
    if (!coord_replay_end(c) || (t->stop < t->tasks && end_waits(c)))
        return false;
    if (t->stop < t->tasks)
        epoch_pause(c);
    else if (!epoch_close(c))
        return false;
    return j->at.split[WIRE_VALID].used != 0 && !coord_judge_made(c)
               ? coord_epoch_resume(c, PHASE_EVAL)
               : evaluated(c);
}

static bool epoch_next(struct coord *c)
{
    SHOAL_ASSERT(c->job.at.epoch < coord_epochs(&c->job));
    c->job.at.epoch++;
    if (!coord_epoch_plan(c))
        return false;
    c->job.epoch_ns = env_now_ns(c->env);
    c->job.epoch_spent_ns = c->job.at.counted_ns = 0;
    return coord_phase_enter(c, PHASE_TRAIN);
}

/* ---- after training -------------------------------------------------------------------------- */

static void restored(struct coord *c, int status, const char *text, uint64_t cut)
{
    char name[COORD_JUDGE_NAME];
    SHOAL_ASSERT(c->job.at.phase == PHASE_RESTORE && cut == c->job.at.best_cut);
    if (status != 0) {
        coord_end_fail(c, status, "the tables of %s, the best, cannot be restored: %s",
                       coord_judge_name(&c->job, c->job.at.kept, name), text);
        return;
    }
    c->job.opened = c->job.at.run;
    (void)coord_epoch_resume(c, c->job.at.split[WIRE_TEST].used != 0 ? PHASE_TEST : PHASE_DIGEST);
}

/* The new run's number is stored before a shard opens it. */
static bool restore_begin(struct coord *c)
{
    uint64_t run = c->counters.next_run++;
    if (!coord_put(c, "counters", &c->counters, sizeof c->counters))
        return false;
    c->job.at.run = run;
    if (!coord_phase_enter(c, PHASE_RESTORE))
        return false;
    coord_cut_order(c,
                    &(struct coord_cut_order){
                        .restore = true, .cut = c->job.at.best_cut, .run = run, .done = restored});
    return false;
}

static bool eval_begin(struct coord *c, enum coord_phase phase)
{
    struct coord_job *j = &c->job;
    uint32_t split = phase == PHASE_EVAL ? WIRE_VALID : WIRE_TEST;
    struct err e = {0};
    SHOAL_ASSERT(phase == PHASE_EVAL || phase == PHASE_TEST);
    if (j->tasks.epoch != j->at.epoch && phase == PHASE_EVAL && coord_epoch_open(j)) {
        /* After a restart, within an epoch: all that was appended is pushed, or there would have
         * been no evaluation. */
        if (!coord_epoch_plan(c))
            return false;
        coord_task_settle(&j->tasks, env_now_ns(c->env));
    }
    coord_eval_close(&j->eval);
    struct coord_eval_objects objects = {.holder = j->objects[split].holder,
                                         .count = j->objects[split].count,
                                         .files = j->spec.data.objects.of[split].open == NULL};
    if (objects.count > 0)
        objects.piece = coord_objects_pieces(j, split, 0, &objects.pieces);
    int rc = coord_eval_open(&j->eval, j->eval_number++, split, j->at.split[split].rows, &objects,
                             &j->spec, &e);
    if (rc != 0)
        return coord_end_fail(c, rc, "%s: %s", phase == PHASE_EVAL ? "data.valid" : "data.test",
                              e.text);
    return coord_phase_enter(c, phase);
}

bool coord_epoch_resume(struct coord *c, enum coord_phase phase)
{
    switch (phase) {
    case PHASE_EVAL:
    case PHASE_TEST:
        return eval_begin(c, phase);
    case PHASE_RESTORE:
        return restore_begin(c);
    case PHASE_GROW:
        coord_grow_wait(&c->job);
        return coord_phase_enter(c, PHASE_GROW);
    default:
        SHOAL_ASSERT(phase == PHASE_DIGEST);
        if (!coord_phase_enter(c, PHASE_DIGEST))
            return false;
        coord_setup_digest(c);
        coord_guard_ask(c, true);
        return true;
    }
}

static bool training_ended(struct coord *c)
{
    struct coord_job *j = &c->job;
    bool early = j->spec.train.early_stop.patience > 0;
    if (coord_epoch_open(j) && !epoch_close(c))
        return false;
    if (early && j->at.kept != j->valid.count && j->at.best_cut != 0)
        return coord_epoch_resume(c, PHASE_RESTORE);
    return coord_epoch_resume(c, j->at.split[WIRE_TEST].used != 0 ? PHASE_TEST : PHASE_DIGEST);
}

/* What there is to evaluate is, and kept where it is the best. */
static bool evaluated(struct coord *c)
{
    if (coord_grow_on(&c->job) && !coord_epoch_open(&c->job))
        return coord_epoch_resume(c, PHASE_GROW);
    if (coord_judge_over(c) && !end_waits(c))
        return training_ended(c);
    return coord_epoch_open(&c->job) ? epoch_goes_on(c) : epoch_next(c);
}

/* Figures of the round that had its place go first. */
static bool slot_clear(struct coord *c, uint32_t round)
{
    static const struct coord_epoch no_epoch;
    static const struct coord_trained untrained;
    struct coord_job *j = &c->job;
    uint32_t slot = coord_epoch_slot(j, round);
    char key[COORD_KEY_MAX], trained[COORD_KEY_MAX];
    j->epoch[slot] = no_epoch;
    j->windows.trained[slot] = untrained;
    (void)snprintf(key, sizeof key, "epoch/%u", slot + 1);
    (void)snprintf(trained, sizeof trained, "trained/%u", slot + 1);
    return coord_note(c, key, &no_epoch, sizeof no_epoch) &&
           coord_note(c, trained, &untrained, sizeof untrained);
}

/* All objects that came are indexed: the next round; where they have no rows, there is none. */
static bool round_next(struct coord *c)
{
    struct coord_job *j = &c->job;
    const struct coord_split whole = j->objects[WIRE_TRAIN].whole;
    struct err e = {0};
    bool told = true;
    int rc = whole.rows > 0 ? coord_taken_round(c, j->at.epoch + 1, &told, &e) : 0;
    if (rc == 0 && told)
        rc = coord_grow_round(c, &whole, j->at.epoch + 1, &e);
    if (rc != 0)
        return coord_end_fail(c, rc, "%s", e.text);
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
    return slot_clear(c, j->at.epoch + 1) && epoch_next(c);
}

/* The checkpoint of the end of a job without one is made first, while it can be gone on with. */
static bool end_waits(struct coord *c)
{
    if (!coord_grow_on(&c->job) || !coord_judge_over(c))
        return false;
    c->job.grow.ending = coord_checkpoint_end_due(c);
    return c->job.grow.ending;
}

static bool step_grow(struct coord *c)
{
    const struct coord_objects *o = &c->job.objects[WIRE_TRAIN];
    struct err e = {0};
    if (coord_judge_over(c))
        return coord_taken_undo(c) && !end_waits(c) && training_ended(c);
    int rc = coord_grow_take(c, &e);
    if (rc != 0)
        return coord_end_fail(c, rc, "%s", e.text);
    return o->count > 0 && o->known == o->count && round_next(c);
}

static void cut_made(struct coord *c, int status, const char *text, uint64_t cut)
{
    uint64_t former = c->job.at.best_cut;
    char name[COORD_JUDGE_NAME];
    SHOAL_ASSERT(c->job.at.phase == PHASE_CUT && c->job.at.kept == c->job.valid.count);
    if (status == SHOAL_E_NO_SPACE) {
        (void)snprintf(c->job.cut_why, sizeof c->job.cut_why, "%s", text);
        c->job.cut_over = c->job.cut_missed = true;
        return;
    }
    if (status != 0) {
        coord_end_fail(c, status, "the tables of %s cannot be kept: %s",
                       coord_judge_name(&c->job, c->job.at.kept, name), text);
        return;
    }
    SHOAL_ASSERT(cut < c->counters.next_cut);
    c->job.at.best_cut = cut;
    c->job.at.cut_of = c->job.at.kept;
    c->job.at.cuts++;
    if (!coord_phase_put(c))
        return;
    if (former != 0)
        coord_cut_drop(c, former);
    c->job.cut_over = true;
}

static bool eval_valid_ended(struct coord *c, const struct measure *m)
{
    struct coord_job *j = &c->job;
    char name[COORD_JUDGE_NAME];
    struct metric mean;
    SHOAL_ASSERT(j->at.phase == PHASE_EVAL && j->eval.split == WIRE_VALID);
    SHOAL_ASSERT(m->options.tasks >= 1 && m->options.tasks <= LIMIT_TASKS);
    if (!coord_judge_note(c, m, j->eval.bad_lines))
        return false;
    if (coord_judge_mean(j, j->valid.count, &mean))
        log_info("%s: valid auc %.6f, logloss %.6f", coord_judge_name(j, j->valid.count, name),
                 mean.auc, mean.logloss);
    bool keep = coord_judge_keeps(j), early = j->spec.train.early_stop.patience > 0;
    /* The report tells these of the evaluation whose tables the job ends with: the best one, or
     * without early stopping the last. */
    if ((keep || j->at.kept == 0 || !early) && !details_put(c, WIRE_VALID, m))
        return false;
    coord_eval_close(&j->eval);
    if (!keep || !early || coord_judge_over(c))
        return evaluated(c);
    if (!coord_phase_enter(c, PHASE_CUT))
        return false;
    j->cut_over = j->cut_missed = false;
    coord_cut_order(
        c, &(struct coord_cut_order){.patient = !PLANTED("impatient_cut"), .done = cut_made});
    return false;
}

static bool step_eval(struct coord *c)
{
    struct coord_job *j = &c->job;
    const struct measure *m;
    struct metric mean;
    struct err e = {0};
    bool valid = j->at.phase == PHASE_EVAL;
    if (!coord_eval_complete(&j->eval))
        return false;
    SHOAL_ASSERT(j->eval.split == (valid ? WIRE_VALID : WIRE_TEST));
    SHOAL_ASSERT(j->eval.bad_lines <= j->eval.rows);
    if (bad_lines_fail(c, j->eval.bad_lines, j->eval.rows, valid ? "valid" : "test"))
        return false;
    int rc = coord_eval_finish(&j->eval, &m, &e);
    if (rc != 0)
        return coord_end_fail(c, rc, "%s", e.text);
    coord_trace_eval(c, j->eval.split, m->metric);
    if (valid)
        return eval_valid_ended(c, m);
    memcpy(j->at.test, m->metric, sizeof m->metric);
    j->at.test_bad_lines = j->eval.bad_lines;
    metric_mean(m->metric, j->spec.model.task_weight, m->options.tasks, &mean);
    log_info("test: auc %.6f, logloss %.6f over %" PRIu64 " examples", mean.auc, mean.logloss,
             mean.examples);
    bool good = details_put(c, WIRE_TEST, m);
    coord_eval_close(&j->eval);
    return good && coord_epoch_resume(c, PHASE_DIGEST);
}

/* What is kept is told by what was judged until the phase ends (saved.c). */
static bool step_cut(struct coord *c)
{
    if (c->job.cut_missed)
        coord_judge_missed(&c->job, c->job.cut_why);
    return evaluated(c);
}

bool coord_epoch_step(struct coord *c)
{
    uint32_t phase = c->job.at.phase;
    SHOAL_ASSERT(phase == PHASE_TRAIN || phase == PHASE_EVAL || phase == PHASE_TEST ||
                 phase == PHASE_GROW || phase == PHASE_CUT);
    if (phase == PHASE_TRAIN)
        return step_train(c);
    if (coord_call_open_type(&c->calls, WIRE_TYPE_FENCE))
        return false; /* marks are looked at: power may have taken some */
    if (phase == PHASE_CUT)
        return c->job.cut_over && step_cut(c);
    return phase == PHASE_GROW ? step_grow(c) : step_eval(c);
}
