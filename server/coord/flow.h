/* flow.h: the life of a job.
 *
 *   NONE/DONE/FAILED -coord_submit-> WAITING -shards and workers are there-> INDEX -rows of all
 *   splits known->
 * TABLES -all declared, map made-> SETUP -every shard has map, tables, run-> LANES -every lane
 * fenced-> TRAIN
 *
 *   TRAIN -all tasks pushed, lanes closed-> EVAL -gain-> CUT -> TRAIN (next epoch) ... -> [RESTORE]
 *   -> [TEST] -> DIGEST
 * -> FINISH -> DONE (no valid split: EVAL is skipped; no gain: CUT is skipped) best epoch is not
 * the last workers have left any -coord_flow_fail-> FAILED
 *
 * coord_flow_step is the one place that moves on; callbacks and messages only note what has come.
 * Every change of phase is stored before it takes effect. After a restart: SETUP, then LANES and
 * TRAIN with the epoch's stored tasks, or the phase that was (CUT: EVAL again). A job from a
 * checkpoint: the same as after a restart, with what the checkpoint says in the store's place; in
 * SETUP shards load their tablets instead of opening an empty run. Thread: the coordinator's
 * loop. */
#ifndef SERVER_COORD_FLOW_H
#define SERVER_COORD_FLOW_H

#include "proto/base/env.h"
#include "proto/base/err.h"
#include "proto/wire/wire.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct coord;

/* Reads the state back; the job goes on from where it was. */
int coord_flow_open(struct coord *c, struct err *e);
void coord_flow_close(struct coord *c);
void coord_flow_step(struct coord *c);
/* Ends the job with a status and a sentence; nothing when it is over already. */
void coord_flow_fail(struct coord *c, int status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
bool coord_flow_running(const struct coord *c);   /* submitted and not over */
uint32_t coord_flow_state(const struct coord *c); /* enum wire_job_state */

#endif
