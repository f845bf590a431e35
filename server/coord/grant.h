/* grant.h: "what next?": lanes to workers, with a fence on every shard before a grant takes
 * effect and before a lane leaves the clock.
 *
 * A question without a lane either gets a lane (its answer waits for the fence), an index or
 * evaluation task, or WAIT. A question with a lane whose task is pushed gets the next task, or
 * LEAVE when the epoch has none left: the worker then asks without a lane. Asking twice is
 * harmless: the same grant or task is answered again, under the new request id. Thread: the
 * coordinator's loop. */
#ifndef SERVER_COORD_GRANT_H
#define SERVER_COORD_GRANT_H

#include "proto/base/env.h"
#include "proto/wire/wire.h"

#include <stdbool.h>
#include <stdint.h>

struct coord_job;
struct coord_ask;

int coord_grant_next(struct coord_job *j, struct coord_ask *a);
/* Takes back what the worker has: lanes are fenced (in async and ssp they leave the clock), tasks
 * of index and evaluation are free again. */
void coord_grant_worker_gone(struct coord_job *j, uint64_t worker);
/* Fences every lane with a new generation: nobody holds one, whatever was before. Over when all
 * lanes are LANE_FREE. A lane without a task whose pushes are not all there sends the job back
 * (back.h). */
void coord_grant_fence_all(struct coord_job *j);
/* Whether training is over, for now or for good, and all marks are where the lanes end: of a run
 * whose lanes were all fenced once. A restore takes marks back to those of its cut, and a
 * checkpoint of a job's end has none. */
bool coord_grant_marks_known(const struct coord_job *j);
/* Stores generations and next batches of all lanes; a task as appended (promised: synced) and as
 * reported. False: the store failed, answer nothing. */
bool coord_grant_lanes_put(struct coord_job *j);
bool coord_grant_task_put(struct coord_job *j, uint32_t index, bool promised);

#endif
