/* bad_lines.c: places of malformed lines by file and number, and the message that ends a job. */
#include "proto/job/bad_lines.h"
#include "proto/base/minmax.h"
#include "proto/base/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* The length of the file's name before the first ":number: ". Without one, *line is 0 and the
 * length is the whole text's. */
static size_t place_of(const char *where, uint64_t *line)
{
    *line = 0;
    for (const char *colon = strchr(where, ':'); colon != NULL; colon = strchr(colon + 1, ':')) {
        uint64_t number = 0;
        size_t digits = strspn(colon + 1, "0123456789");
        for (size_t i = 1; i <= digits && digits < 19; i++)
            number = number * 10 + (uint64_t)(colon[i] - '0');
        if (digits > 0 && digits < 19 && strncmp(colon + 1 + digits, ": ", 2) == 0) {
            *line = number;
            return (size_t)(colon - where);
        }
    }
    return strlen(where);
}

bool bad_lines_before(const char *a, const char *b)
{
    uint64_t a_line, b_line;
    size_t a_name = place_of(a, &a_line), b_name = place_of(b, &b_line);
    int order = memcmp(a, b, MIN(a_name, b_name));
    if (order != 0)
        return order < 0;
    if (a_name != b_name)
        return a_name < b_name;
    return a_line < b_line;
}

void bad_lines_least(char *least, size_t bytes, const char *where)
{
    if (where[0] != '\0' && (least[0] == '\0' || bad_lines_before(where, least)))
        text_copy(least, bytes, where);
}

int bad_lines_refuse(struct err *e, const char *what, uint64_t bad, uint64_t lines, double limit,
                     const char *where)
{
    return err_set(
        e, SHOAL_E_DATA,
        "%s%" PRIu64 " of %" PRIu64
        " lines (%.4g %%) are malformed, data.max_bad allows %.4g %%; the first seen: %s",
        what, bad, lines, 100 * (double)bad / (double)lines, 100 * limit,
        text_unless_empty(where, "(not named)"));
}
