/* checkpoint.h: checkpoints of a job. A checkpoint is asked for (CHECKPOINT), or begins
 * automatically after a number of batches or minutes. Checkpoints are kept, pruned and published.
 *
 *   IDLE --begin--> MAKING --made: its folder is there--> CUTTING --cut_done--> EXPORTING
 *                     |                                      ^                     |
 *                     +--made--> OPENING --all are set up----+                     |
 *                                                                                  |
 *   IDLE <--named: it has its name-- NAMING <--finish: the last part is there------+
 *
 *   MAKING, OPENING, CUTTING, EXPORTING, NAMING --coord_checkpoint_give_up--> IDLE
 *
 * In CUTTING, while every shard holds, `held` saves the coordinator's state. MAKING and NAMING are
 * errands (errand.h): another thread touches the folder, which may hang. The checkpoint is given up
 * when a shard refuses or is away, when the folder does not answer, or when the job ends: "NAME is
 * given up: why; training goes on".
 *
 * OPENING: the job is done, and its run was dropped with all marks. A part belongs to a run, so the
 * shards are set up with a new run, whose marks are 0; it is dropped at the end of the checkpoint.
 * The saved state is that of DIGEST, as at a job's end: nothing is trained after it. For a growing
 * log it is that of GROW, with lanes that begin at batch 1, as the marks do (saved.h).
 *
 * A checkpoint of the tables alone (CHECKPOINT_OF_TABLES) is made while no job trains and the last
 * job did not reach its end (it failed or was stopped; with a growing log: it is done within a
 * round), or has not made its tables (it waits), or trains none. Its cut belongs to no run, so no
 * shard is set up for it. Its folder, text and schemas are those of the job that made the tables
 * (made.h). A job may begin with such a checkpoint, but cannot resume from it. A waiting job makes
 * its tables after the checkpoint.
 *
 * An order may leave out servers that are away (without). The checkpoint is of the tables alone
 * then, also while a job trains, and lacks the tablets of their shards: the manifest tells which
 * (manifest.h). Without `replicas` it is the only way to keep what the other servers hold when a
 * disk is lost.
 *
 * Invariants:
 *  1. checkpoint.dir/NAME is there only once all parts, the coordinator's state and the manifest
 *     are on disk. [test: checkpoint_that_a_shard_cannot_write_is_given_up]
 *     [assert: coord_checkpoint_write]
 *  2. The saved state of the coordinator is that of the instant at which every shard holds
 *     (cut.h, 3): a batch in a mark of a part belongs to a task of the state, and a task that is
 *     done there is in every mark. So a restored job goes on at exactly the next batch.
 *     [test: checkpoint_goes_on_at_the_very_batch] [assert: held]
 *  3. One checkpoint is made at a time. Cuts of best epochs wait for HOLD and GO of a checkpoint,
 *     and the other way round; export disturbs neither.
 *     [test: checkpoint_and_best_epochs_do_not_disturb_each_other]
 *     [assert: coord_checkpoint_begin, held]
 *  4. A failed checkpoint does not end the job: it is a warning, and the next one is tried.
 *     [test: checkpoint_that_a_shard_cannot_write_is_given_up]
 *  5. A checkpoint of a running job that has its name belongs to the job, even if the coordinator
 *     ended or died in NAMING: "checkpoint_coming" is in the store before the folder gets its name
 *     (checkpoint_coming.c). [test: checkpoint_that_has_its_name_belongs_to_the_job]
 *
 * Errands alone reach files, by options.folder (folder.h). options.hook_start and hook_poll run the
 * publish command. */
#ifndef SERVER_COORD_KEEP_CHECKPOINT_H
#define SERVER_COORD_KEEP_CHECKPOINT_H

#include "proto/base/env.h"
#include "proto/base/err.h"
#include "proto/base/json.h"
#include "proto/base/limits.h"
#include "proto/base/sm.h"
#include "proto/wire/wire.h"
#include "server/coord/fleet/folder.h"

#include <stdbool.h>
#include <stdint.h>

#define COORD_CHECKPOINTS_MAX 256u /* that the report lists; older ones are only counted */

struct coord_fleet;
struct coord_job;
struct coord_ask;
struct job;

enum coord_checkpoint_state {
    CHECKPOINT_IDLE,
    CHECKPOINT_MAKING,
    CHECKPOINT_OPENING,
    CHECKPOINT_CUTTING,
    CHECKPOINT_EXPORTING,
    CHECKPOINT_NAMING
};
extern const struct sm coord_checkpoint_moves;

enum coord_checkpoint_reason {
    CHECKPOINT_ANY,      /* asked for, or due by batches or minutes */
    CHECKPOINT_OF_DAY,   /* the end of a replay's day (replay.h) */
    CHECKPOINT_OF_END,   /* the job's end */
    CHECKPOINT_OF_DONE,  /* asked for after the job was done: a run was opened for it */
    CHECKPOINT_OF_TABLES /* asked for, of the tables alone */
};

