/* feature_table.h: which table each field's rows lie in. Inside of feature.h. */
#ifndef WORKER_DATA_FEATURE_TABLE_H
#define WORKER_DATA_FEATURE_TABLE_H

#include "worker/data/feature.h"

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
