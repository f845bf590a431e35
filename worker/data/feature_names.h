/* feature_names.h: the parts of naming columns: by header, job and tables (feature_names.c), and
 * by the entries of many lines (feature_entries.c). */
#ifndef WORKER_DATA_FEATURE_NAMES_H
#define WORKER_DATA_FEATURE_NAMES_H

#include "worker/data/feature_inner.h"

/* Makes room for the names of so many columns, whose text together takes text_bytes. NOMEM. */
int feature_names_alloc(struct features *f, uint32_t columns, size_t text_bytes, struct err *e);
/* Names columns [first, end) prefix + number, at this place of f->text; returns the place behind
 * them. */
size_t feature_names_count(struct features *f, uint32_t first, uint32_t end, const char *prefix,
                           uint32_t number, size_t at);
/* Names one column, as feature_names_count does. */
size_t feature_names_text(struct features *f, uint32_t column, const char *name, size_t at);
/* Names all columns by their places. NOMEM. */
int feature_names_numbers(struct features *f, uint32_t columns, struct err *e);
/* The position that a name of digits gives, else FEATURE_NO_COLUMN. */
uint32_t feature_names_position(const char *name);

/* Names the columns of a format that looks at many lines. `work`: the head, which changes; NULL:
 * the tables define them. CONFIG, DATA, NOMEM. */
int feature_names_lines(struct features *f, const struct job *job, const char *file, char *work,
                        size_t bytes, struct err *e);
/* False: the tables have no fields; else what their entries are. */
bool feature_names_entries(const struct legend *n, enum entries *out);

#endif
