/* profile.h: what a job learns from, told before it does: each field with its type and what a
 * sample of the training split's lines shows of it, and what is likely to be a mistake there.
 *
 * Such mistakes are no error of any line: an index of rows learnt as a category, a column that
 * tells the label, a file given twice. The job goes on with them; its report has the sentences as
 * notes. What can only be read wrongly is refused: weights of values ("3:0.5|7:1.5"), lists as
 * Python writes them ("[3, 7]"). */
#ifndef WORKER_DATA_PROFILE_H
#define WORKER_DATA_PROFILE_H

#include "proto/base/json.h"
#include "worker/data/feature.h"
#include "worker/data/index.h"

#include <stdbool.h>

/* The profile of a split of text, from a sample of its lines. The caller owns *out:
 *     {"rows", "whole", "fields": [{"name", "kind", "values", "empty", "examples"?, "least"?,
 *     "most"?}...], "notes": [sentence...], "tells"?}
 * rows: good lines looked at; whole: all there are; values: that differ in them; empty: share of
 * cells; least, most: of numbers; tells: the column that alone tells the label. DATA: a column
 * cannot be read as it is meant. IO, CHECKSUM, NOMEM. */
int profile_make(const struct job *job, const struct source *s, const struct index *x,
                 const struct features *f, struct json **out, struct err *e);

/* The same of `rows` rows of event files, which keep keys and no texts: `examples` are missing, and
 * of numbers `empty`; least and most are those that log1p was taken of, to six digits. Notes on how
 * values are written are missing too. As events_open, events_read. */
int profile_make_events(const struct job *job, const struct source *s, uint64_t rows,
                        const struct features *f, struct json **out, struct err *e);

/* Adds a sentence for each kind of files that a job should not have twice: in data.train, or in it
 * and in what is evaluated. Whether data.valid or data.test has files of data.train. */
bool profile_files(const struct job *job, struct json *notes);

#endif
