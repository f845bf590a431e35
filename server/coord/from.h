/* from.h: the checkpoint that a submitted job goes on from (SUBMIT.from): what must fit
 * before anything is begun.
 *
 * The folder is read whole but for the servers' parts, of which the manifests are compared: LOAD
 * reads the rest and checks every file. The job file may differ from the checkpoint's in all but
 * what the numbers of batches and their rows follow from: train.lanes, batch, seed, consistency,
 * task_batches, data.shuffle, and the rows of data.train, which are compared when the workers have
 * indexed them. What other tables and optimizers become: embedding/checkpoint.h. */
#ifndef SERVER_COORD_FROM_H
#define SERVER_COORD_FROM_H

#include "proto/job/job.h"
#include "server/coord/saved.h"

struct coord_from {
    char path[LIMIT_PATH];
    void *state; /* owned */
    struct coord_saved saved;
    int hold;         /* nobody removes the folder meanwhile */
    bool stops_alike; /* early stopping looks at the same measure of the same files as it did */
};

/* path: absolute. NOINPUT, USAGE, CHECKSUM, CORRUPT, VERSION (the file is named); CONFIG: the job
 * does not fit. The caller calls coord_from_close also after a failure. */
int coord_from_open(const struct coord *c, const char *path, const struct job *spec,
                    struct coord_from *out, struct err *e);
void coord_from_close(const struct coord *c, struct coord_from *f);
/* The job at hand has its rows, or will never have them: the folder may be removed. */
void coord_from_let_go(struct coord *c);

#endif
