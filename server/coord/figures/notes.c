/* notes.c: sentences on how a job ended. */
#include "server/coord/figures/notes.h"

#include "proto/base/minmax.h"
#include "proto/base/text.h"
#include "server/coord/figures/figures.h"
#include "server/coord/figures/judge.h"
#include "server/coord/figures/progressive.h"
#include "server/coord/figures/trace.h"
#include "server/coord/work/amount.h"
#include "server/coord/work/task.h"
#include "server/coord/work/times.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define LOGLOSS_WORSE 1.02 /* times the least logloss of all evaluations */
#define SHORT_TOLD_NS UINT64_C(1000000000)
#define STILL_GAINS 5e-4 /* AUC or logloss by which the last evaluation beat the earlier ones */

/* A label without positives has no calibration. */
static const char *calibration_text(const char *before, const struct metric *m, char *out,
                                    size_t bytes)
{
    out[0] = '\0';
    if (!isnan(m->calibration))
        (void)snprintf(out, bytes, "%s%.3f", before, m->calibration);
    return out;
}

static void kept_note(const struct coord_job *j, struct json *list)
{
    struct metric kept, other, best = {.logloss = (double)INFINITY};
    uint32_t at = 0, final = coord_judge_final(j);
    char text[320], name[COORD_JUDGE_NAME], better[COORD_JUDGE_NAME], ours[48], others[32];
    if (j->spec.train.early_stop.metric == METRIC_LOGLOSS || final == 0 || coord_grow_on(j) ||
        !coord_judge_mean(j, final, &kept) || metric_is_real(&kept))
        return;
    for (uint32_t n = 1; n <= j->valid->count; n++)
        if (coord_judge_mean(j, n, &other) && other.logloss < best.logloss) {
            best = other;
            at = n;
        }
    if (at == 0 || !(kept.logloss > best.logloss * LOGLOSS_WORSE))
        return;
    (void)snprintf(text, sizeof text,
                   "%s is kept, with a logloss of %.4f%s; %s had %.4f%s: where predictions are "
                   "used as probabilities, train.early_stop.metric: logloss keeps that one",
                   coord_judge_name(j, final, name), kept.logloss,
                   calibration_text(" and a calibration of ", &kept, ours, sizeof ours),
                   coord_judge_name(j, at, better), best.logloss,
                   calibration_text(" and ", &best, others, sizeof others));
    json_append_string(list, text);
}

/* A note when the job ends with other tables than the best evaluation's. */
static void best_note(const struct coord_job *j, struct json *list)
{
    char text[320], best[COORD_JUDGE_NAME], last[COORD_JUDGE_NAME];
    if (j->spec.train.early_stop.patience == 0 || j->at.best == 0 || j->at.best == j->at.kept)
        return;
    (void)snprintf(text, sizeof text,
                   "the tables of %s, the best, are not there (it was before the checkpoint that "
                   "the job went on from, or there was no room): the job ends with those of %s",
                   coord_judge_name(j, j->at.best, best),
                   coord_judge_name(j, coord_judge_final(j), last));
    json_append_string(list, text);
}

/* True when each evaluation was at the end of an epoch: the note then says "epochs" instead of
 * "evaluations". */
static bool epochs_alone(const struct coord_job *j)
{
    bool alone = true;
    for (uint32_t n = 1; n <= j->valid->count; n++)
        alone = alone && j->valid->item[n - 1].end != 0;
    return alone;
}

static void limit_note(const struct coord_job *j, struct json *list)
{
    struct metric mean;
    double before = (double)NAN, last;
    char text[256];
    const char *ended = coord_judge_ended(j);
    bool less = job_metric_falls(j->spec.train.early_stop.metric);
    if (strcmp(ended, "early_stop") == 0 || j->valid->count < 2 || coord_grow_on(j) ||
        !coord_judge_mean(j, j->valid->count, &mean))
        return;
    last = coord_judge_value(j, &mean);
    for (uint32_t n = 1; n < j->valid->count; n++)
        if (coord_judge_mean(j, n, &mean)) {
            double value = coord_judge_value(j, &mean);
            before = less ? fmin(before, value) : fmax(before, value);
        }
    double gain = less ? before - last : last - before;
    if (!(gain > STILL_GAINS))
        return;
    (void)snprintf(text, sizeof text,
                   "the last of %u %s was the best one, by %.4f: train.%s ended the job while it "
                   "still gained",
                   j->valid->count, epochs_alone(j) ? "epochs" : "evaluations", gain, ended);
    json_append_string(list, text);
}

/* A worker that takes over a task reports only the batches that it did itself, so some examples may
 * be missing. */
