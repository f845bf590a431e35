/* trainer.h: the worker's core: joins, prepares, works, leaves. What runs a lane is below it
 * (seat.h, lane.h).
 *
 *   JOINING --join_reply--> PREPARING --trainer_prepared: input, model, seats--> WORKING
 *    ^  |                     |                                                   |
 *    |  +---------------------+--trainer_clear: END, fatal, trainer_leave,--------+
 *    |                        |  lease ran out, trainer_break: the device failed
 *    |                        v
 *    |                      CLEARING --trainer_farewell: never joined--> DONE
 *    |                        |
 *    |                        | trainer_farewell: lanes are idle (trainer_settled)
 *    |                        v
 *    +--trainer_left: again, LEAVING --trainer_left--> DONE
 *    |  or options.stay       |
 *    |                        | trainer_left: again, the device is lost
 *    |                        v
 *    +--trainer_replaced--- REPLACING --trainer_replaced: there is no other backend--> DONE
 *
 * PREPARING runs on a thread: model, device and lanes' memory may take long to make, and the lease
 * must be kept. While WORKING it declares the tables that the model needs, beats, and lets its
 * seats ask for work, one at a time. A worker that the coordinator does not know any more (its
 * lease ran out while it was frozen or cut off) gives up all lanes without a write and joins again.
 * While the coordinator is silent for longer than the lease, nothing is pushed: the lanes may be
 * another's.
 *
 * A worker whose device fails leaves in good order with its reason and ends with its status (69 or
 * 70): that is no failure of the job, whose lanes go to other workers. It leaves before half a
 * lease is over, whether the device gives its threads back or not. Where the device is lost
 * (UNAVAILABLE), the job's train.backend is auto and its consistency not bsp, options.replace may
 * give another backend: the worker drops all that was made, and joins again with that.
 *
 * At the end it calls env_stop. Thread: the worker's loop; no clock, socket, thread or file of its
 * own. */
#ifndef WORKER_TRAIN_TRAINER_H
#define WORKER_TRAIN_TRAINER_H

#include "dense/model.h"
#include "proto/base/env.h"
#include "proto/base/err.h"
#include "proto/job/job.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct trainer_options {
    const char *coordinator;                                                /* endpoint; copied */
    int (*resolve)(const char *endpoint, char numeric[256], struct err *e); /* client.h */
    const char *name; /* of this worker; copied */
    uint32_t pid;
    uint32_t lanes_max; /* lanes at a time; 0: 2. Under bsp as many as the job has */
    const struct string_list
        /* overrides for this machine over the job's keys (data paths); borrowed, may be NULL */
        *set;
    /* whether a job, which whoever reaches the coordinator may submit, may run commands here
     * (data.train: {cmd: ...}); refused with DENIED otherwise */
    bool commands;
    bool replay;             /* refuses, with CONFIG, a job that is none (job.replay) */
    struct backend *backend; /* borrowed; NULL for models that need none */
    const char *why;         /* that backend, for people; copied, may be NULL */
    /* Another backend in the place of one whose device is lost; called on a thread of the pool,
     * once. Memory of the lost one may be borrowed by messages still: it stays till the env is
     * gone. NULL: there is none, the worker leaves. */
    int (*replace)(void *context, struct backend **out, struct err *e);
    void *context;  /* of replace */
    uint32_t cores; /* that this process may use: so many batches are read at the same time; 0: 1 */
    /* for any thread, to time reads of files with; NULL: not told from parsing */
    uint64_t (*clock_ns)(void);
    uint32_t wait_ms; /* for the first answer of the coordinator; 0: 30 s */
    /* A job that is over, or that failed here, or a coordinator that is silent or refuses this
     * worker, is not the end: what it had of the job is freed, and it waits for the next. One
     * that cannot be worked on here, but goes on elsewhere, it looks at again: at once, then after
     * 1 s, 2 s, up to half a minute. */
    bool stay;
    bool keyed; /* it shows a key: whoever is not in the coordinator's list hears nothing */
    /* after which a step that does not come back from a device is its end; 0: 60 s */
    uint32_t step_ms;
};

struct trainer;

/* Connects and sends WORKER_JOIN. The env's core is the trainer, its handler trainer_handler(). */
int trainer_new(struct env *env, const struct trainer_options *options, struct trainer **out,
                struct err *e);
/* After env_stop. With work in a thread's hands (trainer_settled false) it must not be called. */
void trainer_free(struct trainer *t);
const struct env_handler *trainer_handler(void);
/* SIGTERM: gives the lanes back and leaves; exit status 0. A device's step is waited for no longer
 * than half a lease; a second call stops without waiting for the threads. */
void trainer_leave(struct trainer *t);
bool trainer_settled(const struct trainer *t);
/* After env_stop: 0, or the status (err_exit_status of it is the process's) with the sentence. */
int trainer_status(const struct trainer *t, struct err *e);
/* Whether the coordinator has answered, and does not refuse this worker; `otherwise` while it has
 * said nothing. */
bool trainer_taken(const struct trainer *t, bool otherwise);
/* One line for people: "job quickstart: 2 lanes, 81920 examples, 40211/s"; the rate is that since
 * the last call. */
void trainer_describe(struct trainer *t, char *text, size_t bytes);

#endif
