/* front.h: the beginning of a list of files as a source, so that a large log is looked at without
 * being read through.
 *
 * A plain file is used in place. A packed one, UTF-16 and standard input are decoded into a
 * nameless file of the cache folder, up to the bounds below, and cut behind the last whole line.
 * Blocks; one thread. */
#ifndef WORKER_DATA_FRONT_H
#define WORKER_DATA_FRONT_H

#include "worker/data/source.h"

#define FRONT_FILES 64u          /* files of a list that are opened */
#define FRONT_BYTES (1ull << 30) /* decoded text of one file */

struct front {
    struct source source;
    bool whole;           /* all text of all files is in it */
    double bytes_on_disk; /* size of all files of the list; 0: one is a stream */
    /* bytes on disk that one byte of the source's text takes; 1 for plain files */
    double packing;
};

/* Opens the files of a list; of a packed one at most `lines` lines (0: all). Errors as
 * source_open. */
int front_open(const struct string_list *names, uint64_t lines, const struct cache *cache,
               struct front *out, struct err *e);
void front_close(struct front *f);
/* Reads up to `most` bytes of the text of file `file` of the source. IO. */
int front_text(const struct front *f, uint32_t file, char *text, size_t most, size_t *bytes,
               struct err *e);
/* Decodes up to `most` bytes of a file that is no stream, and leaves it closed. Errors as
 * source_open. */
int front_peek(const char *path, char *text, size_t most, size_t *bytes, struct err *e);

#endif
