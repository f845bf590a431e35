/* feature_names.c: names of columns, from the job and the first line; finds fields by name. */
#include "proto/base/minmax.h"
#include "worker/data/feature_inner.h"
#include "worker/data/kind.h"

#include "proto/base/assert.h"
#include "proto/base/hash.h"
#include "proto/base/key.h"
#include "proto/base/limits.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Kinds of fields in the tables' names (proto/job/legend.h). */

static bool name_is(const struct cell *cell, const char *name)
{
    return strlen(name) == cell->bytes && memcmp(cell->text, name, cell->bytes) == 0;
}

/* The position that a name of digits gives, else FEATURE_NO_COLUMN. */
static uint32_t position_of(const char *name)
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
    uint32_t position = position_of(name);

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

static int names_alloc(struct features *f, uint32_t columns, size_t text_bytes, struct err *e)
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
    int rc = names_alloc(f, columns, bytes, e);
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

/* Names columns [first, end) prefix + number. */
static size_t names_count(struct features *f, uint32_t first, uint32_t end, const char *prefix,
                          uint32_t number, size_t at)
{
    for (uint32_t i = first; i < end; i++) {
        int n = sprintf(f->text + at, "%s%u", prefix, number + (i - first));
        f->name[i] = (struct cell){f->text + at, (uint32_t)n};
        at += (size_t)n;
    }
    return at;
}

/* Names one column. */
static size_t names_text(struct features *f, uint32_t column, const char *name, size_t at)
{
    f->name[column] = (struct cell){f->text + at, (uint32_t)strlen(name)};
    memcpy(f->text + at, name, f->name[column].bytes);
    return at + f->name[column].bytes;
}

