/* disk.h: a disk that loses its power, and whose calls fail.
 *
 * A program that calls any of this has its own open, write, pwrite, pwritev, fsync, fdatasync,
 * ftruncate, truncate, fallocate, posix_fallocate, rename, link, unlink, mkdir and rmdir, for all
 * of it, librocksdb included (its C API takes no file system of one's own). What is read is the
 * page cache: the files as they lie there. Beside them is kept what the disk has of each folder
 * that is watched:
 *
 *   - of a file its pages as of its last sync, and its length;
 *   - of a folder its names as of its own last sync; syncing a file does not carry its name along;
 *   - pages that were written when a sync failed: clean in the page cache, never written by any
 *     later sync, until they are written again (as Linux does).
 *
 * When the power goes, of what is not synced each page is there, or not, or some of its sectors;
 * each length is the old, the new or one between; of each folder's changes of names the first so
 * many are there. A seed decides.
 *
 * One thread calls these; any thread makes the calls that they watch. */
#ifndef TESTS_LIB_DISK_H
#define TESTS_LIB_DISK_H

#include <stdbool.h>
#include <stdint.h>

struct disk;

/* Watches a folder (absolute, there) from now on: what it holds is on the disk. */
struct disk *disk_watch(const char *root);
/* No more: the files stay as they lie there. */
void disk_free(struct disk *d);

/* Calls since it was watched, or since disk_fail. */
uint64_t disk_calls(const struct disk *d);

enum disk_fault_kind {
    DISK_ERROR, /* fails with `why`; a write has written half before; a sync loses its pages */
    DISK_SHORT, /* a write writes half and says so; other calls are as ever */
    DISK_OFF    /* the power goes before it */
};
struct disk_fault {
    uint64_t at;   /* the call, from now; 0: none */
    uint32_t last; /* so many calls more go the same way (DISK_ERROR) */
    enum disk_fault_kind kind;
    int why;
    bool syncs; /* only syncs count */
    /* files with this in their path alone do; files with this do not; NULL: all do. Stay */
    const char *only, *but;
    uint64_t seed; /* of DISK_OFF */
};
void disk_fail(struct disk *d, const struct disk_fault *f);
/* Whether the fault has come. */
bool disk_failed(const struct disk *d);

/* The power goes: a seed decides what the disk has. Whoever has files open there does not notice
 * (so that RocksDB can be closed: it asserts that calls succeed), but what he does from here on is
 * in vain. */
void disk_off(struct disk *d, uint64_t seed);
bool disk_is_off(const struct disk *d);
/* It is back, and the folder is what the disk had. Nobody has a file of it open. */
void disk_on(struct disk *d);

#endif
