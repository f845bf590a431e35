/* report_input.c: prints a job's input: its fields, and the values without a row. */
#include "deploy/cli/cli.h"
#include "proto/base/minmax.h"
#include "proto/base/text.h"
#include "proto/metric/unseen.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { FIELDS_SHOWN = 48 };

/* "0.52 to 99" for a numeric field. */
static void span_text(const struct json *field, char out[64])
{
    double least = cli_number(field, "least"), most = cli_number(field, "most");
    out[0] = '\0';
    if (isfinite(least) && isfinite(most))
        (void)snprintf(out, 64, "%.5g to %.5g", least, most);
}

/* "12 %", or "" for 0. */
static const char *percent_text(double share, char out[16])
{
    out[0] = '\0';
    if (share > 0)
        (void)snprintf(out, 16, "%.*f %%", share < 0.1 ? 1 : 0, 100 * share);
    return out;
}

static void examples_text(const struct json *field, char *out, size_t bytes)
{
    const struct json *list = json_get(field, "examples");
    out[0] = '\0';
    for (size_t i = 0; i < json_count(list) && i < 3; i++) {
        size_t at = strlen(out);
        (void)snprintf(out + at, bytes - at, "%s%.30s", text_if(i > 0, ", "),
                       json_as_string(json_array_at(list, i), ""));
    }
}

static bool is_number(const struct json *field)
{
    return strcmp(json_get_string(field, "kind", ""), "number") == 0;
}

static void field_text(const struct json *field, char *out, size_t bytes)
{
    char span[64], empty[16], examples[128], values[32];
    span_text(field, span);
    examples_text(field, examples, sizeof examples);
    percent_text(cli_number(field, "empty"), empty);
    (void)snprintf(values, sizeof values, "%.0f values", cli_number(field, "values"));
    (void)snprintf(out, bytes, "  %-20.63s %-10.16s %-15s%s%s%s%s  %s",
                   json_get_string(field, "name", "?"), json_get_string(field, "kind", "?"), values,
                   text_if(span[0] != '\0', ", "), span, text_if(empty[0] != '\0', ", empty: "),
                   empty, examples);
    if (empty[0] != '\0' && is_number(field)) {
        size_t at = strlen(out);
        (void)snprintf(out + at, bytes - at, "  (an empty cell is 0)");
    }
}

static bool line_text(const struct json *input, size_t line, char *out, size_t bytes)
{
    const struct json *fields = json_get(input, "fields"), *notes = json_get(input, "notes");
    size_t count = json_count(fields), shown = MIN(count, FIELDS_SHOWN);
    if (line == 0) {
        char over[48] = "";
        if (json_get_number(input, "over_lines", 0) > 0)
            (void)snprintf(over, sizeof over, ", %.0f of them over several lines",
                           cli_number(input, "over_lines"));
        (void)snprintf(out, bytes, "data.train: %zu fields and numbers, by %s%.0f rows%s", count,
                       json_get_bool(input, "whole", false) ? "its " : "a sample of ",
                       cli_number(input, "rows"), over);
        return count > 0;
    }
    line--;
    if (line < shown) {
        field_text(json_array_at(fields, line), out, bytes);
        return true;
    }
    line -= shown;
    if (count > shown && line-- == 0) {
        (void)snprintf(out, bytes, "  and %zu more: `input` of report.json", count - shown);
        return true;
    }
    if (line >= json_count(notes))
        return false;
    (void)snprintf(out, bytes, "note: %s", json_as_string(json_array_at(notes, line), "?"));
    return true;
}

/* Names and values come from a file. */
bool cli_input_line(const struct json *input, size_t line, char *out, size_t bytes)
{
    if (!line_text(input, line, out, bytes))
        return false;
    text_clean(out);
    return true;
}

void cli_unseen_print(const struct json *of, const char *name)
{
    char text[1024];
    unseen_text(json_get(of, "unseen"), text, sizeof text);
    if (text[0] != '\0')
        printf("    values without a row, %s: %s\n", name, text);
}

void cli_unseen_say(const struct json *list, const char *where)
{
    char text[1024];
    unseen_text(list, text, sizeof text);
    if (text[0] == '\0')
        return;
    fprintf(stderr, "values without a row: %s\n", text);
    unseen_note(list, where, text, sizeof text);
    if (text[0] != '\0')
        fprintf(stderr, "note: %s\n", text);
}
