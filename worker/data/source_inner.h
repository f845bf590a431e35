/* source_inner.h: the parts of a source: its files (source.c), its streams (source_stream.c), and
 * the first lines of either (source_head.c). */
#ifndef WORKER_DATA_SOURCE_INNER_H
#define WORKER_DATA_SOURCE_INNER_H

#include "worker/data/source.h"

#include <sys/stat.h>

/* Takes decoded text into a file of the cache folder. */
struct source_sink {
    const struct cache *cache;
    int fd;
    uint64_t bytes; /* so far */
};
int source_sink_add(void *to, const char *data, size_t bytes, struct err *e);

/* The name of item i of a list in messages: its own, or "command 2 of data.train". A command's text
 * is never shown: it may contain a password. */
#define SOURCE_SHOWN 96
const char *source_shown(const struct string_list *names, size_t i, const char *what,
                         char room[SOURCE_SHOWN]);

/* True for an item of a job's list that names no path: standard input, a command, an object, a
 * topic. */
bool source_no_path(const char *item);
/* Opens a regular file; *fd is the caller's, also on error unless it is -1. NOINPUT, DENIED, IO. */
int source_plain_open(const char *name, int *fd, struct stat *st, struct err *e);
/* Opens the text of a stream, which it spools at its first use; *fd is the caller's. Any thread. */
int source_stream_open(const char *name, const char *shown, const struct cache *cache, int *fd,
                       uint64_t *bytes, struct err *e);

#endif
