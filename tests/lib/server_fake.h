/* server_fake.h: scripted shards and workers for tests of the coordinator, in the simulator. They
 * exchange the real messages with the coordinator. Pushes go directly to the memory of the fake
 * shards, which record what was applied, how often, and under which fence.
 *
 * A fake shard has one mark for each lane. A fake worker has some seats. A seat asks for work,
 * works a virtual step_ns for each batch, reports, and asks again; it repeats every request under a
 * new id after resend_ns. */
#ifndef TESTS_LIB_SERVER_FAKE_H
#define TESTS_LIB_SERVER_FAKE_H

#include "proto/base/env.h"
#include "proto/metric/metric_by.h"
#include "proto/metric/metric_tally.h"
#include "proto/wire/coordinators.h"
#include "proto/wire/wire.h"
#include "tests/sim/sim.h"

#include <stdbool.h>
#include <stdint.h>

#define FAKE_LANES 8u
#define FAKE_SEATS 4u
#define FAKE_ROWS 4096u
#define FAKE_EPOCHS 16u
#define FAKE_SHARDS 4u
#define FAKE_TABLET_BITS 8u

struct fake_run {
    uint64_t run;
    struct fake_lane {
        uint64_t generation, mark, at, clock; /* at, clock: from the last fence that set them */
        bool live;
    } lane[FAKE_LANES];
};

#define FAKE_CUTS 4u
struct fake_cut {            /* the content of a checkpoint's part, written as it is */
    uint64_t cut;            /* 0: none */
    struct table_set tables; /* as HOLD has it; none: all */
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
    const char *zone; /* NULL: none */
    uint64_t incarnation, boot;
    bool ready;
    uint32_t number;     /* from the coordinator; UINT32_MAX before */
    uint64_t cluster[2]; /* from the coordinator: its cluster; 0, 0: none yet */
    uint32_t shards;
    uint64_t sequence; /* last record, as its beats report; all records are on disk */
    uint64_t digested; /* the sequence in its digests */
    bool in_memory;
    uint32_t durability; /* as its beats report: plus 1; 0: not told */
    uint64_t last_term;  /* of its last record; a leader begins its term by itself */
    struct wire_SHARD_BEAT_reply copies; /* the last reply that named a shard */
    uint32_t copies_told;                /* how many such replies came without a beat (id 0) */
    uint64_t in_sync_order;              /* of the next IN_SYNC */
    int in_sync_status;                  /* of the last reply to IN_SYNC; 1: none yet */
    uint32_t in_sync;                    /* of that reply */
    char refused[ERR_TEXT_MAX];          /* the last refusal of a beat */
    uint64_t map_epoch;
    uint32_t tablets[LIMIT_TABLES]; /* tablets of tables; 0: not created */
    uint16_t *shard_of;             /* owned */
    uint32_t map_count;
    uint64_t names_version;
    uint64_t taken_newest; /* the greatest version of TAKEN_SET */
    struct {
        uint64_t version;
        size_t bytes; /* as far as it fits */
        char text[2048];
    } taken[LIMIT_SPACES];
    uint32_t names_asked;       /* how often */
    char names[2048];           /* from the coordinator; "": none */
    bool names_slow;            /* while true, NAMES_SET is BUSY */
    bool names_held_slow;       /* while true, NAMES_HELD is BUSY */
    bool map_slow;              /* the same for MAP_HELD */
    uint32_t takes;             /* MOVE_TAKE so far */
    bool take_slow;             /* while true, it is BUSY */
    const char *take_fails;     /* it is refused with this text; NULL: it succeeds */
    int take_status;            /* with this status; 0: CONFIG */
    uint64_t take_bytes;        /* that each tablet has, by its reply */
    struct wire_MOVE_TAKE take; /* the last one, and its first tablet */
    uint32_t take_first;
    uint32_t gone;            /* tablets of the last MOVE_MAP that may leave */
    uint64_t map_ns;          /* when the last MOVE_MAP came */
    struct fake_run run;      /* the open run */
    uint64_t newest_run;      /* highest run opened so far */
    const char *create_later; /* TABLE_CREATE is AGAIN with this text; NULL: it succeeds */
    uint64_t held, held_ns, cut, dropped;   /* numbers; cut: the newest */
    struct fake_cut noted, kept[FAKE_CUTS]; /* the state at HOLD; complete cuts */
    uint32_t exports, loads, unloads, clears, clears_asked;
    uint64_t cleared;              /* the job of the last clear */
    struct table_set clear_tables; /* its tables */
    bool refuse_clear;             /* its disk is failing */
    uint32_t drops;                /* drops of fields so far */
    bool drop_slow;                /* while true, ROWS_GO is AGAIN */
    char what[64];                 /* text of the last ROWS_GO */
    bool loaded;                   /* it has rows of a checkpoint */
    /* LOAD is BUSY until that shard has loaded, then NO_SPACE; NULL: there is room */
    const struct fake_shard *full_after;
    enum { FAKE_EXPORT_WELL, FAKE_EXPORT_NEVER, FAKE_EXPORT_FAILS } export_how;
    uint32_t restores, looks, fences, told, applied, ticks;
    bool rotten;  /* its part of every cut is damaged */
    uint64_t low; /* smallest clock of its live lanes, in replies to fences */
    /* in replies to fences: its newest clock less the lane's mark; 0: the clock is 0 */
    uint64_t ahead;
    const char *status;                      /* answer to SHARD_STATUS; NULL: {} */
    struct wire_share share[LIMIT_SPACES];   /* (shares): the list of the last SHARES */
    struct wire_share_use use[LIMIT_SPACES]; /* the reply to it */
    uint32_t shares, shares_told;            /* shares_told: SHARES so far */
    uint64_t shares_digest;                  /* of the list, as its beats report */
    uint8_t seen[FAKE_EPOCHS][FAKE_ROWS];    /* how often a row was applied */
    bool refuse_go;                          /* true: the next GO gets an error */
    bool no_room;                            /* HOLD is refused: the disk is full */
    /* true: the next GO gets another sequence than its HOLD */
    bool lets_go;
};

