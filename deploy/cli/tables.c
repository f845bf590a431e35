/* tables.c: `shoal tables`: what is in the tables, what another rule would keep, what a log will
 * need. */
#include "deploy/cli/tables.h"
#include "deploy/cli/child.h"
#include "deploy/cli/cluster.h"
#include "deploy/cli/key.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static int table_tell(struct cluster *c, uint32_t table, const struct string_list *rules,
                      const struct json *fields, struct json *list, struct err *e)
{
    struct census_ask ask = {0};
    struct census *sum;
    int rc = rules->count > 0 ? what_if_take(rules, cluster_schema(c, table), &ask, e) : 0;
    if (rc == 0)
        rc = cluster_census(c, table, &ask, &sum, e);
    if (rc != 0)
        return rc;
    struct json *j = census_json(sum);
    census_free(sum);
    if (list == NULL) {
        tables_print(j, cluster_schema(c, table)->dense ? NULL : fields);
        json_free(j);
    } else {
        (void)json_append(list, j);
    }
    return 0;
}

static int tables(struct option_line *o, struct err *e)
{
    struct key_place place = key_place(o);
    const char *name = o->words > 0 ? o->word[0] : NULL;
    const struct string_list *rules = option_list(o, "what-if");
    struct cluster *c = NULL;
    uint32_t only = UINT32_MAX;
    if (rules->count > 0 && name == NULL)
        return err_set(e, SHOAL_E_USAGE, "--what-if is for one table: name it");
    int rc = cluster_open_option(o, &c, e);
    if (rc == 0 && name != NULL)
        rc = cluster_table(c, name, &only, e);
    struct json *list = option_given(o, "json") ? json_new_array() : NULL;
    struct json *fields = rc == 0 && list == NULL ? key_fields(&place) : NULL;
    for (uint32_t i = 0; rc == 0 && i < cluster_tables(c); i++)
        if (name == NULL || i == only)
            rc = table_tell(c, i, rules, fields, list, e);
    if (rc == 0 && list != NULL)
        cli_json_print(list);
    json_free(list);
    json_free(fields);
    cluster_close(c);
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
    int rc = child_output(argv, false, &text, &bytes, e);
    if (rc == 0)
        rc = json_parse(text, bytes, &j, e);
    free(text);
    if (rc != 0)
        return rc;
    for (size_t i = 0; i < json_count(json_get(j, "tables")); i++) {
        struct json *table = json_array_at(json_get(j, "tables"), i);
        uint32_t floats = (uint32_t)json_as_int(json_get(table, "row_floats"), 0);
        (void)json_set_number(table, "row_memory_bytes", census_row_memory(floats));
    }
    if (option_given(o, "json"))
        cli_json_print(j);
    else
        tables_print_sample(j);
    json_free(j);
    return 0;
}

int cli_tables(int argc, char **argv)
{
    struct option_line o;
    struct err e = {0};
    int rc = cli_options("shoal tables", argc, argv, &o, &e);
    if (rc == 0 && option_given(&o, "sample"))
        rc = o.words > 0 || option_given(&o, "what-if")
                 ? err_set(
                       &e, SHOAL_E_USAGE,
                       "--sample looks at a log, not at a table: leave the table and --what-if out")
                 : sample(&o, &e);
    else if (rc == 0)
        rc = tables(&o, &e);
    return cli_end(rc, &o, &e);
}
