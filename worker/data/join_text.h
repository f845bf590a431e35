/* join_text.h: the impressions of a split with their labels, as a file of text that stands in their
 * place: made once, in the cache folder, and found again.
 *
 *     GROUP-IDENTITY.joined     the text (join_out.h)
 *     GROUP-IDENTITY.counts     struct join_counts
 *     GROUP-IDENTITY.join/      while it is made: text; state, the last checkpoint (join_saved.h)
 *
 * Killed, the next one of the same input goes on at the last checkpoint, with the same bytes. One
 * process of a machine makes it, others wait. Where an input is a stream, or there are no locks, it
 * is made in a file without a name, for this process alone. */
#ifndef WORKER_DATA_JOIN_TEXT_H
#define WORKER_DATA_JOIN_TEXT_H

#include "proto/base/json.h"
#include "worker/data/join.h"
#include "worker/data/source.h"

/* s, the impressions, becomes the joined text. learn: late clicks, if the job says so. CONFIG (a
 * column is missing), DATA (more than data.max_bad of the rows of a kind are bad), CHECKSUM (the
 * input changed), and as source_open, cache_create, join_until. */
int join_text(const struct job *job, bool learn, const struct cache *cache, struct source *s,
              struct join_counts *counts, struct err *e);
/* *out: the files have the label's column, and are not to be joined. As lines_next. */
int join_text_labelled(const struct job *job, const struct source *s, bool *out, struct err *e);
/* The header of impressions becomes that of the joined text: *line is malloc's. NOMEM. */
int join_text_head(const struct job *job, char **line, size_t *bytes, struct err *e);
/* By name; NULL: no memory. */
struct json *join_text_json(const struct join_counts *n);
/* A sentence on what looks wrong, or empty. */
void join_text_judge(const struct join_counts *n, char *out, size_t bytes);

#endif
