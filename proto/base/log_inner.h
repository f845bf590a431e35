/* log_inner.h: declarations that the log files share. */
#ifndef PROTO_BASE_LOG_INNER_H
#define PROTO_BASE_LOG_INNER_H

#include "proto/base/log.h"
#include "proto/base/log_journald.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- log_level.c ---- */

/* True when lines of this level are shown for code in `file` (__FILE__; NULL: in no room). */
bool log_level_shown(const char *file, enum log_level level);
/* The folder of the file: "server/shard"; "" where there is none. */
void log_room(const char *file, char *out, size_t bytes);

/* ---- log_flood.c ---- */

enum { LOG_FLOODS = 32, LOG_FLOOD_TEXT = 200 };

/* A count to be told; a copy of what the place had. */
struct log_flood {
    const char *file, *function; /* NULL: of several places */
    int line;
    enum log_level level;
    uint64_t due_ns, left_out;
    char text[LOG_FLOOD_TEXT]; /* the last text that was left out */
};

/* True when the place may say this text once more. */
bool log_flood_may(struct log_place *p, enum log_level level, const char *text);
/* Takes a count whose minute has ended; false: there is none. */
bool log_flood_take(struct log_flood *out);

/* ---- log_ring.c ---- */

/* Keeps a line, shortened, for the report of a crash. */
void log_ring_put(const char *prefix, const char *text);

/* ---- log_json.c ---- */

/* The record as one line of JSON, with its newline; the caller frees it. NULL: no memory. */
char *log_json_line(const struct log_record *r, const char *time, const char *level,
                    const char *event);

#endif
