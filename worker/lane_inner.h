/* lane_inner.h: the inside of a lane, for lane.c (the machine, tasks, life) and lane_stage.c (what each stage does with
 * a batch). */
#ifndef WORKER_LANE_INNER_H
#define WORKER_LANE_INNER_H

#include "proto/base/assert.h"
#include "worker/lane.h"

enum batch_state { FREE, READING, READ, PULLING, READY, COMPUTING, COMPUTED, PUSHING, DRAINING };

struct lane_batch {
    struct lane *lane;
    enum batch_state state;
    uint64_t number; /* in the lane, from 1 */
    uint64_t position;
    uint32_t row_count;
    struct rows *rows;        /* owned */
    struct transfer transfer; /* its pull, then its push */
    uint64_t sent_ns;         /* when that was sent */
    struct env_work read;
    int status; /* of batch_read */
    struct err error;
};

struct lane {
    struct lane_base *base;
    void (*on_end)(void *owner);
    void *owner;
    bool running, dropping;
    struct wire_LANE_NEXT_reply task;
    struct lane_result result;
    struct scores scores;
    uint64_t last, next_read, next_pull, next_compute, next_push; /* batch numbers */
    struct lane_batch *batch;                                     /* owned (batch_count) */
    uint32_t batch_count;
    struct row_cache *cache; /* owned; NULL: none. Of the lane, run and generation of `task` */
    struct model_run *run;   /* owned: scratch of this lane's compute, and the cache's rows */
    struct env_work compute;
    struct lane_batch *computing; /* in the hands of a thread */
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
void batch_move(struct lane_batch *b, enum batch_state to);
struct lane_batch *lane_batch_find(struct lane *l, uint64_t number); /* the one under way, or NULL */
void lane_tick(struct lane *l);
void lane_fail(struct lane *l, int status, const char *text);

/* lane_stage.c: each takes the batch as its state says and moves it on. */
void lane_stages_init(struct lane *l, struct lane_batch *b);
void lane_read(struct lane *l, struct lane_batch *b); /* batch l->next_read into free memory */
void lane_pull(struct lane *l, struct lane_batch *b);
void lane_compute(struct lane *l, struct lane_batch *b);
void lane_push(struct lane *l, struct lane_batch *b);
/* Pull or push anew, by a new map. */
void lane_send_again(struct lane *l, struct lane_batch *b);

#endif
