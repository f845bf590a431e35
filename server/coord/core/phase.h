/* phase.h: the phase of a job. The diagram is in flow.h; here it is a table, and each move is
 * asserted against it (proto/base/sm.h). Thread: the coordinator's loop. */
#ifndef SERVER_COORD_CORE_PHASE_H
#define SERVER_COORD_CORE_PHASE_H

#include "proto/base/sm.h"
#include "server/coord/core/core.h"

extern const struct sm coord_phase_moves;
extern const struct sm coord_phase_restarts; /* from what was stored */

bool coord_phase_running(const struct coord_job *j);   /* submitted and not over */
bool coord_phase_over(const struct coord_job *j);      /* over, or as good as over: workers leave */
uint32_t coord_phase_state(const struct coord_job *j); /* enum wire_job_state */
/* Returns the name of the job's phase; "stopped" for a failed job whose status is STOPPED. */
const char *coord_phase_name(const struct coord_job *j);
const char *coord_phase_text(enum coord_phase phase);
/* Enters a phase and stores it; false: the store failed. */
bool coord_phase_enter(struct coord_job *j, enum coord_phase phase);
/* Enters a phase after a restart. It is not stored, since another restart would do the same
 * again. */
void coord_phase_restart(struct coord_job *j, enum coord_phase phase);
/* Stores the job's progress. */
bool coord_phase_put(struct coord_job *j);
/* Returns how long the epoch at hand has been trained, also before a restart. */
uint64_t coord_phase_trained_ns(const struct coord_job *j);
/* Returns the seconds that the job has been trained for, in all its epochs. */
double coord_phase_trained_s(const struct coord_job *j);

/* Ends the job with a status and a sentence; does nothing when the job is over already. STOPPED: an
 * order has ended it, and nothing failed. Always returns false, so that a step can return it: no
 * step can go on. Any part of the coordinator may find that the job cannot go on; j->end takes back
 * what the parts have begun. */
bool coord_end_fail(struct coord_job *j, int status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The job wants to go back to its newest checkpoint, and why (job/back.h); the first reason
 * stays. */
void coord_back_want(struct coord_job *j, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
