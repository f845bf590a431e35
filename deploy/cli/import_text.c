/* import_text.c: rows of a tsv or csv file: a line of names, then a line for each row.
 *
 *     key    the table's own key, 0x.. or decimal      value  the value, as it stands in a log
 *     field  not read                                  w0..   weights: all, or those of the vector
 *     s0..   the optimizer's state                     show click time flags delta_score
 *
 * A csv cell has no quotes: tsv takes any text but tabs and line ends. */
#include "deploy/cli/import.h"
#include "proto/base/assert.h"
#include "proto/base/container_of.h"
#include "proto/base/hash.h"
#include "proto/base/text.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME = 32, CELL = 64 };

/* The kind of a column. STAT: show, click, delta_score; WORD: time, flags. */
enum text_what {
    COLUMN_KEY,
    COLUMN_VALUE,
    COLUMN_LEFT,
    COLUMN_WEIGHT,
    COLUMN_STATE,
    COLUMN_STAT,
    COLUMN_WORD
};
struct text_column {
    enum text_what what;
    uint32_t at; /* from WEIGHT on: its place among its kind; after head_place: in the row */
};

struct text_source {
    struct import_source source;
    struct import_file file;              /* path empty: the text is the caller's */
    const char *begin, *first, *at, *end; /* the text, its first row, the next one */
    char separator;
    uint64_t line;
    struct text_column *column; /* owned; (columns) */
    uint32_t columns;
};

static struct text_source *of(struct import_source *s)
{
    return container_of(s, struct text_source, source);
}

static const char *path_of(const struct text_source *t)
{
    return text_unless_empty(t->file.path, "the text");
}

/* ---- lines and cells ------------------------------------------------------------------------- */

/* The next line, without its end; false: there is none. */
static bool line_next(struct text_source *t, const char **begin, const char **end)
{
    if (t->at == t->end)
        return false;
    *begin = t->at;
    *end = memchr(t->at, '\n', (size_t)(t->end - t->at));
    if (*end == NULL)
        *end = t->end;
    t->at = *end == t->end ? t->end : *end + 1;
    if (*end > *begin && (*end)[-1] == '\r')
        --*end;
    t->line++;
    return true;
}

static const char *cell_end(const struct text_source *t, const char *at, const char *end)
{
    const char *stop = memchr(at, t->separator, (size_t)(end - at));
    return stop == NULL ? end : stop;
}

/* ---- the head -------------------------------------------------------------------------------- */

/* Digits without a sign, of a number of 32 bits. */
static bool whole_read(const char *at, size_t bytes, uint32_t *out)
{
    uint64_t n = 0;
    for (size_t i = 0; i < bytes && n <= UINT32_MAX; i++) {
        if (at[i] < '0' || at[i] > '9')
            return false;
        n = 10 * n + (uint64_t)(at[i] - '0');
    }
    *out = (uint32_t)n;
    return bytes > 0 && n <= UINT32_MAX;
}

/* "w7" is number 7 of the letter w. */
static bool is_next(const char *name, char letter, uint32_t next)
{
    uint32_t n;
    return name[0] == letter && whole_read(name + 1, strlen(name + 1), &n) && n == next;
}

struct head { /* the columns by their names */
    uint32_t weights, state;
    bool key, value, stats[5]; /* as in stats_name */
};

/* in the order of struct row_stats */
static const char *const stats_name[] = {"show", "click", "delta_score", "time", "flags"};
enum { STATS = 5, STAT_FLOATS = 3 };

static uint32_t stats_named(const char *name)
{
    uint32_t i = 0;
    while (i < STATS && strcmp(stats_name[i], name) != 0)
        i++;
    return i;
}

/* Weights and states are in the order of a row. */
static int column_take(struct head *h, const char *name, struct text_column *out, struct err *e)
{
    const uint32_t n = stats_named(name);
    *out = (struct text_column){.what = COLUMN_LEFT};
    if (strcmp(name, "key") == 0 && !h->key) {
        out->what = COLUMN_KEY;
        h->key = true;
    } else if (strcmp(name, "value") == 0 && !h->value) {
        out->what = COLUMN_VALUE;
        h->value = true;
    } else if (n < STATS && !h->stats[n]) {
        *out = (struct text_column){n < STAT_FLOATS ? COLUMN_STAT : COLUMN_WORD, n};
        h->stats[n] = true;
    } else if (is_next(name, 'w', h->weights)) {
        *out = (struct text_column){COLUMN_WEIGHT, h->weights++};
    } else if (is_next(name, 's', h->state)) {
        *out = (struct text_column){COLUMN_STATE, h->state++};
    } else if (strcmp(name, "field") != 0) {
        return err_set(e, SHOAL_E_DATA,
                       "column %.40s: the columns are key or value, field, w0 and so on, s0 and so "
                       "on, show, click, time, flags, delta_score, each once and in order",
                       name);
    }
    return 0;
}

