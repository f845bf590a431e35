/* slice.h: adjacent parsed rows of a log, each readable by its number. Lines become slices; event
 * files are packed from and unpacked into them (pack.h); an epoch's groups hold them (groups.h);
 * and a block of the kept rows is a slice byte for byte (kept.h).
 *
 *     rows     u32 check | u8 malformed | u8 labels, bit i that of task i | u8 missing labels,
 *              likewise | u8 0 | u32 time | f32 weight | f32 numbers | f32 labels that are numbers,
 *              in the order of tasks, NaN: missing | pad to 8 bytes | u64 hashes | with a multi:
 *              u32 counts, pad to 8 bytes | u64 keys | with a weighted multi: f32 weights of the
 *              keys, pad to 8 bytes. A malformed row has after 8 bytes: u64 offset of its text, u32
 *              bytes
 *     texts    of malformed rows, "file:line: reason", each ended by a NUL; then NULs to 8 bytes
 *     places   with a multi: (rows + 1) u64: start of each row; else all rows have the same size
 *
 * check is a hash of the row's bytes and its number in the file, compared at each reading; slices
 * in memory have none. Read-only once made: any thread. */
#ifndef WORKER_DATA_SLICE_H
#define WORKER_DATA_SLICE_H

#include "worker/data/columns.h"
#include "worker/data/lines.h"

#define SLICE_ROWS 8192u             /* rows of a slice that is made from lines */
#define SLICE_ROWS_MAX 65536u        /* rows of a slice that is read */
#define SLICE_VALUES_MAX (1u << 22)  /* values of one column */
#define SLICE_BYTES_MAX (256u << 20) /* bytes of all columns as arrays */
#define SLICE_WHERE 256u             /* bytes of a malformed row's text, with NUL */

/* Offsets of the parts of a row, for its columns. */
struct slice_layout {
    uint32_t numeric, real, hash, count, key, least; /* least: bytes of a row without keys */
    uint32_t stride;                                 /* bytes of a row; 0: with a multi */
    uint32_t fields, singles; /* singles: fields with one value in each row */
    uint32_t real_labels;     /* bit t: label t is a number */
    bool multi, timed;
    bool weighted; /* each key has a weight */
};
/* Bytes of a row's keys and their weights. */
static inline size_t slice_keys_bytes(const struct slice_layout *l, uint64_t keys)
{
    return keys * 8 + (l->weighted ? (keys * 4 + 7) & ~(uint64_t)7 : 0);
}
struct slice_layout slice_layout_of(const struct columns *c);

struct slice {
    const struct slice_layout *layout; /* borrowed */
    uint8_t *at;                       /* owned if capacity > 0; aligned to 8 bytes */
    size_t bytes, capacity;
    uint32_t rows, bad_rows; /* bad_rows: malformed rows; unknown in a file */
    uint64_t first;          /* in a file: number of the first row */
};
/* Also releases a zero-initialized slice. */
void slice_free(struct slice *s);

/* ---- reading ---- */

struct slice_row {
    const char *where; /* the text of a malformed row, in which nothing else is filled; else NULL */
    uint32_t labels;   /* bit i: label of task i, unless it is a number */
    uint32_t real_labels; /* bit i: label of task i is a number */
    uint32_t missing;  /* bit i: the row has no label of task i, which is none that is a number */
    const float *real; /* the labels that are numbers; NaN: missing */
    float weight;
    uint32_t time;
    const float *numeric;
    const uint64_t *hash;
    const uint32_t *count;     /* (fields): number of values of each field, with a multi */
    const uint64_t *key;       /* (keys) */
    const float *value_weight; /* (keys), with a weighted multi; else NULL */
    uint32_t keys;
};
/* Reads a row. CHECKSUM, without a text: it is damaged. */
int slice_row(const struct slice *s, uint32_t row, struct slice_row *out);
/* Writes the labels of a row: 0 or 1, numbers, NaN where they are missing. False: all are. */
bool slice_labels(const struct slice_row *row, uint32_t tasks, float *label);
/* The bytes of a row, unchecked; NULL: its offset is invalid. */
uint8_t *slice_at(const struct slice *s, uint32_t row, size_t *bytes);
/* The event time of a row, unchecked; 0: it is malformed. */
uint32_t slice_time(const struct slice *s, uint32_t row);
/* Prefetches a row. */
void slice_expect(const struct slice *s, uint32_t row);
/* First and last event time of the well-formed rows; 0 and 0: there is none. */
void slice_times(const struct slice *s, uint32_t *first, uint32_t *last);

/* ---- making ---- */

/* Makes a slice from lines. Zero-initialized; buffers grow to the largest slice and are reused. */
struct slice_maker {
    struct slice slice; /* whole after slice_end */
    size_t bytes;       /* bytes of its rows so far */
    uint64_t keys;
    struct cell *cell; /* owned: (CELLS_MAX) */
    char *text;        /* owned */
    size_t text_bytes, text_capacity;
    uint64_t *place; /* owned: with a multi */
    size_t place_capacity;
    float *weight; /* owned: with a weighted multi: weights of a row's values */
    size_t weight_capacity;
};
void slice_maker_free(struct slice_maker *m);
void slice_begin(struct slice_maker *m, const struct slice_layout *l);
/* Parses a line of the file `name` into the layout's columns, which are these features'. NOMEM. */
int slice_add(struct slice_maker *m, const struct features *f, const struct line *line,
              const char *name, struct err *e);
/* True when the slice should be ended. */
bool slice_is_full(const struct slice_maker *m);
int slice_end(struct slice_maker *m, struct err *e); /* NOMEM */

/* Makes a slice for other data: room for `rows` zeroed rows of row_bytes in all, and their texts.
 * Replaces the old rows. The caller fills the places, if there are any, before the rows. NOMEM. */
int slice_make(struct slice *s, const struct slice_layout *l, uint32_t rows, uint64_t row_bytes,
               uint64_t text_bytes);
uint64_t *slice_places(const struct slice *s);
/* Marks a row as malformed; *at: bytes of texts so far. */
void slice_bad(struct slice *s, uint32_t row, const char *where, size_t bytes, uint64_t *at);
/* Writes the checks of a file in which the first row has this number. */
void slice_stamp(struct slice *s, uint64_t first);

#endif
