/* look.h: a look at the folders that a submitted job names, before it is taken: checkpoint.dir is
 * opened, claimed and written to (what no checkpoint could do there is known before the job has
 * trained for a night); the checkpoint that it begins with is read (coord_from_open).
 *
 *   SUBMIT --coord_submit: AGAIN--> a look begins --looked--> the same SUBMIT, with what was seen
 *
 * It is an errand (errand.h). Meanwhile the client that asked sends its SUBMIT again, and is told
 * when a folder hangs; another client waits. A job for which nobody asks any more, when its folders
 * have been looked at, is not begun. */
#ifndef SERVER_COORD_LOOK_H
#define SERVER_COORD_LOOK_H

#include "server/coord/errand.h"
#include "server/coord/folder.h"
#include "server/coord/from.h"
#include "server/coord/submit.h"

struct coord_look {
    struct coord_errand errand;
    struct coord_options options; /* of the coordinator */
    struct job spec;              /* owned; to compare with */
    bool makes;                   /* checkpoints */
    bool reads;                   /* one, at `path` */
    bool start;
    char path[LIMIT_PATH];
    uint32_t random;
    /* what was seen */
    bool over;
    int rc;
    struct err e;
    struct coord_folder_claim claim; /* of checkpoint.dir */
    struct coord_from from;
    /* who asked, and how */
    peer_t asker;
    struct wire request;
    char *yaml; /* owned (bytes) */
    size_t bytes;
    uint64_t begun_ns, asked_ns;
};

/* Whether the job names a folder. */
bool coord_look_needed(const struct job *spec, const struct coord_submit *submit);
/* From a SUBMIT for which coord_submit said AGAIN; `looked` is called on the loop when all has been
 * seen, or cannot be. What job_parse and coord_errand_start say. */
int coord_look_begin(struct coord *c, struct coord_job *former, struct coord_ask *a,
                     const struct coord_submit *submit, coord_errand_done looked, struct err *e);
/* A SUBMIT comes during one. 0: it is the one looked at, which is over: coord_submit goes by it.
 * AGAIN: the one, which is answered later; UNAVAILABLE: it has to wait for a folder that hangs, or
 * for another job. */
int coord_look_asked(struct coord *c, struct coord_ask *a, const struct coord_submit *submit,
                     struct err *e);
/* What was seen of the job's folders; 0: all is well. */
int coord_look_result(const struct coord_look *l, struct err *e);
/* Whether somebody still waits for it. */
bool coord_look_wanted(const struct coord *c);
/* It is over, or not wanted. */
void coord_look_end(struct coord *c);

#endif
