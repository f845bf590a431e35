/* count.h: how many rows a log will need: its keys counted by field, on all of it or on a sample.
 *
 * The sample is the begin of the first epoch in the job's own order, its windows of time left
 * aside, so with data.shuffle it is drawn from all of the log. For each field and each threshold k
 * the keys with k appearances at least are counted: what admission by count k would give a row. An
 * appearance is an example that shows the key; a table without statistics counts batches instead,
 * so there a threshold keeps somewhat fewer. The whole log is reckoned from the sample
 * (count_fit_extrapolate). */
#ifndef WORKER_DATA_COUNT_H
#define WORKER_DATA_COUNT_H

#include "proto/base/json.h"
#include "proto/job/job.h"

#include <stdint.h>

#define COUNT_THRESHOLDS 5u
extern const uint32_t count_fit_threshold[COUNT_THRESHOLDS]; /* 1, 2, 3, 5, 10 */
#define COUNT_KEYS_MAX (1u << 27) /* distinct keys of a sample: 3 GiB of memory at most */

struct key_count { /* of a field */
    uint64_t appearances;
    uint64_t kept[COUNT_THRESHOLDS]; /* keys with so many appearances at least */
    uint64_t quarter, half;          /* distinct keys by then */
};

struct counter {
    uint64_t *key;   /* owned; (slots); open addressing by mixed key and salt */
    uint32_t *times; /* owned; (slots); 0: empty */
    uint64_t slots, keys, salt;
    struct key_count *field; /* owned; (LIMIT_FIELDS), by the number in the keys */
};

int count_init(struct counter *c);
void count_free(struct counter *c);
/* TOO_BIG: more than COUNT_KEYS_MAX keys, or a key of no field; NOMEM. */
int count_add(struct counter *c, uint64_t key, uint32_t times);

/* Counts the job's training input, a share of it (0 to 1, 1: all). *out: rows, sampled, bad_lines,
 * tables: name, row_floats (weights and state of a row); fields: name, field, table, appearances,
 * keys, kept (by threshold), whole (the same of the whole log). */
int count_job(struct job *job, double share, struct json **out, struct err *e);

/* From the distinct keys of a sample to those of the whole log.
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
struct count_curve {
    double quarter, half; /* distinct keys by then */
    /* keys with so many appearances at least, at the end of the sample */
    double now[COUNT_THRESHOLDS];
};

/* The same for a log that is `factor` times (1 at least) as long as the sample. */
void count_fit_extrapolate(const struct count_curve *c, double factor,
                           double out[COUNT_THRESHOLDS]);

#endif
