/* job_data.c: data and features of job.yaml: the input's files, its labels, its columns, and what
 * becomes of them.
 *
 * A column may stand on another one (share, attend), which may come later in the list, so these are
 * checked when all columns are known. Whether the input has such columns is found when it is
 * opened. */
#include "proto/job/job_inner.h"

#include "proto/base/assert.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int character_take(const struct config *c, const char *path, char *out, struct err *e)
{
    const char *s = config_string(c, path);
    *out = strcmp(s, "\\t") == 0 || strcmp(s, "tab") == 0 ? '\t' : s[0];
    if (s[0] != '\\' && strcmp(s, "tab") != 0 && strlen(s) != 1)
        return err_set(e, SHOAL_E_CONFIG, "line %d: %s must be one character, or tab",
                       config_line(c, path), path);
    return 0;
}

/* The column that `key` (share, attend) of column i names; another one, that can be a field. */
static int other_column(const struct config *c, const struct job *j, size_t i, const char *key,
                        const char *name, const struct column **out, struct err *e)
{
    char path[96];
    (void)snprintf(path, sizeof path, "data.columns[%zu].%s", i, key);
    *out = NULL;
    for (size_t k = 0; k < j->data.column_count; k++)
        if (strcmp(j->data.column[k].name, name) == 0)
            *out = &j->data.column[k];
    if (*out == NULL)
        return err_set(e, SHOAL_E_CONFIG, "line %d: %s: data.columns has no column %s",
                       config_line(c, path), path, name);
    if (*out == &j->data.column[i])
        return err_set(e, SHOAL_E_CONFIG, "line %d: %s names the column itself",
                       config_line(c, path), path);
    if ((*out)->type == COLUMN_SKIP || (*out)->type == COLUMN_LABEL)
        return err_set(e, SHOAL_E_CONFIG, "line %d: %s: column %s is %s, not a field",
                       config_line(c, path), path, name,
                       (*out)->type == COLUMN_LABEL ? "a label" : "skipped");
    return 0;
}

static int share_check(const struct config *c, const struct job *j, size_t i, struct err *e)
{
    const struct column *other, *k = &j->data.column[i];
    char path[96];
    if (k->share[0] == '\0')
        return 0;
    int rc = other_column(c, j, i, "share", k->share, &other, e);
    (void)snprintf(path, sizeof path, "data.columns[%zu].share", i);
    if (rc == 0 && other->share[0] != '\0')
        rc = err_set(e, SHOAL_E_CONFIG,
                     "line %d: %s: column %s itself shares with %s: name that one",
                     config_line(c, path), path, k->share, other->share);
    return rc;
}

static int attend_check(const struct config *c, const struct job *j, size_t i, struct err *e)
{
    const struct column *other, *k = &j->data.column[i];
    char path[96];
    bool attention = k->pooling == POOL_ATTENTION;
    (void)snprintf(path, sizeof path, "data.columns[%zu].%s", i, attention ? "pooling" : "attend");
    if (attention != (k->attend[0] != '\0'))
        return err_set(
            e, SHOAL_E_CONFIG,
            "line %d: %s: pooling attention and attend (the column of the target) belong together",
            config_line(c, path), path);
    if (!attention)
        return 0;
    if (k->type != COLUMN_MULTI)
        return err_set(e, SHOAL_E_CONFIG, "line %d: %s: attention is for columns of type multi",
                       config_line(c, path), path);
    int rc = other_column(c, j, i, "attend", k->attend, &other, e);
    (void)snprintf(path, sizeof path, "data.columns[%zu].attend", i);
    if (rc == 0 && other->type == COLUMN_MULTI)
        rc = err_set(e, SHOAL_E_CONFIG,
                     "line %d: %s: column %s has several values, a target has one",
                     config_line(c, path), path, k->attend);
    return rc;
}

/* Columns that stand on other columns, which may come later in the list. */
static int columns_check(const struct config *c, const struct job *j, struct err *e)
{
    char path[96];
    int rc = 0;
    for (size_t i = 0; i < j->data.column_count && rc == 0; i++) {
        (void)snprintf(path, sizeof path, "data.columns[%zu].max", i);
        if (j->data.column[i].max > 0 && j->data.column[i].type != COLUMN_MULTI)
            rc = err_set(e, SHOAL_E_CONFIG, "line %d: %s is for columns of type multi",
                         config_line(c, path), path);
        if (rc == 0)
            rc = share_check(c, j, i, e);
        if (rc == 0)
            rc = attend_check(c, j, i, e);
    }
    return rc;
}

