/* read_csv.c: cells between delimiters, quoted as in RFC 4180. A row is a line, so a quoted cell
 * cannot contain a line end. */
#include "worker/data/feature.h"

#include <stdio.h>
#include <string.h>

static int fail(char *reason, const char *what, uint32_t column)
{
    snprintf(reason, REASON_BYTES, "column %u: %s", column + 1, what);
    return SHOAL_E_DATA;
}

/* Reads a quoted cell; *at is at the opening quote and ends behind the closing one. The text moves
 * to the front as quotes are removed. */
static int quoted(char *line, size_t bytes, size_t *at, uint32_t column, struct cell *cell,
                  char *reason)
{
    size_t from = *at + 1, to = from, start = from;
    for (;;) {
        char *quote = NULL;
        if (from < bytes)
            quote = memchr(line + from, '"', bytes - from);
        if (quote == NULL)
            return fail(reason,
                        "a quote is opened and not closed on this line: a row is one line; write "
                        "blanks for line ends within cells",
                        column);
        size_t length = (size_t)(quote - line) - from;
        memmove(line + to, line + from, length);
        to += length;
        from += length + 1;
        if (from < bytes && line[from] == '"') {
            line[to++] = '"';
            from++;
            continue;
        }
        break;
    }
    *cell = (struct cell){line + start, (uint32_t)(to - start)};
    *at = from;
    return 0;
}

/* The error for text behind the closing quote; many tools write \". */
static int after_quote(const char *line, size_t at, uint32_t column, char *reason)
{
    bool escaped = at >= 2 && line[at - 2] == '\\';
    return fail(reason,
                escaped
                    ? "text follows the closing quote: within a cell a quote is \"\", not \\\"; "
                      "sed 's/\\\\\"/\"\"/g' makes it so"
                    : "text follows the closing quote",
                column);
}

static int split_quoted(char delimiter, char *line, size_t bytes, struct cell *cell,
                        uint32_t *count, char *reason)
{
    size_t at = 0;
    for (uint32_t n = 0; n < CELLS_MAX; n++) {
        if (at < bytes && line[at] == '"') {
            int rc = quoted(line, bytes, &at, n, &cell[n], reason);
            if (rc != 0)
                return rc;
            if (at < bytes && line[at] != delimiter)
                return after_quote(line, at, n, reason);
        } else {
            char *stop = NULL;
            if (at < bytes)
                stop = memchr(line + at, delimiter, bytes - at);
            size_t end = bytes;
            if (stop != NULL)
                end = (size_t)(stop - line);
            cell[n] = (struct cell){line + at, (uint32_t)(end - at)};
            at = end;
        }
        if (at >= bytes) {
            *count = n + 1;
            return 0;
        }
        at++; /* an empty cell follows at the very end of the line */
    }
    return fail(reason, "more columns than are allowed; look at data.delimiter", CELLS_MAX);
}

static int csv_head(const struct features *f, char *line, size_t bytes, struct cell *cell,
                    uint32_t *count, char *reason)
{
    const char delimiter = f->delimiter;
    if (memchr(line, '"', bytes) != NULL)
        return split_quoted(delimiter, line, bytes, cell, count, reason);
    *count = format_split(delimiter, line, bytes, cell);

    if (*count <= CELLS_MAX)
        return 0;

    return fail(reason, "more columns than are allowed; look at data.delimiter", CELLS_MAX);
}

static int csv_line(const struct features *f, char *line, size_t bytes, struct cell *cell,
                    char *reason)
{
    uint32_t count;
    int rc = csv_head(f, line, bytes, cell, &count, reason);
    if (rc != 0 || count == f->columns)
        return rc;
    snprintf(reason, REASON_BYTES, "%u columns, not %u as %s", count, f->columns,
             f->header ? "in the header" : "on the first line or in data.columns");
    return SHOAL_E_DATA;
}

const struct format format_csv = {.line = csv_line, .head = csv_head, .named = true};
