/* feature_table.c: assigns fields to tables, and rules to fields.
 *
 * A field that shares another field's rows lies in that field's table: it need not be named, and no
 * other table may name it. */
#include "worker/data/feature_inner.h"

#include "proto/base/assert.h"

#include <stdio.h>
#include <string.h>

#define NO_TABLE UINT8_MAX
_Static_assert(LIMIT_JOB_TABLES < NO_TABLE, "a table's number fits in a byte");

int feature_table_named(const struct features *f, const struct feature_columns *c, const char *path,
                        const char *name, uint32_t *out, struct err *e)
{
    *out = feature_cross_named(f, name);
    if (*out != FEATURE_NO_FIELD)
        return 0;
    uint32_t column = feature_names_find(f, name);
    if (column == FEATURE_NO_COLUMN)
        return feature_names_missing(f, c->file, path, name, e);
    *out = c->field[column];
    if (*out == FEATURE_NO_FIELD)
        return err_set(e, SHOAL_E_CONFIG,
                       "%s names \"%s\", which is no field: make it a category, and name it in "
                       "features.fields where that "
                       "is a list",
                       path, name);
    SHOAL_ASSERT(*out < f->shape.fields);
    return 0;
}

static int fields_take(const struct job_table *t, size_t number, struct features *f,
                       const struct feature_columns *c, struct err *e)
{
    char path[64];
    uint32_t field;
    snprintf(path, sizeof path, "line %d: tables[%zu].fields", t->fields_line, number);
    for (size_t i = 0; i < t->fields.count; i++) {
        int rc = feature_table_named(f, c, path, t->fields.item[i], &field, e);
        if (rc != 0)
            return rc;
        if (f->shape.table[field] != NO_TABLE)
            return err_set(e, SHOAL_E_CONFIG,
                           "%s names \"%s\", a field that is named before; take one out", path,
                           t->fields.item[i]);
        f->shape.table[field] = (uint8_t)number;
    }
    return 0;
}

/* Assigns fields that no table names to the table that names no fields. */
static int rest_take(const struct job *job, struct features *f, struct err *e)
{
    size_t rest = 0;
    while (rest < job->table_count && job->table[rest].fields.count > 0)
        rest++;
    for (uint32_t i = 0; i < f->shape.fields; i++) {
        if (f->field[i].key_field != i || f->shape.table[i] != NO_TABLE)
            continue;
        char name[FEATURE_SHOWN];
        feature_use_shown(f, &f->field[i], name);
        if (rest == job->table_count)
            return err_set(e, SHOAL_E_CONFIG,
                           "line %d: tables: field \"%s\" is in none of them; name it in "
                           "`fields` of one, or take "
                           "`fields` away from the one that is for the rest",
                           job->table[0].fields_line, name);
        f->shape.table[i] = (uint8_t)rest;
    }
    return 0;
}

static int shared_follow(const struct job *job, struct features *f, struct err *e)
{
    for (uint32_t i = 0; i < f->shape.fields; i++) {
        uint32_t owner = f->field[i].key_field, table = f->shape.table[owner];
        char name[FEATURE_SHOWN], of[FEATURE_SHOWN];
        feature_use_shown(f, &f->field[i], name);
        feature_use_shown(f, &f->field[owner], of);
        if (f->shape.table[i] != NO_TABLE && f->shape.table[i] != table)
            return err_set(e, SHOAL_E_CONFIG,
                           "line %d: tables[%u].fields names \"%s\", which shares the rows of "
                           "\"%s\": those lie in "
                           "table %s; name both in one table, or leave the first out",
                           job->table[f->shape.table[i]].fields_line, f->shape.table[i], name, of,
                           job->table[table].name);
        f->shape.table[i] = (uint8_t)table;
    }
    return 0;
}

/* Checks that each of several tables has a field. */
static int tables_used(const struct job *job, const struct features *f, struct err *e)
{
    for (size_t t = 0; t < job->table_count && job->table_count > 1; t++) {
        uint32_t fields = 0;
        for (uint32_t i = 0; i < f->shape.fields; i++)
            fields += f->shape.table[i] == t;
        if (fields == 0)
            return err_set(
                e, SHOAL_E_CONFIG,
                "line %d: tables[%zu]: table %s has no field: all are in other tables; take it out",
                job->table[t].fields_line, t, job->table[t].name);
    }
    return 0;
}

/* ---- rules by field -------------------------------------------------------------------------- */

static int rule_take(const struct job *job, size_t number, const char *name, struct features *f,
                     const struct feature_columns *c, uint32_t *field, struct err *e)
{
    char path[64];
    snprintf(path, sizeof path, "tables[%zu].rules", number);
    int rc = feature_table_named(f, c, path, name, field, e);
    if (rc != 0)
        return rc;
    if (f->field[*field].key_field != *field)
        return err_set(e, SHOAL_E_CONFIG,
                       "%s names \"%s\", which shares the rows of another column: name that one",
                       path, name);
    if (f->shape.table[*field] != number)
        return err_set(e, SHOAL_E_CONFIG,
                       "%s names \"%s\", whose rows lie in table %s: give the rule there", path,
                       name, job->table[f->shape.table[*field]].name);
    return 0;
}

/* Rules in the order of tables and of the rules in each. A rule applies to a field of its own
 * table, so there are no more rules than fields, unless a field is named in two ways. */
static int rules_make(const struct job *job, struct features *f, const struct feature_columns *c,
                      struct err *e)
{
    uint32_t at = 0;
    for (size_t t = 0; t < job->table_count; t++) {
        uint32_t begin = at;
        for (size_t i = 0; i < job->table[t].rule_count; i++, at++) {
            const char *name = job->table[t].rule[i].field;
            uint32_t field;
            int rc = rule_take(job, t, name, f, c, &field, e);
            if (rc != 0)
                return rc;
            for (uint32_t k = begin; k < at; k++)
                if (f->shape.rule_field[k] == field)
                    return err_set(e, SHOAL_E_CONFIG,
                                   "tables[%zu].rules: there is a rule for \"%s\" already", t,
                                   name);
            SHOAL_ASSERT(at < f->shape.fields); /* a field has at most one rule, in its own table */
            f->shape.rule_field[at] = (uint16_t)field;
        }
    }
    f->rules = at;
    return 0;
}

int feature_tables_make(const struct job *job, struct features *f, const struct feature_columns *c,
                        struct err *e)
{
    int rc = 0;
    if (job->table_count == 0)
        return 0;
    f->tables = (uint32_t)job->table_count;
    memset(f->shape.table, NO_TABLE, sizeof f->shape.table);
    for (size_t t = 0; t < job->table_count && rc == 0; t++)
        rc = fields_take(&job->table[t], t, f, c, e);
    if (rc == 0)
        rc = rest_take(job, f, e);
    if (rc == 0)
        rc = shared_follow(job, f, e);
    if (rc == 0)
        rc = tables_used(job, f, e);
    if (rc == 0)
        rc = rules_make(job, f, c, e);
    for (uint32_t i = 0; i < f->shape.fields && rc == 0; i++)
        SHOAL_ASSERT(f->shape.table[i] < f->tables);
    for (uint32_t i = f->shape.fields; i < LIMIT_FIELDS; i++)
        f->shape.table[i] = 0;
    return rc;
}
