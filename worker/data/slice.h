/* slice.h: parsed rows that follow one another in a log, each to be read by its number: what lines
 * become, what event files are packed from and unpacked into (pack.h), what is held for an epoch
 * (groups.h), and, byte for byte, a block of the kept rows (kept.h).
 *
 *     rows     u32 check | u8 malformed | u8 labels, bit i that of task i | u16 0 | u32 time |
 *              f32 weight | f32 numbers | to 8 bytes | u64 hashes | with a multi: u32 counts, to 8
 *              bytes | u64 keys. Of a malformed one behind u16: u64 where its text lies, u32 bytes
 *     texts    of malformed rows, "file:line: reason", each ended by a NUL; then NULs to 8 bytes
 *     places   with a multi: (rows + 1) u64: where each row begins; else all have the same bytes
 *
 * check is of the row's bytes and its number in the file, and compared at each reading; in memory
 * there is none. Read-only once made: any thread. */
#ifndef WORKER_DATA_SLICE_H
#define WORKER_DATA_SLICE_H

#include "worker/data/columns.h"
#include "worker/data/lines.h"

#define SLICE_ROWS 8192u             /* of a slice that is made from lines */
#define SLICE_ROWS_MAX 65536u        /* of one that is read */
#define SLICE_VALUES_MAX (1u << 22)  /* of one column */
#define SLICE_BYTES_MAX (256u << 20) /* of all, as arrays */
#define SLICE_WHERE 256u             /* bytes of a malformed row's text, NUL counted */

/* Where the parts of a row lie, by its columns. */
struct slice_layout {
    uint32_t numeric, hash, count, key, least; /* offsets; least: bytes of a row without keys */
    uint32_t stride;                           /* bytes of a row; 0: with a multi */
    uint32_t fields, singles;                  /* singles: those of one value a row */
    bool multi, timed;
};
struct slice_layout slice_layout_of(const struct columns *c);

struct slice {
    const struct slice_layout *layout; /* borrowed */
    uint8_t *at;                       /* owned where there is a capacity; at 8 bytes */
    size_t bytes, capacity;
    uint32_t rows, bad_rows; /* bad_rows: malformed; of a file not known */
    uint64_t first;          /* of a file: the number of its first row */
};
/* Releases a zeroed one too. */
void slice_free(struct slice *s);

/* ---- reading ---- */

struct slice_row {
    const char *where; /* NULL; of a malformed one its text, and nothing else is filled */
    uint32_t labels;   /* bit i: that of task i */
    float weight;
    uint32_t time;
    const float *numeric;
    const uint64_t *hash;
    const uint32_t *count; /* (fields): values of each, with a multi */
    const uint64_t *key;   /* (keys) */
    uint32_t keys;
};
/* CHECKSUM, without a text: it is damaged. */
int slice_row(const struct slice *s, uint32_t row, struct slice_row *out);
/* Its bytes, unchecked; NULL: its place is none. */
uint8_t *slice_at(const struct slice *s, uint32_t row, size_t *bytes);
/* The event time of a row, unchecked; 0: it is malformed. */
uint32_t slice_time(const struct slice *s, uint32_t row);
/* Asks the processor for a row that will be wanted soon. */
void slice_expect(const struct slice *s, uint32_t row);
/* First and last event time, if there is a time and a row that is whole; else 0 and 0. */
void slice_times(const struct slice *s, uint32_t *first, uint32_t *last);

/* ---- making ---- */

/* From lines. Zeroed before the first time; buffers grow to the largest slice and are kept. */
struct slice_maker {
    struct slice slice; /* whole after slice_end */
    size_t bytes;       /* of its rows so far */
    uint64_t keys;
    struct cell *cell; /* owned: (CELLS_MAX) */
    char *text;        /* owned */
    size_t text_bytes, text_capacity;
    uint64_t *place; /* owned: with a multi */
    size_t place_capacity;
};
void slice_maker_free(struct slice_maker *m);
void slice_begin(struct slice_maker *m, const struct slice_layout *l);
/* Parses a line, of the file `name`, as the layout's columns, which are these features'. NOMEM. */
int slice_add(struct slice_maker *m, const struct features *f, const struct line *line,
              const char *name, struct err *e);
/* Whether it is time to hand it on. */
bool slice_is_full(const struct slice_maker *m);
int slice_end(struct slice_maker *m, struct err *e); /* NOMEM */

/* From what lies elsewhere: room for so many rows, all zero, of so many bytes with their texts, in
 * place of those before. The caller fills the places, if there are any, before the rows. NOMEM. */
int slice_make(struct slice *s, const struct slice_layout *l, uint32_t rows, uint64_t row_bytes,
               uint64_t text_bytes);
uint64_t *slice_places(const struct slice *s);
/* Marks a row as malformed; *at: bytes of texts so far. */
void slice_bad(struct slice *s, uint32_t row, const char *where, size_t bytes, uint64_t *at);
/* Gives the rows the checks of a file in which the first has this number. */
void slice_stamp(struct slice *s, uint64_t first);

#endif
