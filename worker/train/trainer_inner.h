/* trainer_inner.h: the struct behind a trainer, and what its files ask of each other:
 *
 *   trainer.c          its life: the tick, seats, messages
 *   trainer_join.c     JOINING
 *   trainer_job.c      PREPARING: what is made from the job's text
 *   trainer_objects.c  a log of objects, listed for all workers
 *   trainer_tables.c   names, tables and profile, told to the coordinator
 *   trainer_host.c     what seats ask
 *   trainer_step.c     the network that workers keep in step
 *   trainer_beat.c     beats
 *   trainer_clear.c    CLEARING, and its reasons
 *   trainer_leave.c    LEAVING, REPLACING, DONE */
#ifndef WORKER_TRAIN_TRAINER_INNER_H
#define WORKER_TRAIN_TRAINER_INNER_H

#include "proto/base/sm.h"
#include "worker/data/inputs.h"
#include "worker/train/door.h"
#include "worker/train/seat.h"
#include "worker/train/trainer.h"

enum trainer_state { JOINING, PREPARING, WORKING, CLEARING, LEAVING, REPLACING, DONE };
extern const struct sm trainer_moves; /* the diagram of trainer.h */

/* A thread makes these for the loop, which takes them over when the thread is done, even if it
 * failed half way. */
struct trainer_made {
    int status;
    struct err error;
    bool device; /* this worker's device or memory failed: another worker may have more */
    struct model *model;
    struct steps *step;
    struct seat **seat;
    uint32_t seat_count;
};

struct trainer {
    struct env *env; /* borrowed */
    struct trainer_options options;
    char name[LIMIT_NAME], why[WIRE_WHY];
    enum trainer_state state;
    bool again; /* CLEARING: join again afterwards, else leave */
    bool over;  /* its part of the job is finished: nothing of the job is kept */
    /* JOINING: the coordinator refuses it, or the job failed here; `end` has the reason */
    bool refused;
    struct err end; /* why it leaves; code 0: in good order */
    bool broken;    /* because of its own device or input: the job continues without it */
    /* JOINING: the job with the first hash failed here with a message that has the second hash; it
     * waits failed_ms, 0 the first time. */
    uint64_t failed_hash, failed_said;
    uint32_t failed_ms;
    /* It could not take part in a ring: the last pause for that, and the steps that it had made by
     * then. pause_ms: the pause before it joins again; 0: none. */
    uint32_t unable_ms, pause_ms;
    uint64_t unable_steps;
    bool paused; /* JOINING: wait_timer ends the pause */
    /* CLEARING and LEAVING with `again`: the device is lost and another backend will replace it;
     * code 0: no. */
    struct err lost;
    struct client *client;
    struct door door; /* where other workers reach this one */
    /* The job, from joining on; made anew when its text or its number changes. */
    uint64_t job_hash, job_bare, job_number; /* bare: without the line of names */
    bool have_job, have_model;
    struct job job;
    struct model_shape shape;
    struct model *model;
    struct table_schema schema[MODEL_TABLES_MAX];
    struct inputs inputs;
    struct seat_host host; /* client, job, model, schemas: as lanes see them */
    struct stats stats;
    struct traces traces;
    uint64_t taken_before; /* bytes of input that the process had read when the trainer was made */
    struct steps *step;    /* owned; NULL: the servers keep the network */
    struct seat **seat;    /* owned (seat_count) */
    uint32_t seat_count;
    uint32_t lanes; /* number of lanes of the job */
    uint64_t run;   /* at the join */
    uint32_t lease_ms;
    uint32_t declared; /* number of tables declared so far */
    struct request join, objects, taken, tell, declare, profile, beat, trace, leave;
    bool profiled; /* the profile was sent to the coordinator */
    bool listed;   /* growing log: the list that was requested with the token is due */
    uint64_t list_token;
    uint32_t known; /* splits before this one have no objects, or have their list */
    bool listing;   /* it lists the objects of split `known` for all workers */
    struct env_timer beat_timer, wait_timer, leave_timer, tick_timer;
    uint64_t asked_ns;               /* when WORKER_JOIN was last sent */
    int32_t clock_ahead_s;           /* how far the coordinator's clock is ahead; 0: unknown */
    uint64_t told_ns, told_examples; /* time and examples at the last trainer_describe */
    struct env_work prepare;         /* reads the shape of the input, makes model and seats */
    bool preparing;
    struct trainer_made made; /* its result; the thread's while preparing */
    struct env_work replace;
    bool replacing;
    struct backend *replacement; /* its result; the thread's while replacing */
    int replace_status;
    struct err replace_error;
};

