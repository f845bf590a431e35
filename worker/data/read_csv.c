/* read_csv.c: cells between delimiters, quoted as in RFC 4180. A quoted cell may hold delimiters
 * and line ends (framing.h says which lines are one row). */
#include "worker/data/feature.h"
#include "worker/data/quotes.h"

#include <stdio.h>
#include <string.h>

static int fail(char *reason, const char *what, uint32_t column)
{
    snprintf(reason, REASON_BYTES, "column %u: %s", column + 1, what);
    return SHOAL_E_DATA;
}

static int too_many(char *reason)
{
    return fail(reason, "more columns than are allowed; look at data.delimiter", CELLS_MAX);
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
                        "a quote is opened and not closed, on this line or on later ones that make "
                        "a whole row; a quote within a cell is \"\"",
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

/* The next delimiter from `at` on; the line's end if there is none. */
static size_t next_delimiter(const char *delimiter, size_t long_by, const char *line, size_t bytes,
                             size_t at)
{
    const char *stop = NULL;
    if (at < bytes)
        stop = memmem(line + at, bytes - at, delimiter, long_by);
    return stop != NULL ? (size_t)(stop - line) : bytes;
}

/* Cuts any line, byte by byte. */
static int split_slowly(const char *delimiter, char *line, size_t bytes, struct cell *cell,
                        uint32_t *count, char *reason)
{
    size_t at = 0, long_by = strlen(delimiter);
    for (uint32_t n = 0; n < CELLS_MAX; n++) {
        if (at < bytes && line[at] == '"') {
            int rc = quoted(line, bytes, &at, n, &cell[n], reason);
            if (rc != 0)
                return rc;
            if (at < bytes && (bytes - at < long_by || memcmp(line + at, delimiter, long_by) != 0))
                return after_quote(line, at, n, reason);
        } else {
            size_t end = next_delimiter(delimiter, long_by, line, bytes, at);
            cell[n] = (struct cell){line + at, (uint32_t)(end - at)};
            at = end;
        }
        if (at >= bytes) {
            *count = n + 1;
            return 0;
        }
        at += long_by; /* an empty cell follows at the very end of the line */
    }
    return too_many(reason);
}

static int csv_head(const struct features *f, char *line, size_t bytes, struct cell *cell,
                    uint32_t *count, char *reason)
{
    const char *delimiter = f->delimiter;
    bool quotes = memchr(line, '"', bytes) != NULL, one = delimiter[1] == '\0';
    if (!one || (quotes && !quotes_split(delimiter[0], line, bytes, cell, count)))
        return split_slowly(delimiter, line, bytes, cell, count, reason);
    if (!quotes)
        *count = format_split(delimiter[0], line, bytes, cell);

    if (*count <= CELLS_MAX)
        return 0;

    return too_many(reason);
}

/* The line ends in a column too many or too few; an empty one at the end is a delimiter too
 * many. */
static int ragged(const struct features *f, const struct cell *cell, uint32_t count, char *reason)
{
    bool empty = count == f->columns + 1 && count <= CELLS_MAX && cell[count - 1].bytes == 0;
    snprintf(reason, REASON_BYTES, "%u columns, not %u as %s%s", count, f->columns,
             f->header ? "in the header" : "on the first line or in data.columns",
             empty ? ": the line ends in a delimiter, take it off" : "");
    return SHOAL_E_DATA;
}

static int csv_line(const struct features *f, char *line, size_t bytes, struct cell *cell,
                    char *reason)
{
    uint32_t count;
    int rc = csv_head(f, line, bytes, cell, &count, reason);
    if (rc != 0 || count == f->columns)
        return rc;
    return ragged(f, cell, count, reason);
}

const struct format format_csv = {
    .line = csv_line, .head = csv_head, .named = true, .framing = FRAMING_CSV};
