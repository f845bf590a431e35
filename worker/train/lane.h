/* lane.h: one lane at work: the batches of a task flow through read, pull, compute and push,
 * several at a time.
 *
 *   FREE --lane_read--> READING --read_done--> READ --lane_plan--> PLANNING
 *    ^                                          |                    |
 *    |                       lane_ask: no batch |                    | plan_done: lane_ask
 *    |                       before it waits    v                    |
 *    |                       to be pushed     PULLING <--------------+
 *    |                                          | lane_arrivals: its pull is answered, and the
 *    |                                          | pushes before it that bring rows
 *    |                                          v
 *    | lane_reuse:                            READY --lane_compute, in order--> COMPUTING
 *    | frames are back                                                             |
 *    |                                                                compute_done |
 *    |                                                                             v
 *   DRAINING <--push_done: all acknowledged--  PUSHING <--lane_push, in order-- COMPUTED
 *
 * An empty batch of bsp's padding goes FREE -> READ at once. A batch without a good line, or an
 * empty one, goes READ -> READY -> COMPUTED and is pushed as ticks, and so is a step
 * that the model skipped. A batch of evaluation goes from COMPUTING to DRAINING. Batches of a
 * dropped lane go to DRAINING from any state; a batch that a thread uses goes there when the thread
 * returns it.
 *
 * The queues between the stages are bounded: at most `ahead` batches are READING or READ (`readers`
 * of them READING), 1 + prefetch are in PULLING to COMPUTED, and 3 + prefetch in PULLING to
 * DRAINING: only these have memory for rows and gradients, the others only for parsed input. Under
 * bsp a batch is pushed when the previous one is acknowledged (a shard holds one batch a lane);
 * else pushes overlap.
 *
 * A lane that looks ahead (prefetch above 0, not bsp) pulls only what no unpushed batch before has,
 * and gets the other rows with the answers to their pushes (ahead.h), so that a batch always sees
 * the lane's own writes. A thread divides the keys, one batch at a time; no push starts meanwhile.
 * A batch therefore waits for the acknowledgement of the push before it, where they share keys.
 *
 * Where the workers keep the network in step (step.h), a batch is computed when the network of the
 * step before is there, and under bsp pushed when that of its own step is; its gradients of the
 * network go into the step in place of a push (lane_step.c).
 *
 * A lane requests nothing from the coordinator and decides nothing about leases; its seat does
 * (seat.h). Thread: the worker's loop; batch_read and model_train run in env_work. */
#ifndef WORKER_TRAIN_LANE_H
#define WORKER_TRAIN_LANE_H

#include "proto/metric/metric_by.h"
#include "proto/metric/metric_tally.h"
#include "worker/train/client.h"
#include "worker/train/evaluate.h"
#include "worker/train/outside.h"
#include "worker/train/stats.h"
#include "worker/train/step.h"
#include "worker/train/transfer.h"
#include "worker/train/turns.h"

#include <stdbool.h>
#include <stdint.h>

/* Shared by all lanes of a worker; borrowed, outlives them. */
struct lane_base {
    struct env *env;
    struct client *client;
    const struct job *job;
    uint64_t worker; /* number of the worker, sent with pushes */
    const struct model *model;
    const struct backend *backend;     /* for the model; may be NULL */
    const struct table_schema *schema; /* (table_count) */
    uint32_t table_count;
    /* batches of a lane that are read ahead, and at the same time; 0 counts as 1 */
    uint32_t ahead, readers;
    struct turns turns; /* turns of the slices of all lanes (slices.h): lane_computing at a time */
    /* callable on any thread; times reads of files; NULL: they count as parsing */
    uint64_t (*clock_ns)(void);
    struct stats *stats;
    struct traces *traces;         /* NULL: no batch is traced */
    struct steps *step;            /* NULL: the servers keep the network (train.dense) */
    const struct outside *outside; /* another program has the network; NULL: the model has it */
};

