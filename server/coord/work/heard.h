/* heard.h: the worker that a request comes from. */
#ifndef SERVER_COORD_WORK_HEARD_H
#define SERVER_COORD_WORK_HEARD_H

#include "server/coord/core/core.h"

#include <stdint.h>

/* Finds the worker that shows this pass (a->worker) and renews its lease. UNAVAILABLE: no live
 * worker has the pass. */
int coord_heard(struct coord_job *j, struct coord_ask *a, uint64_t pass);

/* A worker has been heard: notes how many there are, if they are the most so far. */
void coord_heard_count(struct coord_job *j);

#endif