/* A checkpoint that was made, as stored in "checkpoints". */
struct coord_checkpoint_record {
    char name[LIMIT_NAME];
    uint64_t rows, bytes;
    double seconds, held_seconds; /* from beginning to name; for how long pushes waited */
    /* 0: no command, 1: it runs, 2: it exited with 0, 3: it failed, 4: it was skipped, 5: it ran
     * over its limit */
    uint16_t published;
    uint16_t removed;       /* 1: by CHECKPOINT_REMOVE; 0.2.0 had 32 bits of `published` here */
    int32_t publish_status; /* exit status of the command */
};
_Static_assert(sizeof(struct coord_checkpoint_record) == 104, "coord_checkpoint_record is stored");

struct coord_checkpoint_list { /* stored whole */
    uint64_t number;           /* the job's number */
    uint32_t made, failed;
    /* the newest; made % COORD_CHECKPOINTS_MAX is next */
    struct coord_checkpoint_record record[COORD_CHECKPOINTS_MAX];
};

/* Value of "checkpoint_coming": the checkpoint that is to get its name. */
struct coord_checkpoint_coming {
    uint64_t number;  /* the job's number; 0: none is to come */
    uint64_t state;   /* hash of its MANIFEST_STATE_FILE: another one may take the name */
    uint64_t begun_s; /* seconds since 1970 when it was begun */
    uint32_t reason;  /* enum coord_checkpoint_reason */
    uint32_t zero;
    struct coord_checkpoint_record record;
};
_Static_assert(sizeof(struct coord_checkpoint_coming) == 136, "it is stored");

struct coord_checkpoint_told { /* stored whole */
    uint64_t number;           /* the job's number */
    uint64_t newest_s;         /* seconds since 1970 when the newest was begun; 0: unknown */
    uint32_t made;             /* as in the list: tells which one is the newest */
    uint32_t zero;
    char failure[ERR_TEXT_MAX]; /* why the newest failed one failed; empty: none has failed */
};
_Static_assert(sizeof(struct coord_checkpoint_told) == 24 + ERR_TEXT_MAX, "it is stored");

struct coord_checkpoint {
    enum coord_checkpoint_state state;
    char dir[LIMIT_PATH]; /* absolute; empty: not opened yet */
    bool sweep;           /* `swept` holds more to remove; swept_ns: when some was last removed */
    char swept[LIMIT_PATH];
    uint64_t swept_ns;
    struct coord_errand *sweeper; /* the errand that sweeps; NULL: none */
    bool prune;                   /* old ones are to be removed */
    /* the errand that opens `dir` or prunes, and has the claim; NULL: none */
    struct coord_errand *keeper;
    char name[LIMIT_NAME], path[LIMIT_PATH], tmp[LIMIT_PATH];
    uint64_t number; /* manifest.h */
    /* the folder of the checkpoint in progress (checkpoint_keep.h); or NULL */
    struct coord_making *making;
    struct coord_folder_claim claim; /* on the job's checkpoints in `dir`, while the job runs */
    uint64_t cut, begun_ns, held_for_ns;
    struct coord_checkpoint_record record; /* NAMING: of the checkpoint in progress */
    /* NAMING: the checkpoint in progress; after a restart: one that may have got its name before */
    struct coord_checkpoint_coming coming;
    uint64_t coming_ns;    /* when the folder could not be read for it; 0: never */
    struct json *manifest; /* owned; the facts known so far */
    void *saved;           /* owned; the coordinator's state */
    size_t saved_bytes;
    struct {
        uint64_t rows, bytes;
        uint32_t number; /* the number of its folder */
        bool asked;
    } * part; /* (LIMIT_SHARDS), by shard; owned */
    uint32_t parts, missing;
    /* a checkpoint of the tables that does without servers that are away (`lacks`): their names,
     * with commas, and their shards; no names: none is left out */
    char without[WIRE_LEFT_OUT];
    uint8_t left_out[LIMIT_SHARDS / 8];
    char lacks[WIRE_TOLD]; /* the clause of manifest_lacks; empty: it lacks nothing */
    peer_t asker;          /* the peer that waits for the answer, and its request; 0: none */
    uint64_t asker_id;
    struct wire_CHECKPOINT_reply made; /* its answer, which waits until the cut is dropped */
    uint64_t made_ns;                  /* when the checkpoint was made */
    struct {                           /* the last answer, sent again for a repeated request */
        peer_t peer;
        uint64_t id;
        int status;
        char text[ERR_TEXT_MAX];
        struct wire_CHECKPOINT_reply reply;
    } answered;
    /* the checkpoint that an operator removes (checkpoint_remove.h) */
    struct coord_removing *removing;
    /* the last answer to a removal, sent again for a repeated request */
    struct {
        peer_t peer;
        uint64_t id;
        int status;
        char text[ERR_TEXT_MAX], path[LIMIT_PATH];
    } removed;
    /* a removal that was BUSY and is already in the audit log, for the client repeats it */
    struct {
        peer_t peer;
        char name[LIMIT_NAME];
    } remove_waits;
    /* automatic checkpoints: when the last was made; the earliest time of a retry */
    uint64_t last_ns, last_batches, retry_ns;
    uint64_t begun_batches;
    enum coord_checkpoint_reason reason; /* the current checkpoint's, or the last one's */
    bool end_made;                       /* the job's end has its checkpoint; this is stored */
    /* number of failures at the job's end; end_why: the last one's reason */
    uint32_t end_failed;
    struct {
        int status;
        char text[ERR_TEXT_MAX];
    } end_why;
    struct { /* the publish command */
        /* foreign: no record tells its result, for its job is over or its record was used again */
        bool running, foreign;
        char path[LIMIT_PATH]; /* the folder that it works on */
        uint32_t record;
        uint64_t since_ns, limit_ns;
        /* the signal sent once it ran over its limit */
        enum { HOOK_FREE, HOOK_ASKED, HOOK_KILLED } stop;
        char next[LIMIT_PATH]; /* the newest finished checkpoint that waits; empty: none */
        uint32_t next_record;
    } hook;
    struct coord_checkpoint_list *list; /* owned */
    struct coord_checkpoint_told told;
    /* the newest one's age_ns at time aged_ns; setting the wall clock does not move it */
    uint64_t age_ns, aged_ns;
};

