/* legend_inner.h: shared by legend.c (names, and their line in the job's text) and legend_match.c
 * (the numbers of a job's names in the tables). */
#ifndef PROTO_JOB_LEGEND_INNER_H
#define PROTO_JOB_LEGEND_INNER_H

#include "proto/job/legend.h"

extern const char *const legend_list_key[LEGEND_LISTS]; /* the lists' names in the line */

int legend_append(struct legend *n, enum legend_list list, const struct legend_name *x,
                  struct err *e); /* NOMEM */

/* legend_figures.c */
void legend_figures_free(struct legend *n);
int legend_figures_copy(const struct legend *from, struct legend *to, struct err *e); /* NOMEM */
void legend_figures_remove(struct legend *n, const char *name);
/* An object, "NAME": TEXT; NULL: there are no figures. */
struct json *legend_figures_json(const struct legend *n);
int legend_figures_parse(const struct json *j, struct legend *out, struct err *e); /* CONFIG */
/* Adds the figures of `was` that `is` does not have. CONFIG: a column of one rule has other figures
 * there. */
int legend_figures_match(const struct legend *was, struct legend *is, struct err *e);

/* legend_reading.c */
void legend_reading_free(struct legend *n);
int legend_reading_copy(const struct legend *from, struct legend *to, struct err *e); /* NOMEM */
struct json *legend_reading_json(const struct legend *n); /* an object; NULL: they are not known */
int legend_reading_parse(const struct json *j, struct legend *out, struct err *e); /* NOMEM */
/* How a field's `whole` differs, in words; NULL: it does not, or one of them is not known. */
const char *legend_whole_differs(const struct legend *was, const struct legend *is,
                                 const char *name);
/* The job's key whose words differ in any order; NULL: they do not, or one of them is not known. */
const char *legend_words_differ(const struct legend *was, const struct legend *is,
                                enum legend_reading which);

#define LEGEND_LOSS "model.loss" /* the job's key that makes a label a number */

#endif
