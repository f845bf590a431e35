/* figures.c: limits of figures, and sentences about figures beyond them. */
#include "server/coord/figures/figures.h"

#include "proto/base/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#define AUC_TOO_GOOD 0.99
#define AUC_NOTHING 5e-4 /* distance from 0.5 */
#define NE_WORSE 1.001   /* above it, predicting the mean label would be better */
#define LOGLOSS_DIVERGED 10.0
#define R2_WORSE 1e-3
#define NEGATIVES_LEAST 100u

enum { SENTENCE = 512 };

#define CALMER                                                                                     \
    "scale large numbers (features.number: log1p), or lower the learning rates "                   \
    "(tables[].optimizer.lr, dense_optimizer.lr)"

static void too_good(const struct metric *m, const char *where, const struct json *profile,
                     struct json *list)
{
    char text[SENTENCE];
    const char *tells = json_get_string(profile, "tells", NULL);
    if (tells != NULL)
        (void)snprintf(text, sizeof text,
                       "%s: an AUC of %.4f is hardly ever true, and column \"%.64s\" alone tells "
                       "the label: leave it out unless it is known before the label is",
                       where, m->auc, tells);
    else
        (void)snprintf(
            text, sizeof text,
            "%s: an AUC of %.4f is hardly ever true: look for a column that is known "
            "only after the label%s, and for rows of it in data.train",
            where, m->auc,
            text_if(profile != NULL, " (no column alone tells it in the rows looked at)"));
    json_append_string(list, text);
}

/* A note on predictions of a number. */
static void real_note(const struct metric *m, const char *where, struct json *list)
{
    char text[SENTENCE];
    if (!(m->r2 < -R2_WORSE))
        return;
    (void)snprintf(text, sizeof text,
                   "%s: predictions are worse than the mean label for every row would be (R2 %.4f, "
                   "RMSE %.4g): look at whether these rows are like those of data.train, give the "
                   "label a smaller unit's numbers (minutes, not milliseconds), take model.loss: "
                   "huber for a few large labels, train longer, or " CALMER,
                   where, m->r2, m->rmse);
    json_append_string(list, text);
}

const char *coord_figures_text(const struct metric *m, char out[COORD_FIGURES_TEXT])
{
    if (metric_is_real(m))
        (void)snprintf(out, COORD_FIGURES_TEXT, "rmse %.6g, mae %.6g", m->rmse, m->mae);
    else
        (void)snprintf(out, COORD_FIGURES_TEXT, "auc %.6f, logloss %.6f", m->auc, m->logloss);
    return out;
}

void coord_figures_note(const struct metric *m, const char *where, uint32_t passes,
                        const struct json *profile, struct json *list)
{
    char text[SENTENCE], auc[48] = "";
    if (m->examples == 0)
        return;
    if (metric_is_real(m)) {
        real_note(m, where, list);
        return;
    }
    if (!isnan(m->auc))
        (void)snprintf(auc, sizeof auc, " and an AUC of %.4f", m->auc);
    text[0] = '\0';
    if (m->logloss > LOGLOSS_DIVERGED)
        (void)snprintf(text, sizeof text,
                       "%s: with a logloss of %.4g%s training has diverged, and the tables are of "
                       "no use: " CALMER,
                       where, m->logloss, auc);
    else if (m->ne > NE_WORSE)
        (void)snprintf(
            text, sizeof text,
            "%s: predictions are worse than the mean label for every row would be (NE "
            "%.4f%s): look at whether these rows are like those of data.train%s, or " CALMER,
            where, m->ne, auc,
            passes > 1 ? ", train for fewer epochs"
                       : " and have about as many positive ones, train on more rows");
    else if (fabs(m->auc - 0.5) < AUC_NOTHING)
        (void)snprintf(text, sizeof text,
                       "%s: an AUC of %.4f says that nothing was learnt: look at the label and the "
                       "fields, or " CALMER,
                       where, m->auc);
    if (text[0] != '\0')
        json_append_string(list, text);
    else if (m->auc > AUC_TOO_GOOD)
        too_good(m, where, profile, list);
}

void coord_figures_diverged(double logloss, struct json *list)
{
    char text[SENTENCE];
    if (!(logloss > LOGLOSS_DIVERGED))
        return;
    (void)snprintf(text, sizeof text,
                   "training ended with a logloss of %.4g: it has diverged, and the tables are of "
                   "no use: " CALMER,
                   logloss);
    json_append_string(list, text);
}

void coord_figures_negatives(uint64_t negatives, uint64_t positives, double share,
                             struct json *list)
{
    char text[SENTENCE];
    if (share >= 1 || negatives >= NEGATIVES_LEAST || negatives + positives == 0)
        return;
    (void)snprintf(text, sizeof text,
                   "data.negatives: %g left %" PRIu64 " negative examples beside %" PRIu64
                   " positive ones: too few to learn from, and to correct predictions by; raise it",
                   share, negatives, positives);
    json_append_string(list, text);
}
