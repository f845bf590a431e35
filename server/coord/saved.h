/* saved.h: the coordinator's part of a checkpoint, NAME/coordinator.state: what a coordinator
 * that never saw the job needs to go on with it at the very batch.
 *
 *   "SHOALCS1", then pairs: key bytes u32, value bytes u32, key, value; little-endian, packed
 *
 * Keys and values are those of the store (store.h): progress, lanes, task/N of the epoch at
 * hand, epoch/N, valid/N, details/..., curve/N; taken from memory, at the instant of the cut. What
 * names the job's number or run gets the new ones when it is taken over. The best so far and the
 * misses since go along, so that early stopping goes on; its cut does not, for its tables are not
 * in a checkpoint: kept is then the best of the evaluations that come afterwards. */
#ifndef SERVER_COORD_SAVED_H
#define SERVER_COORD_SAVED_H

#include "proto/job/job.h"
#include "server/coord/core.h"

/* Whether a job in this phase can be saved, and gone on with. */
bool coord_saved_phase(uint32_t phase);
/* The phase that is saved of the job at hand: of one that is done that of its end. */
enum coord_phase coord_saved_as(const struct coord_job *j);
/* Where a lane goes on: of a job that is done, where more may come, at 1, for the run that is
 * opened for its checkpoint has marks of 0. */
uint64_t coord_saved_next_batch(const struct coord_job *j, uint32_t lane);
/* The caller frees *bytes. NOMEM, TOO_BIG. */
int coord_saved_make(const struct coord_job *j, void **bytes, size_t *count, struct err *e);

struct coord_saved {
    const uint8_t *bytes; /* borrowed */
    size_t count;
    struct coord_progress at;
    uint32_t lanes, evaluations; /* the highest number under "valid/N" */
};
/* Checks every pair; nothing is believed before. CORRUPT, VERSION (values of other sizes: another
 * release's). */
int coord_saved_open(const void *bytes, size_t count, struct coord_saved *out, struct err *e);
/* Puts all pairs but the progress, and what the tables have learnt, into the store, under the job's
 * `number` and `run`; not synced: the progress that the caller puts next is. False: the store
 * failed. */
bool coord_saved_put(struct coord_job *j, const struct coord_saved *s, uint64_t number,
                     uint64_t run);

/* The record of what its tables have learnt (taken.h), borrowed; NULL: it has none. */
const void *coord_saved_taken(const struct coord_saved *s, size_t *bytes);

/* The checkpoint that a submitted job goes on from (SUBMIT.from), or a running one goes back to
 * (back.h): what must fit before anything is begun.
 *
 * The folder is read whole but for the servers' parts, of which the manifests are compared: LOAD
 * reads the rest and checks every file. The job file may differ from the checkpoint's in all but
 * what the numbers of batches and their rows follow from: train.lanes, batch, seed, consistency,
 * task_batches, data.shuffle, and the rows of data.train, which are compared when the workers have
 * indexed them. What other tables and optimizers become: embedding/checkpoint.h. */

struct coord_from {
    char path[LIMIT_PATH];
    void *state; /* owned */
    struct coord_saved saved;
    struct signature *signature; /* owned; NULL: none is asked for */
    int hold;                    /* nobody removes the folder meanwhile */
    bool start;                  /* only its tables count: the job begins with them */
    uint32_t within;             /* its epochs' order: data.shuffle.within, seconds */
    struct zone zone;            /* of its job */
    uint32_t time_limit;         /* likewise: data.time_limit */
    struct legend legend;        /* owned: what its tables call fields and tensors */
    bool stops_alike; /* early stopping looks at the same measure of the same files as it did */
};

/* path: absolute. start: the job begins with the tables, so batches, rows and what is done say
 * nothing; fields and network must mean the same all the same. NOINPUT, USAGE, CHECKSUM, CORRUPT,
 * VERSION (the file is named); DENIED: not below checkpoint_root, or not signed as
 * checkpoint_signers asks; CONFIG: the job does not fit. The caller calls coord_from_close also
 * after a failure. Any thread: all files that it reads may hang. */
int coord_from_open(const struct coord_options *o, const char *path, bool start,
                    const struct job *spec, struct coord_from *out, struct err *e);
void coord_from_close(const struct coord_options *o, struct coord_from *f);
/* The progress of `job` as the checkpoint says it; what is of the job's number, of its input and of
 * this cluster stays `job`'s. */
void coord_from_progress(const struct coord_from *f, const struct coord_progress *job,
                         enum coord_from_state state, struct coord_progress *out);
/* After a restart: the folder that the job loads is held again, by an errand. Where it has gone,
 * LOAD says so. */
void coord_from_hold(struct coord_job *j);
/* The job has its rows, or will never have them: the folder may be removed. */
void coord_from_let_go(struct coord_job *j);

#endif
