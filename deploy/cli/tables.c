/* tables.c: `shoal tables`: the contents of the tables, the effect of another rule, the needs of a
 * log. */
#include "deploy/cli/child.h"
#include "deploy/cli/heat.h"
#include "deploy/cli/key.h"
#include "deploy/cli/reader.h"
#include "proto/base/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- as text --------------------------------------------------------------------------------- */

enum { BAR = 40 };

/* A line for each power of two that has rows. */
static void histogram_print(const char *what, const struct json *h)
{
    const struct json *cells = json_get(h, "cells");
    double most = cli_count(h, "zero");
    for (size_t i = 0; i < json_count(cells); i++)
        most = fmax(most, json_as_number(json_array_at(json_array_at(cells, i), 1), 0));
    if (most == 0)
        return;
    printf("  %s\n", what);
    for (size_t i = 0; i <= json_count(cells); i++) {
        const struct json *cell = i > 0 ? json_array_at(cells, i - 1) : NULL;
        double rows = i > 0 ? json_as_number(json_array_at(cell, 1), 0) : cli_count(h, "zero");
        char from[32] = "0";
        if (rows == 0)
            continue;
        if (i > 0)
            (void)snprintf(from, sizeof from, "%.4g",
                           ldexp(1, (int)json_as_int(json_array_at(cell, 0), 0)));
        printf("    %12s %14.0f  ", from, rows);
        for (int n = (int)(BAR * rows / most + 0.5); n > 0; n--)
            putchar('#');
        putchar('\n');
    }
}

static void fields_print(const struct json *census, const struct json *fields)
{
    const struct json *list = json_get(census, "fields");
    bool statistics = json_get_bool(census, "statistics", false),
         what_if = statistics && json_get(census, "what_if") != NULL;
    bool stored = cli_count(census, "tier.store") > 0;
    char bytes[32];
    printf(
        "  %-24s %14s %10s%s%s%s\n", "field", "rows", "bytes", text_if(stored, "   in the store"),
        text_if(statistics, "          shows         clicks"), text_if(what_if, "           kept"));
    for (size_t i = 0; i < json_count(list); i++) {
        const struct json *f = json_array_at(list, i);
        uint64_t number = (uint64_t)json_get_int(f, "field", 0);
        char name[96];
        (void)snprintf(name, sizeof name, "%" PRIu64 " %s", number, key_field_name(fields, number));
        printf("  %-24s %14.0f %10s", name, cli_count(f, "rows"),
               cli_size_text(cli_count(f, "bytes"), bytes));
        if (stored)
            printf(" %14.0f", cli_count(f, "stored"));
        if (statistics)
            printf(" %14.0f %14.0f", cli_count(f, "shows"), cli_count(f, "clicks"));
        if (what_if)
            printf(" %14.0f", cli_count(f, "kept"));
        putchar('\n');
    }
}

static void census_print(const struct json *census, const struct json *fields)
{
    const struct json *what_if = json_get(census, "what_if"), *tier = json_get(census, "tier"),
                      *named = json_get(census, "named");
    char bytes[32], memory[32];
    printf("%s (%s): %.0f rows of %.0f bytes: %s; in memory %s\n",
           json_get_string(census, "table", "?"), json_get_string(census, "values", "fp32"),
           cli_count(census, "rows"), cli_count(census, "row_bytes"),
           cli_size_text(cli_count(census, "bytes"), bytes),
           cli_size_text(cli_count(census, "memory_bytes"), memory));
    for (size_t i = 0; i < json_members(tier); i++)
        printf("  tier %-19s %14.0f %10s\n", json_member_name(tier, i),
               json_as_number(json_member_at(tier, i), 0),
               cli_size_text(json_as_number(json_member_at(tier, i), 0) *
                                 cli_count(census, "row_bytes"),
                             bytes));
    for (size_t i = 0; i < json_members(named); i++)
        if (json_as_number(json_member_at(named, i), 0) > 0)
            printf("  by name: %-15s %14.0f\n", json_member_name(named, i),
                   json_as_number(json_member_at(named, i), 0));
    if (cli_count(census, "rows") > 0)
        fields_print(census, fields);
    histogram_print("2-norm of the weights, from", json_get(census, "norms"));
    histogram_print("shows, from", json_get(census, "shows"));
    histogram_print("seconds since the last event, from", json_get(census, "ages"));
    if (cli_count(census, "ages.untold") > 0)
        printf("    %12s %14.0f\n", "not told", cli_count(census, "ages.untold"));
    if (what_if == NULL)
        return;
    printf("  kept: %.0f rows (%.1f %%), %s, in memory %s", cli_count(what_if, "rows"),
           cli_count(census, "rows") > 0
               ? 100 * cli_count(what_if, "rows") / cli_count(census, "rows")
               : 100,
           cli_size_text(cli_count(what_if, "bytes"), bytes),
           cli_size_text(cli_count(what_if, "memory_bytes"), memory));
    if (json_get(what_if, "capacity") != NULL)
        printf("; as evict.capacity: %.0f", cli_count(what_if, "capacity"));
    if (json_get(what_if, "shows_share") != NULL)
        printf("; %.1f %% of the shows", 100 * cli_count(what_if, "shows_share"));
    putchar('\n');
}

