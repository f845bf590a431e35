/* task.h: lanes and tasks of one epoch: the worker and generation of each lane, and the rows that a
 * batch number stands for. Pure: time is an argument, and there is no message and no store (but the
 * layout of what is stored).
 *
 * An epoch's segments, as a rule one segment of all rows, are cut into tasks of task_batches
 * batches. async and ssp: the next task is appended to the lane that asks. bsp: tasks are given out
 * in rounds. In each round every lane gets its fixed part, padded with empty batches to the length
 * of the others. So the tasks of a lane are a function of segments, batch, lanes and task_batches
 * alone, never of the workers that are there. A job whose workers keep the network in step
 * (train.dense: allreduce) deals its tasks as bsp does, whatever its mode is: `dealt`. There, tasks
 * that were done may come again (coord_task_again).
 *
 * A segment may be made of pieces, each rows of one object: no task spans two pieces. async and
 * ssp: all tasks of a segment are given out before any of the next. A lane's next task is of an
 * object that its worker holds, else of an object that no worker holds, which this worker holds
 * from then on. With several segments, a worker that finds neither takes over a piece that is not
 * begun, if its holder has other pieces of the segment. bsp: a whole piece belongs to one lane; a
 * round is as long as the shortest remainder of the lanes' current pieces.
 *
 * A lane:            coord_lane_grant              coord_lane_granted
 *        LANE_FREE -------------------> GRANTING -------------------> HELD
 *            ^                              |                          |
 *            |        fence answered        |     coord_lane_close     |
 *            +--------------------------- CLOSING <--------------------+
 * GRANTING and CLOSING wait for a fence on every shard. In async and ssp GRANTING waits for two
 * fences: the first asks where the other lanes stand, the second makes the lane live and sets its
 * place among them. A lane keeps its unfinished task through CLOSING and FREE: the next holder goes
 * on with it. Invariants:
 *  1. Batch numbers of a lane count on from 1 over tasks and epochs, without gap. [test:
 *     coord_task_batch_numbers_count_on_over_tasks_and_epochs] [assert: coord_task_append]
 *  2. A generation is stored before it is told, and never given twice. [test:
 *     coord_lane_generation_rises_with_every_grant_and_close] [assert: answer_task]
 *  3. Every position of an epoch is in exactly one task, a task on exactly one lane. [test:
 *     coord_task_plan_covers_every_position_once] [assert: coord_task_plan, coord_task_append]
 *  4. No task from `stop` on is appended. Under bsp `stop` is a round's first task, so where
 *     training stops for an evaluation every lane has done the same rounds. [test:
 *     coord_task_stops_between_rounds] [assert: coord_task_append, coord_task_stop] */
#ifndef SERVER_COORD_WORK_TASK_H
#define SERVER_COORD_WORK_TASK_H

#include "proto/base/env.h"
#include "proto/base/err.h"
#include "proto/base/limits.h"

#include "server/coord/core/losses.h"

#include <stdbool.h>
#include <stdint.h>

#define COORD_NO_TASK UINT32_MAX
#define COORD_NO_LANE UINT32_MAX
#define COORD_NO_OBJECT UINT32_MAX
#define COORD_TASKS_MAX (1u << 18) /* in one epoch; larger inputs get longer tasks */

enum coord_lane_state { LANE_FREE, LANE_GRANTING, LANE_HELD, LANE_CLOSING };

/* Deaths of the lane's workers in a row with no batch done between them (death.h). */
struct coord_death {
    bool open; /* a worker has just died: the fence will tell at which batch */
    uint32_t count;
    uint64_t mark, ns;                 /* the batch of the last death, and its time */
    char name[LIMIT_NAME], holder[48]; /* the worker that died last */
};

