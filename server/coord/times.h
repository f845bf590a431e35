/* times.h: event times of a job: which is the latest that is believed, what range the log has, and
 * whose calendar is wrong.
 *
 * A stamp of the future would move the clocks of tablets forward, and they never go back. So a day
 * past the coordinator's calendar is the limit: clocks differ, and logs have time zones. It is
 * drawn once, when a job is taken, and stands in the job's text (proto/job/given.h): all workers, a
 * coordinator that comes back and a job that goes on from a checkpoint clamp the same examples. Of
 * a log that grows each round draws its own, which is stored with the round (grow.h).
 *
 * A wrong calendar of the coordinator shows in the examples that are clamped: more than
 * COORD_CLAMPED_SHARE of them end the job, which names the limit.
 *
 * Thread: the coordinator's loop. */
#ifndef SERVER_COORD_TIMES_H
#define SERVER_COORD_TIMES_H

#include "proto/base/err.h"
#include "proto/base/json.h"
#include "proto/base/limits.h"
#include "proto/job/job.h"
#include "proto/wire/wire.h"

#include <stdint.h>

struct coord_fleet;
struct coord_job;
struct coord_job;
struct coord_worker;

#define COORD_CLAMPED_SHARE 0.01

/* As stored under "times". */
struct coord_times {
    uint64_t job;               /* number of it */
    uint64_t examples, clamped; /* of the tasks that are reported */
    uint32_t first, last;       /* event times as they stand in the log; 0: none is known */
    int32_t apart_s;            /* the clock of `apart` is so far ahead of the coordinator's */
    uint32_t aparts;            /* workers of which that was told */
    char apart[LIMIT_NAME];     /* the first of them */
};

/* The limit of a job that is taken now, `was`: of the checkpoint that it goes on from, or 0. 0: the
 * job has no event times, or there is no calendar. */
uint32_t coord_times_limit(const struct coord_fleet *f, const struct job *job, uint32_t was);
/* The limit of the rows that are trained now. */
uint32_t coord_times_limit_now(const struct coord_job *j);
/* The limit of a round of a log that grows; 0: the job's holds. */
uint32_t coord_times_limit_of_round(const struct coord_job *j);
/* After a restart. */
int coord_times_load(struct coord_job *j, struct err *e);
/* A task's first report. DATA: too many of the job's examples were clamped, which ends it. */
int coord_times_task(struct coord_job *j, const struct wire_TASK_DONE *q, struct err *e);
/* A worker's beat, before it is kept: says so where its clock is wrong. */
void coord_times_beat(struct coord_job *j, const struct coord_worker *w,
                      const struct wire_WORKER_BEAT *q);
/* "events": {"from", "to"} in the job's zone, {"first", "last"}, where they are known. */
void coord_times_json(const struct coord_job *j, struct json *to);
/* A note on a wrong clock, or none. */
void coord_times_note(const struct coord_job *j, struct json *list);

#endif
