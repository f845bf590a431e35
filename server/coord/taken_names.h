/* taken_names.h: the lists of what logs the tables have learnt: their form as a record, adding to
 * them, asking them. When a list is begun, told and over is taken.h's. Thread: the coordinator's
 * loop. */
#ifndef SERVER_COORD_TAKEN_NAMES_H
#define SERVER_COORD_TAKEN_NAMES_H

#include "proto/base/err.h"
#include "proto/base/nameset.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct coord_fleet;
struct coord_job;

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
#define COORD_TAKEN_KEY "taken"
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

void coord_taken_list_close(struct coord_taken_list *l);
/* The job has yet to take its names over. */
bool coord_taken_begins(const struct coord_job *j);
/* The list of the tables that the job has, or will have. */
const struct coord_taken_list *coord_taken_names(const struct coord_job *j);
/* No name stays in its place: bits of an older list mean nothing any more. */
void coord_taken_moved(struct coord_fleet *f);

/* A record with `before` bytes free at its beginning and without the last `without` names; the
 * caller's. NULL: no memory. */
void *coord_taken_record_make(const struct coord_taken_list *l, size_t before, uint32_t without,
                              size_t *bytes);
/* Bytes of a store, a checkpoint or a shard: nothing is believed. *l stays as it is where they
 * cannot be. CORRUPT, NOMEM. */
int coord_taken_record_take(struct coord_taken_list *l, const void *bytes, size_t count,
                            struct err *e);
/* As a checkpoint has them, the caller's; NULL: none are known, or no memory. */
void *coord_taken_record(const struct coord_job *j, size_t *bytes);
/* Stores the list under that version, which is the cluster's then. False: *e says why not. */
bool coord_taken_put(struct coord_fleet *f, uint64_t version, const struct coord_taken_list *l,
                     struct err *e);
/* The cluster's list has changed: stores it under the next version. */
int coord_taken_changed(struct coord_fleet *f, struct err *e);

/* Adds the names of the objects at hand; the list says how many were none of it. NOMEM, TOO_BIG. */
int coord_taken_objects_add(struct coord_job *j, struct coord_taken_list *l, struct err *e);
/* The same for objects without rows, which no round learns. IO, NOMEM, TOO_BIG. */
int coord_taken_empty(struct coord_job *j, struct err *e);
/* Of the tables that the job has, or will have: whether they have learnt the object of this line;
 * how many names there are; how many of the log's more can be taken. */
bool coord_taken_has(const struct coord_job *j, const char *line);
uint32_t coord_taken_count(const struct coord_job *j);
uint32_t coord_taken_room(const struct coord_job *j);
/* A list's bits (bytes of them), as OBJECTS has them. */
void coord_taken_gone(struct coord_job *j, const void *bits, size_t bytes);

#endif
