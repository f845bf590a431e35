/* times.h: the event times of a job: the latest that is accepted, the range of the log, and wrong
 * clocks.
 *
 * A stamp of the future would move the clocks of tablets forward, and they never go back. So the
 * limit is a day past the coordinator's calendar, since clocks differ and logs have time zones. It
 * is drawn once, when a job is taken, and stands in the job's text (proto/job/given.h): all
 * workers, a restarted coordinator and a job that goes on from a checkpoint clamp the same
 * examples. For a log that grows, each round draws its own limit, which is stored with the round
 * (grow.h).
 *
 * A wrong calendar of the coordinator shows in the clamped examples: when they are more than
 * COORD_CLAMPED_SHARE of all, the job ends with an error that names the limit.
 *
 * Thread: the coordinator's loop. */
#ifndef SERVER_COORD_WORK_TIMES_H
#define SERVER_COORD_WORK_TIMES_H

#include "proto/base/err.h"
#include "proto/base/json.h"
#include "proto/base/limits.h"
#include "proto/job/job.h"
#include "proto/wire/wire.h"

#include <stdint.h>

struct coord_fleet;
struct coord_job;
struct coord_worker;

#define COORD_CLAMPED_SHARE 0.01

/* As stored under "times". */
struct coord_times {
    uint64_t job;               /* its number */
    uint64_t examples, clamped; /* over the tasks that have reported */
    uint32_t first, last;       /* event times as they stand in the log; 0: none is known */
    int32_t apart_s;            /* how far the clock of `apart` is ahead of the coordinator's */
    uint32_t aparts;            /* workers reported for a wrong clock */
    char apart[LIMIT_NAME];     /* the first of them */
};

/* Returns the limit of a job that is taken now. was: the limit of the checkpoint that it goes on
 * from, or 0. 0: the job has no event times, or there is no calendar. */
uint32_t coord_times_limit(const struct coord_fleet *f, const struct job *job, uint32_t was);
/* Returns the limit of the rows that are trained now. */
uint32_t coord_times_limit_now(const struct coord_job *j);
/* Returns the limit of a round of a log that grows; 0: the job's limit holds. */
uint32_t coord_times_limit_of_round(const struct coord_job *j);
/* Loads the counts after a restart. */
int coord_times_load(struct coord_job *j, struct err *e);
/* Takes a task's first report. DATA: too many of the job's examples were clamped, which ends the
 * job. */
int coord_times_task(struct coord_job *j, const struct wire_TASK_DONE *q, struct err *e);
/* Checks the clock in a worker's beat, before the beat is kept, and reports a wrong one. */
void coord_times_beat(struct coord_job *j, const struct coord_worker *w,
                      const struct wire_WORKER_BEAT *q);
/* Adds "events": {"from", "to"} in the job's zone, {"first", "last"}, where they are known. */
void coord_times_json(const struct coord_job *j, struct json *to);
/* Adds a note on a wrong clock, if there is one. */
void coord_times_note(const struct coord_job *j, struct json *list);

#endif