struct fake_seat {
    struct fake_worker *worker;
    struct env_timer timer; /* work or resend */
    enum { FAKE_ASKING, FAKE_WORKING, FAKE_REPORTING, FAKE_RESTING } state;
    uint64_t id; /* id of the request in flight */
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
    uint32_t pid;
    /* it leaves at once with this status, because its device failed; 0: no */
    int broken;
    const char *kernel, *why; /* NULL: "k"; "a test" */
    uint64_t number, pass, run, join_id;
    struct fake_shard **shard; /* borrowed */
    uint32_t shards, seats, batch, tables_declared;
    uint32_t tablet_bits; /* of its table 0; 0: FAKE_TABLET_BITS */
    uint64_t rows[3];     /* by split */
    uint64_t step_ns, resend_ns, next_id, bad_lines, undrawn, digest;
    uint64_t refused_batches;    /* reported with each task */
    uint64_t eval_bad_lines;     /* in the first task of each evaluated split */
    double quality[FAKE_EPOCHS]; /* share of examples that evaluation orders correctly, by epoch */
    double (*quality_now)(const struct fake_worker *w); /* replaces `quality`, if not NULL */
    struct fake_seat seat[FAKE_SEATS];
    bool joined, ended, tell_held;
    int refused; /* last refusal that it got */
    char refused_text[ERR_TEXT_MAX];
    uint32_t leaves, evals, indexes, fenced, unknown, repeats;
    /* predictions come with a group and a field: the job has evaluate.group and one of
     * evaluate.by */
    bool context;
    int fatal_status; /* its reply to INDEX is this failure */
    uint32_t tasks_seen;
    uint32_t dead_batch; /* tests: kill after this many batches; 0: never */
    /* from the first work of this kind on (for training after this many batches) it sends beats and
     * does nothing else; 0: it goes on */
    enum wire_next wedge_kind;
    uint32_t wedge_batch;
    bool wedged;
    struct fake_side *side;          /* its part in a ring (ring_fake.h); NULL: it has none */
    struct wire_WORKER_BEAT held_up; /* reported with each beat: waits, late, slow */
    uint32_t batches;
};

extern const struct env_handler fake_shard_handler, fake_worker_handler;

/* Adds to *tally what a worker reports about rows that it trained on (label: row % 2). */
void fake_tally(uint64_t position, uint64_t examples, struct metric_tally *tally);

void fake_shard_start(struct fake_shard *s, struct sim *sim, const char *server, uint32_t index,
                      uint64_t incarnation);
/* Drops its rows and its run. */
void fake_shard_forget(struct fake_shard *s);
/* Ends its process and drops all that was in memory; fake_shard_start starts it again. */
void fake_shard_die(struct fake_shard *s);
void fake_worker_start(struct fake_worker *w, struct sim *sim, const char *name,
                       struct fake_shard **shards, uint32_t count);
/* Asks for a list of copies in sync, as the leader of a term. */
void fake_shard_in_sync(struct fake_shard *s, uint64_t term, uint32_t in_sync);
/* True when the last reply says that this copy leads its shard, of more than one copy. */
bool fake_shard_leads(const struct fake_shard *s);
/* Pushes a lane's batch to one shard: 0 applied, 1 skipped, or FENCED, OLD_RUN, GAP; BUSY while a
 * cut is held. */
int fake_push(struct fake_shard *s, uint64_t run, uint32_t lane, uint64_t generation,
              uint64_t batch);

/* A client that submits a job and asks for its state. */
struct fake_client {
    struct env *env;
    struct sim_node *node;
    const char *list; /* its coordinators; NULL: sim://coordinator */
    struct coordinators coordinators;
    peer_t coordinator;
    struct env_timer timer;
    const char *yaml;
    uint32_t workers, state;
    uint64_t run, next_id;
    int status;
    char text[ERR_TEXT_MAX];
    char report[1 << 18];
    int submit_status;
    const char *from; /* `from` of SUBMIT; NULL: none */
    bool start;       /* the job starts from it (--start-from), as it always does with "fleet" */
    struct {
        bool asked, answered;
        uint64_t id;
        char name[LIMIT_NAME], text[ERR_TEXT_MAX], without[WIRE_LEFT_OUT];
        int status;
        struct wire_CHECKPOINT_reply reply;
    } checkpoint;
};
extern const struct env_handler fake_client_handler;
void fake_client_start(struct fake_client *c, struct sim *sim, const char *yaml, uint32_t workers);
/* Asks for a checkpoint, and repeats that until it gets a reply. */
void fake_client_checkpoint(struct fake_client *c, const char *name);
void fake_client_checkpoint_without(struct fake_client *c, const char *name, const char *servers);

#endif
