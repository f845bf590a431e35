/* checkpoint_keep.h: around a checkpoint: what its manifest tells of the job, names, pruning,
 * the publish command, the report. */
#ifndef SERVER_COORD_CHECKPOINT_KEEP_H
#define SERVER_COORD_CHECKPOINT_KEEP_H

#include "server/coord/core.h"
#include "server/coord/errand.h"

struct coord_checkpoint_names {
    const char *want; /* is it there? */
    bool found;
    /* (count), owned by the caller: names that are numbers, in no order; only with `collect` */
    uint64_t *number;
    size_t count, capacity;
    bool collect;
};

/* Whether one can be made now; *tables: of the tables alone. BUSY: in a moment; UNAVAILABLE,
 * NOT_FOUND. */
int coord_checkpoint_ready(const struct coord_job *j, bool *tables, struct err *e);
/* The job whose tables the one at hand holds. */
const struct job *coord_checkpoint_spec(const struct coord_job *j);
/* The folder of the one at hand, from its first name to its last: an errand that is started for
 * each of the two. */
struct coord_making {
    struct coord_errand errand;
    const struct coord_folder_ops *ops;
    const char *root;      /* checkpoint_root, borrowed; "": anywhere */
    char dir[LIMIT_PATH];  /* as the job has it; made: absolute */
    char name[LIMIT_NAME]; /* "": the number above the highest there is; made: that */
    char path[LIMIT_PATH], tmp[LIMIT_PATH];
    uint64_t number; /* the highest that the job has made; made: its own (manifest.h) */
    uint32_t random;
    int hold;         /* lock of tmp */
    bool made, named; /* tmp is there; path is */
    bool stays;       /* its owner has told of it */
    /* owned; what is written before it gets its name */
    struct json *manifest;
    void *saved;
    char *yaml;
    size_t saved_bytes, yaml_bytes;
};

/* The manifest but for parts and files; the date from options.folder. */
struct json *coord_checkpoint_facts(struct coord_job *j);
/* Its folder is made in checkpoint.dir; `made` is called when it is, or cannot be. name "": the
 * next number. What coord_errand_start says, NOMEM. */
int coord_checkpoint_make(struct coord_job *j, const char *name, coord_errand_done made,
                          struct err *e);
/* All parts are there: the coordinator's files, last the manifest, then the name (invariant 1 of
 * checkpoint.h); `named` is called then. Fills in record. */
int coord_checkpoint_write(struct coord_job *j, struct coord_checkpoint_record *record,
                           coord_errand_done named, struct err *e);
/* On the errand's thread: dir, made where it is missing, becomes an absolute path. */
int coord_checkpoint_dir(const struct coord_folder_ops *ops, const char *root, char dir[LIMIT_PATH],
                         struct err *e);
/* Likewise: names in dir; a number one above the highest that there is, and above *number. */
int coord_checkpoint_names(const struct coord_folder_ops *ops, const char *dir,
                           struct coord_checkpoint_names *out, struct err *e);
int coord_checkpoint_next_name(const struct coord_folder_ops *ops, const char *dir,
                               char name[LIMIT_NAME], uint64_t *number, struct err *e);
/* The highest that this job has made: a removed one's is not given again. */
uint64_t coord_checkpoint_last(const struct coord_job *j);
/* An errand: opens the folder of a job that goes on (open), and takes the claim, without which none
 * is removed; or takes that, where it is missing, and removes the oldest ones of this job, numbered
 * beyond checkpoint.keep and named beyond keep_named, but for those that somebody reads. */
void coord_checkpoint_keeper(struct coord_job *j, bool open);
/* What is left of large folders goes bit by bit, so that other errands have their turn. */
void coord_checkpoint_sweep_step(struct coord_job *j);
/* Runs the command for list->record[record]; or lets it wait for the one that runs. */
void coord_checkpoint_publish(struct coord_job *j, uint32_t record);
void coord_checkpoint_publish_step(struct coord_job *j);
/* After a restart: nobody knows how a command ended that a former coordinator had begun. */
void coord_checkpoint_publish_lost(struct coord_job *j);
/* "done"; NULL: no command was run for it. */
const char *coord_checkpoint_published(const struct coord_checkpoint_record *r);
bool coord_checkpoint_list_note(struct coord_job *j);
/* What is told of the newest and of the last failure, as stored; the newest one's age goes on from
 * there. */
int coord_checkpoint_told_open(struct coord_job *j, struct err *e);
/* The newest, which is in the list by now, has been made. */
void coord_checkpoint_told_made(struct coord_job *j);
/* One of the job could not be made: it is counted, and the status says why. */
void coord_checkpoint_failed(struct coord_job *j, const char *why);
/* Of the newest, since it was begun; false: there is none, or its age is not known. */
bool coord_checkpoint_age(const struct coord_job *j, uint64_t *ns);
/* Batches done so far, of all lanes: as tasks and beats tell. */
uint64_t coord_checkpoint_batches(const struct coord_job *j);

/* What the newest checkpoint's command has come to, where that is no good end. */
void coord_checkpoint_publish_missed(struct coord_job *j);

#endif
