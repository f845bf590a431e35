/* taken.h: the list of files and objects that the tables of a space have learnt, by name. The list
 * is state of the tables: it is stored here, kept by shard 0 beside its rows, and part of each
 * checkpoint. A job that goes on with tables goes on with their names, and a log that grows does
 * not take an object again whose name is in the list.
 *
 *   submitted: the names of the tables that the job will have (j->taken), under "taken/0"
 *     -> INDEX: FILES adds the names of the job's own files
 *     -> SETUP, the tables are there: the names become the space's (s->taken), with those of the
 *        job's objects, BEGUN -> stored -> TAKEN_SET to shard 0 -> answered -> lanes, and so pushes
 *     -> all rows of the names are learnt: BEGUN is cleared -> stored -> TAKEN_SET
 *   a log that grows: the same with the names of each round
 *   a shard knows newer names -> TAKEN_HELD -> stored; a job that began without them ends
 *
 * Tables are UNSURE when the list may miss names: tables of a release that kept no names, and
 * tables that have learnt of a stream. A log that grows begins with tables that are UNSURE, or
 * BEGUN by a job that has ended, only when the job says that all it lists is new.
 *
 * A range of a stream's messages (positions.h) has no name in the list. The list has the position
 * of each stream, begun where the job's first list of the log begins; a round moves it from the
 * begin of the round's ranges to their end.
 *
 * The list has at most NAMESET_MAX names. When there is no room for more, the oldest names go that
 * the log's last list no longer had; when there are none of these, no object is taken.
 *
 * Invariants:
 *  1. A name is stored, and shard 0 has it on its disk, before any row of it is pushed. [assert:
 *     coord_grow_round] [e2e: test_grow_tables]
 *  2. When a coordinator dies before the progress has reached a round, the names of that round are
 *     taken out again. [test: names_of_a_round_that_did_not_begin_go]
 *
 * Thread: the coordinator's loop. */
#ifndef SERVER_COORD_WORK_TAKEN_H
#define SERVER_COORD_WORK_TAKEN_H

#include "proto/wire/wire.h"
#include "server/coord/work/taken_names.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct coord_ask;
struct coord_job;
struct coord_shard;

/* Reads the lists of all spaces back from the store. CORRUPT, IO. */
int coord_taken_open(struct coord_fleet *f, struct err *e);
void coord_taken_close(struct coord_fleet *f);
/* Takes the greatest version that a shard of this cluster knows. True: it is newer than the store's
 * (coord_older_taken). */
bool coord_taken_learn(struct coord_fleet *f, uint32_t shard, const struct wire_SHARD_BEAT *beat);
/* Sends a list to a copy that follows the shard which keeps them: the oldest that the copy lacks;
 * its next beat tells whether it took it. */
void coord_taken_send(struct coord_fleet *f, uint32_t shard, const struct coord_shard *s);
/* Asks a shard for newer lists, one after the other, or tells shard 0 the oldest that it lacks.
 * Cheap. */
void coord_taken_step(struct coord_fleet *f);

/* Stores the names that a submitted job begins with: none; those of the tables that are there;
 * those of a checkpoint (NULL: it has no record). goes_on: at the very batch. CONFIG: the log
 * grows, and it is not known what the tables have learnt of it; UNAVAILABLE: a server that may know
 * newer names has not come yet; CORRUPT, NOMEM, IO. */
int coord_taken_none(struct coord_job *j, struct err *e);
int coord_taken_fleet(struct coord_job *j, struct err *e);
int coord_taken_saved(struct coord_job *j, const void *record, size_t bytes, bool goes_on,
                      struct err *e);
/* Loads the names of the job at hand after a restart. CORRUPT, IO. */
int coord_taken_load(struct coord_job *j, struct err *e);
/* In SETUP, once the tables are there: makes the job's names those of its space. True: shard 0 has
 * them. */
bool coord_taken_settled(struct coord_job *j);

/* Handlers of TAKEN and FILES. */
int coord_taken_ask(struct coord_job *j, struct coord_ask *a);
int coord_taken_files(struct coord_job *j, struct coord_ask *a);

/* Begins positions of streams that the list does not know yet, each at its `from`. With
 * data.objects.all_new a stream of another mark begins anew. IO, NOMEM, TOO_BIG. */
int coord_taken_streams(struct coord_job *j, const struct positions *streams, struct err *e);
/* Adds the names of the objects at hand for round `round`, which begins when shard 0 has them
 * (*told). IO, NOMEM, TOO_BIG; CORRUPT, and no name or position is added: a range
 * does not follow its stream's position. */
int coord_taken_round(struct coord_job *j, uint32_t round, bool *told, struct err *e);
/* Takes out the names of a round that will not begin. False: the store failed. */
bool coord_taken_undo(struct coord_job *j);
/* Called when an epoch is over: clears BEGUN when all rows of the names are learnt. False: the
 * store failed. */
bool coord_taken_learnt(struct coord_job *j);

#endif
