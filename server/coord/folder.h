/* folder.h: folders of checkpoints on disk, as the coordinator's core sees them.
 *
 *   DIR/NAME/             a finished checkpoint: complete, synced, never changed again
 *   DIR/NAME.XXXXXX.tmp/  one that is being made; nobody else looks into it
 *   DIR/ANY.gone.tmp/     one of either kind that is being removed
 *   DIR/.job-HASH.lock    held by the coordinator that trains the job of that name
 *
 * A folder is made under its second name and gets its first one by one rename; by another one it
 * begins to go. So what has the name is whole, at every moment, and who has not heard that one is
 * given up finds nothing to write into. A lock is held on the folder of one that is being made, and
 * on the manifest of one that is being read (proto/job/reading.h): remove and sweep leave alone
 * what somebody holds, in this process or another.
 *
 * A folder of the last two kinds has a mark in it, a file whose text is ours. DIR may hold
 * anything: what has a name like these and no mark is somebody else's, and stays, unless it is
 * empty: a crash may come in the moment before the mark, or behind it, for when a folder goes, its
 * mark is the last file of it.
 *
 * All functions block for as long as the file system takes, which may be minutes: they are called
 * on the thread of an errand (errand.h), one errand at a time. */
#ifndef SERVER_COORD_FOLDER_H
#define SERVER_COORD_FOLDER_H

#include "proto/base/err.h"
#include "proto/base/limits.h"
#include "proto/base/process.h"
#include "proto/job/config.h"
#include "proto/job/signature.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define COORD_FOLDER_NONE (-1)
#define COORD_FOLDER_MARK ".shoal-checkpoint"

typedef void (*coord_folder_visit)(void *context, const char *name);

struct coord_folder_claim {
    char path[LIMIT_PATH]; /* of the file that is locked; empty: nothing is held */
    int fd;                /* -1: the file system has no locks */
};

struct coord_folder_ops {
    /* Whether a path that a peer has named lies below root ("": anywhere) without a link on the
     * way. USAGE, DENIED. */
    int (*below)(const char *root, const char *path, struct err *e);
    /* Makes dir where it is missing and tells its absolute path; sweeps it once. CANTCREATE. */
    int (*open)(const char *dir, char absolute[LIMIT_PATH], struct err *e);
    /* A job's checkpoints in dir, held: who removes old ones has them alone, who leaves them has
     * them beside others of that kind. CANTCREATE: another coordinator has them. */
    int (*claim)(const char *dir, const char *job, bool alone, struct coord_folder_claim *claim,
                 struct err *e);
    void (*disclaim)(struct coord_folder_claim *claim); /* one that holds nothing is fine */
    /* A new folder, held: *hold. EXISTS, CANTCREATE, NO_SPACE. */
    int (*begin)(const char *path, int *hold, struct err *e);
    /* A new file in it, synced. */
    int (*put)(const char *path, const char *file, const void *bytes, size_t count, struct err *e);
    /* A file of it; *bytes is the caller's (free), with a NUL behind it. NOINPUT, TOO_BIG, IO. */
    int (*get)(const char *path, const char *file, size_t most, void **bytes, size_t *count,
               struct err *e);
    /* tmp becomes path, durably. EXISTS, IO. */
    int (*publish)(const char *tmp, const char *path, struct err *e);
    /* Keeps others from removing a finished one; NOINPUT when it is not there. */
    int (*hold)(const char *path, int *hold, struct err *e);
    void (*let_go)(int *hold); /* COORD_FOLDER_NONE is fine */
    /* A finished one or an unfinished one. BUSY: somebody holds it; DENIED: it has neither mark nor
     * manifest, so it is not ours; AGAIN: its name has gone and some of its files, sweep takes the
     * rest. */
    int (*remove)(const char *path, struct err *e);
    /* Removes some files of what one of us left half made, or half removed. Whether there are more.
     */
    bool (*sweep)(const char *dir);
    /* Names of the finished ones, in no order. */
    int (*list)(const char *dir, coord_folder_visit visit, void *context, struct err *e);
    uint64_t (*wall_s)(void); /* seconds since 1970, for the date */
    /* A finished one's signature, by a key that the file `signers` lists: signature_open. */
    int (*signature)(const char *path, const char *signers, struct signature **out, struct err *e);
};

extern const struct coord_folder_ops coord_folder_disk;

/* The daemon's half of checkpoint.publish: a command as a process of its own, looked
 * after without waiting. It gets the words of the job file and the checkpoint's folder as its last
 * argument, the coordinator's environment and log; a shell runs only where the words say so.
 * Thread: the coordinator's loop. */

struct coord_hook {
    struct process process;
};

/* UNAVAILABLE: the program cannot be started. One at a time. */
int coord_hook_start(struct coord_hook *h, const struct string_list *words, const char *folder,
                     struct err *e);
/* Whether it has ended; then *exit_status, 128 + signal for a killed one. */
bool coord_hook_poll(struct coord_hook *h, int *exit_status);
/* TERM to it and all that it has started in its process group; now: KILL. Of one that has been
 * stopped nothing is left once coord_hook_poll has told its end: what it did not wait for is killed
 * then. None runs: nothing happens. */
void coord_hook_stop(struct coord_hook *h, bool now);

#endif
