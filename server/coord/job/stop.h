/* stop.h: `shoal stop`: an order to end the job.
 *
 *   the first order: a log that grows -> its good end: the batches given out are trained, then DONE
 *                    trains, and has a folder of checkpoints -> one more, then FAILED
 *                    any other -> FAILED at once
 *   a second order:  FAILED at once
 *
 * FAILED with the status STOPPED is reported as "stopped" (phase.h). The last checkpoint is that of
 * checkpoint.at_end (checkpoint.h), made while the job trains, so the job can be resumed at the
 * very batch. It is tried as often as that one, for STOP_MAX_NS at most; training goes on
 * meanwhile. A job whose workers keep the network, and that has none, ends without it. The order
 * is stored: a coordinator that starts again obeys it.
 *
 * Thread: the coordinator's loop. */
#ifndef SERVER_COORD_JOB_STOP_H
#define SERVER_COORD_JOB_STOP_H

#include "proto/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct coord_job;

/* Loads the stored order of the job at hand, if there is one. */
int coord_stop_load(struct coord_job *j, struct err *e);
/* Takes the order of the request `id`. True: the job ends soon, in order. False: there is nothing
 * to wait for, or an earlier request has ordered it; the caller ends the job. */
bool coord_stop_order(struct coord_job *j, uint64_t id);
/* Ends the job once its last checkpoint is complete or no longer waited for. */
void coord_stop_step(struct coord_job *j);
/* Writes a sentence for the status; false: there is no order. */
bool coord_stop_waits(const struct coord_job *j, char *text, size_t bytes);

#endif
