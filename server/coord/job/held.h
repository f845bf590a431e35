/* held.h: what the servers hold of a submitted job's space, and whether the job may begin with it.
 * A job of a space without tables begins beside those of others (fleet/spaces.h).
 *
 * Thread: the coordinator's loop. */
#ifndef SERVER_COORD_JOB_HELD_H
#define SERVER_COORD_JOB_HELD_H

#include "server/coord/core/core.h"

#include <stdbool.h>

struct coord_submit;

/* Sets the error for a shard that a job waits for. CONFIG: it has come, and was refused. */
int coord_held_awaited(const struct coord_fleet *f, const struct coord_shard *s, struct err *e,
                       const char *what, const char *otherwise);
/* True when the job begins with the tables that the servers hold. */
bool coord_held_begins(const struct coord_submit *submit);
/* Finds the space of the job: the one of its name, if that holds tables, else one without tables. A
 * job that drops all tables takes the place of the only space. slot: the job that was in the slot.
 * CONFIG, NOINPUT, TOO_BIG, BUSY. */
int coord_held_choose(const struct coord_job *slot, const struct coord_submit *submit,
                      struct coord_job *j, struct err *e);
/* A job must not take over another job's rows unless it says so, nor begin with rows that are not
 * there. j: the job that was in the slot. UNAVAILABLE, CONFIG, EXISTS, NOINPUT. */
int coord_held_check(const struct coord_job *j, const struct coord_space *s,
                     const struct coord_submit *submit, const struct job *spec, struct err *e);

#endif
