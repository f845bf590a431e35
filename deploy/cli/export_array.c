/* export_array.c: names, types and shapes of the arrays of an export. */
#include "deploy/cli/export.h"

#include "deploy/cli/export_file.h"
#include "proto/base/assert.h"
#include "proto/base/text.h"

#include <stdio.h>
#include <string.h>

const struct export_type_facts *export_type_facts(enum export_type type)
{
    static const struct export_type_facts facts[] = {
        [EXPORT_U64] = {"U64", "<u8", 8},  [EXPORT_U32] = {"U32", "<u4", 4},
        [EXPORT_F32] = {"F32", "<f4", 4},  [EXPORT_F16] = {"F16", "<f2", 2},
        [EXPORT_BF16] = {"BF16", NULL, 2},
    };
    return &facts[type];
}

enum export_type export_type_of(const struct table_schema *s, bool stored)
{
    if (!stored || s->values == VALUES_FP32)
        return EXPORT_F32;
    return s->values == VALUES_BF16 ? EXPORT_BF16 : EXPORT_F16;
}

uint64_t export_array_bytes(const struct export_array *a)
{
    uint64_t bytes = export_type_facts(a->type)->bytes;
    for (uint32_t i = 0; i < a->dims; i++)
        bytes *= a->shape[i];
    return bytes;
}

/* ---- columns --------------------------------------------------------------------------------- */

static void column_add(struct export_layout *l, struct export_column c)
{
    SHOAL_ASSERT(l->columns < EXPORT_COLUMNS);
    c.at = l->bytes;
    l->bytes += export_values(&c) * export_type_facts(c.type)->bytes;
    l->column[l->columns++] = c;
}

static struct export_layout layout_begin(const struct table_schema *s, const char *list,
                                         const char *key)
{
    struct export_layout l = {.columns = 0};
    text_copy(l.table, sizeof l.table, s->name);
    (void)snprintf(l.name, sizeof l.name, "%s%s", s->name, list);
    column_add(&l, (struct export_column){.name = key, .type = EXPORT_U64});
    return l;
}

struct export_layout export_layout_of(const struct table_schema *s, bool state, bool stored)
{
    enum export_type weights = export_type_of(s, stored);
    uint32_t first = s->zero_first, dim = s->width - first, states = schema_state_floats(s);
    struct export_layout l = layout_begin(s, "", "keys");
    if (s->rules.stats != 0)
        states -= (uint32_t)(sizeof(struct row_stats) / sizeof(float));
    if (first > 0)
        column_add(&l, (struct export_column){"first", "w", 0, weights, first, 0});
    if (dim > 0)
        column_add(&l, (struct export_column){"vectors", "w", first, weights, dim, 0});
    if (state && states > 0)
        column_add(&l, (struct export_column){"state", "s", 0, EXPORT_F32, states, 0});
    if (state && s->rules.stats != 0) {
        column_add(&l, (struct export_column){.name = "show", .type = EXPORT_F32});
        column_add(&l, (struct export_column){.name = "click", .type = EXPORT_F32});
        column_add(&l, (struct export_column){.name = "time", .type = EXPORT_U32});
        column_add(&l, (struct export_column){.name = "flags", .type = EXPORT_U32});
        column_add(&l, (struct export_column){.name = "delta_score", .type = EXPORT_F32});
    }
    return l;
}

struct export_layout export_layout_erased(const struct table_schema *s)
{
    return layout_begin(s, ".erased", "erased");
}

struct export_array export_column_array(const struct export_layout *l, uint32_t column,
                                        uint64_t rows, uint32_t piece)
{
    const struct export_column *c = &l->column[column];
    struct export_array a = {.type = c->type, .shape = {rows, c->count}, .dims = 1};
    a.dims += c->count > 0;
    if (piece == UINT32_MAX)
        (void)snprintf(a.name, sizeof a.name, "%s.%s", l->table, c->name);
    else
        (void)snprintf(a.name, sizeof a.name, "%s.%s.%05u", l->table, c->name, piece);
    return a;
}

/* ---- tensors --------------------------------------------------------------------------------- */

static struct export_array state_array(const struct export_tensor *t)
{
    struct export_array a = {
        .type = EXPORT_F32, .shape = {t->per_element}, .dims = t->values.dims + 1};
    SHOAL_ASSERT(a.dims <= NPY_DIMS);
    memcpy(a.shape + 1, t->values.shape, t->values.dims * sizeof a.shape[0]);
    (void)snprintf(a.name, sizeof a.name, "%.160s.state", t->values.name);
    return a;
}

static struct export_array blocks_array(const struct export_tensor *t)
{
    uint64_t blocks = (t->count + t->block - 1) / t->block;
    struct export_array a = {.type = EXPORT_F32, .shape = {blocks, t->per_block}, .dims = 2};
    (void)snprintf(a.name, sizeof a.name, "%.160s.blocks", t->values.name);
    return a;
}

int export_tensor_write(struct export_list *l, const struct export_tensor *t,
                        export_array_write write, struct err *e)
{
    int rc = write(l, &t->values, t->value, e);
    if (rc == 0 && t->per_element > 0) {
        const struct export_array a = state_array(t);
        rc = write(l, &a, t->state, e);
    }
    if (rc == 0 && t->per_block > 0) {
        const struct export_array a = blocks_array(t);
        rc = write(l, &a, t->blocks, e);
    }
    return rc;
}

/* ---- lists ----------------------------------------------------------------------------------- */

void export_list_free(struct export_list *l)
{
    for (uint32_t i = 0; i < EXPORT_COLUMNS; i++) {
        export_file_free(l->file[i]);
        l->file[i] = NULL;
    }
}

void export_array_note(struct json *arrays, const struct export_array *a, const char *file)
{
    struct json *j = json_new_object(), *shape = json_new_array();
    for (uint32_t i = 0; i < a->dims; i++)
        (void)json_append(shape, json_new_int((int64_t)a->shape[i]));
    (void)json_set_string(j, "name", a->name);
    (void)json_set_string(j, "dtype", export_type_facts(a->type)->name);
    (void)json_set(j, "shape", shape);
    if (file != NULL)
        (void)json_set_string(j, "file", file);
    (void)json_append(arrays, j);
}

void export_file_name(const char *name, char out[EXPORT_FILE])
{
    static const char plain[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_+#-";
    size_t at = 0;
    SHOAL_ASSERT(strlen(name) < EXPORT_NAME);
    for (const char *p = name; *p != 0; p++)
        if (strchr(plain, *p) != NULL || (*p == '.' && p > name))
            out[at++] = *p;
        else
            at += (size_t)snprintf(out + at, EXPORT_FILE - at, "%%%02X", (unsigned char)*p);
    out[at] = 0;
}