/* trainer.c */
void trainer_tick(struct trainer *t);

/* trainer_clear.c */
/* Runs the tick soon, from the loop, so that it never changes a lane or request that is calling. */
void trainer_wake(struct trainer *t);
/* Gives up everything, then joins again or leaves with this status. The first reason stands. */
void trainer_clear(struct trainer *t, bool again, int status, const char *text);
/* Its part of the job is finished; status 0: in good order. Leaves, or waits for the next job. */
void trainer_end(struct trainer *t, int status, const char *text);
/* The device failed. The lanes go back and the job continues elsewhere; this process ends with its
 * status, or continues with another backend. */
void trainer_break(struct trainer *t, int status, const char *text);
/* Its input differs from the job's: it leaves with CONFIG or, with options.stay, checks again from
 * time to time. */
void trainer_apart(struct trainer *t, const char *text);
/* The coordinator no longer knows this worker. */
void trainer_forgotten(struct trainer *t);
void trainer_given_back(struct trainer *t, const char *text); /* a program gave a batch back */
bool trainer_has_device(const struct trainer *t);

/* trainer_join.c */
void trainer_join_init(struct trainer *t);
/* JOINING: asks the coordinator, after so many ms. */
void trainer_join(struct trainer *t, uint32_t pause_ms);
/* door_options.opened: joins once more. The worker may be leaving by now. */
void trainer_door_opened(void *owner, const struct err *e);

/* trainer_leave.c */
void trainer_leave_init(struct trainer *t);
/* CLEARING, once it is settled: sends the last beat, so that the report counts every example, then
 * the farewell, for which the coordinator has two seconds. A worker that joins again says farewell
 * too: a coordinator that still knows it frees its lanes at once rather than at the end of the
 * lease. */
void trainer_farewell(struct trainer *t);

/* trainer_beat.c */
void trainer_beat_init(struct trainer *t);
void trainer_beat_later(struct trainer *t); /* starts the timer of the next beat */
/* Mutes pushes after a silence longer than the lease, until the coordinator is heard again. */
void trainer_lease_check(struct trainer *t);
void trainer_traces_send(struct trainer *t);
/* The longest time that a thread has been computing a step of a lane; 0: none is. */
uint64_t trainer_computing_ns(const struct trainer *t);

/* trainer_step.c: all do nothing in a job whose servers keep the network. */
/* On a thread, with the model: what the trainer's step will be. */
int trainer_step_make(struct trainer *t, struct trainer_made *m);
void trainer_step_begin(struct trainer *t);
void trainer_step_end(struct trainer *t);
void trainer_step_look(struct trainer *t); /* seats have taken or left lanes */
void trainer_step_drop(struct trainer *t); /* same conditions as trainer_job_drop */
void trainer_step_figures(const struct trainer *t, struct wire_WORKER_BEAT *out);

/* trainer_job.c */
void trainer_job_init(struct trainer *t);
/* Takes the job's text and number (WORKER_JOIN); a new job replaces the old one. All seats must be
 * free and idle, and no thread at work. */
int trainer_job_take(struct trainer *t, uint64_t number, const char *text, size_t bytes,
                     struct err *e);
void trainer_job_drop(struct trainer *t); /* same conditions */
/* The job is over: drops it and the spooled streams. Same conditions. */
void trainer_job_forget(struct trainer *t);
/* Makes the input's shape, the model, its schemas and the seats, unless they are made, on a thread
 * while t->preparing; then calls trainer_tick. An error ends the trainer's work. */
void trainer_job_prepare(struct trainer *t);
/* Drops model and seats. Same conditions as trainer_job_drop. */
void trainer_model_drop(struct trainer *t);

/* trainer_objects.c */
void trainer_objects_init(struct trainer *t);
/* While t->listing: continues when the list is there. */
void trainer_objects_list(struct trainer *t);
/* Growing log: the coordinator wants a list. */
void trainer_objects_list_again(struct trainer *t);

/* trainer_tables.c */
void trainer_tables_init(struct trainer *t);
void trainer_tables_declare(struct trainer *t); /* names first, then each table of the model */
void trainer_profile_tell(struct trainer *t);   /* once, when the input has it */

/* trainer_host.c */
void trainer_host_init(struct trainer *t);

#endif
