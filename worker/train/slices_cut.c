/* slices_cut.c: a slice as a batch of its own to the model.
 *
 * 1. A slice's list of rows rises, and holds every row that its examples have. [assert: rows_list]
 */
#include "proto/base/array.h"
#include "proto/base/assert.h"
#include "proto/base/minmax.h"
#include "worker/train/slices_inner.h"

#include <stdlib.h>
#include <string.h>

/* ---- arrays ---------------------------------------------------------------------------------- */

static const struct backend *backend_of(const struct slice *c)
{
    return c->of->options.backend;
}

int slice_room_take(const struct slice *c, struct room *r, size_t bytes)
{
    if (r->at != NULL && bytes <= r->bytes)
        return 0;
    backend_host_free(backend_of(c), r->at);
    bytes += bytes / 8 + 64;
    r->at = backend_host_alloc(backend_of(c), bytes);
    r->bytes = 0;
    if (r->at == NULL)
        return SHOAL_E_NOMEM;
    r->bytes = bytes;
    return 0;
}

void slice_cut_free(struct slice *c)
{
    struct room *room[] = {&c->index, &c->offset, &c->rows, &c->gradients, &c->dense, &c->stats};
    for (size_t i = 0; i < sizeof room / sizeof room[0]; i++)
        backend_host_free(backend_of(c), room[i]->at);
    free(c->place);
    free(c->list);
}

/* ---- cutting --------------------------------------------------------------------------------- */

/* The values of a range of examples. */
struct values {
    uint32_t first, count;
};

static struct values values_of(const struct slice *c, const struct model_input *in)
{
    uint32_t fields = model_shape_of(c->of->options.model)->fields;
    uint32_t from = c->first * fields, to = (c->first + c->examples) * fields;
    if (in->offset != NULL) {
        from = in->offset[from];
        to = in->offset[to];
    }
    return (struct values){from, to - from};
}

/* Makes room for an array of this module alone. */
static int words_take(uint32_t **array, size_t *capacity, size_t count)
{
    if (count <= *capacity)
        return 0;
    return array_reserve(array, count + count / 8, capacity);
}

/* Lists the rows that the slice has, and notes each row's position in the list (1). */
static int rows_list(struct slice *c, const struct model_input *in, struct values v)
{
    uint32_t rows = in->row_count, count = 0, row = 0;
    if (words_take(&c->place, &c->place_capacity, rows) != 0 ||
        words_take(&c->list, &c->list_capacity, (size_t)MIN(rows, v.count) + 1) != 0)
        return SHOAL_E_NOMEM;
    memset(c->place, 0xff, rows * sizeof *c->place);
    for (uint32_t i = 0; i < v.count; i++)
        c->place[in->index[v.first + i]] = 0;
    for (uint32_t t = 0; t < c->of->tables; t++) {
        c->first_of[t] = count;
        for (uint32_t end = row + in->table_rows[t]; row < end; row++)
            if (c->place[row] != SLICE_UNSEEN) {
                c->place[row] = count;
                c->list[count++] = row;
            }
        c->table_rows[t] = count - c->first_of[t];
    }
    SHOAL_ASSERT(row == rows && count <= v.count); /* 1 */
    c->first_of[c->of->tables] = count;
    c->list[count] = SLICE_UNSEEN;
    return 0;
}

/* Makes the index of the slice's values, in positions of its list. */
static void values_place(struct slice *c, const struct model_input *in, struct values v)
{
    uint32_t *index = c->index.at, *offset = c->offset.at;
    for (uint32_t i = 0; i < v.count; i++)
        index[i] = c->place[in->index[v.first + i]];
    c->in.index = index;
    if (in->factor != NULL)
        c->in.factor = in->factor + v.first;
    if (in->offset == NULL)
        return;
    uint32_t fields = model_shape_of(c->of->options.model)->fields, slots = c->examples * fields;
    for (uint32_t i = 0; i <= slots; i++)
        offset[i] = in->offset[(size_t)c->first * fields + i] - v.first;
    c->in.offset = offset;
}

/* Copies the slice's rows out of the batch's. */
static void rows_copy(struct slice *c, const struct model_input *in)
{
    float *to = c->rows.at;
    const float *from = in->rows;
    uint32_t first = 0;
    for (uint32_t t = 0; t < c->of->tables; t++) {
        size_t width = c->of->options.schema[t].width;
        for (uint32_t i = c->first_of[t]; i < c->first_of[t + 1]; i++, to += width)
            memcpy(to, from + (c->list[i] - first) * width, width * sizeof *to);
        from += in->table_rows[t] * width;
        first += in->table_rows[t];
    }
    c->in.rows = c->rows.at;
}

static int slice_rooms(struct slice *c, struct values v)
{
    size_t floats = 0;
    for (uint32_t t = 0; t < c->of->tables; t++) {
        c->floats_of[t] = floats;
        floats += (size_t)c->table_rows[t] * c->of->options.schema[t].width;
    }
    c->floats_of[c->of->tables] = floats;
    uint32_t slots = c->examples * model_shape_of(c->of->options.model)->fields;
    if (slice_room_take(c, &c->index, v.count * sizeof(uint32_t)) != 0 ||
        slice_room_take(c, &c->offset, (slots + 1ull) * sizeof(uint32_t)) != 0 ||
        slice_room_take(c, &c->rows, floats * sizeof(float)) != 0 ||
        slice_room_take(c, &c->gradients, floats * sizeof(float)) != 0)
        return SHOAL_E_NOMEM;
    return 0;
}

int slice_cut(struct slice *c)
{
    const struct model_input *in = c->of->batch.in;
    const struct model_shape *shape = model_shape_of(c->of->options.model);
    struct values v = values_of(c, in);
    SHOAL_ASSERT(in->table_rows != NULL);
    int rc = rows_list(c, in, v);
    if (rc == 0)
        rc = slice_rooms(c, v);
    if (rc != 0)
        return rc;
    uint32_t rows = c->first_of[c->of->tables];
    c->in = (struct model_input){.examples = c->examples,
                                 .label = in->label + (size_t)c->first * MAX(shape->tasks, 1),
                                 .row_count = rows,
                                 .table_rows = c->table_rows,
                                 .dense = in->dense,
                                 .stats = in->stats};
    if (in->weight != NULL)
        c->in.weight = in->weight + c->first;
    if (in->numeric != NULL)
        c->in.numeric = in->numeric + (size_t)c->first * shape->numerics;
    values_place(c, in, v);
    rows_copy(c, in);
    return 0;
}
