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

#include "proto/base/err.h"
#include "proto/base/nameset.h"
#include "proto/wire/wire.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct coord;
struct coord_ask;
struct coord_job;
struct coord_objects;

enum coord_taken_flag {
    COORD_TAKEN_BEGUN = 1,  /* job `job` has begun to learn the last names, and not ended */
    COORD_TAKEN_UNSURE = 2, /* the tables have learnt more than the names say */
    COORD_TAKEN_NAMED = 4   /* the job's own files are among them */
};

/* As stored under "taken/0", and behind a version, u64, under "taken"; then the names. */
struct coord_taken_head {
    uint64_t job;
    uint32_t flags;
    uint32_t round, hand; /* the last `hand` names are those of that round */
    uint32_t count;
};
_Static_assert(sizeof(struct coord_taken_head) == 24, "coord_taken_head is stored");
#define COORD_TAKEN_RECORD_MAX                                                                     \
    (sizeof(struct coord_taken_head) + NAMESET_MAX * sizeof(struct nameset_item))

struct coord_taken_list {
    struct coord_taken_head at;
    struct nameset names;
};

struct coord_taken {  /* the cluster's */
    uint64_t version; /* rises with each change; 0: none are known, the tables are UNSURE */
    struct coord_taken_list is;
    uint64_t told;   /* the version that shard 0 keeps */
    uint64_t newest; /* version that a shard has told of */
    uint32_t newest_shard;
    uint64_t asked_ns,
        failed_ns; /* when it was asked for them, and could not be told; 0: not yet */
    uint8_t *gone; /* owned: a bit for each of the first names: not listed any more */
    uint32_t gone_count;
    bool counted; /* no name has left its place since the lister asked for them */
};

/* Reads them back. CORRUPT, IO. */
int coord_taken_open(struct coord *c, struct err *e);
void coord_taken_close(struct coord_taken *t);
void coord_taken_list_close(struct coord_taken_list *l);
/* What a shard that belongs here knows. Ends a job that began with older ones. */
void coord_taken_learn(struct coord *c, uint32_t shard, const struct wire_SHARD_BEAT *beat);
/* Asks for newer ones, tells shard 0 what it has not yet. Cheap. */
void coord_taken_step(struct coord *c);

/* A job that is submitted begins with these, stored: with none; with those of the tables that are
 * there; with those of a checkpoint (NULL: it has no record). goes_on: at the very batch. CONFIG: a
 * log that grows, and it is not known what the tables have learnt of it; UNAVAILABLE: a server that
 * may know newer ones has not come yet; CORRUPT, NOMEM, IO. */
int coord_taken_none(struct coord *c, struct coord_job *j, struct err *e);
int coord_taken_fleet(struct coord *c, struct coord_job *j, struct err *e);
int coord_taken_saved(struct coord *c, struct coord_job *j, const void *record, size_t bytes,
                      bool goes_on, struct err *e);
/* After a restart, of the job at hand. CORRUPT, IO. */
int coord_taken_load(struct coord *c, struct err *e);
/* In SETUP, once the tables are there: whether its names are the cluster's. */
bool coord_taken_settled(struct coord *c);

/* TAKEN, FILES. */
int coord_taken_ask(struct coord *c, struct coord_ask *a);
int coord_taken_files(struct coord *c, struct coord_ask *a);

/* Of the tables that the job has, or will have: whether they have learnt the object of this line;
 * how many of the log's more can be taken. */
bool coord_taken_has(const struct coord *c, const char *line);
uint32_t coord_taken_count(const struct coord *c);
uint32_t coord_taken_room(const struct coord *c);
/* A list's bits (bytes of them), as OBJECTS has them. */
void coord_taken_gone(struct coord *c, const void *bits, size_t bytes);
/* Names of the objects at hand: of round `round`, which begins when shard 0 has them (*told), or
 * without rows. IO, NOMEM, TOO_BIG. */
int coord_taken_round(struct coord *c, uint32_t round, bool *told, struct err *e);
int coord_taken_empty(struct coord *c, struct err *e);
/* They are of a round that will not be. False: the store failed. */
bool coord_taken_undo(struct coord *c);
/* An epoch is over: whether all of them is learnt is looked at. False: the store failed. */
bool coord_taken_learnt(struct coord *c);
/* As a checkpoint has them, the caller's; NULL: none are known, or no memory. */
void *coord_taken_record(const struct coord *c, size_t *bytes);

#endif
