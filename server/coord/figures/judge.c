/* judge.c: decides when to evaluate, which evaluation is the best, and when training ends. */
#include "server/coord/figures/judge.h"

#include "proto/base/array.h"
#include "proto/base/assert.h"
#include "proto/base/log.h"
#include "proto/base/minmax.h"
#include "server/coord/core/phase.h"
#include "server/coord/figures/trace.h"
#include "server/coord/work/amount.h"
#include "server/coord/work/grow.h"
#include "server/coord/work/source.h"
#include "server/coord/work/task.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static struct coord_evaluation *newest(const struct coord_job *j)
{
    if (j->valid->count == 0)
        return NULL;
    return &j->valid->item[j->valid->count - 1];
}

/* ---- the list -------------------------------------------------------------------------------- */

/* Extends the list to n items; new ones have no figures. NULL: no memory. */
static struct coord_evaluation *list_reach(struct coord_evaluations *v, uint32_t n)
{
    SHOAL_ASSERT(n >= 1 && n <= COORD_EVALUATIONS_MAX);
    while (v->count < n) {
        if (array_room(&v->item, v->count, &v->capacity, 16) != 0)
            return NULL;
        v->item[v->count++] = (struct coord_evaluation){.number = 0};
    }
    return &v->item[n - 1];
}

int coord_judge_load(struct coord_job *j, struct err *e)
{
    int rc = 0;
    for (uint32_t n = 1; rc == 0 && n <= COORD_EVALUATIONS_MAX; n++) {
        struct coord_evaluation stored;
        rc = coord_store_get_fixed(j->store, coord_row_key("valid", n).text, &stored, sizeof stored,
                                   e);
        bool found = rc == 0 && stored.number == j->at.number;
        if (rc != 0 && rc != SHOAL_E_NOT_FOUND)
            return rc;
        rc = 0;
        if (!found && n > j->valid->count)
            break;
        struct coord_evaluation *v = list_reach(j->valid, n);
        if (v == NULL)
            return err_set(e, SHOAL_E_NOMEM, "no memory for the evaluations");
        if (found)
            *v = stored;
    }
    /* the coordinator died in older_forget before it stored the progress */
    if (j->at.best > j->valid->count && coord_grow_on(j))
        j->at.best = j->at.kept = 0;
    return rc;
}

bool coord_judge_mean(const struct coord_job *j, uint32_t n, struct metric *mean)
{
    SHOAL_ASSERT(n >= 1 && n <= j->valid->count);
    const struct metric *of = j->valid->item[n - 1].of;
    uint32_t labels = MAX(j->spec.data.label_count, 1);
    if (metric_most(of, labels) == 0)
        return false;
    metric_mean(of, j->spec.model.task_weight, labels, mean);
    return true;
}

double coord_judge_value(const struct coord_job *j, const struct metric *mean)
{
    switch (j->spec.train.early_stop.metric) {
    case METRIC_AUC:
        return mean->auc;
    case METRIC_GAUC:
        return mean->gauc;
    case METRIC_RMSE:
        return mean->rmse;
    case METRIC_MAE:
        return mean->mae;
    default:
        return mean->logloss;
    }
}

bool coord_judge_undefined(const struct coord_job *j, uint32_t n)
{
    struct metric mean;
    return coord_judge_mean(j, n, &mean) && isfinite(mean.logloss) &&
           !isfinite(coord_judge_value(j, &mean));
}

uint32_t coord_judge_final(const struct coord_job *j)
{
    bool kept = j->spec.train.early_stop.patience > 0 && j->at.kept != 0;
    if (!kept)
        return j->valid->count;
    return MIN(j->at.kept, j->valid->count);
}

const struct coord_evaluation *coord_judge_of_epoch(const struct coord_job *j, uint32_t epoch)
{
    for (uint32_t n = j->valid->count; n > 0; n--) {
        const struct coord_evaluation *v = &j->valid->item[n - 1];
        if (v->epoch == epoch && v->end != 0)
            return v;
        if (v->epoch < epoch && v->epoch != 0)
            break;
    }
    return NULL;
}

const char *coord_judge_name(const struct coord_job *j, uint32_t n, char out[COORD_JUDGE_NAME])
{
    const struct coord_evaluation *v = NULL;
    if (n >= 1 && n <= j->valid->count)
        v = &j->valid->item[n - 1];
    if (v == NULL)
        (void)snprintf(out, COORD_JUDGE_NAME, "evaluation %u", n);
    else if (v->end != 0)
        (void)snprintf(out, COORD_JUDGE_NAME, "epoch %u", v->epoch);
    else
        (void)snprintf(out, COORD_JUDGE_NAME, "batch %" PRIu64 " (epoch %u)", v->batches, v->epoch);
    return out;
}

