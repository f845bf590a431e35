/* replay.h: a job that takes its log in the order in which things happened (replay: in job.yaml).
 *
 * Workers tell the windows of event time that their index has (WINDOWS, or OBJECT_DONE of each
 * object); the epoch is cut within them, those left out but for their rows (segments of task.h): no
 * batch is of two, and all of a window are given out before those of the next. A day is the windows
 * between two ends that lie replay.every of event time apart, by clocks of data.zone. At its end
 * training stops until all its batches are on every shard; then its figures are closed (days of the
 * report, its hours and values of evaluate.by), a checkpoint is made, which is published meanwhile,
 * data.valid is scored, and the next day begins.
 *
 *   TRAIN --all of a day pushed--> ended --> checkpoint --> (EVAL, with data.valid) --> TRAIN
 *
 * Invariants:
 *  1. A day's checkpoint is of the state behind all of its batches and before any of the next.
 *     [assert: coord_replay_end]
 *
 * Days that are ended are counted in the checkpoint itself: who goes on with it begins the next
 * one. A coordinator that dies before the checkpoint is there makes it again.
 *
 * Figures are kept as those of window.h are: they do not decide anything, and where a coordinator
 * dies some examples are in none; `examples` says how many are. Thread: the coordinator's loop. */
#ifndef SERVER_COORD_REPLAY_H
#define SERVER_COORD_REPLAY_H

#include "proto/base/err.h"
#include "proto/base/json.h"
#include "proto/job/job.h"
#include "proto/metric/metric_by.h"
#include "proto/metric/metric_tally.h"
#include "proto/wire/wire.h"
#include "server/coord/task.h"

#include <stdbool.h>
#include <stdint.h>

struct coord_ask;
struct coord_job;

/* As stored under "replay/0": days whose checkpoint is there; windows begun, and which they are;
 * batches of a task, which those to come must not change. */
struct coord_replay_record {
    uint64_t job, hash;
    uint32_t made, begun, task_batches, zero;
};
_Static_assert(sizeof(struct coord_replay_record) == 32, "coord_replay_record is stored");

#define COORD_DAYS_BYTES (8u << 20) /* of days' figures: later ones are told in short */

struct coord_replay {
    uint32_t labels;
    struct wire_window *window; /* owned: those of the input, as workers told them */
    uint32_t windows;
    struct coord_segment *segment; /* owned (windows): those that are trained */
    struct coord_piece *piece;     /* owned: of a log of objects, window by window */
    uint32_t *number;              /* owned (windows): zone_number of their times */
    uint32_t segments;
    uint64_t rows, batches; /* of them */
    uint32_t ended;      /* days: their figures are closed, their checkpoint is made or asked for */
    uint32_t made;       /* days: their checkpoint is there, or will not be */
    uint32_t failed;     /* so often that of the day at hand was not made */
    uint32_t begun;      /* windows, when this was stored, */
    uint64_t begun_hash; /* and which they were */
    uint32_t task_batches;      /* 0: not known yet */
    uint32_t due;               /* windows whose time has come, by replay.pace */
    uint64_t paced_ns;          /* when pacing began, 0: not yet; */
    uint32_t paced_from;        /* and the event time of then */
    uint64_t bytes;             /* of days, as text */
    bool shortened;             /* one is told in short, which has been said */
    struct metric_tally **hour; /* owned (windows), each (labels): of the day at hand, or NULL */
    struct metric_tally *day;   /* owned (labels) */
    struct metric_by *by;       /* owned (by_count): of the day at hand */
    uint32_t by_count;
    struct json *days; /* owned: a list, as the report tells them */
};

int coord_replay_open(struct coord_replay *r, const struct job *job, struct err *e);
void coord_replay_close(struct coord_replay *r);
/* After a restart: the windows that a worker has told, whatever phase the job is in. */
int coord_replay_windows_load(struct coord_job *j, struct err *e);
/* After a restart, or from a checkpoint: days ended, their figures; windows too. */
int coord_replay_load(struct coord_job *j, struct err *e);

/* A worker's windows. DATA: it has others than those before; *ends: the job cannot be. */
int coord_replay_windows(struct coord_job *j, struct coord_ask *a, bool *ends);
/* So many rows in rising windows: a worker's word. */
bool coord_replay_windows_ok(const struct wire_window *w, uint32_t count, uint64_t rows);
/* Of a log of objects, all of them known: the windows of all, each made of pieces, which go by
 * their first event times, then by the objects' names. DATA, TOO_BIG, NOMEM. */
int coord_replay_objects(struct coord_job *j, struct err *e);
/* windows, and pieces, are there: those that are trained, as one epoch. DATA, NOMEM. */
int coord_replay_segments(struct coord_job *j, struct err *e);
/* Before the epoch is planned: CONFIG where windows that are learnt would be other ones. */
int coord_replay_fits(const struct coord_job *j, struct err *e);

/* Batches of a task, as they were when the first window began. */
uint32_t coord_replay_task_batches(struct coord_job *j);
/* Training stops at the end of the day at hand at the latest: that of the last one where its
 * checkpoint is not made, or `scored` says that data.valid is still to be. The epoch is planned.
 * CORRUPT: more is begun than days say. */
int coord_replay_stop(struct coord_job *j, bool scored, struct err *e);
/* Windows whose time has come, by replay.pace, may be begun. Cheap; the epoch is planned. */
void coord_replay_gate(struct coord_job *j);
/* Training is over, be it within a day: which windows were begun is stored. False: the store
 * failed. */
bool coord_replay_note(struct coord_job *j);
/* Figures of a task that has reported for the first time: in coord_windows.told and part. */
void coord_replay_count(struct coord_job *j, uint32_t task);
/* All that may be given out is pushed: whether training may go on; not while the day's checkpoint
 * is being made. */
bool coord_replay_end(struct coord_job *j);
/* Whether that is to be made now, and what came of it. */
bool coord_replay_due(const struct coord_job *j);
void coord_replay_made(struct coord_job *j, bool made);

/* The record as of now; of_day: for the checkpoint of the last day's end. */
struct coord_replay_record coord_replay_record_of(const struct coord_job *j, bool of_day);
uint64_t coord_replay_until(const struct coord_job *j);

#endif
