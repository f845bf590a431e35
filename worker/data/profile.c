/* profile.c: statistics of a sample of lines, column by column, as JSON. */
#include "worker/data/profile.h"

#include "proto/base/hash.h"
#include "proto/base/minmax.h"
#include "proto/base/text.h"
#include "worker/data/feature_inner.h"
#include "worker/data/profile_notes.h"
#include "worker/data/profile_rows.h"
#include "worker/data/sample.h"
#include "worker/data/sample_events.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CELLS (1u << 21) /* distinct values of all columns together: at most 64 MiB */
#define ROWS_LEAST 1024u
#define PLACES_LEAST 16u /* entries at two places before a note is made */

struct profile {
    const struct features *features;
    struct profile_column *column; /* owned; (count) */
    uint32_t count;
    uint64_t rows;
    struct profile_rows lines;
    struct place *place; /* owned; libsvm: places of entries */
    bool parsed;         /* rows of event files, which have no cells */
    uint64_t *key;       /* owned; with a weighted multi: room for the keys of a line */
};

/* In libsvm the place of an entry is its field, so an entry at several places belongs to no field.
 * Slots are found by the hash of its number; an entry whose slot is taken is skipped. */
#define PLACE_SLOTS (1u << 16)
struct place {
    uint64_t hash;
    uint16_t first; /* from 1; 0: the slot is free */
    uint16_t other; /* another place, from 1; 0: none */
};

static void places_take(struct profile *v, const struct cell *cell)
{
    for (uint32_t i = 1; v->place != NULL && i < v->features->columns; i++) {
        uint64_t hash = hash_bytes(cell[i].text, cell[i].bytes, 0);
        struct place *p = &v->place[hash & (PLACE_SLOTS - 1)];
        if (p->first == 0)
            *p = (struct place){.hash = hash, .first = (uint16_t)i};
        else if (p->hash == hash && p->first != i)
            p->other = (uint16_t)i;
    }
}

static bool is_weighted(const struct features *f, const struct feature_use *use)
{
    return use->type == COLUMN_MULTI && f->multi_form[use - f->field] != MULTI_PLAIN;
}

/* Adds the values of a weighted multi. A cell that has a malformed weight is left out. */
static int weighted_see(const struct profile *v, struct profile_column *c, const struct cell *cell)
{
    char reason[REASON_BYTES];
    uint32_t count;
    uint32_t field = (uint32_t)(c->use - v->features->field);
    if (feature_multi_keys(v->features, field, cell, v->key, NULL, &count, reason) != 0)
        return 0;
    return column_seen_add_keys(&c->seen, &cell[c->use->column], v->key, count);
}

static int row_see(void *context, const struct cell *cell)
{
    struct profile *v = context;
    const struct features *f = v->features;
    double label;
    bool positive = feature_number(&cell[f->label[0]], &label) && label > f->label_above;
    int rc = 0;
    v->rows++;
    profile_rows_see(&v->lines, f, cell);
    places_take(v, cell);
    for (uint32_t i = 0; i < v->count && rc == 0; i++) {
        struct profile_column *c = &v->column[i];
        const struct cell *own = &cell[c->use->column];
        if (!c->numeric && is_weighted(f, c->use))
            rc = weighted_see(v, c, cell);
        else if (!c->numeric && c->use->type == COLUMN_MULTI)
            rc = column_seen_add_multi(&c->seen, own, c->use->separator, c->padding);
        else
            rc = column_seen_add(&c->seen, own, positive);
    }
    return rc;
}

/* ---- parsed rows ----------------------------------------------------------------------------- */

/* The number of the log behind the network's input; log1p keeps six digits of it. */
static double number_of(const struct profile *v, const struct profile_column *c, float x)
{
    char text[32];
    const struct features *f = v->features;
    if (c->use->transform == NUMBER_STANDARD && c->use->at != FEATURE_PLAIN) {
        const struct scale *s = &f->scale[c->use->at];
        (void)snprintf(text, sizeof text, "%.6g", (double)x * s->deviation + s->mean);
        return strtod(text, NULL);
    }
    if (c->use->transform != NUMBER_LOG1P)
        return (double)x;
    (void)snprintf(text, sizeof text, "%.6g", copysign(expm1(fabs((double)x)), (double)x));
    return strtod(text, NULL);
}

/* Adds one column of a row; at: start of each field's keys. */
static int column_see(const struct profile *v, struct profile_column *c, const struct slice_row *r,
                      const uint32_t *at)
{
    const struct features *f = v->features;
    bool positive = (r->labels & 1) != 0;
    if (c->numeric)
        return column_seen_add_number(&c->seen, number_of(v, c, r->numeric[c->use - f->numeric]),
                                      positive);
    uint32_t field = (uint32_t)(c->use - f->field);
    const uint64_t *key = r->key + at[field];
    if (c->use->type == COLUMN_MULTI)
        return column_seen_add_keys(&c->seen, NULL, key, r->count[field]);
    return column_seen_add_key(&c->seen, *key, c->has_none && *key == c->none, positive);
}

