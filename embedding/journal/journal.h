/* journal.h: the shard's journal: segment files that are written once, in order, and then reused.
 *
 * Files of the folder: seg-GENERATION (in use), free-NUMBER (reusable once its name is on disk),
 * new-NUMBER (being made). A record never spans segments. Records are queued, then written by one
 * gathered write. Syncing and making spare segments have three steps (begin and end on the shard's
 * thread, run on any thread), so that the shard never waits for the disk.
 *
 * Thread: the shard's, except the *_run functions. Errors have the file's name. After a failed
 * write or sync the journal must not be used any more, because a sync is never repeated. */
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

/* Lists the folder, which is made if missing. A cursor over all of it must follow (cursor.h), then
 * journal_take_end and journal_start. */
int journal_open(const char *dir, uint32_t segment_bytes, struct journal **out, struct err *e);
/* Opens the segments of a cut for a cursor; nothing in the folder changes. */
int journal_open_copy(const char *dir, struct journal **out, struct err *e);
void journal_close(struct journal *j);

struct journal_cursor;
/* Ends the journal where a cursor over all of it found its END; drops the bytes behind a torn
 * tail. */
void journal_take_end(struct journal *j, const struct journal_cursor *c);
/* The same for a cursor that ended at its `until`: all records behind it are given up, and gone
 * from the disk when this returns. IO, NO_SPACE. */
int journal_take_until(struct journal *j, const struct journal_cursor *c, struct err *e);
/* During a start, before the store writes durably what follows from the records that the cursor has
 * read: they are on disk when this returns, as after journal_start. IO, NO_SPACE, NOMEM. */
int journal_save_read(struct journal *j, const struct journal_cursor *c, struct err *e);
/* The next record gets sequence `next`. Called after journal_take_end and before the first append;
 * appends go to a new segment. On return all records are on disk: records that the last process may
 * have failed to sync are written again (journal_start.c, 1). */
int journal_start(struct journal *j, uint64_t next, struct err *e);

/* Most payload bytes of a record that fits a segment. */
size_t journal_payload_max(const struct journal *j);
/* Queues a record; sets sequence, segment and synced of *h and seals it. The caller keeps the
 * payload until the next journal_commit. May write queued records and begin a segment. */
int journal_append(struct journal *j, struct record_header *h, const struct record_payload *payload,
                   struct err *e);
/* Writes all queued records. */
int journal_commit(struct journal *j, struct err *e);
uint64_t journal_next(const struct journal *j);      /* sequence of the next record */
uint64_t journal_committed(const struct journal *j); /* highest written sequence */
/* highest sequence known to be on disk; only on_synced (fsync) tells that it moved */
uint64_t journal_synced(const struct journal *j);
uint64_t journal_unsynced_bytes(const struct journal *j);
uint64_t journal_bytes(const struct journal *j);   /* untrimmed records */
uint64_t journal_written(const struct journal *j); /* appended since start */
uint32_t journal_segment_count(const struct journal *j);
/* segment files made since start, with spares */
uint64_t journal_made(const struct journal *j);
bool journal_sealed_unsynced(const struct journal *j); /* a full segment awaits its sync */

/* Frees segments whose records are all at or below `sequence`; at most `keep` free files stay. */
void journal_trim(struct journal *j, uint64_t sequence, uint32_t keep);

/* Ends the current segment and begins a new one, so that all records up to now can be trimmed. */
int journal_roll(struct journal *j, struct err *e);
/* For a clean stop: all records are on disk elsewhere. The folder keeps only the head of one
 * segment, which has the next generation and sequence. Later appends find no blocks in place.
 * Blocks. */
int journal_shed(struct journal *j, struct err *e);
/* sequence of the oldest record, or of the next one */
uint64_t journal_first(const struct journal *j);
/* Deletes the free files, so that their old records cannot be found there. */
void journal_forget(struct journal *j);
/* While pinned, trimmed files are not reused (but archived or deleted), so that a reader with an
 * open file can go on. It does not delay trimming, and has one user at a time: blame. */
void journal_pin(struct journal *j, bool pinned);
/* Moves trimmed segments to the archive from now on (borrowed; NULL: no more). After
 * journal_start. */
struct archive;
void journal_archive(struct journal *j, struct archive *a);

#define JOURNAL_SYNC_MAX 64
struct journal_sync {
    atomic_bool *failed;      /* borrowed: the journal's */
    int fd[JOURNAL_SYNC_MAX]; /* owned; duplicates */
    uint32_t count;
    uint64_t sequence; /* the sequence that is on disk after run */
    uint64_t bytes;
    uint64_t freed; /* number of freed files whose names are on disk after run */
    int status;     /* 0 or SHOAL_E_IO; set by run */
};
/* Collects the segments that are committed and not synced. False: nothing to do. */
bool journal_sync_begin(struct journal *j, struct journal_sync *s);
/* Collects all segments, without moving `synced`, for a caller that must see the journal on disk
 * before its own write. May run beside another sync. When there are more files than can stay open,
 * the call syncs the oldest itself. */
void journal_sync_peek(struct journal *j, struct journal_sync *s);
void journal_sync_run(struct journal_sync *s);
int journal_sync_end(struct journal *j, struct journal_sync *s, struct err *e);

struct journal_spare {
    char made[LIMIT_PATH], name[LIMIT_PATH];
    uint32_t bytes;
    int status;
};
/* True when no segment is free. run writes a spare once from end to end, so that later writes find
 * its blocks in place. */
bool journal_spare_begin(struct journal *j, struct journal_spare *s);
void journal_spare_run(struct journal_spare *s);
void journal_spare_end(struct journal *j, struct journal_spare *s);

/* The current segments, for a cut. From now on they are never reused but deleted (their links
 * remain). */
struct journal_link {
    char path[LIMIT_PATH], name[32];
    uint64_t bytes; /* written so far; the cut ignores later bytes */
};
/* *out: the caller frees it */
int journal_link(struct journal *j, struct journal_link **out, size_t *count, struct err *e);

#endif
