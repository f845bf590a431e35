/* slot.h: the jobs at hand, one in each slot, and which of them a request is about.
 *
 * A daemon has one slot (coord_options.jobs): no message names a job yet, so a second job could not
 * be addressed. An operator's request is about the newest job. */
#ifndef SERVER_COORD_SLOT_H
#define SERVER_COORD_SLOT_H

#include "proto/base/env.h"
#include "proto/base/err.h"

#include <stdint.h>

struct coord;
struct coord_job;
struct coord_submit;

#define COORD_EACH_JOB(c, j) for (struct coord_job *j = (c)->slot; j < (c)->slot + (c)->slots; j++)

/* Makes `slots` slots, and reads back the job of each. IO, CORRUPT, NOMEM: call coord_slot_close
 * also after a failure. */
int coord_slot_open(struct coord *c, uint32_t slots, struct err *e);
void coord_slot_close(struct coord *c);
/* The job that was submitted last. */
struct coord_job *coord_slot_newest(struct coord *c);
/* Returns the job for a SUBMIT: its own slot's when it is sent again, else that of the first slot
 * in which no job runs. When all run, it is the newest job, which refuses the SUBMIT. */
struct coord_job *coord_slot_for(struct coord *c, peer_t from, const struct coord_submit *submit);
/* Returns the job of the worker that shows the pass. A request without one (NULL) is about the job
 * of the worker that joined over this connection; else the newest. key: the key that the peer has
 * shown. */
struct coord_job *coord_slot_of(struct coord *c, peer_t from, const uint64_t *pass,
                                const char *key);
/* Returns the job that a worker joins: the one that it has joined over this connection, else the
 * running job with the fewest workers. */
struct coord_job *coord_slot_to_join(struct coord *c, peer_t from);

#endif