static int block_see(void *context, const struct slice *b, uint32_t rows)
{
    struct profile *v = context;
    struct slice_row r;
    uint32_t at[LIMIT_FIELDS + 1] = {0};
    int rc = 0;
    for (uint32_t row = 0; row < rows && rc == 0; row++) {
        rc = slice_row(b, row, &r);
        if (rc != 0 || r.where != NULL)
            continue;
        v->rows++;
        for (uint32_t i = 0; i < v->features->shape.fields; i++)
            at[i + 1] = at[i] + (v->features->multi ? r.count[i] : 1);
        for (uint32_t i = 0; i < v->count && rc == 0; i++)
            rc = column_see(v, &v->column[i], &r, at);
    }
    return rc;
}

/* ---- as JSON --------------------------------------------------------------------------------- */

static const char *kind_of(const struct profile_column *c)
{
    if (c->numeric || c->use->type == COLUMN_NUMBER)
        return c->numeric ? "number" : "bucket";
    if (c->use->type == COLUMN_MULTI && c->weighted)
        return c->use->id ? "multi id weighted" : "multi weighted";
    if (c->use->type == COLUMN_MULTI)
        return c->use->id ? "multi id" : "multi";
    return c->use->id ? "id" : "category";
}

static struct json *column_json(const struct profile *v, const struct profile_column *c)
{
    const struct column_seen *s = &c->seen;
    struct json *j = json_new_object(), *examples;
    json_set_string(j, "name", c->name);
    json_set_string(j, "kind", kind_of(c));
    json_set_int(j, "values", s->distinct);
    if (!v->parsed || !c->numeric) /* in event files an empty cell of a number is 0 */
        json_set_number(j, "empty", s->cells > 0 ? (double)s->empty / (double)s->cells : 0);
    if (c->use->type == COLUMN_NUMBER && s->numbers > 0) {
        json_set_number(j, "least", s->least);
        json_set_number(j, "most", s->most);
    }
    if (v->parsed)
        return j;
    examples = json_new_array();
    for (uint32_t i = 0; i < s->examples; i++)
        json_append_string(examples, s->example[i]);
    json_set(j, "examples", examples);
    return j;
}

static void places_note(const struct profile *v, struct json *notes)
{
    uint32_t several = 0, numbers = 0;
    const struct place *first = NULL;
    char text[512];
    for (uint32_t i = 0; v->place != NULL && i < PLACE_SLOTS; i++) {
        const struct place *p = &v->place[i];
        numbers += p->first != 0;
        several += p->other != 0;
        if (p->other != 0 && first == NULL)
            first = p;
    }
    if (several < PLACES_LEAST)
        return;
    (void)snprintf(text, sizeof text,
                   "%u of %u entries of the libsvm lines looked at stand at several places, one at "
                   "%u and %u, and an entry's place is its field: if ranges of numbers are the "
                   "fields, sort the entries of each line by their numbers; if not, say "
                   "data.libsvm: one",
                   several, numbers, first->first, first->other);
    json_append_string(notes, text);
}

/* A factorisation machine over the one field of libsvm lines has no pairs. */
static void pairs_note(const struct profile *v, const struct job *job, struct json *notes)
{
    if (v->features->entries == ENTRIES_ONE && job->model.kind == MODEL_FM)
        json_append_string(notes,
                           "model.kind fm has pairs of fields, and all entries of the libsvm lines "
                           "are one field, so it computes what lr does; with up to 512 indexes "
                           "data.libsvm: indexes makes each a field");
}

static struct json *profile_json(const struct profile *v, const struct job *job, bool whole)
{
    const struct features *f = v->features;
    struct json *j = json_new_object(), *fields = json_new_array(), *notes = json_new_array();
    const struct cell *name = &f->name[f->label[0]];
    char label[LIMIT_NAME];
    const char *tells;
    (void)snprintf(label, sizeof label, "%.*s", (int)MIN(name->bytes, LIMIT_NAME - 1), name->text);
    for (uint32_t i = 0; i < v->count; i++)
        json_append(fields, column_json(v, &v->column[i]));
    json_set_int(j, "rows", (int64_t)v->rows);
    json_set_bool(j, "whole", whole);
    json_set(j, "fields", fields);
    bool shared = profile_files(job, notes);
    profile_notes_add(v->column, v->count, (f->real & 1) != 0 ? NULL : label, notes, &tells);
    if (!v->parsed)
        profile_rows_tell(&v->lines, f, j, notes);
    places_note(v, notes);
    pairs_note(v, job, notes);
    json_set(j, "notes", notes);
    json_set_bool(j, "shared", shared);
    if (tells != NULL)
        json_set_string(j, "tells", tells);
    return j;
}

/* ---- the whole profile
 * ------------------------------------------------------------------------ */