struct coord_lane {
    enum coord_lane_state state;
    uint32_t task;       /* current, not fully pushed; or COORD_NO_TASK */
    uint64_t worker;     /* in GRANTING and HELD */
    uint64_t owner;      /* dealt: the live worker that holds the lane's objects; 0: none */
    uint64_t generation; /* highest given */
    uint64_t stored;     /* highest in the store */
    uint64_t next_batch; /* first batch of the next task */
    uint64_t appended;   /* last batch of the task that was appended last; 0: none since the
                          * start */
    uint64_t mark;       /* batches up to here are done everywhere, as far as known */
    uint64_t fence_mark; /* lowest mark that a shard answered to the fence at hand */
    uint64_t fence_high; /* bsp: and the newest clock of any lane */
    uint64_t fence_low;  /* async, ssp: the smallest clock of the live lanes, as the shard furthest
                          * on answers */
    uint64_t at, clock;  /* ssp, async: where the lane's clocks begin, once it is placed */
    bool placed;
    uint32_t fence_shard, fence_high_shard; /* the shards that answered fence_mark and fence_high */
    uint32_t next_task;                     /* dealt: its next task of the epoch */
    uint32_t again; /* dealt: the next task that is done again, if it was appended */
    struct coord_death death;
    bool used;            /* the holder has spoken for the lane since it was granted */
    uint64_t answered_ns; /* when the grant was last answered; 0: not yet */
    uint64_t kept_for;    /* closing or free: the worker that it is kept for (pace.h); 0: any */
    uint64_t kept_ns;     /* since when */
    peer_t ask_peer;      /* connection and request id that wait for the grant; 0: none */
    uint64_t ask_id;
    uint64_t ask_ns;
};

/* Rows of an object, all or those of a window; positions count in the object's own order. */
struct coord_piece {
    uint64_t position, rows;
    uint32_t object, lane; /* lane: under bsp */
};

/* Positions of the epoch's order that are trained. Segments come one after the other, and no batch
 * spans two. */
struct coord_segment {
    uint64_t position, rows;
    uint32_t task;                   /* its first task, set by coord_task_plan */
    uint32_t pieces;                 /* 0: the log is none of objects */
    const struct coord_piece *piece; /* borrowed; of `rows` rows in all */
};

struct coord_task {
    uint64_t position, rows; /* in the epoch's order */
    uint64_t before;         /* batches with rows before it, in its epoch */
    uint64_t first_batch;    /* 0: not appended yet */
    uint32_t batch_count;
    uint32_t lane;   /* dealt: set from the start; else when appended */
    uint32_t object; /* or COORD_NO_OBJECT: then position counts in the whole order */
    uint32_t segment;
    bool begins;   /* the first task of its piece */
    bool pushed;   /* all batches are acknowledged on every shard */
    bool reported; /* TASK_DONE was taken */
    bool stored;   /* stored as appended: it may be told */
    struct coord_losses sum;
};

struct coord_tasks {
    struct coord_lane *lane; /* (lanes), owned */
    /* by object, borrowed: the worker that holds it, 0 none; NULL: the log is none of objects */
    uint64_t *holder;
    uint32_t objects; /* length of `holder` */
    /* workers with this number or above came when all objects were held; such a worker takes over
     * up to `fair` objects that are not begun */
    uint64_t late;
    uint32_t fair;
    uint32_t lanes, mode;
    bool dealt; /* tasks are dealt to lanes in advance: under bsp; or the owner has set it */
    uint32_t segments;
    struct coord_task *task; /* (tasks), owned */
    uint32_t tasks, capacity;
    uint32_t next;     /* async, ssp: first task not appended */
    uint32_t frontier; /* index after the last task that is appended */
    uint32_t stop;     /* tasks below may be appended */
    uint32_t gate;     /* tasks below may be appended so far; later ones wait for their time
                        * (replay.pace) */
    uint32_t pushed, reported;
    uint64_t examples; /* over the tasks reported in this epoch; the next two likewise, as in
                        * coord_losses */
    uint64_t bad_lines, drawn;
    uint32_t epoch;
    uint64_t batch, batches; /* rows of a batch; batches with rows */
    uint64_t planned_ns;
};

/* The stored record of an appended task, under "task/INDEX"; a record of another run or epoch is
 * void. */
struct coord_task_record {
    uint64_t run, first_batch;
    struct coord_losses sum;
    uint32_t epoch, lane, batch_count, reported;
};
_Static_assert(sizeof(struct coord_task_record) == 144, "coord_task_record is stored");
struct coord_lane_record { /* an array of them under "lanes" */
    uint64_t generation, next_batch;
};
_Static_assert(sizeof(struct coord_lane_record) == 16, "coord_lane_record is stored");

int coord_task_open(struct coord_tasks *t, uint32_t lanes, uint32_t mode, struct err *e);
void coord_task_close(struct coord_tasks *t);

/* The least number of batches of a task, where that is not more than a quarter of a lane's part of
 * the epoch. Between two tasks of a lane lie the acknowledgement of its last push, its report, its
 * question, and the reading and the pull of its next batch. */
#define COORD_TASK_LEAST 8u
/* Returns the batches of a task for an input: about an eighth of a lane's part, 1..64, at least
 * `shortest` as said above, more where COORD_TASKS_MAX requires it. A function of the input and the
 * job, independent of workers and servers. wanted: train.task_batches, or 0. */
