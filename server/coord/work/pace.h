/* pace.h: lanes go by measured speed, so that a slow worker does not hold the others.
 *
 * Under ssp every lane waits for the slowest one, so a job whose workers hold L lanes does L / step
 * batches a second, where `step` is the time of a batch on a lane of its slowest worker. Beats tell
 * a worker's step: the time in which its lanes read, pulled, computed and pushed, without that in
 * which they waited for other lanes or for work, by batch; over a window of at least
 * COORD_PACE_BATCHES batches in which it held the same lanes.
 *
 * The deal. A worker's lanes share its cores: with k lanes in place of n its step is taken to be
 * k / n of what it was. A worker that is not measured yet counts as fast as the fastest one. So it
 * is known beforehand how many batches a second the job would do with each deal of lanes that the
 * workers have places for. One deal does most. Of those that do more than 1 / COORD_PACE_GAIN of
 * that, the deal at hand is the one with most lanes, and it gives each worker a share.
 *   - A free lane goes to a worker that holds fewer lanes than its share, or is not measured yet.
 *   - At the end of a task its lane leaves the slowest worker, if that holds more than its share
 *     and the best deal would do COORD_PACE_GAIN times as many batches as the lanes do now: for
 *     the worker with the least step among those below their share, and for none where the deal
 *     has fewer lanes than are held.
 * So several slow workers lose their lanes one after the other, also where only the last one's
 * makes the job faster; and no lane leaves where that gains less. As a move ends the windows of
 * both workers, the next one of them comes COORD_PACE_BATCHES batches later at the earliest.
 *
 * The deal is made of the workers that are there, each time that a lane is to be given or may
 * leave: a heap gives each lane to the next worker. So a worker that had to give up lanes has them
 * back as soon as workers have gone, or have become slow, whose lanes made the job faster.
 *
 * What keeps lanes from going to and fro: a step that was measured stays known. For COORD_PACE_REST
 * windows, in an unchanged fleet, a worker that a lane has left counts as COORD_PACE_GAIN times as
 * slow with as many lanes as it had; so it gets one back only if the deal would not lose by it.
 * A worker that has no lane left gets one for a trial after as long, since it may have been slow
 * for a moment; after twice as long when it was slow again, up to eight times. A trial takes as
 * long as a window, so trials cost a job at most one part in COORD_PACE_REST.
 *
 * In the first two seconds of an epoch lanes are kept for the workers by their shares; under async
 * and bsp, which do not measure, by equal ones. Under ssp and async a lane also leaves the worker
 * with the most lanes, two at least, for a worker that has none: one that came later, or is to be
 * tried again.
 *
 * A lane leaves as at the end of an epoch: it has no task, it is fenced, and then it is free, kept
 * for the worker that gets it. So no batch is pushed twice, and none is lost. Never under bsp,
 * where a lane's clock waits for all lanes. Of a log of objects the last lane of a worker stays,
 * since it alone trains the objects that it holds. Steps are in memory: a restarted coordinator
 * measures anew. Pure, but for the clock and the count of moves, which is stored. Thread: the
 * coordinator's loop. */
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
/* A worker has come or gone. */
void coord_pace_changed(struct coord_job *j);
/* The number of lanes that the worker, which asks for one, may hold now. */
uint32_t coord_pace_share(struct coord_job *j, const struct coord_worker *w);
/* Lanes that were kept for a worker that did not come are free for all. */
void coord_pace_expire(struct coord_job *j);
/* True: the lane, whose task is pushed, leaves its worker. The caller closes it. */
bool coord_pace_leaves(struct coord_job *j, uint32_t lane);
/* Writes that lanes have left the worker, and why; false: none has, or it has recovered. */
bool coord_pace_text(const struct coord_job *j, const struct coord_worker *w, char *text,
                     size_t bytes);

#endif
