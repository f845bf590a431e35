/* lane.h: one lane at work: the batches of a task flow through read, pull, compute and push,
 * several at a time.
 *
 *   FREE --lane_read--> READING --read_done--> READ --lane_cache_plan--> PLANNING
 *    ^                                          |                          |
 *    |                                lane_ask: |                          | plan_done: lane_ask
 *    |                                no cache  v                          |
 *    |                                        PULLING <--------------------+
 *    |                                          | pull_done: all is answered
 *    |                                          v
 *    | lane_reuse:                            READY --lane_compute, in order--> COMPUTING
 *    | frames are back                                                             |
 *    |                                                                compute_done |
 *    |                                                                             v
 *   DRAINING <--push_done: all acknowledged--  PUSHING <--lane_push, in order-- COMPUTED
 *
 * An empty batch of bsp's padding goes FREE -> READ at once; it, and one without a good line, goes
 * READ (or PLANNING) -> READY -> COMPUTED and is pushed as ticks; so does the push of a step that
 * the model skipped. A batch of evaluation goes from COMPUTING to DRAINING. A dropped lane's
 * batches go to DRAINING from wherever they are, those in the hands of a thread when it gives them
 * back.
 *
 * The queues between the stages are bounded: at most `ahead` batches lie in READING and READ (of
 * them `readers` in READING), 1 + prefetch between PULLING and COMPUTED, 3 + prefetch between
 * PULLING and DRAINING: so many have memory for rows and gradients, the others only for what was
 * parsed. Under bsp a batch is pushed when the one before is acknowledged (a shard holds one batch
 * a lane); else pushes overlap.
 *
 * With base->cache_rows rows of the sparse tables stay with the model's run and are not pulled
 * again while the bound allows (row_cache.h). A batch is then PLANNING before it is PULLING: a
 * thread looks its keys up, one batch at a time.
 *
 * A lane asks for nothing and decides nothing about leases: its seat does (seat.h). Thread: the
 * worker's loop; batch_read and model_train run in env_work. */
#ifndef WORKER_TRAIN_LANE_H
#define WORKER_TRAIN_LANE_H

#include "proto/metric/metric_by.h"
#include "proto/metric/metric_tally.h"
#include "worker/train/client.h"
#include "worker/train/evaluate.h"
#include "worker/train/stats.h"
#include "worker/train/transfer.h"

#include <stdbool.h>
#include <stdint.h>

/* What all lanes of a worker share; borrowed, outlives them. */
struct lane_base {
    struct env *env;
    struct client *client;
    const struct job *job;
    uint64_t worker; /* its number, for pushes */
    const struct model *model;
    const struct backend *backend;     /* of the model; may be NULL */
    const struct table_schema *schema; /* (table_count) */
    uint32_t table_count;
    uint32_t ahead, readers; /* batches of a lane read ahead, and at the same time; 0 counts as 1 */
    uint64_t cache_rows;     /* of a lane's cache; 0: none */
    /* for any thread: times reads of files; NULL: they are not told from parsing */
    uint64_t (*clock_ns)(void);
    struct stats *stats;
};

struct lane_result {
    /* 0; STOPPED: lane_drop; FENCED, OLD_RUN: the lane is another's; else nothing helps: the job
     * cannot go on */
    int status;
    char text[ERR_TEXT_MAX]; /* why */
    bool broken;             /* the device failed: this worker cannot go on, the job can */
    uint64_t examples, bad_lines, drawn, clamped; /* as struct batch has them */
    uint32_t first_time, last_time;               /* likewise */
    double loss_sum, weight_sum;                  /* over the examples, as model_output has them */
    double loss_task[LIMIT_TASKS];                /* likewise, of each label */
    /* computed with examples; of these, skipped: a gradient overflowed */
    uint64_t batches, skipped;
    uint64_t measured; /* batches whose gradients were measured; the model does so now and then */
    double dense_norm, row_norm; /* sums over those */
    float lr_scale;              /* of the last batch */
    /* batches of which a push was refused for its values, and went out as a tick */
    uint64_t refused;
    char bad_where[256], refused_where[ERR_TEXT_MAX];
    uint64_t staleness[STALENESS_CELLS];
    /* (labels), owned by the lane: examples as the forward pass of training scored them, before
     * they were learnt. Empty for a model without a loss */
    struct metric_tally *tally;
    struct metric_by *by; /* (evaluate.by), owned likewise: the same by value */
};

struct lane;

/* How many batches a lane reads at the same time, so that `lanes` of them keep `cores` busy with
 * parsing: at least 1, at most LANE_READERS_MAX. */
uint32_t lane_readers(uint32_t cores, uint32_t lanes);
#define LANE_READERS_MAX 16u

/* on_end(owner) is called once for each lane_start, when nothing of the task is under way any more;
 * it must not free the lane. On any thread: it makes memory, on the device too, which may take
 * seconds, and touches nothing of the loop; base stays as it is meanwhile. */
int lane_new(struct lane_base *base, void (*on_end)(void *owner), void *owner, struct lane **out,
             struct err *e);
/* on the loop, once, before all else: its time counts from now on */
void lane_begin(struct lane *l);
void lane_free(struct lane *l); /* begun, idle */

/* Starts a task (kind TASK or EVAL) on an idle lane. data: its input, borrowed until on_end; NULL
 * where it has no rows. The map is there. */
void lane_start(struct lane *l, const struct wire_LANE_NEXT_reply *task,
                const struct dataset *data);
/* Writes nothing more; on_end follows (perhaps before this returns) with `status`. Fine when
 * idle. */
void lane_drop(struct lane *l, int status);
/* Charges the time till now to the stats: before they are sent. */
void lane_account(struct lane *l);
bool lane_idle(const struct lane *l);
/* For how long a step has been in the hands of a thread; 0: none is. */
uint64_t lane_computing_ns(const struct lane *l);
/* Whether it has a task and all it needs for it but a shard's answer. */
bool lane_waits(const struct lane *l);
/* The map has changed: what is under way is divided and sent anew. */
void lane_remap(struct lane *l);

/* of the task run last, from on_end on */
const struct lane_result *lane_result(const struct lane *l);
const struct scores *lane_scores(const struct lane *l); /* likewise, of an EVAL task */

#endif
