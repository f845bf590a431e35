/* feature_names.c: names of columns, from the job, the tables and the first line. */
#include "worker/data/feature_names.h"
#include "worker/data/kind.h"

#include "proto/base/assert.h"
#include "proto/base/limits.h"
#include "proto/base/minmax.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool name_is(const struct cell *cell, const char *name)
{
    return strlen(name) == cell->bytes && memcmp(cell->text, name, cell->bytes) == 0;
}

uint32_t feature_names_position(const char *name)
{
    uint32_t value = 0;
    for (const char *p = name; *p != '\0'; p++) {
        if (*p < '0' || *p > '9' || value > CELLS_MAX)
            return FEATURE_NO_COLUMN;
        value = value * 10 + (uint32_t)(*p - '0');
    }
    if (*name == '\0')
        return FEATURE_NO_COLUMN;
    return value;
}

uint32_t feature_names_find(const struct features *f, const char *name)
{
    for (uint32_t i = 0; i < f->columns; i++)
        if (name_is(&f->name[i], name))
            return i;
    uint32_t position = feature_names_position(name);

    if (position < f->columns)
        return position;

    return FEATURE_NO_COLUMN;
}

/* Levenshtein distance; long names are compared by their first 63 bytes. */
static uint32_t distance(const char *a, size_t an, const char *b, size_t bn)
{
    uint32_t row[LIMIT_NAME];
    an = MIN(an, LIMIT_NAME - 1);
    bn = MIN(bn, LIMIT_NAME - 1);
    for (size_t j = 0; j <= bn; j++)
        row[j] = (uint32_t)j;
    for (size_t i = 1; i <= an; i++) {
        uint32_t diagonal = row[0];
        row[0] = (uint32_t)i;
        for (size_t j = 1; j <= bn; j++) {
            uint32_t change = diagonal + (a[i - 1] != b[j - 1]);
            uint32_t gap = MIN(row[j], row[j - 1]) + 1;
            diagonal = row[j];
            row[j] = MIN(change, gap);
        }
    }
    return row[bn];
}

int feature_names_missing(const struct features *f, const char *file, const char *key,
                          const char *name, struct err *e)
{
    uint32_t best = 0, least = UINT32_MAX;
    for (uint32_t i = 0; i < f->columns; i++) {
        uint32_t d = distance(name, strlen(name), f->name[i].text, f->name[i].bytes);
        if (d < least) {
            least = d;
            best = i;
        }
    }
    SHOAL_ASSERT(best < f->columns);
    int shown = 63;
    if (f->name[best].bytes < 63)
        shown = (int)f->name[best].bytes;

    return err_set(
        e, SHOAL_E_CONFIG,
        "%s:1: %s names column \"%s\", which is not among its %u columns; did you mean \"%.*s\"?",
        file, key, name, f->columns, shown, f->name[best].text);
}

uint32_t feature_names_near(const struct features *f, uint32_t column, const bool *those)
{
    const struct cell *name = &f->name[column];
    uint32_t best = FEATURE_NO_COLUMN, least = (name->bytes + 1) / 2;
    for (uint32_t i = 0; i < f->columns; i++) {
        uint32_t d = UINT32_MAX;
        if (those[i])
            d = distance(name->text, name->bytes, f->name[i].text, f->name[i].bytes);
        if (d <= least && (best == FEATURE_NO_COLUMN || d < least)) {
            least = d;
            best = i;
        }
    }
    return best;
}

