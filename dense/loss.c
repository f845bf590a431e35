/* loss.c: logistic loss. */
#include "dense/loss.h"

#include <math.h>

void loss_logistic(uint32_t count, const float *logit, const float *label, double factor, double *sum, float *scores,
                   float *dlogit)
{
    for (uint32_t i = 0; i < count; i++) {
        double z = (double)logit[i], y = (double)label[i];
        double e = exp(-fabs(z)), score = (z >= 0 ? 1.0 : e) / (1.0 + e);
        *sum += (z > 0 ? z : 0.0) - z * y + log1p(e);
        if (isnan(z))
            *sum = NAN; /* fabs and the comparisons above must not hide it */
        if (scores)
            scores[i] = (float)score;
        if (dlogit)
            dlogit[i] = (float)(factor * (score - y));
    }
}
