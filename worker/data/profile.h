/* profile.h: describes the training data before a job uses it: each field with its type and
 * statistics of a sample of the training split's lines, and notes on probable mistakes.
 *
 * No line shows such a mistake: an index of rows learnt as a category, a column that determines the
 * label, a file given twice. The job continues, and its report has the sentences as notes. Values
 * that would certainly be misread are refused: weighted values ("3:0.5|7:1.5") and Python lists
 * ("[3, 7]"). */
#ifndef WORKER_DATA_PROFILE_H
#define WORKER_DATA_PROFILE_H

#include "proto/base/json.h"
#include "worker/data/feature.h"
#include "worker/data/index.h"

#include <stdbool.h>

/* The profile of a text split, from a sample of its lines. The caller owns *out:
 *     {"rows", "whole", "fields": [{"name", "kind", "values", "empty", "examples"?, "least"?,
 *     "most"?}...], "over_lines"?, "notes": [sentence...], "tells"?}
 * rows: good rows in the sample; over_lines: of csv, those over several lines; whole: the sample is
 * the whole split; values: distinct values; empty: share of empty cells; least, most: range of
 * numbers; tells: the column that determines the label by itself. DATA: a column cannot be read as
 * its type. IO, CHECKSUM, NOMEM. */
int profile_make(const struct job *job, const struct source *s, const struct index *x,
                 const struct features *f, struct json **out, struct err *e);

/* The profile of `rows` rows of event files, which have keys and no texts: `examples`, `empty` of
 * numbers and notes on the spelling of values are missing. least and most are the numbers before
 * log1p, to six digits. Errors as events_open and events_read. */
int profile_make_events(const struct job *job, const struct source *s, uint64_t rows,
                        const struct features *f, struct json **out, struct err *e);

/* Adds a note for each kind of duplicate files: within data.train, or in it and an evaluation
 * split. Returns true when data.valid or data.test has files of data.train. */
bool profile_files(const struct job *job, struct json *notes);

#endif
