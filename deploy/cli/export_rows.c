/* export_rows.c: the walk over the rows of a table: all of them, or those that differ from another
 * checkpoint's.
 *
 * The mixed keys of a table are divided into spans, ranges of tablets. The rows of one span are in
 * memory at a time, those of both sides with --since. Tablets of two tables nest, because a tablet
 * is the upper bits of the mixed key: a span is whole tablets of both. */
#include "deploy/cli/export.h"
#include "deploy/cli/reader.h"
#include "embedding/table.h"
#include "proto/base/array.h"
#include "proto/base/assert.h"
#include "proto/base/key.h"
#include "proto/base/minmax.h"
#include "proto/job/half.h"

#include <stdlib.h>
#include <string.h>

/* One table, from one place, and its rows of one span. */
struct side {
    struct reader *reader; /* borrowed */
    uint32_t index;
    const struct table_schema *schema; /* borrowed; NULL: the place has no such table */
    struct arena *arena;               /* owned, as all below; NULL: no span is read */
    struct table *table;
    uint64_t *key; /* (keys) of the span, by key_mix */
    size_t keys, room;
    bool full;          /* there was no memory for more keys */
    unsigned char *row; /* one row as the layout has it */
};

struct walk {
    struct export_layout layout;
    struct side is, was;
    uint32_t span_bits; /* the table is read in 2^span_bits spans */
    struct export_counts *counts;
};

/* ---- one row --------------------------------------------------------------------------------- */

static void stats_put(const struct export_layout *l, const struct row_stats *s, unsigned char *out)
{
    const struct export_column *c = &l->column[l->columns - 5]; /* the last five */
    memcpy(out + c[0].at, &s->show, sizeof s->show);
    memcpy(out + c[1].at, &s->click, sizeof s->click);
    memcpy(out + c[2].at, &s->time, sizeof s->time);
    memcpy(out + c[3].at, &s->flags, sizeof s->flags);
    memcpy(out + c[4].at, &s->delta_score, sizeof s->delta_score);
}

/* Writes a row as the layout has it: key, weights, then perhaps state and statistics. */
static void row_put(const struct export_layout *l, const struct table_schema *s, const void *row,
                    unsigned char *out)
{
    float weights[LIMIT_WIDTH];
    bool floats = l->column[1].type == EXPORT_F32;
    size_t at = sizeof(uint64_t);
    memcpy(out, row, at);
    table_row_weights(s, row, weights);
    if (floats)
        memcpy(out + at, weights, s->width * sizeof *weights);
    else
        half_narrow((enum value_kind)s->values, weights, out + at, s->width); /* exact */
    at += (size_t)s->width * export_type_facts(l->column[1].type)->bytes;

    const float *state = table_row_state(s, row);
    if (l->bytes == at)
        return;
    uint32_t floats_before = schema_state_floats(s);
    if (s->rules.stats != 0)
        floats_before = schema_stats_at(s) - schema_weight_floats(s);
    memcpy(out + at, state, floats_before * sizeof *state);
    if (s->rules.stats != 0) {
        struct row_stats stats;
        memcpy(&stats, state + floats_before, sizeof stats);
        stats_put(l, &stats, out);
    }
}

/* ---- a span ---------------------------------------------------------------------------------- */

static void key_take(void *context, const void *row)
{
    struct side *s = context;
    if (array_room(&s->key, s->keys, &s->room, 4096) != 0)
        s->full = true;
    if (!s->full)
        memcpy(&s->key[s->keys++], row, sizeof *s->key);
}

static void side_clear(struct side *s)
{
    table_free(s->table);
    arena_free(s->arena);
    s->table = NULL;
    s->arena = NULL;
    s->keys = 0;
}

static void side_free(struct side *s)
{
    side_clear(s);
    free(s->key);
    free(s->row);
}

/* Reads span `number` of 2^bits. */
static int side_read(struct side *s, uint32_t number, uint32_t bits, struct err *e)
{
    side_clear(s);
    if (s->schema == NULL)
        return 0;
    if (arena_new(&s->arena) != 0)
        return err_set(e, SHOAL_E_NOMEM, "out of memory");
    SHOAL_ASSERT(bits <= s->schema->tablet_bits);
    uint32_t count = 1u << (s->schema->tablet_bits - bits), first = number * count;
    int rc = reader_copy(s->reader, s->index, first, count, s->arena, &s->table, e);
    if (rc != 0)
        return rc;
    for (uint32_t t = first; t < first + count; t++)
        table_visit(s->table, t, key_take, s);
    if (s->full)
        return err_set(e, SHOAL_E_NOMEM, "out of memory");
    if (s->keys > 1)
        qsort(s->key, s->keys, sizeof *s->key, key_by_mixed);
    return 0;
}

static const void *side_row(const struct side *s, uint64_t key)
{
    if (s->table == NULL)
        return NULL;
    return table_row(s->table, key);
}

/* ---- the walk -------------------------------------------------------------------------------- */

