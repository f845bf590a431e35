/* convert.h: writes a split to an event file; checks an event file. */
#ifndef WORKER_DATA_CONVERT_H
#define WORKER_DATA_CONVERT_H

#include "proto/base/json.h"
#include "proto/job/job.h"
#include "worker/data/events.h"
#include "worker/data/join_text.h"

struct convert_sums {
    struct events_sums file;
    bool joined;
    struct join_counts join;
};

/* Writes the split's rows, in the order of its log, to `path`. `see` (may be NULL) is called after
 * each slice with the number of rows so far. EXISTS: path is taken; CANTCREATE; and the errors of
 * dataset_open and events_write. */
int convert_split(const struct job *job, uint32_t split, const char *path,
                  void (*see)(void *context, uint64_t rows), void *context,
                  struct convert_sums *out, struct err *e);
/* Reads all of an event file and compares every checksum. *out: as convert_sums_json, and
 * `columns`, their lines. NOINPUT, and the errors of events_open and events_read. */
int convert_check(const char *path, struct json **out, struct err *e);
/* rows, blocks, malformed, decoded_bytes, bytes, first, last; with data.join also `join`, its
 * counts. NULL: no memory. */
struct json *convert_sums_json(const struct convert_sums *s);

#endif
