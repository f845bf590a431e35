/* read_libsvm.c: "label idx:1 idx:1 ...": an entry's position in the line is its field, idx its
 * value. */
#include "worker/data/feature.h"

#include <stdio.h>
#include <string.h>

static const char *skip_blanks(const char *p, const char *end)
{
    while (p < end && (*p == ' ' || *p == '\t'))
        p++;
    return p;
}

static const char *word_end(const char *p, const char *end)
{
    while (p < end && *p != ' ' && *p != '\t')
        p++;
    return p;
}

/* "1", "1.0", "1.000" */
static int is_one(const char *p, const char *end)
{
    if (p == end || *p != '1')
        return 0;
    if (++p < end && *p == '.')
        for (p++; p < end && *p == '0'; p++)
            ;
    return p == end;
}

static int refuse(char *reason, uint32_t number, const char *what)
{
    snprintf(reason, REASON_BYTES, "entry %u %s", number, what);
    return SHOAL_E_DATA;
}

/* The error for an entry that is not idx:1, as other tools write them; `colon` is behind its
 * digits. */
static int entry_refuse(const char *p, const char *colon, const char *end, uint32_t number,
                        char *reason)
{
    if (*p == '#')
        return refuse(reason, number, "begins a comment; take comments off: sed 's/ *#.*//'");
    if (end - p > 4 && memcmp(p, "qid:", 4) == 0)
        return refuse(reason, number,
                      "is qid:N, which only ranking uses; take it out: sed 's/ qid:[^ ]*//'");
    if (colon > p && colon == end)
        return refuse(reason, number, "has no value; write idx:1: sed -E 's/ [0-9]+/&:1/g'");
    if (colon == p || *colon != ':')
        return refuse(reason, number, "is not idx:value with a number as idx; look at data.format");
    if (memchr(colon + 1, ':', (size_t)(end - colon - 1)) != NULL)
        return refuse(reason, number,
                      "is field:idx:value (libffm); where every line has the same fields and all "
                      "values are 1: sed -E 's/ [0-9]+:/ /g'");
    return refuse(reason, number,
                  "has a value other than 1: only idx:1 is read; write it as csv, with the values "
                  "in columns of type number");
}

static int entry(const char *p, const char *end, uint32_t number, struct cell *cell, char *reason)
{
    const char *colon = p;
    while (colon < end && *colon >= '0' && *colon <= '9')
        colon++;
    if (colon == p || colon == end || *colon != ':' || !is_one(colon + 1, end))
        return entry_refuse(p, colon, end, number, reason);
    *cell = (struct cell){p, (uint32_t)(colon - p)};
    return 0;
}

/* labels: cells before the entries: 1, or 0 in an unlabelled line. */
static int libsvm_split(char *line, size_t bytes, uint32_t labels, struct cell *cell,
                        uint32_t *count, char *reason)
{
    const char *end = line + bytes, *p = skip_blanks(line, end);
    const char *stop = p;
    if (labels != 0)
        stop = word_end(p, end);
    cell[0] = (struct cell){p, (uint32_t)(stop - p)};
    uint32_t n = labels;
    for (p = skip_blanks(stop, end); p < end; p = skip_blanks(stop, end)) {
        if (n == CELLS_MAX) {
            snprintf(reason, REASON_BYTES, "more than %u entries", CELLS_MAX - 1);
            return SHOAL_E_DATA;
        }
        stop = word_end(p, end);
        int rc = entry(p, stop, n + 1 - labels, &cell[n], reason);
        if (rc != 0)
            return rc;
        n++;
    }
    *count = n;
    return 0;
}

static int libsvm_line(const struct features *f, char *line, size_t bytes, struct cell *cell,
                       char *reason)
{
    uint32_t count, labels = f->unlabelled ? 0 : 1;
    int rc = libsvm_split(line, bytes, labels, cell, &count, reason);
    if (rc != 0 || count == f->columns)
        return rc;
    snprintf(
        reason, REASON_BYTES,
        "%u entries, not %u as on the first line: a libsvm line has one for each field; make it "
        "csv with a column of type multi (job.md, From libsvm to csv)",
        count - labels, f->columns - labels);
    return SHOAL_E_DATA;
}

static int libsvm_head(const struct features *f, char *line, size_t bytes, struct cell *cell,
                       uint32_t *count, char *reason)
{
    (void)f;
    int rc = libsvm_split(line, bytes, 1, cell, count, reason);
    if (rc != 0 || *count > 1)
        return rc;
    snprintf(reason, REASON_BYTES,
             "no entries after the label; make it csv with a column of type multi (job.md, From "
             "libsvm to csv)");
    return SHOAL_E_DATA;
}

const struct format format_libsvm = {.line = libsvm_line, .head = libsvm_head};
