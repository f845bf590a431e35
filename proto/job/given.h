/* given.h: lines that the coordinator adds to a job's text when it accepts the job: an order of the
 * input where the file sets none, the clock changes of its zone, the latest event time that is
 * accepted, the lanes that fit its workers, and the names of its tables (legend.h). So every later
 * reader of the text has them, whatever its release and its zone files; and a program that does not
 * know such a line refuses the job.
 *
 *   data.shuffle.within: "3600s" # given by the coordinator
 *   data.zone_changes: "Asia/Kolkata 0+19800" # given by the coordinator
 *   data.time_limit: "1790000000" # given by the coordinator
 *   train.lanes_there: "8" # given by the coordinator
 *
 * Pure. */
#ifndef PROTO_JOB_GIVEN_H
#define PROTO_JOB_GIVEN_H

#include "proto/base/err.h"
#include "proto/job/job.h"

/* windows of a job whose rows age by event time and that sets no order */
#define GIVEN_WITHIN_S 3600u

/* Sets *seconds to the windows of event time within which an epoch is shuffled; 0: as the job says,
 * or over the whole log. goes_on: the job resumes a checkpoint, whose order, `was`, its batches
 * keep. CONFIG: the job sets an order in which none of its rows would age. */
int given_within(const struct job *job, bool goes_on, uint32_t was, uint32_t *seconds,
                 struct err *e);
struct given {
    uint32_t within;         /* 0: none */
    const struct zone *zone; /* UTC: no line; NULL: as in the text */
    uint32_t limit;          /* seconds since 1970; 0: none */
    uint32_t lanes;          /* 0: none */
};
/* The job's text with these lines, in place of those that were added before. *out the caller's
 * (free). NOMEM. */
int given_put(const char *text, size_t bytes, const struct given *g, char **out, size_t *out_bytes,
              struct err *e);
/* True when the text has a limit that the coordinator added: it is the limit of this job and must
 * not be used for another. */
bool given_limit(const char *text, size_t bytes);
/* The text as it was submitted: without the added lines and the names. *out the caller's (free).
 * NOMEM. */
int given_strip(const char *text, size_t bytes, char **out, size_t *out_bytes, struct err *e);

#endif
