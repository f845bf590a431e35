/* drop.h: a field that the last job does not have goes from all servers, and its number is free.
 *
 *     DROP -> checked -> ROWS_GO to all -> answered, durably -> names without it stored
 *          -> NAMES_SET to all -> answered
 *
 * Nothing of it is stored before its names are, so a coordinator that dies on the way has forgotten
 * nothing: the field is still there by name, with the rows that it had left, and is dropped again.
 * So it is where a server goes away; one that only has to hear the names hears them later.
 *
 * Invariants:
 *  1. A number is given back only when no shard has rows of it.
 *     [test: coord_drops_before_it_forgets]
 *  2. While one goes on no job begins, nor a checkpoint. [test: coord_drops_before_it_forgets] */
#ifndef SERVER_COORD_DROP_H
#define SERVER_COORD_DROP_H

#include "proto/base/env.h"
#include "proto/base/err.h"
#include "proto/job/legend.h"

#include <stdbool.h>
#include <stdint.h>

struct coord_fleet;
struct coord_ask;

struct coord_drop {
    peer_t asker; /* 0: nothing is dropped */
    uint64_t asker_id;
    enum legend_list list;
    char name[LEGEND_NAME];
    uint64_t rows; /* that have gone */
    struct {       /* the last answer, for who asks again */
        peer_t peer;
        uint64_t id, rows;
        int status;
        char text[ERR_TEXT_MAX];
    } answered;
};

/* A request (core.h): answered when all is done, or refused. used: code 0, or why the tables are in
 * use, which a new request is refused for. */
int coord_drop_request(struct coord_fleet *f, struct coord_ask *a, const struct err *used);
/* One that waits for a server which is not heard any more is given up. Cheap. */
void coord_drop_step(struct coord_fleet *f);

#endif
