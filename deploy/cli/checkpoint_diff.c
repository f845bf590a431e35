/* checkpoint_diff.c: `shoal checkpoint diff`: the rows that came, went and changed between two
 * checkpoints, and how far weights moved, by field. One table at a time: the earlier checkpoint's
 * is held in memory, the later one's rows are streamed. */
#include "deploy/cli/checkpoint.h"
#include "deploy/cli/reader.h"
#include "embedding/table.h"
#include "proto/base/key.h"
#include "proto/base/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIELDS = 65536, FIELDS_SHOWN = 12 }; /* all numbers that a key can name */

struct moved {
    uint64_t before, after, came, gone, changed;
    double distance_sum, distance_max;
    uint64_t key_max;
};

struct compare {
    const struct table *was;                           /* NULL: the table is new */
    const struct table_schema *schema_was, *schema_is; /* borrowed */
    struct schema_part part[2]; /* parts of the weights that rows of both tables have */
    struct moved *field;        /* (FIELDS), owned */
    struct moved all;
};

static uint64_t row_key(const void *row)
{
    uint64_t key;
    memcpy(&key, row, sizeof key);
    return key;
}

static struct moved *field_of(struct compare *c, uint64_t key)
{
    return &c->field[key_field(key)];
}

static void before_count(void *context, const void *row)
{
    field_of(context, row_key(row))->before++;
}

/* True when the weights differ; *out is their distance. */
static bool distance(const struct compare *c, const void *was, const void *is, double *out)
{
    float x[LIMIT_WIDTH], y[LIMIT_WIDTH];
    double sum = 0;
    bool differ = false;
    table_row_weights(c->schema_was, was, x);
    table_row_weights(c->schema_is, is, y);
    for (int p = 0; p < 2; p++) {
        const float *a = x + c->part[p].from, *b = y + c->part[p].to;
        for (uint32_t i = 0; i < c->part[p].floats; i++)
            sum += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
        differ |= memcmp(a, b, c->part[p].floats * sizeof *a) != 0;
    }
    *out = sqrt(sum);
    return differ;
}

static void row_compare(void *context, const void *row)
{
    struct compare *c = context;
    uint64_t key = row_key(row);
    struct moved *f = field_of(c, key);
    const void *was = NULL;
    if (c->was != NULL)
        was = table_row(c->was, key);
    f->after++;
    if (was == NULL) {
        f->came++;
        return;
    }
    f->gone++; /* counts rows found in both; turned into rows gone at the end */
    double d;
    if (!distance(c, was, row, &d))
        return;
    f->changed++;
    f->distance_sum += d;
    if (d > f->distance_max || f->changed == 1) {
        f->distance_max = d;
        f->key_max = key;
    }
}

static void sum_up(struct compare *c)
{
    for (uint32_t i = 0; i < FIELDS; i++) {
        struct moved *f = &c->field[i];
        f->gone = f->before - f->gone;
        c->all.before += f->before;
        c->all.after += f->after;
        c->all.came += f->came;
        c->all.gone += f->gone;
        c->all.changed += f->changed;
        c->all.distance_sum += f->distance_sum;
        if (f->changed > 0 && f->distance_max >= c->all.distance_max) {
            c->all.distance_max = f->distance_max;
            c->all.key_max = f->key_max;
        }
    }
}

/* ---- telling --------------------------------------------------------------------------------- */

static double mean_of(const struct moved *m)
{
    if (m->changed > 0)
        return m->distance_sum / (double)m->changed;
    return 0;
}

static void moved_set(struct json *j, const struct moved *m)
{
    (void)json_set_int(j, "rows_before", (int64_t)m->before);
    (void)json_set_int(j, "rows_after", (int64_t)m->after);
    (void)json_set_int(j, "came", (int64_t)m->came);
    (void)json_set_int(j, "gone", (int64_t)m->gone);
    (void)json_set_int(j, "changed", (int64_t)m->changed);
    (void)json_set_number(j, "distance_mean", mean_of(m));
    (void)json_set_number(j, "distance_max", m->distance_max);
    if (m->changed > 0)
        (void)json_set_hex(j, "key_max", m->key_max);
}

static const struct moved *sort_by; /* (FIELDS): qsort has no context */

static int most_moved_first(const void *a, const void *b)
{
    const struct moved *x = &sort_by[*(const uint32_t *)a], *y = &sort_by[*(const uint32_t *)b];
    if (x->distance_sum != y->distance_sum) {
        if (x->distance_sum < y->distance_sum)
            return 1;
        return -1;
    }
    return (*(const uint32_t *)a > *(const uint32_t *)b) -
           (*(const uint32_t *)a < *(const uint32_t *)b);
}

/* Numbers of the fields that have rows, the most moved first; the caller frees it. */
static uint32_t *fields_sorted(const struct compare *c, uint32_t *count)
{
    uint32_t *field = malloc(FIELDS * sizeof *field);
    *count = 0;
    for (uint32_t i = 0; field != NULL && i < FIELDS; i++)
        if (c->field[i].before + c->field[i].after > 0)
            field[(*count)++] = i;
    sort_by = c->field;
    if (*count > 1)
        qsort(field, *count, sizeof *field, most_moved_first);
    return field;
}

