/* rows.h: the rows of a slice, laid out so that each can be read by its number, as a batch wants
 * them: in memory (groups.h), or as a block of a mapped file (kept.h):
 *
 *     places   with a multi: (rows + 1) u64: where each row begins, behind the places; else all
 *              have the same bytes
 *     rows     u32 check | u8 malformed | u8 labels, bit i that of task i | u16 0 | u32 time |
 *              f32 weight | f32 numbers | to 8 bytes | u64 hashes | with a multi: u32 counts, to 8
 *              bytes | u64 keys. Of a malformed one behind u16: u64 where its text lies, u32 bytes
 *     texts    of malformed rows, each ended by a NUL; then NULs to 8 bytes
 *
 * check is of the row's bytes and its number in the file, and compared at each reading; in memory
 * there is none. Read-only once made: any thread. */
#ifndef WORKER_DATA_ROWS_H
#define WORKER_DATA_ROWS_H

#include "worker/data/batch.h"
#include "worker/data/slice.h"

/* Where the parts of a row lie, by its features. */
struct rows_layout {
    uint32_t numeric, hash, count, key, least; /* offsets; least: bytes of a row without keys */
    uint32_t stride;                           /* bytes of a row; 0: with a multi */
    uint32_t fields, hashes, numerics;
    bool multi;
};
struct rows_layout rows_layout_of(const struct features *f);

struct rows {
    const struct rows_layout *layout; /* borrowed */
    const uint8_t *at;                /* owned where there is a capacity; at 8 bytes */
    size_t bytes, capacity;
    uint32_t rows;
    uint64_t first; /* of a file: the number of its first row */
};
void rows_free(struct rows *r);

/* Lays out the rows of a slice of these columns, those of the layout's features, in place of those
 * before; zeroed before the first time. NOMEM. */
int rows_lay(struct rows *r, const struct rows_layout *l, const struct columns *c,
             const struct slice *b, struct err *e);
/* Gives rows in memory the checks of a file in which the first has this number. */
void rows_stamp(struct rows *r, uint64_t first);

/* Adds a row to a batch (batch_inner.h). CHECKSUM, without a text, and as batch_add_stored. */
int rows_add(const struct rows *r, uint32_t row, struct batch *b, const struct features *f,
             bool positives_only, struct err *e);
/* The event time of a row, unchecked; 0: it is malformed. */
uint32_t rows_time(const struct rows *r, uint32_t row);
/* Asks the processor for a row that will be wanted soon. */
void rows_expect(const struct rows *r, uint32_t row);

#endif
