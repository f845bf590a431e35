/* begin.h: what a new job gets beside its text: the names of the fields of the tables that it
 * begins with, the rows that it begins anew all the same (`fresh`), its lanes, the order of its
 * input and the limit of its event times. All go into the stored text, so that a restart and each
 * worker read the same. Thread: the coordinator's loop. */
#ifndef SERVER_COORD_JOB_BEGIN_H
#define SERVER_COORD_JOB_BEGIN_H

#include "proto/base/err.h"

#include <stdbool.h>
#include <stdint.h>

struct coord_from;
struct coord_job;
struct job;
struct legend;

/* True when the text names it in `fresh`. */
bool coord_begin_fresh(const struct job *spec, const char *name);
/* Puts into the job's text the names of the tables that it begins with: the checkpoint's (NULL: it
 * begins with none), or those that the servers hold (fleet). Lists the rows that it begins anew in
 * j->without. CONFIG: `fresh` asks for what cannot be; NOMEM. */
int coord_begin_names(struct coord_job *j, const struct coord_from *from, bool fleet,
                      struct err *e);
/* Makes the job's lanes. Where the workers keep the network, a batch number is a step of it, so all
 * lanes have as many batches. NOMEM. */
int coord_begin_lanes(struct coord_job *j, struct err *e);
/* Puts into the job's text: the order of its input, if the text leaves it open and the rows go by
 * time; the changes of its zone; the limit of its event times; the lanes that fit its workers. A
 * job that goes on has those of its checkpoint. Errors of job_parse. */
int coord_begin_given(struct coord_job *j, const struct coord_from *from, uint32_t workers,
                      struct err *e);
/* Puts these names into the job's text, and beside it, in place of the former ones. NOMEM, TOO_BIG:
 * the job is unchanged. learnt: as in legend.h. */
int coord_begin_name(struct coord_job *j, const struct legend *names, bool learnt, struct err *e);

#endif
