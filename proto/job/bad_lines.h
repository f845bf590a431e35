/* bad_lines.h: reports of malformed lines: their number, and the first one seen in its file.
 *
 * A place is "file:line: reason". Epochs are shuffled and lanes run side by side, so the first
 * report may be of any line; the lowest number is the one to look at. */
#ifndef PROTO_JOB_BAD_LINES_H
#define PROTO_JOB_BAD_LINES_H

#include "proto/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* True when a's file comes before b's by its name, or a's line is the lower one of the same
 * file. */
bool bad_lines_before(const char *a, const char *b);
/* Sets `least` (bytes) to `where` if that comes before it, or if it is empty. */
void bad_lines_least(char *least, size_t bytes, const char *where);
/* Returns DATA: `bad` of `lines` lines of `what` ("data.train: ", or "") are over a share of
 * `limit`. where: the first of those seen, or "". */
int bad_lines_refuse(struct err *e, const char *what, uint64_t bad, uint64_t lines, double limit,
                     const char *where);

#endif
