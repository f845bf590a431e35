/* feature_inner.h: the parts of making features: names of columns (feature_names.h), types of
 * columns (feature_types.c), what is made of columns (feature_made.c), which of them are used
 * (feature_choose.c), and the tables of fields (feature_table.c); of the names in the tables
 * (feature_legend.c); and of reading values: numbers and crosses (feature_scaled.c). */
#ifndef WORKER_DATA_FEATURE_INNER_H
#define WORKER_DATA_FEATURE_INNER_H

#include "proto/base/key.h"
#include "worker/data/bad_cell.h"
#include "worker/data/feature.h"

/* Fills f->name, f->text and f->columns for f->format from `head`, the header or first line of
 * `file`; NULL: from the tables' names (feature_names_known). f owns them, also on error. CONFIG,
 * DATA, NOMEM. */
int feature_names_make(struct features *f, const struct job *job, const char *file,
                       const char *head, size_t bytes, struct err *e);
/* Finds a column by name; a name of digits may also be a position. FEATURE_NO_COLUMN: there is
 * none. */
uint32_t feature_names_find(const struct features *f, const char *name);
/* CONFIG: the job's `key` names a column that `file` lacks; the message names the nearest
 * column. */
int feature_names_missing(const struct features *f, const char *file, const char *key,
                          const char *name, struct err *e);

/* The column among `those` (columns) whose name is nearest to that of `column`; FEATURE_NO_COLUMN:
 * none is near. */
uint32_t feature_names_near(const struct features *f, uint32_t column, const bool *those);

/* The type and use of each column, while the plan is made. */
struct feature_plan {
    const struct job *job;
    const char *file;             /* for messages */
    uint8_t *type;                /* (columns) enum column_type */
    const struct column **column; /* (columns) the job's, or NULL */
    uint32_t *field;              /* (columns): its field, or FEATURE_NO_FIELD */
};
/* Chooses the columns, indicators and crosses that the job uses and adds each as a field or a
 * number, in the order of their numbers in the tables. CONFIG, NOMEM. */
int feature_choose(struct feature_plan *p, struct features *f, struct err *e);
/* The number of a name in the tables; LEGEND_NONE: the tables do not know it. */
uint32_t feature_number_named(const struct feature_plan *p, bool numeric, const char *name);
/* The transform that the job gives a column of numbers. */
enum number_transform feature_transform(const struct feature_plan *p, uint32_t column);
/* The place of the column's scale in f->scale, which it adds once; FEATURE_PLAIN: it needs none.
 * Figures are those that the tables know, if they do. NOMEM. */
int feature_scale_add(const struct feature_plan *p, struct features *f, uint32_t column,
                      uint32_t *at, struct err *e);
/* Fills f->cross (job->features.cross_count), but for the fields. CONFIG, NOMEM. */
int feature_crosses_make(const struct feature_plan *p, struct features *f, struct err *e);
/* Words of kinds that are read back from the tables. */
#define KIND_ID "id"
#define KIND_MULTI "multi"
#define KIND_MULTI_ID "multi id"
#define KIND_WEIGHTED " weighted" /* behind both */
/* The word of libsvm entries by index: where 1 is the only one, its field is called as that of
 * `one`. */
#define WORD_INDEXES "indexes"
/* The kind of values that a field's keys or a number come of, as the tables have it (LEGEND_WHAT
 * bytes); without the field whose rows it shares. */
void feature_kind(const struct features *f, const struct feature_use *use, char out[LEGEND_WHAT]);
/* The hash of a cross' parts, where one is a number; 0: none is. */
uint32_t feature_cross_hash(const struct features *f, const struct feature_cross *x);
/* The name of a field or number in the tables: its column's, or that of a cross or indicator. */
void feature_use_name(const struct features *f, const struct feature_use *use,
                      char out[LEGEND_NAME]);
/* The same for messages, as the input has it. */
#define FEATURE_SHOWN (CROSS_PARTS * (LIMIT_NAME + 3))
void feature_use_shown(const struct features *f, const struct feature_use *use,
                       char out[FEATURE_SHOWN]);
/* The field of a cross with this name, or FEATURE_NO_FIELD. */
#define FEATURE_NO_FIELD UINT32_MAX
uint32_t feature_cross_named(const struct features *f, const char *name);
/* Fills p->type and p->column, and labels, weight and time of *f. CONFIG. */
int feature_types_make(struct feature_plan *p, struct features *f, struct err *e);

/* The key of a value. DATA: it is no id. */
static inline int feature_value_key(const struct features *f, const struct feature_use *use,
                                    const struct cell *value, uint64_t *key, char *reason)
{
    if (!use->id || value->bytes == 0) {
        *key = key_of_value(use->key_field, value->text, value->bytes);
        return 0;
    }
    if (key_of_id(use->key_field, value->text, value->bytes, key))
        return 0;

    return bad_cell(f, "no id, " KEY_ID_WORDS, use->column, value, "", reason);
}

/* Keys and weights of a MULTI's cell, and their number. `weight` NULL: not wanted. DATA. */
int feature_multi_keys(const struct features *f, uint32_t field, const struct cell *cells,
                       uint64_t *key, float *weight, uint32_t *count, char *reason);

/* The name of a column in the tables (proto/job/legend.h). */
void feature_column_name(const struct features *f, uint32_t column, char out[LEGEND_NAME]);

/* ---- values: feature_scaled.c ---- */

/* Reads the number of a cell that is not empty. DATA as features_example. */
int feature_number_cell(const struct features *f, const struct feature_use *use,
                        const struct cell *cell, double *out, char *reason);
/* The input of a number that has a scale, or of an indicator. DATA as features_example. */
int feature_scaled(const struct features *f, const struct feature_use *use, const struct cell *cell,
                   float *out, char *reason);
/* The key of a cross. DATA as features_example. */
int feature_cross_key(const struct features *f, const struct feature_use *use,
                      const struct cell *cells, uint64_t *key, char *reason);
/* The text that names the bucket of x; returns its length. */
#define FEATURE_BUCKET_TEXT 12u
uint32_t feature_bucket_text(const struct features *f, const struct feature_use *use, double x,
                             char out[FEATURE_BUCKET_TEXT]);

/* The columns of an input while features are made of them. */
struct feature_columns {
    const char *file;      /* for messages */
    const uint32_t *field; /* (columns): its field, or FEATURE_NO_FIELD */
};

/* Finds the field of the column `name` that the job's key `path` names. CONFIG. */
int feature_table_named(const struct features *f, const struct feature_columns *c, const char *path,
                        const char *name, uint32_t *out, struct err *e);
/* Fills shape.table and shape.rule_field: a table has the fields that it names (job_table.fields);
 * at most one table names none and takes the rest. Fields that share rows lie in one table. Called
 * once all fields are known; fills key_field too. CONFIG. */
int feature_tables_make(const struct job *job, struct features *f, const struct feature_columns *c,
                        struct err *e);

#endif
