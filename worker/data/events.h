/* events.h: Shoal's event file: parsed examples of a log, in its order, for jobs whose columns are
 * among the file's (columns.h). `shoal convert` writes it, `data.format: events` reads it. The
 * parsed rows that the cache folder keeps have the same format with unpacked blocks (kept.h).
 *
 * All numbers are little-endian. A sum is a 64-bit XXH3 of the parts in the order named: the first
 * with seed 0, each further one with the sum so far as its seed.
 *
 *     head     "SHOALEV1" | u32 bytes of the columns | u32 number of columns | u64 sum of columns |
 *              columns: their lines, each ended by "\n"; before unpacked blocks NULs up to a
 *              multiple of 8 bytes
 *     blocks   each: u32 BLOCK_MAGIC | u32 rows | u32 plain | u32 packed | u32 rest | u32 zipped,
 *              0 or 1 | u64 sum of these 24 bytes, plain bytes and packed bytes | plain bytes |
 *              packed bytes (pack.h). zipped 2: the plain bytes are a slice as in memory (slice.h)
 *     index    for each block: u64 its offset | u64 its sum | u32 bytes, with its head | u32 rows |
 *              u32 first, u32 last event time, 0 without one
 *     end      u64 blocks | u64 rows | u64 sum of the head's columns and the index | u64 sum of
 *              these 24 bytes | "SHOALEVE"
 *
 * A row keeps its number, malformed or not. A reader that looks for a time reads end and index,
 * then only the blocks of that time. An unpacked block has at most SLICE_ROWS_MAX rows and
 * SLICE_BYTES_MAX bytes. A reader checks every byte before it uses it: CORRUPT or CHECKSUM, with
 * the file's name and the block's number. */
#ifndef WORKER_DATA_EVENTS_H
#define WORKER_DATA_EVENTS_H

#include "worker/data/pack.h"

#define EVENTS_BLOCKS_MAX (1u << 24)

/* ---- writing ---- */

struct events_sums {
    uint64_t rows, blocks, malformed;
    uint64_t decoded; /* packed blocks only: bytes of all columns as arrays */
    uint64_t bytes;   /* size of the file */
    uint32_t first, last;
};
struct events_wish {
    const char *name; /* for messages */
    int fd;           /* written from its current offset, the file's start */
    bool packed;      /* false: blocks are slices as in memory, each with its checksums */
    uint64_t most;    /* bytes of the file */
    void (*see)(void *context, uint64_t rows); /* called with the rows so far; may be NULL */
    void *context;
};
/* Writes the slices of p. DATA (no row), CANTCREATE (the disk is full), IO, NOMEM, TOO_BIG, and the
 * errors of parsed_next. */
struct parsed;
int events_write(const struct events_wish *w, struct parsed *p, struct events_sums *out,
                 struct err *e);

/* ---- reading ---- */

struct events_entry {
    uint64_t at, sum;
    uint32_t bytes, rows, first, last;
};
_Static_assert(sizeof(struct events_entry) == 32, "events_entry is a disk format");

struct events {
    const char *name; /* borrowed; the file's name */
    int fd;           /* borrowed */
    struct columns columns;
    uint64_t rows, digest; /* digest: of the content */
    uint32_t blocks;
    struct events_entry *block; /* owned */
};

/* Reads and checks head, index and end. CORRUPT, CHECKSUM, DATA (not an event file), IO, NOMEM. */
int events_open(int fd, const char *name, struct events *out, struct err *e);
void events_close(struct events *v);

/* A reader's buffers. Zero-initialized; events_room_free releases them. */
struct events_room {
    struct packer packer;
    uint8_t *body; /* owned */
    size_t capacity;
    uint64_t (*clock_ns)(void); /* borrowed; NULL: file_ns is not measured */
    uint64_t bytes, file_ns;    /* bytes that were read, and the time that took */
};
void events_room_free(struct events_room *r);
/* Reads packed block n. With wanted and b NULL it only unpacks the block into the room's packer. */
int events_read(const struct events *v, uint32_t n, const struct strips_wanted *wanted,
                struct events_room *r, struct slice *b, struct err *e);

#endif
