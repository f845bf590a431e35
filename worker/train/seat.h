/* seat.h: a place for one lane on a worker: asks the coordinator what to do, has it done, reports
 * it, asks again.
 *
 *   FREE --seat_ask--> ASKING --ask_reply: TASK, EVAL, INDEX--> OPENING
 *                       ^  |                                     |   |
 *             rest_fire |  | seat_rest: WAIT                     |   | seat_look: split open,
 *                       |  v                                     |   v map there
 *                      RESTING                                   |  WORKING
 *                                                                |   |
 *                                     seat_look: INDEX is done   |   | seat_worked: the lane is
 *                                                                v   v done
 *                      ASKING <--report_reply: a lane is held-- REPORTING
 *
 *   Before its first task of a split a worker proves its input: OPENING --seat_look--> REPORTING
 *   (rows and digest, as of INDEX) --proof_reply--> WORKING. With another one it leaves.
 *
 *   seat_leave, to FREE: ASKING (LEAVE, refused, the lane is another seat's), WORKING (the lane was
 *   taken away), REPORTING (answered and no lane is held, or refused).
 *   seat_drop, to FREE: all; but from WORKING to DROPPING, and FREE at seat_worked.
 *
 * A seat keeps its lane over tasks until the coordinator says LEAVE, or a shard says FENCED or
 * OLD_RUN: then it drops the lane without a write and tells nobody. Evaluation and indexing may
 * come to a seat with or without a lane.
 *
 * Which of the free seats may ask is the trainer's to say (one at a time). Thread: the worker's
 * loop. */
#ifndef WORKER_TRAIN_SEAT_H
#define WORKER_TRAIN_SEAT_H

#include "proto/base/sm.h"
#include "worker/train/lane.h"

#include <stdbool.h>
#include <stdint.h>

#define SEAT_NO_LANE UINT32_MAX

struct seat;
extern const struct sm seat_moves; /* the diagram above */

/* The trainer, as its seats see it. */
struct seat_host {
    struct lane_base base;
    uint64_t worker; /* number of this worker */
    uint64_t pass;   /* that it shows to the coordinator */
    void *context;
    /* 0: the task's input is open, *data until `release`, and the map is there; AGAIN: seat_look
     * will be called; else why it cannot be. */
    int (*ready)(void *context, const struct wire_LANE_NEXT_reply *task, struct dataset **data,
                 struct err *e);
    void (*release)(void *context, const struct dataset *data);
    void (*freed)(void *context); /* a seat has become free */
    bool (*held)(void *context, const struct seat *but, uint32_t lane,
                 uint64_t generation); /* another seat holds the lane at this generation or above */
    uint32_t (*lanes)(void *context);  /* how many seats hold a lane */
    void (*end)(void *context);        /* the job is over */
    void (*unknown)(void *context);    /* the coordinator does not know this worker (any more) */
    void (*fatal)(void *context, int status, const char *text); /* the job cannot go on */
    /* this worker reads another input than the job's, or cannot read what others have read: it
     * leaves, the job goes on */
    void (*apart)(void *context, const char *text);
    bool proved[JOB_SPLITS]; /* its input is the job's, the coordinator says */
    /* this worker cannot go on: its device failed */
    void (*broken)(void *context, int status, const char *text);
};

/* On any thread, as lane_new; host stays as it is meanwhile. */
int seat_new(struct seat_host *host, struct seat **out, struct err *e);
void seat_begin(struct seat *s); /* on the loop, once, before all else */
void seat_free(struct seat *s);  /* begun, dropped and idle */
/* A free seat asks for work. */
void seat_ask(struct seat *s);
/* Something that `ready` waited for has changed. */
void seat_look(struct seat *s);
/* Gives everything up without a word: the seat is FREE as soon as its lane is idle; freed is not
 * called. */
void seat_drop(struct seat *s);
bool seat_is_free(const struct seat *s);
/* Asks without a lane, or was told to wait: no other seat should ask. */
bool seat_is_asking(const struct seat *s);
uint32_t seat_lane(const struct seat *s); /* SEAT_NO_LANE without */
uint64_t seat_generation(const struct seat *s);
struct lane *seat_work(struct seat *s);

#endif
