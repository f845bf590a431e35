/* from.h: the checkpoint that a submitted job goes on from (SUBMIT.from), or a running one goes
 * back to (back.h): what must fit before anything is begun, and how its rows become the job's.
 *
 * The folder is read whole but for the servers' parts, of which the manifests are compared: LOAD
 * reads the rest and checks every file. The job file may differ from the checkpoint's in all but
 * what the numbers of batches and their rows follow from: train.lanes, batch, seed, consistency,
 * task_batches, data.shuffle, and the rows of data.train, which are compared when the workers have
 * indexed them. What other tables and optimizers become: embedding/checkpoint.h. */
#ifndef SERVER_COORD_FROM_H
#define SERVER_COORD_FROM_H

#include "proto/job/job.h"
#include "server/coord/core.h"
#include "server/coord/saved.h"

struct coord_from {
    char path[LIMIT_PATH];
    struct coord_saved saved;    /* owned */
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
/* The store says what the checkpoint says, under the number and the run of `job`, and *out is the
 * progress to go on with: the checkpoint's, but for what is of the job's number, of its input and
 * of this cluster. A job that starts takes over what the tables have learnt, and no more. CONFIG,
 * CORRUPT, NOMEM, IO. */
int coord_from_begin(struct coord_job *j, const struct coord_from *f,
                     const struct coord_progress *job, enum coord_from_state state,
                     struct coord_progress *out, struct err *e);
/* After a restart: the folder that the job loads is held again, by an errand. Where it has gone,
 * LOAD says so. */
void coord_from_hold(struct coord_job *j);
/* The job has its rows, or will never have them: the folder may be removed. */
void coord_from_let_go(struct coord_job *j);

#endif
