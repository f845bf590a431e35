/* source.h: where the rows that a job trains come from, as one table of operations for each kind:
 *
 *   text.c             files, streams, joined logs: one index of data.train
 *   objects.c          a log of objects: listed once, each indexed by itself (objects_index.h)
 *   grow.c             a log of objects that grows: trained in rounds of new objects
 *   replay.c           text in windows of time, in order
 *   replay_objects.c   a log of objects in windows of time
 *
 * Workers ask for work in one way, whatever the source (grant.c): a list of objects, an index, a
 * task. A new source is a new table, and a line in coord_source_of. A source that lets tasks wait
 * (replay.h) or that has rounds (grow.h) is also called by name where an epoch ends (job/epoch.c).
 * A worker reads its rows by worker/data/source.h. Thread: the coordinator's loop. */
#ifndef SERVER_COORD_WORK_SOURCE_H
#define SERVER_COORD_WORK_SOURCE_H

#include "server/coord/core/core.h"
#include "server/coord/work/task.h"

#include <stdint.h>

/* The amount to train in an epoch, and in all epochs before the current one. */
struct coord_amount {
    uint64_t rows, batches, rows_before, batches_before;
};

/* The tasks of an epoch are cut of these segments. */
struct coord_plan {
    struct coord_segment *segment; /* (segments), borrowed; at first `whole` */
    uint32_t segments;
    uint32_t task_batches;      /* 0: as train.task_batches says */
    struct coord_segment whole; /* all rows of data.train */
};

struct coord_source {
    /* Takes the list of objects that a worker sends with OBJECTS, or answers one that asks for it.
     * Errors of coord_objects_list. NULL, as the next two: the source has no objects. */
    int (*list)(struct coord_job *j, struct coord_ask *a);
    /* All objects that were listed are indexed: stores what follows. DATA, NOMEM, IO. */
    int (*known)(struct coord_job *j, struct err *e);
    /* Loads the objects after a restart. NOT_FOUND: the store has none; CORRUPT, NOMEM, IO. */
    int (*load)(struct coord_job *j, struct err *e);
    struct coord_amount (*amount)(const struct coord_job *j);
    /* Plans the epoch at hand. CONFIG: the plan is not that of the job's checkpoint. */
    int (*plan)(struct coord_job *j, struct coord_plan *p, struct err *e);
};

/* Returns the source of a job whose text is parsed. */
const struct coord_source *coord_source_of(const struct job *job);

#endif
