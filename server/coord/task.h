/* task.h: lanes and tasks of one epoch: who holds which lane in which generation, which rows
 * a batch number means. Pure: no time but what is passed in, no message, no store (but the layout
 * of what is stored).
 *
 * An epoch's segments, as a rule one of all rows, are cut into tasks of task_batches batches. async
 * and ssp: the next task is appended to the lane that asks. bsp: in rounds; of each round every
 * lane gets its fixed part and is padded with empty batches to the length of the others, so what a
 * lane is told is a function of segments, batch, lanes and task_batches alone, never of who is
 * there.
 *
 * A segment may be made of pieces, each rows of one object: no task is of two. async and ssp: all
 * tasks of a segment are given out before one of the next; the next one is of an object that the
 * lane's worker holds, else of one that nobody holds, which it holds from then on. Whoever finds
 * none takes over a piece that is not begun, where its holder has others of the segment: of several
 * segments only. bsp: a piece is one lane's, whole; a round is as long as the shortest of what is
 * left of the lanes' pieces at hand.
 *
 * A lane:            coord_lane_grant              coord_lane_granted
 *        LANE_FREE -------------------> GRANTING -------------------> HELD
 *            ^                              |                          |
 *            |        fence answered        |     coord_lane_close     |
 *            +--------------------------- CLOSING <--------------------+
 * GRANTING and CLOSING wait for a fence on every shard; but for bsp GRANTING for two: one asks
 * where the others stand, one, with the lane's place among them, makes it live. A lane keeps its
 * unfinished task through CLOSING and FREE: whoever comes next goes on. Invariants:
 *  1. Batch numbers of a lane count on from 1 over tasks and epochs, without gap. [test:
 *     coord_task_batch_numbers_count_on_over_tasks_and_epochs] [assert: coord_task_append]
 *  2. A generation is stored before anybody hears of it and never given twice. [test:
 *     coord_lane_generation_rises_with_every_grant_and_close] [assert: answer_task]
 *  3. Every position of an epoch is in exactly one task, a task on exactly one lane. [test:
 *     coord_task_plan_covers_every_position_once] [assert: coord_task_plan, coord_task_append]
 *  4. No task from `stop` on is appended, which under bsp is a round's first: so where training
 *     stops for an evaluation every lane has done the same rounds. [test:
 *     coord_task_stops_between_rounds] [assert: coord_task_append, coord_task_stop] */
#ifndef SERVER_COORD_TASK_H
#define SERVER_COORD_TASK_H

#include "proto/base/env.h"
#include "proto/base/err.h"
#include "proto/base/limits.h"

#include <stdbool.h>
#include <stdint.h>

#define COORD_NO_TASK UINT32_MAX
#define COORD_NO_LANE UINT32_MAX
#define COORD_NO_OBJECT UINT32_MAX
#define COORD_TASKS_MAX (1u << 18) /* of one epoch; larger inputs get longer tasks */

enum coord_lane_state { LANE_FREE, LANE_GRANTING, LANE_HELD, LANE_CLOSING };

/* Deaths of its workers in a row with no batch done between them (death.h). */
struct coord_death {
    bool open; /* one has just died: the fence will tell where */
    uint32_t count;
    uint64_t mark, ns;                 /* where, and when the last one */
    char name[LIMIT_NAME], holder[48]; /* of the last one */
};

