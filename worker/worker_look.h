/* worker_look.h: the verbs that only read the input: fields, count, check, values, convert,
 * data. */
#ifndef WORKER_WORKER_LOOK_H
#define WORKER_WORKER_LOOK_H

#include "worker/worker_arguments.h"

/* Prints the answer. NOT_FOUND, CONFIG, USAGE, NOINPUT, or an error of the input. */
int worker_look(const struct worker_arguments *a, struct job *job, struct err *e);

#endif
