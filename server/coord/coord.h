/* coord.h: the coordinator's core: the members of the cluster, the next work, and what has been
 * promised. One job at a time in each slot; the next one may be submitted when it is over.
 *
 * The core reaches clocks, sockets, threads and files only through env and coord_store, so that the
 * simulator runs the very same code. Thread: one loop. Everything that it promises (numbers,
 * generations, appended tasks, phases) is in the store before it answers. A coordinator started on
 * the same store continues where the last one stopped, with fresh fences on every lane. */
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

/* A figure of a running job, e.g. "valid/auc". */
struct coord_scalar {
    char tag[LIMIT_NAME + 32];
    double value;
};

struct coord_options {
    uint32_t shards;     /* to wait for: the total over all servers */
    uint32_t lease_ms;   /* for shards, and for workers unless the job asks for less; 0: 10000 */
    uint32_t jobs;       /* at the same time, at most COORD_SLOTS; 0: 1 */
    uint32_t resend_ms;  /* delay before a request to a shard is sent again; 0: 500 */
    const char *version; /* borrowed; for the report; NULL: none */
    /* borrowed; for the report: "HOST:FOLDER", where it is written; NULL: none */
    const char *place;
    /* Writes the finished report, e.g. to a file; may be NULL. Called on another thread, one call
     * at a time (output.h). A failure is reported, and the job is still done. */
    int (*write_report)(void *context, const char *text, struct err *e);
    const char *report_path; /* the report's file, for messages; NULL: unknown. Borrowed */
    /* Takes the figures of the running job as they come (trace.h); may be NULL. run: "JOB-NUMBER";
     * step: examples trained. Called on another thread, one call at a time and in order, and by
     * coord_free (output.h). A failure is reported, and the job's later figures are not passed
     * on. */
    int (*write_scalars)(void *context, const char *run, uint64_t step,
                         const struct coord_scalar *scalar, uint32_t count, struct err *e);
    const char *scalars_path; /* their folder, for messages; NULL: unknown. Borrowed */
    /* Access to folders of checkpoints (coord_folder_disk); NULL: none are made or read. */
    const struct coord_folder_ops *folder;
    const char *checkpoint_root; /* all folders must lie below it; NULL or "": no limit. Borrowed */
    /* a file of keys; one of them must have signed each loaded checkpoint; NULL or "": not
     * required */
    const char *checkpoint_signers;
    /* Starts a command (words, then the folder), one at a time, and does not wait for it.
     * hook_poll: true when it has ended, with its exit status (128 + signal). NULL: jobs with
     * checkpoint.publish are refused. */
    int (*hook_start)(void *context, const struct string_list *words, const char *folder,
                      struct err *e);
    bool (*hook_poll)(void *context, int *exit_status);
    /* Asks the running command to end, or kills it (kill), with all processes that it has started;
     * hook_poll tells when it has ended. */
    void (*hook_stop)(void *context, bool kill);
    bool insecure; /* the daemon listens on tcp without keys: the status says so */
    /* Adds sentences about problems that the daemon sees: its allow-list, keys that it refuses; may
     * be NULL */
    void (*problems)(void *context, struct json *list);
    void *context;
};

/* env and store are borrowed. IO, CORRUPT: the store does not answer, or holds values unknown to
 * this version. */
int coord_new(const struct coord_options *options, struct env *env, struct coord_store *store,
              struct coord **out, struct err *e);
void coord_free(struct coord *c); /* its env has stopped, or is gone; NULL is fine */
/* Takes a new allow-list (keys.h): its text, which the daemon has read and already applies. NOMEM:
 * the shards keep the previous one. */
int coord_keys_set(struct coord *c, const char *text, size_t bytes, struct err *e);
/* to be used with the coordinator as `core` */
extern const struct env_handler coord_handler;
/* Writes the coordinator's current work, in one line for people (systemctl status). */
void coord_describe(struct coord *c, char *text, size_t bytes);
/* True when a folder of checkpoints does not answer, so that waiting for work begun there is
 * useless; `text` gets a sentence. */
bool coord_hangs(const struct coord *c, char *text, size_t bytes);
/* Returns 0, or why the core stopped its env: the store failed. */
int coord_fatal(const struct coord *c);

/* Returns the library that encodes the messages, e.g. "protobuf-c 1.4.1", and their version. */
const char *coord_library(unsigned *protocol);

#endif
