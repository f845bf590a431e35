/* core.h: a job of the coordinator, and functions that its files share; fleet.h has the fleet. */
#ifndef SERVER_COORD_CORE_CORE_H
#define SERVER_COORD_CORE_CORE_H

#include "proto/base/json.h"
#include "proto/job/job.h"
#include "proto/metric/metric.h"
#include "proto/wire/allow.h"
#include "proto/wire/wire.h"
#include "server/coord/core/losses.h"
#include "server/coord/core/made.h"
#include "server/coord/core/worker.h"
#include "server/coord/fleet/fleet.h"

#include <stdbool.h>
#include <stdint.h>

struct coord_job;

#define COORD_EPOCHS_MAX 100000u
#define COORD_ROUNDS_MAX (1u << 30) /* epochs of a growing log: practically unlimited */
/* epochs of a growing log, and their evaluations, whose figures are kept */
#define COORD_ROUNDS_KEPT 500u
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

/* Tells if the job resumes from a checkpoint or begins with one, and if the shards have loaded it.
 * FROM_BACK: the load replaces the rows that the shards have (back.h). Stored: add at the end. */
enum coord_from_state {
    FROM_NOTHING,
    FROM_TO_LOAD,
    FROM_LOADED,
    FROM_BACK,
    FROM_TO_START, /* only its tables: the job begins with them */
    FROM_STARTED,
    FROM_FLEET /* the tables that the servers hold: nothing to load */
};

/* A split of the input, as far as it is indexed. */
struct coord_split {
    uint64_t rows, digest;
    uint32_t used, known; /* 1: the job has the split; 1: its index is reported */
};
extern const char *const coord_split_name[JOB_SPLITS];

/* The job's state as stored under "progress", one put for each change of phase. */
struct coord_progress {
    uint64_t number; /* the job's number: the run drawn at submit */
    uint64_t run;    /* the open run: another one after a restore */
    uint32_t phase, epoch;
    uint32_t misses, best; /* best: an evaluation's number (judge.h); 0: none yet */
    double best_value, lr_scale;
    uint64_t best_cut; /* the cut of `kept`; 0: none */
    uint64_t map_epoch;
    uint32_t tables, workers_wanted;
    uint32_t restarts, worker_deaths; /* restarts: of shards; both while the job ran */
    int32_t status;
    uint32_t cuts;
    struct coord_split split[3];
    uint64_t elapsed_ns, train_ns; /* time before `started_ns`; time in PHASE_TRAIN */
    uint64_t train_rows;           /* rows of all epochs done */
    uint64_t staleness[COORD_HISTOGRAM];
    uint64_t keys_pulled_base, keys_pushed_base;
    uint64_t test_bad_lines;
    double kept_value;
    /* the best evaluation whose tables can still be restored: `best`, unless that came before a
     * checkpoint; 0: none */
    uint32_t kept;
    uint32_t cut_of; /* the evaluation that best_cut belongs to; 0: none */
    /* training time of the current epoch that a restart has added to elapsed_ns */
    uint64_t counted_ns;
    /* enum coord_from_state; the phase in which the checkpoint was made */
    uint32_t from, from_phase;
    uint64_t from_rows, from_digest; /* rows and digest of data.train in the checkpoint */
    char from_path[LIMIT_PATH];
    struct metric test[LIMIT_TASKS]; /* for each label; examples 0: not evaluated */
    char text[ERR_TEXT_MAX];
};

/* The value of "epoch/N" in the store, put once the epoch's training is over. */
struct coord_epoch {
    uint64_t number; /* the job's number */
    uint64_t valid_bad_lines;
    double seconds;
    struct coord_losses train;
    struct metric unused[LIMIT_TASKS]; /* evaluations have records of their own (judge.h) */
};

/* Value of "asked": the arguments of the submit. They stay when the job has gone back. */
struct coord_asked {
    uint64_t number;
    uint64_t start;
    char path[LIMIT_PATH];
};

/* The parts of at.elapsed_ns that are not work of this job's last course; value of "passed" in the
 * store. */
struct coord_passed {
    uint64_t number;    /* the job's number */
    uint64_t before_ns; /* time of the run that this job resumed */
    /* time since the checkpoints that it went back to: the sum of all returns */
    uint64_t vain_ns;
    uint64_t back_ns; /* at.elapsed_ns when it last went back */
};

/* Counts of the report that no other value tells; "tally" in the store. */
struct coord_tally {
    uint64_t number;                    /* the job's number */
    uint32_t workers_most, lanes_moved; /* the most workers at once; work/pace.h */
};

