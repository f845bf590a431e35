/* fields.c: fields by name. */
#include "worker/data/fields.h"

#include "proto/base/key.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void fields_name(const struct features *f, uint32_t i, char out[LIMIT_NAME])
{
    const struct cell *name = &f->name[f->field[i].column];
    snprintf(out, LIMIT_NAME, "%.*s",
             (int)(name->bytes < LIMIT_NAME ? name->bytes : LIMIT_NAME - 1), name->text);
}

int fields_find(const struct features *f, const char *name, uint32_t *out, struct err *e)
{
    char *end, names[256] = "", one[LIMIT_NAME];
    for (uint32_t i = 0; i < f->shape.fields; i++) {
        fields_name(f, i, one);
        if (strcmp(one, name) == 0) {
            *out = i;
            return 0;
        }
        size_t n = strlen(names);
        snprintf(names + n, sizeof names - n, "%s%s", n > 0 ? ", " : "", one);
    }
    unsigned long number = strtoul(name, &end, 10);
    if (end != name && *end == '\0' && number < f->shape.fields) {
        *out = (uint32_t)number;
        return 0;
    }
    return err_set(e, SHOAL_E_NOT_FOUND, "the job has no field %s; its fields are: %s", name,
                   names);
}

int fields_key(const struct features *f, uint32_t field, const char *value, uint64_t *key,
               struct err *e)
{
    const struct feature_use *use = &f->field[field];
    struct cell cell = {value, (uint32_t)strlen(value)};
    char text[8];
    double x;
    *key = key_of_value(use->key_field, value, strlen(value));
    if (use->type != COLUMN_NUMBER || cell.bytes == 0) /* an empty cell is a bucket of its own */
        return 0;
    if (!feature_number(&cell, &x))
        return err_set(e, SHOAL_E_DATA,
                       "%s is no number, and field %u is one: features.number is bucket", value,
                       field);
    *key = key_of_value(use->key_field, text, feature_bucket(x, text));
    return 0;
}

struct json *fields_json(const struct features *f)
{
    struct json *list = json_new_array();
    char name[LIMIT_NAME];
    for (uint32_t i = 0; i < f->shape.fields; i++) {
        const struct feature_use *use = &f->field[i];
        struct json *j = json_new_object();
        fields_name(f, i, name);
        json_set_string(j, "name", name);
        json_set_int(j, "field", i);
        json_set_int(j, "key_field", use->key_field);
        json_set_string(j, "kind",
                        use->type == COLUMN_CATEGORY ? "category"
                        : use->type == COLUMN_MULTI  ? "multi"
                                                     : "bucket");
        json_append(list, j);
    }
    return list;
}
