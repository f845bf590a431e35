/* metric.h: the measures of a binary prediction, exact, merged in task order by whoever holds the scores. */
#ifndef PROTO_BASE_METRIC_H
#define PROTO_BASE_METRIC_H

#include <stddef.h>

struct metric {
    double auc;         /* exact, ties count half; NaN with one class only */
    double logloss;     /* mean over examples, natural logarithm */
    double calibration; /* mean prediction / mean label; NaN without a positive label */
    size_t examples;
};

/* score: probabilities in [0, 1], (count); label: 0 or 1, (count). Sorts a copy: count * 8 bytes. 0 or SHOAL_E_NOMEM. */
int metric_compute(const float *score, const float *label, size_t count, struct metric *out);

#endif