static int columns_take(const struct config *c, struct job *j, struct err *e)
{
    char path[96];
    int rc = 0;
    j->data.column_count = config_count(c, "data.columns");
    if (j->data.column_count == 0)
        return 0;
    if (j->data.column_count > LIMIT_FIELDS + LIMIT_NUMERIC)
        return err_set(e, SHOAL_E_CONFIG, "data.columns: at most %u", LIMIT_FIELDS + LIMIT_NUMERIC);
    j->data.column = calloc(j->data.column_count, sizeof *j->data.column);
    if (j->data.column == NULL)
        return err_set(e, SHOAL_E_NOMEM, "out of memory");
    for (size_t i = 0; i < j->data.column_count && rc == 0; i++) {
        struct column *k = &j->data.column[i];
        (void)snprintf(path, sizeof path, "data.columns[%zu].name", i);
        rc = job_name_take(c, path, "", k->name, e);
        (void)snprintf(path, sizeof path, "data.columns[%zu].type", i);
        k->type = (enum column_type)config_enum(c, path);
        (void)snprintf(path, sizeof path, "data.columns[%zu].pooling", i);
        k->pooling = (enum pooling)config_enum(c, path);
        (void)snprintf(path, sizeof path, "data.columns[%zu].separator", i);
        if (rc == 0)
            rc = character_take(c, path, &k->separator, e);
        (void)snprintf(path, sizeof path, "data.columns[%zu].max", i);
        k->max = (uint32_t)config_int(c, path);
        (void)snprintf(path, sizeof path, "data.columns[%zu].share", i);
        if (rc == 0 && config_has(c, path))
            rc = job_name_take(c, path, "", k->share, e);
        (void)snprintf(path, sizeof path, "data.columns[%zu].attend", i);
        if (rc == 0 && config_has(c, path))
            rc = job_name_take(c, path, "", k->attend, e);
    }
    return rc != 0 ? rc : columns_check(c, j, e);
}

static int labels_take(const struct config *c, struct job *j, struct err *e)
{
    struct string_list labels = {0};
    int rc = 0;
    if (config_list(c, "data.label", &labels) != 0)
        return err_set(e, SHOAL_E_NOMEM, "out of memory");
    if (labels.count > LIMIT_TASKS)
        rc = err_set(e, SHOAL_E_CONFIG, "line %d: data.label: at most %u labels",
                     config_line(c, "data.label"), LIMIT_TASKS);
    for (size_t i = 0; i < labels.count && rc == 0; i++) {
        if (strlen(labels.item[i]) >= LIMIT_NAME || labels.item[i][0] == '\0')
            rc = err_set(e, SHOAL_E_CONFIG, "line %d: data.label: a name must have 1 to %u bytes",
                         config_line(c, "data.label"), LIMIT_NAME - 1);
        (void)snprintf(j->data.label[i], LIMIT_NAME, "%s", labels.item[i]);
    }
    j->data.label_count = (uint32_t)labels.count;
    if (labels.count == 0) {
        j->data.label_count = 1;
        (void)snprintf(j->data.label[0], LIMIT_NAME, "0");
    }
    config_list_free(&labels);
    return rc;
}

int job_data_take(const struct config *c, struct job *j, struct err *e)
{
    SHOAL_ASSERT(j->table == NULL && j->features.fields.count == 0); /* job.c, 1 */
    if (!config_has(c, "data.train"))
        return err_set(e, SHOAL_E_CONFIG, "data.train is missing: name the files to train on");
    j->data.format = (enum data_format)config_enum(c, "data.format");
    if (config_list(c, "data.train", &j->data.train) != 0 ||
        config_list(c, "data.valid", &j->data.valid) != 0 ||
        config_list(c, "data.test", &j->data.test) != 0)
        return err_set(e, SHOAL_E_NOMEM, "out of memory");
    if (j->data.train.count == 0)
        return err_set(e, SHOAL_E_CONFIG,
                       "line %d: data.train is empty: name the files to train on",
                       config_line(c, "data.train"));
    j->data.negatives = config_float(c, "data.negatives");
    if (config_has(c, "data.weight") && job_name_take(c, "data.weight", "", j->data.weight, e) != 0)
        return SHOAL_E_CONFIG;
    if (config_has(c, "data.time") && job_name_take(c, "data.time", "", j->data.time, e) != 0)
        return SHOAL_E_CONFIG;
    j->data.time_unit = (enum time_unit)config_enum(c, "data.time_unit");
    j->data.label_above = config_float(c, "data.label_above");
    j->data.header = config_bool(c, "data.header");
    j->data.max_bad = config_float(c, "data.max_bad");
    j->data.shuffle = config_bool(c, "data.shuffle");
    (void)snprintf(j->data.cache, sizeof j->data.cache, "%s", config_string(c, "data.cache"));
    int rc = character_take(c, "data.delimiter", &j->data.delimiter, e);
    if (rc == 0)
        rc = labels_take(c, j, e);
    if (rc == 0 && j->data.negatives < 1 && j->data.label_count > 1)
        rc =
            err_set(e, SHOAL_E_CONFIG,
                    "line %d: data.negatives is for one label, data.label names %u: a line is left "
                    "out only where no label is "
                    "positive, so no constant corrects the predictions of a task; leave it out",
                    config_line(c, "data.negatives"), j->data.label_count);
    return rc != 0 ? rc : columns_take(c, j, e);
}

int job_features_take(const struct config *c, struct job *j, struct err *e)
{
#define NUMBER(KIND, name, number) [DATA_##KIND] = number,
    static const enum number_transform of_format[] = {DATA_FORMATS(NUMBER)};
#undef NUMBER
    if (config_list(c, "features.fields", &j->features.fields) != 0)
        return err_set(e, SHOAL_E_NOMEM, "out of memory");
    if (j->features.fields.count == 1 && strcmp(j->features.fields.item[0], "auto") == 0)
        config_list_free(&j->features.fields);
    j->features.fields_auto = j->features.fields.count == 0;
    j->features.number =
        (enum number_transform)config_enum_or(c, "features.number", (int)of_format[j->data.format]);
    return 0;
}