static void moved_print(const char *what, const struct moved *m)
{
    printf("  %-14s %11" PRIu64 " -> %-11" PRIu64 " came %-9" PRIu64 " gone %-9" PRIu64
           " changed %-9" PRIu64,
           what, m->before, m->after, m->came, m->gone, m->changed);
    if (m->changed > 0)
        printf(" by %.4g, at most %.4g (0x%016" PRIx64 ")", mean_of(m), m->distance_max,
               m->key_max);
    putchar('\n');
}

static void table_tell(const struct compare *c, const char *name, struct json *list)
{
    uint32_t count, *field = fields_sorted(c, &count);
    struct json *item = json_new_object(), *fields = json_new_array();
    char what[32];
    for (uint32_t i = 0; i < count; i++) {
        struct json *f = json_new_object();
        (void)json_set_int(f, "field", field[i]);
        moved_set(f, &c->field[field[i]]);
        (void)json_append(fields, f);
    }
    (void)json_set_string(item, "name", name);
    moved_set(item, &c->all);
    (void)json_set(item, "fields", fields);
    (void)json_append(list, item);
    if (list == NULL) {
        printf("table %s\n", name);
        moved_print("all rows", &c->all);
        for (uint32_t i = 0; i < count && i < FIELDS_SHOWN; i++) {
            (void)snprintf(what, sizeof what, "field %u", field[i]);
            moved_print(what, &c->field[field[i]]);
        }
        if (count > FIELDS_SHOWN)
            printf("  and %u more fields (--json tells all)\n", count - FIELDS_SHOWN);
    }
    free(field);
}

/* ---- the whole ------------------------------------------------------------------------------- */

/* Compares table i of `from` with table k of `to`; UINT32_MAX where one side has none. */
static int table_diff(struct reader *from, uint32_t i, struct reader *to, uint32_t k,
                      struct json *list, struct err *e)
{
    struct compare c = {.field = calloc(FIELDS, sizeof *c.field)};
    struct arena *arena = NULL;
    struct table *was = NULL;
    int rc = 0;
    if (i != UINT32_MAX)
        c.schema_was = reader_schema(from, i);
    if (k != UINT32_MAX)
        c.schema_is = reader_schema(to, k);
    if (c.schema_was != NULL && c.schema_is != NULL) {
        c.part[0] = schema_first_part(c.schema_was, c.schema_is);
        c.part[1] = schema_vector_part(c.schema_was, c.schema_is);
    }
    if (c.field == NULL || arena_new(&arena) != 0)
        rc = err_set(e, SHOAL_E_NOMEM, "out of memory");
    if (rc == 0 && c.schema_was != NULL)
        rc = reader_copy(from, i, 0, 1u << c.schema_was->tablet_bits, arena, &was, e);
    if (rc != 0)
        goto out;

    for (uint32_t t = 0; was != NULL && t < 1u << c.schema_was->tablet_bits; t++)
        table_visit(was, t, before_count, &c);
    c.was = was;
    if (c.schema_is != NULL)
        rc = reader_visit(to, k, row_compare, &c, e);
    if (rc != 0)
        goto out;
    sum_up(&c);
    table_tell(&c, c.schema_was != NULL ? c.schema_was->name : c.schema_is->name, list);

out:
    table_free(was);
    arena_free(arena);
    free(c.field);
    return rc;
}

/* Index of a table by name; UINT32_MAX: there is none. */
static uint32_t index_of(const struct reader *r, const char *name)
{
    uint32_t i;
    if (reader_table(r, name, &i, NULL) != 0)
        return UINT32_MAX;
    return i;
}

static int diff(const char *from_path, const char *to_path, const char *space, struct json *list,
                struct err *e)
{
    struct reader *from = NULL, *to = NULL;
    int rc = reader_open_in(from_path, space, &from, e);
    if (rc == 0)
        reader_lacks_note(from, from_path);
    if (rc == 0)
        rc = reader_open_in(to_path, space, &to, e);
    if (rc == 0)
        reader_lacks_note(to, to_path);
    for (uint32_t i = 0; rc == 0 && i < reader_tables(from); i++)
        rc = table_diff(from, i, to, index_of(to, reader_schema(from, i)->name), list, e);
    for (uint32_t k = 0; rc == 0 && k < reader_tables(to); k++)
        if (index_of(from, reader_schema(to, k)->name) == UINT32_MAX)
            rc = table_diff(from, UINT32_MAX, to, k, list, e);
    reader_close(from);
    reader_close(to);
    return rc;
}

int checkpoint_diff_main(struct option_line *o, struct err *e)
{
    struct json *list = NULL;
    if (o->words != 2)
        return err_set(
            e, SHOAL_E_USAGE,
            "name two folders, of checkpoints or ended runs, the earlier one first; see `shoal "
            "checkpoint diff --help`");
    if (option_given(o, "json"))
        list = json_new_array();
    int rc = diff(o->word[0], o->word[1], option_text(o, "space"), list, e);
    if (rc == 0 && list != NULL) {
        struct json *whole = json_new_object();
        (void)json_set_string(whole, "from", o->word[0]);
        (void)json_set_string(whole, "to", o->word[1]);
        (void)json_set(whole, "tables", json_hold(list));
        char *text = json_text(whole, 2);
        puts(text_or(text, "{}"));
        free(text);
        json_free(whole);
    }
    json_free(list);
    return rc;
}
