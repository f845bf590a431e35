/* cache.h: the folder that keeps decoded text and indexes between runs.
 *
 * A kept file is named GROUP-IDENTITY.SUFFIX: group is a hash of the paths of its input, identity a
 * hash of their paths, sizes and times. A changed input therefore never finds the old file, and
 * keeping the new file removes the old ones of the group: the folder holds one generation of each
 * input.
 *
 * A file is written under a temporary name and renamed when it is whole. The writer holds a lock on
 * the temporary, so that the next writer recognizes a temporary of a dead process by its free lock
 * and removes it. Several processes may use the folder at once. Any thread; blocks on disk. */
#ifndef WORKER_DATA_CACHE_H
#define WORKER_DATA_CACHE_H

#include "proto/base/err.h"
#include "proto/base/limits.h"

#include <stddef.h>
#include <stdint.h>

struct cache {
    char folder[LIMIT_PATH];
};

/* Sets the folder's name only: `configured` or, when that is empty, shoal-cache-UID in $TMPDIR or
 * /tmp. CONFIG: the name is too long. */
int cache_init(struct cache *c, const char *configured, struct err *e);

struct cache_file {
    int fd; /* owned; cache_write writes here */
    const struct cache *cache;
    uint64_t group;
    char temporary[LIMIT_PATH + 64];
    char name[64]; /* its final name */
};

/* Makes the folder (0700) if it is missing, and a temporary file in it. CANTCREATE; DENIED: another
 * user owns the folder or the link to it, or any user may write there. */
int cache_create(const struct cache *c, uint64_t group, uint64_t identity, const char *suffix,
                 struct cache_file *f, struct err *e);
/* Syncs and renames the file. f is closed on success and on failure. *fd_out (may be NULL) is then
 * open for reading, and the caller owns it. */
int cache_keep(struct cache_file *f, int *fd_out, struct err *e);
void cache_drop(struct cache_file *f);
/* Keeps `made`, a whole and synced file of the folder, under the name of group, identity and
 * suffix. */
int cache_place(const struct cache *c, uint64_t group, uint64_t identity, const char *suffix,
                const char *made, struct err *e);
/* Makes a file without a name, which is gone when its descriptor is closed. */
int cache_spool(const struct cache *c, int *fd_out, struct err *e);
/* CANTCREATE when the disk is full, else IO. */
int cache_write(const struct cache *c, int fd, const void *data, size_t bytes, struct err *e);
/* Waits for the lock of such a name, which lets one process of a machine make the file. Closing the
 * descriptor releases the lock. -1: locks do not work here. */
int cache_lock(const struct cache *c, uint64_t group, uint64_t identity, const char *suffix);
/* Removes a kept file; a process that has it open keeps its contents. */
void cache_remove(const struct cache *c, uint64_t group, uint64_t identity, const char *suffix);
/* Removes the oldest kept files of a suffix until all together have at most `most` bytes. A process
 * that has one open keeps its contents. */
void cache_trim(const struct cache *c, const char *suffix, uint64_t most);
/* Bytes of the kept files of a suffix, without those of the group. */
uint64_t cache_bytes(const struct cache *c, const char *suffix, uint64_t group);
/* Removes all files of a suffix; a process that has one open keeps its contents. */
void cache_clear(const struct cache *c, const char *suffix);
/* Opens a kept file for reading; -1: there is none. */
int cache_find(const struct cache *c, uint64_t group, uint64_t identity, const char *suffix);

#endif
