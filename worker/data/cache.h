/* cache.h: the folder that keeps decoded text and indexes between runs.
 *
 * A kept file is named GROUP-IDENTITY.SUFFIX: group is a hash of the paths it was made from,
 * identity a hash of paths, sizes and times. So a changed input never finds the old file, and
 * keeping the new one removes the old ones of its group: the folder holds one generation of each
 * input. Files are written under a temporary name and renamed when whole; the writer holds a lock
 * on it, so a temporary of a dead writer is known by its free lock and removed by the next one.
 * Several processes may do all this at once. Any thread; blocks on disk. */
#ifndef WORKER_DATA_CACHE_H
#define WORKER_DATA_CACHE_H

#include "proto/base/err.h"
#include "proto/base/limits.h"

#include <stddef.h>
#include <stdint.h>

struct cache {
    char folder[LIMIT_PATH];
};

/* Only the name: `configured`, or, when that is empty, shoal-cache-UID in $TMPDIR or /tmp. CONFIG
 * when it is too long.
 */
int cache_init(struct cache *c, const char *configured, struct err *e);

struct cache_file {
    int fd; /* owned; write here, with cache_write */
    const struct cache *cache;
    uint64_t group;
    char temporary[LIMIT_PATH + 64];
    char name[64]; /* when kept */
};

/* Makes the folder (0700) if it is missing, and a temporary file in it. CANTCREATE, DENIED (it
 * is, or the link to it, someone else's, or anybody may write there). */
int cache_create(const struct cache *c, uint64_t group, uint64_t identity, const char *suffix,
                 struct cache_file *f, struct err *e);
/* Syncs and renames. On success and on failure f is done; *fd_out (may be NULL) is then open for
 * reading, owned by the caller. */
int cache_keep(struct cache_file *f, int *fd_out, struct err *e);
void cache_drop(struct cache_file *f);
/* A file that lies in the folder, whole and synced, is kept by such a name. */
int cache_place(const struct cache *c, uint64_t group, uint64_t identity, const char *suffix,
                const char *made, struct err *e);
/* A file without a name, gone when its descriptor is closed. */
int cache_spool(const struct cache *c, int *fd_out, struct err *e);
/* CANTCREATE when the disk is full, IO else. `name` is for the message. */
int cache_write(const struct cache *c, int fd, const void *data, size_t bytes, struct err *e);
/* Waits until nobody else has the lock of such a file, which who makes it holds, so that one
 * process of a machine does; closed, the descriptor gives it back. -1: there are no locks. */
int cache_lock(const struct cache *c, uint64_t group, uint64_t identity, const char *suffix);
/* Removes a kept file; who has it open keeps it. */
void cache_remove(const struct cache *c, uint64_t group, uint64_t identity, const char *suffix);
/* Of the kept files of a suffix the oldest go until all together have at most so many bytes; who
 * has one open keeps it. */
void cache_trim(const struct cache *c, const char *suffix, uint64_t most);
/* Bytes of the kept files of a suffix but those of the group. */
uint64_t cache_bytes(const struct cache *c, const char *suffix, uint64_t group);
/* Removes all files of a suffix; a process that has one open keeps it. */
void cache_clear(const struct cache *c, const char *suffix);
/* A kept file opened for reading, or -1. */
int cache_find(const struct cache *c, uint64_t group, uint64_t identity, const char *suffix);

#endif
