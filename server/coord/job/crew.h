/* crew.h: which workers work for which job. Workers are of two kinds: those with a network of their
 * own, for jobs with model.kind: external, and those of all other jobs (shoal-worker). Each kind is
 * divided as if the jobs and workers of the other were not there.
 *
 * A job is submitted for a number of workers (0 counts as 1). It lacks workers while it has fewer,
 * or while its lanes must all be held (bsp, allreduce) and its workers do not have places for all;
 * those that it could do without are spare.
 *
 * A worker that asks to join gets a job by these rules, the first that names one:
 *
 *   same    the job that it has joined over this connection
 *   only    the only job of its kind that runs. A worker that does not stay between jobs also gets
 *           one of the other kind where none of its own runs: it ends, and says why
 *   oldest  the oldest job, that lacks workers and can get all that it lacks: the free ones and the
 *           spare ones of other jobs are enough. If it waits for its workers to begin, they join
 *           when all that it lacks are free, and are kept free until then: two jobs that each held
 *           half of what they need would both wait without end. A job that cannot get all holds
 *           back none from others, until it has been patient
 *   least   the job with the smallest share of the workers that it was submitted for, the oldest of
 *           equal ones, if it has a place for one more: under bsp a lane that no worker has a place
 *           for, else a lane for each worker
 *   none    it stays a visitor (sight.h), and asks again
 *
 * A job that awaits its workers has been patient when it has waited for COORD_PATIENCE_NS. From
 * then on no job after it that awaits workers begins, and none has more than it was submitted for:
 * all workers that become free wait for the patient job, which begins as soon as they are enough.
 * So it waits for the jobs that run then, however many small ones are submitted. It keeps none back
 * where all workers that stay between jobs would not be enough; those of a job that trains until it
 * is stopped do not count, but for what it can spare.
 *
 * A job gives spare workers back while the oldest job, as above, needs more than are free: the
 * newest of those that stay when a job ends, from the job with the most spare ones, one after the
 * other, as long as the others of a job whose lanes must all be held have places for them. Such a
 * worker is told END when it next asks for work, leaves, and joins again; its lanes go to others as
 * those of any worker that leaves.
 *
 * Thread: the coordinator's loop. */
#ifndef SERVER_COORD_JOB_CREW_H
#define SERVER_COORD_JOB_CREW_H

#include "proto/base/env.h"
#include "proto/wire/wire.h"

#include <stdbool.h>

struct coord;
struct coord_job;

#define COORD_PATIENCE_NS UINT64_C(300000000000)

/* True for a worker with a network of its own, by the backend that it names. */
bool coord_crew_external(const struct wire_WORKER_JOIN *join);
/* Returns the job that a worker joins; NULL: it stays a visitor, and *kept names the job that the
 * free workers are kept for (NULL: none has a place for one more). */
struct coord_job *coord_crew_to_join(struct coord *c, const struct wire_WORKER_JOIN *join,
                                     peer_t from, const struct coord_job **kept);
/* Why such a worker got no job and no job is kept for it. */
const char *coord_crew_why(struct coord *c, bool external);
/* Has the next spare worker given back, if a job needs it. */
void coord_crew_step(struct coord *c);

#endif
