/* moves_order.h: the request MOVES: an operator has tablets moved, or is told what would move.
 *
 *     MOVES --heat.h: bytes and load of each tablet--> plan.h: the goal --> moves.h --> answered
 *
 * Thread: the coordinator's loop. */
#ifndef SERVER_COORD_FLEET_MOVES_ORDER_H
#define SERVER_COORD_FLEET_MOVES_ORDER_H

#include "proto/base/env.h"
#include "proto/wire/wire.h"

struct coord_fleet;
struct coord_ask;

struct coord_moves_asker {
    peer_t peer; /* 0: none waits */
    uint64_t id;
    struct wire_MOVES order;
};

/* Handles a MOVES (core.h): answered when the figures of all shards are there, or refused. busy:
 * why no server may join or leave at once (add.h). BUSY: another one waits. */
int coord_moves_order(struct coord_fleet *f, struct coord_ask *a, const struct err *busy);

#endif
