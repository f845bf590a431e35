/* framing.h: how rows lie in a text: as lines, as csv rows whose quoted cells may hold line
 * ends, or as records with lengths. Pure functions of bytes: no state, any thread.
 *
 * RFC 4180 trusts all quotes: two stray ones make one row of all lines between them. Here a csv
 * row goes over several lines only if
 * - it is a whole row: its quotes close in front of a delimiter or a line end, and it has the
 *   expected number of cells;
 * - no line between its first and its last is a row by itself: a line with as many cells, and with
 *   a number in the column that has numbers, if the job names one; and
 * - where only empty lines are between them, its first and its last line are not both such rows
 *   with their quotes as text.
 * Otherwise its first line is a row by itself, and the next row begins on the line behind it, so
 * that a stray quote costs one line and two of them hide no rows. In a range of a stream's messages
 * each line is a row, so that no row goes over the end of a message.
 * [test: lines_a_stray_quote_costs_one_line, lines_between_stray_quotes_are_rows,
 * lines_of_neighbours_with_stray_quotes_are_rows, lines_of_a_text_are_no_rows_without_a_number] */
#ifndef WORKER_DATA_FRAMING_H
#define WORKER_DATA_FRAMING_H

#include "proto/job/job.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum framing { FRAMING_LINES, FRAMING_CSV, FRAMING_TFRECORD };

struct row_form {
    uint8_t framing;                 /* enum framing */
    bool header;                     /* the first line of each file that is not empty is no row */
    bool comments;                   /* LINES: a line that begins with "#" is no row */
    char delimiter[DELIMITER_BYTES]; /* CSV */
    uint32_t columns;                /* CSV: cells of a row; 0: not known, each line is a row */
    uint32_t number;                 /* CSV: from 1: a column of numbers; 0: none is known */
};
/* Lines without a header. */
#define ROW_FORM_LINES ((struct row_form){.framing = FRAMING_LINES})

/* A hash of the form, by which an index is kept; for lines 1 to 4. */
uint64_t framing_hash(const struct row_form *form);

/* ---- csv ---- */

/* A walk through one csv row, which may be given in pieces. */
struct csv_walk {
    uint8_t state;
    uint8_t matched; /* bytes of the delimiter that were just seen */
    bool bad;        /* text follows a closing quote */
    uint32_t cells;  /* cells that have ended */
};
/* Walks on over data[0, bytes); begin with {0}. */
void framing_walk(struct csv_walk *w, const char *delimiter, const char *data, size_t bytes);
/* True while a quoted cell is open. */
bool framing_open(const struct csv_walk *w);
/* True when the row that ends here is whole and has `columns` cells. */
bool framing_whole(const struct csv_walk *w, uint32_t columns);
/* True when a line, without its end, is a row by itself: whole, and with a number in the column of
 * numbers. `literal`: quotes are text. */
bool framing_is_row(const struct row_form *form, const char *line, size_t bytes, bool literal);

/* ---- TFRecord: length (8 bytes), its checksum (4), data, their checksum (4) ---- */

#define RECORD_HEAD_BYTES 12u
#define RECORD_TAIL_BYTES 4u
/* A record's text must have so much room behind it for each of its bytes, where the reader writes
 * numbers in decimal (read_tfrecord.c). */
#define RECORD_ROOM 5u

/* False: the checksum of the length is wrong, so no record begins here. */
bool framing_record_head(const char head[RECORD_HEAD_BYTES], uint64_t *bytes);
/* True when a file that begins with these bytes begins with a record. */
bool framing_is_record(const char *data, size_t bytes);
/* True when `tail` is the checksum of the data. */
bool framing_record_sound(const char *data, size_t bytes, const char tail[RECORD_TAIL_BYTES]);

#endif
