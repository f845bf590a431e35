/* saved.h: the coordinator's part of a checkpoint, NAME/coordinator.state: the rows of the store
 * (store.h) that a coordinator which never saw the job needs to resume it at the very batch.
 *
 *   "SHOALCS1", then pairs: key bytes u32, value bytes u32, key, value; little-endian, packed
 *
 * The rows are those that a restart reads: task/N of the epoch at hand, epoch/N, valid/N, curve/N
 * and so on, as the store has them at the instant of the cut. Some are made at that instant:
 * progress, lanes, grow/0, replay/0, taken/0. A job begins from a checkpoint as a coordinator
 * restarts: the rows are put into the store under the job's number and its new run, and are loaded
 * from there.
 *
 * The best evaluation so far and the misses since are saved too, so that early stopping goes on.
 * The cut of the best evaluation is not saved, since a checkpoint does not have its tables: `kept`
 * is then the best of the later evaluations. */
#ifndef SERVER_COORD_KEEP_SAVED_H
#define SERVER_COORD_KEEP_SAVED_H

#include "proto/job/job.h"
#include "server/coord/core/core.h"

/* True when a job in this phase can be saved and resumed. */
bool coord_saved_phase(uint32_t phase);
/* True when the tables, and so the checkpoint's, are those of the kept epoch. */
bool coord_saved_tables_kept(uint32_t phase);
/* Returns the phase that is saved of the job at hand; for a job that is done, that of its end. */
enum coord_phase coord_saved_as(const struct coord_job *j);
/* Returns the batch at which a lane goes on. For a job that is done and may get more input it is 1,
 * since the run that is opened for its checkpoint has marks of 0. */
uint64_t coord_saved_next_batch(const struct coord_job *j, uint32_t lane);
/* The caller frees *bytes. NOMEM, TOO_BIG. */
int coord_saved_make(const struct coord_job *j, void **bytes, size_t *count, struct err *e);

struct coord_saved {
    struct coord_store *rows; /* owned */
    struct coord_progress at;
    uint32_t lanes, evaluations; /* the highest number under "valid/N" */
};
/* Checks every pair before any of them is used. The caller calls coord_saved_close also after a
 * failure. CORRUPT, NOMEM, VERSION (values of other sizes: another release's). */
int coord_saved_open(const void *bytes, size_t count, struct coord_saved *out, struct err *e);
void coord_saved_close(struct coord_saved *s);
/* Puts all rows, except the progress and what the tables have learnt, into the store under the
 * job's number and `run`. Rows of the job that are not in the checkpoint become void. Not synced:
 * the caller puts the progress next, which is. False: the store failed. */
bool coord_saved_put(struct coord_job *j, const struct coord_saved *s, uint64_t run);

#endif
