/* look.h: a look at the folders that a submitted job names, before the job is taken. checkpoint.dir
 * is opened, claimed and written to, so that an error there is known before the job has trained for
 * a night. The checkpoint that the job begins with is read (coord_from_open).
 *
 *   SUBMIT --coord_submit: AGAIN--> a look begins --looked--> the same SUBMIT, with its result
 *
 * A look is an errand (errand.h). Meanwhile the client sends its SUBMIT again, and is told when a
 * folder hangs; another client waits. When the look ends and its client no longer asks, the job is
 * not begun. */
#ifndef SERVER_COORD_JOB_LOOK_H
#define SERVER_COORD_JOB_LOOK_H

#include "server/coord/fleet/errand.h"
#include "server/coord/fleet/folder.h"
#include "server/coord/job/submit.h"
#include "server/coord/keep/from.h"

struct coord;

struct coord_look {
    struct coord_errand errand;
    struct coord_options options; /* the coordinator's */
    struct job spec;              /* owned; the job; the checkpoint must fit it */
    bool makes;                   /* true: the job makes checkpoints */
    bool reads;                   /* true: it reads one, at `path` */
    bool start;
    char path[LIMIT_PATH];
    uint32_t random;
    /* the result */
    bool over;
    int rc;
    struct err e;
    struct coord_folder_claim claim; /* claim on checkpoint.dir */
    struct coord_from from;
    /* the client that asked, and its request */
    peer_t asker;
    struct wire request;
    char *yaml; /* owned (bytes) */
    size_t bytes;
    uint64_t begun_ns, asked_ns;
};

/* True when the job names a folder. */
bool coord_look_needed(const struct job *spec, const struct coord_submit *submit);
/* Begins a look for a SUBMIT to which coord_submit returned AGAIN. `looked` is called on the loop
 * when the look is over or has failed. Returns errors of job_parse and coord_errand_start. */
int coord_look_begin(struct coord *c, struct coord_job *former, struct coord_ask *a,
                     const struct coord_submit *submit, coord_errand_done looked, struct err *e);
/* Handles a SUBMIT that comes during a look. 0: the look was for this SUBMIT and is over;
 * coord_submit uses its result. AGAIN: the look is for this SUBMIT, which is answered later.
 * UNAVAILABLE: the SUBMIT has to wait for a folder that hangs, or for another job. */
int coord_look_asked(struct coord *c, struct coord_ask *a, const struct coord_submit *submit,
                     struct err *e);
/* Returns the result of the look; 0: all folders are well. */
int coord_look_result(const struct coord_look *l, struct err *e);
/* True while a client still waits for the look. */
bool coord_look_wanted(const struct coord *c);
/* Ends a look that is over or no longer wanted. */
void coord_look_end(struct coord *c);

#endif
