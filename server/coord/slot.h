/* slot.h: the jobs that are at hand, one in each slot, and which of them a request is about.
 *
 * A daemon has one slot (coord_options.jobs): no message names a job yet, so a second job has no
 * door. What an operator asks for is about the newest job. */
#ifndef SERVER_COORD_SLOT_H
#define SERVER_COORD_SLOT_H

#include "proto/base/env.h"
#include "proto/base/err.h"

#include <stdint.h>

struct coord;
struct coord_job;
struct coord_submit;

#define COORD_EACH_JOB(c, j) for (struct coord_job *j = (c)->slot; j < (c)->slot + (c)->slots; j++)

/* Makes so many slots, and reads back the job of each. IO, CORRUPT, NOMEM: coord_slot_close all the
 * same. */
int coord_slot_open(struct coord *c, uint32_t slots, struct err *e);
void coord_slot_close(struct coord *c);
/* The job that was submitted last. */
struct coord_job *coord_slot_newest(struct coord *c);
/* Where a SUBMIT goes: to its own slot when it is sent again, else to the first slot in which no
 * job runs. Where all run, to the newest, whose job refuses it. */
struct coord_job *coord_slot_for(struct coord *c, peer_t from, const struct coord_submit *submit);
/* The job of the worker that shows the pass, or, where the request has none (NULL), that joined
 * over this connection; else the newest. key: that the peer has shown. */
struct coord_job *coord_slot_of(struct coord *c, peer_t from, const uint64_t *pass,
                                const char *key);
/* The job that a worker joins: the one that it has joined over this connection, else the one that
 * runs and has fewest workers. */
struct coord_job *coord_slot_to_join(struct coord *c, peer_t from);

#endif
