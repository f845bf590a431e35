/* worker_score.h: eval and predict: the evaluator in a process of its own. */
#ifndef WORKER_WORKER_SCORE_H
#define WORKER_WORKER_SCORE_H

#include "proto/net/net.h"
#include "worker/worker_arguments.h"

/* Scores a split with the fleet's tables and prints its measures. Does not return where a thread
 * still uses memory of the process (worker_score_exit). */
int worker_score_evaluate(const struct worker_arguments *a, struct job *job, struct net *net,
                          struct backend *backend, struct err *e);
/* Scores data.test and writes the scores to a->out. Likewise. */
int worker_score_predict(const struct worker_arguments *a, struct job *job, struct net *net,
                         struct backend *backend, struct err *e);

/* Ends the process while a thread still uses its memory, so that nothing may be freed. */
void worker_score_exit(int rc, const struct err *e);

#endif
