/* add.h: servers that join a founded cluster, and those that leave it.
 *
 * A server with an empty folder, for which there is no place, waits (cluster.h: a stranger that
 * waits). An order gives its shards numbers that no shard has had; once a cluster has had
 * LIMIT_SHARDS, retired ones are given again. With replicas R each new shard has its R copies on
 * servers of the order. A new shard leads no tablet until a plan moves some there (moves.h). A
 * server whose shards a plan has emptied leaves: their numbers are retired, no job awaits it any
 * more, and it may be switched off.
 *
 *     waits --ADD--> reserved --beat--> a shard --rebalance--> leads tablets
 *     retired <--no call is open-- leads none <--drain--'
 *     retired <--drain-- leads none, and is away or never came: open calls go on without it
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
 * "index"}]}, of all these servers; the caller frees it. busy: why no shard may join or leave now,
 * which then refuses an order that would give one a number; code 0: it may. NOT_FOUND: one of them
 * does not wait. CONFIG: with replicas the servers do not suffice. UNAVAILABLE: no cluster is
 * founded. TOO_BIG, IO, NOMEM. */
int coord_add_order(struct coord_fleet *f, const char *servers, const struct err *busy,
                    struct json **told, struct err *e);
/* True when the server has shards, not all of the cluster, none of which leads a tablet or is to
 * get one, and all are away: they have not come since they were added, or are silent for a
 * lease. */
bool coord_add_absent(const struct coord_fleet *f, const char *server);
/* Retires the shards of such a server at once. *told: {"retired": [{"shard"}]}; busy: as above.
 * IO. */
int coord_add_take_back(struct coord_fleet *f, const char *server, const struct err *busy,
                        struct json **told, struct err *e);
/* The ways out for a server that is away, as coord_member_ways; for one without tablets: that. */
const char *coord_add_ways(const struct coord_fleet *f, const char *server, char out[ERR_TEXT_MAX]);
/* Retires the shards of a server that a plan has emptied, and ends the plan: once no call is open.
 * No job may go back to a cut of which these shards have a part. */
void coord_add_step(struct coord_fleet *f);

#endif
