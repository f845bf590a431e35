/* rows.h: parsed rows, laid out so that each can be read by its number: what an epoch's order asks
 * for. Row after row as a batch wants them, not packed: of a slice in memory (groups.h), or of a
 * split in the cache folder, read by mapping the file:
 *
 *     rows     u32 check | u8 malformed | u8 labels, bit i that of task i | u16 0 | u32 time |
 *              f32 weight | f32 numbers | to 8 bytes | u64 hashes | with a multi: u32 counts, to 8
 *              bytes | u64 keys. Of a malformed one behind u16: u64 where its text lies, u32 bytes
 *     places   with a multi: (rows + 1) u64: where each begins; else all have the same bytes
 *     texts    of malformed rows, each ended by a NUL
 *     end      struct rows_end
 *
 * check is of the row's bytes and its number, and compared at each reading; in memory there is
 * none. A file is made by one process of a machine while others wait. Read-only once open: any
 * thread. */
#ifndef WORKER_DATA_ROWS_H
#define WORKER_DATA_ROWS_H

#include "worker/data/batch.h"
#include "worker/data/cache.h"
#include "worker/data/slice.h"

struct rows_end {
    char magic[8];
    uint64_t identity, rows;
    uint64_t places, texts; /* where they begin */
    uint32_t stride, zero;  /* bytes of a row; 0: with a multi */
    uint64_t sum;           /* of what stands above */
};
_Static_assert(sizeof(struct rows_end) == 56, "rows_end is a disk format");

/* Where the parts of a row lie, by its features. */
struct rows_layout {
    uint32_t numeric, hash, count, key, least; /* offsets; least: bytes of a row without keys */
    uint32_t fields, hashes, numerics;
    bool multi;
};

struct rows {
    const uint8_t *map; /* owned */
    size_t bytes;
    size_t capacity; /* of one in memory; 0: a mapped file */
    struct rows_end end;
    struct rows_layout layout;
};

struct rows_name { /* of the file in the cache folder */
    uint64_t group, identity;
};

/* A kept file. NOT_FOUND (also: it is none of these features), NOMEM. */
int rows_find(const struct cache *cache, struct rows_name name, const struct features *f,
              struct rows *out, struct err *e);
void rows_close(struct rows *r);

/* Where slices come from; 0, END, or an error. */
typedef int (*rows_source)(void *context, struct slice **b, struct err *e);
struct rows_make {
    const struct cache *cache;
    struct rows_name name;
    const struct features *features;
    const struct columns *columns;
    rows_source next;
    void *context;
    uint64_t most; /* bytes that it may have */
    bool nameless; /* for this process alone */
};
/* Makes it, unless another process did meanwhile. TOO_BIG: it would have more than `most` bytes, or
 * more malformed rows than are kept. CANTCREATE, IO, NOMEM, and what `next` says. */
int rows_make(const struct rows_make *m, struct rows *out, struct err *e);
/* Bytes of all kept forms in the folder but those of the group. */
uint64_t rows_kept(const struct cache *cache, uint64_t group);

/* In memory: lays out the rows of a slice of these columns, those of these features, in place of
 * those before; zeroed before the first time. NOMEM. */
int rows_lay(struct rows *r, const struct features *f, const struct columns *c,
             const struct slice *b, struct err *e);
/* Bytes of a row without a multi; of one with several values what it has at least. */
uint32_t rows_row_bytes(const struct features *f, bool *least);

/* Adds a row to a batch (batch_inner.h). CHECKSUM, without a text, and as batch_add_stored. */
int rows_add(const struct rows *r, uint64_t row, struct batch *b, const struct features *f,
             bool positives_only, struct err *e);
/* The event time of a row, unchecked; 0: it is malformed. */
uint32_t rows_time(const struct rows *r, uint64_t row);
/* Asks the processor for a row that will be wanted soon. */
void rows_expect(const struct rows *r, uint64_t row);

#endif