/* ---- when ------------------------------------------------------------------------------------ */

/* True when the list has room for an evaluation within an epoch: each remaining epoch needs one at
 * its end. */
static bool has_room(const struct coord_job *j)
{
    return coord_grow_on(j) ||
           j->valid->count + (j->spec.train.epochs - j->at.epoch) + 1 < COORD_EVALUATIONS_MAX;
}

uint64_t coord_judge_batches(const struct coord_job *j)
{
    const struct coord_amount is = coord_epoch_amount(j);
    uint64_t batch = job_batch_rows(&j->spec), rows = j->at.train_rows;
    if (coord_epoch_open(j))
        return is.batches_before + coord_task_before(j->tasks, coord_task_frontier(j->tasks));
    uint64_t done = SAT_SUB(rows, is.rows_before);
    if (done >= is.rows)
        return is.batches_before + is.batches;
    return is.batches_before + (done + batch - 1) / batch;
}

bool coord_judge_made(const struct coord_job *j)
{
    const struct coord_evaluation *last = newest(j);
    return last != NULL && last->batches == coord_judge_batches(j);
}

void coord_judge_stop(struct coord_job *j)
{
    struct coord_tasks *t = j->tasks;
    const struct coord_evaluation *last = newest(j);
    const struct coord_amount is = coord_epoch_amount(j);
    uint64_t every = j->spec.evaluate.every_batches, all = is.batches, begun = is.batches_before;
    coord_task_stop(t, t->tasks);
    if (every == 0 || j->at.split[WIRE_VALID].used == 0 || !has_room(j))
        return;
    uint64_t done = 0;
    if (last != NULL)
        done = SAT_SUB(last->batches, begun);
    if (every > all || done > all - every) /* none is due before the epoch's end */
        return;
    uint32_t index = coord_task_after(t, (done / every + 1) * every);
    if (all - coord_task_before(t, index) >= every / 2)
        coord_task_stop(t, index);
}

static bool time_over(const struct coord_job *j)
{
    double most = j->spec.train.max_minutes * 60;
    bool asked = j->stop.asked || j->grow->ended;
    return (most > 0 && coord_phase_trained_s(j) >= most) || (asked && coord_grow_on(j));
}

static bool time_due(const struct coord_job *j)
{
    const struct coord_evaluation *last = newest(j);
    double every = j->spec.evaluate.every_minutes * 60, since = 0;
    if (last != NULL)
        since = last->seconds;
    return every > 0 && j->at.split[WIRE_VALID].used != 0 && has_room(j) &&
           coord_phase_trained_s(j) - since >= every && !coord_judge_made(j);
}

void coord_judge_time(struct coord_job *j)
{
    struct coord_tasks *t = j->tasks;
    if ((time_over(j) || time_due(j)) && coord_task_frontier(t) < t->stop)
        coord_task_stop(t, 0);
}

/* ---- what it came to ------------------------------------------------------------------------- */

/* For a growing log only the newest evaluations are kept, at most twice COORD_ROUNDS_KEPT: drops
 * the older half and renumbers the rest. A coordinator that dies meanwhile has some of them twice,
 * or in disorder, with the newest last; these figures are only shown. */
static bool older_forget(struct coord_job *j)
{
    static const struct coord_evaluation none;
    uint32_t gone = COORD_ROUNDS_KEPT;
    bool good = true;
    if (!coord_grow_on(j) || j->valid->count < 2 * gone)
        return true;
    j->valid->count -= gone;
    memmove(j->valid->item, j->valid->item + gone, j->valid->count * sizeof *j->valid->item);
    for (uint32_t n = 1; good && n <= j->valid->count + gone; n++)
        good = coord_job_note(j, coord_row_key("valid", n).text,
                              n <= j->valid->count ? &j->valid->item[n - 1] : &none, sizeof none);
    j->at.best = SAT_SUB(j->at.best, gone);
    j->at.kept = SAT_SUB(j->at.kept, gone);
    return good;
}

