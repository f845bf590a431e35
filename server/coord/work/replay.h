/* replay.h: a job that trains its log in the order of event time (replay: in job.yaml).
 *
 * Workers report the windows of event time in their index (WINDOWS, or OBJECT_DONE for each
 * object). The epoch is cut within windows, each a segment of task.h: no batch spans two windows,
 * and all tasks of a window are given out before those of the next. A window that is left out is no
 * segment, but its rows count in positions. A day is the windows between two ends that lie
 * replay.every of event time apart, by clocks of data.zone. At the end of a day, training stops
 * until all batches of the day are on every shard. Then the day's figures are closed (days of the
 * report, its hours and values of evaluate.by), and a checkpoint is made. While it is published,
 * data.valid is scored and the next day begins.
 *
 * TRAIN --all of a day pushed--> ended --> checkpoint --> (EVAL, with data.valid) --> TRAIN
 *
 * Invariants:
 *  1. A day's checkpoint is of the state after all of its batches and before any of the next.
 *     [assert: coord_replay_end]
 *
 * The checkpoint itself counts the days that have ended: a job that goes on from it begins the next
 * one. A coordinator that dies before the checkpoint is complete makes it again.
 *
 * Figures are kept like those of progressive.h: they decide nothing, and some examples are missing
 * in them where a coordinator dies; `examples` counts those that are included. Thread: the
 * coordinator's loop. */
#ifndef SERVER_COORD_WORK_REPLAY_H
#define SERVER_COORD_WORK_REPLAY_H

#include "proto/base/err.h"
#include "proto/base/json.h"
#include "proto/job/job.h"
#include "proto/metric/metric_by.h"
#include "proto/metric/metric_tally.h"
#include "proto/wire/wire.h"
#include "server/coord/work/source.h"

#include <stdbool.h>
#include <stdint.h>

struct coord_ask;
struct coord_job;

/* As stored under "replay/0". made: days whose checkpoint is complete. begun, hash: how many
 * windows have begun, and a hash of them. task_batches: batches of a task, which later windows must
 * not change. */
struct coord_replay_record {
    uint64_t job, hash;
    uint32_t made, begun, task_batches, zero;
};
_Static_assert(sizeof(struct coord_replay_record) == 32, "coord_replay_record is stored");

#define COORD_DAYS_BYTES (8u << 20) /* bytes of days' figures; later days are told in short */

struct coord_replay {
    uint32_t labels, real;      /* real: bit l: label l is a number */
    struct wire_window *window; /* owned: windows of the input, as workers reported them */
    uint32_t windows;
    struct coord_segment *segment; /* owned (windows): the windows that are trained */
    struct coord_piece *piece;     /* owned: for a log of objects, window by window */
    uint32_t *number;              /* owned (windows): zone_number of the segments' times */
    uint32_t segments;
    uint64_t rows, batches; /* sums over the segments */
    uint32_t ended;         /* days whose figures are closed, and whose checkpoint is made or asked
                          * for */
    uint32_t made;          /* days whose checkpoint is complete or was given up */
    uint32_t failed;        /* failed attempts at the checkpoint of the day at hand */
    uint32_t begun;         /* windows begun when this was stored */
    uint64_t begun_hash;    /* a hash of those windows */
    uint32_t task_batches;  /* 0: not known yet */
    uint32_t due;           /* windows that may begin by now, by replay.pace */
    uint64_t paced_ns;      /* when pacing began, 0: not yet */
    uint32_t paced_from;    /* the event time at which pacing began */
    uint64_t bytes;         /* bytes of the days as text */
    bool shortened;         /* a day is told in short; the log has said so */
    struct metric_tally **hour; /* owned (windows), each (labels): windows of the day at hand; NULL:
                                 * nothing yet */
    struct metric_tally *day;   /* owned (labels) */
    struct metric_by *by;       /* owned (by_count): values of the day at hand */
    uint32_t by_count;
    struct json *days; /* owned: a list of days as the report tells them */
};

int coord_replay_open(struct coord_replay *r, const struct job *job, struct err *e);
void coord_replay_close(struct coord_replay *r);
/* After a restart: loads the windows that a worker has reported, in any phase of the job. */
int coord_replay_windows_load(struct coord_job *j, struct err *e);
/* After a restart, or from a checkpoint: loads windows, the days that have ended, and their
 * figures. */
int coord_replay_load(struct coord_job *j, struct err *e);

/* Takes the windows of a worker. DATA: they differ from those of another worker. *ends: true when
 * the job cannot go on. */
int coord_replay_windows(struct coord_job *j, struct coord_ask *a, bool *ends);
/* True when the windows rise and have `rows` rows in all; they come from a worker and are not
 * trusted. */
bool coord_replay_windows_ok(const struct wire_window *w, uint32_t count, uint64_t rows);
/* Makes the segments of one epoch from windows and pieces, which are there: those that are trained.
 * DATA, NOMEM. */
int coord_replay_segments(struct coord_job *j, struct err *e);
/* Checks, before the epoch is planned, that the windows begun are the same as when they were
 * learnt. CONFIG: they are not. */
int coord_replay_fits(const struct coord_job *j, struct err *e);

/* Operations of both sources in windows (source.h). The batches of a task are fixed when the first
 * window begins. In a log of objects each window is made of pieces, in the order of their first
 * event times, then of the objects' names. */
struct coord_amount coord_replay_amount(const struct coord_job *j);
int coord_replay_plan(struct coord_job *j, struct coord_plan *p, struct err *e);
extern const struct coord_source coord_replay_source;
extern const struct coord_source coord_replay_objects_source;
/* Makes training stop no later than the end of the day at hand. That is the end of the last day
 * while its checkpoint is not made, or when `scored` is false, since data.valid is still to be
 * scored. The epoch is planned. CORRUPT: more is begun than the days tell. */
int coord_replay_stop(struct coord_job *j, bool scored, struct err *e);
/* Lets the windows begin whose time has come by replay.pace. Cheap; the epoch is planned. */
void coord_replay_gate(struct coord_job *j);
/* Stores which windows have begun, when training is over, also within a day. False: the store
 * failed. */
bool coord_replay_note(struct coord_job *j);
/* Counts the figures of a task's first report; told: of each label. Returns the tables by value of
 * its day, which the caller adds the report to; NULL: the day is over. */
struct metric_by *coord_replay_count(struct coord_job *j, uint32_t task,
                                     const struct metric_tally *told);
/* Called when all tasks that may be given out are pushed. True: training may go on; false: the
 * day's checkpoint is being made. */
bool coord_replay_end(struct coord_job *j);
/* True when the day's checkpoint is to be made now; coord_replay_made takes its outcome. */
bool coord_replay_due(const struct coord_job *j);
void coord_replay_made(struct coord_job *j, bool made);

/* Returns the record as of now; of_day: for the checkpoint at the end of the last day. */
struct coord_replay_record coord_replay_record_of(const struct coord_job *j, bool of_day);
uint64_t coord_replay_until(const struct coord_job *j);

#endif