int feature_names_alloc(struct features *f, uint32_t columns, size_t text_bytes, struct err *e)
{
    SHOAL_ASSERT(columns > 0 && columns <= CELLS_MAX);
    f->name = calloc(columns, sizeof f->name[0]);
    f->text = malloc(text_bytes + 1);
    if (f->name == NULL || f->text == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for %u column names; free some", columns);
    f->columns = columns;
    return 0;
}

/* Copies cells, so that the names outlive the line. */
static int names_copy(struct features *f, const struct cell *cell, uint32_t columns, struct err *e)
{
    size_t bytes = 0;
    for (uint32_t i = 0; i < columns; i++)
        bytes += cell[i].bytes;
    int rc = feature_names_alloc(f, columns, bytes, e);
    if (rc != 0)
        return rc;
    char *to = f->text;
    for (uint32_t i = 0; i < columns; i++) {
        memcpy(to, cell[i].text, cell[i].bytes);
        f->name[i] = (struct cell){to, cell[i].bytes};
        to += cell[i].bytes;
    }
    SHOAL_ASSERT(to == f->text + bytes);
    return 0;
}

size_t feature_names_count(struct features *f, uint32_t first, uint32_t end, const char *prefix,
                           uint32_t number, size_t at)
{
    for (uint32_t i = first; i < end; i++) {
        int n = sprintf(f->text + at, "%s%u", prefix, number + (i - first));
        f->name[i] = (struct cell){f->text + at, (uint32_t)n};
        at += (size_t)n;
    }
    return at;
}

size_t feature_names_text(struct features *f, uint32_t column, const char *name, size_t at)
{
    f->name[column] = (struct cell){f->text + at, (uint32_t)strlen(name)};
    memcpy(f->text + at, name, f->name[column].bytes);
    return at + f->name[column].bytes;
}

int feature_names_numbers(struct features *f, uint32_t columns, struct err *e)
{
    int rc = feature_names_alloc(f, columns, 12ull * columns, e);
    if (rc == 0)
        feature_names_count(f, 0, columns, "", 0, 0);
    return rc;
}

/* Names the columns that the format fixes. */
static int names_fixed(struct features *f, const struct format_columns *first, struct err *e)
{
    uint32_t columns = 0;
    size_t bytes = 0, at = 0;
    for (const struct format_columns *c = first; c->count > 0; c++) {
        columns += c->count;
        bytes += (strlen(c->name) + 11) * c->count;
    }
    int rc = feature_names_alloc(f, columns, bytes, e);
    if (rc != 0)
        return rc;
    columns = 0;
    for (const struct format_columns *c = first; c->count > 0; columns += c++->count)
        if (c->count == 1) {
            f->name[columns] = (struct cell){f->text + at, (uint32_t)strlen(c->name)};
            memcpy(f->text + at, c->name, f->name[columns].bytes);
            at += f->name[columns].bytes;
        } else {
            at = feature_names_count(f, columns, columns + c->count, c->name, 1, at);
        }
    SHOAL_ASSERT(at <= bytes && columns == f->columns);
    return 0;
}

/* Skips a byte order mark before the first name. */
static void skip_mark(const char **head, size_t *bytes)
{
    if (*bytes >= 3 && memcmp(*head, "\xef\xbb\xbf", 3) == 0) {
        *head += 3;
        *bytes -= 3;
    }
}

/* Cuts the head. A head of another format, or of csv with another delimiter, would have none of the
 * job's columns, so the error gives a hint. */
static int head_cells(const struct features *f, const char *file, char *line, size_t bytes,
                      struct cell *cell, uint32_t *count, struct err *e)
{
    char reason[REASON_BYTES], hint[KIND_HINT_BYTES];
    bool named = f->format->named;
    kind_hint(line, bytes, named ? f->delimiter[0] : '\0', hint);
    if (named && !f->format->keyed && hint[0] != '\0')
        return err_set(e, SHOAL_E_DATA, "%s:1: %s", file, hint);
    if (f->format->head(f, line, bytes, cell, count, reason) == 0)
        return 0;
    if (hint[0] == '\0' && !named)
        kind_hint(line, bytes, ' ', hint);
    return err_set(e, SHOAL_E_DATA, "%s:1: %s%s%s", file, reason, hint[0] != '\0' ? "; " : "",
                   hint);
}

static void names_of_job(const struct job *job, struct cell *cell)
{
    for (size_t i = 0; i < job->data.column_count; i++)
        cell[i] =
            (struct cell){job->data.column[i].name, (uint32_t)strlen(job->data.column[i].name)};
}

/* Distinct names. */
struct key_names {
    struct cell *cell; /* (CELLS_MAX) */
    uint32_t count;
};

static void name_put(struct key_names *n, const char *name)
{
    uint32_t i = 0;
    while (i < n->count && !name_is(&n->cell[i], name))
        i++;
    if (name[0] != '\0' && i == n->count && n->count < CELLS_MAX)
        n->cell[n->count++] = (struct cell){name, (uint32_t)strlen(name)};
}

static void names_put(struct key_names *n, const struct string_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        name_put(n, list->item[i]);
}

/* True for a cross or an indicator, which a line has no column of. */
static bool is_made(const struct legend_name *x)
{
    return strcmp(x->what, "number missing") == 0 || strncmp(x->what, "cross", 5) == 0;
}

static int compare_cells(const void *a, const void *b)
{
    const struct cell *x = a, *y = b;
    int order = memcmp(x->text, y->text, MIN(x->bytes, y->bytes));
    if (order != 0)
        return order;
    return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

/* Adds the names that keys of the job have: at most LIMIT_FIELDS of each list. */
static void names_of_keys(struct key_names *n, const struct job *job)
{
    for (uint32_t i = 0; i < job->data.label_count; i++)
        name_put(n, job->data.label[i]);
    for (uint32_t i = 0; i < job->features.cross_count; i++)
        for (uint32_t k = 0; k < job->features.cross[i].columns; k++)
            name_put(n, job->features.cross[i].column[k]);
    for (size_t i = 0; i < job->data.column_count; i++)
        name_put(n, job->data.column[i].name);
    names_put(n, &job->features.fields);
    names_put(n, &job->evaluate.by);
    name_put(n, job->evaluate.group);
    name_put(n, job->data.weight);
    name_put(n, job->data.sample_by);
    name_put(n, job->data.time);
}

/* Adds the names of the job and of the tables. */
static void names_of_all(struct key_names *n, const struct job *job)
{
    names_of_keys(n, job);
    for (uint32_t l = LEGEND_FIELDS; l <= LEGEND_NUMBERS; l++)
        for (uint32_t i = 0; i < job->legend.count[l]; i++)
            if (job->legend.name[l][i].here && !is_made(&job->legend.name[l][i]))
                name_put(n, job->legend.name[l][i].name);
}

/* Refuses a header that has a name of the job twice: the job would mean the first column, and learn
 * from the other one, which may be a copy of the label. Other columns may share a name. */
static int names_once(const struct features *f, const struct job *job, const char *file,
                      struct err *e)
{
    struct key_names n = {.cell = malloc(CELLS_MAX * sizeof *n.cell)};
    int rc = 0;
    if (n.cell == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for the names of columns; free some");
    names_of_keys(&n, job);
    for (uint32_t k = 0; k < n.count && rc == 0; k++) {
        uint32_t first = 0, second;
        while (first < f->columns && compare_cells(&f->name[first], &n.cell[k]) != 0)
            first++;
        second = first + 1;
        while (second < f->columns && compare_cells(&f->name[second], &n.cell[k]) != 0)
            second++;
        if (second < f->columns)
            rc = err_set(e, SHOAL_E_DATA,
                         "%s:1: columns %u and %u both have the name \"%.63s\", which the job "
                         "names: give one of them another name, or take it out of the file",
                         file, first, second, n.cell[k].text);
    }
    free(n.cell);
    return rc;
}

static int names_together(struct features *f, const struct job *job, struct err *e)
{
    struct key_names n = {.cell = malloc(CELLS_MAX * sizeof *n.cell)};
    if (n.cell == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for the names of columns; free some");
    names_of_all(&n, job);
    int rc = names_copy(f, n.cell, n.count, e);
    free(n.cell);
    return rc;
}

/* Names the columns of a keyed format: those of the first row, and all that the job names,
 * because a row may lack any. They stand in the order of their bytes: a map has none. */
static int names_keyed(struct features *f, const struct job *job, const struct cell *cell,
                       uint32_t count, struct err *e)
{
    struct key_names n = {.cell = malloc(CELLS_MAX * sizeof *n.cell)};
    uint32_t distinct = 0;
    if (n.cell == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for the names of columns; free some");
    if (count > 0)
        memcpy(n.cell, cell, count * sizeof *cell);
    n.count = count;
    names_of_all(&n, job);
    qsort(n.cell, n.count, sizeof *n.cell, compare_cells);
    for (uint32_t i = 0; i < n.count; i++)
        if (distinct == 0 || compare_cells(&n.cell[distinct - 1], &n.cell[i]) != 0)
            n.cell[distinct++] = n.cell[i];
    int rc = names_copy(f, n.cell, distinct, e);
    free(n.cell);
    if (rc != 0)
        return rc;
    return keyed_make(&f->keyed, f->name, f->columns, e);
}

/* Names columns by the header, by the job's columns, or by number. `work` and `cell` are
 * scratch. */
static int names_of_head(struct features *f, const struct job *job, const char *file, char *work,
                         size_t bytes, struct cell *cell, struct err *e)
{
    uint32_t count;
    int rc = head_cells(f, file, work, bytes, cell, &count, e);
    if (rc != 0)
        return rc;
    if (f->format->keyed)
        return names_keyed(f, job, cell, count, e);
    if (f->header) {
        rc = names_copy(f, cell, count, e);
        if (rc == 0 && job != NULL) /* a later file: its columns are found by those of the first */
            rc = names_once(f, job, file, e);
        return rc;
    }
    if (!f->format->named || job->data.column_count == 0)
        return feature_names_numbers(f, count, e);
    if (job->data.column_count != count)
        return err_set(e, SHOAL_E_CONFIG,
                       "%s:1: %u columns, but data.columns names %zu; name each (type: skip for "
                       "those not used)",
                       file, count, job->data.column_count);
    names_of_job(job, cell);
    return names_copy(f, cell, count, e);
}

/* ---- names of the tables alone ---- */

static bool all_digits(const char *name)
{
    return *name != '\0' && name[strspn(name, "0123456789")] == '\0';
}

/* True when the list names a column by its place: only a header has places. */
static bool lists_places(const struct string_list *list)
{
    bool places = false;
    for (size_t i = 0; i < list->count; i++)
        places |= all_digits(list->item[i]);
    return places;
}

static bool names_places(const struct job *job)
{
    bool places = all_digits(job->data.weight) || all_digits(job->data.time) ||
                  all_digits(job->data.sample_by) || all_digits(job->evaluate.group) ||
                  lists_places(&job->evaluate.by) || lists_places(&job->features.fields) ||
                  all_digits(job->model.gate_field[0]) || all_digits(job->model.gate_field[1]);
    for (uint32_t i = 0; i < job->data.label_count || i == 0; i++)
        places |= job->data.label[i][0] == '\0' || all_digits(job->data.label[i]);
    for (size_t t = 0; t < job->table_count; t++) {
        places |= lists_places(&job->table[t].fields);
        for (size_t i = 0; i < job->table[t].rule_count; i++)
            places |= all_digits(job->table[t].rule[i].field);
    }
    return places;
}

bool feature_names_known(const struct job *job)
{
    const struct format *format = format_of(job->data.format);
    if (!legend_known(&job->legend))
        return false;
    if (format->keyed || (format->named && job->data.header))
        return !names_places(job);
    enum entries entries;
    if (format->look != NULL && feature_names_entries(&job->legend, &entries) &&
        entries != ENTRIES_PLACES)
        return true;
    return format->columns != NULL || (format->named && job->data.column_count > 0) ||
           (job->legend.columns > 0 && job->legend.columns <= CELLS_MAX);
}

static int names_of_tables(struct features *f, const struct job *job, struct err *e)
{
    SHOAL_ASSERT(feature_names_known(job));
    if (f->header)
        return names_together(f, job, e);
    if (f->format->keyed)
        return names_keyed(f, job, NULL, 0, e);
    if (!f->format->named || job->data.column_count == 0)
        return feature_names_numbers(f, job->legend.columns, e);
    struct cell *cell = malloc(job->data.column_count * sizeof *cell);
    if (cell == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for the names of columns; free some");
    names_of_job(job, cell);
    int rc = names_copy(f, cell, (uint32_t)job->data.column_count, e);
    free(cell);
    return rc;
}

int feature_names_make(struct features *f, const struct job *job, const char *file,
                       const char *head, size_t bytes, struct err *e)
{
    if (f->format->columns != NULL)
        return names_fixed(f, f->format->columns, e);
    if (head == NULL && f->format->look != NULL)
        return feature_names_lines(f, job, file, NULL, 0, e);
    if (head == NULL)
        return names_of_tables(f, job, e);
    if (!f->format->keyed)
        skip_mark(&head, &bytes);
    struct cell *cell = malloc(sizeof *cell * CELLS_MAX + bytes + 1);
    if (cell == NULL)
        return err_set(e, SHOAL_E_NOMEM, "%s: no memory to read its first line; free some", file);
    char *work = (char *)(cell + CELLS_MAX); /* removing quotes changes the line */
    memcpy(work, head, bytes);
    work[bytes] = '\0';
    int rc;
    if (f->format->look != NULL)
        rc = feature_names_lines(f, job, file, work, bytes, e);
    else
        rc = names_of_head(f, job, file, work, bytes, cell, e);
    free(cell);
    return rc;
}
