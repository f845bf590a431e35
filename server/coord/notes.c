/* notes.c: sentences on how a job ended. */
#include "server/coord/notes.h"

#include "proto/base/assert.h"
#include "server/coord/epoch.h"

#include <math.h>
#include <stdio.h>

#define LOGLOSS_WORSE 1.02 /* times the least logloss of all epochs */
#define SHORT_TOLD_NS UINT64_C(1000000000)
#define STILL_GAINS 5e-4 /* by so much, of AUC or logloss, the last epoch beat those before it */

static bool mean_of(const struct coord_job *j, uint32_t epoch, struct metric *mean)
{
    const struct metric *valid = j->epoch[epoch - 1].valid;
    SHOAL_ASSERT(epoch >= 1 && epoch <= j->at.epoch);
    if (valid[0].examples == 0)
        return false;
    metric_mean(valid, j->spec.model.task_weight, j->spec.data.label_count, mean);
    return true;
}

static void kept_note(const struct coord_job *j, uint32_t final, struct json *list)
{
    struct metric kept, other, best = {.logloss = (double)INFINITY};
    uint32_t at = 0;
    char text[320];
    if (j->spec.train.early_stop.metric == METRIC_LOGLOSS || !mean_of(j, final, &kept))
        return;
    for (uint32_t n = 1; n <= j->at.epoch; n++)
        if (mean_of(j, n, &other) && other.logloss < best.logloss) {
            best = other;
            at = n;
        }
    if (at == 0 || !(kept.logloss > best.logloss * LOGLOSS_WORSE))
        return;
    (void)snprintf(
        text, sizeof text,
        "epoch %u is kept, with a logloss of %.4f and a calibration of %.3f; epoch %u had "
        "%.4f and %.3f: where predictions are used as probabilities, "
        "train.early_stop.metric: logloss keeps that one",
        final, kept.logloss, kept.calibration, at, best.logloss, best.calibration);
    json_append_string(list, text);
}

static void limit_note(const struct coord_job *j, struct json *list)
{
    struct metric mean;
    double before = (double)NAN, last;
    char text[256];
    bool less = j->spec.train.early_stop.metric == METRIC_LOGLOSS;
    if (j->at.epoch < 2 || j->at.epoch < j->spec.train.epochs || !mean_of(j, j->at.epoch, &mean))
        return;
    last = coord_epoch_value(j, &mean);
    for (uint32_t n = 1; n < j->at.epoch; n++)
        if (mean_of(j, n, &mean)) {
            double value = coord_epoch_value(j, &mean);
            before = less ? fmin(before, value) : fmax(before, value);
        }
    double gain = less ? before - last : last - before;
    if (!(gain > STILL_GAINS))
        return;
    (void)snprintf(text, sizeof text,
                   "the last of %u epochs was the best one, by %.4f: train.epochs ended the job "
                   "while it still gained",
                   j->at.epoch, gain);
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

struct json *coord_notes_json(const struct coord_job *j, uint32_t final)
{
    struct json *list = json_new_array();
    if (j->spec.train.skip)
        return list;
    kept_note(j, final, list);
    limit_note(j, list);
    disk_note(j, list);
    return list;
}
