/* drop.h: drops from all servers a field that the last job of its space does not have, and frees
 * its number; or a whole space.
 *
 *     DROP -> checked -> a space is stored as half dropped (spaces.h)
 *          -> ROWS_GO to all -> answered, durably -> names without it stored; a space is
 *                                                    forgotten, and its places in the map are free
 *          -> NAMES_SET to all -> answered
 *
 * Nothing else is stored before the new names are. A coordinator that dies on the way has forgotten
 * nothing: the field or the space is still there by name, with its remaining rows, and can be
 * dropped again. The same holds when a server goes away; a server that has only missed the new
 * names gets them later. Nothing but another drop uses a space that is half dropped.
 *
 * Invariants:
 *  1. A number is freed only when no shard has rows of it. [test: coord_drops_before_it_forgets]
 *  2. During a drop no job begins, and no checkpoint. [test: coord_drops_before_it_forgets] */
#ifndef SERVER_COORD_FLEET_DROP_H
#define SERVER_COORD_FLEET_DROP_H

#include "proto/base/env.h"
#include "proto/base/err.h"
#include "proto/job/legend.h"

#include <stdbool.h>
#include <stdint.h>

struct coord_fleet;
struct coord_space;
struct coord_ask;

struct coord_drop {
    peer_t asker; /* 0: nothing is dropped */
    uint64_t asker_id;
    struct coord_space *space; /* borrowed */
    bool whole;                /* all of it */
    enum legend_list list;
    char name[LEGEND_NAME]; /* of the field, or of the space */
    uint64_t rows;          /* rows dropped so far */
    struct {                /* the last answer, sent again for a repeated request */
        peer_t peer;
        uint64_t id, rows;
        int status;
        char text[ERR_TEXT_MAX];
    } answered;
};

/* Handles a DROP (core.h): answered when all is done, or refused. used: code 0, or why the tables
 * are in use, for which a new request is refused. */
int coord_drop_request(struct coord_fleet *f, struct coord_ask *a, const struct err *used);
/* Gives up a drop that waits for a server which has fallen silent. Cheap. */
void coord_drop_step(struct coord_fleet *f);

#endif
