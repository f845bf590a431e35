/* dataset.h: one split of the input (train, valid or test): its files, decoded once, indexed and
 * read by position.
 *
 * Opening finds the files (globs sorted), decodes compressed or streamed input once into the cache
 * folder, and makes the index: byte offset and checksum of every chunk of rows, so that any row can
 * be read again at any time. A row is a line that is not empty; a csv header is no row. The index
 * stays in the cache folder beside the decoded text. It is used again when size and time of each
 * file are unchanged and, with windows of event time, times are read in the same way.
 *
 * Order: epoch e of training visits rows in the order `position -> row`, a permutation of chunks
 * that is computed from (seed, epoch) and never stored (order.h); a chunk is one row up to 2^18
 * rows. Without shuffle, and in evaluation, position = row. A lane's batch is a range of positions,
 * so a batch number always leads back to rows of the input. */
#ifndef WORKER_DATA_DATASET_H
#define WORKER_DATA_DATASET_H

#include "dense/model.h"
#include "proto/base/env.h"
#include "proto/base/err.h"
#include "proto/base/nameset.h"
#include "proto/base/positions.h"
#include "proto/job/job.h"
#include "proto/job/legend.h"
#include "proto/wire/wire.h"
#include "worker/data/batch.h"

#include <stdbool.h>
#include <stdint.h>

struct dataset;

/* Opens a split (enum wire_split). NOINPUT (a file is missing, a glob matches nothing), DATA, IO,
 * CONFIG (columns that do not fit). */
int dataset_open(const struct job *job, uint32_t split, struct dataset **out, struct err *e);
/* Opens one object of a split (object.h). */
int dataset_open_object(const struct job *job, uint32_t split, const char *line,
                        struct dataset **out, struct err *e);
void dataset_close(struct dataset *d);
/* Closes the dataset of an object and removes its text from the cache folder. */
void dataset_forget(struct dataset *d);
/* object_trim for the folder of the object's text. */
void dataset_trim(const struct dataset *d, const struct job *job);

/* True when the columns come from the tables' names and the training input is not read even if it
 * exists: for a prediction, and for a job that trains nothing if reading would run a command, read
 * a stream or list a log. */
bool dataset_goes_by_names(const struct job *job);
/* Lists the objects of a split. Where the format numbers the columns of data.train by an object's
 * head, *head is that of the first readable object that is not empty (a first line, or an event
 * file's columns); otherwise NULL. The caller owns both. Errors as object_list and object_open. */
int dataset_objects(const struct job *job, uint32_t split, struct string_list *lines, char **head,
                    struct err *e);
/* Lists a growing log as object_list_again does: the objects that are not taken, perhaps none.
 * `first` asks for the head; without a head no object is listed yet. */
struct dataset_listed {
    struct string_list lines;
    char *head;
    uint8_t *gone;
    uint32_t gone_bytes;
    struct positions streams; /* ranges of a topic, from where the job goes on to the end now */
    bool last;                /* the log has an end, and no object before it is left to be listed */
};
/* positions: of the topic, whose ranges are listed once no file is left. */
int dataset_objects_again(const struct job *job, const struct nameset *taken,
                          const struct positions *positions, bool first, struct dataset_listed *out,
                          struct err *e);
void dataset_listed_free(struct dataset_listed *l);
/* Names of the files of the dataset; the caller owns them. *unknown: one is a stream, which has no
 * name, or files are joined. NULL: no memory. */
struct nameset_item *dataset_files(const struct dataset *d, uint32_t *count, bool *unknown);
/* The split's slices in the order of its log (parsed.h), without an index. The caller closes both,
 * p first. Errors as dataset_open. */
struct parsed;
int dataset_parsed(const struct job *job, uint32_t split, struct dataset **out, struct parsed **p,
                   struct err *e);
uint64_t dataset_rows(const struct dataset *d);
/* Bytes of event files that were read so far. */
uint64_t dataset_read_bytes(const struct dataset *d);
/* A digest of the content, equal on every worker that reads the same input. */
uint64_t dataset_digest(const struct dataset *d);
/* Number of windows of event time that an epoch visits one after the other; 0: none. */
uint32_t dataset_windows(const struct dataset *d);
/* Rows of a window; *number: the window of event time (proto/base/zone.h); *first: the first known
 * time in it. */
uint64_t dataset_window(const struct dataset *d, uint32_t window, uint32_t *number,
                        uint32_t *first);
/* A warning about the labels of the training split (labels.h) or its order, or "". */
const char *dataset_warning(const struct dataset *d);
/* A profile of the fields (profile.h); the caller owns it. DATA: a column cannot be read as its
 * type. Errors as dataset_open. */
struct json;
int dataset_profile(const struct dataset *d, const struct job *job, struct json **out,
                    struct err *e);
/* The counts of a join (data.join); NULL: there is none. */
struct join_counts;
const struct join_counts *dataset_join(const struct dataset *d);

/* Calls `see` with the cells of the evaluate.by columns, in that order, for each well-formed line,
 * until it returns false. IO, CHECKSUM, NOMEM. */
struct cell;
int dataset_by(const struct dataset *d, bool (*see)(void *context, const struct cell *by),
               void *context, struct err *e);

/* Fields, numerics and pooling of this job's format and columns. Reads no more than the first line
 * of the first train file. */
int dataset_shape(const struct job *job, struct model_shape *out, struct err *e);
/* The network's inputs in the order of the shape. */
struct dataset_inputs {
    struct model_shape shape;
    /* by these names the tables know them (proto/job/legend.h) */
    char field[LIMIT_FIELDS][LEGEND_NAME], numeric[LIMIT_NUMERIC][LEGEND_NAME];
    uint16_t key_field[LIMIT_FIELDS]; /* the field number in the keys of the field's values */
};
/* Takes them from the names that the tables know, and where those do not define all columns from
 * the head of the job's input. Errors as dataset_open. */
int dataset_inputs(const struct job *job, struct dataset_inputs *out, struct err *e);
/* Checks that all files of all splits exist and are readable, and that the columns fit. Streams and
 * commands are not run; the training input of a job that trains nothing may be gone. Errors as
 * dataset_open. */
int dataset_check(const struct job *job, struct err *e);
/* Adds the names of the input's fields and numbers (feature.h) to *out. */
int dataset_legend(const struct job *job, struct legend *out, struct err *e);
/* The features with names, types and transforms; the caller calls features_free. */
struct features;
int dataset_features(const struct job *job, struct features *out, struct err *e);

#endif
