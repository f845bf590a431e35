/* core.h: a job of the coordinator, and what the files of a job share; the fleet is in fleet.h. */
#ifndef SERVER_COORD_CORE_H
#define SERVER_COORD_CORE_H

#include "proto/base/json.h"
#include "proto/job/job.h"
#include "proto/metric/metric.h"
#include "proto/wire/allow.h"
#include "proto/wire/wire.h"
#include "server/coord/checkpoint.h"
#include "server/coord/cut.h"
#include "server/coord/eval.h"
#include "server/coord/fleet.h"
#include "server/coord/grow.h"
#include "server/coord/guard.h"
#include "server/coord/judge.h"
#include "server/coord/made.h"
#include "server/coord/objects.h"
#include "server/coord/output.h"
#include "server/coord/replay.h"
#include "server/coord/setup.h"
#include "server/coord/stop.h"
#include "server/coord/task.h"
#include "server/coord/times.h"
#include "server/coord/trace.h"
#include "server/coord/window.h"
#include "server/coord/worker.h"

#include <stdbool.h>
#include <stdint.h>

#define COORD_EPOCHS_MAX 100000u
#define COORD_ROUNDS_MAX (1u << 30) /* epochs of a log that grows: as good as without end; */
#define COORD_ROUNDS_KEPT 500u      /* so many of them, and of evaluations, are told of */
#define COORD_HISTOGRAM 64u
#define COORD_BAD_TOLD 5u

/* The life of a job; flow.h has the diagram. Stored: add at the end. */
enum coord_phase {
    PHASE_NONE,
    PHASE_WAITING,
    PHASE_INDEX,
    PHASE_TABLES,
    PHASE_SETUP,
    PHASE_LANES,
    PHASE_TRAIN,
    PHASE_EVAL,
    PHASE_CUT,
    PHASE_RESTORE,
    PHASE_TEST,
    PHASE_DIGEST,
    PHASE_FINISH,
    PHASE_DONE,
    PHASE_FAILED,
    PHASE_GROW
};

/* Whether the job goes on from a checkpoint, and whether the shards have loaded it. BACK: it is to
 * be loaded over what the shards have (back.h). Stored: add at the end. */
enum coord_from_state {
    FROM_NOTHING,
    FROM_TO_LOAD,
    FROM_LOADED,
    FROM_BACK,
    FROM_TO_START, /* only its tables: the job begins with them */
    FROM_STARTED,
    FROM_FLEET /* the tables that the servers hold: there is nothing to load */
};

/* The job's state as stored under "progress", one put for each change of phase. */
struct coord_progress {
    uint64_t number; /* of the job: the run drawn at submit */
    uint64_t run;    /* open now: another one after a restore */
    uint32_t phase, epoch;
    uint32_t misses, best; /* best: an evaluation's number (judge.h); 0: none yet */
    double best_value, lr_scale;
    uint64_t best_cut; /* of `kept`; 0: none */
    uint64_t map_epoch;
    uint32_t tables, workers_wanted;
    uint32_t restarts, worker_deaths; /* of shards, of workers, while the job ran */
    int32_t status;
    uint32_t cuts;
    struct coord_split split[3];
    uint64_t elapsed_ns, train_ns; /* before `started_ns`, and in PHASE_TRAIN */
    uint64_t train_rows;           /* rows of all epochs done */
    uint64_t staleness[COORD_HISTOGRAM];
    uint64_t keys_pulled_base, keys_pushed_base;
    uint64_t test_bad_lines;
    double kept_value;
    /* the best evaluation of those whose tables can be had again: `best`, unless that was before a
     * checkpoint; 0: none */
    uint32_t kept;
    uint32_t cut_of;     /* best_cut is of this one; 0: none */
    uint64_t counted_ns; /* training of the epoch at hand that a restart has added to elapsed_ns */
    /* enum coord_from_state; the phase in which the checkpoint was made */
    uint32_t from, from_phase;
    uint64_t from_rows, from_digest; /* of data.train there */
    char from_path[LIMIT_PATH];
    struct metric test[LIMIT_TASKS]; /* of each label; examples 0: not evaluated */
    char text[ERR_TEXT_MAX];
};

/* What is stored of an epoch under "epoch/N", once its training is over. */
struct coord_epoch {
    uint64_t number; /* of the job */
    uint64_t valid_bad_lines;
    double seconds;
    struct coord_losses train;
    struct metric unused[LIMIT_TASKS]; /* evaluations have records of their own (judge.h) */
};

/* What is told of the job while it runs (trace.h). */
struct coord_trace {
    struct coord_curve curve;
    struct coord_point recent; /* reports since the last scalars */
    uint64_t staleness[COORD_HISTOGRAM];
    uint64_t since_ns; /* when those were written */
    uint64_t before;   /* examples of the epochs that are over */
    bool failed;       /* the writer of scalars */
};