struct lane_result {
    /* 0; STOPPED: lane_drop; FENCED, OLD_RUN: another worker holds the lane; else a fatal error of
     * the job */
    int status;
    char text[ERR_TEXT_MAX]; /* reason */
    bool broken;             /* the device failed: this worker cannot continue, the job can */
    uint64_t examples, bad_lines, drawn, clamped; /* sums of struct batch's */
    uint32_t first_time, last_time;               /* range over the batches */
    /* sums over the examples, as model_output has them */
    double loss_sum, weight_sum;
    double loss_task[LIMIT_TASKS], weight_task[LIMIT_TASKS]; /* of the examples with the label */
    /* batches computed with examples; skipped: those whose gradient overflowed */
    uint64_t batches, skipped;
    uint64_t measured; /* batches whose gradients were measured; the model measures only some */
    double dense_norm, row_norm; /* sums over the measured batches */
    float lr_scale;              /* learning rate scale of the last batch */
    /* batches with a push that was refused for its values and sent as a tick */
    uint64_t refused;
    char bad_where[256], refused_where[ERR_TEXT_MAX];
    uint64_t staleness[STALENESS_CELLS];
    uint32_t experts;             /* model_loads, once a batch is computed */
    uint64_t load[LIMIT_EXPERTS]; /* (experts): examples that chose each */
    /* (labels); owned by the lane: figures of the training examples as the forward pass scored
     * them, before they were learnt. Empty for a model without a loss. */
    struct metric_tally *tally;
    struct metric_by *by; /* (evaluate.by); owned by the lane: these figures by value */
};

struct lane;

/* The number of batches that a lane should read at the same time, so that `lanes` lanes use all
 * `cores` for parsing: 1 to LANE_READERS_MAX. */
uint32_t lane_readers(uint32_t cores, uint32_t lanes);
#define LANE_READERS_MAX 16u
/* The threads that compute: as many as there are cores, at least one for each lane. The slices of
 * all lanes' batches share them (turns.h), so lanes x window may exceed the cores. */
uint32_t lane_computing(uint32_t cores, uint32_t lanes);
/* The threads of the pool on which a worker with so many lanes computes: lane_readers that read
 * and one that divides keys (lane_ahead.c), for each lane; lane_computing; and one for all else. So
 * no work waits in the pool for that of another stage. */
uint32_t lane_threads(uint32_t cores, uint32_t lanes);

/* on_end(owner) is called once for each lane_start, when nothing of the task is in flight any more;
 * it must not free the lane. May run on any thread: it allocates memory, also on the device, which
 * may take seconds, and does not touch the loop. base must not change meanwhile. */
int lane_new(struct lane_base *base, void (*on_end)(void *owner), void *owner, struct lane **out,
             struct err *e);
/* on the loop, before anything else: its time is charged from now on */
void lane_begin(struct lane *l);
void lane_free(struct lane *l); /* the lane has begun and is idle */

/* Starts a task (kind TASK or EVAL) on an idle lane. data: its input, borrowed until on_end; NULL
 * for a task without rows. The map must be there. */
void lane_start(struct lane *l, const struct wire_LANE_NEXT_reply *task,
                const struct dataset *data);
/* Stops all writes; on_end follows, perhaps before this returns, with `status`. Allowed when
 * idle. */
void lane_drop(struct lane *l, int status);
/* Charges the time so far to the stats, before they are sent. */
void lane_account(struct lane *l);
bool lane_idle(const struct lane *l);
/* How long a thread has been computing a step; 0: none is. */
uint64_t lane_computing_ns(const struct lane *l);
/* How old the rows that the newest pushed batch was computed from were when its push was answered:
 * the time since the first of them came. 0: none is pushed since the lane was taken. */
uint64_t lane_gradient_age(const struct lane *l);
/* True when it has a task and waits only for a shard's answer. */
bool lane_waits(const struct lane *l);
/* The map changed: transfers in flight are divided and sent anew. */
void lane_remap(struct lane *l);
/* The network has changed (step.h): what waits for that goes on. */
void lane_look(struct lane *l);

/* result of the last task, valid from on_end on */
const struct lane_result *lane_result(const struct lane *l);
/* scores of the last EVAL task, valid from on_end on */
const struct scores *lane_scores(const struct lane *l);

#endif
