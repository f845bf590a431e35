/* object.h: a log as objects: what one command lists and another prints, or files. Each is opened
 * by itself, by the worker that trains or scores it.
 *
 * An object is told by a line: "NAME", "NAME<tab>BYTES" or "NAME<tab>BYTES<tab>MARK". BYTES, packed
 * as it lies, are compared with what came; the whole line is what the cache folder knows the
 * object's text by, so an object that may change has a mark that changes with it (a time, an
 * ETag). Any thread; blocks. */
#ifndef WORKER_DATA_OBJECT_H
#define WORKER_DATA_OBJECT_H

#include "proto/base/nameset.h"
#include "proto/job/job.h"
#include "worker/data/source.h"

/* Lines of all objects of a split, in byte order; the caller's (config_list_free). As
 * source_open; DATA: a name twice, or one that cannot be; CONFIG: too many. */
int object_list(const struct job *job, uint32_t split, struct string_list *out, struct err *e);
/* Of data.train, a log that grows: the first lines that fit into a message of those whose names are
 * not taken, files with their bytes and times, so that nobody takes one that is still written. gone
 * (bytes of it, a bit for each taken name, the caller's): those that the list has not; NULL, while
 * there is much room for names. CONFIG: more than NAMESET_MAX are listed. */
int object_list_again(const struct job *job, const struct nameset *taken, struct string_list *out,
                      uint8_t **gone, uint32_t *bytes, struct err *e);
/* The text of one, as a source of one file: found in the cache folder, or read, as often as
 * data.objects.tries allows. As source_open; UNAVAILABLE: a command that printed nothing for
 * data.objects.quiet. */
int object_open(const struct job *job, uint32_t split, const char *line, const struct cache *cache,
                struct source *out, struct err *e);
/* The text of all of them, one after the other. */
int object_open_all(const struct job *job, uint32_t split, const struct cache *cache,
                    struct source *out, struct err *e);
/* Bytes of the name at the begin of a line; a number of it, for draws of the object's own. */
size_t object_name(const char *line);
uint64_t object_salt(const char *line);
/* A line of its two parts as LANE_NEXT has them. */
void object_line(const char *name, const char *mark, char out[LIMIT_PATH]);
/* Of a log that grows: of what was decoded and indexed the oldest goes. */
void object_trim(const struct job *job, const struct cache *cache);
/* The job is over: without room there (data.cache_max: 0) no object's text stays in the folder:
 * neither what was only looked at, nor what a worker that was killed had left. */
void object_clear(const struct job *job);
/* Takes its text out of the cache folder: it is read again when it is opened again. Of files that
 * are objects nothing is taken. */
void object_forget(const struct source *s, const struct cache *cache);

#endif
