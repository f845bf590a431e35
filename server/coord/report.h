/* report.h: the report of a finished job as JSON text. What its keys mean:
 * deploy/manual/report.md. */
#ifndef SERVER_COORD_REPORT_H
#define SERVER_COORD_REPORT_H

#include "proto/base/err.h"

#include <stdbool.h>
#include <stdint.h>

struct coord;

/* Makes the report, stores it, hands it to options.write_report. */
int coord_report_make(struct coord *c, struct err *e);
/* After a restart with the job over: the stored report. */
int coord_report_load(struct coord *c, struct err *e);

#endif