uint32_t coord_task_batches(uint64_t rows, uint32_t batch, uint32_t lanes, uint32_t wanted,
                            uint32_t shortest);
/* Cuts epoch `epoch` into tasks; no lane has a task. segment (count): rising, each with rows; their
 * `task` is set. NOMEM, TOO_BIG. */
int coord_task_plan(struct coord_tasks *t, uint32_t epoch, struct coord_segment *segment,
                    uint32_t count, uint32_t batch, uint32_t task_batches, uint64_t now_ns,
                    struct err *e);
/* Number of a task on the wire, and back: COORD_NO_TASK for a number of another epoch or an invalid
 * one. */
uint64_t coord_task_number(const struct coord_tasks *t, uint32_t index);
uint32_t coord_task_index(const struct coord_tasks *t, uint64_t number);
/* Appends the next task to the lane, which has none, and returns its index, or COORD_NO_TASK. The
 * caller stores the task before telling it. */
uint32_t coord_task_append(struct coord_tasks *t, uint32_t lane);
/* Returns the task that would be appended if the worker held the lane, or COORD_NO_TASK. */
uint32_t coord_task_next(const struct coord_tasks *t, uint32_t lane, uint64_t worker);
/* The lane, which is not held, goes on at this batch, which may be done already: its tasks from
 * there on come again, with the same batches, and their figures do not count again. Tasks are
 * dealt. False: the batch belongs to an earlier epoch. */
bool coord_task_again(struct coord_tasks *t, uint32_t lane, uint64_t batch);
/* The lane's current task is done on every shard. */
void coord_task_pushed(struct coord_tasks *t, uint32_t lane);
/* Takes the figures of a finished task; false when it has reported before. */
bool coord_task_report(struct coord_tasks *t, uint32_t index, const struct coord_losses *sum);
/* True when all tasks below `stop` are pushed and all lanes are free. */
bool coord_task_drained(const struct coord_tasks *t);
/* Returns the first task after all appended ones; under bsp the first of a round. */
uint32_t coord_task_frontier(const struct coord_tasks *t);
/* Returns the batches with rows before a task, in its epoch; for the number of tasks: all. A task
 * without rows, which pads a lane, counts like the next one. */
uint64_t coord_task_before(const struct coord_tasks *t, uint32_t index);
/* Makes tasks from `index` on wait, or from the frontier on where that is further. `index` is a
 * round's first task under bsp. */
void coord_task_stop(struct coord_tasks *t, uint32_t index);
/* Returns the first task with at least `batches` batches before it; under bsp the first of a
 * round. */
uint32_t coord_task_after(const struct coord_tasks *t, uint64_t batches);
/* Returns the last batch number of a task. */
uint64_t coord_task_last(const struct coord_task *task);

/* Picks a lane for `worker`, which may hold `share` lanes: first a lane with an unfinished task, or
 * one that is kept for it (whatever the share), then one with tasks left. */
uint32_t coord_lane_pick(const struct coord_tasks *t, uint64_t worker, uint32_t share);
uint32_t coord_lane_held(const struct coord_tasks *t, uint64_t worker); /* counts lanes in GRANTING,
                                                                         * too */
/* Moves of the diagram. coord_lane_grant and coord_lane_close raise the generation. */
void coord_lane_grant(struct coord_tasks *t, uint32_t lane, uint64_t worker);
void coord_lane_granted(struct coord_tasks *t, uint32_t lane, uint64_t mark);
void coord_lane_close(struct coord_tasks *t, uint32_t lane);
void coord_lane_closed(struct coord_tasks *t, uint32_t lane);

/* Layouts of the store. */
void coord_task_to_record(const struct coord_tasks *t, uint32_t index, uint64_t run,
                          struct coord_task_record *out);
/* After a restart: takes a stored task back into a freshly planned epoch. A record of another run,
 * or of another epoch, changes nothing. CORRUPT: the record is of this epoch and does not fit its
 * cut, as one of a release that cuts otherwise: its batches had other rows. Then one call of
 * coord_task_resume makes each lane's newest task its current one. */
int coord_task_from_record(struct coord_tasks *t, uint32_t index, uint64_t run,
                           const struct coord_task_record *in, struct err *e);
void coord_task_resume(struct coord_tasks *t);
/* Called after coord_task_resume when all appended tasks are known to be pushed: no lane has a task
 * afterwards. */
void coord_task_settle(struct coord_tasks *t);

#endif
