/* submit.h: a job comes: its text parsed and checked, a run drawn, all that must not be
 * forgotten stored; what it goes on from, where it is a checkpoint, put into the store under the
 * new run. Thread: the coordinator's loop. */
#ifndef SERVER_COORD_SUBMIT_H
#define SERVER_COORD_SUBMIT_H

#include "proto/base/env.h"
#include "proto/base/err.h"
#include "proto/job/legend.h"

#include <stddef.h>
#include <stdint.h>

struct coord_job;
struct coord_job;
struct coord_look;

#define COORD_FROM_FLEET "fleet"

struct coord_submit {
    const char *yaml; /* (bytes) */
    size_t bytes;
    uint32_t workers; /* to wait for */
    const char *from; /* folder of a checkpoint; "fleet": what the servers hold; "": none */
    bool start;       /* it begins with the tables of that; else it goes on from it */
};
/* True: the request is one for this job that the peer sends again, as its answer was lost. */
bool coord_submit_again(const struct coord_job *j, peer_t from, const struct coord_submit *submit);
/* Takes a job: parsed, run drawn, stored. look: what was seen of the folders that it names; NULL:
 * nobody has looked. AGAIN: look at them (look.h), all else is well. The same text again over the
 * same connection is the same job. BUSY while one runs; EXISTS: the servers hold rows and it does
 * not say that it begins with them; what job_parse and coord_from_open say. */
int coord_submit(struct coord_job *job, peer_t from, const struct coord_submit *submit,
                 struct coord_look *look, uint64_t *run, struct err *e);
/* The text of the job whose progress is stored takes the former one's place, unless it has. IO. */
int coord_submit_settle(struct coord_job *j, struct err *e);
/* What the stored job was submitted with. IO, CORRUPT. */
int coord_submit_asked_load(struct coord_job *j, struct err *e);
/* What follows from the text alone: the job parsed, its lists made. What job_parse says. */
int coord_submit_build(struct coord_job *j, const char *yaml, size_t bytes, struct err *e);
/* These names, in the job's text and beside it, in place of those that it had. NOMEM, TOO_BIG: as
 * it was. learnt: of legend.h. */
int coord_submit_name(struct coord_job *j, const struct legend *names, bool learnt, struct err *e);
/* The job, whatever there is of it, is freed. */
void coord_submit_close(struct coord_job *j);

#endif
