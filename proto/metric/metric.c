/* metric.c: the small formulas. */
#include "proto/metric/metric.h"

#include <math.h>
#include <stddef.h>

double metric_loss(float p, float y)
{
    double q = (double)p;

    q = q < 1e-15 ? 1e-15 : q > 1 - 1e-15 ? 1 - 1e-15 : q;
    return y > 0.5f ? -log(q) : -log1p(-q);
}

double metric_entropy(double share)
{
    return share > 0 && share < 1 ? -share * log(share) - (1 - share) * log1p(-share) : 0;
}

/* weight: NULL: all alike. */
static double mean_of(const struct metric *of, const double *weight, uint32_t count, size_t offset)
{
    double sum = 0, weights = 0;

    for (uint32_t i = 0; i < count; i++) {
        double x = *(const double *)(const void *)((const char *)&of[i] + offset);
        double w = weight ? weight[i] : 1.0;
        if (isfinite(x)) {
            sum += w * x;
            weights += w;
        }
    }
    return weights > 0 ? sum / weights : (double)NAN;
}

void metric_mean(const struct metric *of, const double *weight, uint32_t count, struct metric *out)
{
    *out = of[0];
    if (count == 1)
        return;
    out->auc = mean_of(of, NULL, count, offsetof(struct metric, auc));
    out->auc_error = mean_of(of, NULL, count, offsetof(struct metric, auc_error));
    out->logloss = mean_of(of, weight, count, offsetof(struct metric, logloss));
    out->ne = mean_of(of, NULL, count, offsetof(struct metric, ne));
    out->calibration = mean_of(of, NULL, count, offsetof(struct metric, calibration));
    out->ece = mean_of(of, NULL, count, offsetof(struct metric, ece));
    out->gauc = mean_of(of, NULL, count, offsetof(struct metric, gauc));
}
