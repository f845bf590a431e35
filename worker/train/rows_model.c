/* rows_model.c: copies rows into the model's arrays, and gradients out of them. */
#include "proto/base/assert.h"
#include "proto/job/half.h"
#include "worker/train/rows.h"

#include <math.h>
#include <string.h>

void rows_put(struct rows *r, uint32_t table, uint32_t place, enum value_kind values,
              const void *row)
{
    struct rows_table *t = &r->table[table];
    uint32_t width = t->schema->width;
    SHOAL_ASSERT(place < t->key_count);
    if (t->block != NULL)
        place = t->block[place];
    half_widen(values, row, t->pulled + (size_t)place * width, width);
}

void rows_take(struct rows *r, const struct part *p, enum value_kind values, const void *rows)
{
    struct rows_table *t = &r->table[p->table];
    uint32_t width = t->schema->width;
    size_t bytes = (size_t)width * half_bytes(values);
    SHOAL_ASSERT(p->key_first <= t->pull_count && p->key_count <= t->pull_count - p->key_first);
    if (t->block == NULL && t->pull_place == NULL) {
        half_widen(values, rows, t->pulled + (size_t)p->key_first * width, p->key_count * width);
        return;
    }
    for (uint32_t i = 0; i < p->key_count; i++) {
        uint32_t place = p->key_first + i;
        if (t->pull_place != NULL)
            place = t->pull_place[place];
        rows_put(r, p->table, place, values, (const char *)rows + i * bytes);
    }
}

/* Moves a table's gradients to the positions from which they are pushed, with room for shows and
 * clicks behind each. It starts at the last one, so that none is overwritten before it moves. */
static void gradients_spread(struct rows_table *t, const float *from)
{
    size_t width = t->schema->width, floats = schema_push_floats(t->schema);
    for (uint32_t i = t->key_count; i-- > 0;) {
        float *at = t->gradients + i * floats;
        memmove(at, from + i * width, width * sizeof(float));
        memset(at + width, 0, (floats - width) * sizeof(float));
    }
}

/* Starts at the last table, because gradients only move towards the end. */
static void gradients_place(struct rows *r)
{
    const float *end = r->floats.gradients;
    for (uint32_t t = 0; t < r->sparse; t++)
        end += (size_t)r->table[t].key_count * r->table[t].schema->width;
    for (uint32_t t = r->sparse; t-- > 0;) {
        struct rows_table *table = &r->table[t];
        end -= (size_t)table->key_count * table->schema->width;
        if (table->schema->rules.stats != 0)
            gradients_spread(table, end);
        else if (table->gradients != end)
            memmove(table->gradients, end,
                    (size_t)table->key_count * table->schema->width * sizeof(float));
    }
}

/* Position of the shows and clicks of a table's keys; at NULL: they are not counted. */
struct counted {
    float *at; /* the table's first key */
    size_t floats;
    uint32_t first; /* index of that key in the batch */
};

static void counted_find(const struct rows *r, struct counted out[LIMIT_JOB_TABLES])
{
    for (uint32_t t = 0; t < r->sparse; t++) {
        const struct rows_table *table = &r->table[t];
        bool counts = table->schema->rules.stats != 0;
        out[t] = (struct counted){counts ? table->gradients + table->schema->width : NULL,
                                  schema_push_floats(table->schema), r->batch.table_first[t]};
    }
}

/* Counts a key once for each example, even if it occurs several times in it (a field of several
 * values, or one that shares another field's rows). */
static void key_count(struct rows *r, const struct counted *c, uint32_t key, uint32_t example,
                      float click)
{
    float *at = c->at + (key - c->first) * c->floats;
    if (r->seen[key] == example + 1)
        return;
    r->seen[key] = example + 1;
    at[0] += 1.0f;
    at[1] += click;
}

