/* report_job.h: the part of a report that identifies its job, for a reader with two reports: data,
 * settings, time and place. */
#ifndef SERVER_COORD_FIGURES_REPORT_JOB_H
#define SERVER_COORD_FIGURES_REPORT_JOB_H

#include "proto/base/json.h"
#include "server/coord/core/core.h"

/* Stores the coordinator's calendar under "begun" when a job is taken. False: the store failed. */
bool coord_report_job_begin(struct coord_job *j);
/* "data", "batch", "window", "began", "ended" (UTC; null where the calendar is not known),
 * "place". */
void coord_report_job_json(const struct coord_job *j, struct json *to);
/* "began" and "ended" alone. "ended" is null for a job that runs, and for one that an earlier
 * coordinator ended. */
void coord_report_job_dates(const struct coord_job *j, struct json *to);
/* A date in UTC; wall_s 0: null. */
void coord_report_job_date(struct json *to, const char *key, uint64_t wall_s);
/* "dim", "optimizer" and "lr" of a table. */
void coord_report_table_json(const struct table_schema *s, struct json *to);

#endif
