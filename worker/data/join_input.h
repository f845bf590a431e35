/* join_input.h: the files of impressions and of clicks as one stream of rows; each row is read
 * once. The next row comes from the file whose newest row is the oldest of all files, so files of
 * the same time, of both kinds, are read side by side.
 *
 * Files are csv with a header, the same for all files of a kind. These lines are counted and left
 * out: a line that is no csv or has another number of columns; a line without an id or a time; a
 * line more than `disorder` behind the newest of its file. One thread at a time. */
#ifndef WORKER_DATA_JOIN_INPUT_H
#define WORKER_DATA_JOIN_INPUT_H

#include "worker/data/feature.h"
#include "worker/data/join.h"
#include "worker/data/lines.h"

#define JOIN_READERS 64u /* files that are read without finding their position again */

struct join_side {               /* one for impressions, one for clicks */
    const struct source *source; /* borrowed */
    struct features features;    /* only the members that cutting a line needs */
    char *head;                  /* owned; the header as it stands; NULL: no file has one */
    size_t head_bytes;
    uint32_t id, time; /* column numbers */
};

/* The position in a file; part of the checkpoint. */
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
    struct join_file *file; /* owned; (files): impressions' files, then clicks' */
    uint32_t *heap;         /* owned; (heaped): files by their newest times, then numbers */
    uint32_t heaped;
    struct join_reader *reader; /* owned: (JOIN_READERS) */
    uint64_t reads, bytes;      /* rows and bytes of text so far */
    struct cell *cell;          /* owned: (CELLS_MAX) */
    char *text[2];              /* owned; two lines of LIMIT_LINE_BYTES */
};

/* impressions and clicks must outlive it. CONFIG (a column is missing, or headers differ), and the
 * errors of lines_next. */
int join_input_open(struct join_input *in, const struct job *job, const struct source *impressions,
                    const struct source *clicks, struct join_counts *counts, struct err *e);
void join_input_close(struct join_input *in);
/* Starts all files at their beginnings. */
void join_input_begin(struct join_input *in);
/* Resumes after `file` and `bytes` were read from a checkpoint. */
void join_input_again(struct join_input *in);
/* The next row: 0, END, or the errors of lines_next. */
int join_input_next(struct join_input *in, struct join_row *row, struct err *e);
/* All further rows have this time or a later one; UINT64_MAX: there are none. */
uint64_t join_input_mark(const struct join_input *in);
/* Reads a row's text into in->text[which] and its cells into in->cell. CHECKSUM: the text
 * changed. */
int join_input_text(struct join_input *in, const struct join_row *row, uint32_t which,
                    struct err *e);
/* *same: both rows have the same id. */
int join_input_same(struct join_input *in, const struct join_row *a, const struct join_row *b,
                    bool *same, struct err *e);

#endif
