/* grow.h: a log of objects that grows (data.objects.grow): what came since is a round, which is
 * trained as an epoch of its own; the job ends when it is stopped, or by train.max_minutes.
 *
 *   epoch N is over -> PHASE_GROW --objects that came are taken and indexed--> TRAIN, N + 1
 *                        |  ^                                                     |
 *                        |  +-----------------------------------------------------+
 *                        +--coord_judge_over--> checkpoint.at_end -> TEST, DIGEST
 *
 * Any worker lists the log every grow_ms, while others train. What two lists that lie grow_ms apart
 * or more say of an object (its line: name, bytes, mark) is the same: then nobody writes it any
 * more, and the next round takes it.
 *
 * What was taken is remembered by name, as state of the tables: taken.h. Whoever lists leaves these
 * names out.
 *
 * Nothing here grows with the rounds: figures of COORD_ROUNDS_KEPT rounds and evaluations are kept,
 * of the older ones their sums.
 *
 * Invariants:
 *  1. A round's record, with its objects, is stored before the progress that says the round is at
 *     hand, and beside that of the one before, which stands until then.
 *     [assert: coord_grow_round] [e2e: test_grow]
 *  2. The record of the round at hand is part of each checkpoint. [assert: job_write]
 *
 * Thread: the coordinator's loop. */
#ifndef SERVER_COORD_GROW_H
#define SERVER_COORD_GROW_H

#include "proto/base/err.h"
#include "proto/base/json.h"
#include "server/coord/objects.h"
#include "server/coord/task.h"

#include <stdbool.h>
#include <stdint.h>

struct coord_fleet;
struct coord_ask;
struct coord_job;

/* As stored under "grow/SLOT" (grow.c: key_of). Behind it: lines of the round's objects, ended
 * by a NUL or, of release 0.2.0, a LF; the head; struct coord_object_record (objects). */
struct coord_grow_record {
    uint64_t job;
    uint64_t before_rows, before_batches; /* of the rounds before the one at hand */
    struct coord_losses before;
    uint64_t rows, batches, digest; /* of the one at hand */
    uint64_t read, left_out;        /* objects, of all rounds */
    uint64_t list_bytes, head_bytes;
    uint32_t round, objects;
    uint32_t limit, zero;  /* limit: times.h; 0: the job's */
    char last[LIMIT_PATH]; /* the greatest name of all; or empty */
};
_Static_assert(sizeof(struct coord_grow_record) == 1232, "coord_grow_record is stored");

struct coord_grow {
    struct coord_grow_record at;
    struct coord_objects list;  /* the last list: what was not taken when it was made */
    uint64_t *since;            /* owned (list.count): since when it is listed so; 0: it is taken */
    uint64_t listed_ns, due_ns; /* when that came; when it is listed again; 0: never, at once */
    char failed[ERR_TEXT_MAX];  /* why the last list could not be made; empty: it was */
    void *record;               /* owned: as stored (2) */
    size_t record_bytes;
    bool ending; /* the checkpoint of its end is waited for: it can still be gone on with */
};

void coord_grow_close(struct coord_grow *g);
/* After a restart, or from a checkpoint: the round at hand, its objects, and data.train's split.
 * Of a job that does not grow, or has no round yet: nothing. CORRUPT. */
int coord_grow_load(struct coord_job *j, struct err *e);
/* Where a checkpoint's record of round `round` is to lie for run `run`. */
void coord_grow_key(uint64_t run, uint32_t round, char key[]);

/* The job, which is done, has another run from now on, which the caller stores next: the round at
 * hand is that run's too. False: the store failed. */
bool coord_grow_run(struct coord_job *j);

/* Whether this worker is to be told to list the log. */
bool coord_grow_due(const struct coord_job *j, uint64_t worker);
/* OBJECTS. */
int coord_grow_list(struct coord_job *j, struct coord_ask *a);
/* In PHASE_GROW: the objects of the round before are let go. */
void coord_grow_wait(struct coord_job *j);
/* Where none is at hand: what has come becomes the objects to index. */
int coord_grow_take(struct coord_job *j, struct err *e);
/* The objects at hand are all indexed, `whole`: they are round `round`'s, or, where they have no
 * rows, taken and forgotten. IO: the store failed. */
int coord_grow_round(struct coord_job *j, const struct coord_split *whole, uint32_t round,
                     struct err *e);

/* What it waits for; false: nothing that it should say. */
bool coord_grow_waits(const struct coord_job *j, char *text, size_t bytes);
void coord_grow_json(const struct coord_job *j, struct json *to);

#endif
