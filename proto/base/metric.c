/* metric.c: exact AUC by ranks (Mann-Whitney), logloss and calibration, summed in double in the order given. */
#include "proto/base/metric.h"
#include "proto/base/err.h"

#include <math.h>
#include <stdlib.h>

struct scored {
    float score;
    float label;
};

static int scored_compare(const void *a, const void *b)
{
    float x = ((const struct scored *)a)->score, y = ((const struct scored *)b)->score;
    return x < y ? -1 : x > y;
}

/* The share of (positive, negative) pairs in the right order; a tie counts half. s is sorted by score. */
static double auc_of_sorted(const struct scored *s, size_t count, double positives)
{
    double negatives = (double)count - positives, below = 0, area = 0;

    for (size_t i = 0; i < count;) {
        double p = 0, n = 0;
        size_t j = i;
        for (; j < count && s[j].score == s[i].score; j++) {
            if (s[j].label > 0.5f)
                p++;
            else
                n++;
        }
        area += p * (below + n / 2);
        below += n;
        i = j;
    }
    return positives > 0 && negatives > 0 ? area / (positives * negatives) : (double)NAN;
}

int metric_compute(const float *score, const float *label, size_t count, struct metric *out)
{
    double loss = 0, predicted = 0, positives = 0;
    struct scored *s = malloc((count + 1) * sizeof *s);

    if (s == NULL)
        return SHOAL_E_NOMEM;
    for (size_t i = 0; i < count; i++) {
        double p = (double)score[i], q = p < 1e-15 ? 1e-15 : p > 1 - 1e-15 ? 1 - 1e-15 : p;
        s[i] = (struct scored){score[i], label[i]};
        loss -= label[i] > 0.5f ? log(q) : log1p(-q);
        predicted += p;
        positives += label[i] > 0.5f ? 1 : 0;
    }
    qsort(s, count, sizeof *s, scored_compare);
    out->auc = auc_of_sorted(s, count, positives);
    out->logloss = count > 0 ? loss / (double)count : (double)NAN;
    out->calibration = positives > 0 ? predicted / positives : (double)NAN;
    out->examples = count;
    free(s);
    return 0;
}
