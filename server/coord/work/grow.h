/* grow.h: a log of objects that grows (data.objects.grow). The new objects form a round, which is
 * trained as an epoch of its own. The job ends when it is stopped, or by train.max_minutes.
 *
 *   epoch N is over -> PHASE_GROW --new objects are taken and indexed--> TRAIN, N + 1
 *                        |  ^                                              |
 *                        |  +----------------------------------------------+
 *                        +--coord_judge_over--> checkpoint.at_end -> TEST, DIGEST
 *
 * Any worker lists the log every grow_ms, while others train. An object is complete once two lists
 * that are at least grow_ms apart have the same line for it (name, bytes, mark); the next round
 * takes it.
 *
 * The names of taken objects are kept as state of the tables (taken.h). The worker that lists
 * leaves these names out.
 *
 * A range of a stream's messages (positions.h) never changes, so it is complete at once. Of the
 * ranges of a stream those are taken that follow its position without a gap. A list may come while
 * a round is indexed, before the positions move: they are judged again once the round is taken.
 * With data.kafka.until the log has an end: the job is over once all objects before it are learnt.
 *
 * Memory and stored data do not grow with the rounds: the figures of COORD_ROUNDS_KEPT rounds and
 * evaluations are kept, and of older ones their sums.
 *
 * Invariants:
 *  1. A round's record, with its objects, is stored before the progress that makes the round
 *     current; the previous round's record stays beside it until then. [assert:
 *     coord_grow_round] [e2e: test_grow]
 *  2. The record of the current round is part of each checkpoint. [assert: job_write]
 *
 * Thread: the coordinator's loop. */
#ifndef SERVER_COORD_WORK_GROW_H
#define SERVER_COORD_WORK_GROW_H

#include "proto/base/err.h"
#include "proto/base/json.h"
#include "server/coord/work/objects.h"
#include "server/coord/work/source.h"
#include "server/coord/work/task.h"

#include <stdbool.h>
#include <stdint.h>

struct coord_fleet;
struct coord_ask;
struct coord_job;

/* The value of "grow/SLOT" (coord_grow_key). It is followed by the lines of the round's objects,
 * each ended by a NUL (release 0.2.0: a LF), the head, and `objects` struct coord_object_record. */
struct coord_grow_record {
    uint64_t job;
    uint64_t before_rows, before_batches; /* sums of the earlier rounds */
    struct coord_losses before;
    uint64_t rows, batches, digest; /* the current round's */
    uint64_t read, left_out;        /* objects of all rounds */
    uint64_t list_bytes, head_bytes;
    uint32_t round, objects;
    uint32_t limit, zero;  /* limit: times.h; 0: the job's */
    char last[LIMIT_PATH]; /* the greatest name of all taken objects; or empty */
};
_Static_assert(sizeof(struct coord_grow_record) == 1232, "coord_grow_record is stored");

struct coord_grow {
    struct coord_grow_record at;
    struct coord_objects list; /* the last list: objects that were not taken when it was made */
    /* owned (list.count): since when it has been listed unchanged; 0: it is taken */
    uint64_t *since;
    /* when the last list came, 0: never; when the next is due, 0: at once */
    uint64_t listed_ns, due_ns;
    char failed[ERR_TEXT_MAX]; /* why the last list could not be made; empty: it was made */
    struct positions streams; /* streams of the last list: from where the job goes on, to the end */
    bool last;                /* the last list had all objects before the end of the log */
    bool ended;               /* they are all learnt */
    void *record;             /* owned: the stored record (2) */
    size_t record_bytes;
    /* the job waits for the checkpoint of its end, while it can still be resumed from */
    bool ending;
};

void coord_grow_close(struct coord_grow *g);
/* After a restart, or from a checkpoint: reads the current round, its objects, and data.train's
 * split. A job that does not grow, or has no round yet, reads nothing. CORRUPT. */
int coord_grow_load(struct coord_job *j, struct err *e);
/* Writes the key of the record of round `round` in run `run`. */
void coord_grow_key(uint64_t run, uint32_t round, char key[]);

/* The job gets another run, which the caller stores next: stores the current round,
 * if there is one, for that run too. False: the store failed. */
bool coord_grow_run(struct coord_job *j);

/* True when this worker is to be told to list the log. */
bool coord_grow_due(const struct coord_job *j, uint64_t worker);
/* On entering PHASE_GROW: releases the objects of the previous round. */
void coord_grow_wait(struct coord_job *j);
/* If there are no current objects: the complete objects of the list become the ones to index. */
int coord_grow_take(struct coord_job *j, struct err *e);
/* The ranges at hand do not follow the positions: gives them up, and has the log listed at once. */
void coord_grow_again(struct coord_job *j);
/* All current objects are indexed, with the sums `whole`: stores them as round `round`, or, if they
 * have no rows, only as taken. IO: the store failed; CORRUPT: as coord_taken_round. */
int coord_grow_round(struct coord_job *j, const struct coord_split *whole, uint32_t round,
                     struct err *e);

/* In PHASE_GROW or before there is a model: true when the log has an end and all before it is
 * learnt. */
bool coord_grow_ended(struct coord_job *j);
/* Returns the messages of a stream that no round has taken. */
uint64_t coord_grow_behind(const struct coord_job *j, const struct position *stream);

/* Writes what the job waits for; false: nothing to report. */
bool coord_grow_waits(const struct coord_job *j, char *text, size_t bytes);
void coord_grow_json(const struct coord_job *j, struct json *to);

extern const struct coord_source coord_grow_source;

#endif