static uint32_t state_floats(const struct table_schema *s)
{
    return table_assign_floats(s, ASSIGN_STATE) - s->width;
}

/* Compares the numbers of columns with the table's. */
static int head_check(const struct head *h, const struct table_schema *s, struct err *e)
{
    const uint32_t dim = s->width - s->zero_first, state = state_floats(s);
    uint32_t stats = 0;
    for (uint32_t i = 0; i < STATS; i++)
        stats += h->stats[i];
    if (h->key == h->value)
        return err_set(e, SHOAL_E_DATA, "it needs a column key, or a column value");
    if (h->weights != s->width && h->weights != dim)
        return err_set(e, SHOAL_E_DATA,
                       "it has %u columns of weights; table %s has %u numbers a row (%u "
                       "first-order, a vector of %u)",
                       h->weights, s->name, s->width, s->zero_first, dim);
    if (h->state != 0 && (h->state != state || h->weights != s->width))
        return err_set(e, SHOAL_E_DATA,
                       "it has %u columns of state; table %s has %u, beside all %u weights",
                       h->state, s->name, state, s->width);
    if (stats != 0 && (stats < 4 || s->rules.stats == 0))
        return err_set(e, SHOAL_E_DATA,
                       "statistics are show, click, time and flags, of a table that keeps them");
    return 0;
}

/* Gives the columns their places in the row. */
static void head_place(struct text_source *t, const struct head *h, const struct table_schema *s)
{
    const uint32_t begin[] = {[COLUMN_WEIGHT] = s->width - h->weights,
                              [COLUMN_STATE] = s->width,
                              [COLUMN_STAT] = s->width + h->state,
                              [COLUMN_WORD] = s->width + h->state};
    for (uint32_t i = 0; i < t->columns; i++)
        if (t->column[i].what >= COLUMN_WEIGHT)
            t->column[i].at += begin[t->column[i].what];
    t->source.parts = (h->state > 0 ? ASSIGN_STATE : 0) | (h->stats[0] ? ASSIGN_STATS : 0);
    t->source.floats = table_assign_floats(s, t->source.parts);
    t->source.form = h->key ? IMPORT_RAW : IMPORT_TEXT;
}

static int head_read(struct text_source *t, const struct table_schema *s, struct err *e)
{
    struct head h = {.weights = 0};
    const char *at, *end;
    int rc = 0;
    if (!line_next(t, &at, &end))
        return err_set(e, SHOAL_E_DATA, "it is empty: a line of names comes first");
    for (const char *p = at; p < end; p++)
        t->columns += *p == t->separator;
    t->columns++;
    if (t->columns > 3 * LIMIT_WIDTH + 16)
        return err_set(e, SHOAL_E_TOO_BIG, "it has %u columns", t->columns);
    t->column = calloc(t->columns, sizeof *t->column);
    if (t->column == NULL)
        return err_set(e, SHOAL_E_NOMEM, "out of memory");
    for (uint32_t i = 0; i < t->columns && rc == 0; i++, at++) {
        char name[NAME];
        const char *stop = cell_end(t, at, end);
        (void)snprintf(name, sizeof name, "%.*s", (int)(stop - at < NAME ? stop - at : NAME), at);
        rc = column_take(&h, name, &t->column[i], e);
        at = stop;
    }
    if (rc == 0)
        rc = head_check(&h, s, e);
    if (rc == 0)
        head_place(t, &h, s);
    t->first = t->at;
    return rc;
}

/* ---- rows ------------------------------------------------------------------------------------ */

static void text_place(const struct import_source *s, char *out, size_t bytes)
{
    const struct text_source *t =
        container_of((struct import_source *)(uintptr_t)s, struct text_source, source);
    (void)snprintf(out, bytes, "%s:%" PRIu64, path_of(t), t->line);
}

static int number_cell(const char *at, size_t bytes, float *out, struct err *e)
{
    char cell[CELL], *stop;
    if (bytes > 0 && bytes < CELL) {
        memcpy(cell, at, bytes);
        cell[bytes] = 0;
        *out = strtof(cell, &stop);
        if (stop == cell + bytes && !isspace((unsigned char)cell[0])) /* a NUL ends it early */
            return 0;
    }
    return err_set(e, SHOAL_E_DATA, "'%.*s' is no number", (int)(bytes < CELL ? bytes : CELL), at);
}

static int key_cell(const char *at, size_t bytes, uint64_t *out, struct err *e)
{
    char cell[CELL], *stop;
    const bool hex = bytes > 2 && at[0] == '0' && (at[1] == 'x' || at[1] == 'X');
    const char *digits = hex ? "0123456789abcdefABCDEF" : "0123456789";
    if (bytes > 0 && bytes < CELL) {
        memcpy(cell, at, bytes);
        cell[bytes] = 0;
        const char *from = cell + (hex ? 2 : 0);
        errno = 0;
        *out = strtoull(from, &stop, hex ? 16 : 10);
        if (from + strspn(from, digits) == cell + bytes && stop == cell + bytes && errno == 0)
            return 0;
    }
    return err_set(e, SHOAL_E_DATA, "'%.*s' is no key (0x... or decimal)",
                   (int)(bytes < CELL ? bytes : CELL), at);
}

