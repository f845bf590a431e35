/* ops_rows.cu: merges the gradients of values into the gradients of their rows, without atomics.
 *
 * pool_begin sorts the batch's values by row. The sorted values are cut into chunks, and an element
 * sums one chunk. A row that lies inside a chunk is written at once. The part of a row that
 * continues in other chunks is put aside, and the parts are added afterwards, in order. So a row
 * that every example has is shared among many elements, and its sum has the same bits at each
 * run. */
#include "dense/cuda/stream.h"
#include "proto/base/minmax.h"

#define ROWS_CHUNK 64u
#define ROWS_AHEAD 8u       /* values that are loaded at once */
#define ROWS_LONG_AHEAD 16u /* parts of a long row that are loaded at once */

enum rows_of { ROWS_OF_POOL, ROWS_OF_PROBE, ROWS_OF_VALUES };

struct rows_args {
    struct sorted_values v;
    uint32_t of;    /* enum rows_of */
    uint32_t width; /* columns that are summed; POOL: first_order + dim */
    uint32_t fields, first_order, dim, tasks;
    const uint8_t *pooling;
    const uint32_t *offset;
    const float *factor;      /* POOL: or NULL */
    const float *dx, *dlogit; /* POOL. VALUES: dx by place in index */
    uint32_t lddx, field;     /* VALUES: the only field whose values count */
    /* (chunks, width): the sum of the chunk's first row, if that began earlier; the sum of its last
     * row */
    float *head, *tail;
    float *to; /* (rows, ld_to), beginning at the first summed column */
    uint32_t ld_to;
    /* POOL and VALUES with tables of several dims: these place the rows instead of ld_to */
    const struct pool_table *table;
    const uint8_t *field_table;
    const uint32_t *column; /* POOL: where each field's vector begins in dx */
    /* POOL: each field has one value without a factor, and all tables have the same dim */
    bool single;
};

#define rows_chunk_args rows_args
#define rows_long_args rows_args

BODY uint32_t slot_of(const struct sorted_values *v, uint32_t position)
{
    uint32_t value = v->value[position];
    if (v->slot)
        return v->slot[value];
    return value;
}

/* The term that the value at a sorted position adds to its row. */
BODY float rows_term(const struct rows_args *a, uint32_t position, uint32_t column)
{
    uint32_t slot = slot_of(&a->v, position), example = slot / a->fields,
             f = slot - example * a->fields;
    if (a->of == ROWS_OF_VALUES)
        return f == a->field ? a->dx[(size_t)a->v.value[position] * a->lddx + column] : 0.0f;
    if (a->of == ROWS_OF_PROBE) {
        /* -1 for each example, however often it names the row (a key belongs to one field) */
        bool again = position > 0 && a->v.row[position - 1] == a->v.row[position] &&
                     slot_of(&a->v, position - 1) == slot;
        if (again)
            return 0.0f;
        return -1.0f;
    }
    uint32_t values = slot_begin(a->offset, slot + 1) - slot_begin(a->offset, slot);
    float share =
        a->factor ? a->factor[a->v.value[position]] : mean_share(a->pooling[f] != POOL_SUM, values);
    if (column < a->first_order)
        return a->dlogit[(size_t)example * a->tasks] * share;
    uint32_t d = column - a->first_order, dim = a->dim, begin = f * dim;
    if (a->table) {
        dim = a->table[a->field_table[f]].dim;
        begin = a->column[f];
    }
    if (a->pooling[f] == POOL_ATTENTION || d >= dim)
        return 0.0f;
    return a->dx[(size_t)example * a->lddx + begin + d] * share;
}

/* Adds `sum` to a column of the row of the value at this sorted position, if that row has the
 * column. */
BODY void rows_add(const struct rows_args *a, uint32_t position, uint32_t column, float sum)
{
    uint32_t row = a->v.row[position];
    if (!a->table) {
        a->to[(size_t)row * a->ld_to + column] += sum;
        return;
    }
    struct pool_table t = a->table[a->field_table[slot_of(&a->v, position) % a->fields]];
    if (column < a->first_order + t.dim)
        a->to[(size_t)(t.base + (uint64_t)row * (a->first_order + t.dim)) + column] += sum;
}

/* True when the row at the chunk's first position already has values in the chunk before. */
BODY bool rows_goes_on(const struct rows_args *a, uint32_t chunk)
{
    uint32_t begin = chunk * ROWS_CHUNK;
    return begin > 0 && begin < a->v.count && a->v.row[begin - 1] == a->v.row[begin];
}

/* Rows and terms of ROWS_AHEAD values from a position on, loaded at once: one by one, each would
 * wait for the memory. Places beyond the end repeat the last value. */