struct coord_stop {
    bool asked;        /* the job is ordered to end; stored */
    uint64_t id;       /* id of the request; stored */
    uint64_t since_ns; /* when this coordinator learnt of it */
};

/* Takes back, for a job that fails, all that other rooms began: before its phase says FAILED, which
 * is stored, and after. run: shards may know its run. */
struct coord_end {
    void (*before)(struct coord_job *j, const char *why);
    void (*after)(struct coord_job *j, bool run);
};

/* A slot and the job in it. The members before `at` stay when the next job takes the slot, because
 * an operator's request may outlive its job. coord_parts_close clears `at` and all members behind
 * it. */
struct coord_job {
    struct coord_fleet *fleet;   /* borrowed */
    uint32_t slot;               /* number of its slot */
    struct coord_store *store;   /* borrowed: the stored values of this job */
    const struct coord_end *end; /* borrowed */
    /* The states of the other rooms, which alone know what is in them; they lie in the slot
     * (job/slot.h). Those of `run` are cleared with `at`. */
    struct coord_cut *cut;
    struct coord_output *output;
    struct coord_checkpoint *checkpoint;
    struct coord_leases *leases;
    struct coord_tasks *tasks;
    struct coord_objects *objects; /* (JOB_SPLITS); a split of text uses only `item` */
    struct coord_grow *grow;
    /* until the job's tables exist: the files and objects that they have learnt */
    struct coord_taken_list *taken;
    struct coord_eval *eval;
    struct coord_evaluations *valid; /* evaluations of data.valid */
    struct coord_trace *trace;
    struct coord_progressive *windows;
    struct coord_replay *replay;
    struct coord_guard *guard;
    struct coord_times *times;
    struct coord_ring_job *ring; /* work/ring_job.h */
    /* the errand that reads the checkpoint to go back to; NULL: none */
    struct coord_newest *newest;
    struct coord_workers workers;
    struct coord_setup setup;
    /* its tables on the servers; those of no space in a slot that never had a job. Borrowed */
    struct coord_space *space;
    struct {
        /* when the coordinator started; when a worker was last there; when the log last named the
         * missing processes; when problems were last looked for */
        uint64_t begun_ns, worker_ns, said_ns, looked_ns;
        /* the last tick if a server then took no pushes for lack of disk; else 0 */
        uint64_t short_ns;
        /* when a worker left that had not failed, and its name; or when this coordinator took over
         * a job, and no name; 0: neither happened */
        uint64_t left_ns;
        char left[LIMIT_NAME];
        /* the last worker that left because it failed, and its error; empty: none has since a
         * worker worked */
        char failed[ERR_TEXT_MAX];
        uint32_t failed_rounds; /* rounds of workers that failed since then (handle.c) */
    } watch;
    struct coord_progress at;
    struct coord_asked asked;
    struct job spec;
    bool parsed;
    const struct coord_source *source; /* static: where data.train comes from (work/source.h) */
    char *yaml;                        /* owned */
    size_t yaml_bytes;
    peer_t submitter;
    char kernel[WIRE_KERNEL]; /* bsp: the first worker's; stored (handle.c) */
    struct coord_roll roll;
    struct table_schema *table;       /* (LIMIT_TABLES), owned */
    bool told;                        /* a worker has reported: yaml and spec have all names */
    char without[WIRE_WITHOUT];       /* fields whose rows begin anew, for LOAD or ROWS_GO */
    char translated[WIRE_TRANSLATED]; /* how LOAD has converted rows of another schema; stored */
    bool declared[LIMIT_TABLES];
    uint32_t declared_total;
    /* the tablets of its tables; the map may have more; 0: not in the map yet */
    uint32_t tablets;
    uint64_t opened;           /* the run that all shards have opened; 0: none yet */
    uint64_t names_told;       /* the version of its names that all shards keep; 0: none yet */
    struct coord_epoch *epoch; /* (coord_epochs_kept), owned; at coord_epoch_slot */
    uint64_t eval_number;
    char bad_where[COORD_BAD_TOLD][256]; /* the first bad lines reported, by file, in order */
    uint32_t bad_told;
    struct json *profile; /* owned: a worker's profile of data.train; NULL: none yet */
    /* a worker's warning about the labels of the training input; or empty */
    char warning[ERR_TEXT_MAX];
    uint64_t started_ns, phase_ns, epoch_ns;
    /* time of the current epoch before epoch_ns, spent under a coordinator that died */
    uint64_t epoch_spent_ns;
    enum coord_phase resume; /* the phase after SETUP */
    struct coord_stop stop;
    uint64_t *digest; /* (tablets), owned */
    uint64_t table_rows[LIMIT_TABLES];
    bool cut_over, cut_missed; /* PHASE_CUT: the best tables are kept; or they could not be, for: */
    char cut_why[ERR_TEXT_MAX];
    uint32_t digested;
    char backend[32];
    struct coord_tally tally;
    uint64_t kept; /* its number when it has ended and is in the list of ended jobs (jobs.h) */
    /* by split, owned: curves and tables of `valid` and `test` (measure.h); NULL: none */
    struct json *details[3];
    char *report;       /* owned; set once the job has ended */
    uint32_t went_back; /* number of returns (back.h) */
    struct coord_passed passed;
    uint64_t
        enough_ns;  /* when the fleet last had all workers that it awaits (job/crew.h); 0: never */
    uint64_t laned; /* the run in which all lanes were fenced: from then on their marks are known */
    /* why the job goes back: what servers have lost of it (back.h); "": nothing */
    char lost[ERR_TEXT_MAX];
    bool lost_rows;    /* they were in the memory of a server that has started again */
    uint64_t short_ns; /* for how long a server took no pushes for lack of disk */
    struct {           /* the first thing that the job asked for and did not get; 0: none */
        int status;
        char text[ERR_TEXT_MAX];
    } missed;
    /* coord_from_loading: the hold that keeps the checkpoint's folder from being removed */
    int from_hold;
};

