/* count.h: estimates how many rows a log needs: counts its keys by field, on all of it or on a
 * sample.
 *
 * The sample is the beginning of the first epoch in the job's own order without its windows of
 * time, so data.shuffle draws it from all of the log. For each field and each threshold k it counts
 * the keys with at least k appearances, which admission by count k would give a row. An appearance
 * is an example that has the key; a table without statistics counts batches instead, so a threshold
 * admits somewhat fewer keys there. count_fit_extrapolate estimates the whole log from the
 * sample. */
#ifndef WORKER_DATA_COUNT_H
#define WORKER_DATA_COUNT_H

#include "proto/base/json.h"
#include "proto/job/job.h"

#include <stdint.h>

#define COUNT_THRESHOLDS 5u
extern const uint32_t count_fit_threshold[COUNT_THRESHOLDS]; /* 1, 2, 3, 5, 10 */
#define COUNT_KEYS_MAX (1u << 27) /* distinct keys of a sample: at most 3 GiB of memory */

struct key_count { /* one field's */
    uint64_t appearances;
    uint64_t kept[COUNT_THRESHOLDS]; /* keys with at least count_fit_threshold[i] appearances */
    uint64_t quarter, half;          /* distinct keys at a quarter and at half of the sample */
};

struct counter {
    uint64_t *key;   /* owned; (slots); open addressing by mixed key and salt */
    uint32_t *times; /* owned; (slots); 0: empty */
    uint64_t slots, keys, salt;
    struct key_count *field; /* owned; (LIMIT_FIELDS), by field number */
};

int count_init(struct counter *c);
void count_free(struct counter *c);
/* TOO_BIG: more than COUNT_KEYS_MAX keys, or a key without a field; NOMEM. */
int count_add(struct counter *c, uint64_t key, uint32_t times);

/* Counts a share (above 0, up to 1) of the job's training input. *out: rows, sampled, bad_lines,
 * tables: name, row_floats (weights and state of a row); fields: name, field, table, appearances,
 * keys, kept (by threshold), whole (the same for the whole log). */
int count_job(struct job *job, double share, struct json **out, struct err *e);

/* Estimates the distinct keys of the whole log from those of a sample.
 *
 * The model: each key arrives as a Poisson process, and the keys' rates follow a gamma distribution
 * of shape a > -1. With a < 0 there are infinitely many rare keys, and the number of distinct keys
 * grows as n^-a (Heaps' law); with a > 0 their number is finite. In a log of t samples, with
 * q = 1 + c t and p = c t / q,
 *
 *     keys with x appearances:  f_x = C gamma(x + a) / x! p^x q^-a
 *     distinct keys:            C gamma(a) (1 - q^-a)
 *
 * R. A. Fisher, A. S. Corbet, C. B. Williams 1943; S. Engen 1974; B. Efron, R. Thisted, Estimating
 * the number of unseen species: how many words did Shakespeare know?, Biometrika 1976. The fit
 * chooses shape a and scale c that come nearest to the sample: its distinct keys at a quarter, at
 * half and at its end, and its keys with at least 2, 3, 5 and 10 appearances. */
struct count_curve {
    double quarter, half; /* distinct keys at a quarter and at half of the sample */
    /* keys with at least count_fit_threshold[i] appearances in the whole sample */
    double now[COUNT_THRESHOLDS];
};

/* Estimates c->now for a log that is `factor` (at least 1) times as long as the sample. */
void count_fit_extrapolate(const struct count_curve *c, double factor,
                           double out[COUNT_THRESHOLDS]);

#endif
