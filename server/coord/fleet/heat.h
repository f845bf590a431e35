/* heat.h: rows' bytes and load of every tablet of the map, as the shards that lead them tell it
 * (server/shard/heat.h). Nothing of it is stored.
 *
 *     coord_heat_ask -> HEAT for each table, to all shards -> done: the figures are in heat.of
 *
 * One collection runs at a time. It ends with an error when the map changes meanwhile, when a shard
 * refuses, and after COORD_HEAT_NS, so a shard that is away delays a plan no longer. Thread: the
 * coordinator's loop. */
#ifndef SERVER_COORD_FLEET_HEAT_H
#define SERVER_COORD_FLEET_HEAT_H

#include "proto/base/err.h"

#include <stdbool.h>
#include <stdint.h>

struct coord_fleet;

#define COORD_HEAT_NS UINT64_C(10000000000)

struct coord_heat_tablet {
    uint64_t bytes; /* bytes of its rows */
    uint64_t load;  /* nanoseconds of pulls and pushes, as a decaying sum */
};

/* status 0: heat.of has the figures, until the next coord_heat_ask. */
typedef void (*coord_heat_done)(void *context, int status, const char *text);

struct coord_heat {
    struct coord_heat_tablet *of; /* owned, (tablets) by global tablet number; NULL: none yet */
    uint32_t tablets;
    uint64_t map_epoch;   /* the map that they are of */
    uint32_t table;       /* the table that is asked for */
    uint64_t asked_ns;    /* since when a collection runs; 0: none does */
    bool complete;        /* `of` has the figures of all shards */
    coord_heat_done done; /* called at the end of this collection; NULL: nothing waits for it */
    void *context;
};

/* Asks all shards. done is called once, later; NULL: nothing waits for the figures, and another one
 * that asks meanwhile gets them. BUSY: a collection runs already. UNAVAILABLE: there is no map yet.
 * NOMEM. */
int coord_heat_ask(struct coord_fleet *f, coord_heat_done done, void *context, struct err *e);
/* Ends a collection that takes too long. Cheap. */
void coord_heat_tick(struct coord_fleet *f);
void coord_heat_close(struct coord_fleet *f);

#endif
