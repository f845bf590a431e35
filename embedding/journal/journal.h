/* journal.h: the shard's journal: segment files that are written once, in order, and used again.
 *
 * Files of the folder: seg-GENERATION (in use), free-NUMBER (to be used again, once its name is on
 * disk), new-NUMBER (being made). A record never spans segments. Records are queued, then written
 * by one gathered write; syncing and making spare segments is cut in three (begin and end on the
 * shard's thread, run on any thread), so that the shard never waits for the disk.
 *
 * Thread: the shard's, but for the *_run functions. Errors carry the file's name; after a failed
 * write or sync the journal is not to be used again (no sync is ever repeated). */
#ifndef EMBEDDING_JOURNAL_JOURNAL_H
#define EMBEDDING_JOURNAL_JOURNAL_H

#include "embedding/journal/record.h"
#include "proto/base/err.h"
#include "proto/base/limits.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct journal;

#define JOURNAL_SEGMENT_MIN 65536u

/* Lists the folder (created when missing). A cursor over all of it comes next (cursor.h), then
 * journal_take_end and journal_start. */
int journal_open(const char *dir, uint32_t segment_bytes, struct journal **out, struct err *e);
/* The segments of a cut, for a cursor only: nothing in the folder is changed. */
int journal_open_copy(const char *dir, struct journal **out, struct err *e);
void journal_close(struct journal *j);

struct journal_cursor;
/* A cursor over all of the journal has come to its END: the records end there. What lies behind a
 * torn tail is given up. */
void journal_take_end(struct journal *j, const struct journal_cursor *c);
/* The next record will have sequence `next`. After journal_take_end, before the first append;
 * appends go to a segment of their own. What is there is on disk when it returns: what the last
 * process may have failed to sync is written again (journal.c, 6). */
int journal_start(struct journal *j, uint64_t next, struct err *e);

/* Payload bytes of the longest record that fits a segment. */
size_t journal_payload_max(const struct journal *j);
/* Queues a record; sets sequence, segment and synced of *h and seals it. The payload stays the
 * caller's until the next journal_commit. May write out what is queued and begin a segment. */
int journal_append(struct journal *j, struct record_header *h, const struct record_payload *payload,
                   struct err *e);
/* Writes all queued records. */
int journal_commit(struct journal *j, struct err *e);
uint64_t journal_next(const struct journal *j);      /* sequence of the next record */
uint64_t journal_committed(const struct journal *j); /* highest written one */
uint64_t journal_synced(const struct journal *j);    /* highest one known to be on disk; only
                                                      on_synced (fsync) tells that it moved */
uint64_t journal_unsynced_bytes(const struct journal *j);
uint64_t journal_bytes(const struct journal *j);   /* used by records that are not trimmed */
uint64_t journal_written(const struct journal *j); /* appended since start */
uint32_t journal_segment_count(const struct journal *j);
/* segment files that were made since start, spares too */
uint64_t journal_made(const struct journal *j);
bool journal_sealed_unsynced(const struct journal *j); /* a full segment awaits its sync */

/* Segments whose records are all at or below `sequence` are free again; at most `keep` free files
 * stay. */
void journal_trim(struct journal *j, uint64_t sequence, uint32_t keep);

/* Ends the segment that takes appends and begins a new one: then all records up to now can be
 * trimmed. */
int journal_roll(struct journal *j, struct err *e);
/* What is in the journal is on disk elsewhere, all of it: the folder keeps the head of one segment,
 * which says the generation and the sequence that come next. For a clean stop: what is appended
 * afterwards finds no blocks in place. Blocks. */
int journal_shed(struct journal *j, struct err *e);
/* sequence of the oldest record that is kept, or of the next one */
uint64_t journal_first(const struct journal *j);
/* Deletes the free files: what stood in them is not to be found there any more. */
void journal_forget(struct journal *j);
/* While pinned, what is trimmed is not used again (but moved to the archive, or deleted), so that
 * who has a file open reads on. It does not hold back trimming, and has one holder at a time:
 * blame. */
void journal_pin(struct journal *j, bool pinned);
/* From now on trimmed segments move there (borrowed; NULL: no more). After journal_start. */
struct archive;
void journal_archive(struct journal *j, struct archive *a);

#define JOURNAL_SYNC_MAX 64
struct journal_sync {
    atomic_bool *failed;      /* borrowed: the journal's */
    int fd[JOURNAL_SYNC_MAX]; /* duplicates, owned */
    uint32_t count;
    uint64_t sequence; /* what is on disk when it has run */
    uint64_t bytes;
    uint64_t freed; /* so many names of free files will be on disk, too */
    int status;     /* 0 or SHOAL_E_IO, set by run */
};
/* Collects what has been committed and not synced. False: nothing to do. */
bool journal_sync_begin(struct journal *j, struct journal_sync *s);
/* The same without moving anything on, and of all there is: for one who must see the journal on
 * disk before what he writes himself. Beside a sync under way. Of more files than can be kept open
 * the oldest are synced in the call. */
void journal_sync_peek(struct journal *j, struct journal_sync *s);
void journal_sync_run(struct journal_sync *s);
int journal_sync_end(struct journal *j, struct journal_sync *s, struct err *e);

struct journal_spare {
    char made[LIMIT_PATH], name[LIMIT_PATH];
    uint32_t bytes;
    int status;
};
/* A spare segment is wanted when none is free; run writes it once from end to end, so that later
 * writes find its blocks in place. */
bool journal_spare_begin(struct journal *j, struct journal_spare *s);
void journal_spare_run(struct journal_spare *s);
void journal_spare_end(struct journal *j, struct journal_spare *s);

/* The segments as they stand, for a cut: from now on they are never used again but deleted (their
 * links live on). */
struct journal_link {
    char path[LIMIT_PATH], name[32];
    uint64_t bytes; /* written so far; what comes behind is of no concern to the cut */
};
/* *out: caller frees */
int journal_link(struct journal *j, struct journal_link **out, size_t *count, struct err *e);

#endif
