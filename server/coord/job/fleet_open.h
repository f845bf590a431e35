/* fleet_open.h: reads the fleet, and what rooms beside it keep of it, from the store. */
#ifndef SERVER_COORD_JOB_FLEET_OPEN_H
#define SERVER_COORD_JOB_FLEET_OPEN_H

#include "server/coord/fleet/fleet.h"

/* f is zeroed but for the pointers to states of other rooms; env and store are borrowed. IO,
 * CORRUPT, NOMEM: coord_fleet_close must be called even then. */
int coord_fleet_open(struct coord_fleet *f, const struct coord_options *options, struct env *env,
                     struct coord_store *store, struct err *e);
void coord_fleet_close(struct coord_fleet *f);

#endif
