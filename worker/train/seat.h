/* seat.h: a place for one lane on a worker: asks the coordinator for work, has it done, reports it,
 * and asks again.
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
 *   (rows and digest, as for INDEX) --proof_reply--> WORKING. If its input differs it leaves.
 *
 *   seat_leave, to FREE: ASKING (LEAVE, refused, the lane is another seat's), WORKING (the lane was
 *   taken away), REPORTING (answered and no lane is held, or refused).
 *   seat_drop, to FREE: all; but from WORKING to DROPPING, and FREE at seat_worked.
 *
 * A seat keeps its lane from task to task until the coordinator answers LEAVE, or a shard answers
 * FENCED or OLD_RUN: then it drops the lane without a write and without a report. A seat may get
 * evaluation and indexing with or without a lane.
 *
 * The trainer chooses which of the free seats asks, one at a time. Thread: the worker's loop. */
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
    uint64_t pass;   /* pass that it shows to the coordinator */
    void *context;
    /* 0: *data is the task's open input, valid until `release`, and the map is there. AGAIN:
     * seat_look will be called. Else the error. */
    int (*ready)(void *context, const struct wire_LANE_NEXT_reply *task, struct dataset **data,
                 struct err *e);
    void (*release)(void *context, const struct dataset *data);
    void (*freed)(void *context); /* a seat became free */
    bool (*held)(void *context, const struct seat *but, uint32_t lane,
                 /* another seat holds the lane at this generation or a later one */
                 uint64_t generation);
    uint32_t (*lanes)(void *context); /* number of seats that hold a lane */
    void (*end)(void *context);       /* the job is over */
    void (*unknown)(void *context);   /* the coordinator does not know this worker, or no longer */
    void (*back)(void *context, const char *text); /* a program gave a batch back undone */
    void (*fatal)(void *context, int status, const char *text); /* the job cannot continue */
    /* The input of this worker differs from the job's, or is unreadable only here: the worker
     * leaves, the job continues. */
    void (*apart)(void *context, const char *text);
    bool proved[JOB_SPLITS]; /* the coordinator confirmed that the input is the job's */
    /* this worker cannot continue: its device failed */
    void (*broken)(void *context, int status, const char *text);
};

/* May run on any thread, as lane_new; host must not change meanwhile. */
int seat_new(struct seat_host *host, struct seat **out, struct err *e);
void seat_begin(struct seat *s); /* on the loop, before anything else */
void seat_free(struct seat *s);  /* the seat has begun, is dropped and idle */
/* A free seat asks for work. */
void seat_ask(struct seat *s);
/* Something that `ready` waited for has changed. */
void seat_look(struct seat *s);
/* Gives everything up without a report: the seat is FREE as soon as its lane is idle; `freed` is
 * not called. */
void seat_drop(struct seat *s);
bool seat_is_free(const struct seat *s);
/* True when it asks without a lane, or was told to wait: no other seat should ask. */
bool seat_is_asking(const struct seat *s);
uint32_t seat_lane(const struct seat *s); /* SEAT_NO_LANE: none */
uint64_t seat_generation(const struct seat *s);
struct lane *seat_work(struct seat *s);

#endif
