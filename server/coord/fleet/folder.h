/* folder.h: folders of checkpoints on disk, for the coordinator's core.
 *
 *   DIR/NAME/             a finished checkpoint: complete, synced, never changed again
 *   DIR/NAME.XXXXXX.tmp/  one that is being made; only its coordinator and servers use it
 *   DIR/ANY.gone.tmp/     one of either kind that is being removed
 *   DIR/.job-HASH.lock    held by the coordinator that trains the job of that name
 *
 * A folder is made under the second name and gets the first one by a rename; its removal begins
 * with another rename. So a folder NAME is whole at every moment, and a server that does not know
 * yet that a checkpoint was given up finds no folder to write into. A lock is held on the folder of
 * a checkpoint that is being made, and on the manifest of one that is being read
 * (proto/job/reading.h): remove and sweep leave folders that are held by this process or another.
 *
 * A folder of the second or third kind has a mark in it: a file with a fixed text. DIR may hold
 * anything: a folder with such a name and no mark belongs to others and stays, unless it is empty.
 * A crash may come just before the mark is written, or after it is removed, because the mark is the
 * last file to be removed.
 *
 * All functions block for as long as the file system takes, which may be minutes. They are called
 * on the thread of an errand (errand.h), one errand at a time. */
#ifndef SERVER_COORD_FLEET_FOLDER_H
#define SERVER_COORD_FLEET_FOLDER_H

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
    char path[LIMIT_PATH]; /* the locked file; empty: nothing is held */
    int fd;                /* -1: the file system has no locks */
};

struct coord_folder_ops {
    /* Checks that a path named by a peer lies below root ("": anywhere), with no link on the way.
     * USAGE, DENIED. */
    int (*below)(const char *root, const char *path, struct err *e);
    /* Makes dir where it is missing, returns its absolute path, and sweeps it once. CANTCREATE. */
    int (*open)(const char *dir, char absolute[LIMIT_PATH], struct err *e);
    /* Claims a job's checkpoints in dir. A job that removes old ones claims them alone; a job that
     * keeps all shares the claim with others that do. CANTCREATE: another coordinator has the
     * claim. */
    int (*claim)(const char *dir, const char *job, bool alone, struct coord_folder_claim *claim,
                 struct err *e);
    void (*disclaim)(struct coord_folder_claim *claim); /* a claim that holds nothing is fine */
    /* Makes a new folder and holds it: *hold. EXISTS, CANTCREATE, NO_SPACE. */
    int (*begin)(const char *path, int *hold, struct err *e);
    /* Writes a new file into it, synced. */
    int (*put)(const char *path, const char *file, const void *bytes, size_t count, struct err *e);
    /* Reads a file of it; the caller frees *bytes, which end with a NUL. NOINPUT, TOO_BIG, IO. */
    int (*get)(const char *path, const char *file, size_t most, void **bytes, size_t *count,
               struct err *e);
    /* Renames tmp to path, durably. EXISTS, IO. */
    int (*publish)(const char *tmp, const char *path, struct err *e);
    /* Protects a finished one from removal; NOINPUT: it is not there. */
    int (*hold)(const char *path, int *hold, struct err *e);
    void (*let_go)(int *hold); /* COORD_FOLDER_NONE is fine */
    /* Removes a finished or unfinished one. BUSY: it is held; DENIED: it has neither mark nor
     * manifest, so it is not ours; AGAIN: its name and some files are gone, and sweep removes the
     * rest. */
    int (*remove)(const char *path, struct err *e);
    /* Removes some files of half-made or half-removed checkpoints. Returns true when there are
     * more. */
    bool (*sweep)(const char *dir);
    /* Lists the names of the finished ones, unsorted. */
    int (*list)(const char *dir, coord_folder_visit visit, void *context, struct err *e);
    uint64_t (*wall_s)(void); /* seconds since 1970, for the date */
    /* Reads the signature of a finished one, made with a key in the file `signers`:
     * signature_open. */
    int (*signature)(const char *path, const char *signers, struct signature **out, struct err *e);
};

extern const struct coord_folder_ops coord_folder_disk;

/* The daemon's half of checkpoint.publish: runs a command as a separate process, without waiting
 * for it. The command gets the words of the job file, then the checkpoint's folder as its last
 * argument, and the coordinator's environment and log. A shell runs only if the words name one.
 * Thread: the coordinator's loop. */

struct coord_hook {
    struct process process;
};

/* Starts a command, one at a time. UNAVAILABLE: the program cannot be started. */
int coord_hook_start(struct coord_hook *h, const struct string_list *words, const char *folder,
                     struct err *e);
/* True when the command has ended; then *exit_status is set, to 128 + signal for a killed one. */
bool coord_hook_poll(struct coord_hook *h, int *exit_status);
/* Sends TERM to the command and all processes in its group; now: KILL. Once coord_hook_poll has
 * reported the end of a stopped command, its whole group is gone: remaining processes are killed
 * then. Without a running command nothing happens. */
void coord_hook_stop(struct coord_hook *h, bool now);

#endif
