/* count.h: how many rows a log will need: its keys counted by field, on all of it or on a sample.
 *
 * The sample is the begin of the first epoch in the job's own order, so with data.shuffle it is
 * drawn from all of the log. For each field and each threshold k the keys with k appearances at
 * least are counted: what admission by count k would give a row. An appearance is an example that
 * shows the key; a table without statistics counts batches instead, so there a threshold keeps
 * somewhat fewer. The whole log is reckoned from the sample as count_fit.h says. */
#ifndef WORKER_DATA_COUNT_H
#define WORKER_DATA_COUNT_H

#include "proto/base/json.h"
#include "proto/job/job.h"
#include "worker/data/count_fit.h"

#define COUNT_KEYS_MAX (1u << 27) /* distinct keys of a sample: 3 GiB of memory at most */

struct key_count { /* of a field */
    uint64_t appearances;
    uint64_t kept[COUNT_THRESHOLDS]; /* keys with so many appearances at least */
    uint64_t quarter, half;          /* distinct keys by then */
};

struct counter {
    uint64_t *key;   /* owned; (slots); open addressing */
    uint32_t *times; /* owned; (slots); 0: empty */
    uint64_t slots, keys;
    struct key_count *field; /* owned; (LIMIT_FIELDS), by the number in the keys */
};

int count_init(struct counter *c);
void count_free(struct counter *c);
/* TOO_BIG: more than COUNT_KEYS_MAX keys, or a key of no field; NOMEM. */
int count_add(struct counter *c, uint64_t key, uint32_t times);

/* Counts the job's training input, a share of it (0 to 1, 1: all). *out: rows, sampled, bad_lines,
 * tables: name, row_floats (weights and state of a row); fields: name, field, table, appearances,
 * keys, kept (by threshold), whole (the same of the whole log). */
int count_job(const struct job *job, double share, struct json **out, struct err *e);

#endif
