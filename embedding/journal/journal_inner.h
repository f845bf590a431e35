/* journal_inner.h: the state of an open journal, for the files of this room.
 *
 *     segment.c        the folder's files: made, reused, retired
 *     journal_start.c  a start: what the folder has, where the records end, what is written again
 *     journal.c        a run: appending, trimming, the end
 *     journal_sync.c   syncs and spare segments, partly on other threads
 *
 * Thread: the shard's, except `failed`. */
#ifndef EMBEDDING_JOURNAL_JOURNAL_INNER_H
#define EMBEDDING_JOURNAL_JOURNAL_INNER_H

#include "embedding/journal/journal.h"
#include "embedding/journal/record.h"
#include "embedding/journal/segment.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#define JOURNAL_QUEUE 256u /* records in one write: four pieces each, IOV_MAX is 1024 */

struct journal {
    char *dir;          /* owned */
    atomic_bool failed; /* a sync has failed */
    uint32_t segment_bytes;
    bool copy;
    /* owned; by generation; the last one takes appends once `started` */
    struct segment *segment;
    uint32_t count, capacity;
    uint32_t *free_number; /* owned; files free-NUMBER, in the order in which they were freed */
    uint32_t free_count, free_capacity, next_free;
    /* files freed since the start, and those whose names are on disk */
    uint64_t freed, freed_synced;
    uint64_t stamped;        /* records up to this one were on disk at the start, or are since */
    bool making;             /* a spare segment is being made */
    uint64_t made;           /* number of files made */
    bool pinned;             /* blame reads segments: none is reused */
    struct archive *archive; /* borrowed; NULL: trimmed segments are reused */
    bool dir_dirty;
    uint64_t next_generation;
    bool started;
    uint64_t next, committed, synced, previous;
    uint64_t used, written, unsynced;
    struct record_header header[JOURNAL_QUEUE];
    struct iovec piece[JOURNAL_QUEUE * 4];
    uint32_t queued, pieces;
    uint64_t queued_bytes;
};

#endif
