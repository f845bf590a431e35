/* score_file.h: predictions as a file: a line for each row of the input, in its order: the columns
 * passed on, then a score for each label. A malformed row has empty cells, "" where it would have
 * no character at all.
 *
 *     csv, tsv   a line of names first: of the columns, then "score", or of several labels
 *                score_LABEL; quoted as in RFC 4180. Scores have the digits that give back their
 *                bits (%.9g)
 *     npy        float32 (rows), or (rows, labels); NaN for a malformed row; no columns
 *
 * It is written beside its name, under one that nobody else has, and gets it when it is whole and
 * on disk; what is there already, or by then, is refused. "-": standard output. Thread: one at a
 * time. */
#ifndef WORKER_TRAIN_SCORE_FILE_H
#define WORKER_TRAIN_SCORE_FILE_H

#include "proto/job/job.h"
#include "proto/job/score_format.h"
#include "worker/train/evaluate.h"

struct score_file;

/* path and job: borrowed. head: with the names (npy: the header) first; a later part of a file has
 * none. EXISTS, CANTCREATE, USAGE (npy holds no columns). */
int score_file_open(const char *path, enum score_format format, const struct job *job, bool head,
                    struct score_file **out, struct err *e);
/* split_rows: of the whole input, whatever the part. IO. */
int score_file_add(struct score_file *f, const struct scores *s, uint64_t split_rows,
                   struct err *e);
/* It is whole: on disk under its name. EXISTS, IO, CANTCREATE. */
int score_file_finish(struct score_file *f, uint64_t split_rows, struct err *e);
/* Of one that is not finished nothing is left. */
void score_file_free(struct score_file *f);

#endif