/* True when the older side has the row with the same bytes. */
static bool unchanged(struct walk *w, uint64_t key)
{
    const void *was = side_row(&w->was, key);
    if (was == NULL)
        return false;
    row_put(&w->layout, w->was.schema, was, w->was.row);
    return memcmp(w->was.row, w->is.row, w->layout.bytes) == 0;
}

static int span_write(struct walk *w, struct export_list *rows, struct export_list *erased,
                      struct err *e)
{
    const struct export_format *format = rows->export->format;
    int rc = 0;
    for (size_t i = 0; i < w->is.keys && rc == 0; i++) {
        row_put(&w->layout, w->is.schema, side_row(&w->is, w->is.key[i]), w->is.row);
        if (erased != NULL && unchanged(w, w->is.key[i]))
            continue;
        rc = format->row(rows, w->is.row, e);
        w->counts->rows++;
    }
    for (size_t i = 0; erased != NULL && i < w->was.keys && rc == 0; i++) {
        if (side_row(&w->is, w->was.key[i]) != NULL)
            continue;
        rc = format->row(erased, (const unsigned char *)&w->was.key[i], e);
        w->counts->erased++;
    }
    return rc;
}

/* The number of spans: each has at most the bytes that the export may have in memory, as far as
 * tablets can be divided so. */
static uint32_t spans_of(const struct export *x, const struct walk *w)
{
    const struct side *is = &w->is, *was = &w->was;
    uint32_t bits = 0, most = is->schema->tablet_bits;
    uint64_t bytes = reader_rows(is->reader, is->index) * schema_row_floats(is->schema);
    if (was->schema != NULL) {
        most = MIN(most, was->schema->tablet_bits);
        bytes += reader_rows(was->reader, was->index) * schema_row_floats(was->schema);
    }
    bytes *= sizeof(float);
    while (bits < most && bytes >> bits > x->span_bytes)
        bits++;
    return bits;
}

static bool same_columns(const struct export_layout *a, const struct export_layout *b)
{
    bool same = a->columns == b->columns && a->bytes == b->bytes;
    for (uint32_t i = 0; same && i < a->columns; i++)
        same = strcmp(a->column[i].name, b->column[i].name) == 0 &&
               a->column[i].type == b->column[i].type && a->column[i].count == b->column[i].count;
    return same;
}

static int older_find(struct walk *w, const struct export *x, struct reader *since, uint32_t index,
                      struct err *e)
{
    if (since == NULL || index == UINT32_MAX)
        return 0;
    w->was = (struct side){.reader = since, .index = index, .schema = reader_schema(since, index)};
    struct export_layout was = export_layout_of(w->was.schema, x->state, x->stored);
    bool same = same_columns(&was, &w->layout) &&
                (!x->state || w->was.schema->optimizer.kind == w->is.schema->optimizer.kind);
    if (!same)
        return err_set(e, SHOAL_E_CONFIG,
                       "--since: rows of table %s have other columns in the older checkpoint "
                       "(another dim, optimizer, kind of values or statistics): export it whole, "
                       "without --since",
                       w->layout.table);
    return 0;
}

static int walk_write(struct walk *w, struct export_list *rows, struct export_list *erased,
                      struct err *e)
{
    int rc = 0;
    for (uint32_t i = 0; i < 1u << w->span_bits && rc == 0; i++) {
        rc = side_read(&w->is, i, w->span_bits, e);
        if (rc == 0)
            rc = side_read(&w->was, i, w->span_bits, e);
        if (rc == 0)
            rc = span_write(w, rows, erased, e);
    }
    return rc;
}

int export_rows(struct export *x, struct reader *from, uint32_t index, struct reader *since,
                uint32_t was, struct json *arrays, struct export_counts *out, struct err *e)
{
    const struct table_schema *s = reader_schema(from, index);
    struct walk w = {.layout = export_layout_of(s, x->state, x->stored),
                     .is = {.reader = from, .index = index, .schema = s},
                     .counts = out};
    struct export_list rows = {.export = x, .layout = w.layout, .arrays = arrays};
    struct export_list gone = {.export = x, .layout = export_layout_erased(s), .arrays = arrays};
    struct export_list *erased = since == NULL ? NULL : &gone;
    for (uint32_t i = 1; i < w.layout.columns; i++)
        if (w.layout.column[i].text != NULL)
            out->numbers += w.layout.column[i].count;
    int rc = older_find(&w, x, since, was, e);
    if (rc != 0)
        return rc;

    w.span_bits = spans_of(x, &w);
    w.is.row = malloc(w.layout.bytes);
    w.was.row = malloc(w.layout.bytes);
    if (w.is.row == NULL || w.was.row == NULL)
        rc = err_set(e, SHOAL_E_NOMEM, "out of memory");
    if (rc == 0)
        rc = x->format->begin(&rows, e);
    if (rc == 0 && erased != NULL)
        rc = x->format->begin(erased, e);
    if (rc == 0)
        rc = walk_write(&w, &rows, erased, e);
    if (rc == 0)
        rc = x->format->end(&rows, e);
    if (rc == 0 && erased != NULL)
        rc = x->format->end(erased, e);
    export_list_free(&rows);
    export_list_free(&gone);
    side_free(&w.is);
    side_free(&w.was);
    return rc;
}
