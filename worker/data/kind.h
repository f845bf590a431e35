/* kind.h: names input that no format reads by its first bytes, and says what to do with it.
 *
 * Pure functions of bytes: no state, any thread. */
#ifndef WORKER_DATA_KIND_H
#define WORKER_DATA_KIND_H

#include "proto/base/err.h"

#include <stddef.h>

#define KIND_LOOK_BYTES 4096u /* so many first bytes are enough */
#define KIND_HINT_BYTES 160u

/* 0; DATA when the input called `name` begins as an archive, a table of another tool, text in
 * UTF-16, or text whose lines end in CR alone. data: of what is unpacked, not of what is packed. */
int kind_check(const char *name, const char *data, size_t bytes, struct err *e);

/* A first line that may belong to another format than the job's. Writes what it looks like and the
 * key to set, as a sentence; "" when it is nothing that is known here. `delimiter`: the job's, or
 * '\0' where the format has none to choose. */
void kind_hint(const char *line, size_t bytes, char delimiter, char out[KIND_HINT_BYTES]);

#endif