/* fields: from key_fields, or NULL. */
static void tables_print(const struct json *census, const struct json *fields)
{
    struct json *shown = json_printable(census), *named = json_printable(fields);
    census_print(shown, named);
    json_free(named);
    json_free(shown);
}

/* Keys by how often they appear, as counted and estimated for the whole log; the memory of their
 * rows. */
enum { THRESHOLDS = 5 };
static const char *const thresholds[THRESHOLDS] = {"1", "2", "3", "5", "10"};

struct sample_sum {
    double keys[2][THRESHOLDS], bytes[2][THRESHOLDS];
};

static double row_memory(const struct json *count, const char *table)
{
    const struct json *list = json_get(count, "tables");
    for (size_t i = 0; i < json_count(list); i++)
        if (strcmp(json_get_string(json_array_at(list, i), "name", ""), table) == 0)
            return cli_count(json_array_at(list, i), "row_memory_bytes");
    return 0;
}

static void sample_add(const struct json *field, double row, struct sample_sum *sum)
{
    char path[16];
    for (int k = 0; k < THRESHOLDS; k++)
        for (int whole = 0; whole < 2; whole++) {
            (void)snprintf(path, sizeof path, "%s.%s", whole ? "whole" : "kept", thresholds[k]);
            sum->keys[whole][k] += cli_count(field, path);
            sum->bytes[whole][k] += cli_count(field, path) * row;
        }
}

static void sample_fields(const struct json *count, const char *table, struct sample_sum *sum)
{
    const struct json *list = json_get(count, "fields");
    double row = row_memory(count, table);
    printf("  %-24s %12s %12s %12s %12s %12s  (table %s: a row takes %.0f bytes)\n", "field",
           "1 or more", "2", "3", "5", "10", table, row);
    for (size_t i = 0; i < json_count(list); i++) {
        const struct json *f = json_array_at(list, i);
        struct sample_sum one = {0};
        if (strcmp(json_get_string(f, "table", ""), table) != 0)
            continue;
        sample_add(f, row, &one);
        sample_add(f, row, sum);
        printf("  %-24s", json_get_string(f, "name", "?"));
        for (int k = 0; k < THRESHOLDS; k++)
            printf(" %12.0f", one.keys[0][k]);
        putchar('\n');
    }
}

/* Prints the result of `shoal-worker count`; each of its tables has row_memory_bytes. */
static void tables_print_sample(const struct json *found)
{
    struct json *count = json_printable(found);
    const struct json *list = json_get(count, "tables");
    struct sample_sum sum = {0};
    char bytes[32];
    printf("%.0f of %.0f rows of the log read, %.0f of them malformed; keys by how often they "
           "appear\n",
           cli_count(count, "sampled"), cli_count(count, "rows"), cli_count(count, "bad_lines"));
    for (size_t i = 0; i < json_count(list); i++)
        sample_fields(count, json_get_string(json_array_at(list, i), "name", "?"), &sum);
    for (int whole = 0; whole < 2; whole++) {
        printf("  %-24s", whole ? "all, the whole log" : "all, what was read");
        for (int k = 0; k < THRESHOLDS; k++)
            printf(" %12.0f", sum.keys[whole][k]);
        printf("\n  %-24s", "  in memory");
        for (int k = 0; k < THRESHOLDS; k++)
            printf(" %12s", cli_size_text(sum.bytes[whole][k], bytes));
        putchar('\n');
    }
    printf("  memory: a row's share of the index counted; admission by count k keeps the rows "
           "under k\n");
    json_free(count);
}

