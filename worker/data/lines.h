/* lines.h: the lines of a range of a source. The index and the batches both read through this, so
 * they agree on what a row is.
 *
 * A row is a line that is not empty; "\r" before "\n" belongs to the line's end. With `header`, the
 * first non-empty line of each file is none. A line never goes over the end of a file. Of a line
 * longer than LIMIT_LINE_BYTES only that much is handed out. One thread at a time uses a struct
 * lines; its text may be changed by the reader. */
#ifndef WORKER_DATA_LINES_H
#define WORKER_DATA_LINES_H

#include "worker/data/source.h"

struct line {
    char *text; /* valid until the next lines_next */
    uint32_t bytes;
    bool too_long;   /* more than LIMIT_LINE_BYTES; text holds the first of them */
    uint32_t file;   /* in the source */
    uint64_t number; /* in the file, from 1 */
    uint64_t at;     /* position in the source */
};

struct lines {
    const struct source *source; /* borrowed */
    char *buffer;                /* owned */
    size_t head, tail;           /* bytes read and not yet handed out */
    uint64_t at;                 /* position of buffer[tail] in the source */
    uint64_t end;                /* of the range */
    uint64_t piece_end;          /* of the range within this file */
    uint32_t file;
    uint64_t number; /* of the last line, in its file */
    bool header;     /* first lines of files are headers */
    bool head_due;   /* the next non-empty line is one */
    bool rest_due;   /* what follows, up to a newline, belongs to a line that was too long */
    /* How long reading files takes, with a clock that the owner lends: one read in LINES_TIMED is
     * timed and counts for all of them, because a clock at each small read would be felt. */
    uint64_t (*clock_ns)(void); /* NULL: not measured */
    uint64_t file_ns;           /* the owner may set it to 0 */
    uint32_t fills;
};
#define LINES_TIMED 16u

int lines_init(struct lines *l, struct err *e); /* NOMEM */
void lines_free(struct lines *l);
/* Starts at `at`, which is the start of a line (or of a file), `number` lines into its file; ends
 * before `end`. */
void lines_start(struct lines *l, const struct source *s, bool header, uint64_t at, uint64_t end,
                 uint64_t number);
/* Where the next line begins, unless the last one was too long. */
static inline uint64_t lines_position(const struct lines *l)
{
    return l->at - (l->tail - l->head);
}
/* 0, SHOAL_E_END, IO, or CHECKSUM when a file has become shorter than it was. */
int lines_next(struct lines *l, struct line *out, struct err *e);

#endif
