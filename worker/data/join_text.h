/* join_text.h: the impressions of a split with their labels, as a text file that replaces them. It
 * is made once, in the cache folder, and found again.
 *
 *     GROUP-IDENTITY.joined     the text (join_out.h)
 *     GROUP-IDENTITY.counts     struct join_counts
 *     GROUP-IDENTITY.join/      while it is made: text; state, the last checkpoint (join_saved.h)
 *
 * After a kill, the next process with the same input resumes at the last checkpoint and writes the
 * same bytes. One process of a machine makes the text while others wait. If an input is a stream,
 * or locks do not work, the text is made in a nameless file for this process alone. */
#ifndef WORKER_DATA_JOIN_TEXT_H
#define WORKER_DATA_JOIN_TEXT_H

#include "proto/base/json.h"
#include "worker/data/join.h"
#include "worker/data/source.h"

/* Replaces s, the impressions, by the joined text. `learn` follows data.join's rule for late
 * clicks. CONFIG (a column is missing), DATA (more than data.max_bad of a kind's rows are bad),
 * CHECKSUM (the input changed), and the errors of source_open, cache_create, join_until. */
int join_text(const struct job *job, bool learn, const struct cache *cache, struct source *s,
              struct join_counts *counts, struct err *e);
/* *out: the files have the label's column and need no join. Errors as lines_next. */
int join_text_labelled(const struct job *job, const struct source *s, bool *out, struct err *e);
/* Replaces the header of impressions by that of the joined text, from malloc. NOMEM. */
int join_text_head(const struct job *job, char **line, size_t *bytes, struct err *e);
/* The counts by name; NULL: no memory. */
struct json *join_text_json(const struct join_counts *n);
/* A sentence about suspicious counts, or "". */
void join_text_judge(const struct join_counts *n, char *out, size_t bytes);

#endif
