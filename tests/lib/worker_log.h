/* worker_log.h: a csv log with every kind of column and malformed lines, its job, and a comparison
 * of the batches of two datasets, for tests of parsed forms. Every failure ends the test. */
#ifndef TESTS_LIB_WORKER_LOG_H
#define TESTS_LIB_WORKER_LOG_H

#include "tests/lib/worker_files.h"
#include "worker/data/dataset.h"

/* Writes FOLDER/log.csv with `rows` rows, each 17th malformed, and makes a job over it without a
 * cache for parsed rows: a label, weight, time, two numbers, a category, an id, and with `multi` a
 * field of several values, the last 3 of which count. evaluate.by and evaluate.group are the
 * category. */
void worker_log_job(struct job *j, uint32_t rows, bool multi);
/* The job of such a log with `multi` whose values have weights. */
void worker_log_job_weighted(struct job *j, uint32_t rows);
/* Checks that both datasets give the same batches of `rows` rows at all places of epochs 0, 1 and
 * 2. */
void worker_log_same(const struct dataset *a, const struct dataset *b, uint32_t rows);

#endif
