/* server_fake.h: scripted shards and workers for tests of the coordinator, in the simulator. They
 * speak the real messages with the coordinator; pushes go straight into the fake shards' memory,
 * which keeps the books: what was applied, how often, under which fence.
 *
 * A fake shard has one mark a lane. A fake worker has some seats; a seat asks, works a virtual
 * step_ns a batch, reports, asks again, and sends every request again under a new id after
 * resend_ns. */
#ifndef TESTS_LIB_SERVER_FAKE_H
#define TESTS_LIB_SERVER_FAKE_H

#include "proto/base/env.h"
#include "proto/metric/metric_by.h"
#include "proto/metric/metric_tally.h"
#include "proto/wire/wire.h"
#include "tests/sim/sim.h"

#include <stdbool.h>
#include <stdint.h>

#define FAKE_LANES 8u
#define FAKE_SEATS 4u
#define FAKE_ROWS 4096u
#define FAKE_EPOCHS 16u
#define FAKE_SHARDS 4u

struct fake_run {
    uint64_t run;
    struct fake_lane {
        uint64_t generation, mark, at, clock; /* at, clock: of the last fence that placed it */
        bool live;
    } lane[FAKE_LANES];
};

#define FAKE_CUTS 4u
struct fake_cut { /* all that a part of a checkpoint has, written as it is */
    uint64_t cut; /* 0: none */
    struct fake_run run;
    uint8_t seen[FAKE_EPOCHS][FAKE_ROWS];
};

struct fake_shard {
    struct env *env;
    struct sim_node *node;
    peer_t coordinator;
    struct env_timer beat;
    char server[LIMIT_NAME];
    uint32_t index;
    uint64_t incarnation, boot;
    bool ready;
    uint32_t number;     /* as told; UINT32_MAX before */
    uint64_t cluster[2]; /* as told: where it belongs; 0, 0: nowhere yet */
    uint32_t shards;
    uint64_t sequence; /* of its last record, as its beats say; all of it is on disk */
    uint64_t digested; /* the sequence that its digests tell */
    bool in_memory;
    char refused[ERR_TEXT_MAX]; /* the last refusal of a beat */
    uint64_t map_epoch;
    uint32_t tablets[2]; /* of tables 0 and 1, 0: not created */
    uint16_t *shard_of;  /* owned */
    uint32_t map_count;
    uint64_t names_version;
    uint64_t taken_version; /* TAKEN_SET, as it came: what fits */
    size_t taken_bytes;
    char taken[4096];
    uint32_t names_asked;     /* times */
    char names[512];          /* as told; an empty one: none */
    bool names_slow;          /* NAMES_SET is BUSY as long */
    bool map_slow;            /* MAP_HELD likewise */
    struct fake_run run;      /* open now */
    uint64_t newest_run;      /* ever opened */
    const char *create_later; /* TABLE_CREATE is AGAIN for that reason; NULL: it is not */
    uint64_t held, held_ns, cut, dropped;   /* numbers; cut: the newest */
    struct fake_cut noted, kept[FAKE_CUTS]; /* at HOLD; complete ones */
    uint32_t exports, loads, unloads, clears, clears_asked;
    uint64_t cleared;  /* the job for which all went last */
    bool refuse_clear; /* its disk is failing */
    uint32_t drops;    /* of fields, done */
    bool drop_slow;    /* ROWS_GO of fields is AGAIN as long */
    char what[64];     /* of the last one */
    bool loaded;       /* rows of a checkpoint are there */
    /* LOAD is BUSY until that one has loaded, then NO_SPACE; NULL: there is room */
    const struct fake_shard *full_after;
    enum { FAKE_EXPORT_WELL, FAKE_EXPORT_NEVER, FAKE_EXPORT_FAILS } export_how;
    uint32_t restores, looks, fences, told, applied, ticks;
    bool rotten;        /* its part of every cut */
    uint64_t low;       /* smallest clock of its live lanes, to a fence */
    uint64_t ahead;     /* by so much its newest clock is above a lane's mark, to a fence; 0: 0 */
    const char *status; /* answer to SHARD_STATUS; NULL: {} */
    uint8_t seen[FAKE_EPOCHS][FAKE_ROWS]; /* how often a row was applied */
    bool refuse_go;                       /* once: answers GO with an error */
    bool no_room;                         /* HOLD is refused: the disk is full */
    bool lets_go;                         /* once: says another sequence at GO than at HOLD */
};

