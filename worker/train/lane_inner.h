/* lane_inner.h: the struct behind a lane, for lane.c (state machine, tasks, life), lane_stage.c
 * (reading, pulling and pushing a batch), lane_ahead.c (what is pulled ahead), lane_compute.c,
 * lane_step.c (the network that the workers keep in step). */
#ifndef WORKER_TRAIN_LANE_INNER_H
#define WORKER_TRAIN_LANE_INNER_H

#include "proto/base/assert.h"
#include "proto/base/sm.h"
#include "worker/train/lane.h"
#include "worker/train/slices.h"

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
    uint64_t sent_ns;         /* when that transfer was sent */
    uint64_t rows_ns;         /* when the first of its rows came; 0: none has */
    bool again;               /* its pull is the one after an echo that did not come */
    bool refused;             /* a part of its push was refused for its values */
    struct trace *trace;      /* trace among base->traces; NULL: it is not traced */
    struct env_work read;
    int status; /* result of batch_read */
    struct err error;
};

/* The division of a batch's keys, on a thread. */
struct lane_plan {
    struct lane_batch *batch; /* NULL: no thread plans */
    struct env_work work;
    int status;
    /* (count): the lane's unpushed batches with keys before it, the latest first */
    struct lane_batch *earlier[AHEAD_BATCHES];
    struct ahead_keys keys[AHEAD_BATCHES][AHEAD_TABLES];
    uint32_t count;
};

/* A lane's part in the step of its batch (step.h). */
struct lane_step {
    enum step_turn turn; /* turn of the batch that is computed, */
    struct step_arrays arrays;
    bool refused;   /* its gradient of the network is not finite */
    uint64_t batch; /* computed, to be contributed; 0: none */
    uint64_t weight;
};

struct lane {
    struct lane_base *base;
    void (*on_end)(void *owner);
    void *owner;
    bool running, dropping;
    struct wire_LANE_NEXT_reply task;
    const struct dataset *data; /* input of the task; borrowed */
    struct lane_result result;
    struct scores scores;
    uint64_t last, next_read, next_pull, next_compute, next_push; /* batch numbers */
    struct lane_batch *batch;                                     /* owned (batch_count) */
    uint32_t batch_count;
    struct lane_plan plan;
    struct lane_step step;
    struct model_run *run;        /* owned; scratch for computing; NULL: slices */
    struct slices *slices;        /* owned; NULL: train.window is 1 */
    struct env_work compute;      /* without a window */
    struct turn close;            /* with one: after the slices */
    struct lane_batch *computing; /* a thread computes this batch */
    uint64_t computing_since_ns;
    uint64_t gradient_age_ns; /* lane_gradient_age */
    uint64_t computed_ns;     /* the time of all batches computed before */
    struct model_input input; /* input of that batch */
    struct model_output output;
    int compute_status;
    struct stats_clock clock;
    struct env_timer reuse_timer; /* needed because frames come back without a notice */
};

static inline bool lane_evaluates(const struct lane *l)
{
    return l->task.kind == WIRE_NEXT_EVAL;
}

/* Charges the time that a stage took. */
static inline void lane_busy(struct lane *l, enum stats_stage stage, uint64_t ns)
{
    l->base->stats->busy_ns[stage] += ns;
}

/* Most batches with memory for rows and gradients. */
static inline uint32_t lane_full_batches(const struct lane *l)
{
    return 3 + l->base->job->train.prefetch;
}

/* lane.c */
void lane_batch_move(struct lane_batch *b, enum batch_state to);
/* Traces a batch that is read from now on, if there is room. */
void lane_trace_begin(struct lane_batch *b);
/* acknowledged: its trace is complete; else it is dropped. */
void lane_trace_over(struct lane_batch *b, bool acknowledged);
/* Charges the time of a traced batch: it is in this stage from now on. */
void lane_batch_turn(struct lane_batch *b, enum wire_stage stage);
/* the batch in flight with this number, or NULL */
struct lane_batch *lane_batch_find(struct lane *l, uint64_t number);
/* The lane's batches up to this one are acknowledged. */
uint64_t lane_mark(const struct lane *l);
/* False: a push is not acknowledged, and rows that are pulled now might lack it. */
bool lane_may_pull(const struct lane *l);
void lane_tick(struct lane *l);
void lane_fail(struct lane *l, int status, const char *text);

/* lane_stage.c: each takes a batch in the state before its stage and moves it on. */
void lane_stages_init(struct lane *l, struct lane_batch *b);
/* reads batch l->next_read into free memory */
void lane_read(struct lane *l, struct lane_batch *b);
void lane_pull(struct lane *l, struct lane_batch *b); /* plans its keys first, or asks for all */
void lane_ask(struct lane *l, struct lane_batch *b);  /* sends a pull */
void lane_push(struct lane *l, struct lane_batch *b);
/* Some rows of a batch came at this time: its gradients count as computed from the first ones. */
void lane_rows_came(struct lane_batch *b, uint64_t now_ns);
/* Pulls or pushes anew, by a new map. */
void lane_send_again(struct lane *l, struct lane_batch *b);

/* The factor of the learning rates at a batch. */
float lane_lr_scale(const struct lane *l, uint64_t batch);

/* lane_ahead.c */
void lane_plan_init(struct lane *l);
/* Divides a batch's keys, then lane_ask; without an unpushed batch before it, lane_ask at once.
 * NOMEM. */
int lane_plan(struct lane *l, struct lane_batch *b);
/* The answer with rows of a part of a batch's push; NULL: without them (transfer.h). */
void lane_echoed(struct lane_batch *b, const struct part *p, const struct wire_PUSH_reply *reply,
                 const void *rows);
/* After the push of a batch that has lost its keys to a skipped step: no echo comes. */
void lane_echo_void(struct lane_batch *b);
bool lane_echo_settled(const struct lane_batch *b); /* no later batch waits for its push */
/* Moves on the batches whose rows are all there. Returns whether there were any. */
bool lane_arrivals(struct lane *l);

/* lane_step.c: all do nothing in a job whose servers keep the network. */
/* True when the batch may be computed now. */
bool lane_step_admit(struct lane *l, struct lane_batch *b);
/* The model takes weights from the step, and leaves gradients there. */
void lane_step_arrays(struct lane *l);
/* Makes the gradients a contribution, on the thread that has computed them. */
void lane_step_close(struct lane *l);
/* The batch is computed, dropped while it was, or has no examples; good: with gradients. */
void lane_step_computed(struct lane *l, struct lane_batch *b, bool good);
/* Contributes what is computed, if the pushes before are acknowledged. */
void lane_step_give(struct lane *l);
/* True when the batch may be pushed as far as the network is concerned. */
bool lane_step_may_push(const struct lane *l, const struct lane_batch *b);
void lane_step_begin(struct lane *l);
void lane_step_acknowledged(struct lane *l);
/* The lane is dropped with this status. While its seat still has the lane and a thread is at work,
 * the worker has not settled: the lane's last batches are in the network and not in the rows. */
void lane_step_drop(struct lane *l, int status);
void lane_step_end(struct lane *l);

/* lane_compute.c: computes the next batch in order, on a thread, or on one for each slice. */
int lane_compute_new(struct lane *l, struct err *e);
void lane_compute_free(struct lane *l);
void lane_compute(struct lane *l, struct lane_batch *b);

/* lane_outside.c: on a thread of the pool: has another program compute the batch (outside.h).
 * AGAIN: it did not; NOT_FINITE: a score is no number, in an evaluation. */
int lane_outside_run(struct lane *l, const struct lane_batch *b);

#endif
