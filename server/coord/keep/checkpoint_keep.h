/* checkpoint_keep.h: functions that the files of checkpoint.h share: the beginning of a checkpoint
 * and its answer, the facts of a manifest, names, pruning and publishing; how report and status
 * describe checkpoints. */
#ifndef SERVER_COORD_KEEP_CHECKPOINT_KEEP_H
#define SERVER_COORD_KEEP_CHECKPOINT_KEEP_H

#include "server/coord/core/core.h"
#include "server/coord/fleet/errand.h"
#include "server/coord/keep/checkpoint.h"

struct coord_checkpoint_names {
    const char *want; /* the name that is looked for; found: it is there */
    bool found;
    /* (count), owned by the caller: the names that are numbers, unsorted; only with `collect` */
    uint64_t *number;
    size_t count, capacity;
    bool collect;
};

/* The job as the claim on its checkpoints names it: with its space, if that has another name. */
#define COORD_CHECKPOINT_OWNER (2 * LIMIT_NAME + 2)
void coord_checkpoint_owner(const char *job, const char *space, char out[COORD_CHECKPOINT_OWNER]);
/* Checks that a checkpoint can be made now. *tables: only one of the tables alone. BUSY: it can in
 * a moment; UNAVAILABLE, NOT_FOUND. */
int coord_checkpoint_ready(struct coord_job *j, bool *tables, struct err *e);
/* Returns the job whose tables the checkpoint in progress holds. */
const struct job *coord_checkpoint_spec(const struct coord_job *j);
/* The folder of the checkpoint in progress, until it has its final name. Two errands work on it:
 * one makes the folder, the other names it. */
struct coord_making {
    struct coord_errand errand;
    const struct coord_folder_ops *ops;
    const char *root;      /* checkpoint_root, borrowed; "": no limit */
    char dir[LIMIT_PATH];  /* as the job names it; made: absolute */
    char name[LIMIT_NAME]; /* "": the number above the highest that exists; made: that number */
    char path[LIMIT_PATH], tmp[LIMIT_PATH];
    /* the highest that the job has made; made: the checkpoint's own (manifest.h) */
    uint64_t number;
    uint32_t random;
    int hold;         /* lock of tmp */
    bool made, named; /* tmp exists; path exists */
    bool stays;       /* the coordinator has taken note of it: undo leaves it */
    /* owned; written before the folder gets its name */
    struct json *manifest;
    void *saved;
    char *yaml;
    size_t saved_bytes, yaml_bytes;
};

/* Begins a checkpoint. name "": it gets the next number. without: as CHECKPOINT has it. CONFIG; and
 * what coord_checkpoint_ready and coord_checkpoint_make return. */
int coord_checkpoint_begin(struct coord_job *j, const char *name, const char *without,
                           enum coord_checkpoint_reason reason, struct err *e);
/* The checkpoint failed before its folder was made: an automatic one is tried again. */
void coord_checkpoint_begin_failed(struct coord_job *j, int status, const char *why);
/* Begins the automatic checkpoint that is due, in a job that runs. */
void coord_checkpoint_automatic_step(struct coord_job *j);
/* Answers the operator of the checkpoint that has ended; does nothing where none has asked. The
 * next checkpoint may begin before the answer arrives. */
void coord_checkpoint_answer(struct coord_job *j, int status, const char *text,
                             struct wire_CHECKPOINT_reply reply);
/* Answers the operator of the checkpoint that was made. The answer waits until the servers have
 * dropped its cut: a peer that stops the servers as soon as it has the answer then leaves no files
 * of the cut. `now` ends the wait. */
void coord_checkpoint_answer_made(struct coord_job *j, bool now);
/* Returns the manifest without parts and files; its date comes from options.folder. */
struct json *coord_checkpoint_facts(struct coord_job *j);
/* Starts an errand that makes the checkpoint's folder in checkpoint.dir; `made` is called at its
 * end. name "": the next number. NOMEM, and what coord_errand_start returns. */
int coord_checkpoint_make(struct coord_job *j, const char *name, coord_errand_done made,
                          struct err *e);
/* All parts are there: starts an errand that writes the coordinator's files, the manifest last, and
 * then names the folder (invariant 1 of checkpoint.h); `named` is called at its end. Fills in
 * record. */
