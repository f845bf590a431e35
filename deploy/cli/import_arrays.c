/* import_arrays.c: rows of arrays: npy files, a safetensors file, or a folder of `shoal export`.
 *
 * A row's numbers lie in several arrays of as many rows: first-order weights, vectors, state,
 * statistics. A large safetensors export has them in pieces, NAME.00000 and so on, whose rows
 * follow one another. */
#include "deploy/cli/import.h"
#include "deploy/cli/import_files.h"
#include "proto/base/assert.h"
#include "proto/base/container_of.h"
#include "proto/base/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COLUMNS = 8, PIECES = 4096 };

struct array_column {
    struct tensor_in from;
    uint32_t at, floats; /* its place in a row */
    bool word;           /* u32, whose bits are kept */
};

struct piece {
    struct tensor_in keys;
    struct array_column column[COLUMNS];
    uint32_t columns;
    uint64_t rows;
};

struct arrays_source {
    struct import_source source;
    struct import_files files;
    struct piece *piece; /* owned; (pieces) */
    uint32_t pieces, in; /* in: the piece of the next row */
    uint64_t next;       /* its number in the piece */
    const struct table_schema *schema;
};

static struct arrays_source *of(const struct import_source *s)
{
    return container_of((struct import_source *)(uintptr_t)s, struct arrays_source, source);
}

/* ---- rows ------------------------------------------------------------------------------------ */

static void column_read(const struct array_column *c, uint64_t row, float *out)
{
    bool negative;
    if (!c->word) {
        tensor_floats(&c->from.tensor, c->from.data, row * c->floats, c->floats, out + c->at);
        return;
    }
    uint32_t word = (uint32_t)tensor_integer(&c->from.tensor, c->from.data, row, &negative);
    memcpy(out + c->at, &word, sizeof word);
}

static int arrays_next(struct import_source *s, struct import_key *key, float *row, struct err *e)
{
    struct arrays_source *a = of(s);
    (void)e;
    while (a->in < a->pieces && a->next == a->piece[a->in].rows) {
        a->in++;
        a->next = 0;
    }
    if (a->in == a->pieces)
        return 0;
    const struct piece *p = &a->piece[a->in];
    *key = (struct import_key){.number = 0};
    key->number = tensor_integer(&p->keys.tensor, p->keys.data, a->next, &key->negative);
    memset(row, 0, s->floats * sizeof *row);
    for (uint32_t i = 0; i < p->columns; i++)
        column_read(&p->column[i], a->next, row);
    a->next++;
    return 1;
}

static void arrays_rewind(struct import_source *s)
{
    of(s)->in = 0;
    of(s)->next = 0;
}

static void arrays_place(const struct import_source *s, char *out, size_t bytes)
{
    const struct arrays_source *a = of(s);
    const struct piece *p = &a->piece[a->in < a->pieces ? a->in : a->pieces - 1];
    (void)snprintf(out, bytes, "%s%s%s row %" PRIu64, p->keys.path,
                   text_if(p->keys.tensor.name[0] != 0, " "), p->keys.tensor.name,
                   a->next > 0 ? a->next - 1 : 0);
}

static uint64_t arrays_sum(const struct import_source *s)
{
    return import_files_checksum(&of(s)->files);
}

static void arrays_close(struct import_source *s)
{
    struct arrays_source *a = of(s);
    import_files_close(&a->files);
    free(a->piece);
    free(a);
}

/* ---- columns --------------------------------------------------------------------------------- */

static int differs(const struct tensor_in *in, const char *what, struct err *e)
{
    return err_set(e, SHOAL_E_DATA, "%s%s%s: %s", in->path, text_if(in->tensor.name[0] != 0, " "),
                   in->tensor.name, what);
}

/* Adds an array of numbers: (rows, floats), or (rows) for one. */
static int column_add(struct piece *p, const struct tensor_in *in, uint32_t at, uint32_t floats,
                      bool word, struct err *e)
{
    const struct tensor *t = &in->tensor;
    char what[160];
    SHOAL_ASSERT(p->columns < COLUMNS && floats > 0);
    if (tensor_whole(t->type) != word || (word && tensor_type_bytes(t->type) != 4))
        return differs(in, word ? "U32 is expected" : "numbers with a fraction are expected", e);
    if (t->rank < 1 || t->shape[0] != p->rows || t->elements != p->rows * floats || t->rank > 2 ||
        (t->rank == 1 && floats != 1)) {
        (void)snprintf(what, sizeof what,
                       "it has %" PRIu64 " numbers in %u dimensions; %" PRIu64
                       " rows of %u are expected",
                       t->elements, t->rank, p->rows, floats);
        return differs(in, what, e);
    }
    p->column[p->columns++] = (struct array_column){*in, at, floats, word};
    return 0;
}

