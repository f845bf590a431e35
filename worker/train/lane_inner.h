/* lane_inner.h: the inside of a lane, for lane.c (the machine, tasks, life), lane_stage.c (what
 * each stage does with a batch, and what a cache of rows adds to pulling). */
#ifndef WORKER_TRAIN_LANE_INNER_H
#define WORKER_TRAIN_LANE_INNER_H

#include "proto/base/assert.h"
#include "proto/base/sm.h"
#include "worker/train/lane.h"

enum batch_state {
    FREE,
    READING,
    READ,
    PLANNING,
    PULLING,
    READY,
    COMPUTING,
    COMPUTED,
    PUSHING,
    DRAINING
};
extern const struct sm lane_moves;

struct lane_batch {
    struct lane *lane;
    enum batch_state state;
    uint64_t number; /* in the lane, from 1 */
    uint64_t position;
    uint32_t row_count;
    struct rows *rows;        /* owned */
    struct transfer transfer; /* its pull, then its push */
    uint64_t sent_ns;         /* when that was sent */
    bool refused;             /* a part of its push was, for its values */
    struct env_work read;
    int status; /* of batch_read */
    struct err error;
};

/* What a shard said with some rows that were pulled; keys are those of a batch's plan. */
struct cache_answer {
    uint64_t batch, clock, low;
    const uint64_t *keys; /* borrowed */
    uint32_t count;
};

/* The cache's index is in the hands of a thread while a batch is planned: answers that come
 * meanwhile wait for the next plan, which takes them first. The keys that they point to lie in
 * batches' plans, so they last till then. */
struct lane_cache {
    /* owned; NULL: none. Of the lane, run and generation of the lane's task */
    struct row_cache *index;
    bool stale; /* to be emptied by the next plan */
    bool clear; /* ... by the one at hand */
    /* owned (capacity); those that came, those for the thread */
    struct cache_answer *answer, *taken;
    uint32_t answers, answer_capacity, takens, taken_capacity;
    struct lane_batch *planning; /* in the hands of a thread */
    struct env_work work;
    int status;
};

struct lane {
    struct lane_base *base;
    void (*on_end)(void *owner);
    void *owner;
    bool running, dropping;
    struct wire_LANE_NEXT_reply task;
    const struct dataset *data; /* of the task; borrowed */
    struct lane_result result;
    struct scores scores;
    uint64_t last, next_read, next_pull, next_compute, next_push; /* batch numbers */
    struct lane_batch *batch;                                     /* owned (batch_count) */
    uint32_t batch_count;
    struct lane_cache cache;
    struct model_run *run; /* owned: scratch of this lane's compute, and the cache's rows */
    struct env_work compute;
    struct lane_batch *computing; /* in the hands of a thread */
    uint64_t computing_since_ns;
    struct model_output output;
    int compute_status;
    struct stats_clock clock;
    struct env_timer reuse_timer; /* frames come back without a word */
};

static inline bool lane_evaluates(const struct lane *l)
{
    return l->task.kind == WIRE_NEXT_EVAL;
}

/* Batches that have pulled rows or gradients at the same time. */
static inline uint32_t lane_full_batches(const struct lane *l)
{
    return 3 + l->base->job->train.prefetch;
}

/* lane.c */
void lane_batch_move(struct lane_batch *b, enum batch_state to);
/* the one under way, or NULL */
struct lane_batch *lane_batch_find(struct lane *l, uint64_t number);
void lane_tick(struct lane *l);
void lane_fail(struct lane *l, int status, const char *text);

/* lane_stage.c: each takes the batch as its state says and moves it on. */
void lane_stages_init(struct lane *l, struct lane_batch *b);
void lane_read(struct lane *l, struct lane_batch *b); /* batch l->next_read into free memory */
void lane_pull(struct lane *l, struct lane_batch *b); /* with a cache its keys are planned first */
void lane_compute(struct lane *l, struct lane_batch *b);
void lane_push(struct lane *l, struct lane_batch *b);
/* Pull or push anew, by a new map. */
void lane_send_again(struct lane *l, struct lane_batch *b);

/* lane_stage.c: the cache. */
int lane_cache_init(struct lane *l, struct err *e);
void lane_cache_close(struct lane *l);
void lane_cache_drop(struct lane *l); /* nothing that it knows holds any more */

#endif
