/* checkpoint_remove.h: removes one checkpoint of the job's folder for an operator; an `rm -r` would
 * take it away from its readers.
 *
 *   CHECKPOINT_REMOVE --begin--> an errand checks and removes (errand.h) --removed--> the same
 *        request once more, to be answered and audited with its result
 *
 * The removal works like pruning (folder.h): it takes the lock of the readers, removes the name
 * first, and leaves the rest to the sweeper. After a crash half way, the next opening of the folder
 * sweeps the rest. A checkpoint that is being read is BUSY: the client asks again.
 *
 * A checkpoint of another job's name may be the one that another coordinator goes back to. It is
 * removed only under the claim on that job's checkpoints, which its coordinator holds while it
 * trains. Coordinators that keep all share a claim (folder.h): each knows only its own newest
 * checkpoint.
 *
 * Invariants:
 *  1. The checkpoint that the running job goes back to (back.h) stays: its newest one, or the
 *     one that it resumed from while it has made none. [test:
 *     remove_refuses_the_newest_of_a_running_job] [test:
 *     remove_refuses_what_the_job_went_on_from]
 *  2. The checkpoint that the publish command works on, or takes next, stays. [test:
 *     remove_refuses_what_is_published]
 *  3. One removal at a time. [assert: begin] */
#ifndef SERVER_COORD_KEEP_CHECKPOINT_REMOVE_H
#define SERVER_COORD_KEEP_CHECKPOINT_REMOVE_H

#include "server/coord/core/core.h"
#include "server/coord/fleet/errand.h"
#include "server/coord/keep/checkpoint_keep.h"

struct coord_removing {
    struct coord_errand errand;
    const struct coord_folder_ops *ops;
    const char *root; /* checkpoint_root, borrowed; "": no limit */
    char name[LIMIT_NAME];
    char dir[LIMIT_PATH];          /* as the job names it; found: absolute */
    char tables_dir[LIMIT_PATH];   /* that of the job that made the tables; "": the same folder */
    bool of_tables;                /* the checkpoint was found in tables_dir */
    char path[LIMIT_PATH];         /* found: the checkpoint's path */
    char published[2][LIMIT_PATH]; /* the publish command works on these, or takes them next */
    char from[LIMIT_PATH];         /* the job goes back to it, or loads it now; "": neither */
    bool loads;
    char job[LIMIT_NAME]; /* the job that runs, or ran last */
    /* the owner of the checkpoints that the coordinator has claimed; "": none */
    char claimed[COORD_CHECKPOINT_OWNER];
    uint64_t number; /* the job's number */
    bool more;       /* the removal left files for the sweeper */
    /* the order, and the peer that gave it */
    peer_t asker;
    struct env_who who;
    struct wire request;
    /* its result */
    bool over;
    int rc;
    struct err e;
};

/* Handles a CHECKPOINT_REMOVE: refuses it, or starts an errand that calls `removed` at its end;
 * `removed` hands the request in again. USAGE: not a checkpoint's name; CONFIG: there is no folder;
 * NOT_FOUND; DENIED: the checkpoint is needed; BUSY: it is read, or another one is being
 * removed. */
int coord_checkpoint_remove(struct coord_job *j, struct coord_ask *a, void *context,
                            coord_errand_done removed);
/* True when the errand is the removal in progress. */
bool coord_checkpoint_removes(const struct coord_job *j, const struct coord_errand *r);
/* `removed` calls this with its own arguments, then hands the request in again, ... */
const struct coord_removing *coord_checkpoint_removed(struct coord_job *j, struct coord_errand *r,
                                                      int rc, const struct err *e);
/* ... and then ends the removal. */
void coord_checkpoint_remove_end(struct coord_job *j, int rc);

#endif
