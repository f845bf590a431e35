/* bad_cell.c: messages about malformed cells. The words for a missing value are those that pandas,
 * R, SQL and MySQL write. */
#include "worker/data/bad_cell.h"
#include "proto/base/minmax.h"

#include <stdio.h>
#include <string.h>

int bad_cell(const struct features *f, const char *what, uint32_t column, const struct cell *cell,
             const char *remedy, char *reason)
{
    const struct cell *name = &f->name[column];
    char shown[49];
    uint32_t n;
    if (cell->bytes < sizeof shown - 1)
        n = cell->bytes;
    else
        n = (uint32_t)sizeof shown - 1;
    for (uint32_t i = 0; i < n; i++) /* a log line is no place for control characters */
        shown[i] = cell->text[i] >= ' ' && cell->text[i] < 127 ? cell->text[i] : '?';
    shown[n] = '\0';
    snprintf(reason, REASON_BYTES, "%s: column \"%.*s\" has \"%s\"%s%s%s", what,
             (int)MIN(name->bytes, 40), name->text, shown, n < cell->bytes ? ".." : "",
             remedy[0] != '\0' ? "; " : "", remedy);
    return SHOAL_E_DATA;
}

static bool is_missing(const struct cell *cell)
{
    static const char *const words[] = {"NA",   "N/A",  "na",  "nan", "NaN", "NAN", "null", "NULL",
                                        "None", "none", "\\N", "?",   "-",   ".",   " "};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strlen(words[i]) == cell->bytes && memcmp(words[i], cell->text, cell->bytes) == 0)
            return true;
    return false;
}

/* True for digits, one comma, digits. */
static bool has_decimal_comma(const struct cell *cell)
{
    uint32_t commas = 0;
    for (uint32_t i = 0; i < cell->bytes; i++) {
        char c = cell->text[i];
        if (c != ',' && (c < '0' || c > '9') && (i > 0 || c != '-'))
            return false;
        commas += c == ',';
    }
    return commas == 1 && cell->bytes > 1;
}

const char *bad_cell_number_remedy(const struct cell *cell)
{
    if (is_missing(cell))
        return "name the word in data.missing: it is an empty cell then";

    if (has_decimal_comma(cell))
        return "data.decimal: comma reads it";

    return "";
}

const char *bad_cell_label_remedy(const struct cell *cell, uint32_t tasks, bool real)
{
    bool missing = cell->bytes == 0 || is_missing(cell);
    if (missing && tasks > 1)
        return "name the word in data.missing: the line then lacks this label alone";

    if (missing)
        return "take lines without a label out";

    if (real)
        return bad_cell_number_remedy(cell);

    return "write it as 0 or 1, or name the words that are 1 in data.label_positive";
}