bool coord_judge_note(struct coord_job *j, const struct measure *m, uint64_t bad_lines)
{
    if (!older_forget(j))
        return false;
    uint32_t n = j->valid->count + !coord_judge_made(j);
    if (n > COORD_EVALUATIONS_MAX) /* more epochs than the job began with */
        return coord_end_fail(j, SHOAL_E_TOO_BIG,
                              "a job has at most %u evaluations: begin another with its tables "
                              "(start_from), or raise evaluate.every_batches",
                              COORD_EVALUATIONS_MAX);
    struct coord_evaluation *v = list_reach(j->valid, n);
    if (v == NULL)
        return coord_end_fail(j, SHOAL_E_NOMEM, "no memory for the evaluations");
    *v = (struct coord_evaluation){.number = j->at.number,
                                   .batches = coord_judge_batches(j),
                                   .examples = coord_trace_trained(j),
                                   .bad_lines = bad_lines,
                                   .seconds = coord_phase_trained_s(j),
                                   .epoch = j->at.epoch,
                                   .end = !coord_epoch_open(j)};
    memcpy(v->of, m->metric, sizeof v->of);
    return coord_job_put(j, coord_row_key("valid", n).text, v, sizeof *v);
}

/* True when a value is better than that of evaluation `n` (0: none). */
static bool metric_gains(const struct coord_job *j, double value, uint32_t n, double than)
{
    if (!isfinite(value))
        return false;
    if (n == 0)
        return true;
    double least = j->spec.train.early_stop.min_delta;
    if (job_metric_falls(j->spec.train.early_stop.metric))
        return value < than - least;
    return value > than + least;
}

/* Gains and misses are judged against the best evaluation of all; the kept one is the best of those
 * whose tables still exist. */
bool coord_judge_keeps(struct coord_job *j)
{
    struct metric mean;
    uint32_t n = j->valid->count;
    /* evaluated again, because the coordinator died at the cut: it is already judged */
    if (j->at.kept == n)
        return true;
    double value = (double)NAN;
    if (coord_judge_mean(j, n, &mean))
        value = coord_judge_value(j, &mean);
    bool gain = metric_gains(j, value, j->at.best, j->at.best_value);
    /* One kept since a checkpoint may be better than the best of all, by less than a gain. */
    bool keep = gain || metric_gains(j, value, j->at.kept, j->at.kept_value);
    if (gain) {
        j->at.best = n;
        j->at.best_value = value;
        j->at.misses = 0;
    } else if (!coord_judge_undefined(j, n)) {
        j->at.misses++;
        if (j->at.misses % j->spec.train.early_stop.lr_patience == 0)
            j->at.lr_scale *= j->spec.train.early_stop.lr_decay;
    }
    if (keep) {
        j->at.kept = n;
        j->at.kept_value = value;
    }
    return keep;
}

void coord_judge_missed(struct coord_job *j, const char *why)
{
    uint32_t older = j->at.cut_of;
    char now[COORD_JUDGE_NAME], then[COORD_JUDGE_NAME];
    struct metric mean;
    SHOAL_ASSERT((older != 0) == (j->at.best_cut != 0) && older < j->valid->count);
    log_warn("%s is the best so far and cannot be kept: %s; kept stays %s",
             coord_judge_name(j, j->valid->count, now), why,
             older == 0 ? "none" : coord_judge_name(j, older, then));
    j->at.kept = older;
    j->at.kept_value = 0;
    if (older != 0 && coord_judge_mean(j, older, &mean))
        j->at.kept_value = coord_judge_value(j, &mean);
}

static bool patience_over(const struct coord_job *j)
{
    return j->spec.train.early_stop.patience > 0 &&
           j->at.misses >= j->spec.train.early_stop.patience;
}

bool coord_judge_over(const struct coord_job *j)
{
    return patience_over(j) || time_over(j) ||
           (!coord_epoch_open(j) && j->at.epoch >= coord_epochs(j));
}

const char *coord_judge_ended(const struct coord_job *j)
{
    if (patience_over(j))
        return "early_stop";
    if (coord_grow_on(j) && j->grow->ended)
        return "until";
    double most = j->spec.train.max_minutes * 60;
    /* a job resumed from its end does not know that the end was asked for */
    if (coord_grow_on(j) && (j->stop.asked || most <= 0 || (double)j->at.train_ns * 1e-9 < most))
        return "stop";
    if (coord_grow_on(j) || j->at.train_rows < j->spec.train.epochs * coord_epoch_amount(j).rows)
        return "max_minutes";
    return "epochs";
}
