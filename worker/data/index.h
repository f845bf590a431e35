/* index.h: offsets and checksums of the rows of a source, and the order in which an epoch visits
 * them.
 *
 * A chunk is chunk_rows adjacent rows (the last chunk may have fewer): 1 up to 2^18 rows, then
 * doubled until there are at most 2^18 chunks. Its checksum is the sum of index_row_sum over its
 * rows, so chunks can be merged without reading them again; names of files, line ends and empty
 * lines do not enter it. Read-only once open. */
#ifndef WORKER_DATA_INDEX_H
#define WORKER_DATA_INDEX_H

#include "proto/base/assert.h"
#include "proto/base/hash.h"
#include "proto/base/rng.h"
#include "worker/data/lines.h"

#include <stdint.h>

#define INDEX_CHUNKS_MAX (1u << 18)

struct index_chunk {
    uint64_t at;     /* position of its first row in the source */
    uint64_t sum;    /* checksum of its rows */
    uint64_t number; /* lines before it in its file */
};
_Static_assert(sizeof(struct index_chunk) == 24, "index_chunk is a disk format");

/* Returns the event time of a row in seconds since 1970; 0: it has none. It may change the line. */
struct index_clock {
    uint32_t (*time)(void *context, struct line *line);
    void *context;
    uint64_t identity; /* a hash of how times are read: other times need another index */
    uint32_t chunks;   /* most chunks; a power of two */
};

struct index {
    uint64_t rows;
    uint64_t bytes; /* size of the source */
    uint64_t digest;
    uint32_t chunk_rows; /* a power of two */
    uint32_t chunks;
    struct index_chunk *chunk; /* owned */
    /* Owned; (chunks): time of each chunk's first row, or the last known time before it, or the
     * first known time; NULL: not wanted. */
    uint32_t *time;
};

/* A row's share of its chunk's checksum: a hash of text, row number and fault. */
static inline uint64_t index_row_sum(uint64_t row, const struct line *line)
{
    return rng_mix(hash_bytes(line->text, line->bytes, 0) + row * 2 + (line->fault != NULL));
}
static inline uint64_t index_chunk_end(const struct index *x, uint64_t chunk)
{
    SHOAL_ASSERT(chunk < x->chunks);

    if (chunk + 1 < x->chunks)
        return x->chunk[chunk + 1].at;

    return x->bytes;
}

/* Takes the index from the cache, or makes and keeps it; a failure to keep it is logged and is no
 * error. clock NULL: times are not wanted. cache NULL: nothing is kept. IO, NOMEM, CHECKSUM (a file
 * became shorter meanwhile). */
int index_open(const struct source *s, const struct row_form *form, const struct index_clock *clock,
               const struct cache *cache, struct index *out, struct err *e);
void index_close(struct index *x);
/* Gives the first chunks without a time that of the first chunk that has one. */
void index_times_lead(struct index *x);

/* An order drawn from (seed, epoch) over `chunks` items: a bijection of [0, chunks) that is
 * computed, never stored, and never changes between releases. */
#define INDEX_ROUNDS 6
struct index_draw {
    uint64_t chunks, key[INDEX_ROUNDS];
    unsigned bits;
};
struct index_draw index_draw(uint64_t seed, uint32_t epoch, uint64_t chunks);
uint64_t index_drawn(const struct index_draw *d, uint64_t position);
/* The order at one position. */
uint64_t index_order(uint64_t seed, uint32_t epoch, uint64_t chunks, uint64_t position);

#endif
