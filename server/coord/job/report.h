/* report.h: the report of a job that has ended as JSON text. What its keys mean:
 * deploy/manual/report.md. A job that failed or was stopped has what is known of it: a figure that
 * only the end of a finished job makes is null or absent. */
#ifndef SERVER_COORD_JOB_REPORT_H
#define SERVER_COORD_JOB_REPORT_H

#include "proto/base/err.h"
#include "proto/wire/wire.h"

struct coord_job;

/* Makes the report, stores it and begins to write it (output.h). The last epoch is cut into its
 * tasks. */
int coord_report_make(struct coord_job *j, struct err *e);
/* Adds a job that is over to the list of jobs.h, unless it is there. For a job that did not finish,
 * the report is made first. Without memory, the next call tries again. */
void coord_report_ended(struct coord_job *j);
/* Loads the stored report after a restart with the job over. */
int coord_report_load(struct coord_job *j, struct err *e);

/* Which stage limits the workers, from the sums of their figures. Pure.
 *
 * What the figures are, and how stage, share, next and speed-up follow from them:
 * worker/train/stats.h. */

struct coord_bottleneck {
    /* "read", "parse", "pull", "compute", "push" or "bound"; NULL: nothing was done */
    const char *stage, *next;
    double share; /* share of the lanes' time with a task that `stage` limits */
    /* how many times as fast the job would be without it, as far as can be told; INFINITY: no other
     * stage was seen */
    double speedup_if_free;
};

void coord_bottleneck_find(const struct wire_WORKER_BEAT *sum, struct coord_bottleneck *out);

#endif
