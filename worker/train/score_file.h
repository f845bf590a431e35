/* score_file.h: writes predictions to a file: a line for each row of the input, in order: the
 * columns passed on, then a score for each label. A malformed row has empty cells, written "" if
 * the line would be empty.
 *
 *     csv, tsv   a line of names first: the columns, then "score", or score_LABEL for each of
 *                several labels; quoted as in RFC 4180. Scores have enough digits to restore
 *                their bits (%.9g)
 *     npy        float32 (rows), or (rows, labels); NaN for a malformed row; no columns
 *
 * The file is written under a unique temporary name beside its own, which it gets when it is whole
 * and on disk; an existing file is not overwritten. "-": standard output. Thread: one at a time. */
#ifndef WORKER_TRAIN_SCORE_FILE_H
#define WORKER_TRAIN_SCORE_FILE_H

#include "proto/job/job.h"
#include "proto/job/score_format.h"
#include "worker/train/evaluate.h"

struct score_file;

/* path and job: borrowed. head: write the names (npy: the header) first; a later part of a file has
 * none. EXISTS, CANTCREATE, USAGE (npy has no columns). */
int score_file_open(const char *path, enum score_format format, const struct job *job, bool head,
                    struct score_file **out, struct err *e);
/* split_rows: rows of the whole input, also in a part. IO. */
int score_file_add(struct score_file *f, const struct scores *s, uint64_t split_rows,
                   struct err *e);
/* Completes the file: it is on disk under its name. EXISTS, IO, CANTCREATE. */
int score_file_finish(struct score_file *f, uint64_t split_rows, struct err *e);
/* Removes a file that is not finished. */
void score_file_free(struct score_file *f);

#endif
