/* census.c: counts rows and predicts a rule's effect. */
#include "embedding/census.h"
#include "embedding/rows/table_cold.h"

#include "embedding/rows/age.h"
#include "embedding/rows/cold.h"
#include "embedding/rows/rules/stats.h"
#include "embedding/rows/table_inner.h"
#include "proto/base/array.h"
#include "proto/base/assert.h"
#include "proto/base/key.h"
#include "proto/base/minmax.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define FIELDS 65536u   /* the number of fields a key can have */
#define CELL_ONE 32     /* the cell of [1, 2) */
#define INDEX_LOAD 0.76 /* average load of a tablet, which is between 0.66 and 0.86 */

struct field_count {
    uint64_t rows, stored, kept;
    double shows, clicks;
};

struct histogram {
    uint64_t cell[CENSUS_CELLS];
};

struct rank { /* a row that a budget may drop; the greatest ranks stay */
    struct age_rank of;
    uint32_t field;
    float show;
};

struct census {
    const struct table_schema *schema; /* borrowed */
    struct census_ask ask;
    struct field_count *field; /* owned; (FIELDS) */
    struct histogram norms, shows, ages;
    uint64_t rows, stored, kept, untold, memory_bytes;
    uint64_t named[KEY_ALLOW + 1]; /* keys by name: erased, blocked, allowed */
    double kept_shows;
    /* Set while a tablet is counted: */
    const struct table *live; /* NULL: all its rows are in memory */
    uint32_t newest;
    struct rank *rank; /* owned; with ask.rows */
    size_t ranked, rank_room;
};

static uint32_t cell_of(double x)
{
    int power;
    if (!(x > 0))
        return 0;
    (void)frexp(x, &power); /* x = m 2^power, m in [1/2, 1) */
    int cell = power - 1 + CELL_ONE;

    if (cell < 1)
        return 0;
    if (cell >= (int)CENSUS_CELLS)
        return CENSUS_CELLS - 1;

    return (uint32_t)cell;
}

int census_new(const struct table_schema *schema, const struct census_ask *ask, struct census **out,
               struct err *e)
{
    if (ask->what_if && !schema->rules.stats && (ask->shows > 0 || ask->score > 0 || ask->ttl > 0))
        return err_set(
            e, SHOAL_E_USAGE,
            "table %s keeps no statistics, so shows, score and age of its rows are not known: a "
            "job's "
            "tables[].stats: yes would keep them; ask for a memory budget, or with --sample",
            schema->name);
    struct census *c = calloc(1, sizeof *c);
    if (c != NULL)
        c->field = calloc(FIELDS, sizeof *c->field);
    if (c == NULL || c->field == NULL) {
        free(c);
        return err_set(e, SHOAL_E_NOMEM, "no memory to count the rows of table %s", schema->name);
    }
    c->schema = schema;
    c->ask = *ask;
    *out = c;
    return 0;
}

void census_free(struct census *c)
{
    if (c == NULL)
        return;
    free(c->field);
    free(c->rank);
    free(c);
}

uint64_t census_rows(const struct census *c)
{
    return c->rows;
}

/* ---- one tablet ---- */

static struct row_stats stats_of(const struct census *c, const void *row)
{
    struct row_stats s = {0};
    if (c->schema->rules.stats)
        memcpy(&s,
               (const char *)row + sizeof(uint64_t) + schema_stats_at(c->schema) * sizeof(float),
               sizeof s);
    return s;
}

static void newest_visit(void *context, const void *row)
{
    struct census *c = context;
    struct row_stats s = stats_of(c, row);
    c->newest = MAX(s.time, c->newest);
}

/* True when the thresholds keep the row; a row of unknown time has no age for a ttl. */
static bool passes(const struct census *c, const struct row_stats *s)
{
    if (!c->schema->rules.stats)
        return true;
    if (s->show < c->ask.shows ||
        (c->ask.score > 0 && stats_score(&c->schema->rules, s->show, s->click) < c->ask.score))
        return false;
    return c->ask.ttl == 0 || s->time == 0 || c->newest - s->time <= c->ask.ttl;
}

static void keep(struct census *c, uint32_t field, float show)
{
    c->kept++;
    c->kept_shows += (double)show;
    c->field[field].kept++;
}