static int keys_set(struct piece *p, const struct tensor_in *in, struct err *e)
{
    if (!tensor_whole(in->tensor.type) || in->tensor.rank != 1)
        return differs(in, "keys are integers in one dimension", e);
    p->keys = *in;
    p->rows = in->tensor.elements;
    return 0;
}

/* Weights of all numbers of a row, or of the vector alone; the others begin at 0. */
static int weights_add(struct piece *p, const struct tensor_in *in, const struct table_schema *s,
                       struct err *e)
{
    const uint32_t dim = s->width - s->zero_first;
    char what[160];
    uint64_t floats = 1;
    if (in->tensor.rank == 2)
        floats = in->tensor.shape[1];
    if (floats == s->width)
        return column_add(p, in, 0, s->width, false, e);
    if (floats == dim)
        return column_add(p, in, s->zero_first, dim, false, e);
    (void)snprintf(what, sizeof what,
                   "rows of %" PRIu64 " numbers; table %.63s has %u (%u first-order, a vector of "
                   "%u)",
                   floats, s->name, s->width, s->zero_first, dim);
    return differs(in, what, e);
}

/* ---- what a line names ----------------------------------------------------------------------- */

static int named_columns(struct arrays_source *a, const struct import_line *l, struct err *e)
{
    const struct table_schema *s = l->schema;
    struct piece *p = &a->piece[0];
    struct tensor_in ids, weights, state;
    int rc = import_files_named(&a->files, l->ids, &ids, e);
    if (rc == 0)
        rc = keys_set(p, &ids, e);
    if (rc == 0)
        rc = import_files_named(&a->files, l->weights, &weights, e);
    if (rc == 0)
        rc = weights_add(p, &weights, s, e);
    if (rc != 0 || l->state == NULL)
        return rc;
    const uint32_t floats = table_assign_floats(s, ASSIGN_STATE) - s->width;
    rc = import_files_named(&a->files, l->state, &state, e);
    if (rc == 0 && floats == 0)
        rc = err_set(e, SHOAL_E_DATA, "%s: the optimizer of table %s has no state", state.path,
                     s->name);
    if (rc == 0)
        rc = column_add(p, &state, s->width, floats, false, e);
    a->source.parts = ASSIGN_STATE;
    return rc;
}

/* ---- exports --------------------------------------------------------------------------------- */

/* The array TABLE.COLUMN of a piece; 1: there is none. */
static int export_find(struct arrays_source *a, const char *column, int piece,
                       struct tensor_in *out, struct err *e)
{
    char name[TENSOR_NAME];
    if (piece < 0)
        (void)snprintf(name, sizeof name, "%.63s.%s", a->schema->name, column);
    else
        (void)snprintf(name, sizeof name, "%.63s.%s.%05d", a->schema->name, column, piece);
    return import_files_find(&a->files, name, out, e);
}

static int export_column(struct arrays_source *a, struct piece *p, const char *column, int piece,
                         uint32_t at, uint32_t floats, bool word, bool *found, struct err *e)
{
    struct tensor_in in;
    int rc = export_find(a, column, piece, &in, e);
    *found = rc == 0;
    if (rc != 0)
        return rc < 0 ? rc : 0;
    return column_add(p, &in, at, floats, word, e);
}

static int export_stats(struct arrays_source *a, struct piece *p, int piece, uint32_t at, bool *all,
                        struct err *e)
{
    /* in the order of struct row_stats */
    static const char *const name[] = {"show", "click", "delta_score", "time", "flags"};
    uint32_t found = 0;
    int rc = 0;
    for (uint32_t i = 0; i < 5 && rc == 0; i++) {
        bool one = false;
        rc = export_column(a, p, name[i], piece, at + i, 1, i >= 3, &one, e);
        found += one;
    }
    *all = found == 5;
    if (rc == 0 && found != 0 && found != 5)
        rc = err_set(e, SHOAL_E_DATA,
                     "%s: it has some columns of the statistics of %s, and lacks "
                     "others",
                     p->keys.path, a->schema->name);
    return rc;
}

