/* segment.h: the files of a journal's folder, and the list of those with records.
 *
 *     segment_begin -> written to -> full -> segment_retire -> free, archived or deleted
 *           ^                                                   |
 *           +------- the folder was synced: reused -------------+
 *
 * Invariants:
 * 1. A segment's generation is never used twice: it is one above every generation found in the
 *    folder, free files included. [assert: segment_begin] [test: a_generation_is_never_used_twice]
 * 2. A linked segment's file is never written to by another generation.
 *    [test: a_linked_segment_is_never_written_again]
 * 3. A trimmed segment's file is reused only after the folder was synced: otherwise its old name
 *    might come back with new contents. [assert: segment_free_take]
 *    [test: a_trimmed_segment_is_used_again_once_its_name_is_on_disk]
 *
 * Thread: the shard's. */
#ifndef EMBEDDING_JOURNAL_SEGMENT_H
#define EMBEDDING_JOURNAL_SEGMENT_H

#include "proto/base/err.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

struct journal;

struct segment {
    uint64_t generation;
    uint64_t first, last; /* last == first - 1: no record */
    uint64_t bytes;       /* end of its last record */
    int fd;               /* -1: not open */
    bool linked;          /* a cut has a link to it: no other generation writes to it */
    bool dirty;           /* written to since the last sync began */
};

/* out: (LIMIT_PATH); the file's path while it is in use, and while it is free */
void segment_path(const struct journal *j, uint64_t generation, char *out);
void segment_free_path(const struct journal *j, uint32_t number, char *out);

/* Adds a file to the end of the list, without opening it. NULL: no memory. */
struct segment *segment_add(struct journal *j, uint64_t generation);
/* Makes a file of the next generation and writes its head; appends go there. bare: the file has no
 * blocks beyond its head. NO_SPACE, IO. */
int segment_begin(struct journal *j, bool bare, struct err *e);
/* Removes segment `index` from the list: its file becomes free, or is archived, or is deleted when
 * it is linked or `keep` files are free. */
void segment_retire(struct journal *j, uint32_t index, uint32_t keep);
/* True when a segment with records up to `sequence` awaits a sync. */
bool segment_dirty(const struct journal *j, uint64_t sequence);

/* Adds a free file. NOMEM. */
int segment_free_add(struct journal *j, uint32_t number);
/* Takes the last free file that may be reused (3). There must be one. Returns its number. */
uint32_t segment_free_take(struct journal *j);

/* Writes all pieces, which it changes, at `at`, in as many calls as the kernel needs. Returns 0 or
 * an errno. */
int segment_write(int fd, struct iovec *piece, uint32_t count, uint64_t at);
/* Returns the status of a write that failed with this errno: NO_SPACE or IO. */
int segment_error(int why);

#endif
