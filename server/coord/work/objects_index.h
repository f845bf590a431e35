/* objects_index.h: the index of each object of a split (objects.h), and the worker that holds it.
 *
 * Each object is given to one worker, which opens it and reports how many rows it has (LANE_NEXT:
 * INDEX; OBJECT_DONE). That worker holds the object: tasks of it go to lanes of that worker as long
 * as it lives, so that no other worker opens it; the same holds for tasks of an evaluation
 * (eval.h). Under bsp the worker that indexes the first object of a lane owns the lane, and gets
 * its other objects. For a while, lanes over a worker's share are kept for workers that have not
 * asked yet.
 *
 *   listed --given--> asked --OBJECT_DONE--> known (or left out)
 *
 * Invariant:
 *  1. Rows are stored before the split is known to have them. [assert: index_complete]
 *
 * Thread: the coordinator's loop. */
#ifndef SERVER_COORD_WORK_OBJECTS_INDEX_H
#define SERVER_COORD_WORK_OBJECTS_INDEX_H

#include "server/coord/work/objects.h"

#define COORD_OBJECT_WINDOWS_MAX (1u << 19) /* over all objects: stored as one value */

/* The stored record of an object. */
struct coord_object_record {
    uint64_t rows, digest;
    uint32_t left_out, windows;
};
_Static_assert(sizeof(struct coord_object_record) == 24, "coord_object_record is stored");

/* Writes the records of all objects, then their windows, as stored, and reads them back from an
 * untrusted source; false: the bytes are no valid records. */
size_t coord_objects_records_bytes(const struct coord_objects *o);
void coord_objects_records(const struct coord_objects *o, void *to);
bool coord_objects_known(struct coord_objects *o, const void *from, size_t bytes);
/* Stores the records of data.train, and loads those of a split. */
int coord_objects_put_rows(struct coord_job *j, struct err *e);
int coord_objects_rows_load(struct coord_job *j, uint32_t split, struct err *e);

/* Handler of OBJECT_DONE for a split of objects. *ends: true when the job cannot go on. */
int coord_objects_done(struct coord_job *j, struct coord_ask *a, bool *ends);
/* Returns the object that the worker is to index next, and makes the worker its holder;
 * COORD_NO_OBJECT: all are given. */
uint32_t coord_objects_next(struct coord_job *j, uint32_t split, uint64_t worker);
/* True: the worker has a split to list or to index, or an object to index. */
bool coord_objects_asked(const struct coord_job *j, uint64_t worker);
void coord_objects_worker_gone(struct coord_job *j, uint64_t worker);
/* True while an unreadable object waits for a worker that is not there; the text says so. */
bool coord_objects_waits(const struct coord_job *j, char *text, size_t bytes);

#endif
