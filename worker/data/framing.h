/* framing.h: how rows lie in a text: as lines, as csv rows whose quoted cells may hold line
 * ends, or as records with lengths. Pure functions of bytes: no state, any thread.
 *
 * A csv row goes over several lines only if it is a whole row: its quotes close in front of a
 * delimiter or a line end, it has the expected number of cells, and no line between its first and
 * its last is a whole row by itself. Otherwise its first line is a row by itself, and the next row
 * begins on the line behind it, so that a stray quote costs one line and two of them hide no rows
 * between them. [test: lines_a_stray_quote_costs_one_line, lines_between_stray_quotes_are_rows] */
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
    char delimiter[DELIMITER_BYTES]; /* CSV */
    uint32_t columns;                /* CSV: cells of a row; 0: not known, each line is a row */
};
/* Lines without a header. */
#define ROW_FORM_LINES ((struct row_form){.framing = FRAMING_LINES})

/* A hash of the form, by which an index is kept; for lines 1 or 2, by `header`. */
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
