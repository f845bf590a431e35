/* names.h: what the fields in the keys of the cluster's rows are called (proto/job/legend.h):
 * stored, and kept by every shard beside its rows, so that a coordinator whose store is lost or
 * older still reads them as they were meant.
 *
 *     all shards are set up -> stored -> NAMES_SET to all -> answered -> lanes, and so pushes
 *     a shard knows newer ones -> NAMES_HELD -> stored; a job that began without them ends, unless
 *                                 it drops all that is there
 *
 * Invariants:
 *  1. No push of a job is granted before every shard has the job's names on its disk.
 *     [test: coord_names_are_kept_by_the_shards]
 *  2. A version belongs to one line. [assert: names_put]
 *     [test: coord_two_names_of_one_version_are_refused] */
#ifndef SERVER_COORD_NAMES_H
#define SERVER_COORD_NAMES_H

#include "proto/base/err.h"
#include "proto/job/legend.h"
#include "proto/wire/wire.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct coord_fleet;
struct coord_job;
struct coord_call;

struct coord_names {
    uint64_t version; /* rises with each change; 0: none are known */
    char *line;       /* owned (bytes) */
    size_t bytes;
    uint64_t digest; /* XXH3 of the line */
    struct legend legend;
    uint64_t newest; /* version that a shard has told of */
    uint32_t newest_shard;
    uint64_t asked_ns; /* when it was asked for them; 0: not yet */
};

/* Reads them back. CORRUPT, IO. */
int coord_names_open(struct coord_fleet *f, struct err *e);
void coord_names_close(struct coord_names *n);
/* A store of before they were in it: those of the last job, which is done. */
void coord_names_adopt(struct coord_job *j);
/* CONFIG: the shard has others of the same version. */
int coord_names_claim(const struct coord_fleet *f, const struct wire_SHARD_BEAT *beat,
                      struct err *e);
/* A shard that belongs here says which names it knows. True: they are newer than the store's
 * (coord_older_names). */
bool coord_names_learn(struct coord_fleet *f, uint32_t shard, const struct wire_SHARD_BEAT *beat);
/* No shard has newer ones than the store. */
bool coord_names_ready(const struct coord_names *n);
/* Asks for newer ones, if there are any. Cheap. */
void coord_names_step(struct coord_fleet *f);
/* Tells one shard, at its registration; false: out of memory. */
bool coord_names_greet(struct coord_fleet *f, uint32_t shard);
/* Whether all shards have those of the job at hand, which are set up; begins to tell them. */
bool coord_names_settled(struct coord_job *j);
/* Whether they are: every server that may know newer ones has come, and said so. */
bool coord_names_sure(const struct coord_fleet *f);
/* Those of the tables that the servers hold, for a job that begins with them. UNAVAILABLE: a server
 * that may know newer ones has not come yet. */
int coord_names_of_fleet(const struct coord_job *j, const struct legend **out, struct err *e);
/* Stores them without this one, whose rows are gone, and tells all shards; done when all have them.
 * Not while a job runs. IO, NOMEM. */
int coord_names_forget(struct coord_fleet *f, enum legend_list list, const char *name,
                       void (*done)(void *context, const struct coord_call *call, int status,
                                    const char *text),
                       struct err *e);

#endif
