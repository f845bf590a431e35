/* source.h: the text of a split: files, globs, standard input and commands, packed or not, as files
 * that can be read by position.
 *
 * A plain file is used where it lies. A packed one (gzip or zstd, known by its first bytes) is
 * decoded once into the cache folder and found there again as long as its path, size and time are
 * as they were. A stream (-, "cmd:...", a pipe) is spooled once a job into a nameless file of the
 * cache folder: it can be read again and again by this process and is gone with it.
 *
 * Lying one after the other, the files make one range of bytes, [0, bytes): a position in it names
 * file and offset. Opening blocks; afterwards a source is read-only and any thread may pread from
 * it. */
#ifndef WORKER_DATA_SOURCE_H
#define WORKER_DATA_SOURCE_H

#include "proto/base/err.h"
#include "proto/job/job.h"
#include "worker/data/cache.h"

#include <stdbool.h>
#include <stdint.h>

struct source_file {
    char *name;        /* owned: for messages: as the job has it, globs expanded; a command's is
                        * "command 1 of data.train" */
    int fd;            /* owned: the text */
    uint64_t bytes;    /* of text */
    uint64_t base;     /* position of its first byte */
    uint64_t group;    /* hash of its path */
    uint64_t identity; /* hash of path, size and time */
    bool stream;       /* nothing about it can be kept */
    bool fetched;      /* by a command, into the cache folder (object.h) */
};

struct source {
    struct source_file *file; /* owned */
    uint32_t count;
    uint64_t bytes;
};

/* list: as in job.data.train; what: its name for messages ("data.train"). Files of one glob come in
 * byte order of their names. NOINPUT (missing, no match, a command that failed), DATA (packed text
 * that is damaged or cut short), IO, CANTCREATE (cache). */
int source_open(const struct string_list *list, const char *what, const struct cache *cache,
                struct source *out, struct err *e);
void source_close(struct source *s);
/* The file that holds position `at` < bytes. */
uint32_t source_file_at(const struct source *s, uint64_t at);

/* The job is over: what was spooled for it is given up, and the next one's commands are run anew.
 * Standard input and pipes give what they have once: whoever asks for them again, also after a
 * failure half way, is refused with NOINPUT. Sources that are open stay so. */
void source_streams_forget(void);

/* Names of the list's files, globs expanded, added to *names. NOINPUT, CONFIG. */
int source_names_any(const struct string_list *list, const char *what, struct string_list *names,
                     struct err *e);
/* CONFIG too: more than one job has. */
int source_names(const struct string_list *list, const char *what, struct string_list *names,
                 struct err *e);
/* Whether each file of the list is there, is none but a file, and may be read; streams are not
 * touched. */
int source_check(const struct string_list *list, const char *what, struct err *e);
/* Whether a name is one that is read and not just opened: -, a command, objects of commands, a
 * pipe. */
bool source_is_stream(const char *name);

/* The first non-empty line of the list, without "\n" and "\r": *line is owned by the caller,
 * NUL-ended, its file's name, for messages, in *name (owned by the caller too).
 * Decodes no more than that, but
 * spools a stream. DATA when there is no line, or it is longer than LIMIT_LINE_BYTES. */
int source_head(const struct string_list *list, const char *what, const struct cache *cache,
                char **name, char **line, size_t *bytes, struct err *e);

/* The first line of one file, as messages name that; line[bytes] is '\0'. */
typedef int (*source_see)(void *context, const char *name, char *line, size_t bytes, struct err *e);
/* Shows the first line of each file of the list until `see` returns other than 0, which is the
 * result. Passes over streams, files without a line, with one that is too long, and files that are
 * not there or may not be read (source_check says so). DATA: a file is of a kind that no format
 * reads, also where it is packed. NOMEM. */
int source_heads(const struct string_list *list, const char *what, source_see see, void *context,
                 struct err *e);

#endif
