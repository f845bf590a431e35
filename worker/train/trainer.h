/* trainer.h: the worker's core: joins, prepares, works, leaves. Seats and lanes run
 * below it (seat.h, lane.h).
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
 * must be renewed meanwhile. While WORKING it declares the tables that the model needs, beats, and
 * lets its seats ask for work, one at a time. A worker that the coordinator no longer knows (its
 * lease ran out while it was frozen or cut off) gives up all lanes without a write and joins again.
 * While the coordinator is silent for longer than the lease, nothing is pushed: another worker may
 * hold the lanes.
 *
 * The answer to its first join tells a worker that the job has train.dense: allreduce. It then
 * opens its door (door.h) and joins once more over the same connection, with its endpoint, which
 * gives the same worker. One that cannot listen leaves, and the job goes on without it.
 *
 * A worker that has no memory for its place in a ring, or does not reach the worker that has the
 * network, gives its lanes back with the reason, and joins again after 1 s, 2 s, up to half a
 * minute: each attempt stops the ring. A step that it makes ends the row.
 *
 * A worker whose device fails leaves in good order with its reason and ends with its status (69 or
 * 70). The job does not fail: its lanes go to other workers. The worker leaves within half a lease,
 * even if the device keeps its threads. If the device is lost (UNAVAILABLE), the job's
 * train.backend is auto and its consistency is not bsp, options.replace may give another backend:
 * the worker drops everything that it made, and joins again with that backend.
 *
 * At the end it calls env_stop. Thread: the worker's loop; no clock, socket, thread or file of its
 * own. */
#ifndef WORKER_TRAIN_TRAINER_H
#define WORKER_TRAIN_TRAINER_H

#include "dense/model.h"
#include "proto/base/env.h"
#include "proto/base/err.h"
#include "proto/job/job.h"
#include "worker/train/outside.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct trainer_options {
    const char *coordinator;                                                /* endpoint; copied */
    int (*resolve)(const char *endpoint, char numeric[256], struct err *e); /* client.h */
    const char *name; /* name of this worker; copied */
    uint32_t pid;
    uint32_t lanes_max; /* lanes at a time; 0: 2. Under bsp as many as the job has */
    /* Overrides of the job's keys on this machine (data paths); borrowed, may be NULL. */
    const struct string_list *set;
    /* Jobs may run commands here (data.train: {cmd: ...}); false: DENIED. Every client that reaches
     * the coordinator can submit a job. */
    bool commands;
    bool replay;             /* refuses, with CONFIG, a job without replay (job.replay) */
    struct backend *backend; /* borrowed; NULL for models that need none */
    const char *why;         /* about that backend, for people; copied, may be NULL */
    /* Makes another backend when the device of the first is lost; called once, on a thread of the
     * pool. Messages may still borrow memory of the lost one: it stays until the env is gone. NULL:
     * there is none, and the worker leaves. */
    int (*replace)(void *context, struct backend **out, struct err *e);
    /* door_options.where: finds where other workers reach this one. NULL: it does not listen, and
     * gets no lanes of jobs with train.dense: allreduce. */
    int (*where)(void *context, char endpoint[256], char host[256], struct err *e);
    void *context;  /* context of replace and where */
    uint32_t cores; /* cores of this process, the number of batches read at the same time; 0: 1 */
    /* callable on any thread; times reads of files; NULL: they count as parsing */
    uint64_t (*clock_ns)(void);
    uint32_t wait_ms; /* limit for the coordinator's first answer; 0: 30 s */
    /* The network of jobs with model.kind: external, borrowed; the worker takes no others. NULL: it
     * takes all but those. */
    const struct outside *outside;
    /* The worker does not end when a job is over or failed here, or when the coordinator is silent
     * or refuses it: it frees the job and waits for the next one. A job that fails here but
     * continues elsewhere is retried at once, then after 1 s, 2 s, up to half a minute. */
    bool stay;
    bool keyed; /* it shows a key; a worker outside the coordinator's list gets no answer */
    /* limit after which a step that does not return from a device ends the worker; 0: 60 s */
    uint32_t step_ms;
};

struct trainer;

/* Connects and sends WORKER_JOIN. The env's core is the trainer, its handler trainer_handler(). */
int trainer_new(struct env *env, const struct trainer_options *options, struct trainer **out,
                struct err *e);
/* After env_stop, and only when trainer_settled: no thread is at work. */
void trainer_free(struct trainer *t);
const struct env_handler *trainer_handler(void);
/* SIGTERM: gives the lanes back and leaves with exit status 0. It waits at most half a lease for a
 * step of a device; a second call stops without waiting for the threads. */
void trainer_leave(struct trainer *t);
bool trainer_settled(const struct trainer *t);
/* After env_stop: 0, or the status with its message (err_exit_status gives the process's). */
int trainer_status(const struct trainer *t, struct err *e);
/* True when the coordinator has answered and does not refuse this worker; `otherwise` before the
 * first answer. */
bool trainer_taken(const struct trainer *t, bool otherwise);
/* True while it works on a job: its input is read, and its lanes may ask for work. */
bool trainer_works(const struct trainer *t);
/* Sums since it joined. */
struct trainer_counts {
    uint64_t batches, examples; /* of training: acknowledged by all shards; computed */
    uint64_t keys_pulled, keys_pushed;
};
struct trainer_counts trainer_counts(const struct trainer *t);
/* One line for people: "job quickstart: 2 lanes, 81920 examples, 40211/s", with the rate since the
 * last call. */
void trainer_describe(struct trainer *t, char *text, size_t bytes);
/* The longest time so far that a request of this worker was without its shard (client.h). */
uint64_t trainer_absence_ns(const struct trainer *t);

#endif
