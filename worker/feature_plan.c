/* feature_plan.c: job and first line -> which column is what. */
#include "worker/feature.h"

#include "proto/base/assert.h"
#include "proto/base/limits.h"
#include "worker/reader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CRITEO_NUMBERS 13u
#define CRITEO_CATEGORIES 26u
#define NO_COLUMN UINT32_MAX

/* While planning: what each column is. */
struct plan {
    const struct job *job;
    const char *file;             /* for messages */
    uint8_t *type;                /* (columns) enum column_type */
    const struct column **column; /* (columns) the job's, or NULL */
};

/* ---- names ---- */

static bool name_is(const struct cell *cell, const char *name)
{
    return strlen(name) == cell->bytes && memcmp(cell->text, name, cell->bytes) == 0;
}

/* Position named by digits alone, else NO_COLUMN. */
static uint32_t position_of(const char *name)
{
    uint32_t value = 0;
    for (const char *p = name; *p != '\0'; p++) {
        if (*p < '0' || *p > '9' || value > CELLS_MAX)
            return NO_COLUMN;
        value = value * 10 + (uint32_t)(*p - '0');
    }
    return *name == '\0' ? NO_COLUMN : value;
}

static uint32_t find(const struct cell *names, uint32_t count, const char *name)
{
    for (uint32_t i = 0; i < count; i++)
        if (name_is(&names[i], name))
            return i;
    uint32_t position = position_of(name);
    return position < count ? position : NO_COLUMN;
}

/* Levenshtein distance; long names are compared by their first 63 bytes. */
static uint32_t distance(const char *a, size_t an, const char *b, size_t bn)
{
    uint32_t row[LIMIT_NAME];
    an = an < LIMIT_NAME ? an : LIMIT_NAME - 1;
    bn = bn < LIMIT_NAME ? bn : LIMIT_NAME - 1;
    for (size_t j = 0; j <= bn; j++)
        row[j] = (uint32_t)j;
    for (size_t i = 1; i <= an; i++) {
        uint32_t diagonal = row[0];
        row[0] = (uint32_t)i;
        for (size_t j = 1; j <= bn; j++) {
            uint32_t change = diagonal + (a[i - 1] != b[j - 1]);
            uint32_t gap = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;
            diagonal = row[j];
            row[j] = change < gap ? change : gap;
        }
    }
    return row[bn];
}

static int no_column(const char *file, const char *key, const char *name, const struct cell *names, uint32_t count,
                     struct err *e)
{
    uint32_t best = 0, least = UINT32_MAX;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t d = distance(name, strlen(name), names[i].text, names[i].bytes);
        if (d < least) {
            least = d;
            best = i;
        }
    }
    int shown = names[best].bytes < 63 ? (int)names[best].bytes : 63;
    return err_set(e, SHOAL_E_CONFIG,
                   "%s:1: %s names column \"%s\", which is not among its %u columns; did you mean \"%.*s\"?", file, key,
                   name, count, shown, names[best].text);
}

