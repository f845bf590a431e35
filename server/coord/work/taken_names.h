/* taken_names.h: the list of files and objects that the tables have learnt, and the positions of
 * streams: its record, adding names and looking them up. taken.h says when a list is begun, told
 * and over. Thread: the coordinator's loop. */
#ifndef SERVER_COORD_WORK_TAKEN_NAMES_H
#define SERVER_COORD_WORK_TAKEN_NAMES_H

#include "proto/base/err.h"
#include "proto/base/nameset.h"
#include "proto/base/positions.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct coord_fleet;
struct coord_job;
struct coord_space;

enum coord_taken_flag {
    COORD_TAKEN_BEGUN = 1,  /* job `job` has begun to learn the last names, and has not finished */
    COORD_TAKEN_UNSURE = 2, /* the tables have learnt more than the names say */
    COORD_TAKEN_NAMED = 4   /* the job's own files are in the list */
};

/* As stored under "taken/0", and after a version (u64) under "taken" in the space's part of the
 * store; the names follow, and behind them the text of the positions. */
struct coord_taken_head {
    uint64_t job;
    uint32_t flags;
    uint32_t round, hand; /* the last `hand` names are those of that round */
    uint32_t count;
};
_Static_assert(sizeof(struct coord_taken_head) == 24, "coord_taken_head is stored");
#define COORD_TAKEN_KEY "taken"
#define COORD_TAKEN_RECORD_MAX                                                                     \
    (sizeof(struct coord_taken_head) + NAMESET_MAX * sizeof(struct nameset_item) +                 \
     POSITIONS_TEXT_MAX)

struct coord_taken_list {
    struct coord_taken_head at;
    struct nameset names;
    /* a range of a stream has no name here: it moves the stream's position */
    struct positions positions;
};

struct coord_taken {  /* the list of a space */
    uint64_t version; /* 0: no list is known, and the tables are UNSURE */
    struct coord_taken_list is;
    uint8_t *gone; /* owned: a bit for each of the first names, set when the log's list no longer
                    * has it */
    uint32_t gone_count;
    bool counted; /* no name has changed its place since the lister asked for the names */
};

/* The versions of all lists. Each change of a list draws a version that is greater than all before;
 * shard 0 is told the lists in order of their versions, so it has all up to its greatest. */
struct coord_taken_all {
    uint64_t version; /* the greatest that was drawn here, or told by a shard that was asked */
    uint64_t told;    /* the greatest that shard 0 keeps */
    uint64_t newest;  /* the greatest that a shard has told */
    uint32_t newest_shard;
    uint32_t asks; /* number of the space of whose list that shard is asked next */
    /* when that shard was asked for a list, and when shard 0 could not be told; 0: not yet */
    uint64_t asked_ns, failed_ns;
};

void coord_taken_list_close(struct coord_taken_list *l);
/* True while the job has still to make its names those of its space. */
bool coord_taken_begins(const struct coord_job *j);
/* Returns the names that the job's tables have learnt: the job's own list until it has become its
 * space's (coord_taken_begins), then the space's. */
const struct coord_taken_list *coord_taken_names(const struct coord_job *j);
/* Names have changed their places: the bits of an older list are void. */
void coord_taken_moved(struct coord_taken *t);

/* Makes a record with `before` bytes free at its beginning. The caller frees it. NULL: no
 * memory. */
void *coord_taken_record_make(const struct coord_taken_list *l, size_t before, size_t *bytes);
/* Takes a record from a store, a checkpoint or a shard; every byte is checked. On failure *l is
 * unchanged. CORRUPT, NOMEM. */
int coord_taken_record_take(struct coord_taken_list *l, const void *bytes, size_t count,
                            struct err *e);
/* Returns the record for a checkpoint, which the caller frees; NULL: no list is known, or no
 * memory. */
void *coord_taken_record(const struct coord_job *j, size_t *bytes);
/* Stores the space's list under that version. False: *e says why not. */
bool coord_taken_put(struct coord_fleet *f, struct coord_space *s, uint64_t version, struct err *e);
/* The same for a list that has changed, under the next version. */
int coord_taken_changed(struct coord_fleet *f, struct coord_space *s, struct err *e);

/* Makes *to a copy of the names, positions and flags. NOMEM. */
int coord_taken_copy(struct coord_taken_list *to, const struct coord_taken_list *from);
/* Takes the round at hand out of the list: its last `hand` names, and how far it moved
 * positions. */
void coord_taken_list_undo(struct coord_taken_list *l);

/* Adds the names of the objects at hand; `hand` of the list counts those that are new to it. Ranges
 * of streams move positions instead. NOMEM, TOO_BIG; CORRUPT, and no name or position is added: a
 * range does not follow its stream's position. */
int coord_taken_objects_add(struct coord_job *j, struct coord_taken_list *l, struct err *e);
/* Adds the names of objects without rows, which no round learns. IO, NOMEM, TOO_BIG, CORRUPT. */
int coord_taken_empty(struct coord_job *j, struct err *e);
/* True when the object of this line is a range of the job's stream. */
bool coord_taken_range(const struct coord_job *j, const char *line, struct position *out);
/* On the tables that the job has, or will have: true when they have learnt the object of this line,
 * which is no range;
 * the count of their names; how many more objects can be taken that are no ranges. */
bool coord_taken_has(const struct coord_job *j, const char *line);
uint32_t coord_taken_count(const struct coord_job *j);
uint32_t coord_taken_room(const struct coord_job *j);
/* Takes the bits (bytes of them) that came with a list in OBJECTS. */
void coord_taken_gone(struct coord_job *j, const void *bits, size_t bytes);

#endif
