/* cursor.h: the one reader of records: segments in order, one record after another. Recovery, cuts,
 * checkpoints, blame and erasing all read through it.
 *
 *     cursor_gather (journal as it stands, archive) -> files -> cursor_open -> cursor_next .. END
 *
 * It reads a journal that takes appends too: files are what stood at the gathering, open by then,
 * so that appends and trims beside it do not matter (but files must not be used again meanwhile:
 * journal_pin). It ends where the journal stood at the gathering; to go on, gather again. That is
 * what is committed, some of it not synced: lost with power, its sequences go to other records.
 * Memory is a window of 1 MiB or the longest record; with CURSOR_HEADS one record.
 *
 * Invariants:
 *  1. Sequences of records that CURSOR_WHOLE returns have no gap within a segment, and across two
 *     only one that the later head's `previous` vouches for. [test: a_missing_segment_is_refused]
 *  2. What does not check ends the journal (END) if it may be a torn tail; it is damage (CORRUPT,
 *     with file and offset) when a record behind it says that it had been on disk (record.h, 3), or
 *     when it stands before where a running journal's records end.
 *     [test: damage_to_synced_records_is_refused]
 *     What is at or below `floor` is stored elsewhere: missing it is no damage, and where nothing
 *     else is missing it goes on.
 *     [test: a_gap_below_the_floor_is_no_damage, a_head_that_power_took_is_no_damage_at_the_floor]
 *  3. A segment of a version, or a record of a kind, that is not known here and checks, is an error
 *     that names it (VERSION), never the end. [test: test_cursor]
 *
 * Thread: any, one at a time; cursor_gather: the shard's thread. */
#ifndef EMBEDDING_JOURNAL_CURSOR_H
#define EMBEDDING_JOURNAL_CURSOR_H

#include "embedding/journal/archive.h"
#include "embedding/journal/journal.h"

struct journal_file { /* one segment, of a journal or an archive */
    char path[LIMIT_PATH];
    uint64_t generation;
    uint64_t first, last; /* its records, once CURSOR_WHOLE has passed it; last < first: none */
    uint64_t bytes;       /* where they end; 0: not known yet */
    int fd;               /* owned; -1: opened when it is read */
};
struct journal_files {
    struct journal_file *file; /* owned; oldest first */
    uint32_t count;
};

/* The archive's files, then the journal's; either may be NULL. Those of a started journal are
 * opened. NOMEM, IO. */
int cursor_gather(const struct archive *a, const struct journal *j, struct journal_files *out,
                  struct err *e);
void cursor_files_free(struct journal_files *f);

enum cursor_reads {
    CURSOR_WHOLE, /* records whole, each checked */
    CURSOR_HEADS  /* heads as they stand: payload NULL, nothing checked, damage passed over segment
                     by segment; for who looks for some records in many bytes */
};

struct journal_cursor {
    struct journal_files *files; /* borrowed */
    enum cursor_reads reads;
    uint64_t from, until;
    uint64_t floor;   /* may be set after cursor_open: nobody needs records up to it; 0: none */
    uint64_t stamped; /* the highest `synced` of the records that CURSOR_WHOLE returned */
    uint32_t file;    /* the one at hand */
    bool sought, ended, open, own;
    int fd;
    bool good;               /* its head checks */
    uint64_t size, at, next; /* of the file: its end; the record at hand; what follows it */
    uint64_t last;           /* sequence that was reached */
    struct record_header head;
    char *buffer; /* owned: the window, `held` bytes of the file from held_at on */
    size_t room, held;
    uint64_t held_at;
};

/* Over records with sequences from `from` to `until`, where there are such: when the first one has
 * a higher sequence, older ones are gone. Fails at the first cursor_next. */
void cursor_open(struct journal_cursor *c, struct journal_files *files, uint64_t from,
                 uint64_t until, enum cursor_reads reads);
/* The next record, which stands until the next call. END behind the last one; CORRUPT, VERSION, IO,
 * NOMEM. */
int cursor_next(struct journal_cursor *c, struct journal_record *out, struct err *e);
/* The keys (key_count) of the push at hand: with CURSOR_HEADS they are read now. END: they cannot
 * be; NOMEM. */
int cursor_keys(struct journal_cursor *c, const uint64_t **keys, struct err *e);
/* The record at hand, read whole and checked; its payload may be changed. END: it does not check;
 * NOMEM. */
int cursor_whole(struct journal_cursor *c, void **payload, struct err *e);
/* After cursor_whole, with a changed payload of the same length: sealed, and written where it
 * stood. The file must be open for that. */
int cursor_rewrite(struct journal_cursor *c, struct err *e);
/* How far it is, in thousandths of a file, of how many. */
static inline uint64_t cursor_done(const struct journal_cursor *c)
{
    return (uint64_t)c->file * 1000 +
           (c->size == 0 ? 0 : (c->at < c->size ? c->at : c->size) * 1000 / c->size);
}
static inline uint64_t cursor_of(const struct journal_cursor *c)
{
    return (uint64_t)c->files->count * 1000;
}
void cursor_close(struct journal_cursor *c);

#endif
