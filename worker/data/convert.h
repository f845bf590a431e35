/* convert.h: a split as an event file; what is in one. */
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

/* Writes the split's rows, in the order of its log, to `path`. `see` is called after each slice
 * with the number of rows so far; it may be NULL. EXISTS (path is taken), CANTCREATE, and what
 * dataset_open and events_write say. */
int convert_split(const struct job *job, uint32_t split, const char *path,
                  void (*see)(void *context, uint64_t rows), void *context,
                  struct convert_sums *out, struct err *e);
/* Reads all of an event file: every sum in it fits. *out: as convert_sums_json, and `columns`:
 * their lines. NOINPUT, and as events_open, events_read. */
int convert_check(const char *path, struct json **out, struct err *e);
/* rows, blocks, malformed, decoded_bytes, bytes, first, last; of a job with data.join `join`, its
 * counts. NULL: no memory. */
struct json *convert_sums_json(const struct convert_sums *s);

#endif
