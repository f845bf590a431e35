/* checkpoint.h: checkpoints of a job: asked for (CHECKPOINT), or by themselves every so many
 * batches or minutes; kept, pruned and published.
 *
 *   IDLE --begin--> MAKING --made: its folder is there--> CUTTING --cut_done--> EXPORTING
 *                     |                                      ^                     |
 *                     +--made--> OPENING --all are set up----+                     |
 *                                                                                  |
 *   IDLE <--named: it has its name-- NAMING <--finish: the last part is there------+
 *
 *   MAKING, OPENING, CUTTING, EXPORTING, NAMING --coord_checkpoint_give_up--> IDLE
 *
 * In CUTTING, while every shard holds, it is noted what the coordinator knows (held). MAKING and
 * NAMING are errands (errand.h): the folder is touched on another thread, and may hang. It is given
 * up when a shard refused, or is away, or the folder does not answer, or the job ends: "NAME is
 * given up: why; training goes on".
 *
 * OPENING: the job is done, and its run was dropped with all marks. The shards are set up with a
 * new run, whose marks are 0, for a part is of a run; it is dropped at the end of the checkpoint.
 * The state that is saved is that of DIGEST, as of a job's end: nothing is trained after it; of a
 * log that grows it is GROW, with lanes that begin at batch 1, as the marks do (saved.h).
 *
 * Of the tables alone: where no job trains, and the last one did not come to its end (failed,
 * stopped; of a log that grows: done within a round), or has not made its tables (it waits), or
 * trains none. The cut is of no run, so nobody is set up for it; folder, text and schemas are those
 * of the job that made the tables (made.h). A job may begin with such a checkpoint; none can go on
 * with it. A job that waits makes its tables when it is there.
 *
 * Invariants:
 *  1. checkpoint.dir/NAME is there only once all parts, the coordinator's state and the manifest
 *     are on disk. [test: checkpoint_that_a_shard_cannot_write_is_given_up]
 *     [assert: coord_checkpoint_write]
 *  2. What the coordinator notes is of the instant at which every shard holds (cut.h, 3): a batch
 *     that is in a mark of a part belongs to a task that is in the state, and a task that is done
 *     there is in every mark. So a job that is restored goes on at the very batch. [test:
 *     checkpoint_goes_on_at_the_very_batch] [assert: held]
 *  3. One at a time. Cuts of best epochs wait for HOLD and GO of a checkpoint and the other way
 *     round; export disturbs neither. [test: checkpoint_and_best_epochs_do_not_disturb_each_other]
 *     [assert: begin, held]
 *  4. Nothing here ends a job: a checkpoint that fails is a warning, and the next one is tried.
 *     [test: checkpoint_that_a_shard_cannot_write_is_given_up]
 *
 * Files are reached by options.folder (folder.h) alone, in errands; the publish command by
 * options.hook_start and hook_poll. */
#ifndef SERVER_COORD_CHECKPOINT_H
#define SERVER_COORD_CHECKPOINT_H

#include "proto/base/env.h"
#include "proto/base/err.h"
#include "proto/base/json.h"
#include "proto/base/limits.h"
#include "proto/base/sm.h"
#include "proto/wire/wire.h"
#include "server/coord/folder.h"

#include <stdbool.h>
#include <stdint.h>

#define COORD_CHECKPOINTS_MAX 256u /* that the report tells of; the older ones are counted */

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
    CHECKPOINT_ANY,      /* it was asked for, or is due by batches or minutes */
    CHECKPOINT_OF_DAY,   /* the end of a replay's day (replay.h) */
    CHECKPOINT_OF_END,   /* the job's end */
    CHECKPOINT_OF_DONE,  /* asked for of a job that is done: a run was opened for it */
    CHECKPOINT_OF_TABLES /* asked for, of the tables alone */
};