static void statistics_count(struct rows *r)
{
    const struct batch *b = &r->batch;
    struct counted counted[LIMIT_JOB_TABLES];
    size_t slot = 0;
    counted_find(r, counted);
    memset(r->seen, 0, b->key_count * sizeof *r->seen);
    for (uint32_t i = 0; i < b->examples; i++) {
        /* a label that is missing is no click */
        float click = b->label[(size_t)i * b->tasks] > 0 ? 1.0f : 0.0f;
        for (uint32_t f = 0; f < b->fields; f++, slot++) {
            const struct counted *c = &counted[b->field_table[f]];
            size_t v = b->offset != NULL ? b->offset[slot] : slot,
                   end = b->offset != NULL ? b->offset[slot + 1] : slot + 1;
            for (; c->at != NULL && v < end; v++)
                key_count(r, c, b->index[v], i, click);
        }
    }
}

void rows_gather(struct rows *r)
{
    if (r->counts) {
        gradients_place(r);
        statistics_count(r);
    }
    for (uint32_t table = r->sparse; table < r->table_count; table++) {
        struct rows_table *t = &r->table[table];
        size_t width = t->schema->width;
        for (uint32_t i = 0; i < t->key_count; i++)
            memcpy(t->gradients + i * width, t->flat + t->block[i] * width, width * sizeof(float));
    }
}

/* True when all floats are negative zeros, a table's answer for a key without a row. */
static bool is_absent(const float *row, uint32_t width)
{
    for (uint32_t i = 0; i < width; i++)
        if (row[i] != 0 || !signbit(row[i]))
            return false;
    return true;
}

/* Notes in `seen` the keys without a row. Rows are read once and in order here, since values name
 * them in any order and several times. */
static void absent_note(struct rows *r)
{
    for (uint32_t table = 0; table < r->sparse; table++) {
        const struct rows_table *t = &r->table[table];
        uint32_t *absent = r->seen + r->batch.table_first[table], width = t->schema->width;
        for (uint32_t i = 0; i < t->key_count; i++)
            absent[i] = is_absent(t->pulled + (size_t)i * width, width);
    }
}

void rows_unseen(struct rows *r, struct unseen *out)
{
    const struct batch *b = &r->batch;
    struct unseen_field of[LIMIT_FIELDS];
    size_t slot = 0;
    SHOAL_ASSERT(b->fields <= LIMIT_FIELDS);
    absent_note(r);
    for (uint32_t f = 0; f < b->fields; f++)
        of[f] = (struct unseen_field){.field = b->field_number[f]};
    for (uint32_t i = 0; i < b->examples; i++)
        for (uint32_t f = 0; f < b->fields; f++, slot++) {
            size_t v = b->offset != NULL ? b->offset[slot] : slot,
                   end = b->offset != NULL ? b->offset[slot + 1] : slot + 1;
            of[f].values += end - v;
            for (; v < end; v++)
                of[f].absent += r->seen[b->index[v]];
        }
    unseen_add(out, of, b->fields);
}

void rows_input(const struct rows *r, struct model_input *in)
{
    *in = (struct model_input){.examples = r->batch.examples,
                               .label = r->batch.label,
                               .weight = r->batch.weight,
                               .numeric = r->batch.numeric,
                               .index = r->batch.index,
                               .offset = r->batch.offset,
                               .factor = r->batch.factor,
                               .row_count = r->batch.key_count,
                               .table_rows = r->table_rows,
                               .rows = r->floats.pulled};
    if (r->table_count > r->sparse)
        in->dense = r->table[r->sparse].pulled;
    if (r->table_count > r->sparse + 1)
        in->stats = r->table[r->sparse + 1].pulled;
}

void rows_output(struct rows *r, struct model_output *out)
{
    *out = (struct model_output){.row_gradients = r->floats.gradients, .scores = r->scores};
    if (r->table_count > r->sparse)
        out->dense_gradients = r->table[r->sparse].flat;
    if (r->table_count > r->sparse + 1)
        out->stats_gradients = r->table[r->sparse + 1].flat;
}
