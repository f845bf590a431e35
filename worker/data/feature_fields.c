/* feature_fields.c: fields by name, and the keys of their values, for tools that know values and no
 * keys. */
#include "worker/data/feature_inner.h"

#include "proto/base/assert.h"
#include "proto/base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void feature_field_name(const struct features *f, uint32_t i, char out[LIMIT_NAME])
{
    char name[FEATURE_SHOWN];
    SHOAL_ASSERT(i < f->shape.fields && f->field[i].column < f->columns);
    feature_use_shown(f, &f->field[i], name);
    snprintf(out, LIMIT_NAME, "%.*s", (int)LIMIT_NAME - 1, name);
}

int feature_field_find(const struct features *f, const char *name, uint32_t *out, struct err *e)
{
    char *end, names[256] = "", one[LIMIT_NAME];
    for (uint32_t i = 0; i < f->shape.fields; i++) {
        feature_field_name(f, i, one);
        if (strcmp(one, name) == 0) {
            *out = i;
            return 0;
        }
        size_t n = strlen(names);
        snprintf(names + n, sizeof names - n, "%s%s", text_if(n > 0, ", "), one);
    }
    unsigned long number = strtoul(name, &end, 10);
    for (uint32_t i = 0; end != name && *end == '\0' && i < f->shape.fields; i++)
        if (number == f->shape.number[i]) {
            *out = i;
            return 0;
        }
    return err_set(e, SHOAL_E_NOT_FOUND, "the job has no field %s; its fields are: %s", name,
                   names);
}

/* The key of a value in a field with this number. */
static int value_key(uint32_t number, const char *name, bool id, const char *value, uint64_t *key,
                     struct err *e)
{
    *key = key_of_value(number, value, strlen(value));
    if (!id || *value == 0 || key_of_id(number, value, strlen(value), key))
        return 0;
    return err_set(e, SHOAL_E_DATA, "%s is no id of field %s: that is " KEY_ID_WORDS, value, name);
}

/* The key of "a x b" in a cross: the values of its columns, of bucketed numbers the numbers. */
static int cross_value_key(const struct features *f, const struct feature_use *use,
                           const char *name, const char *value, uint64_t *key, struct err *e)
{
    char reason[REASON_BYTES];
    if (use->at == FEATURE_PLAIN)
        return err_set(e, SHOAL_E_CONFIG,
                       "field %s was crossed as its event files were made: the job of their log "
                       "has its columns",
                       name);
    const struct feature_cross *x = &f->cross[use->at];
    struct feature_use own = *use;
    struct features one = *f;
    struct feature_cross cross = *x;
    struct cell cell[CROSS_PARTS];
    for (uint32_t i = 0; i < x->parts; i++) {
        const char *end = i + 1 < x->parts ? strstr(value, " x ") : value + strlen(value);
        if (end == NULL)
            return err_set(e, SHOAL_E_DATA,
                           "%s has values of %u columns: give them as in \"shop x 12\"", name,
                           x->parts);
        cell[i] = (struct cell){value, (uint32_t)(end - value)};
        value = i + 1 < x->parts ? end + 3 : end;
        cross.part[i].column = (uint16_t)i;
        if (cross.part[i].at != FEATURE_PLAIN && !f->scale[cross.part[i].at].known)
            return err_set(e, SHOAL_E_CONFIG, "the borders of a column of %s are not known", name);
    }
    one.cross = &cross;
    one.crosses = 1;
    own.at = 0;
    if (feature_cross_key(&one, &own, cell, key, reason) != 0)
        return err_set(e, SHOAL_E_DATA, "%s", reason);
    return 0;
}

int feature_field_key(const struct features *f, uint32_t field, const char *value, uint64_t *key,
                      struct err *e)
{
    SHOAL_ASSERT(field < f->shape.fields);
    const struct feature_use *use = &f->field[field];
    struct cell cell = {value, (uint32_t)strlen(value)};
    char text[FEATURE_BUCKET_TEXT], name[LIMIT_NAME];
    double x;
    feature_field_name(f, field, name);
    if (use->type == COLUMN_CROSS)
        return cross_value_key(f, use, name, value, key, e);
    if (use->type != COLUMN_NUMBER || cell.bytes == 0) /* an empty cell has a bucket of its own */
        return value_key(use->key_field, name, use->id, value, key, e);
    if (!feature_number(&cell, &x))
        return err_set(e, SHOAL_E_DATA,
                       "%s is no number, and field %u is one: its transform is bucket", value,
                       f->shape.number[field]);
    if (use->at != FEATURE_PLAIN && !f->scale[use->at].known)
        return err_set(e, SHOAL_E_CONFIG,
                       "the borders of field %s are taken from the data as its first job begins, "
                       "and these tables do not have them",
                       name);
    *key = key_of_value(use->key_field, text, feature_bucket_text(f, use, x, text));
    return 0;
}

/* A field that the tables have from a former job; NULL: none. */
static const struct legend_name *gone_find(const struct legend *n, const char *name)
{
    char *end;
    unsigned long number = strtoul(name, &end, 10);
    uint32_t at = legend_find(n, LEGEND_FIELDS, name);
    for (uint32_t i = 0; at == LEGEND_NONE && *end == 0 && i < n->count[LEGEND_FIELDS]; i++)
        if (n->name[LEGEND_FIELDS][i].number == number)
            at = i;

    if (at == LEGEND_NONE || n->name[LEGEND_FIELDS][at].here)
        return NULL;

    return &n->name[LEGEND_FIELDS][at];
}

int feature_known_key(const struct legend_name *x, const char *value, uint64_t *key, struct err *e)
{
    const char *what = x->what;
    bool id = strcmp(what, KIND_ID) == 0 || strcmp(what, KIND_MULTI_ID) == 0 ||
              strcmp(what, KIND_MULTI_ID KIND_WEIGHTED) == 0;
    if (!id && strcmp(what, "category") != 0 && strcmp(what, KIND_MULTI) != 0 &&
        strcmp(what, KIND_MULTI KIND_WEIGHTED) != 0)
        return SHOAL_E_NOT_FOUND;
    return value_key(x->number, x->name, id, value, key, e);
}

int feature_gone_key(const struct legend *n, const char *name, const char *value, uint64_t *key,
                     struct err *e)
{
    const struct legend_name *x = gone_find(n, name);
    return x == NULL ? SHOAL_E_NOT_FOUND : feature_known_key(x, value, key, e);
}

static void gone_json(const struct legend *n, struct json *list)
{
    for (uint32_t i = 0; i < n->count[LEGEND_FIELDS]; i++) {
        const struct legend_name *x = &n->name[LEGEND_FIELDS][i];
        if (x->here)
            continue;
        struct json *j = json_new_object();
        json_set_string(j, "name", x->name);
        json_set_int(j, "field", x->number);
        json_set_string(j, "kind", x->what);
        json_set_bool(j, "gone", true);
        json_append(list, j);
    }
}

struct json *feature_fields_json(const struct features *f, const struct legend *n)
{
    struct json *list = json_new_array();
    char name[LIMIT_NAME], kind[LEGEND_WHAT];
    for (uint32_t i = 0; i < f->shape.fields; i++) {
        const struct feature_use *use = &f->field[i];
        struct json *j = json_new_object();
        feature_field_name(f, i, name);
        json_set_string(j, "name", name);
        json_set_int(j, "field", f->shape.number[i]);
        json_set_int(j, "key_field", use->key_field);
        feature_kind(f, use, kind);
        json_set_string(j, "kind", kind);
        json_append(list, j);
    }
    gone_json(n, list);
    return list;
}
