/* export_tensors.c: tensors of the network by name, put together from the blocks that are rows of a
 * dense table. The whole table is in memory. */
#include "deploy/cli/export.h"
#include "deploy/cli/reader.h"
#include "embedding/table.h"
#include "proto/base/key.h"
#include "proto/base/minmax.h"
#include "proto/base/text.h"
#include "proto/job/half.h"
#include "proto/job/optimizer.h"
#include "proto/job/shape.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The buffers of one tensor. */
struct buffers {
    float *value, *state, *blocks; /* owned */
    uint16_t *narrow;              /* owned; NULL: values are written as float32 */
};

static void buffers_free(struct buffers *b)
{
    free(b->value);
    free(b->state);
    free(b->blocks);
    free(b->narrow);
}

static int shape_take(const struct legend_name *name, struct export_tensor *t, struct err *e)
{
    struct shape shape;
    if (!shape_read(name->what, &shape))
        return err_set(e, SHOAL_E_CONFIG,
                       "tensor %s: the names of the job give it the shape '%s', which is none",
                       name->name, name->what);
    t->count = shape.count;
    t->values.dims = shape.rank;
    memcpy(t->values.shape, shape.size, shape.rank * sizeof *shape.size);
    return 0;
}

static int buffers_make(const struct export_tensor *t, uint64_t blocks, struct buffers *b,
                        struct err *e)
{
    b->value = calloc(t->count, sizeof *b->value);
    b->state = calloc(t->count * t->per_element + 1, sizeof *b->state);
    b->blocks = calloc(blocks * t->per_block + 1, sizeof *b->blocks);
    if (t->values.type != EXPORT_F32)
        b->narrow = calloc(t->count, sizeof *b->narrow);
    if (b->value == NULL || b->state == NULL || b->blocks == NULL ||
        (t->values.type != EXPORT_F32 && b->narrow == NULL))
        return err_set(e, SHOAL_E_NOMEM, "no memory for tensor %s, %" PRIu64 " values", t->name,
                       t->count);
    return 0;
}

/* Copies a block, a row of the table, to its place in the tensor. */
static int block_take(const struct table *table, const struct export_tensor *t, uint32_t number,
                      uint64_t block, struct buffers *b, struct err *e)
{
    const struct table_schema *s = table_schema_of(table);
    uint64_t key = key_make(number, block), first = block * s->width;
    size_t count = (size_t)MIN(t->count - first, s->width);
    float weights[LIMIT_WIDTH];
    const void *row = table_row(table, key);
    if (row == NULL && (t->per_element > 0 || t->per_block > 0))
        return err_set(e, SHOAL_E_NOINPUT,
                       "tensor %s has not been trained, so its optimizer has no state: export "
                       "without --state",
                       t->name);
    if (row == NULL)
        table_pull(table, &key, 1, weights); /* the weights that a worker begins with */
    else
        table_row_weights(s, row, weights);
    memcpy(b->value + first, weights, count * sizeof *weights);
    if (row == NULL)
        return 0;

    const float *state = table_row_state(s, row);
    for (uint32_t k = 0; k < t->per_element; k++)
        memcpy(b->state + k * t->count + first, state + (size_t)k * s->width,
               count * sizeof *state);
    memcpy(b->blocks + block * t->per_block, state + (size_t)t->per_element * s->width,
           t->per_block * sizeof *state);
    return 0;
}