static void heard_note(const struct coord_job *j, struct json *list)
{
    uint64_t trained = coord_trace_trained(j), heard = coord_trace_seen(j);
    char text[256];
    if (heard >= trained)
        return;
    (void)snprintf(
        text, sizeof text,
        "figures of training lack %" PRIu64 " of %" PRIu64
        " examples, of tasks that were under way when a worker or the coordinator died, or "
        "at a checkpoint gone on from; the tables have learnt them",
        trained - heard, trained);
    json_append_string(list, text);
}

static void undefined_note(const struct coord_job *j, struct json *list)
{
    uint32_t undefined = 0, all = 0;
    char text[256];
    struct metric mean;
    if (j->spec.train.early_stop.patience == 0)
        return;
    for (uint32_t n = 1; n <= j->valid->count; n++) {
        all += coord_judge_mean(j, n, &mean);
        undefined += coord_judge_undefined(j, n);
    }
    if (undefined == 0)
        return;
    bool groups = j->spec.train.early_stop.metric == METRIC_GAUC;
    (void)snprintf(
        text, sizeof text,
        "%s is undefined in %u of %u evaluations, for %s labels of one class: early "
        "stopping does nothing there; train.early_stop.metric: logloss always has a value",
        groups ? "gauc" : "auc", undefined, all,
        groups ? "each group of data.valid has" : "data.valid has");
    json_append_string(list, text);
}

static void disk_note(const struct coord_job *j, struct json *list)
{
    char text[256];
    if (j->short_ns < SHORT_TOLD_NS)
        return;
    (void)snprintf(text, sizeof text,
                   "for %.0f s a server took no pushes, for on its disk too little was free "
                   "(disk_free, disk): as much faster it would have gone",
                   (double)j->short_ns * 1e-9);
    json_append_string(list, text);
}

/* Each line of the text is a sentence. */
static void translated_notes(const struct coord_job *j, struct json *list)
{
    char text[WIRE_TRANSLATED];
    for (const char *line = j->translated; *line != 0;) {
        size_t bytes = strcspn(line, "\n");
        (void)snprintf(text, sizeof text, "%.*s", (int)bytes, line);
        json_append_string(list, text);
        line += bytes + (line[bytes] == '\n');
    }
}

static void profile_notes(const struct coord_job *j, struct json *list)
{
    const struct json *notes = json_get(j->profile, "notes");
    for (size_t i = 0; i < json_count(notes) && i < COORD_NOTES_MAX; i++)
        json_append_string(list, json_as_string(json_array_at(notes, i), "?"));
}

/* A note when two splits have the same rows: the profile knows files of the same name, this finds
 * copies. */
static void same_rows_note(const struct coord_job *j, struct json *list)
{
    static const char *const name[] = {"data.train", "data.valid", "data.test"};
    const struct coord_split *train = &j->at.split[WIRE_TRAIN];
    char text[256];
    if (train->known == 0 || json_get_bool(j->profile, "shared", false))
        return;
    for (uint32_t s = WIRE_VALID; s <= WIRE_TEST; s++) {
        const struct coord_split *split = &j->at.split[s];
        if (split->used == 0 || split->known == 0 || split->rows != train->rows ||
            split->digest != train->digest)
            continue;
        (void)snprintf(text, sizeof text,
                       "%s has the very rows of data.train: its figures tell how well they are "
                       "remembered, not how well others are predicted",
                       name[s]);
        json_append_string(list, text);
    }
}

/* Returns how often the tables at the end of the job have learnt the log. In a log that grows each
 * round is an epoch of other rows. */
static uint32_t passes_made(const struct coord_job *j, uint32_t final)
{
    if (coord_grow_on(j))
        return 1;
    if (final == 0)
        return j->at.epoch;
    return j->valid->item[final - 1].epoch;
}

/* Notes on one evaluation: that of data.test when there is one. */
static void evaluation_notes(const struct coord_job *j, struct json *list)
{
    uint32_t final = coord_judge_final(j), tasks = j->spec.data.label_count;
    bool test = metric_most(j->at.test, MAX(tasks, 1)) > 0;
    const struct metric *of = NULL;
    if (test)
        of = j->at.test;
    else if (final > 0)
        of = j->valid->item[final - 1].of;
    const char *split = test ? "data.test" : "data.valid";
    uint32_t passes = passes_made(j, final);
    char where[LIMIT_NAME + 32];
    if (of == NULL) {
        struct coord_losses all = coord_epoch_losses(j);
        if (job_real_labels(&j->spec) == 0)
            coord_figures_diverged(coord_losses_mean(&all), list);
        return;
    }
    for (uint32_t t = 0; t < MAX(tasks, 1); t++) {
        (void)snprintf(where, sizeof where, "%s%s%s", split, text_if(tasks > 1, ", label "),
                       text_if(tasks > 1, j->spec.data.label[t]));
        coord_figures_note(&of[t], where, passes, j->profile, list);
    }
}

