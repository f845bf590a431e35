/* submit.h: takes a submitted job: parses and checks its text, draws a run, and stores all that a
 * restart needs. When the job goes on from a checkpoint, the checkpoint's rows are put into the
 * store under the new run. Thread: the coordinator's loop. */
#ifndef SERVER_COORD_JOB_SUBMIT_H
#define SERVER_COORD_JOB_SUBMIT_H

#include "proto/base/env.h"
#include "proto/base/err.h"

#include <stddef.h>
#include <stdint.h>

struct coord_job;
struct coord_look;

#define COORD_FROM_FLEET "fleet"

struct coord_submit {
    const char *yaml; /* (bytes) */
    size_t bytes;
    uint32_t workers; /* how many the job waits for */
    const char *from; /* folder of a checkpoint; "fleet": the tables that the servers hold; "":
                       * none */
    bool start;       /* true: the job begins with the tables of `from`; else it resumes it */
};

/* True when the request is one for this job that the peer sends again because its answer was
 * lost. */
bool coord_submit_again(const struct coord_job *j, peer_t from, const struct coord_submit *submit);
/* Takes a job: parses it, draws a run, stores it. look: the result of a look at the folders that it
 * names; NULL: there was no look. AGAIN: the folders must be looked at first (look.h), all else is
 * well. The same text again over the same connection is the same job. BUSY while a job runs;
 * EXISTS: the servers hold rows of its space and the job does not say that it begins with them;
 * NOINPUT: it begins with the rows of a space that has none; errors of job_parse and
 * coord_from_open. */
int coord_submit(struct coord_job *job, peer_t from, const struct coord_submit *submit,
                 struct coord_look *look, uint64_t *run, struct err *e);
/* The same for a job that has waited for its turn (turns.h): it has this number, while its run is
 * drawn now. */
int coord_submit_waited(struct coord_job *job, uint64_t number, peer_t from,
                        const struct coord_submit *submit, struct coord_look *look, struct err *e);
/* Writes a sentence for the person that has submitted the job; "": there is nothing to say. */
void coord_submit_say(const struct coord_job *j, char said[ERR_TEXT_MAX]);
/* Loads what the stored job was submitted with. IO, CORRUPT. */
int coord_submit_asked_load(struct coord_job *j, struct err *e);
/* Builds what follows from the text alone: the parsed job and its lists. Errors of job_parse. */
int coord_submit_build(struct coord_job *j, const char *yaml, size_t bytes, struct err *e);

#endif
