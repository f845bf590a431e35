/* options.h: settings and callbacks that a daemon, or a test, gives the coordinator. */
#ifndef SERVER_COORD_FLEET_OPTIONS_H
#define SERVER_COORD_FLEET_OPTIONS_H

#include "proto/base/err.h"
#include "proto/base/json.h"
#include "proto/base/limits.h"
#include "proto/job/config.h"

#include <stdbool.h>
#include <stdint.h>

struct coord_folder_ops;

/* A figure of a running job, e.g. "valid/auc". */
struct coord_scalar {
    char tag[LIMIT_NAME + 32];
    double value;
};

#define COORD_JOBS 8u /* the most jobs at the same time */
/* Weights of spaces in the servers' memory (shares.h). */
struct coord_weight {
    char space[LIMIT_NAME];
    double weight; /* more than 0 */
};
struct coord_weights {
    struct coord_weight of[LIMIT_SPACES]; /* (count) */
    uint32_t count;
};

struct coord_options {
    const char *store;    /* where the store is, for messages; NULL: nowhere. Borrowed */
    uint32_t shards;      /* to wait for: the total over all servers */
    uint32_t lease_ms;    /* for shards, and for workers unless the job asks for less; 0: 10000 */
    uint32_t jobs;        /* at the same time, at most COORD_JOBS; 0: 1 */
    uint32_t replicas;    /* copies of each shard, the leader counted, at most LIMIT_COPIES; 0: 1 */
    uint32_t min_in_sync; /* pushes wait while fewer copies are in sync; 0: 1 */
    uint32_t shard_lease_ms;   /* a leader with followers must be answered within it; 0: 6000 */
    uint32_t replace_after_ms; /* a server that was silent for so long is replaced; 0: never */
    uint32_t resend_ms;        /* delay before a request to a shard is sent again; 0: 500 */
    const char *version;       /* borrowed; for the report; NULL: none */
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
    /* Starts a command (words, then the folder), one at a time for each slot of jobs (below
     * COORD_JOBS), and does not wait for it. hook_poll: true when it has ended, with its exit
     * status (128 + signal). NULL: jobs with checkpoint.publish are refused. */
    int (*hook_start)(void *context, uint32_t slot, const struct string_list *words,
                      const char *folder, struct err *e);
    bool (*hook_poll)(void *context, uint32_t slot, int *exit_status);
    /* Asks the running command to end, or kills it (kill), with all processes that it has started;
     * hook_poll tells when it has ended. */
    void (*hook_stop)(void *context, uint32_t slot, bool kill);
    struct coord_weights memory;
    bool insecure; /* the daemon listens on tcp without keys: the status says so */
    /* Adds sentences about problems that the daemon sees: its allow-list, keys that it refuses; may
     * be NULL */
    void (*problems)(void *context, struct json *list);
    void *context;
};

#endif
