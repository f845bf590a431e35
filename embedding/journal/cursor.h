/* cursor.h: the only reader of records: segments in order, one record after another. Recovery,
 * cuts, checkpoints, blame and erasing all use it.
 *
 *     cursor_gather (current journal, archive) -> files -> cursor_open -> cursor_next .. END
 *
 * It may read a journal that takes appends: the files are those at the gathering, opened by then,
 * so that later appends and trims do not matter. A file must not be reused meanwhile (journal_pin).
 * The cursor ends where the journal ended at the gathering; to go on, gather again. The records it
 * returns are committed, perhaps not synced: after a power loss other records may get their
 * sequences. Memory is a window of 1 MiB or the longest record; with CURSOR_HEADS one record.
 *
 * Invariants:
 * 1. Sequences of records that CURSOR_WHOLE returns have no gap within a segment, and between two
 *    segments only one that the later head's `previous` confirms.
 *    [test: a_missing_segment_is_refused]
 * 2. A record that does not check ends the journal (END) if it may be a torn tail. It is damage
 *    (CORRUPT, with file and offset) when a later record says that it was on disk (record.h, 3), or
 *    when it lies before the end of a running journal. [test: damage_to_synced_records_is_refused]
 *    Records at or below `floor` are stored elsewhere: a missing one is no damage, and reading
 *    continues if no other record is missing. [test: a_gap_below_the_floor_is_no_damage,
 *    a_head_that_power_took_is_no_damage_at_the_floor]
 * 3. A valid segment of an unknown version is an error that names it (VERSION), never the end. So
 *    is a valid record of an unknown kind, or with a value that this release does not set.
 *    [test: test_cursor]
 *
 * Thread: any, one at a time; cursor_gather: the shard's thread. */
#ifndef EMBEDDING_JOURNAL_CURSOR_H
#define EMBEDDING_JOURNAL_CURSOR_H

#include "embedding/journal/archive.h"
#include "embedding/journal/journal.h"
#include "proto/base/minmax.h"

struct journal_file { /* one segment of a journal or an archive */
    char path[LIMIT_PATH];
    uint64_t generation;
    uint64_t first, last; /* its records, once CURSOR_WHOLE has passed it; last < first: none */
    uint64_t bytes;       /* end of its records; 0: not known yet */
    int fd;               /* owned; -1: opened when it is read */
};
struct journal_files {
    struct journal_file *file; /* owned; oldest first */
    uint32_t count;
};

/* Lists the archive's files, then the journal's; either may be NULL. Opens the files of a started
 * journal. NOMEM, IO. */
int cursor_gather(const struct archive *a, const struct journal *j, struct journal_files *out,
                  struct err *e);
void cursor_files_free(struct journal_files *f);

enum cursor_reads {
    CURSOR_WHOLE, /* records are read whole, and each is checked */
    /* only heads, unchecked: payload NULL, and damaged segments are skipped; for searches of few
     * records in many bytes */
    CURSOR_HEADS
};

struct journal_cursor {
    struct journal_files *files; /* borrowed */
    enum cursor_reads reads;
    uint64_t from, until;
    uint64_t floor;   /* may be set after cursor_open: records up to it are not needed; 0: none */
    uint64_t stamped; /* the highest `synced` of the records that CURSOR_WHOLE returned */
    uint32_t file;    /* index of the current file */
    bool sought, ended, open, own;
    int fd;
    bool good; /* the head of the current file checks */
    /* size of the file; offset of the current record and of the next one */
    uint64_t size, at, next;
    uint64_t last; /* sequence of the last record */
    struct record_header head;
    char *buffer; /* owned; a window of `held` bytes of the file from held_at on */
    size_t room, held;
    uint64_t held_at;
};

/* Reads records with sequences `from` to `until`, if there are such: when the first record has a
 * higher sequence, older ones are gone. Errors are reported by the first cursor_next. */
void cursor_open(struct journal_cursor *c, struct journal_files *files, uint64_t from,
                 uint64_t until, enum cursor_reads reads);
/* The next record, valid until the next call. END after the last one; CORRUPT, VERSION, IO,
 * NOMEM. */
int cursor_next(struct journal_cursor *c, struct journal_record *out, struct err *e);
/* The keys (key_count) of the current push; with CURSOR_HEADS this reads them. END: they cannot be
 * read; NOMEM. */
int cursor_keys(struct journal_cursor *c, const uint64_t **keys, struct err *e);
/* Reads and checks the whole current record; the caller may change its payload. END: it does not
 * check; NOMEM. */
int cursor_whole(struct journal_cursor *c, void **payload, struct err *e);
/* After cursor_whole, with a changed payload of the same length: sealed, and written where it
 * stood. The file must be open for that. */
int cursor_rewrite(struct journal_cursor *c, struct err *e);
/* How far it is, in thousandths of a file, of how many. */
static inline uint64_t cursor_done(const struct journal_cursor *c)
{
    return (uint64_t)c->file * 1000 + (c->size == 0 ? 0 : MIN(c->at, c->size) * 1000 / c->size);
}
static inline uint64_t cursor_of(const struct journal_cursor *c)
{
    return (uint64_t)c->files->count * 1000;
}
void cursor_close(struct journal_cursor *c);

#endif