struct fake_seat {
    struct fake_worker *worker;
    struct env_timer timer; /* work or resend */
    enum { FAKE_ASKING, FAKE_WORKING, FAKE_REPORTING, FAKE_RESTING } state;
    uint64_t id; /* of the request waited for */
    uint32_t lane;
    uint64_t generation, batch, at; /* at: next batch of the task */
    struct wire_LANE_NEXT_reply task;
    uint64_t examples;
    uint32_t tasks;
};

struct fake_worker {
    struct env *env;
    struct sim_node *node;
    peer_t coordinator;
    struct env_timer beat;
    char name[LIMIT_NAME];
    int broken;               /* leaves at once with this status: its device failed; 0: no */
    const char *kernel, *why; /* NULL: "k"; "a test" */
    uint64_t number, pass, run, join_id;
    struct fake_shard **shard; /* borrowed */
    uint32_t shards, seats, batch, tables_declared;
    uint64_t rows[3]; /* by split */
    uint64_t step_ns, resend_ns, next_id, bad_lines, undrawn, digest;
    uint64_t refused_batches;    /* told with each task */
    uint64_t eval_bad_lines;     /* of each split that is evaluated, of its first task's lines */
    double quality[FAKE_EPOCHS]; /* share of examples that evaluation orders rightly, by epoch */
    double (*quality_now)(const struct fake_worker *w); /* where it is no matter of epochs */
    struct fake_seat seat[FAKE_SEATS];
    bool joined, ended, tell_held;
    int refused; /* last refusal heard */
    char refused_text[ERR_TEXT_MAX];
    uint32_t leaves, evals, indexes, fenced, unknown, repeats;
    /* predictions come with a group and a field: the job has evaluate.group and one of
     * evaluate.by */
    bool context;
    int fatal_status; /* INDEX is answered by this failure */
    uint32_t tasks_seen;
    uint32_t dead_batch; /* tests: kill after this many batches; 0: never */
    /* from the first work of this kind on, of training from so many batches on, it beats and does
     * nothing else; 0: it goes on */
    enum wire_next wedge_kind;
    uint32_t wedge_batch;
    bool wedged;
    struct wire_WORKER_BEAT held_up; /* told with each beat: waits, late, slow */
    uint32_t batches;
};

extern const struct env_handler fake_shard_handler, fake_worker_handler;

/* What a worker tells of rows that it trained on (label: row % 2), added to *tally. */
void fake_tally(uint64_t position, uint64_t examples, struct metric_tally *tally);

void fake_shard_start(struct fake_shard *s, struct sim *sim, const char *server, uint32_t index,
                      uint64_t incarnation);
/* Its rows and its run are gone. */
void fake_shard_forget(struct fake_shard *s);
/* Its process dies, and all that was in its memory; fake_shard_start brings it back. */
void fake_shard_die(struct fake_shard *s);
void fake_worker_start(struct fake_worker *w, struct sim *sim, const char *name,
                       struct fake_shard **shards, uint32_t count);
/* A lane's batch on one shard: 0 applied, 1 skipped, or FENCED, OLD_RUN, GAP; BUSY while a cut is
 * held. */
int fake_push(struct fake_shard *s, uint64_t run, uint32_t lane, uint64_t generation,
              uint64_t batch);

/* Someone who submits and asks. */
struct fake_client {
    struct env *env;
    struct sim_node *node;
    peer_t coordinator;
    struct env_timer timer;
    const char *yaml;
    uint32_t workers, state;
    uint64_t run, next_id;
    int status;
    char text[ERR_TEXT_MAX];
    char report[1 << 18];
    int submit_status;
    const char *from; /* of SUBMIT; NULL: none */
    bool start;       /* it begins with that; so it always does with "fleet" */
    struct {
        bool asked, answered;
        uint64_t id;
        char name[LIMIT_NAME], text[ERR_TEXT_MAX];
        int status;
        struct wire_CHECKPOINT_reply reply;
    } checkpoint;
};
extern const struct env_handler fake_client_handler;
void fake_client_start(struct fake_client *c, struct sim *sim, const char *yaml, uint32_t workers);
/* Asks for a checkpoint, again and again until it is answered. */
void fake_client_checkpoint(struct fake_client *c, const char *name);

#endif