static int names_alloc(struct features *f, uint32_t columns, size_t text_bytes, struct err *e)
{
    f->name = calloc(columns, sizeof f->name[0]);
    f->text = malloc(text_bytes + 1);
    if (f->name == NULL || f->text == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for %u column names; free some", columns);
    f->columns = columns;
    return 0;
}

/* Copies cells, so that names outlive the line. */
static int names_copy(struct features *f, const struct cell *cell, uint32_t columns, struct err *e)
{
    size_t bytes = 0;
    for (uint32_t i = 0; i < columns; i++)
        bytes += cell[i].bytes;
    int error = names_alloc(f, columns, bytes, e);
    if (error != 0)
        return error;
    char *to = f->text;
    for (uint32_t i = 0; i < columns; i++) {
        memcpy(to, cell[i].text, cell[i].bytes);
        f->name[i] = (struct cell){to, cell[i].bytes};
        to += cell[i].bytes;
    }
    return 0;
}

/* prefix + number for columns [first, end). */
static size_t names_count(struct features *f, uint32_t first, uint32_t end, const char *prefix, uint32_t number,
                          size_t at)
{
    for (uint32_t i = first; i < end; i++) {
        int n = sprintf(f->text + at, "%s%u", prefix, number + (i - first));
        f->name[i] = (struct cell){f->text + at, (uint32_t)n};
        at += (size_t)n;
    }
    return at;
}

static int names_numbers(struct features *f, uint32_t columns, struct err *e)
{
    int error = names_alloc(f, columns, 12ull * columns, e);
    if (error == 0)
        names_count(f, 0, columns, "", 0, 0);
    return error;
}

static int names_criteo(struct features *f, struct err *e)
{
    int error = names_alloc(f, 1 + CRITEO_NUMBERS + CRITEO_CATEGORIES, 512, e);
    if (error != 0)
        return error;
    memcpy(f->text, "label", 5);
    f->name[0] = (struct cell){f->text, 5};
    size_t at = names_count(f, 1, 1 + CRITEO_NUMBERS, "I", 1, 5);
    names_count(f, 1 + CRITEO_NUMBERS, f->columns, "C", 1, at);
    return 0;
}

/* A byte order mark before the first name is no part of it. */
static void skip_mark(const char **head, size_t *bytes)
{
    if (*bytes >= 3 && memcmp(*head, "\xef\xbb\xbf", 3) == 0) {
        *head += 3;
        *bytes -= 3;
    }
}

static int head_cells(const struct features *f, const char *file, char *line, size_t bytes, struct cell *cell,
                      uint32_t *count, struct err *e)
{
    char reason[REASON_BYTES];
    int error = f->format == DATA_LIBSVM ? read_libsvm_split(line, bytes, cell, count, reason)
                                         : read_csv_split(f->delimiter, line, bytes, cell, count, reason);
    if (error != 0)
        return err_set(e, SHOAL_E_DATA, "%s:1: %s; look at data.format and the file", file, reason);
    if (f->format == DATA_LIBSVM && *count < 2)
        return err_set(e, SHOAL_E_DATA, "%s:1: no entries after the label; look at data.format and the file", file);
    return 0;
}

/* Names by header, by the job's columns, or by number. `work` and `cell` are scratch. */
static int names_of_head(struct features *f, const struct job *job, const char *file, char *work, size_t bytes,
                         struct cell *cell, struct err *e)
{
    uint32_t count;
    int error = head_cells(f, file, work, bytes, cell, &count, e);
    if (error != 0)
        return error;
    if (f->header)
        return names_copy(f, cell, count, e);
    if (f->format == DATA_LIBSVM || job->data.column_count == 0)
        return names_numbers(f, count, e);
    if (job->data.column_count != count)
        return err_set(e, SHOAL_E_CONFIG,
                       "%s:1: %u columns, but data.columns names %zu; name each (type: skip for those not used)", file,
                       count, job->data.column_count);
    for (uint32_t i = 0; i < count; i++)
        cell[i] = (struct cell){job->data.column[i].name, (uint32_t)strlen(job->data.column[i].name)};
    return names_copy(f, cell, count, e);
}

static int names_make(struct features *f, const struct job *job, const char *file, const char *head, size_t bytes,
                      struct err *e)
{
    if (f->format == DATA_CRITEO)
        return names_criteo(f, e);
    if (f->header)
        skip_mark(&head, &bytes);
    struct cell *cell = malloc(sizeof *cell * CELLS_MAX + bytes + 1);
    if (cell == NULL)
        return err_set(e, SHOAL_E_NOMEM, "%s: no memory to read its first line; free some", file);
    char *work = (char *)(cell + CELLS_MAX); /* taking quotes out changes the line */
    memcpy(work, head, bytes);
    int error = names_of_head(f, job, file, work, bytes, cell, e);
    free(cell);
    return error;
}

/* ---- types ---- */

static int types_of_job(struct plan *p, struct features *f, struct err *e)
{
    memset(p->type, COLUMN_SKIP, f->columns);
    bool positional = !f->header;
    for (size_t i = 0; i < p->job->data.column_count; i++) {
        const struct column *c = &p->job->data.column[i];
        uint32_t at = positional ? (uint32_t)i : find(f->name, f->columns, c->name);
        if (at == NO_COLUMN)
            return no_column(p->file, "data.columns", c->name, f->name, f->columns, e);
        if (p->column[at] != NULL)
            return err_set(e, SHOAL_E_CONFIG, "data.columns names column \"%s\" twice; take one out", c->name);
        p->type[at] = (uint8_t)c->type;
        p->column[at] = c;
    }
    return 0;
}

static int label_of_job(struct plan *p, struct features *f, struct err *e)
{
    uint32_t found = NO_COLUMN;
    for (uint32_t i = 0; i < f->columns; i++) {
        if (p->type[i] != COLUMN_LABEL)
            continue;
        if (found != NO_COLUMN)
            return err_set(e, SHOAL_E_CONFIG, "data.columns has two columns of type label: \"%s\" and \"%s\"; keep one",
                           p->column[found]->name, p->column[i]->name);
        found = i;
    }
    const char *name = p->job->data.label[0][0] != '\0' ? p->job->data.label[0] : "0";
    if (found == NO_COLUMN) {
        found = find(f->name, f->columns, name);
        if (found == NO_COLUMN)
            return no_column(p->file, "data.label", name, f->name, f->columns, e);
        if (p->type[found] != COLUMN_SKIP && p->column[found] != NULL)
            return err_set(e, SHOAL_E_CONFIG,
                           "column \"%s\" is the label (data.label: %s) and has another type in data.columns; give it "
                           "type: label, or name the right one in data.label",
                           p->column[found]->name, name);
    }
    p->type[found] = COLUMN_LABEL;
    f->label = found;
    return 0;
}

static int types_make(struct plan *p, struct features *f, struct err *e)
{
    memset(p->type, COLUMN_CATEGORY, f->columns);
    if (f->format == DATA_CRITEO)
        memset(p->type + 1, COLUMN_NUMBER, CRITEO_NUMBERS);
    if (f->format != DATA_CSV) {
        p->type[0] = COLUMN_LABEL;
        f->label = 0;
        return 0;
    }
    if (p->job->data.column_count > 0) {
        int error = types_of_job(p, f, e);
        if (error != 0)
            return error;
    }
    return label_of_job(p, f, e);
}

/* ---- use ---- */

static int use_column(struct plan *p, struct features *f, uint32_t column, struct err *e)
{
    const struct column *c = p->column[column];
    struct feature_use use = {
        .column = (uint16_t)column, .type = p->type[column], .transform = (uint8_t)p->job->features.number};
    if (use.type == COLUMN_NUMBER && use.transform != NUMBER_BUCKET) {
        if (f->shape.numerics == LIMIT_NUMERIC)
            return err_set(e, SHOAL_E_CONFIG, "%s: more than %u numeric columns; choose some in features.fields",
                           p->file, LIMIT_NUMERIC);
        f->numeric[f->shape.numerics++] = use;
        return 0;
    }
    if (f->shape.fields == LIMIT_FIELDS)
        return err_set(e, SHOAL_E_CONFIG, "%s: more than %u fields; choose some in features.fields", p->file,
                       LIMIT_FIELDS);
    use.separator = c != NULL && c->separator != '\0' ? c->separator : '|';
    f->multi |= use.type == COLUMN_MULTI;
    f->shape.pooling[f->shape.fields] = (uint8_t)(c != NULL ? c->pooling : POOL_SUM);
    f->field[f->shape.fields++] = use;
    return 0;
}

static int use_listed(struct plan *p, struct features *f, struct err *e)
{
    const struct string_list *list = &p->job->features.fields;
    for (size_t i = 0; i < list->count; i++) {
        uint32_t column = find(f->name, f->columns, list->item[i]);
        if (column == NO_COLUMN)
            return no_column(p->file, "features.fields", list->item[i], f->name, f->columns, e);
        if (p->type[column] == COLUMN_LABEL || p->type[column] == COLUMN_SKIP)
            return err_set(e, SHOAL_E_CONFIG,
                           "features.fields names column \"%s\", which is %s; take it out or change data.columns",
                           list->item[i], p->type[column] == COLUMN_LABEL ? "the label" : "skipped");
        for (size_t j = 0; j < i; j++)
            if (find(f->name, f->columns, list->item[j]) == column)
                return err_set(e, SHOAL_E_CONFIG, "features.fields names column \"%s\" twice; take one out",
                               list->item[i]);
        int error = use_column(p, f, column, e);
        if (error != 0)
            return error;
    }
    return 0;
}

static int use_all(struct plan *p, struct features *f, struct err *e)
{
    int error = 0;
    for (uint32_t i = 0; i < f->columns && error == 0; i++)
        if (p->type[i] != COLUMN_LABEL && p->type[i] != COLUMN_SKIP)
            error = use_column(p, f, i, e);
    return error;
}

static int plan_make(struct plan *p, struct features *f, struct err *e)
{
    int error = types_make(p, f, e);
    if (error != 0)
        return error;
    const struct job *job = p->job;
    error = job->features.fields_auto || job->features.fields.count == 0 ? use_all(p, f, e) : use_listed(p, f, e);
    if (error == 0 && f->shape.fields + f->shape.numerics == 0)
        error = err_set(e, SHOAL_E_CONFIG,
                        "%s: no column is left as a feature; look at data.columns and features.fields", p->file);
    return error;
}

int features_make(const struct job *job, const char *name, const char *head, size_t bytes, struct features *out,
                  struct err *e)
{
    *out = (struct features){.format = job->data.format, .label_above = job->data.label_above};
    out->delimiter = job->data.delimiter != '\0' ? job->data.delimiter : ',';
    out->header = job->data.format == DATA_CSV && job->data.header;
    for (uint32_t i = 0; i < FEATURE_LOG1P_TABLE; i++)
        out->log1p[i] = feature_log1p(i);
    int error = names_make(out, job, name, head, bytes, e);
    if (error == 0) {
        struct plan p = {.job = job, .file = name, .type = calloc(out->columns, 1)};
        p.column = calloc(out->columns, sizeof p.column[0]);
        error = p.type == NULL || p.column == NULL
                    ? err_set(e, SHOAL_E_NOMEM, "%s: no memory for its columns; free some", name)
                    : plan_make(&p, out, e);
        free(p.type);
        free(p.column);
    }
    if (error != 0)
        features_free(out);
    return error;
}

/* ---- other headers ---- */

static int rebind(const struct cell *was, uint32_t columns, const struct features *now, const char *name,
                  uint32_t *column, struct err *e)
{
    SHOAL_ASSERT(*column < columns);
    char text[LIMIT_NAME * 4];
    int shown = was[*column].bytes < sizeof text ? (int)was[*column].bytes : (int)sizeof text - 1;
    for (uint32_t i = 0; i < now->columns; i++) {
        if (now->name[i].bytes == was[*column].bytes &&
            memcmp(now->name[i].text, was[*column].text, was[*column].bytes) == 0) {
            *column = i;
            return 0;
        }
    }
    snprintf(text, sizeof text, "%.*s", shown, was[*column].text);
    return no_column(name, "the header of the training input", text, now->name, now->columns, e);
}

int features_bind(struct features *f, const char *name, const char *head, size_t bytes, struct err *e)
{
    struct features now = {.format = f->format, .delimiter = f->delimiter, .header = true};
    int error = names_make(&now, NULL, name, head, bytes, e);
    if (error == 0)
        error = rebind(f->name, f->columns, &now, name, &f->label, e);
    for (uint32_t i = 0; i < f->shape.fields + f->shape.numerics && error == 0; i++) {
        struct feature_use *use = i < f->shape.fields ? &f->field[i] : &f->numeric[i - f->shape.fields];
        uint32_t column = use->column;
        error = rebind(f->name, f->columns, &now, name, &column, e);
        use->column = (uint16_t)column;
    }
    if (error != 0) {
        features_free(&now);
        return error;
    }
    free(f->name);
    free(f->text);
    f->name = now.name;
    f->text = now.text;
    f->columns = now.columns;
    return 0;
}

void features_free(struct features *f)
{
    free(f->name);
    free(f->text);
    f->name = NULL;
    f->text = NULL;
}
