/* checkpoint_keep.h: around a checkpoint: what its manifest tells of the job, names, pruning,
 * the publish command, the report. */
#ifndef SERVER_COORD_CHECKPOINT_KEEP_H
#define SERVER_COORD_CHECKPOINT_KEEP_H

#include "server/coord/core.h"

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
int coord_checkpoint_ready(const struct coord *c, bool *tables, struct err *e);
/* The job whose tables the one at hand holds. */
const struct job *coord_checkpoint_spec(const struct coord *c);
/* The manifest but for parts and files; the date from options.folder. */
struct json *coord_checkpoint_facts(struct coord *c);
/* All parts are there: the coordinator's files, last the manifest, then the name (invariant 1 of
 * checkpoint.h). */
int coord_checkpoint_write(struct coord *c, struct coord_checkpoint_record *record, struct err *e);
int coord_checkpoint_names(struct coord *c, struct coord_checkpoint_names *out, struct err *e);
/* A number one above the highest that there is, or that this job has made. */
int coord_checkpoint_next_name(struct coord *c, char name[LIMIT_NAME], uint64_t *number,
                               struct err *e);
/* The job's checkpoints in that folder are this coordinator's, unless they are already: one that
 * keeps all shares them with others that do. CANTCREATE. */
int coord_checkpoint_claim(struct coord *c, const char *dir, const struct job *spec, struct err *e);
/* Removes the oldest numbered ones of that job beyond checkpoint.keep; those with a name of their
 * own stay, and those that somebody reads. */
void coord_checkpoint_prune(struct coord *c);
/* Runs the command for list->record[record]; or lets it wait for the one that runs. */
void coord_checkpoint_publish(struct coord *c, uint32_t record);
void coord_checkpoint_publish_step(struct coord *c);
/* After a restart: nobody knows how a command ended that a former coordinator had begun. */
void coord_checkpoint_publish_lost(struct coord *c);
bool coord_checkpoint_list_note(struct coord *c);
/* Batches done so far, of all lanes: as tasks and beats tell. */
uint64_t coord_checkpoint_batches(const struct coord *c);

/* What the newest checkpoint's command has come to, where that is no good end. */
void coord_checkpoint_publish_missed(struct coord *c);

#endif
