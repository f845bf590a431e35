/* read_libsvm.c: "label index:value index:value ..". The job, its tables or the first lines decide
 * what an entry is (enum entries): the value of the field of its place, where all lines have the
 * same number of entries and all values are 1; a weighted value of the one field; or a weighted
 * value of its index's field. */
#include "worker/data/entries.h"

#include <stdio.h>

/* "1", "1.0", "1.000" */
static bool is_one(const char *p, const char *end)
{
    if (p == end || *p != '1')
        return false;
    if (++p < end && *p == '.')
        for (p++; p < end && *p == '0'; p++)
            ;
    return p == end;
}

/* The error for a word that is not index:value or an index alone; `colon` is behind its digits. */
static int entry_refuse(const char *p, const char *colon, const char *end, uint32_t number,
                        char *reason)
{
    if (colon == p || colon == end || *colon != ':')
        return entries_refuse(reason, number,
                              "is not index:value with a number as index; look at data.format");
    if (memchr(colon + 1, ':', (size_t)(end - colon - 1)) != NULL)
        return entries_refuse(reason, number, "is field:index:value, which is data.format: libffm");
    return entries_refuse(reason, number, "has no number as value; look at data.format");
}

/* Reads one entry; an index alone has the value 1. *one: the value is 1. */
static int entry_read(const char *p, const char *end, uint32_t number, struct cell *index,
                      bool *one, char *reason)
{
    const char *colon = entries_digits(p, end);
    double x;
    *index = (struct cell){p, (uint32_t)(colon - p)};
    *one = true;
    if (colon == end && colon > p)
        return 0;
    if (colon == p || *colon != ':')
        return entry_refuse(p, colon, end, number, reason);
    struct cell value = {colon + 1, (uint32_t)(end - colon - 1)};
    *one = is_one(colon + 1, end);
    if (*one || feature_number(&value, &x))
        return 0;
    return entry_refuse(p, colon, end, number, reason);
}

/* ---- by place -------------------------------------------------------------------------------- */

static int place_refuse(const struct features *f, uint32_t count, uint32_t labels, char *reason)
{
    snprintf(reason, REASON_BYTES,
             "%u entries, not %u: an entry's place is its field here; for lines of any length say "
             "data.libsvm: one",
             count - labels, f->columns - labels);
    return SHOAL_E_DATA;
}

/* labels: cells before the entries: 1, or 0 in an unlabelled line. */
static int by_place(const struct features *f, char *line, size_t bytes, struct cell *cell,
                    char *reason)
{
    struct entries_parts parts;
    uint32_t labels = f->unlabelled ? 0 : 1, n = labels;
    const char *stop;
    entries_part(line, bytes, &parts);
    cell[0] = parts.label;
    if (labels == 0 && parts.label.bytes > 0)
        parts.at = line;
    for (char *word; (word = entries_word(&parts.at, parts.end, &stop)) != NULL; n++) {
        bool one;
        struct cell index;
        int rc = entry_read(word, stop, n + 1 - labels, &index, &one, reason);
        if (rc != 0)
            return rc;
        if (!one)
            return entries_refuse(reason, n + 1 - labels,
                                  "has a value other than 1: an entry's place is its field here; "
                                  "for values say data.libsvm: one");
        if (n < CELLS_MAX)
            cell[n] = index;
    }
    if (n == f->columns)
        return 0;
    return place_refuse(f, n, labels, reason);
}

/* ---- the format ------------------------------------------------------------------------------ */

static int libsvm_line(const struct features *f, char *line, size_t bytes, struct cell *cell,
                       char *reason)
{
    struct entries_parts parts;
    if (f->entries == ENTRIES_PLACES)
        return by_place(f, line, bytes, cell, reason);
    if (f->entries == ENTRIES_INDEXES)
        return entries_by_number(f, line, bytes, false, cell, reason);
    entries_part(line, bytes, &parts);
    cell[0] = parts.label;
    cell[1] = (struct cell){parts.at, (uint32_t)(parts.end - parts.at)};
    cell[2] = parts.qid;
    return 0;
}

static int libsvm_look(char *line, size_t bytes, struct format_look *out, char *reason)
{
    struct entries_parts parts;
    uint32_t n = 0;
    const char *stop;
    bool ones = true;
    if (entries_look(line, bytes, out->words, &parts, reason) != 0)
        return SHOAL_E_DATA;
    for (char *word; (word = entries_word(&parts.at, parts.end, &stop)) != NULL; n++) {
        bool one;
        struct cell index;
        int rc = entry_read(word, stop, n + 1, &index, &one, reason);
        if (rc != 0)
            return rc;
        ones &= one;
        entries_see(out, entries_number(index.text, index.text + index.bytes));
    }
    out->places = out->lines++ == 0 ? n : out->places;
    out->alike &= ones && n > 0 && n == out->places && n < CELLS_MAX;
    return 0;
}

const struct format format_libsvm = {.line = libsvm_line, .look = libsvm_look};
