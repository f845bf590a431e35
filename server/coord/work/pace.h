/* pace.h: lanes go by measured speed, so that a slow worker does not hold the others.
 *
 * Under ssp every lane waits for the slowest one, so a job with L lanes does L / step batches a
 * second, where `step` is the time of a batch on a lane of its slowest worker. Beats tell a
 * worker's step: the time in which its lanes read, pulled, computed and pushed, without that in
 * which they waited for other lanes or for work, by batch; over a window of at least
 * COORD_PACE_BATCHES batches in which it held the same lanes.
 *
 * At the end of a task its lane leaves the slowest worker
 *   - for the worker that would then have the least step, if COORD_PACE_GAIN times that step is
 *     still less than the slowest worker's. A worker's lanes share its cores: with k + 1 lanes in
 *     place of k its step is taken to be (k + 1) / k of what it was;
 *   - for none, if no worker can take it with that gain and the other lanes alone would do
 *     COORD_PACE_GAIN times as many batches.
 * So a lane that has moved would move back only if the steps were measured wrong by
 * COORD_PACE_GAIN squared. And as a move ends the windows of both workers, the next one comes
 * COORD_PACE_BATCHES batches later at the earliest.
 *
 * A worker that has lost a lane so may hold those that are left to it, also in later epochs. After
 * COORD_PACE_REST windows it may have one more for a trial, then after twice as many, up to eight
 * times: it may have been slow for a moment. A trial takes as long as a window, so trials cost a
 * job at most one part in COORD_PACE_REST.
 *
 * Under ssp and async a lane also leaves the worker with the most lanes, two at least, for a worker
 * that has none: one that came later, or is to be tried again.
 *
 * A lane leaves as at the end of an epoch: it has no task, it is fenced, and then it is free, kept
 * for the worker that gets it. So no batch is pushed twice, and none is lost. Never under bsp,
 * where a lane's clock waits for all lanes. Of a log of objects the last lane of a worker stays,
 * since it alone trains the objects that it holds. Steps are in memory: a restarted coordinator
 * measures anew. Pure, but for the clock. Thread: the coordinator's loop. */
#ifndef SERVER_COORD_WORK_PACE_H
#define SERVER_COORD_WORK_PACE_H

#include "server/coord/core/worker.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct coord_job;

#define COORD_PACE_BATCHES 32u
#define COORD_PACE_GAIN 1.5
#define COORD_PACE_REST 16u

/* Called with a beat before it is kept. */
void coord_pace_beat(struct coord_job *j, struct coord_worker *w,
                     const struct wire_WORKER_BEAT *beat);
/* The worker has asked for a lane, and there was none for it: it has a place for one. */
void coord_pace_idle(struct coord_job *j, struct coord_worker *w);
/* A lane is the worker's now. */
void coord_pace_granted(struct coord_job *j, struct coord_worker *w);
/* The number of lanes that the worker may hold now. */
uint32_t coord_pace_share(const struct coord_job *j, const struct coord_worker *w);
/* Lanes that were kept for a worker that did not come are free for all. */
void coord_pace_expire(struct coord_job *j);
/* True: the lane, whose task is pushed, leaves its worker. The caller closes it. */
bool coord_pace_leaves(struct coord_job *j, uint32_t lane);
/* Writes why the worker holds fewer lanes than others; false: it does not. */
bool coord_pace_text(const struct coord_job *j, const struct coord_worker *w, char *text,
                     size_t bytes);

#endif
