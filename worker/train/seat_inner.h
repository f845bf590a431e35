/* seat_inner.h: the struct behind a seat, for seat.c (asks for work and does it) and seat_report.c
 * (tells the coordinator). */
#ifndef WORKER_TRAIN_SEAT_INNER_H
#define WORKER_TRAIN_SEAT_INNER_H

#include "worker/train/seat.h"

enum seat_state { FREE, ASKING, RESTING, OPENING, WORKING, REPORTING, DROPPING };

struct seat {
    struct seat_host *host; /* borrowed */
    enum seat_state state;
    uint32_t number;     /* the lane that it holds, or SEAT_NO_LANE */
    uint64_t generation; /* generation of that lane */
    uint64_t batch;      /* last batch of the lane that all shards acknowledged */
    struct lane *lane;   /* owned; the lane that runs tasks */
    struct wire_LANE_NEXT_reply task;
    struct dataset *data; /* the input of the task, while it needs it; else NULL */
    struct request ask, files, report;
    struct env_timer rest;
    bool proves;      /* proves its input before it begins a task */
    int index_status; /* result of INDEX */
    struct err index_error;
};

/* seat.c */
/* The seat no longer holds its lane, if it had one. */
void seat_leave(struct seat *s);
/* Its input is there, and proved: the lane begins the task. */
void seat_work_begin(struct seat *s);

/* seat_report.c */
void seat_report_init(struct seat *s);
/* The task is done, an index made or an input to be proved: tells the coordinator, then goes on. */
void seat_report(struct seat *s);

#endif