static int export_piece(struct arrays_source *a, int number, struct piece *p, struct err *e)
{
    const struct table_schema *s = a->schema;
    const uint32_t state = table_assign_floats(s, ASSIGN_STATE) - s->width,
                   dim = s->width - s->zero_first;
    bool first = true, vectors = true, with_state = false, stats = false;
    int rc = 0;
    if (s->zero_first > 0)
        rc = export_column(a, p, "first", number, 0, s->zero_first, false, &first, e);
    if (rc == 0 && dim > 0)
        rc = export_column(a, p, "vectors", number, s->zero_first, dim, false, &vectors, e);
    if (rc == 0 && (!first || !vectors))
        rc = err_set(e, SHOAL_E_DATA, "%s: the weights of table %s are not there", p->keys.path,
                     s->name);
    if (rc == 0 && state > 0)
        rc = export_column(a, p, "state", number, s->width, state, false, &with_state, e);
    if (rc == 0 && s->rules.stats != 0)
        rc = export_stats(a, p, number, s->width + (with_state ? state : 0), &stats, e);
    const uint32_t parts = (with_state ? ASSIGN_STATE : 0) | (stats ? ASSIGN_STATS : 0);
    if (rc == 0 && number > 0 && parts != a->source.parts)
        rc = err_set(e, SHOAL_E_DATA, "%s: the pieces have not the same columns", p->keys.path);
    a->source.parts = parts;
    return rc;
}

static int export_open(struct arrays_source *a, struct err *e)
{
    struct tensor_in keys;
    int rc = export_find(a, "keys", -1, &keys, e);
    const bool whole = rc == 0;
    for (int i = whole ? -1 : 0; a->pieces < PIECES; i++) {
        if (!whole || i >= 0)
            rc = export_find(a, "keys", i, &keys, e);
        if (rc != 0 || (whole && i >= 0))
            break;
        struct piece *p = &a->piece[a->pieces++];
        if ((rc = keys_set(p, &keys, e)) != 0 || (rc = export_piece(a, i, p, e)) != 0)
            return rc;
        if (keys.tensor.type != TENSOR_U64)
            return differs(&keys, "keys of an export are U64", e);
    }
    if (rc < 0)
        return rc;
    if (a->pieces == 0)
        return err_set(e, SHOAL_E_NOT_FOUND, "%s has no rows of table %s (an array %s.keys)",
                       a->files.what, a->schema->name, a->schema->name);
    return 0;
}

/* ---- opening --------------------------------------------------------------------------------- */

int import_arrays_open(struct import_line *l, struct import_source **out, struct err *e)
{
    struct arrays_source *a = calloc(1, sizeof *a);
    if (a == NULL)
        return err_set(e, SHOAL_E_NOMEM, "out of memory");
    a->source = (struct import_source){.next = arrays_next,
                                       .rewind = arrays_rewind,
                                       .place = arrays_place,
                                       .sum = arrays_sum,
                                       .close = arrays_close};
    a->schema = l->schema;
    a->piece = calloc(PIECES, sizeof *a->piece);
    int rc = 0;
    if (a->piece == NULL)
        rc = err_set(e, SHOAL_E_NOMEM, "out of memory");
    if (rc == 0)
        rc = import_files_open(&a->files, l, e);
    const bool exported = rc == 0 && a->files.exported && l->ids == NULL;
    a->source.form = exported || l->raw ? IMPORT_RAW : IMPORT_INTEGER;
    if (rc == 0 && exported) {
        rc = export_open(a, e);
    } else if (rc == 0 && l->ids == NULL) {
        rc = err_set(e, SHOAL_E_USAGE,
                     "%s is no export: say which of its arrays are keys and weights (--ids NAME "
                     "--weights NAME)",
                     l->path);
    } else if (rc == 0) {
        a->pieces = 1;
        rc = named_columns(a, l, e);
    }
    a->source.floats = table_assign_floats(l->schema, a->source.parts);
    if (rc != 0) {
        arrays_close(&a->source);
        return rc;
    }
    a->source.checksum = arrays_sum(&a->source);
    (void)snprintf(a->source.names, sizeof a->source.names, "%.90s", text_or(l->path, l->weights));
    *out = &a->source;
    return 0;
}
