/* lines.h: the rows of a range of a source. Index and batches both use this, so they agree on where
 * rows begin.
 *
 * A row is a line that is not empty, nor a comment of libsvm or libffm; "\r" before "\n" belongs to
 * the line's end. With a header, the first line of each file that is not empty is no row. A line
 * ends at the end of its file. A line longer than LIMIT_LINE_BYTES is cut to that length. A csv row
 * may go over several lines, except in a range of messages, and a TFRecord is a row (framing.h); a
 * record has RECORD_ROOM bytes of room behind its text for each byte. One thread at a time uses a
 * struct lines; the reader may change the text. */
#ifndef WORKER_DATA_LINES_H
#define WORKER_DATA_LINES_H

#include "worker/data/framing.h"
#include "worker/data/source.h"

struct line {
    char *text; /* valid until the next lines_next */
    uint32_t bytes;
    /* Static: why the row cannot be read, whatever its format: it is longer than LIMIT_LINE_BYTES
     * (text has the first of them), or a record's checksum is wrong. NULL: it can. */
    const char *fault;
    uint32_t file;   /* index of the file in the source */
    uint64_t number; /* number of its first line, or of the record, in the file, from 1 */
    uint64_t at;     /* position in the source */
};

struct lines {
    const struct source *source; /* borrowed */
    struct row_form form;
    char *buffer;       /* owned */
    size_t head, tail;  /* bytes read and not yet returned */
    uint64_t at;        /* position of buffer[tail] in the source */
    uint64_t end;       /* end of the range */
    uint64_t piece_end; /* end of this file's part of the range */
    uint32_t file;
    uint64_t number; /* number of the last line in its file */
    bool head_due;   /* the next line that is not empty is a header */
    bool rest_due;   /* the bytes up to the next newline belong to a line that was too long */
    /* Time spent reading files, by the owner's clock. One read in LINES_TIMED is timed and counts
     * for all of them, because a clock call at each small read would be too slow. */
    uint64_t (*clock_ns)(void); /* NULL: not measured */
    uint64_t file_ns;           /* the owner may reset it to 0 */
    uint32_t fills;
};
#define LINES_TIMED 16u

int lines_init(struct lines *l, struct err *e); /* NOMEM */
void lines_free(struct lines *l);
/* Starts at position `at`, the start of a line or file, `number` lines into its file, and ends
 * before `end`. */
void lines_start(struct lines *l, const struct source *s, struct row_form form, uint64_t at,
                 uint64_t end, uint64_t number);
/* The position of the next line, unless the last one was too long. */
static inline uint64_t lines_position(const struct lines *l)
{
    return l->at - (l->tail - l->head);
}
/* The next row: 0, SHOAL_E_END, IO, CHECKSUM when a file became shorter, or DATA: no record begins
 * where one should, or the file ends within one. */
int lines_next(struct lines *l, struct line *out, struct err *e);

#endif
