/* stop.h: `shoal stop`: an order that the job is to end.
 *
 *   the first one:   a log that grows -> its good end: trained behind the batches given out, DONE
 *                    trains, and has a folder of checkpoints -> one more, then FAILED
 *                    any other -> FAILED at once
 *   a second one:    FAILED at once
 *
 * FAILED with the status STOPPED is told as "stopped" (phase.h). The last checkpoint is that of
 * checkpoint.at_end (checkpoint.h), made while the job trains, so the job can be gone on with at
 * the very batch. It is tried as often as that, for STOP_MAX_NS at most; training goes on
 * meanwhile. The order is stored: a coordinator that starts again obeys it.
 *
 * Thread: the coordinator's loop. */
#ifndef SERVER_COORD_STOP_H
#define SERVER_COORD_STOP_H

#include "proto/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct coord_job;

struct coord_stop {
    bool asked;        /* the job is to end; stored */
    uint64_t id;       /* by the question of this id; stored */
    uint64_t since_ns; /* that this coordinator knows it */
};

/* Whether the job at hand was told to stop. */
int coord_stop_load(struct coord_job *j, struct err *e);
/* By the question of this id. True: the job ends soon, in order. False: nothing is to be waited
 * for, or it was told before: the caller ends it. */
bool coord_stop_order(struct coord_job *j, uint64_t id);
/* Ends the job once its last checkpoint is there, or is not waited for any longer. */
void coord_stop_step(struct coord_job *j);
/* A sentence for the status; false: no order. */
bool coord_stop_waits(const struct coord_job *j, char *text, size_t bytes);

#endif
