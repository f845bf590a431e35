/* disk.h: simulates a disk that loses power, and whose calls fail.
 *
 * A program that calls a function of this file gets its own open, write, pwrite, pwritev, fsync,
 * fdatasync, ftruncate, truncate, fallocate, posix_fallocate, rename, link, unlink, mkdir and
 * rmdir, for all its code, librocksdb included (whose C API takes no own file system). Reads see
 * the page cache, which is the files on the real disk. Beside them disk.c keeps the state of the
 * simulated disk for each watched folder:
 *
 *  - for a file its pages as of its last sync, and its length;
 *  - for a folder its names as of its own last sync; a sync of a file does not include its name;
 *  - pages that were written when a sync failed: they are clean in the page cache, and no later
 *    sync writes them until they are written again (as in Linux).
 *
 * At a loss of power each unsynced page is on the disk, or not, or some of its sectors are; each
 * length is the old one, the new one or one between; of each folder's changes of names the first
 * few are on the disk. A seed decides.
 *
 * One thread calls these functions; any thread makes the calls that they watch. */
#ifndef TESTS_LIB_DISK_H
#define TESTS_LIB_DISK_H

#include <stdbool.h>
#include <stdint.h>

struct disk;

/* Watches a folder (an existing absolute path) from now on: its contents count as synced. */
struct disk *disk_watch(const char *root);
/* Ends the watching; the files stay as they are. */
void disk_free(struct disk *d);

/* Returns the calls since disk_watch or disk_fail. */
uint64_t disk_calls(const struct disk *d);

enum disk_fault_kind {
    DISK_ERROR, /* fails with `why`; a write has written half before; a sync loses its pages */
    DISK_SHORT, /* a write writes half and returns that; other calls succeed */
    DISK_OFF    /* power is lost before the call */
};
struct disk_fault {
    uint64_t at;   /* number of the call, counted from now; 0: none */
    uint32_t last; /* this many more calls fail in the same way (DISK_ERROR) */
    enum disk_fault_kind kind;
    int why;
    bool syncs; /* only syncs count */
    /* only files with this in their path count; files with this do not; NULL: all count.
     * Borrowed */
    const char *only, *but;
    uint64_t seed; /* for DISK_OFF */
};
void disk_fail(struct disk *d, const struct disk_fault *f);
/* True when the fault has happened. */
bool disk_failed(const struct disk *d);

/* Power is lost: a seed decides the disk's contents. Processes with open files do not notice it (so
 * that RocksDB, which asserts that calls succeed, can be closed), but their later calls have no
 * effect on the disk. */
void disk_off(struct disk *d, uint64_t seed);
bool disk_is_off(const struct disk *d);
/* Power is back, and the folder has the disk's contents. No file of it may be open. */
void disk_on(struct disk *d);

#endif