static void column_take(struct profile *v, const struct feature_use *use,
                        const struct feature_padding *padding)
{
    const struct cell *name = &v->features->name[use->column];
    if (use->type == COLUMN_CROSS || use->type == COLUMN_MISSING)
        return; /* a profile is of the input's columns */
    struct profile_column *c = &v->column[v->count++];
    *c = (struct profile_column){.use = use, .padding = padding, .numeric = padding == NULL};
    if (name->bytes == 0) /* by position, as data.columns may name it */
        (void)snprintf(c->name, sizeof c->name, "%u", use->column);
    else
        (void)snprintf(c->name, sizeof c->name, "%.*s", (int)MIN(name->bytes, LIMIT_NAME - 1),
                       name->text);
    text_clean(c->name); /* notes print it */
}

/* In the order of the input's columns. */
static int by_column(const void *a, const void *b)
{
    const struct profile_column *x = a, *y = b;

    if (x->use->column < y->use->column)
        return -1;

    return x->use->column > y->use->column;
}

/* Notes what the job says of weights. */
static void weighted_take(const struct profile *v, const struct job *job)
{
    for (uint32_t i = 0; i < v->count; i++) {
        struct profile_column *c = &v->column[i];
        c->weighted = !c->numeric && is_weighted(v->features, c->use);
        for (size_t k = 0; k < job->data.column_count; k++)
            if (strcmp(job->data.column[k].name, c->name) == 0)
                c->weighted_said = job->data.column[k].weighted_said;
    }
}

static int profile_open(struct profile *v, const struct job *job, const struct features *f,
                        struct err *e)
{
    uint32_t columns = f->shape.fields + f->shape.numerics;
    bool libsvm = f->format == &format_libsvm && f->entries == ENTRIES_PLACES;
    *v = (struct profile){.features = f, .column = calloc(columns + 1, sizeof *v->column)};
    if (libsvm)
        v->place = calloc(PLACE_SLOTS, sizeof *v->place);
    else
        v->place = NULL;
    if (f->weighted)
        v->key = malloc((LIMIT_LINE_BYTES + 1ul) * sizeof *v->key);
    if (v->column == NULL || (libsvm && v->place == NULL) || (f->weighted && v->key == NULL))
        return err_set(e, SHOAL_E_NOMEM, "no memory to look at %u columns", columns);
    for (uint32_t i = 0; i < f->shape.fields; i++)
        column_take(v, &f->field[i], &f->padding[i]);
    for (uint32_t i = 0; i < f->shape.numerics; i++)
        column_take(v, &f->numeric[i], NULL);
    int rc = profile_rows_open(&v->lines, f, e);
    if (rc != 0)
        return rc;
    qsort(v->column, v->count, sizeof *v->column, by_column);
    weighted_take(v, job);
    for (uint32_t i = 0; i < v->count; i++) {
        struct profile_column *c = &v->column[i];
        c->has_none = !c->numeric && c->use->type != COLUMN_MULTI &&
                      feature_field_key(f, (uint32_t)(c->use - f->field), "", &c->none, NULL) == 0;
    }
    return 0;
}

static void profile_close(struct profile *v)
{
    for (uint32_t i = 0; i < v->count && v->column != NULL; i++)
        column_seen_free(&v->column[i].seen);
    free(v->column);
    profile_rows_close(&v->lines);
    free(v->place);
    free(v->key);
}

static uint64_t rows_most(const struct features *f)
{
    uint32_t columns = f->shape.fields + f->shape.numerics;
    uint64_t most = SAMPLE_ROWS;
    if (columns != 0)
        most = CELLS / columns;

    if (most > SAMPLE_ROWS)
        return SAMPLE_ROWS;
    if (most < ROWS_LEAST)
        return ROWS_LEAST;

    return most;
}

int profile_make(const struct job *job, const struct source *s, const struct index *x,
                 const struct features *f, struct json **out, struct err *e)
{
    struct profile v;
    uint64_t most = rows_most(f);
    int rc = profile_open(&v, job, f, e);
    if (rc == 0)
        rc = sample_walk(s, x, f, most, row_see, &v, e);
    for (uint32_t i = 0; i < v.count && rc == 0; i++)
        rc = profile_notes_refuse(&v.column[i], e);
    if (rc == 0)
        *out = profile_json(&v, job, sample_whole(x, most));
    profile_close(&v);
    return rc;
}

int profile_make_events(const struct job *job, const struct source *s, uint64_t rows,
                        const struct features *f, struct json **out, struct err *e)
{
    struct columns wanted = {0};
    struct profile v;
    uint64_t most = rows_most(f);
    int rc = profile_open(&v, job, f, e);
    v.parsed = true;
    if (rc == 0)
        rc = columns_of(f, &wanted, e);
    if (rc == 0)
        rc = sample_events_walk(s, &wanted, rows, most, block_see, &v, e);
    if (rc == 0)
        *out = profile_json(&v, job, rows <= most);
    columns_free(&wanted);
    profile_close(&v);
    return rc;
}
