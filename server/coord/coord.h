/* coord.h: the coordinator's core: who is there, what is to be done next, and what has been
 * promised. One job at a time; the next one may be submitted when it is over.
 *
 * Free of clocks, sockets, threads and files but through env and coord_store, so that the simulator
 * runs the very same code. Thread: one loop. Everything it promises (numbers, generations, appended
 * tasks, phases) is in the store before it is answered; a coordinator started on the same store
 * goes on where the last one stopped, with fresh fences on every lane. */
#ifndef SERVER_COORD_COORD_H
#define SERVER_COORD_COORD_H

#include "proto/base/env.h"
#include "proto/base/err.h"
#include "proto/base/json.h"
#include "proto/base/limits.h"
#include "proto/job/config.h"
#include "server/coord/folder.h"
#include "server/coord/store.h"

#include <stdbool.h>
#include <stdint.h>

struct coord;

/* A figure of a running job: "valid/auc". */
struct coord_scalar {
    char tag[LIMIT_NAME + 32];
    double value;
};

struct coord_options {
    uint32_t shards;   /* to wait for, in total over all servers */
    uint32_t lease_ms; /* of shards, and of workers where the job does not ask for less; 0: 10000 */
    uint32_t jobs;     /* at once, at most COORD_SLOTS; 0: 1 */
    uint32_t resend_ms;  /* requests to shards are sent again after this; 0: 500 */
    const char *version; /* borrowed; for the report; NULL: none */
    const char *place;   /* likewise: "HOST:FOLDER", where the report is written */
    /* Writes the finished report somewhere (a file); may be NULL. Called on another thread, one at
     * a time (output.h); a failure is told and the job still done. */
    int (*write_report)(void *context, const char *text, struct err *e);
    const char *report_path; /* its file, for people; NULL: not known. Borrowed */
    /* Takes figures of the running job as they come (trace.h); may be NULL. run:
     * "JOB-NUMBER"; step: examples trained. Called on another thread, one at a time and in order,
     * and by coord_free (output.h). A failure is told, and the job's others are not offered any
     * more. */
    int (*write_scalars)(void *context, const char *run, uint64_t step,
                         const struct coord_scalar *scalar, uint32_t count, struct err *e);
    const char *scalars_path; /* their folder, likewise */
    /* Folders of checkpoints (coord_folder_disk); NULL: none are made or read. */
    const struct coord_folder_ops *folder;
    const char *checkpoint_root; /* they lie below it; NULL or "": anywhere. Borrowed */
    /* a file of keys, one of which has signed what is loaded; NULL or "": not asked for */
    const char *checkpoint_signers;
    /* Starts a command (words, the folder behind them), one at a time, without waiting for it;
     * hook_poll: whether it has ended, and its exit status (128 + signal). NULL: jobs with
     * checkpoint.publish are refused. */
    int (*hook_start)(void *context, const struct string_list *words, const char *folder,
                      struct err *e);
    bool (*hook_poll)(void *context, int *exit_status);
    /* Asks the one that runs to end, or ends it (kill), with all that it has started; hook_poll
     * tells when it has. */
    void (*hook_stop)(void *context, bool kill);
    bool insecure; /* it listens on tcp without keys: told in its status */
    /* Adds sentences on what the daemon sees wrong: its allow-list, keys that it refuses; may be
     * NULL */
    void (*problems)(void *context, struct json *list);
    void *context;
};

/* env and store are borrowed. IO, CORRUPT when the store does not answer or holds what this version
 * does not know. */
int coord_new(const struct coord_options *options, struct env *env, struct coord_store *store,
              struct coord **out, struct err *e);
void coord_free(struct coord *c); /* its env runs no more, or is gone; NULL is fine */
/* Another allow-list (keys.h): its text, which the daemon has read and goes by already. NOMEM: the
 * shards keep the one before. */
int coord_keys_set(struct coord *c, const char *text, size_t bytes, struct err *e);
/* With the coordinator as `core`. */
extern const struct env_handler coord_handler;
/* What it is doing, in one line for people (systemctl status). */
void coord_describe(struct coord *c, char *text, size_t bytes);
/* Whether a folder of checkpoints does not answer, so that nobody should wait for what was begun
 * there; then a sentence. */
bool coord_hangs(const struct coord *c, char *text, size_t bytes);
/* 0, or why the core stopped its env: the store failed. */
int coord_fatal(const struct coord *c);

/* Of what the messages are made: "protobuf-c 1.4.1", and their version. */
const char *coord_library(unsigned *protocol);

#endif
