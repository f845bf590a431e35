/* evaluator.h: the core of `shoal-worker eval` and `predict`: scores one split with the tables as
 * the servers have them now, outside any job's run. It needs the map, the rows, and the text of the
 * job that made them, which says what fields and tensors are called there; reads never write.
 *
 * The split is cut into pieces that lanes work on side by side; predictions are measured, or given
 * away (`take`), in file order, a few pieces a lane wait for the one before them. Batches begin at
 * the same rows however many lanes and parts there are: so a row's prediction has the same bits. At
 * the end it calls env_stop. Thread: the process's loop. */
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
    uint32_t cores;          /* that reading may keep busy; 0: 1 */
    struct backend *backend; /* borrowed; NULL for models that need none */
    uint32_t wait_ms;        /* for the map; 0: 30 s */
    /* Of a prediction (job->predict.on), and then nothing is measured: gets the scores of one piece
     * after another, lent, and how many rows the split has; what it returns but 0 ends it, with e.
     */
    int (*take)(void *context, const struct scores *scores, uint64_t rows, struct err *e);
    void *context;
    uint32_t part, parts; /* only this one of so many equal parts of the split; 0 parts: all */
};

struct evaluator;

int evaluator_new(struct env *env, const struct evaluator_options *options, struct evaluator **out,
                  struct err *e);
const struct env_handler *evaluator_handler(void);
bool evaluator_settled(const struct evaluator *v); /* no thread has anything of it */
void evaluator_free(struct evaluator *v);          /* settled */
/* After env_stop: 0 and the measures, finished, lent until evaluator_free; UNAVAILABLE when it was
 * stopped before the end; else what went wrong. */
int evaluator_result(const struct evaluator *v, const struct measure **out, struct err *e);
/* Malformed lines, which are not scored; more than data.max_bad allows end it with DATA, unless it
 * is a part: then whoever has all of them judges. */
uint64_t evaluator_bad_lines(const struct evaluator *v);
const char *evaluator_bad_where(const struct evaluator *v); /* the first of them, or "" */
/* Values without a row, of its part. */
const struct unseen *evaluator_unseen(const struct evaluator *v);
uint64_t evaluator_rows(const struct evaluator *v); /* of its part, malformed ones too */
uint64_t evaluator_split_rows(const struct evaluator *v);

#endif