static void unseen_notes(const struct coord_job *j, struct json *list)
{
    static const char *const name[] = {"data.train", "data.valid", "data.test"};
    for (uint32_t s = WIRE_VALID; s <= WIRE_TEST; s++) {
        char text[1024];
        unseen_note(json_get(json_array_at(j->details[s], 0), "unseen"), name[s], text,
                    sizeof text);
        if (text[0] != '\0')
            json_append_string(list, text);
    }
}

static void weights_note(const struct coord_job *j, struct json *list)
{
    struct coord_losses all = coord_epoch_losses(j);
    char text[192];
    if (j->spec.data.weight[0] == '\0' || all.examples == 0 || all.weight_sum > 0)
        return;
    (void)snprintf(text, sizeof text,
                   "data.weight: column \"%s\" is 0 in all %" PRIu64
                   " examples, so nothing was learnt from them",
                   j->spec.data.weight, all.examples);
    json_append_string(list, text);
}

static void sample_note(const struct coord_job *j, struct json *list)
{
    struct coord_losses all = coord_epoch_losses(j);
    const struct job *job = &j->spec;
    char text[192];
    if (job->data.sample <= 0 || job->data.sample >= 1 || all.examples > 0)
        return;
    (void)snprintf(text, sizeof text,
                   "data.sample: %g left no example of data.train, so nothing was learnt: raise it",
                   job->data.sample);
    json_append_string(list, text);
}

static void negatives_note(const struct coord_job *j, struct json *list)
{
    struct metric of[LIMIT_TASKS];
    if (coord_progressive_all(j->windows, of))
        coord_figures_negatives(of[0].examples - of[0].positives, of[0].positives,
                                j->spec.data.negatives, list);
}

/* An empty label is no malformed line: the reader is told which tasks fewer rows teach. */
static void missing_note(const struct coord_job *j, struct json *list)
{
    struct metric of[LIMIT_TASKS];
    uint32_t labels = j->spec.data.label_count, most = 0;
    if (labels < 2 || !coord_progressive_all(j->windows, of))
        return;
    for (uint32_t t = 1; t < labels; t++)
        if (of[t].examples > of[most].examples)
            most = t;
    for (uint32_t t = 0; t < labels; t++) {
        char text[320];
        if (of[t].examples == of[most].examples)
            continue;
        (void)snprintf(
            text, sizeof text,
            "label \"%s\" is there in %" PRIu64 " examples of training, and \"%s\" in %" PRIu64
            ": an example without it teaches its task nothing",
            j->spec.data.label[t], of[t].examples, j->spec.data.label[most], of[most].examples);
        json_append_string(list, text);
    }
}

/* Notes on causes of doubt: the input first, since figures follow from it. */
static void doubt_notes(const struct coord_job *j, struct json *list)
{
    profile_notes(j, list);
    same_rows_note(j, list);
    weights_note(j, list);
    sample_note(j, list);
    negatives_note(j, list);
    missing_note(j, list);
    if (j->spec.model.kind == MODEL_PROBE) /* the probe predicts nothing */
        return;
    unseen_notes(j, list);
    evaluation_notes(j, list);
}

void coord_notes_lanes(const struct coord_job *j, uint32_t workers, struct json *list)
{
    uint32_t lanes = j->tasks->lanes;
    char text[256 + LIMIT_NAME];
    if (j->spec.train.skip || workers <= lanes)
        return;
    (void)snprintf(
        text, sizeof text,
        "job %s has lanes for %u of its %u workers, and the others train nothing: submit "
        "it with train.lanes: %u or more%s",
        j->spec.name, lanes, workers, workers,
        text_if(j->spec.train.lanes > 0, ", or 0 for as many as the workers have places for"));
    json_append_string(list, text);
}

struct json *coord_notes_json(const struct coord_job *j)
{
    struct json *list = json_new_array();
    if (j->missed.status != 0)
        json_append_string(list, j->missed.text);
    translated_notes(j, list);
    if (j->at.phase == PHASE_FAILED) { /* the other notes are on the final tables */
        profile_notes(j, list);
        same_rows_note(j, list);
        disk_note(j, list);
        return list;
    }
    if (j->spec.train.skip)
        return list;
    doubt_notes(j, list);
    kept_note(j, list);
    best_note(j, list);
    limit_note(j, list);
    heard_note(j, list);
    undefined_note(j, list);
    disk_note(j, list);
    coord_notes_lanes(j, j->tally.workers_most, list);
    coord_times_note(j, list);
    return list;
}
