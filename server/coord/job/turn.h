/* turn.h: what the fleet knows of one space at a time: what its tables have learnt (work/taken.h),
 * and the fields of which rows are half dropped (core/fresh.h). The store, and the first shard,
 * have them for the space at hand, which is that of the last job. When a job of another space
 * comes, those of the space that rests are put away, and its own are taken out:
 *
 *   key                    value, in the space's part of the store, while it rests
 *   "rest/taken"           the list that its tables have learnt, as in a checkpoint
 *   "rest/fresh_fields"    the half dropped fields
 *
 * Those of a space that holds no tables, or was dropped, are not looked at. A list that is not
 * there although the space holds tables is not known: it counts as UNSURE (taken.h). So it is with
 * the lists of resting spaces after the store is lost.
 *
 * Thread: the coordinator's loop. */
#ifndef SERVER_COORD_JOB_TURN_H
#define SERVER_COORD_JOB_TURN_H

#include "proto/base/err.h"

struct coord_fleet;
struct coord_space;

/* Takes the space to hand, all in the event's transaction. NOMEM, IO, CORRUPT: the state of neither
 * is lost, and a turn back restores it. */
int coord_turn(struct coord_fleet *f, struct coord_space *to, struct err *e);
#endif
