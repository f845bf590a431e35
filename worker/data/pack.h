/* pack.h: a slice (slice.h) as bytes: the body of a block of an event file. All little-endian.
 *
 *     plain bytes   values that zstd would hardly compress
 *     packed bytes  the rest, in one zstd frame or unpacked (`zipped` says which)
 *
 * The rest has for each column in order: for a multi first its counts, as a column of 4-byte
 * numbers, and if it is weighted then the weights of its values, likewise; then
 *
 *     u32 values    their number; one for each row, except in a multi
 *     u32 distinct  0: the values follow; else this many distinct values follow, and then the
 *                   number of each value's distinct one, in 1 byte (up to 256 of them) or 2. Plus
 *                   2^31: the values, or their numbers, are among the plain bytes
 *
 * Values of 8 bytes are always among the plain bytes: all 8 bytes of a hash, the lower 6 of a key,
 * whose upper part is the column's field number. After the columns: u32 malformed rows, and for
 * each u32 row, u32 bytes, its text. Decoding therefore copies and looks up in small tables. */
#ifndef WORKER_DATA_PACK_H
#define WORKER_DATA_PACK_H

#include "worker/data/strips.h"

struct pack_bytes {
    uint8_t *at; /* owned */
    size_t bytes, capacity;
};

struct packer {
    struct strips strips; /* columns of the current slice */
    struct pack_bytes plain, rest, packed;
    struct pack_slot *slot; /* owned: (PACK_SLOTS) */
    uint16_t *which;        /* owned: (SLICE_VALUES_MAX) */
    void *zip, *unzip;      /* owned: contexts of zstd */
    bool zipped;            /* packed is a zstd frame */
    uint32_t bad_rows;      /* malformed rows of the unpacked slice */
};

/* Also releases a zero-initialized packer. */
void pack_free(struct packer *p);
/* Fills plain and packed. NOMEM; TOO_BIG: SLICE_BYTES_MAX. */
int pack_slice(struct packer *p, const struct slice *b, const struct columns *c, struct err *e);

/* The sizes in the head of a block. */
struct pack_sizes {
    uint32_t rows, plain, packed, rest; /* bytes, except rows; rest: of packed, once unpacked */
    bool zipped;
};
/* Unpacks a body of columns c, (plain + packed) bytes of any contents. CORRUPT, without a text;
 * NOMEM. With wanted and b NULL no slice is made. */
int pack_unpack(struct packer *p, const uint8_t *body, const struct pack_sizes *s,
                const struct columns *c, const struct strips_wanted *wanted, struct slice *b,
                struct err *e);

#endif
