/* aside.h: checkpoints of spaces that rest, and which slot a request about checkpoints is for.
 *
 * A checkpoint, its cut and its answer are states of a slot (core/core.h). A space that no slot's
 * job uses has none, so one slot beside those of jobs, which never has a job, makes and removes its
 * checkpoints: they are of the tables alone (keep/checkpoint.h), while jobs of other spaces train.
 * It works for one space at a time; a request for another one is BUSY.
 *
 * While a checkpoint of a space is made no job of it begins, and no row of it is dropped.
 *
 * Thread: the coordinator's loop. */
#ifndef SERVER_COORD_JOB_ASIDE_H
#define SERVER_COORD_JOB_ASIDE_H

#include "proto/base/err.h"
#include "server/coord/fleet/fleet.h"

struct coord;
struct coord_space;

/* The slot finds fleet and states; c is zeroed. */
void coord_aside_wire(struct coord *c);
/* NOMEM, IO. */
int coord_aside_open(struct coord *c, struct err *e);
void coord_aside_close(struct coord *c);
/* Called as time passes. */
void coord_aside_step(struct coord *c);
/* Returns the slot whose checkpoints are those of a space; "": that of the only job that runs, else
 * of the only space with tables. USAGE, NOT_FOUND; BUSY: the slot works for another space. */
int coord_aside_find(struct coord *c, const char *space, struct coord_job **out, struct err *e);
/* Handles a CHECKPOINT. */
int coord_aside_checkpoint(struct coord *c, struct coord_ask *a);
/* BUSY: a checkpoint of the space is being made while it rests. */
int coord_aside_check(const struct coord_fleet *f, const struct coord_space *s, struct err *e);
/* Why rows of the space cannot be dropped now (fleet/drop.h); context: the coordinator. BUSY. */
int coord_aside_used(void *context, const struct coord_space *s, struct err *e);

#endif