struct coord_lane {
    enum coord_lane_state state;
    uint32_t task;       /* current, not fully pushed; or COORD_NO_TASK */
    uint64_t worker;     /* of GRANTING and HELD */
    uint64_t owner;      /* bsp: who has its objects at hand, while he lives; 0: nobody */
    uint64_t generation; /* highest given */
    uint64_t stored;     /* highest in the store */
    uint64_t next_batch; /* first batch of the task that is appended next */
    uint64_t appended;   /* last batch of the one appended last; 0: none since the start */
    uint64_t mark;       /* batches up to here are done everywhere, as far as known */
    uint64_t fence_mark; /* lowest mark that a shard answered to the fence at hand */
    uint64_t fence_high; /* bsp: and the newest clock, of any lane */
    uint64_t fence_low;  /* else: the smallest clock of the live lanes, of the shard furthest on */
    uint64_t at, clock;  /* ssp, async: where its clocks begin, once it is placed */
    bool placed;
    uint32_t fence_shard, fence_high_shard; /* who did */
    uint32_t next_task;                     /* bsp: its next task of the epoch */
    struct coord_death death;
    bool used;            /* the holder has spoken for the lane since it was granted */
    uint64_t answered_ns; /* when the grant was last answered; 0: not yet */
    peer_t ask_peer;      /* who waits for the grant: connection and request id; 0: nobody */
    uint64_t ask_id;
    uint64_t ask_ns;
};

/* What the examples of a task, or of an epoch, came to in training. */
struct coord_losses {
    uint64_t examples, bad_lines;
    /* lines among which bad_lines were counted: data.negatives leaves out others unread */
    uint64_t drawn;
    uint64_t refused; /* batches of which a push was refused for its values */
    /* over examples (of several labels the mean, weighted); of the examples' weights */
    double loss_sum, weight_sum;
    double loss_task[LIMIT_TASKS]; /* of each label */
};

/* Rows of an object, all of them or of a window; positions are of its own order. */
struct coord_piece {
    uint64_t position, rows;
    uint32_t object, lane; /* lane: under bsp */
};

/* Positions of the epoch's order that are trained: those of a segment come one after the other, and
 * no batch is of two. */
struct coord_segment {
    uint64_t position, rows;
    uint32_t task;                   /* its first one, by coord_task_plan */
    uint32_t pieces;                 /* 0: it is none of objects */
    const struct coord_piece *piece; /* borrowed; of `rows` rows in all */
};

struct coord_task {
    uint64_t position, rows; /* of the epoch's order */
    uint64_t before;         /* batches with rows before it, in its epoch */
    uint64_t first_batch;    /* 0: not appended yet */
    uint32_t batch_count;
    uint32_t lane;   /* bsp: from the start; else when appended */
    uint32_t object; /* or COORD_NO_OBJECT: then position is of the whole order */
    uint32_t segment;
    bool begins;   /* the first one of its piece */
    bool pushed;   /* all batches acknowledged everywhere */
    bool reported; /* TASK_DONE was taken */
    bool stored;   /* as appended: it may be told */
    struct coord_losses sum;
};

struct coord_tasks {
    struct coord_lane *lane; /* (lanes), owned */
    /* by object, borrowed: which worker has it at hand, 0 nobody; NULL: the log is none of
     * objects */
    uint64_t *holder;
    uint32_t objects; /* that they are held of */
    /* a worker of this number or above came when all were held: it takes over up to `fair` of those
     * that nobody has begun */
    uint64_t late;
    uint32_t fair;
    uint32_t lanes, mode;
    uint32_t segments;
    struct coord_task *task; /* (tasks), owned */
    uint32_t tasks, capacity;
    uint32_t next;     /* async, ssp: first task not appended */
    uint32_t frontier; /* behind the last one that is appended */
    uint32_t stop;     /* tasks below may be appended */
    uint32_t gate;     /* ... of these, so far; what is behind waits for its time */
    uint32_t pushed, reported;
    uint64_t examples; /* reported in this epoch; so are these, of coord_losses */
    uint64_t bad_lines, drawn;
    uint32_t epoch;
    uint64_t batch, batches; /* rows of one; those with rows */
    uint64_t planned_ns, last_pushed_ns;
};

/* What is stored of a task appended, under "task/INDEX"; of another run or epoch it is stale and
 * means nothing. */
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

/* Batches of a task for an input: about an eighth of a lane's part, 1..64, more where
 * COORD_TASKS_MAX asks for it. A function of the input and the job, not of workers or servers.
 * wanted: what the job says, 0 for nothing. */
