/* add.h: servers that join a founded cluster, and those that leave it.
 *
 * A server with an empty folder, for which there is no place, waits (cluster.h: a stranger that
 * waits). An order gives its shards numbers: retired ones first, then new ones. With replicas R
 * each new shard has its R copies on servers of the order. A new shard leads no tablet until a plan
 * moves some there (moves.h). A server whose shards a plan has emptied leaves: their numbers are
 * retired, no job awaits it any more, and it may be switched off.
 *
 *     waits --ADD--> reserved --beat--> a shard --rebalance--> leads tablets
 *     retired <--no call is open-- leads none <--drain--'
 *
 * Thread: the coordinator's loop. */
#ifndef SERVER_COORD_FLEET_ADD_H
#define SERVER_COORD_FLEET_ADD_H

#include "proto/base/err.h"
#include "proto/base/json.h"

#include <stdbool.h>
#include <stdint.h>

struct coord_fleet;

/* Gives the shards of these servers (names, separated by blanks) numbers, stored. A server that has
 * shards keeps them, so that the order may be repeated. *told: {"shards": [{"shard", "server",
 * "index"}]}, of all these servers; the caller frees it. NOT_FOUND: one of them does not wait.
 * CONFIG: with replicas the servers do not suffice. UNAVAILABLE: no cluster is founded. TOO_BIG,
 * IO, NOMEM. */
int coord_add_order(struct coord_fleet *f, const char *servers, struct json **told, struct err *e);
/* True when such an order would give a shard a number now. */
bool coord_add_due(const struct coord_fleet *f, const char *servers);
/* Retires the shards of a server that a plan has emptied, and ends the plan: once no call is open.
 * job: it may go back to a cut of which these shards have a part; NULL: none may. */
void coord_add_step(struct coord_fleet *f, const char *job);

#endif
