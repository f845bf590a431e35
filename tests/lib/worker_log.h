/* worker_log.h: for the tests of parsed forms: a csv log with every kind of column and malformed
 * lines, its job, and whether two datasets give the same batches. Every failure ends the test. */
#ifndef TESTS_LIB_WORKER_LOG_H
#define TESTS_LIB_WORKER_LOG_H

#include "tests/lib/worker_files.h"
#include "worker/data/dataset.h"

/* FOLDER/log.csv: so many rows, each 17th malformed; a job over it, without a cache for parsed
 * rows: a label, weight, time, two numbers, a category, an id, and with `multi` a field of several
 * values of which the last 3 count; told by, and grouped by, the category. */
void worker_log_job(struct job *j, uint32_t rows, bool multi);
/* The same batches of `rows` at all places of epochs 0, 1 and 2. */
void worker_log_same(const struct dataset *a, const struct dataset *b, uint32_t rows);

#endif