struct rows_ahead {
    uint32_t row[ROWS_AHEAD];
    float term[ROWS_AHEAD];
};

/* rows_term for `single`. */
BODY void rows_ahead_single(const struct rows_args *a, uint32_t position, uint32_t last,
                            uint32_t column, struct rows_ahead *to)
{
    uint32_t slot[ROWS_AHEAD];
    bool weight = column < a->first_order;
    EACH (j, ROWS_AHEAD)
        slot[j] = a->v.value[MIN(position + j, last)];
    EACH (j, ROWS_AHEAD) {
        uint32_t example = slot[j] / a->fields, f = slot[j] - example * a->fields;
        const float *from =
            weight ? a->dlogit + (size_t)example * a->tasks
                   : a->dx + (size_t)example * a->lddx + f * a->dim + (column - a->first_order);
        bool none = !weight && a->pooling[f] == POOL_ATTENTION;
        float term = *from;
        to->term[j] = none ? 0.0f : term;
    }
}

BODY struct rows_ahead rows_ahead_of(const struct rows_args *a, uint32_t position, uint32_t end,
                                     uint32_t column)
{
    struct rows_ahead to;
    uint32_t last = end - 1;
    EACH (j, ROWS_AHEAD)
        to.row[j] = a->v.row[MIN(position + j, last)];
    if (a->single)
        rows_ahead_single(a, position, last, column, &to);
    else
        EACH (j, ROWS_AHEAD)
            to.term[j] = rows_term(a, MIN(position + j, last), column);
    return to;
}

/* Sums one column of one chunk. */
BODY void rows_chunk_at(const struct rows_args *a, size_t i)
{
    struct place p = place_of(i, a->width);
    uint32_t begin = p.row * ROWS_CHUNK, end = part_end(p.row, ROWS_CHUNK, a->v.count),
             row = a->v.row[begin];
    bool from_before = rows_goes_on(a, p.row);
    float sum = 0.0f;
    for (uint32_t position = begin; position < end; position += ROWS_AHEAD) {
        struct rows_ahead next = rows_ahead_of(a, position, end, p.column);
        EACH (j, ROWS_AHEAD) {
            if (position + j >= end)
                continue;
            if (next.row[j] != row) {
                if (from_before)
                    a->head[i] = sum;
                else
                    rows_add(a, position + j - 1, p.column, sum);
                row = next.row[j];
                sum = 0.0f;
                from_before = false;
            }
            sum += next.term[j];
        }
    }
    if (from_before)
        a->head[i] = sum;
    else if (rows_goes_on(a, p.row + 1))
        a->tail[i] = sum;
    else
        rows_add(a, end - 1, p.column, sum);
}
KERNEL(rows_chunk)

/* Adds up one column of the row that begins in this chunk and continues in the next ones, if there
 * is such a row. */
BODY void rows_long_at(const struct rows_args *a, size_t i)
{
    struct place p = place_of(i, a->width);
    uint32_t begin = p.row * ROWS_CHUNK, end = part_end(p.row, ROWS_CHUNK, a->v.count),
             row = a->v.row[end - 1];
    uint32_t chunks = (a->v.count + ROWS_CHUNK - 1) / ROWS_CHUNK;
    bool began_before = rows_goes_on(a, p.row) && a->v.row[begin] == row;
    if (began_before || !rows_goes_on(a, p.row + 1))
        return;
    float sum = a->tail[i];
    for (uint32_t c = p.row + 1; c < chunks && a->v.row[c * ROWS_CHUNK] == row;
         c += ROWS_LONG_AHEAD) {
        float part[ROWS_LONG_AHEAD];
        EACH (j, ROWS_LONG_AHEAD) {
            bool same = c + j < chunks && a->v.row[(c + j) * ROWS_CHUNK] == row;
            part[j] = same ? a->head[(size_t)(c + j) * a->width + p.column] : 0.0f;
        }
        EACH (j, ROWS_LONG_AHEAD)
            sum += part[j];
    }
    rows_add(a, end - 1, p.column, sum);
}
KERNEL(rows_long)

static void rows_sum(struct stream *s, struct rows_args *a)
{
    struct scratch_mark mark = cuda_scratch_mark(s);
    size_t chunks = (a->v.count + ROWS_CHUNK - 1) / ROWS_CHUNK, n = chunks * a->width;
    a->head = (float *)cuda_scratch(s, n * sizeof(float));
    a->tail = (float *)cuda_scratch(s, n * sizeof(float));
    if (stream_failed(s) || n == 0)
        return;
    rows_chunk_run(s, n, a);
    rows_long_run(s, n, a);
    cuda_scratch_return(s, mark);
}

