/* read_libsvm.c: "label idx:1 idx:1 ...": the entry's place on the line is its field, idx its
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

static int entry(const char *p, const char *end, uint32_t number, struct cell *cell, char *reason)
{
    const char *colon = p;
    while (colon < end && *colon >= '0' && *colon <= '9')
        colon++;
    if (colon == p || colon == end || *colon != ':') {
        snprintf(reason, REASON_BYTES, "entry %u is not idx:value with a number as idx", number);
        return SHOAL_E_DATA;
    }
    if (!is_one(colon + 1, end)) {
        snprintf(reason, REASON_BYTES,
                 "entry %u has a value other than 1: only idx:1 is read, use csv for numbers",
                 number);
        return SHOAL_E_DATA;
    }
    *cell = (struct cell){p, (uint32_t)(colon - p)};
    return 0;
}

/* labels: cells before the entries, 1, or 0 of a line that is only to be scored. */
static int libsvm_split(char *line, size_t bytes, uint32_t labels, struct cell *cell,
                        uint32_t *count, char *reason)
{
    const char *end = line + bytes, *p = skip_blanks(line, end);
    const char *stop = labels == 0 ? p : word_end(p, end);
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
    snprintf(reason, REASON_BYTES,
             "%u entries, not %u as on the first line: every libsvm line needs the same number, "
             "one a field",
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
    snprintf(reason, REASON_BYTES, "no entries after the label");
    return SHOAL_E_DATA;
}

const struct format format_libsvm = {.line = libsvm_line, .head = libsvm_head};
