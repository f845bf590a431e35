/* pack.h: a slice (slice.h) as bytes: the body of a block of an event file. All little-endian.
 *
 *     plain bytes   what zstd would not make much smaller
 *     packed bytes  the rest, in one zstd frame, or as it is (`zipped` says which)
 *
 * The rest is, for each column in order: of a multi first its counts, as a column of numbers of 4
 * bytes; then
 *
 *     u32 values    how many; one a row, but for a multi
 *     u32 distinct  0: the values follow as they are; else so many different ones follow, and then
 *                   for each value which of them it is, in 1 byte (up to 256 of them) or 2. Plus
 *                   2^31: what there is for each value stands among the plain bytes
 *
 * Values of 8 bytes always are among the plain bytes: of a hash all 8, of a key the lower 6, for
 * the column says the rest (its field's number). Behind the columns: u32 malformed rows, and for
 * each u32 row, u32 bytes, its text. So decoding is copying, and looking up in small tables. */
#ifndef WORKER_DATA_PACK_H
#define WORKER_DATA_PACK_H

#include "worker/data/strips.h"

struct pack_bytes {
    uint8_t *at; /* owned */
    size_t bytes, capacity;
};

struct packer {
    struct strips strips; /* of the slice at hand */
    struct pack_bytes plain, rest, packed;
    struct pack_slot *slot; /* owned: (PACK_SLOTS) */
    uint16_t *which;        /* owned: (SLICE_VALUES_MAX) */
    void *zip, *unzip;      /* owned: contexts of zstd */
    bool zipped;            /* what packed holds */
    uint32_t bad_rows;      /* malformed, of what was unpacked */
};

/* pack_free releases a zeroed one too. */
void pack_free(struct packer *p);
/* Fills plain and packed. NOMEM; TOO_BIG: SLICE_BYTES_MAX. */
int pack_slice(struct packer *p, const struct slice *b, const struct columns *c, struct err *e);

/* What the head of a block says of its body. */
struct pack_sizes {
    uint32_t rows, plain, packed, rest; /* bytes; rest: of packed, once it is unpacked */
    bool zipped;
};
/* The other way, of what is packed as columns c. body: (plain + packed); any bytes: CORRUPT,
 * without a text, when they are none. NOMEM. wanted and b NULL: no slice is made. */
int pack_unpack(struct packer *p, const uint8_t *body, const struct pack_sizes *s,
                const struct columns *c, const struct strips_wanted *wanted, struct slice *b,
                struct err *e);

#endif
