/* feature_names.h: what the columns of an input are called, and finding one by its name. Inside of
 * feature.h. */
#ifndef WORKER_DATA_FEATURE_NAMES_H
#define WORKER_DATA_FEATURE_NAMES_H

#include "worker/data/feature.h"

/* Fills f->name, f->text and f->columns for f->format, from the header or first line `head` of
 * `file`. f owns them, also on error. CONFIG, DATA, NOMEM. */
int feature_names_make(struct features *f, const struct job *job, const char *file,
                       const char *head, size_t bytes, struct err *e);
/* The column of this name; one that is all digits may also be a position. FEATURE_NO_COLUMN when
 * there is none. */
uint32_t feature_names_find(const struct features *f, const char *name);
/* CONFIG: `key` of the job names a column that `file` has not; says which is the nearest. */
int feature_names_missing(const struct features *f, const char *file, const char *key,
                          const char *name, struct err *e);

#endif
