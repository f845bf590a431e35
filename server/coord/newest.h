/* newest.h: the newest checkpoint of the running job that can be read: one may have been moved
 * away, damaged, or not be signed yet. The checkpoints of this job are tried from the newest on,
 * then the one that the job went on from.
 *
 * The reading is an errand (errand.h): a folder that does not answer stops nothing else. */
#ifndef SERVER_COORD_NEWEST_H
#define SERVER_COORD_NEWEST_H

#include "server/coord/errand.h"
#include "server/coord/folder.h"
#include "server/coord/from.h"

struct coord_newest {
    struct coord_errand errand;
    struct coord_options options; /* of the coordinator */
    uint64_t number;              /* of the job */
    struct job spec;              /* owned; to compare with */
    char dir[LIMIT_PATH];         /* checkpoint.dir, as the job has it */
    char last[LIMIT_PATH];        /* the one that the job went on from; empty: none */
    uint32_t count;
    char (*name)[LIMIT_NAME]; /* (count) in dir, owned; the newest first */
    /* the result */
    int rc; /* of the newest of all, where none can be read */
    struct err e;
    struct coord_from from;
};

/* Where the job would go back to, for people; false: it has no checkpoint. */
bool coord_newest_path(const struct coord_job *j, char path[LIMIT_PATH]);
/* `read` is called on the loop. Its rc != 0: a folder did not answer in time. Else out->rc says
 * whether one could be read. NOMEM, what coord_errand_start says. */
int coord_newest_begin(struct coord_job *j, coord_errand_done read, struct coord_newest **out,
                       struct err *e);
struct coord_newest *coord_newest_of(struct coord_errand *r);

#endif
