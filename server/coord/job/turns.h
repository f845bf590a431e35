/* turns.h: which job begins next. A job that is submitted begins at once, unless it has to wait for
 * its turn (figures/queue.h):
 *
 *   - a job of its space runs, or waits before it: jobs of one space begin in their order
 *   - as many jobs run as the coordinator's file allows (`jobs`), or would with those that wait
 *   - it drops what all spaces hold (fresh: all), or another job is about to
 *
 * Of those that wait each begins as soon as none of this holds, the oldest first: one that waits
 * for its space holds back none of other spaces. It is taken as a SUBMIT is, with a look at its
 * folders. What can be checked before its turn is checked when it is submitted; what it then finds,
 * such as rows that it does not begin with, refuses it at its turn. Where the error may pass
 * (servers that come, a checkpoint that is being made) it is tried again when something of that has
 * changed, or after a pause that doubles up to 32 s. A job that is refused, or tried in vain, sends
 * nothing to the shards.
 *
 * Thread: the coordinator's loop. */
#ifndef SERVER_COORD_JOB_TURNS_H
#define SERVER_COORD_JOB_TURNS_H

#include "proto/base/err.h"
#include "server/coord/fleet/fleet.h"

#include <stdbool.h>
#include <stdint.h>

struct coord;
struct coord_job;
struct coord_submit;

/* Finds the slot for a SUBMIT: its job's if it is sent again, else a free one. *out NULL: the job
 * waits for its turn. Errors of job_parse. */
int coord_turns_slot(struct coord *c, peer_t from, const struct coord_submit *submit,
                     struct coord_job **out, struct err *e);
/* Takes the job of a SUBMIT into the queue; the same one again has its number already. said: a
 * sentence for the person that submits it. Errors of job_parse; BUSY: the queue is full. */
int coord_turns_take(struct coord *c, const struct coord_ask *a, const struct coord_submit *submit,
                     uint64_t *number, char said[ERR_TEXT_MAX], struct err *e);
/* Takes a job out that waits: it ends as stopped. False: none with this number waits. */
bool coord_turns_stop(struct coord *c, uint64_t number);
/* Lets the jobs begin whose turn has come. */
void coord_turns_step(struct coord *c);

#endif
