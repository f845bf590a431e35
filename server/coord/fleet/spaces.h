/* spaces.h: the spaces of the fleet. A space is a model's tables on the servers, under the name
 * that jobs give with `space:`. It outlives its jobs: a job uses one space, and leaves it there.
 *
 *   key            value, in the space's part of the store
 *   "space"        struct coord_space_record: name and state
 *   "numbers"      struct table_set: the numbers by which shards know its tables
 *   "left"         the same for tables that no job of it uses any more, and that shards still have:
 *                  they go when all its rows are dropped
 *   "clear"        which job drops all its rows (core/fresh.h)
 *   "made"         its tables and the text of the job that made them (core/made.h)
 *   "half"         the table of it that is half dropped, by name
 *   "emptied"      the tables that were dropped since its last job began, as a text
 *   "taken"        the files and objects that its tables have learnt (work/taken.h)
 *   "fresh_fields" the fields of which rows are half dropped (core/fresh.h)
 *
 * The part of space 0 is the whole store, so that a store of a release without spaces is one of
 * space 0, which has the name of the job that made its tables. Names of fields are in the text of
 * names.h, which the shards keep.
 *
 *     job's tables are in the map -> it holds tables -> DROP -> half -> it is forgotten, and its
 *                                        |    ^                 places are free
 *                                        |    +-------------+
 *                                        +-> DROP of a table -> half -> its rows are gone
 *     a server with rows of the space in memory starts again, or one whose disk is lost is replaced
 *     -> lost, half dropped or not, unless the space's own job brings or loads its rows
 *
 * Rows of a space that is lost or half dropped are missing: no job begins with it and no reader
 * sees it before it is dropped, or the drop of its table is done. The text of names.h says so too,
 * and is told before the first row goes: a coordinator whose store is lost knows it.
 *
 * Thread: the coordinator's loop. */
#ifndef SERVER_COORD_FLEET_SPACES_H
#define SERVER_COORD_FLEET_SPACES_H

#include "proto/base/err.h"
#include "proto/base/limits.h"
#include "proto/base/table_set.h"
#include "proto/job/legend.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct coord_fleet;
struct coord_fresh_fields;
struct coord_made;
struct coord_store;
struct coord_taken;

/* Stored: add at the end. */
enum coord_space_state { SPACE_IS, SPACE_LOST, SPACE_HALF };

struct coord_fresh { /* value of "clear" */
    /* number: the job that wants it, 0: none; begun: a shard may have done it */
    uint64_t number, begun;
};

#define COORD_EMPTIED 256u

struct coord_space {
    uint32_t number;          /* its place in the list; LIMIT_SPACES: it is none */
    uint32_t state;           /* enum coord_space_state */
    char name[LIMIT_NAME];    /* "": not known, or it has none */
    struct table_set numbers; /* none: it holds no tables */
    char half[LIMIT_NAME];    /* SPACE_HALF: the table that is half dropped; "": all of them are */
    /* the tables without the rows that its last job left in them, with commas, as far as there is
     * room */
    char emptied[COORD_EMPTIED];
    struct table_set left; /* tables beside them that the shards have to drop */
    struct coord_fresh fresh;
    struct coord_store *store; /* owned, but for space 0 */
    struct coord_made *made;   /* borrowed, as the next two; job/slot.h has them */
    struct coord_taken *taken;
    struct coord_fresh_fields *fresh_fields;
    struct legend legend; /* the names of its fields; owned */
    bool named;           /* the legend is known */
    bool used;            /* it is that of a slot's job */
    /* shards are dropping all tables for its job, of whichever space: no other tables are made */
    bool drops_all;
};

/* The state of the space's job at this moment. */
struct coord_space_use {
    bool runs;  /* a job of it runs */
    bool needs; /* and needs the rows that shards have: it goes back or ends without (job/back.h) */
    bool brings; /* and is being set up with rows of its own: others are none of its affair */
    bool loads;  /* and the shards load a checkpoint for it: they make no cut */
};

struct coord_spaces {
    /* the last one is none: that of a slot which never had a job */
    struct coord_space space[LIMIT_SPACES + 1];
    /* Forgets a space, its tables' schemas too, which core/made.h has. False: the store failed. */
    bool (*forget)(struct coord_fleet *f, struct coord_space *s);
    /* Asks the jobs, which this room does not know (job/slot.c). */
    struct coord_space_use (*use)(const struct coord_fleet *f, const struct coord_space *s);
};

