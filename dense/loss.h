/* loss.h: logistic loss. In double and by libm: it is one value an example. */
#ifndef DENSE_LOSS_H
#define DENSE_LOSS_H

#include <stdint.h>

/* Of `count` examples: *sum += loss, each max(z, 0) - z y + log(1 + e^-|z|), which neither overflows nor cancels.
 * scores (count) = 1 / (1 + e^-z), unless NULL; dlogit (count) = factor * (score - y), unless NULL. */
void loss_logistic(uint32_t count, const float *logit, const float *label, double factor, double *sum, float *scores,
                   float *dlogit);

#endif
