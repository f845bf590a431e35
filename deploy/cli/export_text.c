/* export_text.c: the formats tsv and csv: a file for each table, a line of names first. A row is
 * its key, its field and its numbers; of a tensor each element has a line. Numbers have enough
 * digits to give back their bits. */
#include "deploy/cli/export.h"
#include "deploy/cli/export_file.h"
#include "proto/base/key.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static char separator_of(const struct export_list *l)
{
    return l->export->format == &export_csv ? ',' : '\t';
}

/* Adds a cell of at most 63 bytes, behind a separator unless it is the first one of its line. */
static void __attribute__((format(printf, 3, 4)))
cell_add(struct export_list *l, bool first, const char *format, ...)
{
    char cell[64];
    va_list arguments;
    va_start(arguments, format);
    cell[0] = separator_of(l);
    int n = vsnprintf(cell + 1, sizeof cell - 1, format, arguments);
    va_end(arguments);
    if (first)
        export_file_add(l->file[0], cell + 1, (size_t)n);
    else
        export_file_add(l->file[0], cell, (size_t)n + 1);
}

static void names_add(struct export_list *l)
{
    const struct export_layout *y = &l->layout;
    if (y->columns == 0) {
        cell_add(l, true, "tensor");
        cell_add(l, false, "index");
        cell_add(l, false, "value");
        for (uint32_t i = 0; i < y->states; i++)
            cell_add(l, false, "s%u", i);
    } else {
        cell_add(l, true, "key");
        cell_add(l, false, "field");
    }
    for (uint32_t i = 1; i < y->columns; i++) {
        const struct export_column *c = &y->column[i];
        for (uint32_t k = 0; k < export_values(c); k++)
            if (c->text != NULL)
                cell_add(l, false, "%s%u", c->text, c->number + k);
            else
                cell_add(l, false, "%s", c->name);
    }
    export_file_add(l->file[0], "\n", 1);
}

static int text_begin(struct export_list *l, struct err *e)
{
    char name[EXPORT_FILE], file[EXPORT_FILE + 8];
    export_file_name(l->layout.name, name);
    (void)snprintf(file, sizeof file, "%s.%s", name, l->export->format->name);
    int rc = export_file_open(l->export->folder, file, 0, &l->file[0], e);
    if (rc != 0)
        return rc;
    struct json *j = json_new_object();
    (void)json_set_string(j, "file", file);
    (void)json_append(l->arrays, j);
    names_add(l);
    return 0;
}

static void number_add(struct export_list *l, const struct export_column *c, const void *from)
{
    if (c->type == EXPORT_U32) {
        uint32_t x;
        memcpy(&x, from, sizeof x);
        cell_add(l, false, "%" PRIu32, x);
    } else {
        float x;
        memcpy(&x, from, sizeof x);
        cell_add(l, false, "%.9g", (double)x);
    }
}

static int text_row(struct export_list *l, const unsigned char *row, struct err *e)
{
    uint64_t key;
    memcpy(&key, row, sizeof key);
    cell_add(l, true, "0x%016" PRIx64, key);
    cell_add(l, false, "%u", key_field(key));
    for (uint32_t i = 1; i < l->layout.columns; i++) {
        const struct export_column *c = &l->layout.column[i];
        uint32_t bytes = export_type_facts(c->type)->bytes;
        for (uint32_t k = 0; k < export_values(c); k++)
            number_add(l, c, row + c->at + k * bytes);
    }
    export_file_add(l->file[0], "\n", 1);
    return export_file_check(l->file[0], e);
}

static int text_tensor(struct export_list *l, const struct export_tensor *t, struct err *e)
{
    char name[EXPORT_FILE];
    const float *value = t->value;
    export_file_name(t->name, name);
    for (uint64_t i = 0; i < t->count; i++) {
        export_file_add(l->file[0], name, strlen(name));
        cell_add(l, false, "%" PRIu64, i);
        cell_add(l, false, "%.9g", (double)value[i]);
        for (uint32_t k = 0; k < t->per_element; k++)
            cell_add(l, false, "%.9g", (double)t->state[k * t->count + i]);
        for (uint32_t k = 0; k < t->per_block; k++)
            cell_add(l, false, "%.9g", (double)t->blocks[i / t->block * t->per_block + k]);
        export_file_add(l->file[0], "\n", 1);
    }
    return export_file_check(l->file[0], e);
}

static int text_end(struct export_list *l, struct err *e)
{
    struct export_file *f = l->file[0];
    l->file[0] = NULL;
    return export_file_end(f, NULL, e);
}

#define TEXT_FORMAT(word)                                                                          \
    {                                                                                              \
        .name = (word), .why_not_stored = "text has numbers of any size, not their 16 bits",       \
        .begin = text_begin, .row = text_row, .tensor = text_tensor, .end = text_end,              \
    }
const struct export_format export_tsv = TEXT_FORMAT("tsv"), export_csv = TEXT_FORMAT("csv");
