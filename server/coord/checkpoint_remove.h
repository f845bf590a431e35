/* checkpoint_remove.h: an operator has one checkpoint of the job's folder removed, in place of an
 * `rm -r` under the feet of readers.
 *
 *   CHECKPOINT_REMOVE --begin--> an errand looks and removes (errand.h) --removed--> the same
 *        request once more, to be answered and audited with its result
 *
 * It goes as an old one goes that is pruned (folder.h): under the lock of its readers, its name
 * first, and the sweeper has what is left; so a crash half way leaves what the next opening of the
 * folder sweeps. One that is read is BUSY, for the client to ask again.
 *
 * A checkpoint of another job's name may be what another coordinator goes back to. It is removed
 * only under the claim of that job's checkpoints, which its coordinator holds while it trains.
 * Coordinators that keep all share a claim (folder.h): each knows its own newest alone.
 *
 * Invariants:
 *  1. What the job that runs goes back to (back.h) stays: its newest checkpoint, or the one that
 *     it went on from while it has made none.
 *     [test: remove_refuses_the_newest_of_a_running_job]
 *     [test: remove_refuses_what_the_job_went_on_from]
 *  2. What the publish command works on, or takes next, stays.
 *     [test: remove_refuses_what_is_published]
 *  3. One at a time. [assert: begin] */
#ifndef SERVER_COORD_CHECKPOINT_REMOVE_H
#define SERVER_COORD_CHECKPOINT_REMOVE_H

#include "server/coord/core.h"
#include "server/coord/errand.h"

struct coord_removing {
    struct coord_errand errand;
    const struct coord_folder_ops *ops;
    const char *root; /* checkpoint_root, borrowed; "": anywhere */
    char name[LIMIT_NAME];
    char dir[LIMIT_PATH];          /* as the job has it; found: absolute */
    char tables_dir[LIMIT_PATH];   /* of the job that made the tables; "": no other one */
    bool of_tables;                /* found there */
    char path[LIMIT_PATH];         /* found: of the checkpoint */
    char published[2][LIMIT_PATH]; /* the command works on these, or will */
    char from[LIMIT_PATH];         /* the job goes back to it, or loads it now; "": neither */
    bool loads;
    char job[LIMIT_NAME];     /* that runs, or ran last */
    char claimed[LIMIT_NAME]; /* the job whose checkpoints the coordinator has claimed; "": none */
    uint64_t number;          /* of the job */
    bool more;                /* is left of what was removed */
    /* the order, and the peer that gave it */
    peer_t asker;
    struct env_who who;
    struct wire request;
    /* its result */
    bool over;
    int rc;
    struct err e;
};

/* A CHECKPOINT_REMOVE: refused, or an errand begins, at whose end `removed` is called; there it is
 * handed in again. USAGE: no name of one; CONFIG: there is no folder; NOT_FOUND; DENIED: it is
 * needed; BUSY: it is read, or another one is being removed. */
int coord_checkpoint_remove(struct coord_job *j, struct coord_ask *a, void *context,
                            coord_errand_done removed);
/* True: the errand removes the checkpoint that is being removed here. */
bool coord_checkpoint_removes(const struct coord_job *j, const struct coord_errand *r);
/* For `removed`, with its arguments: the request is then to be handed in again, ... */
const struct coord_removing *coord_checkpoint_removed(struct coord_job *j, struct coord_errand *r,
                                                      int rc, const struct err *e);
/* ... and it is over. */
void coord_checkpoint_remove_end(struct coord_job *j, int rc);

#endif
