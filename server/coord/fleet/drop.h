/* drop.h: drops from all servers a field that the last job of its space does not have, and frees
 * its number; or all rows of a table, which stays in its space; or a whole space.
 *
 *     DROP of a field -> checked -+
 *     DROP of a table or a space  +-> ROWS: ROWS_GO to all -> answered, durably
 *       -> checked -> MARKS: it     |     -> NAMES: stored: names without the field; the table is
 *          is stored as half dropped|        whole again, and was emptied; the space is forgotten,
 *          (spaces.h), NAMES_SET to |        and its places in the map are free
 *          all -> answered ---------+     -> NAMES_SET to all -> answered
 *
 * A coordinator that dies on the way has forgotten nothing: the field, the table or the space is
 * still there by name, with its remaining rows, and can be dropped again. The same holds when a
 * server goes away; a server that has only missed the new names gets them later. Nothing but
 * another drop uses a space that is half dropped, also after the coordinator's store is lost.
 *
 * Jobs of other spaces may run.
 *
 * Invariants:
 *  1. A number is freed only when no shard has rows of it. [test: coord_drops_before_it_forgets]
 *  2. During a drop no job begins, and no checkpoint. [test: coord_drops_before_it_forgets]
 *  3. No row of a table or a space goes before every shard has the list that says so. [test:
 *     spaces_half_dropped_are_known_to_the_shards] */
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

enum coord_drop_what { COORD_DROP_FIELD, COORD_DROP_TABLE, COORD_DROP_SPACE };
enum coord_drop_step { COORD_DROP_MARKS, COORD_DROP_ROWS, COORD_DROP_NAMES };

struct coord_drop {
    peer_t asker; /* 0: nothing is dropped */
    uint64_t asker_id;
    enum coord_drop_what what;
    enum coord_drop_step step;
    struct coord_space *space; /* borrowed */
    uint32_t was;              /* its state before (enum coord_space_state) */
    enum legend_list list;     /* list that has the field */
    char name[LEGEND_NAME];    /* name of the field, the table or the space */
    uint64_t rows;             /* rows dropped so far */
    struct {                   /* the last answer, sent again for a repeated request */
        peer_t peer;
        uint64_t id, rows;
        int status;
        char text[ERR_TEXT_MAX];
    } answered;
};

/* Returns why rows of a space cannot go now, 0: nothing uses them. */
typedef int (*coord_drop_used)(void *context, const struct coord_space *s, struct err *e);
/* Handles a DROP (core.h): answered when all is done, or refused. */
int coord_drop_request(struct coord_fleet *f, struct coord_ask *a, coord_drop_used used,
                       void *context);
/* Gives up a drop that waits for a server which has fallen silent. Cheap. */
void coord_drop_step(struct coord_fleet *f);

#endif
