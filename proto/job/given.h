/* given.h: what the coordinator adds to a job's text when it takes it: an order of the input that
 * the file leaves open, the changes of its zone's clocks, the latest event time that is believed,
 * and the names of its tables (legend.h).
 * So whoever reads the text later, of whatever release and with whatever zone files, knows it; and
 * a program that would not heed it refuses the job.
 *
 *   data.shuffle.within: "3600s" # given by the coordinator
 *   data.zone_changes: "Asia/Kolkata 0+19800" # given by the coordinator
 *   data.time_limit: "1790000000" # given by the coordinator
 *
 * Pure. */
#ifndef PROTO_JOB_GIVEN_H
#define PROTO_JOB_GIVEN_H

#include "proto/base/err.h"
#include "proto/job/job.h"

#define GIVEN_WITHIN_S 3600u /* windows of a job whose rows go by event time, and says no order */

/* In which windows of event time an epoch is drawn, in seconds; 0: as the job says, or over the
 * whole log. goes_on: with a checkpoint, whose order, `was`, its batches keep. CONFIG: the job
 * names an order in which none of its rows would age. */
int given_within(const struct job *job, bool goes_on, uint32_t was, uint32_t *seconds,
                 struct err *e);
struct given {
    uint32_t within;         /* 0: none */
    const struct zone *zone; /* UTC: none; NULL: as it is in the text */
    uint32_t limit;          /* seconds since 1970; 0: none */
};
/* The job's text with that; in place of what was given before of these. *out the caller's (free).
 * NOMEM. */
int given_put(const char *text, size_t bytes, const struct given *g, char **out, size_t *out_bytes,
              struct err *e);
/* Whether the text has a limit that was given: of the job that it was taken for, not of another. */
bool given_limit(const char *text, size_t bytes);
/* The text as it was submitted: without what was given and names. *out the caller's (free).
 * NOMEM. */
int given_strip(const char *text, size_t bytes, char **out, size_t *out_bytes, struct err *e);

#endif
