/* export_told.c: export.json, which says what the arrays of an export are. It names no path, host
 * or time of its own, so two exports of one checkpoint are equal bytes. */
#include "deploy/cli/checkpoint.h"
#include "deploy/cli/export.h"
#include "deploy/cli/export_file.h"
#include "proto/job/optimizer.h"

#include <stdlib.h>
#include <string.h>

/* Adds a new child and lends it. */
static struct json *member_add(struct json *to, const char *name, struct json *child)
{
    (void)json_set(to, name, child);
    return json_get(to, name);
}

void export_told_begin(struct export_told *t, const struct export *x)
{
    t->whole = json_new_object();
    (void)json_set_int(t->whole, "shoal_export", 1);
    (void)json_set_string(t->whole, "format", x->format->name);
    (void)json_set_bool(t->whole, "state", x->state);
    (void)json_set_string(t->whole, "values", x->stored ? "stored" : "float32");
    t->tables = member_add(t->whole, "tables", json_new_array());
    t->tensors = member_add(t->whole, "tensors", json_new_array());
    t->optimizers = member_add(t->whole, "optimizers", json_new_object());
}

void export_told_folder(struct export_told *t, const char *member, const char *folder)
{
    static const char *const told[] = {"job", "name", "date", "epoch", "examples", "rows"};
    struct json *m = NULL, *j = NULL;
    struct err none;
    if (checkpoint_manifest(folder, &m, &none) == 0) {
        j = json_new_object();
        for (size_t i = 0; i < sizeof told / sizeof told[0]; i++)
            if (!json_absent(json_get(m, told[i])))
                (void)json_set(j, told[i], json_hold(json_get(m, told[i])));
    }
    (void)json_set(t->whole, member, j != NULL ? j : json_new_null());
    json_free(m);
}

void export_told_fields(struct export_told *t, const struct legend *names)
{
    struct json *fields = member_add(t->whole, "fields", json_new_object());
    for (uint32_t i = 0; i < names->count[LEGEND_FIELDS]; i++) {
        const struct legend_name *n = &names->name[LEGEND_FIELDS][i];
        struct json *j = json_new_object();
        (void)json_set_int(j, "number", n->number);
        (void)json_set_string(j, "table", n->table);
        (void)json_set_string(j, "kind", n->what);
        if (!n->here)
            (void)json_set_bool(j, "gone", true);
        (void)json_set(fields, n->name, j);
    }
}

static void optimizer_set(struct json *j, const struct table_schema *s)
{
    const struct optimizer_facts *facts = optimizer_facts(s->optimizer.kind);
    (void)json_set_string(j, "optimizer", facts->name);
    (void)json_set_int(j, "per_element", facts->per_element);
    (void)json_set_int(j, "per_row", facts->per_row);
    (void)json_set_bool(j, "last", schema_has_last(s) != 0);
}

struct json *export_told_table(struct export_told *t, const struct table_schema *s)
{
    struct json *j = json_new_object();
    (void)json_set_string(j, "name", s->name);
    (void)json_set_int(j, "first", s->zero_first);
    (void)json_set_int(j, "dim", s->width - s->zero_first);
    (void)json_set_string(j, "values", schema_values_name(s));
    optimizer_set(j, s);
    (void)json_set_bool(j, "stats", s->rules.stats != 0);
    struct json *arrays = member_add(j, "arrays", json_new_array());
    (void)json_append(t->tables, j);
    return arrays;
}

void export_told_rows(struct export_told *t, const struct export_counts *c, bool since)
{
    struct json *j = json_array_at(t->tables, json_count(t->tables) - 1);
    (void)json_set_int(j, "rows", (int64_t)c->rows);
    if (since)
        (void)json_set_int(j, "erased", (int64_t)c->erased);
}

void export_told_optimizer(struct export_told *t, const struct table_schema *s)
{
    struct json *j = json_new_object();
    optimizer_set(j, s);
    (void)json_set(t->optimizers, s->name, j);
}

int export_told_write(struct export_told *t, const struct export *x, struct err *e)
{
    struct export_file *f;
    char *text = json_text(t->whole, 2);
    if (text == NULL)
        return err_set(e, SHOAL_E_NOMEM, "out of memory");
    int rc = export_file_open(x->folder, EXPORT_TOLD, 0, &f, e);
    if (rc == 0) {
        export_file_add(f, text, strlen(text));
        export_file_add(f, "\n", 1);
        rc = export_file_end(f, NULL, e);
    }
    free(text);
    return rc;
}

void export_told_free(struct export_told *t)
{
    json_free(t->whole);
}
