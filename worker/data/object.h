/* object.h: a log made of objects: names that one command lists and another prints, or files. The
 * worker that trains or scores an object opens it by itself.
 *
 * A line names an object: "NAME", "NAME<tab>BYTES" or "NAME<tab>BYTES<tab>MARK". BYTES, the packed
 * size, is compared with the received size. The cache folder identifies an object's text by the
 * whole line, so an object that may change needs a mark that changes with it (a time, an ETag). Any
 * thread; blocks. */
#ifndef WORKER_DATA_OBJECT_H
#define WORKER_DATA_OBJECT_H

#include "proto/base/nameset.h"
#include "proto/job/job.h"
#include "worker/data/source.h"

/* Lines of all objects of a split, in byte order; the caller frees them (config_list_free). Errors
 * as source_open; DATA: a name occurs twice or is invalid; CONFIG: too many. */
int object_list(const struct job *job, uint32_t split, struct string_list *out, struct err *e);
/* Lists data.train, a growing log: the first lines that fit into a message and whose names are not
 * taken. Lines of files have size and time, so that a file that is still being written is not
 * trained in part. gone: a bit for each taken name that is no longer listed (`bytes` of them; the
 * caller frees it); NULL while there is plenty of room for names. CONFIG: more than NAMESET_MAX
 * names. */
int object_list_again(const struct job *job, const struct nameset *taken, struct string_list *out,
                      uint8_t **gone, uint32_t *bytes, struct err *e);
/* Opens one object as a source of one file: found in the cache folder, or fetched with up to
 * data.objects.tries attempts. Errors as source_open; UNAVAILABLE: a command printed nothing for
 * data.objects.quiet. */
int object_open(const struct job *job, uint32_t split, const char *line, const struct cache *cache,
                struct source *out, struct err *e);
/* Opens all objects of a split, one after the other. */
int object_open_all(const struct job *job, uint32_t split, const struct cache *cache,
                    struct source *out, struct err *e);
/* object_name: bytes of the name at the start of a line; object_salt: a number that changes the
 * object's draws. */
size_t object_name(const char *line);
uint64_t object_salt(const char *line);
/* Joins the two parts that LANE_NEXT has of a line. */
void object_line(const char *name, const char *mark, char out[LIMIT_PATH]);
/* Growing log: removes the oldest decoded texts and indexes. */
void object_trim(const struct job *job, const struct cache *cache);
/* At the end of a job with data.cache_max 0, removes all objects' texts from the folder, also those
 * that were only looked at or that a killed worker left. */
void object_clear(const struct job *job);
/* Removes an object's text from the cache folder: the next opening fetches it again. Objects that
 * are files are left alone. */
void object_forget(const struct source *s, const struct cache *cache);

#endif
