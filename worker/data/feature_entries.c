/* feature_entries.c: names of columns of entries (libsvm, libffm), from the job, the tables or the
 * first lines. */
#include "worker/data/feature_names.h"
#include "worker/data/kind.h"

#include "proto/base/assert.h"

#include <stdlib.h>
#include <string.h>

bool feature_names_entries(const struct legend *n, enum entries *out)
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
    bool alone = weighted == 1 && one == 1 && !legend_reading_has(n, LEGEND_ENTRIES, WORD_INDEXES);
    if (weighted > 0)
        *out = alone ? ENTRIES_ONE : ENTRIES_INDEXES;
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
    if (legend_known(&job->legend) && feature_names_entries(&job->legend, &known))
        return known;
    return look->alike ? ENTRIES_PLACES : ENTRIES_ONE;
}

/* Looks at the lines of the head. DATA: no line fits the format; the reason is that of the first
 * one that is no comment. */
static int lines_look(const struct features *f, const char *file, char *head, size_t bytes,
                      struct format_look *look, struct err *e)
{
    char *end = head + bytes, *first = NULL, why[REASON_BYTES], reason[REASON_BYTES];
    char hint[KIND_HINT_BYTES];
    uint32_t number = 0, at = 1;
    look->alike = true;
    for (char *p = head; p < end; p++) {
        char *line = p;
        p = memchr(line, '\n', (size_t)(end - line));
        if (p == NULL)
            p = end;
        size_t n = (size_t)(p - line);
        n -= n > 0 && line[n - 1] == '\r';
        number++;
        if (n == 0 || *line == '#' || f->format->look(line, n, look, reason) == 0 || first != NULL)
            continue;
        memcpy(why, reason, sizeof why);
        first = line;
        at = number;
    }
    if (look->lines > 0)
        return 0;
    if (first == NULL)
        return err_set(e, SHOAL_E_DATA, "%s:1: there is no line but comments; look at the file",
                       file);
    kind_hint(first, strcspn(first, "\n"), ' ', hint);
    return err_set(e, SHOAL_E_DATA, "%s:%u: %s%s%s", file, at, why, hint[0] != '\0' ? "; " : "",
                   hint);
}

/* Adds the numbers that the job and the tables name. */
static void numbers_known(const struct job *job, struct format_look *look)
{
    for (size_t i = 0; i < job->data.column_count; i++) {
        uint32_t number = feature_names_position(job->data.column[i].name);
        if (number < CELLS_MAX)
            look->number[number] = true;
    }
    for (uint32_t i = 0; i < job->legend.count[LEGEND_FIELDS]; i++) {
        const struct legend_name *x = &job->legend.name[LEGEND_FIELDS][i];
        uint32_t number = feature_names_position(x->name);
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
    int rc = feature_names_alloc(f, columns, 16 + 12ull * columns, e);
    if (rc != 0)
        return rc;
    size_t bytes = feature_names_text(f, 0, "label", 0);
    for (uint32_t i = 0; i < CELLS_MAX; i++)
        if (look->number[i]) {
            f->column_of[i] = (uint16_t)at;
            bytes = feature_names_count(f, at, at + 1, "", i, bytes);
            at++;
        }
    feature_names_text(f, at, "qid", bytes);
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
        return feature_names_numbers(f, places + 1, e);
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
    if (!said || !legend_known(&job->legend) || !feature_names_entries(&job->legend, &known) ||
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
        return feature_names_numbers(f, job->legend.columns, e);
    if (f->entries == ENTRIES_ONE) {
        int rc = feature_names_alloc(f, 3, 8, e);
        if (rc == 0)
            feature_names_text(f, 2, "qid", feature_names_count(f, 0, 2, "", 0, 0));
        return rc;
    }
    if (look->beyond > 0)
        return number_refuse(f, file, look->beyond, e);
    numbers_known(job, look);
    return names_by_number(f, look, e);
}

int feature_names_lines(struct features *f, const struct job *job, const char *file, char *work,
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
