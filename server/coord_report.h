/* coord_report.h: the report of a finished job and the status of a running one, as JSON text. Keys as in the design,
 * section 7; more may be there. */
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
/* The caller frees. NULL when out of memory. */
char *coord_report_status(struct coord *c);

#endif
