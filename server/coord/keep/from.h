/* from.h: the checkpoint that a submitted job resumes from (SUBMIT.from), or that a running one
 * goes back to (back.h): the checks before anything is begun, and how its state becomes the job's.
 *
 * The whole folder is read except the servers' parts, of which only the manifests are compared:
 * LOAD reads the rest and checks every file. The job file may differ from the checkpoint's except
 * in the settings that decide the numbers of batches and their rows: train.lanes, batch, seed,
 * consistency, task_batches, data.shuffle, and the rows of data.train, which are compared when the
 * workers have indexed them. embedding/checkpoint.h tells how other tables and optimizers are
 * converted. */
#ifndef SERVER_COORD_KEEP_FROM_H
#define SERVER_COORD_KEEP_FROM_H

#include "proto/job/job.h"
#include "server/coord/core/core.h"
#include "server/coord/keep/saved.h"

struct coord_from {
    char path[LIMIT_PATH];
    struct coord_saved saved;    /* owned */
    struct signature *signature; /* owned; NULL: none is required */
    int hold;                    /* the lock that keeps the folder from being removed */
    bool start;                  /* only its tables count: the job begins with them */
    uint32_t within;             /* the order of its epochs: data.shuffle.within, in seconds */
    struct zone zone;            /* its job's */
    uint32_t time_limit;         /* its job's data.time_limit */
    struct legend legend;        /* owned: the names of its tables' fields and tensors */
    uint64_t batches, examples;  /* done, as its manifest says */
    bool stops_alike; /* early stopping uses the same measure of the same files as before */
};

/* Reads the checkpoint and compares it with the job. path: absolute. start: the job begins with the
 * tables, so batches, rows and the work done do not count; fields and network must still have the
 * same meaning. NOINPUT, USAGE, CHECKSUM, CORRUPT, VERSION (the text names the file); DENIED: not
 * below checkpoint_root, or not signed as checkpoint_signers requires; CONFIG: the job does not
 * fit. The caller must call coord_from_close even after a failure. Any thread; reading any of the
 * files may hang. */
int coord_from_open(const struct coord_options *o, const char *path, bool start,
                    const struct job *spec, struct coord_from *out, struct err *e);
void coord_from_close(const struct coord_options *o, struct coord_from *f);
/* Stores the checkpoint's state under the number and the run of `job`. *out is the progress to go
 * on with: the checkpoint's, except the members that belong to the job's number, its input or this
 * cluster. A job that starts takes over only the names of the files and objects that the tables
 * have learnt. CONFIG, CORRUPT, NOMEM, IO. */
int coord_from_begin(struct coord_job *j, const struct coord_from *f,
                     const struct coord_progress *job, enum coord_from_state state,
                     struct coord_progress *out, struct err *e);
/* After a restart: an errand holds the folder again that the job loads. If the folder is gone, LOAD
 * fails and says so. */
void coord_from_hold(struct coord_job *j);
/* The job has its rows, or will never need them: the folder may be removed. */
void coord_from_let_go(struct coord_job *j);

#endif
