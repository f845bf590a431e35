/* count_fit.h: from the distinct keys of a sample to those of the whole log.
 *
 * The model: each key comes as a Poisson process, the keys' rates follow a gamma distribution of
 * shape a > -1 (a < 0: without end many rare keys, and the number of distinct ones grows as n^-a,
 * Heaps' law; a > 0: there are so many and no more). Then in a log of t samples, with q = 1 + c t
 * and p = c t / q,
 *     keys with x appearances:  f_x = C gamma(x + a) / x! p^x q^-a distinct keys: C gamma(a) (1 -
 *                               q^-a)
 * R. A. Fisher, A. S. Corbet, C. B. Williams 1943; S. Engen 1974; B. Efron, R. Thisted, Estimating
 * the number of unseen species: how many words did Shakespeare know?, Biometrika 1976. Shape a and
 * scale c are those that come nearest to what the sample has: distinct keys at a quarter, at half
 * and at its end, and keys with 2, 3, 5 and 10 appearances at least. */
#ifndef WORKER_DATA_COUNT_FIT_H
#define WORKER_DATA_COUNT_FIT_H

#include <stdint.h>

#define COUNT_THRESHOLDS 5u
extern const uint32_t count_fit_threshold[COUNT_THRESHOLDS]; /* 1, 2, 3, 5, 10 */

struct count_curve {
    double quarter, half; /* distinct keys by then */
    /* keys with so many appearances at least, at the end of the sample */
    double now[COUNT_THRESHOLDS];
};

/* The same for a log that is `factor` times (1 at least) as long as the sample. */
void count_fit_extrapolate(const struct count_curve *c, double factor,
                           double out[COUNT_THRESHOLDS]);

#endif
