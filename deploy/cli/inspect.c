/* inspect.c: `shoal inspect`: one row. */
#include "deploy/cli/cluster.h"
#include "deploy/cli/key.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char inspect_help[] =
    "usage: shoal inspect TABLE KEY [options]\n"
    "       shoal inspect TABLE --field NAME --value TEXT [options]\n"
    "\n"
    "One row: weights, optimizer state, statistics, tablet, shard, tier. KEY is a row's key (0x... "
    "or decimal), or\n"
    "FIELD:VALUE. A field is named as its column is (Criteo: C1 to C26), or by its number: "
    "categorical fields count from\n"
    "0, in the order of features.fields or of the columns. A value stands as it does in the "
    "input.\n"
    "\n"
    "  --field NAME, --value TEXT   instead of KEY\n"
    "  --job JOB.yaml    where names of fields come from (job.yaml of the run folder)\n"
    "  --coordinator EP  endpoint of a running cluster's coordinator, such as "
    "tcp://127.0.0.1:7000\n"
    "  --run-dir DIR     run folder of `shoal local`, running or ended\n"
    "  --json            JSON instead of text\n";

enum { FIELD, VALUE, JOB, COORDINATOR, RUN_DIR, JSON, HELP, COUNT };

static void floats_print(const char *name, const struct json *list)
{
    size_t n = json_count(list);
    for (size_t i = 0; i < n; i++) {
        if (i % 8 == 0)
            printf(i == 0 ? "  %-9s" : "  %9s", i == 0 ? name : "");
        printf(" %12.6g%s", json_as_number(json_array_at(list, i), 0),
               i % 8 == 7 || i + 1 == n ? "\n" : "");
    }
}

static void stats_print(const struct json *s)
{
    time_t at = (time_t)json_as_int(json_get(s, "time"), 0);
    char when[32] = "never told";
    if (at != 0)
        (void)strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S UTC", gmtime(&at));
    printf("  stats     shows %g, clicks %g, score %g (%g since last published), last event %s, "
           "vector %s\n",
           json_as_number(json_get(s, "show"), 0), json_as_number(json_get(s, "click"), 0),
           json_as_number(json_get(s, "score"), 0), json_as_number(json_get(s, "delta_score"), 0),
           when, json_as_bool(json_get(s, "has_vector"), true) ? "begun" : "not yet");
}

static void row_print(const struct json *row, const struct json *fields)
{
    int64_t field = json_as_int(json_get(row, "field"), 0);
    const char *name = key_field_name(fields, (uint64_t)field);
    printf("%s %s: field %" PRId64 "%s%s%s, tablet %" PRId64 ", shard %s, in %s\n",
           json_as_string(json_get(row, "table"), "?"), json_as_string(json_get(row, "key"), "?"),
           field, name[0] != 0 ? " (" : "", name, name[0] != 0 ? ")" : "",
           json_as_int(json_get(row, "tablet"), 0), json_as_string(json_get(row, "shard"), "?"),
           json_as_string(json_get(row, "tier"), "?"));
    floats_print("weights", json_get(row, "weights"));
    floats_print("state", json_get(row, "state"));
    if (json_get(row, "stats") != NULL)
        stats_print(json_get(row, "stats"));
}

/* Why there is none: never seen, or still waiting for admission. */
static int none(const struct json *row, const char *table, uint64_t key, struct err *e)
{
    const struct json *waiting = json_get(row, "waiting");
    uint32_t field = (uint32_t)(key >> 48);
    if (!json_absent(json_get(row, "named")))
        return err_set(e, SHOAL_E_NOT_FOUND,
                       "table %s has no row with key 0x%016" PRIx64 ": the key is %s by name",
                       table, key, json_as_string(json_get(row, "named"), "?"));
    if (!json_absent(waiting) && json_as_number(waiting, 0) > 0)
        return err_set(e, SHOAL_E_NOT_FOUND,
                       "table %s has no row with key 0x%016" PRIx64
                       " yet: it waits for admission with %g "
                       "appearances",
                       table, key, json_as_number(waiting, 0));
    return err_set(e, SHOAL_E_NOT_FOUND,
                   "table %s has no row with key 0x%016" PRIx64
                   ": no training example had that value in "
                   "field %u (fields "
                   "count from 0), or the row was not admitted or went",
                   table, key, field);
}

static int inspect(const char *const *words, int count, const struct cli_option *o, struct err *e)
{
    struct key_place place = {o[JOB].value, o[RUN_DIR].value};
    struct json *row = NULL, *fields = NULL;
    struct cluster *c = NULL;
    bool found = false;
    uint32_t table = 0;
    uint64_t key = 0;
    if (count < 1)
        return err_set(e, SHOAL_E_USAGE, "name a table and a key; see `shoal inspect --help`");
    int rc = key_take(&place, count > 1 ? words[1] : NULL, o[FIELD].value, o[VALUE].value, &key, e);
    if (rc == 0)
        rc = cluster_open(o[COORDINATOR].value, o[RUN_DIR].value, &c, e);
    if (rc == 0)
        rc = cluster_table(c, words[0], &table, e);
    if (rc == 0)
        rc = cluster_inspect(c, table, key, &found, &row, e);
    if (rc == 0 && !found)
        rc = none(row, words[0], key, e);
    if (rc == 0 && o[JSON].value != NULL) {
        cli_json_print(row);
    } else if (rc == 0) {
        fields = key_fields(&place);
        row_print(row, fields);
    }
    json_free(fields);
    json_free(row);
    if (c != NULL)
        cluster_close(c);
    return rc;
}

int cli_inspect(int argc, char **argv)
{
    struct cli_option options[COUNT + 1] = {[FIELD] = {"--field", false, NULL, NULL},
                                            [VALUE] = {"--value", false, NULL, NULL},
                                            [JOB] = {"--job", false, NULL, NULL},
                                            [COORDINATOR] = {"--coordinator", false, NULL, NULL},
                                            [RUN_DIR] = {"--run-dir", false, NULL, NULL},
                                            [JSON] = {"--json", true, NULL, NULL},
                                            [HELP] = {"--help", true, NULL, NULL}};
    const char *words[2];
    struct err e = {0};
    int count, rc = cli_parse(argc, argv, options, words, 2, &count, &e);
    if (rc == 0 && options[HELP].value != NULL) {
        fputs(inspect_help, stdout);
        return 0;
    }
    if (rc == 0)
        rc = inspect(words, count, options, &e);
    return rc == 0 ? 0 : cli_fail("inspect", &e);
}
