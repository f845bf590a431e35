/* quotes.h: csv lines with quotes, 64 bytes at a time.
 *
 * A line is regular when each quote opens a cell, closes one, or is one of a pair within a quoted
 * cell, as RFC 4180 has it. Then the number of quotes before a byte tells whether it is within a
 * quoted cell, and delimiters are found as in a line without quotes. Other lines are for
 * read_csv.c, byte by byte. Pure functions of bytes: no state, any thread. */
#ifndef WORKER_DATA_QUOTES_H
#define WORKER_DATA_QUOTES_H

#include "worker/data/format.h"

enum quotes_end { QUOTES_CLOSED, QUOTES_OPEN, QUOTES_IRREGULAR };

/* The end of a line that begins outside of quotes. */
enum quotes_end quotes_look(char delimiter, const char *line, size_t bytes);

/* Cuts a line into cells as format_split does, and takes the quotes off; the line changes in place.
 * False: the line is irregular or a quoted cell is open at its end, and nothing has changed. */
bool quotes_split(char delimiter, char *line, size_t bytes, struct cell *cell, uint32_t *count);

#endif
