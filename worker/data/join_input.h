/* join_input.h: the files of impressions and of clicks as one stream of rows, each read once. The
 * next row comes from the file whose newest row is the oldest of all, so that files of one time,
 * and both kinds, are read side by side, and files of other times when theirs comes.
 *
 * csv with a header, one for all files of a kind. Counted and left out: a line that is no csv, or
 * has another number of columns; one without an id, or a time; one more than `disorder` behind the
 * newest of its file. One thread at a time. */
#ifndef WORKER_DATA_JOIN_INPUT_H
#define WORKER_DATA_JOIN_INPUT_H

#include "worker/data/feature.h"
#include "worker/data/join.h"
#include "worker/data/lines.h"

#define JOIN_READERS 64u /* files that are read at a time without looking for the place again */

struct join_side {               /* impressions; clicks */
    const struct source *source; /* borrowed */
    struct features features;    /* so much of them as cuts a line */
    char *head;                  /* owned: the header, as it stands; NULL: no file has one */
    size_t head_bytes;
    uint32_t id, time; /* columns */
};

/* Where a file is; stored. */
struct join_file {
    uint64_t at, number;    /* position of the next line, lines before it in the file */
    uint32_t newest, ended; /* time of its newest row so far */
};
_Static_assert(sizeof(struct join_file) == 24, "join_file is stored");

struct join_reader; /* opaque */
struct join_input {
    struct join_side side[2];
    struct join_counts *counts; /* borrowed */
    uint32_t disorder;
    struct time_form form;
    uint32_t files;
    struct join_file *file; /* owned: (files): impressions', then clicks' */
    uint32_t *heap;         /* owned: (heaped): files by their newest times, then numbers */
    uint32_t heaped;
    struct join_reader *reader; /* owned: (JOIN_READERS) */
    uint64_t reads, bytes;      /* rows; text so far */
    struct cell *cell;          /* owned: (CELLS_MAX) */
    char *text[2];              /* owned: a line each, LIMIT_LINE_BYTES */
};

/* impressions, clicks: stay open. CONFIG (a column is missing, another header), and as lines_next.
 */
int join_input_open(struct join_input *in, const struct job *job, const struct source *impressions,
                    const struct source *clicks, struct join_counts *counts, struct err *e);
void join_input_close(struct join_input *in);
/* All files from their starts. */
void join_input_begin(struct join_input *in);
/* After `file` and `bytes` were read from a checkpoint. */
void join_input_again(struct join_input *in);
/* 0, END, or as lines_next. */
int join_input_next(struct join_input *in, struct join_row *row, struct err *e);
/* All rows that come are of this time or later; UINT64_MAX: none comes. */
uint64_t join_input_mark(const struct join_input *in);
/* The text of a row, in in->text[which], and its cells in in->cell; CHECKSUM: it is another. */
int join_input_text(struct join_input *in, const struct join_row *row, uint32_t which,
                    struct err *e);
/* *same: both have the same id. */
int join_input_same(struct join_input *in, const struct join_row *a, const struct join_row *b,
                    bool *same, struct err *e);

#endif