static int cell_take(struct text_source *t, const struct text_column *c, const char *at,
                     const char *end, struct import_key *key, float *row, struct err *e)
{
    const size_t bytes = (size_t)(end - at);
    uint32_t word;
    switch (c->what) {
    case COLUMN_KEY:
        return key_cell(at, bytes, &key->number, e);
    case COLUMN_VALUE:
        if (t->separator == ',' && memchr(at, '"', bytes) != NULL)
            return err_set(e, SHOAL_E_DATA, "a value with a quote: write the file as tsv");
        key->text = at;
        key->bytes = bytes;
        return 0;
    case COLUMN_WEIGHT:
    case COLUMN_STATE:
    case COLUMN_STAT:
        return number_cell(at, bytes, &row[c->at], e);
    case COLUMN_WORD:
        if (!whole_read(at, bytes, &word))
            return err_set(e, SHOAL_E_DATA, "'%.*s' is no whole number",
                           (int)(bytes < CELL ? bytes : CELL), at);
        memcpy(&row[c->at], &word, sizeof word);
        return 0;
    default:
        return 0;
    }
}

static int row_take(struct text_source *t, const char *at, const char *end, struct import_key *key,
                    float *row, struct err *e)
{
    memset(row, 0, t->source.floats * sizeof *row);
    for (uint32_t i = 0; i < t->columns; i++) {
        const char *stop = cell_end(t, at, end);
        int rc = cell_take(t, &t->column[i], at, stop, key, row, e);
        if (rc != 0)
            return rc;
        if ((stop == end) != (i + 1 == t->columns))
            return err_set(e, SHOAL_E_DATA, "it has %s than the %u cells of the line of names",
                           stop == end ? "fewer" : "more", t->columns);
        at = stop + 1;
    }
    return 0;
}

static int text_next(struct import_source *s, struct import_key *key, float *row, struct err *e)
{
    struct text_source *t = of(s);
    const char *at, *end;
    *key = (struct import_key){.number = 0};
    do
        if (!line_next(t, &at, &end))
            return 0;
    while (at == end);
    int rc = row_take(t, at, end, key, row, e);
    if (rc != 0)
        return err_wrap(e, rc, "%s:%" PRIu64, path_of(t), t->line);
    return 1;
}

static void text_rewind(struct import_source *s)
{
    struct text_source *t = of(s);
    t->at = t->first;
    t->line = 1;
}

static uint64_t text_sum(const struct import_source *s)
{
    const struct text_source *t =
        container_of((struct import_source *)(uintptr_t)s, struct text_source, source);
    return hash_bytes(t->begin, (size_t)(t->end - t->begin), 0);
}

static void text_close(struct import_source *s)
{
    struct text_source *t = of(s);
    if (t->file.path[0] != 0)
        import_file_close(&t->file);
    free(t->column);
    free(t);
}

/* ---- opening --------------------------------------------------------------------------------- */

static bool ends(const char *path, const char *end)
{
    const size_t n = strlen(path), m = strlen(end);
    return n >= m && strcmp(path + n - m, end) == 0;
}

bool import_is_text(const char *path)
{
    return ends(path, ".tsv") || ends(path, ".csv");
}

int import_text_of(const struct import_line *l, const char *text, size_t bytes, char separator,
                   struct import_source **out, struct err *e)
{
    struct text_source *t = calloc(1, sizeof *t);
    if (t == NULL)
        return err_set(e, SHOAL_E_NOMEM, "out of memory");
    t->source = (struct import_source){.next = text_next,
                                       .rewind = text_rewind,
                                       .place = text_place,
                                       .sum = text_sum,
                                       .close = text_close};
    t->begin = t->at = text;
    t->end = text + bytes;
    t->separator = separator;
    t->source.checksum = text_sum(&t->source);
    int rc = head_read(t, l->schema, e);
    if (rc != 0) {
        text_close(&t->source);
        return rc;
    }
    *out = &t->source;
    return 0;
}

int import_text_open(const struct import_line *l, struct import_source **out, struct err *e)
{
    struct import_file file;
    const char separator = ends(l->path, ".csv") ? ',' : '\t';
    int rc = import_file_open(l->path, &file, e);
    if (rc != 0)
        return rc;
    rc = import_text_of(l, file.data, file.bytes, separator, out, e);
    if (rc != 0) {
        import_file_close(&file);
        return err_wrap(e, rc, "%s", l->path);
    }
    of(*out)->file = file;
    (void)snprintf((*out)->names, sizeof(*out)->names, "%.90s", l->path);
    return 0;
}