static int tensor_write(struct export_list *l, const struct table *table,
                        const struct legend_name *name, struct export_counts *out, struct err *e)
{
    const struct table_schema *s = table_schema_of(table);
    const struct optimizer_facts *facts = optimizer_facts(s->optimizer.kind);
    struct export_tensor t = {.name = name->name, .block = s->width};
    struct buffers b = {.value = NULL};
    (void)snprintf(t.values.name, sizeof t.values.name, "%s.%s", s->name, name->name);
    t.values.type = export_type_of(s, l->export->stored);
    if (l->export->state) {
        t.per_element = facts->per_element;
        t.per_block = facts->per_row + (uint32_t)schema_has_last(s);
    }
    int rc = shape_take(name, &t, e);
    if (rc != 0)
        return rc;

    uint64_t blocks = (t.count + s->width - 1) / s->width;
    rc = buffers_make(&t, blocks, &b, e);
    for (uint64_t i = 0; i < blocks && rc == 0; i++)
        rc = block_take(table, &t, name->number, i, &b, e);
    if (rc == 0) {
        t.value = b.value;
        t.state = b.state;
        t.blocks = b.blocks;
        if (b.narrow != NULL) {
            half_narrow((enum value_kind)s->values, b.value, b.narrow, (uint32_t)t.count);
            t.value = b.narrow;
        }
        rc = l->export->format->tensor(l, &t, e);
    }
    buffers_free(&b);
    out->rows += blocks;
    out->tensors++;
    return rc;
}

/* A tensor of export.json; returns its list of arrays. */
static struct json *tensor_told(struct json *tensors, const struct table_schema *s,
                                const struct legend_name *name)
{
    struct json *j = json_new_object(), *arrays = json_new_array();
    const char *reads = strchr(name->what, ' ');
    char full[EXPORT_NAME];
    (void)snprintf(full, sizeof full, "%s.%s", s->name, name->name);
    (void)json_set_string(j, "name", full);
    (void)json_set_string(j, "table", s->name);
    (void)json_set_int(j, "number", name->number);
    if (reads != NULL)
        (void)json_set_string(j, "reads", reads + 1);
    (void)json_set(j, "arrays", arrays);
    (void)json_append(tensors, j);
    return json_get(j, "arrays");
}

static uint64_t rows_of(const struct table *t)
{
    uint64_t rows = 0;
    for (uint32_t i = 0; i < 1u << table_schema_of(t)->tablet_bits; i++)
        rows += table_tablet_rows(t, i);
    return rows;
}

static int tensors_write(struct export_list *l, const struct table *table,
                         const struct legend_name *name, uint32_t names, struct json *tensors,
                         struct export_counts *out, struct err *e)
{
    const struct table_schema *s = table_schema_of(table);
    struct json *list = json_new_array(); /* a text format notes its one file here */
    l->arrays = list;
    int rc = l->export->format->begin(l, e);
    for (uint32_t i = 0; i < names && rc == 0; i++) {
        if (!name[i].here)
            continue;
        l->arrays = tensor_told(tensors, s, &name[i]);
        rc = tensor_write(l, table, &name[i], out, e);
        if (json_count(l->arrays) == 0)
            (void)json_append(l->arrays, json_hold(json_array_at(list, 0)));
    }
    if (rc == 0)
        rc = l->export->format->end(l, e);
    json_free(list);
    return rc;
}

int export_tensors(struct export *x, struct reader *from, uint32_t index,
                   const struct legend_name *name, uint32_t names, struct json *tensors,
                   struct export_counts *out, struct err *e)
{
    const struct table_schema *s = reader_schema(from, index);
    const struct optimizer_facts *facts = optimizer_facts(s->optimizer.kind);
    struct export_list l = {.export = x};
    struct arena *arena = NULL;
    struct table *table = NULL;
    text_copy(l.layout.name, sizeof l.layout.name, s->name);
    text_copy(l.layout.table, sizeof l.layout.table, s->name);
    if (x->state)
        l.layout.states = facts->per_element + facts->per_row + (uint32_t)schema_has_last(s);
    if (arena_new(&arena) != 0)
        return err_set(e, SHOAL_E_NOMEM, "out of memory");
    int rc = reader_copy(from, index, 0, 1u << s->tablet_bits, arena, &table, e);
    if (rc == 0)
        rc = tensors_write(&l, table, name, names, tensors, out, e);
    if (rc == 0)
        out->left_out = SAT_SUB(rows_of(table), out->rows);
    export_list_free(&l);
    table_free(table);
    arena_free(arena);
    return rc;
}
