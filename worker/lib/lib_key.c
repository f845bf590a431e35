/* lib_key.c: keys of values. The names that the tables know are enough for a category or an id; a
 * key of another field (a bucket, rows that fields share, a cross) needs the job's features.
 *
 * The job's text came from the coordinator, and may name files and commands. None of them is opened
 * or run here: a program that asks for a key has not agreed to that.
 * [test: a_key_never_runs_what_the_job_names] */
#include "proto/base/text.h"
#include "worker/data/feature.h"
#include "worker/lib/lib_error.h"
#include "worker/lib/lib_fleet.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VALUE_BYTES 4096u

void lib_fleet_features_free(struct shoal_fleet *f)
{
    if (f->features != NULL)
        features_free(f->features);
    free(f->features);
    f->features = NULL;
}

/* Makes the features of the job that made the tables, once. */
static int features_take(struct shoal_fleet *f, struct err *e)
{
    if (f->features != NULL)
        return 0;
    if (!feature_names_known(&f->job))
        return err_set(e, SHOAL_E_CONFIG,
                       "shoal_fleet_key: the tables' names do not define this field's keys, and "
                       "the input of their job is not read for it: take the keys from batches of "
                       "the job file (shoal_read_open)");
    struct features *kept = calloc(1, sizeof *kept);
    if (kept == NULL)
        return err_set(e, SHOAL_E_NOMEM, "out of memory");
    int rc = features_make(&f->job, "the tables", NULL, 0, kept, e);
    if (rc != 0) {
        free(kept);
        return err_wrap(e, SHOAL_E_CONFIG,
                        "shoal_fleet_key: the tables' names do not define this field's keys");
    }
    f->features = kept;
    return 0;
}

static int by_features(struct shoal_fleet *f, uint32_t table, const char *field, const char *value,
                       uint64_t *key, struct err *e)
{
    uint32_t at;
    int rc = features_take(f, e);
    if (rc == 0)
        rc = feature_field_find(f->features, field, &at, e);
    if (rc != 0)
        return rc;
    const uint32_t is = f->features->shape.table[at];
    if (is != table)
        return err_set(e, SHOAL_E_NOT_FOUND, "the rows of field %s are in table %s, not in %s",
                       field, f->schema[is].name, f->schema[table].name);
    return feature_field_key(f->features, at, value, key, e);
}

static int field_unknown(const struct legend *n, const char *field, struct err *e)
{
    char names[256] = "";
    for (uint32_t i = 0; i < n->count[LEGEND_FIELDS]; i++) {
        const size_t at = strlen(names);
        (void)snprintf(names + at, sizeof names - at, "%s%s", text_if(at > 0, ", "),
                       n->name[LEGEND_FIELDS][i].name);
    }
    return err_set(e, SHOAL_E_NOT_FOUND, "the tables have no field %.80s; their fields are: %s",
                   field, names);
}

static int key_find(struct shoal_fleet *f, uint32_t table, const char *field, const char *value,
                    uint64_t *key, struct err *e)
{
    const struct legend *n = &f->job.legend;
    char name[LEGEND_NAME];
    if (!legend_known(n))
        return by_features(f, table, field, value, key, e);
    legend_write(field, strlen(field), 1, name);
    const uint32_t at = legend_find(n, LEGEND_FIELDS, name);
    if (at == LEGEND_NONE)
        return field_unknown(n, field, e);
    const struct legend_name *x = &n->name[LEGEND_FIELDS][at];
    if (strcmp(x->table, f->schema[table].name) != 0)
        return err_set(e, SHOAL_E_NOT_FOUND, "the rows of field %s are in table %s, not in %s",
                       x->name, x->table, f->schema[table].name);
    int rc = feature_known_key(x, value, key, e);
    if (rc == SHOAL_E_NOT_FOUND)
        return by_features(f, table, field, value, key, e);
    return rc;
}

int shoal_fleet_key(const shoal_fleet *fleet, uint32_t table, const char *field, const char *value,
                    size_t bytes, uint64_t *key, struct shoal_error *e)
{
    struct shoal_fleet *f =
        (struct shoal_fleet *)fleet; /* its features are made at the first need */
    char text[VALUE_BYTES];
    struct err own = {0};
    if (table >= f->sparse)
        return lib_error_set(e, SHOAL_ERROR_USAGE,
                             "shoal_fleet_key: the fleet has %u tables, so none of index %u",
                             f->sparse, table);
    if (field == NULL || key == NULL || (value == NULL && bytes > 0))
        return lib_error_set(e, SHOAL_ERROR_USAGE,
                             "shoal_fleet_key: field, value or key is missing");
    if (bytes >= sizeof text || (bytes > 0 && memchr(value, '\0', bytes) != NULL))
        return lib_error_set(
            e, SHOAL_ERROR_DATA,
            "shoal_fleet_key: a value of %zu bytes, or with a zero byte, stands in no "
            "input: at most %u bytes",
            bytes, VALUE_BYTES - 1);
    if (bytes > 0)
        memcpy(text, value, bytes);
    text[bytes] = '\0';
    own.code = lib_fleet_job(f, "shoal_fleet_key", &own);
    if (own.code == 0)
        own.code = key_find(f, table, field, text, key, &own);
    return lib_error(e, &own);
}
