/* replace.h: a server whose disk is lost, without replicas: a new server with an empty folder takes
 * its shards, which are filled from a checkpoint; the other shards go back to it in place.
 *
 *   REPLACE --coord_replace_ask--> an errand reads the checkpoint --done--> the same REPLACE: the
 *     order is stored, and answered
 *                                                                                      v
 *   A job runs: it goes back to the checkpoint (back.h). Its shards are set up as soon as the new
 *     server has come, and load.
 *   No job runs: coord_replace_step. What the servers hold belongs to no job (fresh.h, 2), so the
 *     next job goes on from the checkpoint, and drops it first.
 *
 * The work after the checkpoint is lost; the answer counts it, as far as the coordinator knows. */
#ifndef SERVER_COORD_JOB_REPLACE_H
#define SERVER_COORD_JOB_REPLACE_H

#include "server/coord/fleet/errand.h"
#include "server/coord/keep/from.h"

struct coord;

struct coord_replacing {
    struct coord_errand errand;
    struct coord_options options; /* the coordinator's */
    struct job spec;              /* owned; the job; the checkpoint must fit it */
    bool parsed;
    uint64_t number; /* the job's */
    char path[LIMIT_PATH];
    bool start; /* no job runs: a checkpoint of tables alone will do, too */
    struct coord_from from;
    /* the order, and the peer that gave it */
    peer_t asker;
    struct env_who who;
    struct wire request;
    /* its result */
    bool over;
    int rc;
    struct err e;
};

struct coord_replaced { /* the last answer, sent again for a repeated request */
    peer_t peer;
    uint64_t id;
    struct wire_REPLACE_reply reply;
};

/* Handles a REPLACE: refuses it, starts an errand that calls `done` at its end, or gives the order.
 * Errors: as coord_replace_check and coord_from_open; BUSY: the job has made no tables yet, or
 * another server is being replaced; CONFIG: the checkpoint is of another job. */
int coord_replace_ask(struct coord *c, struct coord_ask *a, coord_errand_done done);
/* `done` calls this with its own arguments, then hands the request in again, ... */
const struct coord_replacing *coord_replace_read(struct coord *c, int rc, const struct err *e);
/* ... and then ends it. */
void coord_replace_end(struct coord *c, int rc);
/* Carries an order out while no job runs. */
void coord_replace_step(struct coord *c);

#endif
