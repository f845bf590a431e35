/* objects.h: a split of objects (data.objects, or {object: ..} in job.yaml): which there are, how
 * many rows each has, which worker has it at hand.
 *
 * Before workers make their models one of them lists the objects for all (OBJECTS), for the first
 * line of an object says what the columns are. Then each object is given to one worker, which opens
 * it and says how many rows it has (LANE_NEXT: INDEX; OBJECT_DONE). That worker holds it: tasks of
 * the object are for a lane of that worker, as long as it lives, so that nobody opens what another
 * one has; what is scored likewise (eval.h). Under bsp objects of data.train are dealt to lanes
 * beforehand, as they are listed, or by the begin of their partitions, whoever is there; the worker
 * that indexes the first object of a lane owns the lane, and gets its other objects. For a while
 * lanes over a worker's share are kept for those that have not asked yet.
 *
 *   listed --given--> asked --OBJECT_DONE--> known (or left out)
 *
 * Invariants:
 *  1. A list that was told stands: the index is of it, and the epoch is cut from it.
 *     [test: coord_objects_the_first_list_stands]
 *  2. Rows are stored before the split is known to have them. [assert: index_complete]
 *
 * Thread: the coordinator's loop. */
#ifndef SERVER_COORD_OBJECTS_H
#define SERVER_COORD_OBJECTS_H

#include "proto/base/err.h"
#include "proto/base/json.h"
#include "proto/wire/wire.h"
#include "server/coord/item.h"
#include "server/coord/task.h"

#include <stdbool.h>
#include <stdint.h>

struct coord_ask;
struct coord_job;

#define COORD_OBJECT_WINDOWS_MAX (1u << 19) /* of all objects: they are stored as one */

struct coord_object {
    const char *line; /* borrowed, in coord_objects.text */
    /* owned (windows): of a replay: of its own order, one after the other */
    struct wire_window *window;
    uint32_t windows, lane;      /* lane: under bsp */
    struct coord_item item;      /* its index, which its holder makes */
    uint64_t failed, failed_ns;  /* the worker that could not read it, 0: nobody; since when */
    uint64_t rows, digest, base; /* base: rows of those listed before it */
    bool known, left_out;
};

struct coord_split {
    uint64_t rows, digest;
    uint32_t used, known; /* the job has it; its index is reported */
};

/* What is stored of each. */
struct coord_object_record {
    uint64_t rows, digest;
    uint32_t left_out, windows;
};
_Static_assert(sizeof(struct coord_object_record) == 24, "coord_object_record is stored");

struct coord_objects {
    char *text; /* owned: lines, each ended by a NUL */
    size_t bytes;
    char *head; /* owned; the first line of one; may be empty */
    size_t head_bytes;
    struct coord_object *object; /* owned (count) */
    uint64_t *holder;            /* owned (count): the worker that has it at hand; 0: nobody */
    uint32_t count, known, left_out;
    uint32_t windows;          /* of all */
    uint32_t first;            /* all before it are known */
    struct coord_item item;    /* their list; of a split of text its index */
    uint64_t listed_ns;        /* when they were */
    uint32_t waits;            /* the last that could not be read, to be tried again; from 1 */
    struct coord_piece *piece; /* owned (count): of the epoch at hand */
    struct coord_split whole;  /* of all, once they are known */
};

void coord_objects_close(struct coord_objects *o);
/* All but the head and the item. */
void coord_objects_forget(struct coord_objects *o);
/* Lines in byte order, LF-ended; a peer's word, or a store's. Nobody holds one, nothing is known of
 * their rows. MALFORMED, NOMEM. */
int coord_objects_take(struct coord_objects *o, const void *lines, size_t bytes, uint32_t count,
                       const void *head, size_t head_bytes, struct err *e);
/* Which lane each is of under bsp: a function of job and list, whoever is there. NOMEM; CONFIG: a
 * name is none of data.partition. */
int coord_objects_deal(struct coord_job *j, struct err *e);
/* Records of all, one after the other, then their windows, and back, from anywhere; false: they
 * cannot be. */
size_t coord_objects_records_bytes(const struct coord_objects *o);
void coord_objects_records(const struct coord_objects *o, void *to);
bool coord_objects_known(struct coord_objects *o, const void *from, size_t bytes);
/* The first is at hand there. */
void coord_objects_opened(struct coord_job *j, uint64_t worker);
/* After a restart of a job whose index was complete. CORRUPT. */
int coord_objects_load(struct coord_job *j, struct err *e);

/* OBJECTS, and OBJECT_DONE, of a split of objects. *ends: the job cannot be. */
int coord_objects_list(struct coord_job *j, struct coord_ask *a);
int coord_objects_done(struct coord_job *j, struct coord_ask *a, bool *ends);

/* The object that a worker is to index next, or COORD_NO_OBJECT: all are given. It is its holder
 * then. */
uint32_t coord_objects_next(struct coord_job *j, uint32_t split, uint64_t worker);
/* True: the worker has a split to list or to index, or an object to index. */
bool coord_objects_asked(const struct coord_job *j, uint64_t worker);
void coord_objects_worker_gone(struct coord_job *j, uint64_t worker);
/* Whether one that could not be read waits for a worker that is not there: says so. */
bool coord_objects_waits(const struct coord_job *j, char *text, size_t bytes);
/* What a task of it says, or INDEX. */
void coord_objects_put(const struct coord_job *j, uint32_t split, uint32_t object,
                       struct wire_LANE_NEXT_reply *reply);

/* The pieces of an epoch, one an object with rows, in the epoch's order: drawn from (seed, epoch),
 * or as listed where rows are not drawn from the whole log, and for epoch 0. *pieces of them. */
const struct coord_piece *coord_objects_pieces(struct coord_job *j, uint32_t split, uint32_t epoch,
                                               uint32_t *pieces);
/* Of an epoch of data.train, as what follows, of a job that is no replay: none is of two objects.
 */
uint64_t coord_objects_batches(const struct coord_job *j);
uint64_t coord_objects_base(const struct coord_job *j, uint32_t object); /* of no object: 0 */
/* Where a row is, counted over all objects as they are listed: its object's name in *object
 * (borrowed), its number there. */
uint64_t coord_objects_at(const struct coord_job *j, uint64_t row, const char **object);
/* {"read", "left_out"} of data.train, of others {"valid": the same} and so on, into *to, where
 * there are objects. */
void coord_objects_json(const struct coord_job *j, struct json *to);

#endif