int coord_checkpoint_open(struct coord_job *j,
                          struct err *e);         /* NOMEM; reads the list of earlier checkpoints */
void coord_checkpoint_close(struct coord_job *j); /* removes an unfinished checkpoint */
/* A job is submitted: checks its checkpoint settings; look.h checks the folder. CONFIG, DENIED. */
int coord_checkpoint_check(const struct coord_fleet *f, const struct job *spec, struct err *e);
/* Releases the claim of a job that is over; false: an errand still has it. */
bool coord_checkpoint_disclaim(struct coord_job *j);
/* The job begins: resets the state of the last job. */
void coord_checkpoint_job(struct coord_job *j);
int coord_checkpoint_request(struct coord_job *j, struct coord_ask *a);
/* Called as time passes: begins automatic checkpoints, gives up where a shard is away, watches the
 * publish command. */
void coord_checkpoint_step(struct coord_job *j);
/* A shard has started again, or this coordinator sees it for the first time: its work for a
 * checkpoint is lost. */
void coord_checkpoint_shard_lost(struct coord_job *j, uint32_t shard);
/* Begins to remove the files of removed checkpoints in `dir`, a few at each step. Does nothing
 * while a sweep runs, as each checkpoint asks again. */
void coord_checkpoint_sweep(struct coord_job *j);
/* Gives up the checkpoint in progress. */
void coord_checkpoint_give_up(struct coord_job *j, int status, const char *why);
/* Returns the checkpoint that is `older` places before the newest, among those made in this job and
 * not removed by an operator; NULL: there is none. It may have been pruned. */
const struct coord_checkpoint_record *coord_checkpoint_record(const struct coord_job *j,
                                                              uint32_t older);
/* The folder of that checkpoint, by checkpoint.dir of the job as long as `dir` is not open; false:
 * there is none. */
bool coord_checkpoint_newest(const struct coord_job *j, uint32_t older, char path[LIMIT_PATH]);
/* True while a checkpoint of the running job is in NAMING, or may have got its name before this
 * coordinator started. A job that goes back waits until that is known. */
bool coord_checkpoint_comes(const struct coord_job *j);
/* Called as time passes: looks again for a name that could not be looked for. */
void coord_checkpoint_coming_step(struct coord_job *j);
/* True when the checkpoint in progress, or the last one, is of the tables alone. */
bool coord_checkpoint_of_tables(const struct coord_job *j);
/* True when the checkpoint in progress, or the last one, leaves the shard out. */
bool coord_checkpoint_leaves_out(const struct coord_job *j, uint32_t shard);
/* Returns the cut that is being exported; 0: none. */
uint64_t coord_checkpoint_cut(const struct coord_job *j);
/* True while the checkpoint of the job's end (checkpoint.at_end, or stop.h) is still to be made. */
bool coord_checkpoint_end_due(const struct coord_job *j);
/* The job is about to be done: reports the checkpoints that it asked for and did not get
 * (coord_missed). */
void coord_checkpoint_missed(struct coord_job *j);
/* True while the job is done and the shards are set up for a checkpoint of it. */
bool coord_checkpoint_opening(const struct coord_job *j);
/* True while the job's end waits: a checkpoint is being made, or the publish command runs (for a
 * minute at most). */
bool coord_checkpoint_busy(const struct coord_job *j);
/* for the report: a list, the newest last */
struct json *coord_checkpoint_json(const struct coord_job *j);
/* For the status: the number of checkpoints, the newest, and why the newest failed one failed. */
void coord_checkpoint_status(const struct coord_job *j, struct json *s);
/* True when a job with a schedule has made none for three of its intervals; `text` gets the
 * sentence. */
bool coord_checkpoint_late(const struct coord_job *j, char *text, size_t bytes);
/* For the status: the publish command that runs, else the last that ended; NULL: there was none.
 * The caller owns the result. */
struct json *coord_checkpoint_publish_json(const struct coord_job *j);

#endif