struct
    coord_asked { /* value of "asked": what a job was submitted with, also once it has gone back */
    uint64_t number;
    uint64_t start;
    char path[LIMIT_PATH];
};

/* What of at.elapsed_ns is no work of this job's last course; value of "passed" in the store. */
struct coord_passed {
    uint64_t number;    /* of the job */
    uint64_t before_ns; /* of the run that it goes on from */
    uint64_t vain_ns;   /* since checkpoints that it went back to, all together */
    uint64_t back_ns;   /* at.elapsed_ns when it last went back */
};

/* A slot and the job in it. The members before `at` stay when the next job takes the slot, for what
 * an operator asked for may outlive the job; coord_submit_close clears `at` and all behind it. */
struct coord_job {
    struct coord_fleet *fleet; /* borrowed */
    struct coord_store *store; /* borrowed: what is stored of this job */
    struct coord_cut cut;
    struct coord_output output;
    struct coord_newest *newest; /* checkpoint, which is read to go back to it; NULL: none is */
    struct coord_checkpoint checkpoint;
    struct coord_leases leases;
    struct coord_workers workers;
    struct coord_setup setup;
    struct coord_made made; /* the tables of the last job in this slot that the servers hold */
    uint64_t numbers; /* a bit for each number by which shards know a table of the slot; stored */
    struct {
        /* when the coordinator started; a worker was there; the log last said what is missing */
        uint64_t begun_ns, worker_ns, said_ns;
        uint64_t short_ns; /* the last tick, at which a server took no pushes for lack of disk */
        /* when a worker went that had not failed, and its name; or when this coordinator took over
         * a job, and no name; 0: neither happened */
        uint64_t left_ns;
        char left[LIMIT_NAME];
        /* the last worker that left because something failed there, and what; empty: none has since
         * a worker worked */
        char failed[ERR_TEXT_MAX];
        uint32_t failed_rounds; /* of workers that failed since then (work.c) */
    } watch;
    struct coord_progress at;
    struct coord_asked asked;
    struct job spec;
    bool parsed;
    char *yaml; /* owned */
    size_t yaml_bytes;
    peer_t submitter;
    char kernel[WIRE_KERNEL]; /* bsp: of the first worker; stored (work.c) */
    struct coord_roll roll;
    struct table_schema *table; /* (LIMIT_TABLES), owned */
    bool told;                  /* by a worker: yaml and spec have the names of all there is */
    char without[WIRE_WITHOUT]; /* of LOAD or ROWS_GO: rows that begin anew */
    char translated[WIRE_TRANSLATED]; /* what LOAD has made of rows of another schema; stored */
    bool declared[LIMIT_TABLES];
    uint32_t declared_total;
    uint32_t tablets;    /* of its tables: the map has these, and may have more; 0: not in it yet */
    uint64_t opened;     /* the run that all shards have opened; 0: none yet */
    uint64_t names_told; /* version of its names that all shards keep; 0: not yet */
    struct coord_epoch *epoch;      /* (coord_epochs_kept), owned; at coord_epoch_slot */
    struct coord_evaluations valid; /* of data.valid */
    struct coord_tasks tasks;
    struct coord_objects objects[JOB_SPLITS]; /* of a split of text only its `item` */
    struct coord_grow grow;
    struct coord_stop stop;
    struct coord_taken_list taken; /* until its tables are there: what they have learnt */
    struct coord_eval eval;
    uint64_t eval_number;
    char bad_where[COORD_BAD_TOLD][256]; /* of the bad lines heard of the first by file, in order */
    uint32_t bad_told;
    struct json *profile;       /* owned: of data.train, as a worker saw it; NULL: not told */
    char warning[ERR_TEXT_MAX]; /* of the training input's labels, as a worker saw them; or empty */
    uint64_t started_ns, phase_ns, epoch_ns;
    /* of the epoch at hand, by the coordinator that died in it: before epoch_ns */
    uint64_t epoch_spent_ns;
    enum coord_phase resume; /* after SETUP */
    uint64_t *digest;        /* (tablets), owned */
    uint64_t table_rows[LIMIT_TABLES];
    bool cut_over, cut_missed; /* PHASE_CUT: what there is to keep is kept; or not, for: */
    char cut_why[ERR_TEXT_MAX];
    uint32_t digested;
    char backend[32];
    uint32_t workers_most;
    struct coord_trace trace;
    struct coord_windows windows;
    struct coord_replay replay;
    struct coord_guard guard;
    struct coord_times times;
    /* by split, owned: curves and tables of `valid` and `test` (measure.h); NULL: none */
    struct json *details[3];
    char *report;       /* owned; once it has ended */
    uint32_t went_back; /* times (back.h) */
    struct coord_passed passed;
    uint64_t laned; /* the run whose lanes were all fenced: from then on their marks are known */
    char lost[ERR_TEXT_MAX]; /* what servers have lost of it (back.h); "": nothing */
    bool lost_rows;          /* that are needed, so it goes back over other jobs' tables, too */
    uint64_t short_ns;       /* so long a server took no pushes for lack of disk */
    struct { /* what the job asked for and did not get, the first of it; 0: nothing */
        int status;
        char text[ERR_TEXT_MAX];
    } missed;
    int from_hold; /* coord_from_loading: keeps the checkpoint's folder from being removed */
};

