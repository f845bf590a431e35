/* step.h: a worker's part in a job whose workers keep the network in step (train.dense: allreduce).
 * Step t takes batch t of every lane, and T(t) is the network after it.
 *
 *   lanes -step_give-> contributions -ring_reduce-> sum -network_step, on a thread-> T(t)
 *     ^                                                                               |
 *     +--- moved: batch t+1 is computed with the weights of T(t) ---------------------+
 *
 * The coordinator says, in its answers to RING (wire.h), which workers make up the ring, from which
 * step it goes on, and where it rests. A worker always has one RING out:
 *
 *   STEP_OUT --step_begin--> STEP_GATHERS --stands, another worker or the tables --> STEP_READS
 *      ^                      ^      |      have the network                          |
 *      | step_end,            |      | stands, it has the network                    |
 *      | from all             |      v                            the network is whole|
 *                             |    STEP_OPEN <---------------------------------------+
 *                             |      |
 *        the last sum has become a   | a ring of a newer number, or another run
 *        step, no thread is at work  v (from GATHERS and READS, too)
 *                             +--- STEP_STOPS
 *
 * STEP_READS takes T(s) from another worker (worker/ring/handover.h) or from the tables of the
 * servers (step_tables.c). Lanes train in STEP_OPEN alone.
 *
 * With train.dense_state: sharded a worker keeps the optimizer's state of some shares (network.h).
 * STEP_READS then takes what it lacks: the weights from `source`, unless it has them, then the
 * shares that it is to keep and lacks from their keepers. What it has stays until then, and counts
 * if the ring does not come about. Where the tables are the source, its lanes go back to the
 * coordinator, for they may be ahead of the tables. In a rest each member assigns the tablets that
 * it owns.
 *
 *  1. A lane contributes to a step once: batches up to the ring's step are computed for their rows
 *     alone, with the weights of the step before. [test: step_batch_of_a_made_step_gives_nothing]
 *  2. A lane contributes to step t when its pushes up to batch t-1 are acknowledged. So what
 *     is in the network is in the rows, but for the newest step.
 *     [test: lane_gives_when_the_push_before_is_acknowledged]
 *  3. Under bsp batch t is pushed when T(t) is there. [test: lane_of_bsp_pushes_after_the_step]
 *  4. The tables get T(d) when T(d+1) is there, or in a rest: all pushes up to batch d are
 *     acknowledged then. [test: step_publishes_what_a_later_step_follows]
 *  5. Nothing writes the network while a thread computes with its weights.
 *     [assert: step_work_start, image_reply, share_make]
 *  6. A step allocates nothing here. [test: step_allocates_nothing]
 *
 * Thread: the worker's loop; sums become steps on a thread of the pool. */
#ifndef WORKER_TRAIN_STEP_H
#define WORKER_TRAIN_STEP_H

#include "dense/model.h"
#include "worker/train/client.h"

#include <stdbool.h>
#include <stdint.h>

struct steps;

struct step_options {
    struct env *env;
    struct client *client; /* borrowed, as all here */
    const struct job *job;
    const struct model *model;
    const struct backend *backend;     /* backend of the model; may be NULL */
    const struct table_schema *schema; /* (table_count): all tables of the job */
    uint32_t table_count, lanes;       /* counts of the job's tables and lanes */
    /* Callbacks, on the loop; each gets `context`. They may call every function here except
     * step_free. */
    void (*moved)(void *context); /* lanes that waited may go on */
    /* A ring of these members (count) stands, before any message to them. This worker has the lanes
     * first .. end-1 and drops all others; first == end: it is no member. */
    void (*stands)(void *context, const struct wire_ring_member *member, uint32_t count,
                   uint32_t first, uint32_t end);
    void (*failed)(void *context, int status, const char *text); /* the job cannot go on */
    void (*lost)(void *context, const char *text);               /* this worker is to join again */
    /* This worker cannot take part in the ring, for lack of memory or of a way to another worker:
     * it is to join again after a pause, for each attempt stops the others. */
    void (*unable)(void *context, int status, const char *text);
    /* Lanes that this worker holds and whose task has begun (step_lane_known), or did before. */
    uint32_t (*lanes_held)(void *context);
    void *context;
};

/* Makes the network with its initial values. May run on any thread. NOMEM; TOO_BIG: a tablet of the
 * network has no room in a message. */
int step_new(const struct step_options *options, struct steps **out, struct err *e);
void step_free(struct steps *s); /* it has ended and is idle; NULL is fine */

/* The worker has joined: from now on it keeps a RING out. */
struct step_begin {
    uint64_t worker, pass, run;
    uint32_t lease_ms;
};
void step_begin(struct steps *s, const struct step_begin *as);
/* The worker leaves the coordinator: nothing is sent any more, and no lane goes on. The network
 * stays, for a coordinator that was away. */
void step_end(struct steps *s);
bool step_idle(const struct steps *s); /* no thread is at work */
void step_look(struct steps *s);       /* the lanes that this worker holds may be others */
void step_remap(struct steps *s);      /* the map has changed */

/* A message of another worker: a request that has its right, or an answer. False: it is none of a
 * ring. m stays the caller's. */
bool step_message(struct steps *s, peer_t from, const struct wire *w, const struct msg *m);

/* ---- lanes ----------------------------------------------------------------------------------- */

/* A task of a lane begins; `mark`: its batches up to there are acknowledged. */
struct step_lane {
    uint32_t lane;
    uint64_t run, generation, mark;
};
void step_lane_begin(struct steps *s, const struct step_lane *lane);
/* A task of this generation has begun. */
bool step_lane_known(const struct steps *s, uint32_t lane, uint64_t generation);
/* Later batches are acknowledged. */
void step_lane_acknowledged(struct steps *s, const struct step_lane *lane);
/* The task is over, or the lane is dropped; a newer generation has begun: nothing changes. */
void step_lane_end(struct steps *s, const struct step_lane *lane);

enum step_turn {
    STEP_WAITS, /* not now; `moved` will be called */
    STEP_GIVES, /* it is computed with T(batch - 1), and contributes */
    STEP_ROWS,  /* it is computed with T(batch - 1), for its rows alone: T(batch) has it */
    STEP_LATE   /* T(batch - 1) is gone */
};
/* The arrays that the model reads and fills for a batch. */
struct step_arrays {
    const float *dense, *stats; /* weights */
    float *dense_gradients, *stats_gradients;
    size_t dense_floats, stats_floats;
};
/* The lane's batch is to be computed. GIVES, ROWS: the arrays are the caller's until step_back,
 * which follows; those of gradients until step_give or the lane's next batch. */
enum step_turn step_admit(struct steps *s, uint32_t lane, uint64_t batch, struct step_arrays *out);
void step_back(struct steps *s, uint32_t lane);
/* The lane's contribution to the step of this batch: the gradients that it left in the arrays.
 * weight 0: it has none. lr_scale: the factor of the learning rates, alike for all lanes. */
void step_give(struct steps *s, uint32_t lane, uint64_t batch, uint64_t weight, float lr_scale);
/* T(batch) is there. */
bool step_has(const struct steps *s, uint64_t batch);

struct step_figures {
    uint64_t steps;   /* made here */
    uint64_t bytes;   /* sent to other workers in chunks, each chunk once */
    uint64_t refused; /* steps that changed nothing: the sum was not finite */
    uint64_t blocks;  /* about as many rows of dense tables have shards taken from here */
};
struct step_figures step_figures(const struct steps *s);

#endif