int coord_checkpoint_write(struct coord_job *j, struct coord_checkpoint_record *record,
                           coord_errand_done named, struct err *e);
/* On the errand's thread: makes dir where it is missing, and makes its path absolute. */
int coord_checkpoint_dir(const struct coord_folder_ops *ops, const char *root, char dir[LIMIT_PATH],
                         struct err *e);
/* On the errand's thread: lists the names in dir; returns a number one above the highest there, and
 * above *number. */
int coord_checkpoint_names(const struct coord_folder_ops *ops, const char *dir,
                           struct coord_checkpoint_names *out, struct err *e);
/* Writes the name of a checkpoint that has a number for its name. */
void coord_checkpoint_number_name(uint64_t number, char name[LIMIT_NAME]);
int coord_checkpoint_next_name(const struct coord_folder_ops *ops, const char *dir,
                               char name[LIMIT_NAME], uint64_t *number, struct err *e);
/* Returns the highest number that this job has made. The number of a removed checkpoint is not used
 * again. */
uint64_t coord_checkpoint_last(const struct coord_job *j);
/* Starts an errand. open: it opens the folder of a job that goes on, takes the claim, without which
 * no checkpoint is removed, and looks for the one that comes. Else it takes the claim if that is
 * missing, and removes the oldest checkpoints of this job, numbered beyond checkpoint.keep and
 * named beyond keep_named, except those that a reader has open. Named ones that lack rows of
 * servers that were away are counted apart. */
void coord_checkpoint_keeper(struct coord_job *j, bool open);
/* Removes the rest of large folders in small steps, so that other errands get their turn. */
void coord_checkpoint_sweep_step(struct coord_job *j);
/* Runs the publish command for list->record[record], or lets the checkpoint wait for the command
 * that runs. */
void coord_checkpoint_publish(struct coord_job *j, uint32_t record);
void coord_checkpoint_publish_step(struct coord_job *j);
/* After a restart: the result of a command that a former coordinator started is unknown, so it
 * counts as failed. */
void coord_checkpoint_publish_lost(struct coord_job *j);
/* Returns e.g. "done"; NULL: no command was run for it. */
const char *coord_checkpoint_published(const struct coord_checkpoint_record *r);
bool coord_checkpoint_list_note(struct coord_job *j);
/* Adds a checkpoint that was made to the job's list, and publishes it; k->path is its folder.
 * age_ns: the time since it was begun. */
void coord_checkpoint_made_note(struct coord_job *j, const struct coord_checkpoint_record *record,
                                enum coord_checkpoint_reason reason, uint64_t age_ns);
/* Stores that the checkpoint is to get its name; its state and its record are known. False: the
 * store failed. */
bool coord_checkpoint_coming_put(struct coord_job *j);
/* The checkpoint was given up. */
void coord_checkpoint_coming_forget(struct coord_job *j);
/* After a restart: reads which checkpoint may have got its name. */
int coord_checkpoint_coming_open(struct coord_job *j, struct err *e);
/* On the errand's thread: *there when the checkpoint has its name in dir. An error: it may have it,
 * and the folder is to be looked at again. */
int coord_checkpoint_coming_there(const struct coord_folder_ops *ops, const char *dir,
                                  const struct coord_checkpoint_coming *coming, bool *there,
                                  struct err *e);
/* Reads the stored facts about the newest checkpoint and the last failure; the newest one's age
 * continues from there. */
int coord_checkpoint_told_open(struct coord_job *j, struct err *e);
/* The newest checkpoint, already in the list, was begun so long ago: stores when. */
void coord_checkpoint_told_made(struct coord_job *j, uint64_t age_ns);
/* A checkpoint of the job could not be made: counts it, and keeps the reason for the status. */
void coord_checkpoint_failed(struct coord_job *j, const char *why);
/* The age of the newest checkpoint, since it was begun; false: there is none, or its age is
 * unknown. */
bool coord_checkpoint_age(const struct coord_job *j, uint64_t *ns);
/* Returns the batches done so far by all lanes, from tasks and beats. */
uint64_t coord_checkpoint_batches(const struct coord_job *j);

/* Reports the newest checkpoint's publish command if it failed or ran over its limit
 * (coord_missed). */
void coord_checkpoint_publish_missed(struct coord_job *j);

#endif
