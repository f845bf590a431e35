/* dataset.h: one split of the input (train, valid or test): its files, decoded once, indexed, read
 * by position.
 *
 * Opening finds the files (globs sorted), decodes compressed or streamed input once into the cache
 * folder, and makes the index: byte offset and checksum of every chunk of rows, so that any row can
 * be read again at any time. A row is a non-empty line (a csv header is none). The index is kept in
 * the cache folder beside the decoded text and is used again when size and time of the file are as
 * they were, and times, where windows of them ask for them, are read alike.
 *
 * Order: epoch e of training visits rows in the order `position -> row`, a permutation of chunks
 * drawn from (seed, epoch) that nobody stores (order.h); chunk_rows is 1 up to 2^18 rows. Without
 * shuffle, and for eval, position = row. A batch of a lane is a range of
 * positions: so a batch number always leads back to rows of the input. */
#ifndef WORKER_DATA_DATASET_H
#define WORKER_DATA_DATASET_H

#include "dense/model.h"
#include "proto/base/env.h"
#include "proto/base/err.h"
#include "proto/base/nameset.h"
#include "proto/job/job.h"
#include "proto/wire/wire.h"
#include "worker/data/batch.h"

#include <stdbool.h>
#include <stdint.h>

struct dataset;

/* split: enum wire_split. NOINPUT (file missing, glob without match), DATA, IO, CONFIG (columns
 * that do not fit). */
int dataset_open(const struct job *job, uint32_t split, struct dataset **out, struct err *e);
/* The same of one object alone (object.h). */
int dataset_open_object(const struct job *job, uint32_t split, const char *line,
                        struct dataset **out, struct err *e);
void dataset_close(struct dataset *d);
/* Closes an object's, and takes its text out of the cache folder. */
void dataset_forget(struct dataset *d);
/* object_trim, of the folder that it lies in. */
void dataset_trim(const struct dataset *d, const struct job *job);

/* Whether the columns are those that the tables know, and the training input is not asked though it
 * may be there: of a prediction, and of who trains nothing where that would run a command, read a
 * stream or list a log. */
bool dataset_goes_by_names(const struct job *job);
/* The objects of a split, and of data.train, where the format numbers its columns by what stands at
 * the begin of the first one that can be read and is not empty, that (its first line; of an event
 * file its columns), else NULL; both are the caller's. As object_list and object_open. */
int dataset_objects(const struct job *job, uint32_t split, struct string_list *lines, char **head,
                    struct err *e);
/* Of a log that grows, as object_list_again: what is not taken, which may be nothing; the head
 * where it is asked for (first): then what has none is not told yet. */
struct dataset_listed {
    struct string_list lines;
    char *head;
    uint8_t *gone;
    uint32_t gone_bytes;
};
int dataset_objects_again(const struct job *job, const struct nameset *taken, bool first,
                          struct dataset_listed *out, struct err *e);
void dataset_listed_free(struct dataset_listed *l);
/* Names of the files that it was read from, the caller's; *unknown: one is a stream, and has none,
 * or they are joined. NULL: no memory. */
struct nameset_item *dataset_files(const struct dataset *d, uint32_t *count, bool *unknown);
/* The split's slices, in the order of its log (parsed.h), without an index; the caller closes both,
 * p first. As dataset_open. */
struct parsed;
int dataset_parsed(const struct job *job, uint32_t split, struct dataset **out, struct parsed **p,
                   struct err *e);
uint64_t dataset_rows(const struct dataset *d);
/* Bytes of event files read so far. */
uint64_t dataset_read_bytes(const struct dataset *d);
/* of content: equal on every worker that reads the same input */
uint64_t dataset_digest(const struct dataset *d);
/* Windows of event time that an epoch goes through, one after the other; 0: there are none. */
uint32_t dataset_windows(const struct dataset *d);
/* Rows of one of them; *number: of its event times (proto/base/zone.h); *first: the first one that
 * is known of them. */
uint64_t dataset_window(const struct dataset *d, uint32_t window, uint32_t *number,
                        uint32_t *first);
/* What looks wrong with the labels of the training split (labels.h) or its order, or empty. */
const char *dataset_warning(const struct dataset *d);
/* What its rows show of the fields (profile.h), the caller's.
 * DATA: a column cannot be read as it is meant. As dataset_open. */
struct json;
int dataset_profile(const struct dataset *d, const struct job *job, struct json **out,
                    struct err *e);
/* What a join counted (data.join); NULL: there is none. */
struct join_counts;
const struct join_counts *dataset_join(const struct dataset *d);

/* Cells of the columns that evaluate.by names, in its order, of each line that is whole, until
 * `see` says false. IO, CHECKSUM, NOMEM. */
struct cell;
int dataset_by(const struct dataset *d, bool (*see)(void *context, const struct cell *by),
               void *context, struct err *e);

/* Fields, numerics, pooling that this job's format and columns give; the same without reading more
 * than the first line of the first train file. */
int dataset_shape(const struct job *job, struct model_shape *out, struct err *e);
/* Whether all files of all splits are there and may be read, and the columns fit; streams and
 * commands are left alone, and the training input of a job that trains nothing may have gone. As
 * dataset_open says it. */
int dataset_check(const struct job *job, struct err *e);
/* What the input's fields and numbers are called (feature.h): added to *out. */
int dataset_legend(const struct job *job, struct legend *out, struct err *e);
/* The same with names, types and transforms; features_free is the caller's. */
struct features;
int dataset_features(const struct job *job, struct features *out, struct err *e);

#endif
