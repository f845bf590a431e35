/* objects.h: a split of objects (data.objects, or {object: ..} in job.yaml): the list of objects,
 * and the pieces of an epoch that it makes. objects_index.h has the rows of each object, and the
 * worker that holds it.
 *
 * Before workers make their models, one of them lists the objects for all (OBJECTS), because the
 * first line of an object names the columns. Under bsp, objects of data.train are dealt to lanes
 * beforehand, as they are listed or by the begin of their partitions, independently of the workers.
 *
 * Invariant:
 *  1. A list that was told stands: the index is of it, and the epoch is cut from it. [test:
 *     coord_objects_the_first_list_stands]
 *
 * Thread: the coordinator's loop. */
#ifndef SERVER_COORD_WORK_OBJECTS_H
#define SERVER_COORD_WORK_OBJECTS_H

#include "proto/base/err.h"
#include "proto/base/json.h"
#include "proto/wire/wire.h"
#include "server/coord/core/core.h"
#include "server/coord/work/item.h"
#include "server/coord/work/source.h"
#include "server/coord/work/task.h"

#include <stdbool.h>
#include <stdint.h>

struct coord_ask;
struct coord_job;

struct coord_object {
    const char *line; /* borrowed, in coord_objects.text */
    /* owned (windows): a replay's, in order, of the object's own rows */
    struct wire_window *window;
    uint32_t windows, lane;      /* lane: under bsp */
    struct coord_item item;      /* its index, which its holder makes */
    uint64_t failed, failed_ns;  /* the worker that could not read it, 0: none; since when */
    uint64_t rows, digest, base; /* base: rows of the objects listed before it */
    bool known, left_out;
};

struct coord_objects {
    char *text; /* owned: lines, each ended by a NUL */
    size_t bytes;
    char *head; /* owned; the first line of an object; may be empty */
    size_t head_bytes;
    struct coord_object *object; /* owned (count) */
    uint64_t *holder;            /* owned (count): the worker that holds each object; 0: none */
    uint32_t count, known, left_out;
    uint32_t windows;          /* over all objects */
    uint32_t first;            /* all objects before it are known */
    struct coord_item item;    /* the list; for a split of text, its index */
    uint64_t listed_ns;        /* when the list came */
    uint32_t waits;            /* the last object to be tried again after a failed read, counted
                                * from 1 */
    struct coord_piece *piece; /* owned (count): pieces of the epoch at hand */
    struct coord_split whole;  /* sums over all objects, once they are known */
};

void coord_objects_close(struct coord_objects *o);
/* Frees everything but the head and the item. */
void coord_objects_forget(struct coord_objects *o);
/* Takes a list: lines in byte order, LF-ended, from a peer or a store, not trusted. No object is
 * held yet, and no rows are known. MALFORMED, NOMEM. */
int coord_objects_take(struct coord_objects *o, const void *lines, size_t bytes, uint32_t count,
                       const void *head, size_t head_bytes, struct err *e);
/* Deals the objects to lanes under bsp: a function of job and list, independent of the workers.
 * NOMEM; CONFIG: a name does not match data.partition. */
int coord_objects_deal(struct coord_job *j, struct err *e);
/* The worker has opened the first object. */
void coord_objects_opened(struct coord_job *j, uint64_t worker);
/* Loads the objects after a restart of a job whose index was complete. CORRUPT. */
int coord_objects_load(struct coord_job *j, struct err *e);

/* Handler of OBJECTS for a split of objects. */
int coord_objects_list(struct coord_job *j, struct coord_ask *a);

/* Fills in the object for a task's reply, or for INDEX. */
void coord_objects_put(const struct coord_job *j, uint32_t split, uint32_t object,
                       struct wire_LANE_NEXT_reply *reply);

/* Returns the *pieces pieces of an epoch, one for each object with rows, in the epoch's order:
 * drawn from (seed, epoch), or as listed for epoch 0 and where rows are not drawn from the whole
 * log. */
const struct coord_piece *coord_objects_pieces(struct coord_job *j, uint32_t split, uint32_t epoch,
                                               uint32_t *pieces);
/* Returns the batches of an epoch of data.train, for a job that is no replay: no batch spans two
 * objects. */
uint64_t coord_objects_batches(const struct coord_job *j);
uint64_t coord_objects_base(const struct coord_job *j, uint32_t object); /* 0 for COORD_NO_OBJECT */
/* Finds a row that is counted over all objects as they are listed: returns its number in its
 * object, whose name goes to *object (borrowed). */
uint64_t coord_objects_at(const struct coord_job *j, uint64_t row, const char **object);
/* Adds {"read", "left_out"} of data.train to `to`, and {"valid": the same} and so on for other
 * splits, where there are objects. */
void coord_objects_json(const struct coord_job *j, struct json *to);

/* Operations of sources of objects (source.h). */
int coord_objects_stored(struct coord_job *j, struct err *e);
int coord_objects_plan(struct coord_job *j, struct coord_plan *p, struct err *e);
extern const struct coord_source coord_objects_source;

#endif