static int names_numbers(struct features *f, uint32_t columns, struct err *e)
{
    int rc = names_alloc(f, columns, 12ull * columns, e);
    if (rc == 0)
        names_count(f, 0, columns, "", 0, 0);
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
    int rc = names_alloc(f, columns, bytes, e);
    if (rc != 0)
        return rc;
    columns = 0;
    for (const struct format_columns *c = first; c->count > 0; columns += c++->count)
        if (c->count == 1) {
            f->name[columns] = (struct cell){f->text + at, (uint32_t)strlen(c->name)};
            memcpy(f->text + at, c->name, f->name[columns].bytes);
            at += f->name[columns].bytes;
        } else {
            at = names_count(f, columns, columns + c->count, c->name, 1, at);
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

/* ---- names of entries: libsvm, libffm -------------------------------------------------------- */

/* True when the tables have values of entries in their fields, and these in one field or in one for
 * each index. */
static bool entries_known(const struct legend *n, enum entries *out)
{
    uint32_t here = 0, weighted = 0, one = 0;
    for (uint32_t i = 0; i < n->count[LEGEND_FIELDS]; i++) {
        const struct legend_name *x = &n->name[LEGEND_FIELDS][i];
        bool is = strstr(x->what, KIND_WEIGHTED) != NULL;
        here += x->here;
        weighted += x->here && is;
        one += x->here && is && strcmp(x->name, "1") == 0;
    }
    *out = ENTRIES_PLACES;
    if (weighted > 0)
        *out = weighted == 1 && one == 1 ? ENTRIES_ONE : ENTRIES_INDEXES;
    return here > 0;
}

static enum entries entries_of(const struct job *job, const struct format_look *look)
{
    static const enum entries said[] = {[LIBSVM_AUTO] = ENTRIES_PLACES,
                                        [LIBSVM_PLACES] = ENTRIES_PLACES,
                                        [LIBSVM_ONE] = ENTRIES_ONE,
                                        [LIBSVM_INDEXES] = ENTRIES_INDEXES};
    enum entries known;
    if (job->data.format == DATA_LIBFFM)
        return ENTRIES_FIELDS;
    if (job->data.libsvm != LIBSVM_AUTO)
        return said[job->data.libsvm];
    if (legend_known(&job->legend) && entries_known(&job->legend, &known))
        return known;
    return look->alike ? ENTRIES_PLACES : ENTRIES_ONE;
}

/* Looks at the lines of the head. DATA: no line fits the format; the reason is the first one's. */
static int lines_look(const struct features *f, const char *file, char *head, size_t bytes,
                      struct format_look *look, struct err *e)
{
    char *end = head + bytes, first[REASON_BYTES] = "", reason[REASON_BYTES], hint[KIND_HINT_BYTES];
    look->alike = true;
    for (char *p = head; p < end;) {
        char *stop = memchr(p, '\n', (size_t)(end - p));
        if (stop == NULL)
            stop = end;
        size_t n = (size_t)(stop - p);
        n -= n > 0 && p[n - 1] == '\r';
        if (n > 0 && f->format->look(p, n, look, reason) != 0 && first[0] == '\0')
            memcpy(first, reason, sizeof first);
        p = stop + 1;
    }
    if (look->lines > 0)
        return 0;
    kind_hint(head, strcspn(head, "\n"), ' ', hint);
    return err_set(e, SHOAL_E_DATA, "%s:1: %s%s%s", file, first, hint[0] != '\0' ? "; " : "", hint);
}

/* Adds the numbers that the job and the tables name. */
static void numbers_known(const struct job *job, struct format_look *look)
{
    for (size_t i = 0; i < job->data.column_count; i++) {
        uint32_t number = position_of(job->data.column[i].name);
        if (number < CELLS_MAX)
            look->number[number] = true;
    }
    for (uint32_t i = 0; i < job->legend.count[LEGEND_FIELDS]; i++) {
        const struct legend_name *x = &job->legend.name[LEGEND_FIELDS][i];
        uint32_t number = position_of(x->name);
        if (x->here && number < CELLS_MAX)
            look->number[number] = true;
    }
}

/* Columns "label", the numbers in ascending order, "qid". */
static int names_by_number(struct features *f, const struct format_look *look, struct err *e)
{
    uint32_t columns = 2, at = 1;
    for (uint32_t i = 0; i < CELLS_MAX; i++)
        columns += look->number[i];
    if (columns > CELLS_MAX)
        return err_set(e, SHOAL_E_DATA, "more than %u fields of entries", CELLS_MAX - 2);
    int rc = names_alloc(f, columns, 16 + 12ull * columns, e);
    if (rc != 0)
        return rc;
    size_t bytes = names_text(f, 0, "label", 0);
    for (uint32_t i = 0; i < CELLS_MAX; i++)
        if (look->number[i]) {
            f->column_of[i] = (uint16_t)at;
            bytes = names_count(f, at, at + 1, "", i, bytes);
            at++;
        }
    names_text(f, at, "qid", bytes);
    return 0;
}

static int number_refuse(const struct features *f, const char *file, uint32_t number, struct err *e)
{
    bool ffm = f->entries == ENTRIES_FIELDS;
    return err_set(e, SHOAL_E_DATA, "%s: %s %u is above %u, the largest that is a field%s", file,
                   ffm ? "field" : "index", number, CELLS_MAX - 1,
                   ffm ? ": number the fields from 0" : "; say data.libsvm: one");
}

/* The label, and the places of the first line's entries. */
static int names_of_places(struct features *f, const char *file, uint32_t places, struct err *e)
{
    if (places > 0 && places < CELLS_MAX)
        return names_numbers(f, places + 1, e);
    return err_set(
        e, SHOAL_E_DATA,
        "%s: the first line has %u entries, and places are 1 to %u: say data.libsvm: one", file,
        places, CELLS_MAX - 1);
}

/* Fields by index begin with the name of the only field of `one`, which has other rows. */
static int entries_check(const struct job *job, enum entries is, struct err *e)
{
    enum entries known;
    bool said = job->data.format != DATA_LIBFFM && job->data.libsvm != LIBSVM_AUTO;
    if (!said || !legend_known(&job->legend) || !entries_known(&job->legend, &known) ||
        known != ENTRIES_ONE || is != ENTRIES_INDEXES)
        return 0;
    return err_set(e, SHOAL_E_CONFIG,
                   "data.libsvm: indexes: the tables that the job begins with have all entries in "
                   "one field (data.libsvm: one): take the key away, or begin without these "
                   "tables");
}

static int names_of_look(struct features *f, const struct job *job, const char *file,
                         struct format_look *look, struct err *e)
{
    f->entries = entries_of(job, look);
    if (entries_check(job, f->entries, e) != 0)
        return SHOAL_E_CONFIG;
    if (f->entries == ENTRIES_PLACES && look->lines > 0)
        return names_of_places(f, file, look->places, e);
    if (f->entries == ENTRIES_PLACES)
        return names_numbers(f, job->legend.columns, e);
    if (f->entries == ENTRIES_ONE) {
        int rc = names_alloc(f, 3, 8, e);
        if (rc == 0)
            names_text(f, 2, "qid", names_count(f, 0, 2, "", 0, 0));
        return rc;
    }
    if (look->beyond > 0)
        return number_refuse(f, file, look->beyond, e);
    numbers_known(job, look);
    return names_by_number(f, look, e);
}

/* Names the columns of a format that looks at many lines. `work`: the head, which changes. */
static int names_of_lines(struct features *f, const struct job *job, const char *file, char *work,
                          size_t bytes, struct err *e)
{
    struct format_look *look = calloc(1, sizeof *look);
    if (look == NULL)
        return err_set(e, SHOAL_E_NOMEM, "%s: no memory for its columns; free some", file);
    int rc = 0;
    look->words = job->data.label_positive.count > 0;
    if (work != NULL)
        rc = lines_look(f, file, work, bytes, look, e);
    if (rc == 0)
        rc = names_of_look(f, job, file, look, e);
    free(look);
    return rc;
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

/* Adds all names of the job and the tables: at most LIMIT_FIELDS of each list. */
static void names_of_all(struct key_names *n, const struct job *job)
{
    for (uint32_t i = 0; i < job->data.label_count; i++)
        name_put(n, job->data.label[i]);
    for (uint32_t l = LEGEND_FIELDS; l <= LEGEND_NUMBERS; l++)
        for (uint32_t i = 0; i < job->legend.count[l]; i++)
            if (job->legend.name[l][i].here && !is_made(&job->legend.name[l][i]))
                name_put(n, job->legend.name[l][i].name);
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

static int compare_cells(const void *a, const void *b)
{
    const struct cell *x = a, *y = b;
    int order = memcmp(x->text, y->text, MIN(x->bytes, y->bytes));
    if (order != 0)
        return order;
    return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
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
    if (f->header)
        return names_copy(f, cell, count, e);
    if (!f->format->named || job->data.column_count == 0)
        return names_numbers(f, count, e);
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
    if (format->look != NULL && entries_known(&job->legend, &entries) && entries != ENTRIES_PLACES)
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
        return names_numbers(f, job->legend.columns, e);
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
        return names_of_lines(f, job, file, NULL, 0, e);
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
        rc = names_of_lines(f, job, file, work, bytes, e);
    else
        rc = names_of_head(f, job, file, work, bytes, cell, e);
    free(cell);
    return rc;
}

/* ---- names in the tables
 * ---------------------------------------------------------------------- */

/* Columns of the same name get their rank among them as a suffix. */
void feature_column_name(const struct features *f, uint32_t column, char out[LEGEND_NAME])
{
    const struct cell *name = &f->name[column];
    uint32_t which = 1;
    for (uint32_t i = 0; i < column; i++)
        which += f->name[i].bytes == name->bytes &&
                 memcmp(f->name[i].text, name->text, name->bytes) == 0;
    legend_write(name->text, name->bytes, which, out);
}

/* The kind, and the field whose rows it shares. */
static void field_kind(const struct features *f, uint32_t i, char out[LEGEND_WHAT])
{
    const struct feature_use *use = &f->field[i];
    feature_kind(f, use, out);
    size_t n = strlen(out);
    for (uint32_t k = 0; k < f->shape.fields; k++)
        if (k != i && f->shape.number[k] == use->key_field) {
            const struct cell *of = &f->name[f->field[k].column];
            (void)snprintf(out + n, LEGEND_WHAT - n, ", rows of ~%08" PRIx32,
                           (uint32_t)hash_bytes(of->text, of->bytes, 0));
        }
}

/* The separator in front of an item of a text; none before the first item. */
static const char *separator(bool behind)
{
    return behind ? ", " : "";
}

/* Describes the columns of the network's input in order: for a field the floats of its vector and
 * its pooling, for a number its transform. */
static int input_text(const struct features *f, const struct job *job, struct legend *out,
                      struct err *e)
{
    static const char *const pooled[] = {
        [POOL_SUM] = "", [POOL_MEAN] = " mean", [POOL_ATTENTION] = " attention"};
    char name[LEGEND_NAME], kind[LEGEND_WHAT];
    size_t bytes = 0;
    FILE *t = open_memstream(&out->input, &bytes);
    if (t == NULL)
        return err_set(e, SHOAL_E_NOMEM, "out of memory");
    for (uint32_t i = 0; i < f->shape.fields; i++) {
        feature_use_name(f, &f->field[i], name);
        fprintf(t, "%s%s %u%s", separator(i > 0), name, job->table[f->shape.table[i]].dim,
                pooled[f->shape.pooling[i]]);
        if (f->shape.most[i] > 0)
            fprintf(t, " last %u", f->shape.most[i]);
    }
    for (uint32_t i = 0; i < f->shape.numerics; i++) {
        feature_use_name(f, &f->numeric[i], name);
        feature_kind(f, &f->numeric[i], kind);
        /* "age log1p": without the word number */
        fprintf(t, "%s%s%s", separator(i + f->shape.fields > 0), name, kind + strlen("number"));
    }
    if (fclose(t) != 0 || out->input == NULL)
        return err_set(e, SHOAL_E_NOMEM, "out of memory");

    return 0;
}

/* Positions of the labels, where columns are named by position. */
static void place_text(const struct features *f, const struct job *job, char out[LIMIT_NAME])
{
    bool named = f->header || f->format->keyed || f->format->columns != NULL ||
                 (f->format->named && job->data.column_count > 0);
    size_t at = 0;
    out[0] = 0;
    for (uint32_t i = 0; !named && i < f->shape.tasks && at < LIMIT_NAME; i++)
        at += (size_t)snprintf(out + at, LIMIT_NAME - at, "%s%u", separator(i > 0), f->label[i]);
}

static int labels_text(const struct features *f, const struct job *job, struct legend *out,
                       struct err *e)
{
    size_t bytes = 0;
    FILE *t = open_memstream(&out->labels, &bytes);
    for (uint32_t i = 0; t != NULL && i < f->shape.tasks; i++)
        fprintf(t, "%s%s", separator(i > 0), job->data.label[i]);

    if (t == NULL || fclose(t) != 0)
        return err_set(e, SHOAL_E_NOMEM, "out of memory");

    return 0;
}

/* Adds the figures that were taken from the data. */
static int figures_put(const struct features *f, struct legend *out, struct err *e)
{
    int rc = 0;
    for (uint32_t i = 0; i < f->scales && rc == 0; i++) {
        const struct scale *s = &f->scale[i];
        char name[LEGEND_NAME], text[SCALE_TEXT];
        if (!s->known || (s->transform != NUMBER_STANDARD && s->quantiles == 0))
            continue;
        feature_column_name(f, f->scaled[i], name);
        scale_text(s, text);
        rc = legend_figures_put(out, name, text, e);
    }
    return rc;
}

int feature_legend(const struct features *f, const struct job *job, struct legend *out,
                   struct err *e)
{
    int rc = 0;
    for (uint32_t i = 0; i < f->shape.fields && rc == 0; i++) {
        char name[LEGEND_NAME], kind[LEGEND_WHAT];
        feature_use_name(f, &f->field[i], name);
        field_kind(f, i, kind);
        rc = legend_add(out, LEGEND_FIELDS, name, job->table[f->shape.table[i]].name, kind, e);
    }
    for (uint32_t i = 0; i < f->shape.numerics && rc == 0; i++) {
        char name[LEGEND_NAME], kind[LEGEND_WHAT];
        feature_use_name(f, &f->numeric[i], name);
        feature_kind(f, &f->numeric[i], kind);
        rc = legend_add(out, LEGEND_NUMBERS, name, "", kind, e);
    }
    if (rc == 0)
        rc = figures_put(f, out, e);
    place_text(f, job, out->place);
    out->columns = out->place[0] != 0 ? f->columns : 0;
    if (rc == 0)
        rc = input_text(f, job, out, e);
    if (rc != 0)
        return rc;

    return labels_text(f, job, out, e);
}

/* ---- fields by name -------------------------------------------------------------------------- */

void feature_field_name(const struct features *f, uint32_t i, char out[LIMIT_NAME])
{
    char name[FEATURE_SHOWN];
    SHOAL_ASSERT(i < f->shape.fields && f->field[i].column < f->columns);
    feature_use_shown(f, &f->field[i], name);
    snprintf(out, LIMIT_NAME, "%.*s", (int)LIMIT_NAME - 1, name);
}

int feature_field_find(const struct features *f, const char *name, uint32_t *out, struct err *e)
{
    char *end, names[256] = "", one[LIMIT_NAME];
    for (uint32_t i = 0; i < f->shape.fields; i++) {
        feature_field_name(f, i, one);
        if (strcmp(one, name) == 0) {
            *out = i;
            return 0;
        }
        size_t n = strlen(names);
        snprintf(names + n, sizeof names - n, "%s%s", separator(n > 0), one);
    }
    unsigned long number = strtoul(name, &end, 10);
    for (uint32_t i = 0; end != name && *end == '\0' && i < f->shape.fields; i++)
        if (number == f->shape.number[i]) {
            *out = i;
            return 0;
        }
    return err_set(e, SHOAL_E_NOT_FOUND, "the job has no field %s; its fields are: %s", name,
                   names);
}

/* The key of a value in a field with this number. */
static int value_key(uint32_t number, const char *name, bool id, const char *value, uint64_t *key,
                     struct err *e)
{
    *key = key_of_value(number, value, strlen(value));
    if (!id || *value == 0 || key_of_id(number, value, strlen(value), key))
        return 0;
    return err_set(e, SHOAL_E_DATA, "%s is no id of field %s: that is " KEY_ID_WORDS, value, name);
}

/* The key of "a x b" in a cross: the values of its columns, of bucketed numbers the numbers. */
static int cross_value_key(const struct features *f, const struct feature_use *use,
                           const char *name, const char *value, uint64_t *key, struct err *e)
{
    char reason[REASON_BYTES];
    if (use->at == FEATURE_PLAIN)
        return err_set(e, SHOAL_E_CONFIG,
                       "field %s was crossed as its event files were made: the job of their log "
                       "has its columns",
                       name);
    const struct feature_cross *x = &f->cross[use->at];
    struct feature_use own = *use;
    struct features one = *f;
    struct feature_cross cross = *x;
    struct cell cell[CROSS_PARTS];
    for (uint32_t i = 0; i < x->parts; i++) {
        const char *end = i + 1 < x->parts ? strstr(value, " x ") : value + strlen(value);
        if (end == NULL)
            return err_set(e, SHOAL_E_DATA,
                           "%s has values of %u columns: give them as in \"shop x 12\"", name,
                           x->parts);
        cell[i] = (struct cell){value, (uint32_t)(end - value)};
        value = i + 1 < x->parts ? end + 3 : end;
        cross.part[i].column = (uint16_t)i;
        if (cross.part[i].at != FEATURE_PLAIN && !f->scale[cross.part[i].at].known)
            return err_set(e, SHOAL_E_CONFIG, "the borders of a column of %s are not known", name);
    }
    one.cross = &cross;
    one.crosses = 1;
    own.at = 0;
    if (feature_cross_key(&one, &own, cell, key, reason) != 0)
        return err_set(e, SHOAL_E_DATA, "%s", reason);
    return 0;
}

int feature_field_key(const struct features *f, uint32_t field, const char *value, uint64_t *key,
                      struct err *e)
{
    SHOAL_ASSERT(field < f->shape.fields);
    const struct feature_use *use = &f->field[field];
    struct cell cell = {value, (uint32_t)strlen(value)};
    char text[FEATURE_BUCKET_TEXT], name[LIMIT_NAME];
    double x;
    feature_field_name(f, field, name);
    if (use->type == COLUMN_CROSS)
        return cross_value_key(f, use, name, value, key, e);
    if (use->type != COLUMN_NUMBER || cell.bytes == 0) /* an empty cell has a bucket of its own */
        return value_key(use->key_field, name, use->id, value, key, e);
    if (!feature_number(&cell, &x))
        return err_set(e, SHOAL_E_DATA,
                       "%s is no number, and field %u is one: its transform is bucket", value,
                       f->shape.number[field]);
    if (use->at != FEATURE_PLAIN && !f->scale[use->at].known)
        return err_set(e, SHOAL_E_CONFIG,
                       "the borders of field %s are taken from the data as its first job begins, "
                       "and these tables do not have them",
                       name);
    *key = key_of_value(use->key_field, text, feature_bucket_text(f, use, x, text));
    return 0;
}

/* A field that the tables have from a former job; NULL: none. */
static const struct legend_name *gone_find(const struct legend *n, const char *name)
{
    char *end;
    unsigned long number = strtoul(name, &end, 10);
    uint32_t at = legend_find(n, LEGEND_FIELDS, name);
    for (uint32_t i = 0; at == LEGEND_NONE && *end == 0 && i < n->count[LEGEND_FIELDS]; i++)
        if (n->name[LEGEND_FIELDS][i].number == number)
            at = i;

    if (at == LEGEND_NONE || n->name[LEGEND_FIELDS][at].here)
        return NULL;

    return &n->name[LEGEND_FIELDS][at];
}

int feature_gone_key(const struct legend *n, const char *name, const char *value, uint64_t *key,
                     struct err *e)
{
    const struct legend_name *x = gone_find(n, name);
    const char *what = "";
    if (x != NULL)
        what = x->what;
    bool id = strcmp(what, KIND_ID) == 0 || strcmp(what, KIND_MULTI_ID) == 0 ||
              strcmp(what, KIND_MULTI_ID KIND_WEIGHTED) == 0;
    if (!id && strcmp(what, "category") != 0 && strcmp(what, KIND_MULTI) != 0 &&
        strcmp(what, KIND_MULTI KIND_WEIGHTED) != 0)
        return SHOAL_E_NOT_FOUND;
    return value_key(x->number, x->name, id, value, key, e);
}

static void gone_json(const struct legend *n, struct json *list)
{
    for (uint32_t i = 0; i < n->count[LEGEND_FIELDS]; i++) {
        const struct legend_name *x = &n->name[LEGEND_FIELDS][i];
        if (x->here)
            continue;
        struct json *j = json_new_object();
        json_set_string(j, "name", x->name);
        json_set_int(j, "field", x->number);
        json_set_string(j, "kind", x->what);
        json_set_bool(j, "gone", true);
        json_append(list, j);
    }
}

struct json *feature_fields_json(const struct features *f, const struct legend *n)
{
    struct json *list = json_new_array();
    char name[LIMIT_NAME], kind[LEGEND_WHAT];
    for (uint32_t i = 0; i < f->shape.fields; i++) {
        const struct feature_use *use = &f->field[i];
        struct json *j = json_new_object();
        feature_field_name(f, i, name);
        json_set_string(j, "name", name);
        json_set_int(j, "field", f->shape.number[i]);
        json_set_int(j, "key_field", use->key_field);
        feature_kind(f, use, kind);
        json_set_string(j, "kind", kind);
        json_append(list, j);
    }
    gone_json(n, list);
    return list;
}