static void row_visit(void *context, const void *row)
{
    struct census *c = context;
    uint64_t key;
    memcpy(&key, row, sizeof key);
    float weight[LIMIT_WIDTH];
    table_row_weights(c->schema, row, weight);
    struct row_stats s = stats_of(c, row);
    struct field_count *f = &c->field[key_field(key)];
    double squares = 0;
    for (uint32_t i = 0; i < c->schema->width; i++)
        squares += (double)weight[i] * (double)weight[i];
    c->rows++;
    f->rows++;
    if (c->live != NULL && table_cold_has(c->live, key)) {
        c->stored++;
        f->stored++;
    }
    c->norms.cell[cell_of(sqrt(squares))]++;
    if (c->schema->rules.stats) {
        f->shows += (double)s.show;
        f->clicks += (double)s.click;
        c->shows.cell[cell_of((double)s.show)]++;
        if (s.time != 0)
            c->ages.cell[cell_of((double)(c->newest - s.time))]++;
        else
            c->untold++;
    }
    if (!c->ask.what_if || !passes(c, &s))
        return;
    if (c->ask.rows == 0) {
        keep(c, key_field(key), s.show);
        return;
    }
    SHOAL_ASSERT(c->ranked < c->rank_room);
    c->rank[c->ranked++] = (struct rank){age_rank_of(c->schema, key, &s), key_field(key), s.show};
}

static int greatest_first(const void *a, const void *b)
{
    const struct rank *x = a, *y = b;

    if (age_rank_below(&x->of, &y->of))
        return 1;
    if (age_rank_below(&y->of, &x->of))
        return -1;

    return 0;
}

static void names_count(struct census *c, const struct table *live, uint32_t tablet)
{
    struct table_name some[256];
    uint64_t from = 0;
    uint32_t count = table_names(live, tablet, from, some, 256);
    while (count > 0) {
        for (uint32_t i = 0; i < count; i++)
            c->named[some[i].action]++;
        from = key_mix(some[count - 1].key) + 1;
        count = from != 0 ? table_names(live, tablet, from, some, 256) : 0;
    }
}

int census_add_tablet(struct census *c, const struct table *t, uint32_t tablet,
                      const struct table *live)
{
    uint64_t rows = table_tablet_rows(t, tablet);
    if (c->ask.what_if && c->ask.rows > 0 && array_reserve(&c->rank, rows, &c->rank_room) != 0)
        return SHOAL_E_NOMEM;
    c->live = NULL;
    if (live != t)
        c->live = live;
    c->memory_bytes += table_tablet_memory(live, tablet);
    names_count(c, live, tablet);
    c->newest = 0;
    if (t->tablets[tablet].life != NULL)
        c->newest = t->tablets[tablet].life->clock;

    c->ranked = 0;
    if (c->schema->rules.stats)
        table_visit(t, tablet, newest_visit, c);
    table_visit(t, tablet, row_visit, c);
    uint64_t share = c->ask.rows >> c->schema->tablet_bits;
    size_t left = 0;
    if (share != 0)
        left = (size_t)age_room(c->ranked, share);
    if (c->ranked > left)
        qsort(c->rank, c->ranked, sizeof *c->rank, greatest_first);
    for (size_t i = 0; i < left; i++)
        keep(c, c->rank[i].field, c->rank[i].show);
    return 0;
}

double census_row_memory(uint32_t floats)
{
    return 4.0 * floats + (double)sizeof(struct bucket) / (BUCKET_KEYS * INDEX_LOAD);
}

/* ---- to JSON and back ---- */

static struct json *histogram_json(const struct histogram *h)
{
    struct json *j = json_new_object(), *cells = json_new_array();
    for (uint32_t i = 1; i < CENSUS_CELLS; i++) {
        if (h->cell[i] == 0)
            continue;
        struct json *pair = json_new_array();
        json_append(pair, json_new_int((int64_t)i - CELL_ONE));
        json_append(pair, json_new_int((int64_t)h->cell[i]));
        json_append(cells, pair);
    }
    json_set_int(j, "zero", (int64_t)h->cell[0]);
    json_set(j, "cells", cells);
    return j;
}

static struct json *fields_json(const struct census *c)
{
    struct json *list = json_new_array();
    uint64_t row_bytes = 4ull * schema_row_floats(c->schema) + sizeof(uint64_t);
    for (uint32_t i = 0; i < FIELDS; i++) {
        const struct field_count *f = &c->field[i];
        if (f->rows == 0)
            continue;
        struct json *j = json_new_object();
        json_set_int(j, "field", i);
        json_set_int(j, "rows", (int64_t)f->rows);
        json_set_int(j, "bytes", (int64_t)(f->rows * row_bytes));
        if (f->stored > 0)
            json_set_int(j, "stored", (int64_t)f->stored);
        if (c->schema->rules.stats) {
            json_set_number(j, "shows", f->shows);
            json_set_number(j, "clicks", f->clicks);
        }
        if (c->ask.what_if && c->schema->rules.stats) /* otherwise chance decides which rows go */
            json_set_int(j, "kept", (int64_t)f->kept);
        json_append(list, j);
    }
    return list;
}

