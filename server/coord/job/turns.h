/* turns.h: which job begins next. A job that is submitted while another one runs, or while others
 * wait, waits for its turn (figures/queue.h). When the job at hand has ended, the oldest one that
 * waits begins: it is taken as a SUBMIT is, with a look at its folders. What can be checked before
 * its turn is checked when it is submitted; what it then finds, such as rows that it does not begin
 * with, refuses it at its turn, and the next one's turn comes. Where the error may pass (servers
 * that come, a checkpoint that is being made) it is tried again.
 *
 * Thread: the coordinator's loop. */
#ifndef SERVER_COORD_JOB_TURNS_H
#define SERVER_COORD_JOB_TURNS_H

#include "proto/base/err.h"
#include "server/coord/fleet/fleet.h"

#include <stdbool.h>
#include <stdint.h>

struct coord;
struct coord_submit;

/* True when a job that is submitted now waits for its turn. */
bool coord_turns_wait(const struct coord *c);
/* Takes the job of a SUBMIT into the queue; the same one again has its number already. said: a
 * sentence for the person that submits it. Errors of job_parse; BUSY: the queue is full. */
int coord_turns_take(struct coord *c, const struct coord_ask *a, const struct coord_submit *submit,
                     uint64_t *number, char said[ERR_TEXT_MAX], struct err *e);
/* Takes a job out that waits: it ends as stopped. False: none with this number waits. */
bool coord_turns_stop(struct coord *c, uint64_t number);
/* Lets the next job begin when its turn has come. */
void coord_turns_step(struct coord *c);

#endif
