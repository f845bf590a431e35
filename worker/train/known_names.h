/* known_names.h: the tables' names for a job's fields and tensors (proto/job/legend.h), completed
 * with those of the job's own input and model. */
#ifndef WORKER_TRAIN_KNOWN_NAMES_H
#define WORKER_TRAIN_KNOWN_NAMES_H

#include "dense/model.h"
#include "proto/base/err.h"
#include "proto/job/job.h"

#include <stdbool.h>
#include <stddef.h>

/* Adds the job's names to job->legend, which has the tables' names, and numbers them
 * (legend_match). same: no name may be new, gone or reset. shape: of the job's input. On CONFIG,
 * NOMEM and errors of dataset_legend and model_legend it is unchanged. */
int known_names_complete(struct job *job, const struct model_shape *shape, bool same,
                         struct err *e);
/* Takes the names from the text of the job that made the tables, for a job that only reads them.
 * CONFIG: the tables or the network differ. In a text without names every key that affects
 * rows must be equal. */
int known_names_take(struct job *job, const char *text, size_t bytes, struct err *e);

#endif
