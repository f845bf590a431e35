/* evaluator.h: the core of `shoal-worker eval` and `predict`: scores one split with the servers'
 * current tables, outside any job's run. It needs the map, the rows, and the text of the job that
 * made the tables, which has the names of fields and tensors. Its pulls never write.
 *
 * Lanes work on pieces of the split in parallel. Predictions are measured, or passed to `take`, in
 * file order; a few finished pieces for each lane wait for earlier ones. Batches begin at the same
 * rows for any number of lanes and parts, so a row's prediction has the same bits. At the end it
 * calls env_stop. Thread: the process's loop. */
#ifndef WORKER_TRAIN_EVALUATOR_H
#define WORKER_TRAIN_EVALUATOR_H

#include "dense/model.h"
#include "proto/base/env.h"
#include "proto/base/err.h"
#include "proto/job/job.h"
#include "proto/metric/measure.h"
#include "worker/train/evaluate.h"

#include <stdbool.h>
#include <stdint.h>

struct evaluator_options {
    const char *coordinator; /* endpoint; copied */
    struct job *job;         /* borrowed; gets the tables' names (known_names.h) */
    uint32_t split;          /* enum wire_split */
    uint32_t lanes;          /* 0: 2 */
    uint32_t cores;          /* cores for reading; 0: 1 */
    struct backend *backend; /* borrowed; NULL for models that need none */
    uint32_t wait_ms;        /* limit of waiting for the map; 0: 30 s */
    /* For a prediction (job->predict.on), which measures nothing: gets the borrowed scores of each
     * piece in order, and the number of rows of the split. A result other than 0 ends the run, with
     * e. */
    int (*take)(void *context, const struct scores *scores, uint64_t rows, struct err *e);
    void *context;
    uint32_t part, parts; /* use only this one of `parts` equal parts of the split; 0 parts: all */
};

struct evaluator;

int evaluator_new(struct env *env, const struct evaluator_options *options, struct evaluator **out,
                  struct err *e);
const struct env_handler *evaluator_handler(void);
bool evaluator_settled(const struct evaluator *v); /* no thread uses it any more */
void evaluator_free(struct evaluator *v);          /* it must be settled */
/* After env_stop: 0 and the finished measures, valid until evaluator_free; UNAVAILABLE: it was
 * stopped before the end; else the error. */
int evaluator_result(const struct evaluator *v, const struct measure **out, struct err *e);
/* Malformed lines, which are not scored. More than data.max_bad end the run with DATA, except in a
 * part: the process that joins the parts applies the limit. */
uint64_t evaluator_bad_lines(const struct evaluator *v);
const char *evaluator_bad_where(const struct evaluator *v); /* the first malformed line, or "" */
/* Values without a row, in its part. */
const struct unseen *evaluator_unseen(const struct evaluator *v);
uint64_t evaluator_rows(const struct evaluator *v); /* rows of its part, malformed ones included */
uint64_t evaluator_split_rows(const struct evaluator *v);

#endif
