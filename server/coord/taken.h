/* taken.h: what of logs the tables have learnt, by the names of files and objects: state of the
 * tables, so it is stored here, kept by shard 0 beside its rows, and part of each checkpoint. A job
 * that goes on with tables goes on with their names; a log that grows takes none of them again.
 *
 *   submitted: the names of the tables that it will have (j->taken), under "taken/0"
 *     -> INDEX: FILES adds those of its own files
 *     -> SETUP, the tables are there: they become the cluster's (c->taken), with the names of its
 *        objects, BEGUN -> stored -> TAKEN_SET to shard 0 -> answered -> lanes, and so pushes
 *     -> all of the names' rows are learnt: BEGUN goes -> stored -> TAKEN_SET
 *   a log that grows: the names of each round, likewise
 *   a shard knows newer ones -> TAKEN_HELD -> stored; a job that began without them ends
 *
 * Tables of a release that kept no names, and those that have learnt of a stream, are UNSURE: no
 * name is missing in the list for certain. A log that grows begins with tables that are UNSURE, or
 * BEGUN by a job that has ended, only where the job says that all it lists is new.
 *
 * There are NAMESET_MAX names. When there is no room for more, the oldest of those go that the last
 * list of the log had not; without these, no object is taken.
 *
 * Invariants:
 *  1. A name is stored, and shard 0 has it on its disk, before any row of it is pushed.
 *     [assert: coord_grow_round] [e2e: test_grow_tables]
 *  2. Names of a round that did not come to be, as its coordinator died before the progress said
 *     so, are taken out again. [test: names_of_a_round_that_did_not_begin_go]
 *
 * Thread: the coordinator's loop. */
#ifndef SERVER_COORD_TAKEN_H
#define SERVER_COORD_TAKEN_H

#include "proto/wire/wire.h"
#include "server/coord/taken_names.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct coord_ask;
struct coord_job;

/* Reads them back. CORRUPT, IO. */
int coord_taken_open(struct coord_fleet *f, struct err *e);
void coord_taken_close(struct coord_taken *t);
/* What a shard that belongs here knows. Ends a job that began with older ones. */
bool coord_taken_learn(struct coord_fleet *f, uint32_t shard, const struct wire_SHARD_BEAT *beat);
/* Asks for newer ones, tells shard 0 what it has not yet. Cheap. */
void coord_taken_step(struct coord_fleet *f);

/* A job that is submitted begins with these, stored: with none; with those of the tables that are
 * there; with those of a checkpoint (NULL: it has no record). goes_on: at the very batch. CONFIG: a
 * log that grows, and it is not known what the tables have learnt of it; UNAVAILABLE: a server that
 * may know newer ones has not come yet; CORRUPT, NOMEM, IO. */
int coord_taken_none(struct coord_job *j, struct err *e);
int coord_taken_fleet(struct coord_job *j, struct err *e);
int coord_taken_saved(struct coord_job *j, const void *record, size_t bytes, bool goes_on,
                      struct err *e);
/* After a restart, of the job at hand. CORRUPT, IO. */
int coord_taken_load(struct coord_job *j, struct err *e);
/* In SETUP, once the tables are there: whether its names are the cluster's. */
bool coord_taken_settled(struct coord_job *j);

/* TAKEN, FILES. */
int coord_taken_ask(struct coord_job *j, struct coord_ask *a);
int coord_taken_files(struct coord_job *j, struct coord_ask *a);

/* Names of the objects at hand, of round `round`, which begins when shard 0 has them (*told). IO,
 * NOMEM, TOO_BIG. */
int coord_taken_round(struct coord_job *j, uint32_t round, bool *told, struct err *e);
/* They are of a round that will not be. False: the store failed. */
bool coord_taken_undo(struct coord_job *j);
/* An epoch is over: whether all of them is learnt is looked at. False: the store failed. */
bool coord_taken_learnt(struct coord_job *j);

#endif
