/* member_numbers.h: reads back which shard numbers there are, for member.c. */
#ifndef SERVER_COORD_FLEET_MEMBER_NUMBERS_H
#define SERVER_COORD_FLEET_MEMBER_NUMBERS_H

#include "server/coord/fleet/member.h"

/* Fills in m->shards and which numbers are retired. Without a stored value `shards` stays, or is
 * the count of the numbers that an older release gave. CORRUPT, IO, NOMEM. */
int coord_member_numbers_load(struct coord_members *m, struct coord_store *store, struct err *e);

#endif
