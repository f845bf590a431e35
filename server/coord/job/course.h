/* course.h: a job enters a phase, and takes back what its parts have begun. */
#ifndef SERVER_COORD_JOB_COURSE_H
#define SERVER_COORD_JOB_COURSE_H

#include "server/coord/core/core.h"

#include <stdbool.h>

/* Enters a phase whose conditions hold, and stores it; false: the store failed. */
bool coord_course_enter(struct coord_job *j, enum coord_phase phase);
/* Takes back the job's requests to the shards: cuts, a checkpoint, fences, setting up. */
void coord_course_take_back(struct coord_job *j, const char *why);
/* Takes back all of a job that fails. */
extern const struct coord_end coord_course_end;

#endif
