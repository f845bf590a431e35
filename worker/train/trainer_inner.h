/* trainer_inner.h: the inside of a worker's core, for trainer.c (its life) and trainer_job.c (what
 * depends on the job).
 */
#ifndef WORKER_TRAIN_TRAINER_INNER_H
#define WORKER_TRAIN_TRAINER_INNER_H

#include "proto/base/sm.h"
#include "worker/data/inputs.h"
#include "worker/train/seat.h"
#include "worker/train/trainer.h"

enum trainer_state { JOINING, PREPARING, WORKING, CLEARING, LEAVING, REPLACING, DONE };
extern const struct sm trainer_moves; /* the diagram of trainer.h */

/* What a thread makes for the loop, which takes it over when all is done: also of what failed half
 * way. */
struct trainer_made {
    int status;
    struct err error;
    bool device; /* what failed is this worker's device or memory: another worker may have more */
    struct model *model;
    struct seat **seat;
    uint32_t seat_count;
};

struct trainer {
    struct env *env; /* borrowed */
    struct trainer_options options;
    char name[LIMIT_NAME], why[WIRE_WHY];
    enum trainer_state state;
    bool again;     /* CLEARING: join again afterwards, else leave */
    bool over;      /* ... and its part of the job is: of that nothing is kept */
    bool refused;   /* JOINING: the coordinator does not take it, or it failed here; end says why */
    struct err end; /* why it leaves; code 0: in good order */
    bool broken;    /* ... because of its own device or input: the job goes on without it */
    /* JOINING: it could not work on the job of this hash, said why in words of that one, and waits
     * this long; 0: not at all, the first time */
    uint64_t failed_hash, failed_said;
    uint32_t failed_ms;
    /* CLEARING and LEAVING, again: its device is, another backend is to take its place; code 0:
     * no */
    struct err lost;
    struct client *client;
    /* The job, from joining on; made anew when its text or its number changes. */
    uint64_t job_hash, job_number;
    bool have_job, have_model;
    struct job job;
    struct model_shape shape;
    struct model *model;
    struct table_schema schema[MODEL_TABLES_MAX];
    struct inputs inputs;
    struct seat_host host; /* client, job, model, schemas: as lanes see them */
    struct stats stats;
    uint64_t taken_before; /* of the input, by this process, when the trainer was made */
    struct seat **seat;    /* owned (seat_count) */
    uint32_t seat_count;
    uint32_t lanes; /* of the job */
    uint32_t lease_ms;
    uint32_t declared; /* tables */
    struct request join, objects, taken, tell, declare, profile, beat, leave;
    bool profiled; /* the coordinator was told of the input's profile */
    bool listed;   /* of a log that grows: what was asked for with the token is to be told */
    uint64_t list_token;
    uint32_t known; /* the first so many splits are none of objects, or have their list */
    bool listing;   /* it lists those of the next one for all */
    struct env_timer beat_timer, wait_timer, leave_timer, tick_timer;
    uint64_t asked_ns;               /* when WORKER_JOIN went out last */
    int32_t clock_ahead_s;           /* of the coordinator's calendar; 0: it is not known */
    uint64_t told_ns, told_examples; /* what trainer_describe told last */
    struct env_work prepare;         /* looks at the input, makes model and seats */
    bool preparing;
    struct trainer_made made; /* its result: the thread's while preparing */
    struct env_work replace;
    bool replacing;
    struct backend *replacement; /* its result, likewise */
    int replace_status;
    struct err replace_error;
};

/* trainer.c */
void trainer_tick(struct trainer *t);
/* The tick, soon and from the loop: never under the feet of a lane or request that is calling. */
void trainer_wake(struct trainer *t);
/* Gives up everything; afterwards joins again, or leaves with this status. The first reason
 * stands. */
void trainer_clear(struct trainer *t, bool again, int status, const char *text);

/* Its part of the job is over; status 0: in good order. Leaves, or waits for the next job. */
void trainer_end(struct trainer *t, int status, const char *text);

/* The device failed. The lanes go back, the job goes on elsewhere; this process ends with its
 * status, or goes on by another backend. */
void trainer_break(struct trainer *t, int status, const char *text);
/* Its input is another than the job's: it leaves with CONFIG, or, where it is to stay, looks again
 * and again whether it still is. */
void trainer_apart(struct trainer *t, const char *text);
void trainer_replaced(struct trainer *t);
/* The coordinator does not know this worker any more. */
void trainer_forgotten(struct trainer *t);

/* trainer_job.c */
void trainer_host_init(struct trainer *t);
void trainer_job_init(struct trainer *t);
/* Takes the job's text, and number (WORKER_JOIN); a new one replaces the old: all seats are free
 * and idle, no thread has anything. */
int trainer_job_take(struct trainer *t, uint64_t number, const char *text, size_t bytes,
                     struct err *e);
void trainer_job_drop(struct trainer *t); /* likewise */
/* It is over: what its streams gave goes too. Likewise. */
void trainer_job_forget(struct trainer *t);
/* The input's shape, the model, its schemas and the seats, unless they are there: on a thread,
 * while t->preparing; then calls trainer_tick. What fails ends the trainer's work. */
void trainer_job_prepare(struct trainer *t);
/* Of a log that grows: the coordinator wants a list. */
void trainer_job_list_again(struct trainer *t);
/* While t->listing: goes on when the list is there. */
void trainer_job_list(struct trainer *t);
/* Model and seats alone; likewise. */
void trainer_model_drop(struct trainer *t);
/* Another backend, on a thread, while t->replacing; then calls trainer_replaced. */
void trainer_job_replace(struct trainer *t);
void trainer_job_declare(struct trainer *t);

#endif
