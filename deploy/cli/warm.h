/* warm.h: a run that begins with the tables of an earlier one: `warm_start: DIR` of a job, `shoal
 * local --warm-start DIR`.
 *
 * The servers of the new run get copies of the earlier run's folders, and its coordinator the
 * earlier one's state, which knows which shard has which tablets: all then is as in a fleet, where
 * a second job finds what the first has left with the servers. So rows and optimizer state go on,
 * of the sparse tables and of the network. A table whose schema differs (width, tablets, initial
 * values, optimizer) is refused by the servers, and there must be as many servers as there were.
 * The earlier folder is only read. */
#ifndef DEPLOY_CLI_WARM_H
#define DEPLOY_CLI_WARM_H

#include "proto/base/err.h"

/* Copies what a run in folder `to` with so many servers needs of the ended run in `from`. NOINPUT:
 * no such run, or its job has not ended; CONFIG: another number of servers, or durability memory,
 * which leaves nothing; BUSY: it is still running; CANTCREATE, IO. */
int warm_copy(const char *from, const char *to, int servers, struct err *e);

#endif
