/* feature_inner.h: how features are made: what the columns are called (feature_names.c), what they
 * are (feature_types.c), and which table a field's rows lie in (feature_table.c). */
#ifndef WORKER_DATA_FEATURE_INNER_H
#define WORKER_DATA_FEATURE_INNER_H

#include "worker/data/feature.h"

/* Fills f->name, f->text and f->columns for f->format, from the header or first line `head` of
 * `file`; NULL: by what the tables call the job's columns (feature_names_known). f owns them, also
 * on error. CONFIG, DATA, NOMEM. */
int feature_names_make(struct features *f, const struct job *job, const char *file,
                       const char *head, size_t bytes, struct err *e);
/* The column of this name; one that is all digits may also be a position. FEATURE_NO_COLUMN when
 * there is none. */
uint32_t feature_names_find(const struct features *f, const char *name);
/* CONFIG: `key` of the job names a column that `file` has not; says which is the nearest. */
int feature_names_missing(const struct features *f, const char *file, const char *key,
                          const char *name, struct err *e);

/* While planning: what each column is. */
struct feature_plan {
    const struct job *job;
    const char *file;             /* for messages */
    uint8_t *type;                /* (columns) enum column_type */
    const struct column **column; /* (columns) the job's, or NULL */
    uint32_t *field;              /* (columns) the field that it is, or FEATURE_NO_FIELD */
};
/* Fills p->type and p->column, and what of *f is no field: labels, weight, time. CONFIG. */
int feature_types_make(struct feature_plan *p, struct features *f, struct err *e);

/* What tables call a column by (proto/job/legend.h). */
void feature_column_name(const struct features *f, uint32_t column, char out[LEGEND_NAME]);

#define FEATURE_NO_FIELD UINT32_MAX

/* The columns of an input while features are made of them. */
struct feature_columns {
    const char *file;      /* for messages */
    const uint32_t *field; /* (columns) the field that it is, or FEATURE_NO_FIELD */
};

/* The field of the column `name`, which the job's key `path` names. CONFIG. */
int feature_table_named(const struct features *f, const struct feature_columns *c, const char *path,
                        const char *name, uint32_t *out, struct err *e);
/* Fills shape.table and shape.rule_field: a table has the fields that it names (job_table.fields),
 * one table may take those that none names. Fields that share rows lie in one table. Once all
 * fields are known, key_field too. CONFIG. */
int feature_tables_make(const struct job *job, struct features *f, const struct feature_columns *c,
                        struct err *e);

#endif
