/* journal_file.h: the journal's insides, for its own files. */
#ifndef EMBEDDING_JOURNAL_JOURNAL_FILE_H
#define EMBEDDING_JOURNAL_JOURNAL_FILE_H

#include "embedding/journal/journal.h"

#include <sys/uio.h>

#define SEGMENT_MAGIC 0x314745534c4f4853ull /* "SHOLSEG1" */
#define JOURNAL_VERSION 1u                  /* of what a segment holds */
#define SEGMENT_HEADER_BYTES 64u
#define JOURNAL_QUEUE 256u /* records written at once: four pieces each, IOV_MAX is 1024 */

struct segment_header {
    uint64_t magic;
    uint64_t generation;
    uint64_t first;    /* sequence of its first record */
    uint64_t previous; /* of the last record before it, as its writer knew */
    uint64_t bytes;
    uint32_t version; /* JOURNAL_VERSION; 0: of before it was written, the same as 1 */
    uint32_t zero;
    uint64_t reserved;
    uint64_t checksum;
};
_Static_assert(sizeof(struct segment_header) == SEGMENT_HEADER_BYTES,
               "segment_header is a disk format");

struct segment {
    uint64_t generation;
    uint64_t first, last; /* last == first - 1: no record */
    uint64_t bytes;       /* end of its last record */
    int fd;               /* -1: not open */
    bool linked;          /* a cut has a link to it: never written to again by another generation */
    bool dirty;           /* written to since the last sync began */
};

struct journal {
    char *dir; /* owned */
    uint32_t segment_bytes;
    bool copy;
    /* owned; by generation; the last one takes the appends once `started` */
    struct segment *segment;
    uint32_t count, capacity;
    uint32_t *free_number; /* owned; files free-NUMBER */
    uint32_t free_count, free_capacity, next_free;
    bool making;             /* a spare is being made */
    uint64_t made;           /* files */
    bool pinned;             /* somebody reads segments: none is used again */
    struct archive *archive; /* borrowed; NULL: trimmed segments are used again */
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

uint64_t segment_checksum(const struct segment_header *h);
/* Whether a head checks and is of this generation (0: of any). Of whatever version it is. */
bool segment_good(const struct segment_header *h, uint64_t generation);
void segment_path(const struct journal *j, uint64_t generation, char *out); /* LIMIT_PATH */
void free_path(const struct journal *j, uint32_t number, char *out);
/* Adds an entry; NULL when out of memory. */
struct segment *segment_add(struct journal *j, uint64_t generation);
int free_add(struct journal *j, uint32_t number);
/* Takes segment `index` out of the list: its file becomes a free one, or goes when it is linked or
 * `keep` are free. */
void segment_retire(struct journal *j, uint32_t index, uint32_t keep);

#endif