/* The key of row n of a series, "series/n". */
struct coord_row_key {
    char text[COORD_KEY_MAX];
};
struct coord_row_key coord_row_key(const char *series, uint32_t n);

/* As coord_put, but into the job's own store; coord_job_note does not sync. */
bool coord_job_put(struct coord_job *j, const char *key, const void *value, size_t bytes);
bool coord_job_note(struct coord_job *j, const char *key, const void *value, size_t bytes);
/* Puts a value that consists of the job's number and these parts. NOMEM, IO. */
struct coord_part {
    const void *data;
    size_t bytes;
};
int coord_job_put_parts(struct coord_job *j, const char *key, const struct coord_part *part,
                        uint32_t parts, struct err *e);
/* Gets it; the caller frees *value. NOT_FOUND: there is none, or it belongs to another job. */
int coord_job_get(struct coord_job *j, const char *key, char **value, size_t *bytes, struct err *e);
/* Stores the tally, without a sync; takes the stored one of this job, if there is one. */
bool coord_tally_note(struct coord_job *j);
int coord_tally_load(struct coord_job *j, struct err *e);
/* True while the shards have still to load the checkpoint that the job resumes from or begins
 * with. */
bool coord_from_loading(const struct coord_progress *at);
/* True when the job resumes from a checkpoint at exactly the next batch, loaded or not. */
bool coord_from_resumes(const struct coord_progress *at);
/* True while the job waits for its newest checkpoint to be read, to go back to it (back.h). Work
 * done meanwhile would be lost, so no lane is granted, no phase begins and no checkpoint is
 * made. */
bool coord_goes_back(const struct coord_job *j);
uint64_t coord_now_ns(const struct coord_job *j);
/* Returns the first server that is not set up, or has been silent for longer than its lease; NULL:
 * all are there. */
const struct coord_shard *coord_server_away(const struct coord_job *j);
/* Returns the lease of the job's workers: the job's own value if that is less than the fleet's. */
uint64_t coord_lease_ns(const struct coord_job *j);
/* Returns the workers that have joined; at least those asked for less those that died, and at least
 * 1. */
uint32_t coord_live_workers(const struct coord_job *j);
/* True when the job's log grows (grow.h). */
bool coord_grow_on(const struct coord_job *j);
/* The number of epochs that are possible; the number of newest epochs whose figures are kept; the
 * first of these; the place of an epoch among them. */
uint32_t coord_epochs(const struct coord_job *j);
uint32_t coord_epochs_kept(const struct coord_job *j);
uint32_t coord_epoch_first(const struct coord_job *j);
uint32_t coord_epoch_slot(const struct coord_job *j, uint32_t epoch);
/* True while the training of the current epoch is not over: it runs, or pauses. */
bool coord_epoch_open(const struct coord_job *j);
/* the delay of WAIT: longer with many workers, so that asking stays cheap */
uint32_t coord_retry_ms(const struct coord_job *j);
/* A request of the job beside its tables failed for this reason: the job goes on and is done, but
 * ends with the status and the sentence. CANTCREATE and IO stay; any other status becomes IO. */
void coord_missed(struct coord_job *j, int status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
