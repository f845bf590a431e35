/* source.h: the text of a split: files, globs, standard input and commands, packed or plain, as
 * files that are readable by position.
 *
 * A plain file is used in place. One that decode.h must turn into text (packed, UTF-16, lines
 * that end in CR alone: recognized by its first bytes) is decoded once into the cache folder and
 * found there again while its path, size and time are unchanged. A stream (-, "cmd:...", a pipe)
 * is spooled once for each job into a nameless file of the cache folder: this process can read
 * it again, and it is gone with the process.
 *
 * The files make one range of bytes, [0, bytes), one after the other: a position in it
 * identifies file and offset. Opening blocks; afterwards a source is read-only and any thread
 * may pread from it. */
#ifndef WORKER_DATA_SOURCE_H
#define WORKER_DATA_SOURCE_H

#include "proto/base/err.h"
#include "proto/job/job.h"
#include "worker/data/cache.h"
#include "worker/data/framing.h"

#include <stdbool.h>
#include <stdint.h>

struct source_file {
    /* owned; name in messages: the job's, with globs expanded; a command is "command 1 of
     * data.train" */
    char *name;
    int fd;            /* owned; the text's file */
    uint64_t bytes;    /* size of the text */
    uint64_t base;     /* position of its first byte in the source */
    uint64_t group;    /* hash of its path */
    uint64_t identity; /* hash of path, size and time */
    bool stream;       /* nothing about it can be kept */
    bool fetched;      /* a command fetched it into the cache folder (object.h) */
    bool messages;     /* of a stream: each line is a row, in csv too (framing.h) */
};

struct source {
    struct source_file *file; /* owned */
    uint32_t count;
    uint64_t bytes;
};

/* list: as job.data.train; what: its name in messages ("data.train"). Files of a glob are in byte
 * order of their names. NOINPUT (missing, no match, a failed command), DATA (packed text that is
 * damaged or truncated), IO, CANTCREATE (cache). */
int source_open(const struct string_list *list, const char *what, const struct cache *cache,
                struct source *out, struct err *e);
void source_close(struct source *s);
/* The file that holds position `at` < bytes. */
uint32_t source_file_at(const struct source *s, uint64_t at);

/* Ends a job: its spooled streams are closed, and the next job runs its commands anew. Standard
 * input and pipes can be consumed once: a later request, also after a failure half way, gets
 * NOINPUT. Open sources stay valid. */
void source_streams_forget(void);

/* Adds the names of the list's files, globs expanded, to *names. NOINPUT, CONFIG. */
int source_names_any(const struct string_list *list, const char *what, struct string_list *names,
                     struct err *e);
/* source_names_any, and CONFIG too when there are more than a job may have. */
int source_names(const struct string_list *list, const char *what, struct string_list *names,
                 struct err *e);
/* Checks that each file of the list is a readable regular file; streams are skipped. */
int source_check(const struct string_list *list, const char *what, struct err *e);
/* True for a name that must be consumed to be read: -, a command, objects of commands, a pipe. */
bool source_is_stream(const char *name);

/* The first line of the list that is not empty, without "\n" and "\r", or the first record;
 * NUL-ended. The caller owns *line and *name, the file's name in messages. Decodes no more than
 * that line, but spools a stream. DATA: there is no line or record, or it is longer than
 * LIMIT_LINE_BYTES. */
int source_head(const struct string_list *list, const char *what, enum framing framing,
                const struct cache *cache, char **name, char **line, size_t *bytes, struct err *e);

/* The first lines of the list, each ended by "\n", up to 1 MiB of the first files. Otherwise as
 * source_head. */
int source_lines(const struct string_list *list, const char *what, const struct cache *cache,
                 char **name, char **lines, size_t *bytes, struct err *e);

/* Is called with the first line of a file, and the file's name for messages; line[bytes] is
 * '\0'. */
typedef int (*source_see)(void *context, const char *name, char *line, size_t bytes, struct err *e);
/* Calls `see` with the first line of each file of the list until it returns other than 0, which is
 * the result. Skips streams, files without a line or with one that is too long, and files that are
 * missing or unreadable (source_check reports them). DATA: no format can read this kind of file,
 * packed or not. NOMEM. */
int source_heads(const struct string_list *list, const char *what, source_see see, void *context,
                 struct err *e);

#endif
