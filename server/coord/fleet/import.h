/* import.h: rows of files that come into a table between jobs, from the IMPORT before the first row
 * to the one behind the last.
 *
 *     IMPORT -> checked, its token stored -> rows (to the shards) -> IMPORT, done -> the token is
 *                                                |                    still the stored one, else
 *                                                +-> IMPORT, asks     it is refused
 *
 * Shards refuse rows of a table in which a job trains (embedding/engine/assign.c, 4). A job that
 * begins and ends between two rows would go unnoticed: it clears the table, or trains some of the
 * rows. So would a drop of the table. So a job that begins takes the token away, and so do a drop
 * and the next import. The importer asks every few seconds, and sends no more rows in vain.
 *
 * 1. An import is done only if no job has begun in its table, and no other import, since its first
 *    IMPORT. The token is stored, so that the coordinator's death changes nothing.
 *    [test: coord_an_import_is_done_where_no_job_has_begun]
 *
 *   key            value
 *   "import/N"     the token of the newest import into table number N; 0: a job has begun since
 *
 * Thread: the coordinator's loop. */
#ifndef SERVER_COORD_FLEET_IMPORT_H
#define SERVER_COORD_FLEET_IMPORT_H

#include "proto/base/err.h"
#include "proto/base/table_set.h"

#include <stdint.h>

struct coord_fleet;
struct wire_IMPORT;

/* The first IMPORT; no job trains in the table. MALFORMED; NOT_FOUND: the table is of no space that
 * is whole; BUSY: a space is being dropped. */
int coord_import_begin(struct coord_fleet *f, const struct wire_IMPORT *w, struct err *e);
/* The one behind the last row, or one that asks. STOPPED: 1; NOT_FOUND as above. */
int coord_import_done(struct coord_fleet *f, const struct wire_IMPORT *w, struct err *e);
/* A job begins in these tables (bit N: number N). IO: the store failed. */
int coord_import_break(struct coord_fleet *f, struct table_set tables, struct err *e);

#endif
