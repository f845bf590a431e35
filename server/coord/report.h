/* report.h: the report of a finished job as JSON text. What its keys mean:
 * deploy/manual/report.md. */
#ifndef SERVER_COORD_REPORT_H
#define SERVER_COORD_REPORT_H

#include "proto/base/err.h"
#include "proto/wire/wire.h"

struct coord;

/* Makes the report, stores it, hands it to options.write_report. */
int coord_report_make(struct coord *c, struct err *e);
/* After a restart with the job over: the stored report. */
int coord_report_load(struct coord *c, struct err *e);

/* Which stage limits the workers, from the sums of their figures. Pure.
 *
 * What the figures are, and how stage, share, next and speed-up follow from them:
 * worker/train/stats.h. */

struct coord_bottleneck {
    /* "read", "parse", "pull", "compute", "push" or "bound"; NULL: nothing was done */
    const char *stage, *next;
    double share; /* of the lanes' time with a task that `stage` limits */
    /* how many times as fast without it, as far as can be told; INFINITY: no other was seen */
    double speedup_if_free;
};

void coord_bottleneck_find(const struct wire_WORKER_BEAT *sum, struct coord_bottleneck *out);

#endif