/* Jobs that can be at hand at once, one in each slot. */
#define COORD_SLOTS 2u

struct coord {
    struct coord_fleet fleet;
    struct coord_job slot[COORD_SLOTS]; /* (slots) */
    uint32_t slots;                     /* coord_options.jobs */
    struct env_timer timer;
    struct coord_look *look; /* at the folders of a job that is submitted; NULL: none */
    struct {        /* the last answer to STATUS, which goes over all tasks, lanes and members */
        char *text; /* owned; NULL: none yet */
        uint64_t made_ns;
        uint64_t run; /* of when, as is the phase */
        uint32_t phase;
        uint32_t made; /* how many were */
    } told;
    struct { /* the last STOP: its id, and what was answered */
        uint64_t id;
        bool ends;
    } stopped;
    struct allow_recent ordered;
    uint64_t ticked_ns; /* when the last tick was */
};

/* A request of a peer. The handler of its type (coord.c) says 0 and fills in the reply, or refuses
 * it with a status and `e`. */
struct coord_ask {
    peer_t from;
    struct env_who who;
    const struct wire *request;
    const struct msg *m;
    struct coord_worker *worker; /* whose pass it shows; NULL where none is asked for */
    struct wire reply;           /* begun: a good one that says no more */
    const void *frame;           /* of the reply; NULL: it has none */
    size_t frame_bytes;
    bool silent; /* answered already, or later, or when it is asked again */
    bool later;  /* it comes here once more, by itself */
    struct err e;
};

/* coord_put and its like, into what is stored of the job. */
bool coord_job_put(struct coord_job *j, const char *key, const void *value, size_t bytes);
bool coord_job_note(struct coord_job *j, const char *key, const void *value, size_t bytes);
/* Puts a value that is the job's number and these parts. NOMEM, IO. */
struct coord_part {
    const void *data;
    size_t bytes;
};
int coord_job_put_parts(struct coord_job *j, const char *key, const struct coord_part *part,
                        uint32_t parts, struct err *e);
/* Gets it; *value is the caller's (free). NOT_FOUND: there is none, or it is of another job. */
int coord_job_get(struct coord_job *j, const char *key, char **value, size_t *bytes, struct err *e);
/* Whether the shards have still to load the checkpoint that the job goes on from, or begins
 * with. */
bool coord_from_loading(const struct coord_progress *at);
/* Whether it goes on from one at the very batch, loaded or not. */
bool coord_from_resumes(const struct coord_progress *at);
/* Whether it waits for its newest checkpoint to be read, to go back to it (back.h). What is done
 * meanwhile is in vain, so no lane is granted, no phase begins and no checkpoint is made. */
bool coord_goes_back(const struct coord_job *j);
uint64_t coord_now_ns(const struct coord_job *j);
/* The first server that is not set up, or has been silent for longer than its lease; NULL: all are
 * there. */
const struct coord_shard *coord_server_away(const struct coord_job *j);
/* The lease of the job's workers: what the job asks for, where that is less than the fleet's. */
uint64_t coord_lease_ns(const struct coord_job *j);
/* joined; while nobody has died at least as many as were asked for */
uint32_t coord_live_workers(const struct coord_job *j);
/* Whether its log is one that grows (grow.h). */
bool coord_grow_on(const struct coord_job *j);
/* Epochs that there can be; of how many, the newest, there are figures, from which on, and at which
 * place of those kept. */
uint32_t coord_epochs(const struct coord_job *j);
uint32_t coord_epochs_kept(const struct coord_job *j);
uint32_t coord_epoch_first(const struct coord_job *j);
uint32_t coord_epoch_slot(const struct coord_job *j, uint32_t epoch);
/* What there is to train in an epoch, and in all before the one at hand. */
struct coord_amount {
    uint64_t rows, batches, rows_before, batches_before;
};
struct coord_amount coord_epoch_amount(const struct coord_job *j);
/* Sums of all epochs that are over. */
struct coord_losses coord_epoch_losses(const struct coord_job *j);
/* Whether the training of the epoch at hand is not over: it is going on, or pauses. */
bool coord_epoch_open(const struct coord_job *j);
/* for WAIT: more with many workers, so that asking stays cheap */
uint32_t coord_retry_ms(const struct coord_job *j);
/* rows of all epochs so far, by finished tasks */
uint64_t coord_examples(const struct coord_job *j);
/* Something that the job asked for beside its tables was not done, for this reason: the job goes on
 * and is done, and ends with the status and the sentence. CANTCREATE and IO stay, all else is
 * IO. */
void coord_missed(struct coord_job *j, int status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
