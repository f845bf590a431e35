/* report_job.c: prints the job of a report: its data, settings, fields, when and where it ran. */
#include "deploy/cli/cli.h"
#include "proto/base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { FIELDS_NAMED = 40, FACT = 4096 };

static void add(char out[FACT], const char *format, ...) __attribute__((format(printf, 2, 3)));

static void add(char out[FACT], const char *format, ...)
{
    size_t at = strlen(out);
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(out + at, FACT - at, format, arguments);
    va_end(arguments);
}

static const char *word(const struct json *r, const char *path)
{
    return json_get_string(r, path, NULL);
}

/* ---- facts, each a text; empty: the report does not say -------------------------------------- */

static void data_fact(const struct json *r, char out[FACT])
{
    static const char *const split[] = {"train", "valid", "test"};
    for (int i = 0; i < 3; i++) {
        const struct json *list = json_get(json_get(r, "data"), split[i]);
        for (size_t k = 0; k < json_count(list); k++)
            if (k > 0)
                add(out, ", %s", json_as_string(json_array_at(list, k), "?"));
            else
                add(out, "%s%s %s", text_if(out[0] != 0, "; "), split[i],
                    json_as_string(json_array_at(list, k), "?"));
    }
    if (out[0] != 0 && word(r, "data.format") != NULL)
        add(out, " (%s)", word(r, "data.format"));
}

static void settings_fact(const struct json *r, char out[FACT])
{
    const struct json *tables = json_get(r, "tables");
    if (json_absent(json_get(r, "batch")))
        return;
    add(out, "batch %.0f", cli_number(r, "batch"));
    if (cli_number(r, "window") > 1)
        add(out, " in windows of %.0f", cli_number(r, "window"));
    for (size_t i = 0; i < json_count(tables); i++) {
        const struct json *t = json_array_at(tables, i);
        const char *name = json_get_string(t, "name", "?");
        if (json_absent(json_get(t, "lr")) || strcmp(name, "dense_stats") == 0)
            continue;
        add(out, "; %s: %s %.7g", name, json_get_string(t, "optimizer", "?"), cli_number(t, "lr"));
        if (strcmp(name, "dense") != 0)
            add(out, ", dim %.0f", cli_number(t, "dim"));
    }
}

static void fields_fact(const struct json *r, char out[FACT])
{
    const struct json *fields = json_get(r, "input.fields");
    size_t count = json_count(fields);
    if (count == 0)
        return;
    add(out, "%zu: ", count);
    for (size_t i = 0; i < count && i < FIELDS_NAMED; i++)
        add(out, "%s%.64s", text_if(i > 0, ", "),
            json_get_string(json_array_at(fields, i), "name", "?"));
    if (count > FIELDS_NAMED)
        add(out, ", ..");
}

static void ran_fact(const struct json *r, char out[FACT])
{
    if (word(r, "began") != NULL)
        add(out, "%s to %s", word(r, "began"), json_get_string(r, "ended", "?"));
    if (word(r, "place") != NULL)
        add(out, "%s%s", text_if(out[0] != 0, ", "), word(r, "place"));
}

static const struct {
    const char *name;
    void (*make)(const struct json *r, char out[FACT]);
} facts[] = {
    {"data", data_fact}, {"settings", settings_fact}, {"fields", fields_fact}, {"ran", ran_fact}};

void cli_report_job_print(const struct json *r)
{
    char text[FACT];
    for (size_t i = 0; i < sizeof facts / sizeof facts[0]; i++) {
        text[0] = 0;
        facts[i].make(r, text);
        if (text[0] != 0)
            printf("  %-14s %s\n", facts[i].name, text);
    }
}