/* ---- sorting --------------------------------------------------------------------------------- */

struct slots_args {
    const uint32_t *offset;
    uint32_t *slot;
};

BODY void slots_at(const struct slots_args *a, size_t i)
{
    for (uint32_t value = a->offset[i]; value < a->offset[i + 1]; value++)
        a->slot[value] = (uint32_t)i;
}
KERNEL(slots)

struct places_args {
    uint32_t *to;
};

BODY void places_at(const struct places_args *a, size_t i)
{
    a->to[i] = (uint32_t)i;
}
KERNEL(places)

static void pool_begin(struct stream *s, const struct pool_args *p, bool train)
{
    uint32_t values = p->values;
    size_t bytes = values * sizeof(uint32_t);
    stream_batch_begin(s);
    if (!train || values == 0)
        return;
    struct places_args places = {(uint32_t *)cuda_scratch(s, bytes)};
    struct slots_args slots = {p->offset, NULL};
    if (p->offset)
        slots.slot = (uint32_t *)cuda_scratch(s, bytes);
    uint32_t *row = (uint32_t *)cuda_scratch(s, bytes), *value = (uint32_t *)cuda_scratch(s, bytes);
    size_t scratch_bytes = device_sort_bytes(s, values, p->row_count);
    void *scratch = cuda_scratch(s, scratch_bytes);
    if (stream_failed(s))
        return;
    places_run(s, values, &places);
    if (p->offset != NULL)
        slots_run(s, (size_t)p->examples * p->fields, &slots);
    if (!cuda_products_only)
        device_sort(s, values, p->row_count, p->index, places.to, row, value, scratch,
                    scratch_bytes);
    s->sorted.count = values;
    s->sorted.row = row;
    s->sorted.value = value;
    s->sorted.slot = slots.slot;
}

/* Fills the arguments that all ops here share. false: there is nothing to do. */
static bool rows_args_begin(struct stream *s, const struct pool_args *p, struct rows_args *a)
{
    if (stream_failed(s) || p->values == 0)
        return false;
    if (p->count != p->examples || s->sorted.count != p->values) {
        stream_fail(s, SHOAL_E_INTERNAL,
                    "gradients of rows: %u of %u examples, %u of %u values sorted; this is a bug "
                    "in Shoal, please report it",
                    p->count, p->examples, s->sorted.count, p->values);
        return false;
    }
    memset(a, 0, sizeof *a);
    a->v = s->sorted;
    a->fields = p->fields;
    a->first_order = p->first_order;
    a->dim = p->dim;
    a->tasks = p->tasks;
    a->pooling = p->pooling;
    a->offset = p->offset;
    a->factor = p->factor;
    a->table = p->table;
    a->field_table = p->field_table;
    a->column = p->column;
    a->width = a->ld_to = p->first_order + p->dim;
    return true;
}

static void pool_backward(struct stream *s, const struct pool_args *p, const float *dx,
                          uint32_t lddx, const float *dlogit, float *row_gradients)
{
    struct rows_args a;
    if (!rows_args_begin(s, p, &a))
        return;
    a.of = ROWS_OF_POOL;
    a.dx = dx;
    a.lddx = lddx;
    a.dlogit = dlogit;
    a.to = row_gradients;
    a.single = p->offset == NULL && p->factor == NULL && p->table == NULL;
    rows_sum(s, &a);
}

static void probe_backward(struct stream *s, const struct pool_args *p, float *row_gradients)
{
    struct rows_args a;
    if (!rows_args_begin(s, p, &a))
        return;
    a.of = ROWS_OF_PROBE;
    a.width = a.ld_to = 1;
    a.to = row_gradients;
    rows_sum(s, &a);
}

void cuda_values_add(struct stream *s, uint32_t fields, uint32_t field, uint32_t width,
                     const float *gradient, uint32_t ld, float *row_gradients, uint32_t row_width)
{
    struct rows_args a;
    memset(&a, 0, sizeof a);
    a.v = s->sorted;
    a.of = ROWS_OF_VALUES;
    a.width = width;
    a.fields = fields;
    a.field = field;
    a.dx = gradient;
    a.lddx = ld;
    a.to = row_gradients;
    a.ld_to = row_width;
    if (!stream_failed(s) && a.v.count > 0)
        rows_sum(s, &a);
}

void cuda_rows_fill(struct backend_ops *o)
{
    o->pool_begin = pool_begin;
    o->pool_backward = pool_backward;
    o->probe_backward = probe_backward;
}