/* ---- a dry run ------------------------------------------------------------------------------- */

static int what_if_take(const struct string_list *rules, const struct table_schema *schema,
                        struct census_ask *ask, struct err *e)
{
    static const struct config_key spec[] = {
        {"shows", CONFIG_FLOAT, 0, 1e9, NULL, .fallback = "0"},
        {"score", CONFIG_FLOAT, 0, 1e9, NULL, .fallback = "0"},
        {"ttl", CONFIG_FLOAT, 1.0 / 86400, 36500, NULL, .fallback = "0"},
        {"memory", CONFIG_SIZE, 1, 9e18, NULL, .fallback = "0"},
        {0}};
    struct config *c;
    uint32_t floats = schema_row_floats(schema);
    int rc = config_parse("{}", 2, "--what-if", rules, spec, &c, e);
    if (rc != 0)
        return err_wrap(e, rc, "--what-if");
    ask->what_if = true;
    ask->shows = (float)config_float(c, "shows");
    ask->score = (float)config_float(c, "score");
    ask->ttl = (uint32_t)(config_float(c, "ttl") * 86400 + 0.5);
    ask->rows = (uint64_t)((double)config_size(c, "memory") / census_row_memory(floats));
    if (config_has(c, "memory") && ask->rows >> schema->tablet_bits == 0)
        rc = err_set(e, SHOAL_E_USAGE,
                     "memory=%" PRIu64
                     " is less than a row of %.0f bytes for each of the %u tablets of table %s",
                     config_size(c, "memory"), census_row_memory(floats), 1u << schema->tablet_bits,
                     schema->name);
    config_free(c);
    return rc;
}

static int table_tell(struct reader *c, uint32_t table, const struct string_list *rules,
                      const struct json *fields, struct json *list, struct err *e)
{
    struct census_ask ask = {0};
    struct census *sum;
    int rc = 0;
    if (rules->count > 0)
        rc = what_if_take(rules, reader_schema(c, table), &ask, e);
    if (rc == 0)
        rc = reader_census(c, table, &ask, &sum, e);
    if (rc != 0)
        return rc;
    struct json *j = census_json(sum);
    census_free(sum);
    if (list == NULL) {
        tables_print(j, reader_schema(c, table)->dense ? NULL : fields);
        json_free(j);
    } else {
        (void)json_append(list, j);
    }
    return 0;
}

void cli_share_print(const struct json *space)
{
    char bytes[32], share[32];
    if (json_get(space, "memory_share") == NULL)
        return;
    printf("; %.0f rows", cli_count(space, "rows"));
    if (cli_count(space, "rows_store") > 0)
        printf(" (%.0f in the store)", cli_count(space, "rows_store"));
    printf(", %s in memory, its share is %s%s",
           cli_size_text(cli_count(space, "memory_bytes"), bytes),
           cli_size_text(cli_count(space, "memory_share"), share),
           text_if(cli_count(space, "held") > 0, ", to which it is held"));
}

static void space_print(const struct json *space)
{
    const struct json *tables = json_get(space, "tables");
    printf("%-24s ", text_unless_empty(json_get_string(space, "space", ""), "(not known)"));
    for (size_t i = 0; i < json_count(tables); i++)
        printf("%s%s", text_if(i > 0, ", "), json_as_string(json_array_at(tables, i), "?"));
    if (json_get(space, "job") != NULL)
        printf("; made by job %s, number %" PRId64, json_get_string(space, "job", "?"),
               json_get_int(space, "number", 0));
    cli_share_print(space);
    const char *state = json_get_string(space, "state", "");
    printf("%s%s\n", text_if(strcmp(state, "lost") == 0, "; rows are lost"),
           text_if(strcmp(state, "half") == 0, "; half dropped: drop it once more"));
}