/* One that was made, as stored in "checkpoints". */
struct coord_checkpoint_record {
    char name[LIMIT_NAME];
    uint64_t rows, bytes;
    double seconds, held_seconds; /* from beginning to name; for how long pushes waited */
    /* 0: no command, 1: it runs, 2: it ended well, 3: it failed, 4: passed over, 5: over its
     * limit */
    uint16_t published;
    uint16_t removed;       /* 1: by CHECKPOINT_REMOVE; 0.2.0 had 32 bits of `published` here */
    int32_t publish_status; /* exit status of the command */
};
_Static_assert(sizeof(struct coord_checkpoint_record) == 104, "coord_checkpoint_record is stored");

struct coord_checkpoint_list { /* stored whole */
    uint64_t number;           /* of the job */
    uint32_t made, failed;
    /* the newest; made % COORD_CHECKPOINTS_MAX is next */
    struct coord_checkpoint_record record[COORD_CHECKPOINTS_MAX];
};

struct coord_checkpoint_told { /* stored whole */
    uint64_t number;           /* of the job */
    uint64_t newest_s; /* seconds since 1970 when the newest was begun; 0: it is not known */
    uint32_t made;     /* as in the list: which is the newest */
    uint32_t zero;
    char failure[ERR_TEXT_MAX]; /* why the last that failed did; empty: none has */
};
_Static_assert(sizeof(struct coord_checkpoint_told) == 24 + ERR_TEXT_MAX, "it is stored");

struct coord_checkpoint {
    enum coord_checkpoint_state state;
    char dir[LIMIT_PATH]; /* absolute; empty: not opened yet */
    bool sweep;           /* there is more in `swept` to remove; when some was last */
    char swept[LIMIT_PATH];
    uint64_t swept_ns;
    struct coord_errand *sweeper; /* that is at it; NULL: none */
    bool prune;                   /* old ones are to be removed */
    struct coord_errand *keeper;  /* that opens `dir` or prunes, and has the claim; NULL: none */
    char name[LIMIT_NAME], path[LIMIT_PATH], tmp[LIMIT_PATH];
    uint64_t number;             /* manifest.h */
    struct coord_making *making; /* the folder of the one at hand (checkpoint_keep.h); or NULL */
    struct coord_folder_claim claim; /* of the job's checkpoints in `dir`, while it runs */
    uint64_t cut, begun_ns, held_for_ns;
    struct coord_checkpoint_record record; /* NAMING: of the one at hand */
    struct json *manifest;                 /* owned; what is known of it so far */
    void *saved;                           /* owned; the coordinator's state */
    size_t saved_bytes;
    struct {
        uint64_t rows, bytes;
    } * part; /* (shards), owned */
    uint32_t missing;
    peer_t asker; /* the peer that is answered, under which id; 0: there is none */
    uint64_t asker_id;
    struct wire_CHECKPOINT_reply made; /* its answer, while the cut of it is dropped; since when */
    uint64_t made_ns;
    struct { /* the last answer, for a request that comes again */
        peer_t peer;
        uint64_t id;
        int status;
        char text[ERR_TEXT_MAX];
        struct wire_CHECKPOINT_reply reply;
    } answered;
    struct coord_removing *removing; /* the one that an operator removes (checkpoint_remove.h) */
    struct {                         /* the last answer to that, for a request that comes again */
        peer_t peer;
        uint64_t id;
        int status;
        char text[ERR_TEXT_MAX], path[LIMIT_PATH];
    } removed;
    struct { /* an order that was BUSY, and is in the audit log: it is asked for again and again */
        peer_t peer;
        char name[LIMIT_NAME];
    } remove_waits;
    /* of the automatic ones: the last that was made; not before this */
    uint64_t last_ns, last_batches, retry_ns;
    uint64_t begun_batches;
    enum coord_checkpoint_reason reason; /* of the one at hand, or of the last one */
    bool end_made;                       /* that of the job's end is there, which is stored */
    uint32_t end_failed;                 /* so often it was not, the last time for: */
    struct {
        int status;
        char text[ERR_TEXT_MAX];
    } end_why;
    struct { /* the publish command */
        /* foreign: it is told of nowhere, for its job is over or its record was used again */
        bool running, foreign;
        char path[LIMIT_PATH]; /* of the folder that it works on */
        uint32_t record;
        uint64_t since_ns, limit_ns;
        enum { HOOK_FREE, HOOK_ASKED, HOOK_KILLED } stop; /* what was done to it, over its limit */
        char next[LIMIT_PATH]; /* the newest finished one that waits; empty: none */
        uint32_t next_record;
    } hook;
    struct coord_checkpoint_list *list; /* owned */
    struct coord_checkpoint_told told;
    uint64_t age_ns, aged_ns; /* the newest was so old then; no clock that is set moves it */
};

