/* names.h: the names of the fields in the keys of the cluster's rows, by space: one text
 * (proto/job/catalog.h), which also says which tables each space has. It is stored, and every shard
 * keeps it beside its rows, so that a coordinator whose store is lost or older still knows the
 * spaces and reads the keys correctly. The names of a space are in coord_space.legend.
 *
 *     all shards are set up -> stored -> NAMES_SET to all -> answered -> lanes, and so pushes
 *     a shard knows newer ones -> NAMES_HELD -> stored; a job that began without them ends, unless
 *                                 it drops all that is there
 *
 * Invariants:
 *  1. No push of a job is granted before every shard has the job's names on its disk. [test:
 *     coord_names_are_kept_by_the_shards]
 *  2. A version belongs to one text. [assert: names_put] [test:
 *     coord_two_names_of_one_version_are_refused] */
#ifndef SERVER_COORD_FLEET_NAMES_H
#define SERVER_COORD_FLEET_NAMES_H

#include "proto/base/err.h"
#include "proto/job/legend.h"
#include "proto/wire/wire.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct coord_fleet;
struct coord_call;
struct coord_space;
struct coord_shard;

struct coord_names {
    uint64_t version; /* rises with each change; 0: none are known */
    char *line;       /* the text; owned (bytes) */
    size_t bytes;
    uint64_t digest; /* XXH3 of the text */
    uint64_t newest; /* the newest version that a shard has told */
    uint32_t newest_shard;
    uint64_t asked_ns; /* when that shard was asked for them; 0: not yet */
};

/* Reads the names back from the store. CORRUPT, IO. */
int coord_names_open(struct coord_fleet *f, struct err *e);
void coord_names_close(struct coord_names *n);
/* Checks a shard's names. CONFIG: the shard has other names of the same version. */
int coord_names_claim(const struct coord_fleet *f, const struct wire_SHARD_BEAT *beat,
                      struct err *e);
/* Takes the version of names that a shard of this cluster knows. True: it is newer than the store's
 * (coord_older_names). */
bool coord_names_learn(struct coord_fleet *f, uint32_t shard, const struct wire_SHARD_BEAT *beat);
/* True when no shard has newer names than the store. */
bool coord_names_ready(const struct coord_names *n);
/* Asks a shard for newer names when there are any. Cheap. */
void coord_names_step(struct coord_fleet *f);
/* Stores the names of a space (NULL: none are known) under a new version, at least `number`, unless
 * they and all that the text says of spaces are stored already. s NULL: no names change. NOMEM,
 * TOO_BIG, IO. */
int coord_names_store(struct coord_fleet *f, struct coord_space *s, const struct legend *legend,
                      uint64_t number, struct err *e);
/* The states of spaces have changed: stores the text with them, and tells all shards; calls `done`
 * (NULL: nothing) when all have it. NOMEM, TOO_BIG, IO; UNAVAILABLE: a shard has newer names. */
int coord_names_again(struct coord_fleet *f,
                      void (*done)(void *context, const struct coord_call *call, int status,
                                   const char *text),
                      struct err *e);
/* Begins to tell the names to the shards that the call is for; false: out of memory. */
bool coord_names_tell(struct coord_fleet *f, const struct coord_call *to);
/* True when the call tells names that are no longer the newest: a shard that has newer ones refuses
 * it, and they are to be told in its place. */
bool coord_names_past(const struct coord_fleet *f, const struct coord_call *call);
/* Tells one shard the names, when it registers; false: out of memory. */
bool coord_names_greet(struct coord_fleet *f, uint32_t shard);
/* Sends them to a copy that follows and has others; its next beat tells whether it took them. */
void coord_names_send(struct coord_fleet *f, const struct coord_shard *s);
/* True when every server that may know newer names has come and told its version. */
bool coord_names_sure(const struct coord_fleet *f);
/* Stores the names of a space without this one, whose rows are gone (NULL: without all of them),
 * and tells all shards; calls `done` when all have them. Must not be called while a job is set up.
 * IO, NOMEM. */
int coord_names_forget(struct coord_fleet *f, struct coord_space *s, enum legend_list list,
                       const char *name,
                       void (*done)(void *context, const struct coord_call *call, int status,
                                    const char *text),
                       struct err *e);

#endif
