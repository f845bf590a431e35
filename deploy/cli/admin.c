/* admin.c: `shoal status`, `shoal digest`, `shoal inspect`: looking without changing. */
#include "deploy/cli/cluster.h"
#include "proto/base/hash.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char where_help[] = "  --coordinator EP  endpoint of a running cluster's coordinator, such as tcp://127.0.0.1:7000\n"
                                 "  --run-dir DIR     run folder of `shoal local`, running or ended\n"
                                 "  --json            JSON instead of text\n";

enum { OPTION_COORDINATOR, OPTION_RUN_DIR, OPTION_JSON, OPTION_HELP, OPTION_COUNT };

/* The options all three share. 0; 1 when --help was answered; or an error. */
static int admin_open(int argc, char **argv, const char *usage, const char **words, int words_max, int *word_count, bool *as_json,
                      struct cluster **out, struct err *e)
{
    struct cli_option options[OPTION_COUNT + 1] = {
        {"--coordinator", false, NULL, NULL}, {"--run-dir", false, NULL, NULL}, {"--json", true, NULL, NULL}, {"--help", true, NULL, NULL}};
    int status = cli_parse(argc, argv, options, words, words_max, word_count, e);

    if (status != 0)
        return status;
    if (options[OPTION_HELP].value != NULL) {
        printf("%s\n%s", usage, where_help);
        return 1;
    }
    *as_json = options[OPTION_JSON].value != NULL;
    return cluster_open(options[OPTION_COORDINATOR].value, options[OPTION_RUN_DIR].value, out, e);
}

static void json_print(const struct json *j)
{
    char *text = json_text(j, 2);

    if (text != NULL)
        puts(text);
    free(text);
}

static void status_print(const struct json *s)
{
    const struct json *servers = json_get(s, "servers"), *lanes = json_get(s, "lanes");

    printf("job %s: %s, epoch %.0f, %.0f examples, %.0f a second\n", json_as_string(json_get(s, "job"), "(none)"),
           json_as_string(json_get(s, "state"), "?"), json_as_number(json_get(s, "epoch"), 0), json_as_number(json_get(s, "examples"), 0),
           json_as_number(json_get(s, "rate"), 0));
    for (size_t i = 0; i < json_count(servers); i++) {
        const struct json *v = json_array_at(servers, i);
        printf("  shard %-3.0f %-16s %-26s %12.0f rows  %s\n", json_as_number(json_get(v, "shard"), 0),
               json_as_string(json_get(v, "name"), "?"), json_as_string(json_get(v, "endpoint"), "?"), json_as_number(json_get(v, "rows"), 0),
               json_as_bool(json_get(v, "ready"), false) ? "ready" : "not ready");
    }
    for (size_t i = 0; i < json_count(lanes); i++) {
        const struct json *v = json_array_at(lanes, i);
        printf("  lane %-4.0f worker %-6.0f generation %-6.0f batch %.0f\n", json_as_number(json_get(v, "lane"), 0),
               json_as_number(json_get(v, "worker"), 0), json_as_number(json_get(v, "generation"), 0),
               json_as_number(json_get(v, "batch"), 0));
    }
}

int status_main(int argc, char **argv)
{
    struct cluster *c = NULL;
    struct json *j = NULL;
    struct err e = {0};
    bool as_json = false;
    int words, status = admin_open(argc, argv, "usage: shoal status [options]\n", NULL, 0, &words, &as_json, &c, &e);

    if (status == 1)
        return 0;
    if (status == 0 && !cluster_live(c))
        status = err_set(&e, SHOAL_E_UNAVAILABLE, "the cluster is not running; its outcome is in report.json of the run folder");
    if (status == 0)
        status = cluster_status(c, &j, &e);
    if (status == 0) {
        if (as_json)
            json_print(j);
        else
            status_print(j);
    }
    json_free(j);
    if (c != NULL)
        cluster_close(c);
    return status == 0 ? 0 : cli_fail("status", &e);
}

int digest_main(int argc, char **argv)
{
    struct cluster *c = NULL;
    struct err e = {0};
    const char *words[1];
    bool as_json = false;
    int count = 0;
    uint32_t only = 0;
    int status = admin_open(argc, argv,
                            "usage: shoal digest [TABLE] [options]\n\nRows and digest of each table: XXH3 over the tablets in order, each over its "
                            "rows (weights and\noptimizer state) sorted by key. Equal digests mean equal tables, bit for bit.\n",
                            words, 1, &count, &as_json, &c, &e);

    if (status == 1)
        return 0;
    if (status == 0 && count == 1)
        status = cluster_table(c, words[0], &only, &e);
    struct json *list = json_new_array();
    for (uint32_t i = 0; status == 0 && i < cluster_tables(c); i++) {
        uint64_t rows, digest;
        if (count == 1 && i != only)
            continue;
        status = cluster_digest(c, i, &rows, &digest, &e);
        if (status != 0)
            break;
        if (!as_json)
            printf("%-16s %12llu rows  0x%016llx\n", cluster_schema(c, i)->name, (unsigned long long)rows, (unsigned long long)digest);
        struct json *t = json_new_object();
        (void)json_set_string(t, "name", cluster_schema(c, i)->name);
        (void)json_set_int(t, "rows", (int64_t)rows);
        (void)json_set_hex(t, "digest", digest);
        (void)json_append(list, t);
    }
    if (status == 0 && as_json)
        json_print(list);
    json_free(list);
    if (c != NULL)
        cluster_close(c);
    return status == 0 ? 0 : cli_fail("digest", &e);
}

/* "0x1f" or "31" is a key; "FIELD:VALUE" a field's number and its raw value. */
static int key_parse(const char *text, uint64_t *key, struct err *e)
{
    char *end;
    unsigned long long x = strtoull(text, &end, 0);

    if (end != text && *end == 0) {
        *key = x;
        return 0;
    }
    if (end != text && *end == ':' && x < LIMIT_FIELDS) {
        *key = key_of_value((uint32_t)x, end + 1, strlen(end + 1));
        return 0;
    }
    return err_set(e, SHOAL_E_USAGE, "%s is neither a key (0x... or decimal) nor FIELD:VALUE (such as 3:68fd1e64)", text);
}

int inspect_main(int argc, char **argv)
{
    struct cluster *c = NULL;
    struct json *row = NULL;
    struct err e = {0};
    const char *words[2];
    bool as_json = false, found = false;
    int count = 0;
    uint32_t table = 0;
    uint64_t key = 0;
    int status = admin_open(argc, argv,
                            "usage: shoal inspect TABLE KEY [options]\n\nKEY is a row's key (0x... or decimal), or FIELD:VALUE: the field's number "
                            "and the value as it stands\nin the input. Prints weights, optimizer state, tablet and shard as JSON.\n",
                            words, 2, &count, &as_json, &c, &e);

    if (status == 1)
        return 0;
    if (status == 0 && count != 2)
        status = err_set(&e, SHOAL_E_USAGE, "name a table and a key; see `shoal inspect --help`");
    if (status == 0)
        status = key_parse(words[1], &key, &e);
    if (status == 0)
        status = cluster_table(c, words[0], &table, &e);
    if (status == 0)
        status = cluster_inspect(c, table, key, &found, &row, &e);
    if (status == 0 && !found)
        status = err_set(&e, SHOAL_E_NOT_FOUND, "table %s has no row with key 0x%016llx", words[0], (unsigned long long)key);
    if (status == 0)
        json_print(row);
    json_free(row);
    if (c != NULL)
        cluster_close(c);
    return status == 0 ? 0 : cli_fail("inspect", &e);
}
