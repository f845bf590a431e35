/* known_names.h: what the tables call a job's fields and tensors (proto/job/legend.h), by the job's
 * own input and model. */
#ifndef WORKER_TRAIN_KNOWN_NAMES_H
#define WORKER_TRAIN_KNOWN_NAMES_H

#include "dense/model.h"
#include "proto/base/err.h"
#include "proto/job/job.h"

#include <stdbool.h>
#include <stddef.h>

/* job->legend, which has what the tables had, gets what the job has, numbered (legend_match). same:
 * nothing may be new, gone or begun anew. shape: of the job's input. CONFIG, NOMEM and what
 * dataset_legend and model_legend say leave it as it was. */
int known_names_complete(struct job *job, const struct model_shape *shape, bool same,
                         struct err *e);
/* Takes over the names from the text of the job that made the tables, for a job that only reads
 * them. CONFIG: its tables or its network are others. Tables that an older release made have no
 * names: then every key that decides about rows must be the same. */
int known_names_take(struct job *job, const char *text, size_t bytes, struct err *e);

#endif
