/* grant.h: LANE_NEXT, "what next?": grants lanes to workers, with a fence on every shard before a
 * grant takes effect and before a lane leaves the clock.
 *
 * A question without a lane gets a lane (its answer waits for the fence), an index or evaluation
 * task, or WAIT. A question with a lane whose task is pushed gets the next task, or LEAVE when the
 * epoch has none left: the worker then asks without a lane. Asking twice is harmless: the same
 * grant or task is answered again, under the new request id. Thread: the coordinator's loop. */
#ifndef SERVER_COORD_WORK_GRANT_H
#define SERVER_COORD_WORK_GRANT_H

#include "proto/base/env.h"
#include "proto/wire/wire.h"

#include <stdbool.h>
#include <stdint.h>

struct coord_job;
struct coord_ask;

int coord_grant_next(struct coord_job *j, struct coord_ask *a);
/* Takes back the worker's work: its lanes are fenced (in async and ssp they leave the clock), its
 * tasks of index and evaluation are free again. */
void coord_grant_worker_gone(struct coord_job *j, uint64_t worker);
/* The lane belongs to the stretch of another member of the ring (ring_job.h), or the ring that
 * granted it is no more: it is fenced, and free then. */
void coord_grant_lane_moved(struct coord_job *j, uint32_t lane);
/* Fences every lane with a new generation: no worker holds one any more. Done when all lanes are
 * LANE_FREE. A lane without a task whose pushes are not all on the shards sends the job back
 * (back.h). */
void coord_grant_fence_all(struct coord_job *j);
/* True when training is over, or pauses, and every mark is where its lane ends: in a run whose
 * lanes were all fenced once. A restore sets marks back to those of its cut, and a checkpoint of a
 * job's end has none. */
bool coord_grant_marks_known(const struct coord_job *j);
/* Stores the generations and next batches of all lanes; or a task: as appended (promised: synced),
 * or as reported. False: the store failed, and nothing may be answered. */
bool coord_grant_lanes_put(struct coord_job *j);
bool coord_grant_task_put(struct coord_job *j, uint32_t index, bool promised);

#endif