int coord_checkpoint_open(struct coord_job *j,
                          struct err *e);         /* NOMEM; reads what was made so far */
void coord_checkpoint_close(struct coord_job *j); /* removes an unfinished one */
/* A job is submitted: whether what it says of checkpoints can be; of their folder: look.h. CONFIG,
 * DENIED. */
int coord_checkpoint_check(const struct coord_fleet *f, const struct job *spec, struct err *e);
/* Lets go of the claim of a job that is over; false: an errand has it still. */
bool coord_checkpoint_disclaim(struct coord_job *j);
/* It begins; nothing was made of it yet. */
void coord_checkpoint_job(struct coord_job *j);
int coord_checkpoint_request(struct coord_job *j, struct coord_ask *a);
/* Time passes: begins the automatic ones, gives up where a shard is away, looks after the
 * command. */
void coord_checkpoint_step(struct coord_job *j);
/* A shard has started again (or this coordinator sees it first): what it was doing for a checkpoint
 * is lost. */
void coord_checkpoint_shard_lost(struct coord_job *j, uint32_t shard);
/* What is left of removed ones in `dir` goes bit by bit from now on; once it is through with what
 * it sweeps already. */
void coord_checkpoint_sweep(struct coord_job *j);
/* The one at hand is not wanted any more. */
void coord_checkpoint_give_up(struct coord_job *j, int status, const char *why);
/* The newest that was made in this job and not removed by an operator, or so many before it; NULL:
 * there is none. It may have been pruned. */
const struct coord_checkpoint_record *coord_checkpoint_record(const struct coord_job *j,
                                                              uint32_t older);
/* Its folder, as the job names it where the folder of all is not open yet; false: there is none. */
bool coord_checkpoint_newest(const struct coord_job *j, uint32_t older, char path[LIMIT_PATH]);
/* True: the one at hand, or the last one, is of the tables alone. */
bool coord_checkpoint_of_tables(const struct coord_job *j);
/* The cut that is being exported; 0: none. */
uint64_t coord_checkpoint_cut(const struct coord_job *j);
/* Whether that of the job's end (checkpoint.at_end, or stop.h) is still to be made. */
bool coord_checkpoint_end_due(const struct coord_job *j);
/* The job is about to be done: says what it asked for and did not get (coord_missed). */
void coord_checkpoint_missed(struct coord_job *j);
/* Whether the job is done and the shards are set up for a checkpoint of it. */
bool coord_checkpoint_opening(const struct coord_job *j);
/* Whether the job's end waits for it: one is being made, or the command runs (for a minute at
 * most). */
bool coord_checkpoint_busy(const struct coord_job *j);
/* for the report: a list, the newest last */
struct json *coord_checkpoint_json(const struct coord_job *j);
/* For the status: how many, the newest, why the last that failed did. */
void coord_checkpoint_status(const struct coord_job *j, struct json *s);
/* Whether a job with a schedule has made none for three of its intervals; in a sentence. */
bool coord_checkpoint_late(const struct coord_job *j, char *text, size_t bytes);
/* For the status: the publish command that runs, else the last that ended; NULL: there was none.
 * Owned by the caller. */
struct json *coord_checkpoint_publish_json(const struct coord_job *j);

#endif
