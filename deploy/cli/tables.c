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

static const char tables_help[] =
    "usage: shoal tables [TABLE] [options]\n"
    "       shoal tables TABLE --what-if RULE=VALUE [--what-if ...] [options]\n"
    "       shoal tables --sample JOB.yaml [--share P] [--json]\n"
    "\n"
    "Rows and bytes by field and tier, histograms of weight norms, and, where rows have "
    "statistics, of shows and ages.\n"
    "\n"
    "  --what-if shows=N     what would be left if rows with fewer shows went: a dry run, nothing "
    "changes\n"
    "  --what-if score=S     rows with a lower score\n"
    "  --what-if ttl=DAYS    rows without an event for longer\n"
    "  --what-if memory=SIZE all but as many rows as fit SIZE (over all shards): the newest stay, "
    "or those of the highest\n"
    "                        score where the table's evict.by says so\n"
    "  --sample JOB.yaml     instead: reads the job's training input and tells how many rows it "
    "makes, by field, with\n"
    "                        admission by count 1, 2, 3, 5 and 10; no cluster is needed\n"
    "  --share P             of --sample: share of the input that is read, 0 to 1 (1); the whole "
    "log is reckoned from it\n"
    "  --job JOB.yaml        where names of fields come from (job.yaml of the run folder)\n"
    "  --coordinator EP      endpoint of a running cluster's coordinator, such as "
    "tcp://127.0.0.1:7000\n"
    "  --run-dir DIR         run folder of `shoal local`, running or ended\n"
    "  --json                JSON instead of text\n";

enum { WHAT_IF, SAMPLE, SHARE, JOB, COORDINATOR, RUN_DIR, JSON, HELP, COUNT };

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

static int tables(const char *name, const struct cli_option *o, const struct string_list *rules,
                  struct err *e)
{
    struct key_place place = {o[JOB].value, o[RUN_DIR].value};
    struct cluster *c = NULL;
    uint32_t only = UINT32_MAX;
    if (rules->count > 0 && name == NULL)
        return err_set(e, SHOAL_E_USAGE, "--what-if is for one table: name it");
    int rc = cluster_open(o[COORDINATOR].value, o[RUN_DIR].value, &c, e);
    if (rc == 0 && name != NULL)
        rc = cluster_table(c, name, &only, e);
    struct json *list = o[JSON].value != NULL ? json_new_array() : NULL;
    struct json *fields = rc == 0 && list == NULL ? key_fields(&place) : NULL;
    for (uint32_t i = 0; rc == 0 && i < cluster_tables(c); i++)
        if (name == NULL || i == only)
            rc = table_tell(c, i, rules, fields, list, e);
    if (rc == 0 && list != NULL)
        cli_json_print(list);
    json_free(list);
    json_free(fields);
    if (c != NULL)
        cluster_close(c);
    return rc;
}

/* ---- a log ----------------------------------------------------------------------------------- */

static int sample(const struct cli_option *o, struct err *e)
{
    const char *argv[] = {"shoal-worker", "count",        "--config", o[SAMPLE].value,
                          "--share",      o[SHARE].value, NULL};
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
    if (o[JSON].value != NULL)
        cli_json_print(j);
    else
        tables_print_sample(j);
    json_free(j);
    return 0;
}

int cli_tables(int argc, char **argv)
{
    struct string_list rules = {0};
    struct cli_option options[COUNT + 1] = {[WHAT_IF] = {"--what-if", false, NULL, &rules},
                                            [SAMPLE] = {"--sample", false, NULL, NULL},
                                            [SHARE] = {"--share", false, "1", NULL},
                                            [JOB] = {"--job", false, NULL, NULL},
                                            [COORDINATOR] = {"--coordinator", false, NULL, NULL},
                                            [RUN_DIR] = {"--run-dir", false, NULL, NULL},
                                            [JSON] = {"--json", true, NULL, NULL},
                                            [HELP] = {"--help", true, NULL, NULL}};
    const char *words[1] = {NULL};
    struct err e = {0};
    int count = 0, rc = cli_parse(argc, argv, options, words, 1, &count, &e);
    if (rc == 0 && options[HELP].value != NULL)
        fputs(tables_help, stdout);
    else if (rc == 0 && options[SAMPLE].value != NULL)
        rc = count > 0 || rules.count > 0
                 ? err_set(
                       &e, SHOAL_E_USAGE,
                       "--sample looks at a log, not at a table: leave the table and --what-if out")
                 : sample(options, &e);
    else if (rc == 0)
        rc = tables(count > 0 ? words[0] : NULL, options, &rules, &e);
    config_list_free(&rules);
    return rc == 0 ? 0 : cli_fail("tables", &e);
}