uint32_t coord_task_batches(uint64_t rows, uint32_t batch, uint32_t lanes, uint32_t wanted);
/* Cuts epoch `epoch` into tasks; every lane must be without one. segment (count): rising, none
 * without rows; their `task` is filled. NOMEM, TOO_BIG. */
int coord_task_plan(struct coord_tasks *t, uint32_t epoch, struct coord_segment *segment,
                    uint32_t count, uint32_t batch, uint32_t task_batches, uint64_t now_ns,
                    struct err *e);
/* Number of a task on the wire, and back: COORD_NO_TASK for another epoch's or a wrong one. */
uint64_t coord_task_number(const struct coord_tasks *t, uint32_t index);
uint32_t coord_task_index(const struct coord_tasks *t, uint64_t number);
/* Appends the next task to the lane (which has none) and returns its index, or COORD_NO_TASK. The
 * caller stores it before it is told. */
uint32_t coord_task_append(struct coord_tasks *t, uint32_t lane);
/* The lane's current task is done everywhere. */
void coord_task_pushed(struct coord_tasks *t, uint32_t lane, uint64_t now_ns);
/* Figures of a finished task; false when it has reported before. */
bool coord_task_report(struct coord_tasks *t, uint32_t index, const struct coord_losses *sum);
void coord_losses_add(struct coord_losses *to, const struct coord_losses *from);
/* Means over the examples' weights (over examples where nobody told of weights); NaN without
 * examples. */
double coord_losses_mean(const struct coord_losses *l);
double coord_losses_mean_of(const struct coord_losses *l, uint32_t label);
/* All tasks below `stop` are pushed and all lanes free. */
bool coord_task_drained(const struct coord_tasks *t);
/* The first task behind all that are appended, under bsp of a round. */
uint32_t coord_task_frontier(const struct coord_tasks *t);
/* Batches with rows before a task, in its epoch; of the number of tasks: all. Of a task without
 * rows, which pads a lane: as of the one behind it. */
uint64_t coord_task_before(const struct coord_tasks *t, uint32_t index);
/* Tasks from this one on wait: `index`, a round's first under bsp, else the frontier where that is
 * further. */
void coord_task_stop(struct coord_tasks *t, uint32_t index);
/* The first task with at least so many batches before it, under bsp of a round. */
uint32_t coord_task_after(const struct coord_tasks *t, uint64_t batches);
/* Last batch number of a task. */
uint64_t coord_task_last(const struct coord_task *task);

/* A lane for `worker`, which may hold `share`: first one with an unfinished task (whatever the
 * share), then one with tasks left. */
uint32_t coord_lane_pick(const struct coord_tasks *t, uint64_t worker, uint32_t share);
uint32_t coord_lane_held(const struct coord_tasks *t, uint64_t worker); /* granting counted */
/* Moves of the diagram. grant and close raise the generation. */
void coord_lane_grant(struct coord_tasks *t, uint32_t lane, uint64_t worker);
void coord_lane_granted(struct coord_tasks *t, uint32_t lane, uint64_t mark);
void coord_lane_close(struct coord_tasks *t, uint32_t lane);
void coord_lane_closed(struct coord_tasks *t, uint32_t lane);

/* Layouts of the store. */
void coord_task_to_record(const struct coord_tasks *t, uint32_t index, uint64_t run,
                          struct coord_task_record *out);
/* After a restart: takes stored tasks back into a freshly planned epoch (false: stale or
 * impossible), then, once, coord_task_resume makes each lane's newest task its current one. */
bool coord_task_from_record(struct coord_tasks *t, uint32_t index, uint64_t run,
                            const struct coord_task_record *in);
void coord_task_resume(struct coord_tasks *t);
/* Then, where all that was appended is known to be pushed: no lane has a task. */
void coord_task_settle(struct coord_tasks *t, uint64_t now_ns);

#endif