/* Lists the spaces of a fleet that has several. *several: it has. */
static int spaces_tell(const struct option_line *o, bool *several, struct err *e)
{
    struct reader *c;
    struct json *status = NULL;
    int rc = reader_open_live(o, &c, e);
    if (rc == 0)
        rc = reader_status(c, &status, e);
    const struct json *list = json_get(status, "spaces");
    *several = rc == 0 && json_count(list) > 1;
    if (*several && option_given(o, "json")) {
        cli_json_print(list);
    } else if (*several) {
        struct json *shown = json_printable(list);
        printf("%zu spaces; --space NAME shows the tables of one\n", json_count(shown));
        for (size_t i = 0; i < json_count(shown); i++)
            space_print(json_array_at(shown, i));
        json_free(shown);
    }
    json_free(status);
    if (rc == 0)
        reader_close(c);
    return rc;
}

static int tables(struct option_line *o, struct err *e)
{
    struct key_place place = {.job = NULL};
    bool several = false;
    const char *name = o->word[0];
    const struct string_list *rules = option_list(o, "what-if");
    struct reader *c = NULL;
    uint32_t only = UINT32_MAX;
    bool heat = option_given(o, "heat");
    if (rules->count > 0 && heat)
        return err_set(e, SHOAL_E_USAGE, "--heat and --what-if do not go together");
    if (rules->count > 0 && name == NULL)
        return err_set(e, SHOAL_E_USAGE, "--what-if is for one table: name it");
    bool all = name == NULL && !heat && rules->count == 0 && !option_given(o, "space") &&
               reader_folder(o) == NULL;
    int rc = 0;
    if (all)
        rc = spaces_tell(o, &several, e);
    if (rc == 0 && several)
        return 0;
    if (rc == 0)
        rc = reader_open(o, &c, e);
    if (rc == 0 && name != NULL)
        rc = reader_table(c, name, &only, e);
    if (heat) {
        if (rc == 0)
            rc = heat_tell(c, only, option_given(o, "json"), e);
        reader_close(c);
        return rc;
    }
    struct json *list = NULL, *fields = NULL;
    if (option_given(o, "json"))
        list = json_new_array();
    if (rc == 0 && list == NULL && key_place_open(o, c, &place, NULL) == 0)
        fields = key_fields(&place);
    key_place_close(&place);
    for (uint32_t i = 0; rc == 0 && i < reader_tables(c); i++)
        if (name == NULL || i == only)
            rc = table_tell(c, i, rules, fields, list, e);
    if (rc == 0 && list != NULL)
        cli_json_print(list);
    json_free(list);
    json_free(fields);
    reader_close(c);
    return rc;
}

/* ---- a log ----------------------------------------------------------------------------------- */

static int sample(const struct option_line *o, struct err *e)
{
    const char *argv[] = {
        "shoal-worker",          "count", "--config", option_text(o, "sample"), "--share",
        option_text(o, "share"), NULL};
    struct json *j = NULL;
    char *text = NULL;
    size_t bytes = 0;
    int rc = child_output(argv, &text, &bytes, e);
    if (rc == 0)
        rc = json_parse(text, bytes, &j, e);
    free(text);
    if (rc != 0)
        return rc;
    for (size_t i = 0; i < json_count(json_get(j, "tables")); i++) {
        struct json *table = json_array_at(json_get(j, "tables"), i);
        uint32_t floats = (uint32_t)json_get_int(table, "row_floats", 0);
        (void)json_set_number(table, "row_memory_bytes", census_row_memory(floats));
    }
    if (option_given(o, "json"))
        cli_json_print(j);
    else
        tables_print_sample(j);
    json_free(j);
    return 0;
}

int cli_tables(struct option_line *o, struct err *e)
{
    if (!option_given(o, "sample"))
        return tables(o, e);
    if (o->words > 0 || option_given(o, "what-if") || option_given(o, "heat"))
        return err_set(
            e, SHOAL_E_USAGE,
            "--sample looks at a log, not at a table: leave the table, --what-if and --heat out");
    return sample(o, e);
}
