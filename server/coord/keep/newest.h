/* newest.h: the newest readable checkpoint of the running job: a checkpoint may have been moved
 * away or damaged, or is not signed yet. The job's own checkpoints are tried from the newest on,
 * then the checkpoint that the job went on from. After an order to replace a server it is the
 * checkpoint of the order alone (replace.h).
 *
 * The reading is an errand (errand.h): a folder that does not answer stops nothing else. */
#ifndef SERVER_COORD_KEEP_NEWEST_H
#define SERVER_COORD_KEEP_NEWEST_H

#include "server/coord/fleet/errand.h"
#include "server/coord/fleet/folder.h"
#include "server/coord/keep/from.h"

struct coord_newest {
    struct coord_errand errand;
    struct coord_options options; /* the coordinator's */
    uint64_t number;              /* the job's */
    struct job spec;              /* owned; the checkpoint's job is compared with it */
    char dir[LIMIT_PATH];         /* checkpoint.dir, as the job has it */
    char last[LIMIT_PATH];        /* the checkpoint that the job went on from; empty: none */
    uint32_t count;
    char (*name)[LIMIT_NAME]; /* (count) checkpoints in dir, owned; the newest first */
    /* the result */
    int rc; /* when none can be read: the error of the newest */
    struct err e;
    struct coord_from from;
};

/* Writes the path that the job would go back to, for people; false: the job has no checkpoint. One
 * that comes (coord_checkpoint_comes) counts. */
bool coord_newest_path(const struct coord_job *j, char path[LIMIT_PATH]);
/* Begins the reading; `read` is called on the loop. rc != 0 there: a folder did not answer in time;
 * otherwise out->rc tells the result. NOMEM, errors of coord_errand_start. */
int coord_newest_begin(struct coord_job *j, coord_errand_done read, struct coord_newest **out,
                       struct err *e);
struct coord_newest *coord_newest_of(struct coord_errand *r);

#endif
