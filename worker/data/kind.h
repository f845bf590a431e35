/* kind.h: recognizes input that no format can read by its first bytes, and gives the remedy.
 *
 * Pure functions of bytes: no state, any thread. */
#ifndef WORKER_DATA_KIND_H
#define WORKER_DATA_KIND_H

#include "proto/base/err.h"

#include <stddef.h>

#define KIND_LOOK_BYTES 4096u /* first bytes that are needed */
#define KIND_HINT_BYTES 160u

/* DATA when the input called `name` begins as an archive, another tool's table, or UTF-32 text;
 * else 0. data: the unpacked bytes. */
int kind_check(const char *name, const char *data, size_t bytes, struct err *e);

/* Compares a first line with other formats than the job's. Writes a sentence with the probable
 * format and the key to set; "" when it matches none. `delimiter`: the job's, or '\0' for a format
 * without one. */
void kind_hint(const char *line, size_t bytes, char delimiter, char out[KIND_HINT_BYTES]);

#endif
