/* report_job.h: which job a report is of, for whoever has two of them: its data, its settings, when
 * and where it ran. */
#ifndef SERVER_COORD_REPORT_JOB_H
#define SERVER_COORD_REPORT_JOB_H

#include "proto/base/json.h"
#include "server/coord/core.h"

/* A job is taken: stores the coordinator's calendar under "begun". False: the store failed. */
bool coord_report_job_begin(struct coord_job *j);
/* "data", "batch", "began", "ended" (UTC; null where the calendar is not known), "place". */
void coord_report_job_json(const struct coord_job *j, struct json *to);
/* "began" and "ended" alone; "ended" is null of a job that runs, and of one that a coordinator
 * before this one ended. */
void coord_report_job_dates(const struct coord_job *j, struct json *to);
/* "dim", "optimizer" and "lr" of a table. */
void coord_report_table_json(const struct table_schema *s, struct json *to);

#endif
