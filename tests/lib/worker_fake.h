/* worker_fake.h: a minimal coordinator and shards in the simulator, for tests of the worker's
 * connected half.
 *
 * The fake coordinator deals one epoch of the train split in tasks, then one evaluation of the
 * valid split (when fake.valid_rows), then END. The fake shards keep rows and marks in memory and
 * follow the push rule of engine.h exactly; rows change by -lr_scale * gradient. Tests can make
 * both refuse, forget and fence. All nodes share one struct, so each can read everything. */
#ifndef TESTS_LIB_WORKER_FAKE_H
#define TESTS_LIB_WORKER_FAKE_H

#include "proto/job/schema.h"
#include "proto/wire/wire.h"
#include "tests/sim/sim.h"

#include <stdbool.h>
#include <stdint.h>

#define FAKE_SHARDS 4u
#define FAKE_TABLES 3u
#define FAKE_LANES 8u
#define FAKE_COORDINATOR "sim://coordinator"
#define FAKE_RUN 77u
#define FAKE_PASS 5000u /* the pass of a worker is this plus its number */

struct fake_row {
    uint64_t key;
    bool used;
    float value[512];
};

struct fake_lane {
    uint64_t holder, generation, mark;
    bool has_task;
    struct wire_LANE_NEXT_reply task;
    uint64_t next_batch;
};

struct fake;

struct fake_node {
    struct fake *fake;
    struct sim_node *node;
    uint32_t shard; /* FAKE_SHARDS: the coordinator */
};

struct fake {
    struct sim *sim;
    struct fake_node node[FAKE_SHARDS + 1];
    const char *job_text;
    uint32_t shards, lanes, batch, task_batches, lease_ms;
    uint64_t job;   /* the job's number in the reply to WORKER_JOIN */
    bool no_job;    /* the reply to WORKER_JOIN is AGAIN */
    bool scattered; /* tablets are dealt to the shards in pairs, else in stretches */
    /* A case answers requests itself, where this returns true; NULL: none. */
    bool (*other)(struct fake_node *n, peer_t from, const struct wire *w, const struct msg *m);
    /* the coordinator forgets each worker until it joins again (once) */
    bool forgets;
    uint32_t valid_rows_wanted; /* 1: evaluate the valid split at the end */
    int32_t refuse_status[128]; /* by wire type: status of refusals ... */
    uint32_t refuse_count[128]; /* ... and how many are left */
    uint32_t lose_count[128];   /* requests that are still to be lost, by wire type */
    uint32_t seen[128];         /* requests by wire type */
    uint32_t trace_every;       /* in the reply to each beat */
    uint32_t trace_join;        /* in the reply to a join */
    /* batches whose pushes with keys are refused for their values */
    uint64_t poison_from, poison_to;
    uint64_t push_late_ns; /* delay of acknowledgements of pushes */
    /* Pushes that ask for rows: one answer in `echo_every` gives none (0: all give them), and tells
     * that the slowest other lane is `echo_lag` clocks behind (0: there is no other lane). */
    uint32_t echo_every, echo_lag;
    uint64_t echoes, echoes_asked, echo_answers; /* rows given and asked for; answers with some */
    uint64_t hold_ns;       /* time that pulls are held for the bound; the reply names it */
    struct fake_late *late; /* owned: replies to be sent */
    /* Tables. */
    struct table_schema schema[FAKE_TABLES];
    bool declared[FAKE_TABLES];
    uint32_t tables;
    struct fake_row *row[FAKE_TABLES]; /* owned: hash tables of FAKE_ROWS rows, over all shards */
    uint64_t (*mark)[FAKE_LANES];      /* owned: by global tablet */
    uint64_t fence[FAKE_SHARDS][FAKE_LANES]; /* generation */
    uint64_t map_epoch;
    uint32_t map_turn; /* shifts the map */
    /* The job. */
    uint64_t workers;   /* worker numbers given so far */
    char endpoint[256]; /* that the last worker told when it joined */
    uint64_t known;     /* lowest known worker number */
    bool indexed[3];
    uint64_t rows[3], digest[3], next_row;
    struct fake_lane lane[FAKE_LANES];
    uint32_t tasks_open, tasks_done;
    uint64_t examples, bad_lines;
    /* sums over the tasks done; loss_task: of the first label */
    double loss_sum, weight_sum, loss_task;
    uint64_t batches; /* batches with examples */
    /* pushes refused for their values; pushes without keys for such batches */
    uint64_t poisoned, ticks;
    uint64_t refused; /* reported by the workers, in the tasks done */
    char refused_where[ERR_TEXT_MAX];
    uint64_t staleness[64];
    bool eval_given[64], eval_done[64];
    uint32_t eval_examples;
    float eval_score_sum;
    bool ended;                /* END was the reply */
    uint32_t left, left_fatal; /* WORKER_LEAVE */
    int32_t fail_status;
    char fail_text[ERR_TEXT_MAX];
    struct wire_WORKER_BEAT beat; /* the last one */
    struct wire_trace trace[512]; /* of TRACES, as they came */
    uint32_t traces;
    uint64_t applied, skipped, gaps;
    struct wire_PUSH push; /* the last one */
    struct wire_PULL pull;
    uint64_t drawn, eval_bad_lines; /* reported by workers */
    double shows, clicks;           /* sums over the applied keys, in tables with statistics */
    uint64_t pulls, keys_pulled_max, keys_pushed_max;
};

/* Makes nodes "sim://coordinator" and "sim://shard-N" in a new simulator. */
void fake_open(struct fake *f, const struct sim_options *sim, const char *job_text, uint32_t shards,
               uint32_t lanes);
void fake_close(struct fake *f);
/* Takes a lane from its holder: every shard gets a higher generation, and the next worker that asks
 * gets the lane, from the lowest mark. */
void fake_expire(struct fake *f, uint32_t lane);
/* Changes the map: every stretch moves to the next shard. */
void fake_turn_map(struct fake *f);
/* Returns a row; NULL: it does not exist. */
const struct fake_row *fake_row(const struct fake *f, uint32_t table, uint64_t key);
uint32_t fake_row_count(const struct fake *f, uint32_t table);
/* Returns the lowest mark of a lane over all tablets of all tables. */
uint64_t fake_mark(const struct fake *f, uint32_t lane);

#endif
