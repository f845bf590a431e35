/* values.h: what the values were that a report tells by their hashes (evaluate.by): those of the
 * input that it names, looked up in the split that was evaluated. Blocks; thread: any. */
#ifndef WORKER_DATA_VALUES_H
#define WORKER_DATA_VALUES_H

#include "proto/base/json.h"
#include "proto/job/job.h"

/* Sets `value` beside each `key` of `by` under valid, test and replay.days of report.json, also of
 * its tasks:
 * the cell's text, up to LIMIT_NAME bytes of it. What is a stream, or lacks the value, stays as it
 * is. As dataset_open. */
int values_name(const struct job *job, struct json *report, struct err *e);
/* The same of one split's measures alone. */
int values_name_split(const struct job *job, uint32_t split, struct json *of, struct err *e);

#endif