static struct json *what_if_json(const struct census *c, uint64_t row_bytes)
{
    struct json *j = json_new_object();
    double shows = 0;
    for (uint32_t i = 0; i < FIELDS; i++)
        shows += c->field[i].shows;
    json_set_int(j, "rows", (int64_t)c->kept);
    if (c->ask.rows > 0)
        json_set_int(j, "capacity",
                     (int64_t)(c->ask.rows >> c->schema->tablet_bits << c->schema->tablet_bits));
    json_set_int(j, "bytes", (int64_t)(c->kept * row_bytes));
    json_set_number(j, "memory_bytes",
                    (double)c->kept * census_row_memory(schema_row_floats(c->schema)));
    if (c->schema->rules.stats) {
        json_set_number(j, "shows", c->kept_shows);
        json_set_number(j, "shows_share", shows > 0 ? c->kept_shows / shows : 1);
    }
    return j;
}

static const char *const name_of[] = {
    [KEY_ERASE] = "erased", [KEY_BLOCK] = "blocked", [KEY_ALLOW] = "allowed"};

static struct json *named_json(const struct census *c)
{
    struct json *j = json_new_object();
    for (int k = KEY_ERASE; k <= KEY_ALLOW; k++)
        json_set_int(j, name_of[k], (int64_t)c->named[k]);
    return j;
}

struct json *census_json(const struct census *c)
{
    struct json *j = json_new_object(), *tier = json_new_object();
    uint64_t row_bytes = 4ull * schema_row_floats(c->schema) + sizeof(uint64_t);
    json_set_string(j, "table", c->schema->name);
    json_set_string(j, "values", schema_values_name(c->schema));
    json_set_int(j, "rows", (int64_t)c->rows);
    json_set_int(j, "row_bytes", (int64_t)row_bytes);
    json_set_int(j, "bytes", (int64_t)(c->rows * row_bytes));
    json_set_int(j, "memory_bytes", (int64_t)c->memory_bytes);
    json_set_int(tier, "memory", (int64_t)(c->rows - c->stored));
    if (c->stored > 0)
        json_set_int(tier, "store", (int64_t)c->stored);
    json_set(j, "tier", tier);
    if (!c->schema->dense)
        json_set(j, "named", named_json(c));
    json_set_bool(j, "statistics", c->schema->rules.stats != 0);
    json_set(j, "fields", fields_json(c));
    json_set(j, "norms", histogram_json(&c->norms));
    if (c->schema->rules.stats) {
        struct json *ages = histogram_json(&c->ages);
        json_set_int(ages, "untold", (int64_t)c->untold);
        json_set(j, "shows", histogram_json(&c->shows));
        json_set(j, "ages", ages);
    }
    if (c->ask.what_if)
        json_set(j, "what_if", what_if_json(c, row_bytes));
    return j;
}

static uint64_t count_in(const struct json *j, const char *name)
{
    int64_t n = json_get_int(j, name, 0);

    if (n > 0)
        return (uint64_t)n;

    return 0;
}

static void named_add(struct census *c, const struct json *j)
{
    for (int k = KEY_ERASE; k <= KEY_ALLOW; k++)
        c->named[k] += count_in(j, name_of[k]);
}

static void histogram_add(struct histogram *h, const struct json *j)
{
    const struct json *cells = json_get(j, "cells");
    h->cell[0] += count_in(j, "zero");
    for (size_t i = 0; i < json_count(cells); i++) {
        const struct json *pair = json_array_at(cells, i);
        int64_t cell = json_as_int(json_array_at(pair, 0), 0) + CELL_ONE,
                rows = json_as_int(json_array_at(pair, 1), 0);
        if (cell > 0 && cell < (int64_t)CENSUS_CELLS && rows > 0)
            h->cell[cell] += (uint64_t)rows;
    }
}

int census_add_json(struct census *c, const struct json *j, struct err *e)
{
    const struct json *fields = json_get(j, "fields");
    if (strcmp(json_get_string(j, "table", ""), c->schema->name) != 0)
        return err_set(e, SHOAL_E_DATA, "a shard answered with figures of table %s instead of %s",
                       json_get_string(j, "table", "(none)"), c->schema->name);
    for (size_t i = 0; i < json_count(fields); i++) {
        const struct json *in = json_array_at(fields, i);
        uint64_t number = count_in(in, "field");
        if (number >= FIELDS)
            return err_set(e, SHOAL_E_DATA, "a shard answered with figures of field %" PRIu64,
                           number);
        struct field_count *f = &c->field[number];
        f->rows += count_in(in, "rows");
        f->stored += count_in(in, "stored");
        f->kept += count_in(in, "kept");
        f->shows += json_get_number(in, "shows", 0);
        f->clicks += json_get_number(in, "clicks", 0);
    }
    c->rows += count_in(j, "rows");
    c->stored += count_in(j, "tier.store");
    c->memory_bytes += count_in(j, "memory_bytes");
    c->untold += count_in(j, "ages.untold");
    c->kept += count_in(j, "what_if.rows");
    c->kept_shows += json_get_number(j, "what_if.shows", 0);
    named_add(c, json_get(j, "named"));
    histogram_add(&c->norms, json_get(j, "norms"));
    histogram_add(&c->shows, json_get(j, "shows"));
    histogram_add(&c->ages, json_get(j, "ages"));
    return 0;
}
