/* names_job.h: the names of a job's fields and those of the fleet (fleet/names.h). */
#ifndef SERVER_COORD_CORE_NAMES_JOB_H
#define SERVER_COORD_CORE_NAMES_JOB_H

#include "server/coord/core/core.h"

#include <stdbool.h>

/* Takes the names of the last job, which is done, into a store of a release that kept none. */
void coord_names_adopt(struct coord_job *j);
/* True when all shards have the names of the job at hand; otherwise begins to tell them. All shards
 * are set up. */
bool coord_names_settled(struct coord_job *j);
/* Sets and returns UNAVAILABLE: not all servers have told the names that they know. */
int coord_names_unsure(struct err *e);
/* Returns the names of the tables that the servers hold, for a job that begins with them.
 * UNAVAILABLE: a server that may know newer ones has not come yet. */
int coord_names_of_fleet(const struct coord_job *j, const struct legend **out, struct err *e);

#endif