#define COORD_EACH_SPACE(f, s)                                                                     \
    for (struct coord_space *s = (struct coord_space *)(f)->spaces.space;                          \
         s < (f)->spaces.space + LIMIT_SPACES; s++)

/* Reads the spaces; the map is known. NOMEM, IO, CORRUPT. */
int coord_spaces_open(struct coord_fleet *f, struct err *e);
void coord_spaces_close(struct coord_fleet *f);
static inline struct coord_space *coord_space_none(struct coord_spaces *s)
{
    return &s->space[LIMIT_SPACES];
}

/* True when servers hold tables of the space. */
bool coord_space_holds(const struct coord_fleet *f, const struct coord_space *s);
/* Returns how many do. */
uint32_t coord_spaces_held(const struct coord_fleet *f);
/* Returns the space with tables that has the name; else one with tables whose name is not known;
 * NULL: there is none. */
struct coord_space *coord_space_find(struct coord_fleet *f, const char *name);
/* Returns a space without tables, which no job uses; the given one first. NULL: all are taken. */
struct coord_space *coord_space_free(struct coord_fleet *f, struct coord_space *first);
/* Returns the space that a reader asks for; "": the only one with tables, for which any name stands
 * as long as the fleet never had a second one. *out NULL: none has tables, or it has not been found
 * out which (unknown). NOT_FOUND, USAGE: the error names those that there are. */
int coord_space_asked(struct coord_fleet *f, const char *name, struct coord_space **out,
                      struct err *e);
/* Refuses, with this status, a space of which rows are missing. */
int coord_space_whole(const struct coord_space *s, int status, struct err *e);
/* The same for a reader of rows: rows may be gone although the space is not marked yet, since no
 * job has begun after a server came back without them. */
int coord_space_there(const struct coord_fleet *f, const struct coord_space *s, int status,
                      struct err *e);
/* Writes the names of the spaces with tables, but for this one (NULL: all). */
void coord_spaces_text(const struct coord_fleet *f, const struct coord_space *but, char *out,
                       size_t bytes);

/* Stores that a table is half dropped ("": all of them are). False: the store failed. */
bool coord_space_half_put(struct coord_fleet *f, struct coord_space *s, const char *table);
/* Stores that a table was emptied (NULL: a job has begun with all that there is). False: the store
 * failed. */
bool coord_space_emptied_put(struct coord_fleet *f, struct coord_space *s, const char *table);
/* Stores name and state; a table that was half dropped no longer is. False: the store failed. */
bool coord_space_put(struct coord_fleet *f, struct coord_space *s, const char *name,
                     enum coord_space_state state);
/* Returns the tables that go when all rows of the space are dropped. */
static inline struct table_set coord_space_tables(const struct coord_space *s)
{
    return table_set_or(s->numbers, s->left);
}
/* Bytes of a stored set of tables: of numbers below 64 the first word alone, as releases write it
 * that had no more. */
size_t coord_space_set_bytes(const struct table_set *s);
/* Reads one. NOT_FOUND, IO, CORRUPT. */
int coord_space_set_get(struct coord_store *store, const char *key, struct table_set *out,
                        struct err *e);
/* Counts anew which numbers of tables the spaces hold. */
void coord_spaces_hold(struct coord_fleet *f);
/* Stores `numbers` and `left`, which are held from now on. */
bool coord_space_numbers_put(struct coord_fleet *f, struct coord_space *s);
/* Forgets name and numbers, which are free from now on (core/made.h forgets the rest). */
bool coord_space_forget(struct coord_fleet *f, struct coord_space *s);
/* A shard has lost rows that were in its memory: marks the spaces whose rows they were, all but
 * those whose job brings rows of its own. False: the store failed, or the job of a space needs them
 * and has yet to go back or to end, whose process must be known as the one without rows until
 * then. */
bool coord_spaces_lost(struct coord_fleet *f, uint32_t shard);
/* A server's rows are gone for good, by the newest REPLACE: marks the spaces that had rows of it
 * but this one (NULL: all), one that is half dropped too. how: a sentence without its end. False:
 * the store failed. */
bool coord_spaces_replaced(struct coord_fleet *f, const struct coord_space *but, const char *how);
/* Writes the names of those that it would mark; "": none. */
void coord_spaces_replaced_text(const struct coord_fleet *f, const struct coord_space *but,
                                char *out, size_t bytes);
/* True when a space has rows that could be lost: its tables are there, and its job, if one runs,
 * does not bring others. */
bool coord_spaces_have(const struct coord_fleet *f);
/* Returns the tables of spaces that no slot's job uses. */
struct table_set coord_spaces_resting(const struct coord_fleet *f);

#endif
