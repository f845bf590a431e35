/* values.h: the values behind the hashes of a report (evaluate.by), looked up in the input of the
 * split that was evaluated. Blocks; any thread. */
#ifndef WORKER_DATA_VALUES_H
#define WORKER_DATA_VALUES_H

#include "proto/base/json.h"
#include "proto/job/job.h"

/* Sets `value` beside each `key` of `by` under valid, test and replay.days of report.json, also of
 * its tasks: the cell's text, up to LIMIT_NAME bytes. A value of a stream, or one that is not
 * found, gets none. Errors as dataset_open. */
int values_name(const struct job *job, struct json *report, struct err *e);
/* values_name for one split's measures. */
int values_name_split(const struct job *job, uint32_t split, struct json *of, struct err *e);

#endif
