/* admin.c: `shoal status`, `shoal digest`: looking without changing. */
#include "deploy/cli/cluster.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char where_help[] =
    "  --coordinator EP  endpoint of a running cluster's coordinator, such as "
    "tcp://127.0.0.1:7000\n"
    "  --run-dir DIR     run folder of `shoal local`, running or ended\n"
    "  --json            JSON instead of text\n";

enum { OPTION_COORDINATOR, OPTION_RUN_DIR, OPTION_JSON, OPTION_HELP, OPTION_COUNT };

struct admin { /* what both are told */
    const char *words[2], *coordinator, *run_dir;
    int count;
    bool as_json;
};

/* 0; 1 when --help was answered; or an error. */
static int admin_options(int argc, char **argv, const char *usage, int words_max, struct admin *a,
                         struct err *e)
{
    struct cli_option options[OPTION_COUNT + 1] = {{"--coordinator", false, NULL, NULL},
                                                   {"--run-dir", false, NULL, NULL},
                                                   {"--json", true, NULL, NULL},
                                                   {"--help", true, NULL, NULL}};
    int rc = cli_parse(argc, argv, options, a->words, words_max, &a->count, e);
    if (rc != 0)
        return rc;
    if (options[OPTION_HELP].value != NULL) {
        printf("%s\n%s", usage, where_help);
        return 1;
    }
    a->as_json = options[OPTION_JSON].value != NULL;
    a->coordinator = options[OPTION_COORDINATOR].value;
    a->run_dir = options[OPTION_RUN_DIR].value;
    return 0;
}

static const char *worker_name(const struct json *workers, int64_t number)
{
    for (size_t i = 0; number != 0 && i < json_count(workers); i++)
        if (json_as_int(json_get(json_array_at(workers, i), "worker"), -1) == number)
            return json_as_string(json_get(json_array_at(workers, i), "name"), "?");
    return "(nobody's)";
}

/* "12.3 MB", of a budget if there is one. */
static const char *taken_text(double bytes, double most, char out[64])
{
    if (most > 0)
        (void)snprintf(out, 64, "%.1f MB of %.1f", bytes * 1e-6, most * 1e-6);
    else
        (void)snprintf(out, 64, "%.1f MB", bytes * 1e-6);
    return out;
}

static void tiers_print(const struct json *v)
{
    char memory[64], disk[64];
    printf("            memory %s, disk %s%s\n",
           taken_text(json_as_number(json_get(v, "memory_bytes"), 0),
                      json_as_number(json_get(v, "memory_max"), 0), memory),
           taken_text(json_as_number(json_get(v, "disk_bytes"), 0),
                      json_as_number(json_get(v, "disk_max"), 0), disk),
           json_as_bool(json_get(v, "disk_short"), false) ? ": short, pushes are refused" : "");
    if (json_as_number(json_get(v, "rows_store"), 0) + json_as_number(json_get(v, "evicted"), 0) ==
        0)
        return;
    printf(
        "            rows in memory %.0f, in the store %.0f; fetched %.0f, evicted %.0f (%.0f "
        "clean); %.0f requests wait for rows or room\n",
        json_as_number(json_get(v, "rows_memory"), 0), json_as_number(json_get(v, "rows_store"), 0),
        json_as_number(json_get(v, "fetched"), 0), json_as_number(json_get(v, "evicted"), 0),
        json_as_number(json_get(v, "evicted_clean"), 0), json_as_number(json_get(v, "parked"), 0));
}

/* What it computes on, and why on that. */
static void worker_print(const struct json *v)
{
    const char *device = json_as_string(json_get(v, "device"), ""),
               *why = json_as_string(json_get(v, "why"), "");
    printf("  worker %-2.0f %-16s %-26s %12.0f examples  %s%s%s\n",
           json_as_number(json_get(v, "worker"), 0), json_as_string(json_get(v, "name"), "?"),
           json_as_string(json_get(v, "backend"), "?"), json_as_number(json_get(v, "examples"), 0),
           device, device[0] != 0 && why[0] != 0 ? "; " : "", why);
}

static void status_print(const struct json *s)
{
    const struct json *servers = json_get(s, "servers"), *lanes = json_get(s, "lanes"),
                      *workers = json_get(s, "workers");
    if (json_as_string(json_get(s, "job"), "")[0] == 0)
        puts("no job has been submitted yet");
    else
        printf("job %s: %s, epoch %.0f, %.0f examples, %.0f a second\n",
               json_as_string(json_get(s, "job"), ""), json_as_string(json_get(s, "state"), "?"),
               json_as_number(json_get(s, "epoch"), 0), json_as_number(json_get(s, "examples"), 0),
               json_as_number(json_get(s, "rate"), 0));
    if (!json_absent(json_get(s, "waiting")))
        printf("  %s\n", json_as_string(json_get(s, "waiting"), "?"));
    if (!json_absent(json_get(s, "publish")))
        printf("  checkpoint.publish of %s: %s\n",
               json_as_string(json_get(s, "publish.checkpoint"), "?"),
               json_as_string(json_get(s, "publish.state"), "?"));
    for (size_t i = 0; i < json_count(servers); i++) {
        const struct json *v = json_array_at(servers, i);
        printf("  shard %-3.0f %-16s %-26s %12.0f rows  %s\n",
               json_as_number(json_get(v, "shard"), 0), json_as_string(json_get(v, "name"), "?"),
               json_as_string(json_get(v, "endpoint"), "?"), json_as_number(json_get(v, "rows"), 0),
               json_as_bool(json_get(v, "ready"), false) ? "ready" : "not ready");
        tiers_print(v);
    }
    for (size_t i = 0; i < json_count(workers); i++)
        worker_print(json_array_at(workers, i));
    for (size_t i = 0; i < json_count(lanes); i++) {
        const struct json *v = json_array_at(lanes, i);
        printf("  lane  %-3.0f %-16s generation %-15.0f %12.0f batches done\n",
               json_as_number(json_get(v, "lane"), 0),
               worker_name(workers, json_as_int(json_get(v, "worker"), 0)),
               json_as_number(json_get(v, "generation"), 0),
               json_as_number(json_get(v, "batch"), 0));
    }
}

/* What `shoal local` leaves when a job is done; NULL: it runs, or it failed, or there never was
 * one. */
static struct json *report_read(const char *run_dir)
{
    char path[LIMIT_PATH];
    struct json *report = NULL;
    if (run_dir == NULL ||
        snprintf(path, sizeof path, "%s/report.json", run_dir) >= (int)sizeof path)
        return NULL;
    (void)cli_json_file(path, &report, NULL);
    return report;
}

static int live_status(const struct admin *a, struct json **out, struct err *e)
{
    struct cluster *c = NULL;
    int rc = cluster_open(a->coordinator, a->run_dir, &c, e);
    if (rc == 0 && !cluster_live(c))
        rc =
            err_set(e, SHOAL_E_UNAVAILABLE,
                    "the run in %s is over and left no report: it failed or was killed; see %s/log",
                    a->run_dir, a->run_dir);
    if (rc == 0)
        rc = cluster_status(c, out, e);
    if (c != NULL)
        cluster_close(c);
    return rc;
}

int cli_status(int argc, char **argv)
{
    struct admin a = {0};
    struct json *j = NULL;
    struct err e = {0};
    int rc = admin_options(argc, argv,
                           "usage: shoal status [options]\n\nPhase, speed, shards, workers and "
                           "lanes of a running cluster; "
                           "the report of an ended run.\n",
                           0, &a, &e);
    if (rc == 1)
        return 0;
    struct json *report = rc == 0 ? report_read(a.run_dir) : NULL;
    if (rc == 0 && report == NULL)
        rc = live_status(&a, &j, &e);
    if (rc == 0 && a.as_json)
        cli_json_print(report != NULL ? report : j);
    else if (rc == 0 && report != NULL)
        cli_report_print(report, a.run_dir, NULL);
    else if (rc == 0)
        status_print(j);
    json_free(report);
    json_free(j);
    return rc == 0 ? 0 : cli_fail("status", &e);
}

int cli_digest(int argc, char **argv)
{
    struct admin a = {0};
    struct cluster *c = NULL;
    struct err e = {0};
    uint32_t only = 0;
    int rc = admin_options(argc, argv,
                           "usage: shoal digest [TABLE] [options]\n\nRows and digest of each "
                           "table: XXH3 over the tablets in order, each "
                           "over its "
                           "rows (weights and\noptimizer state) sorted by key. Equal digests "
                           "mean equal tables, bit for bit.\n",
                           1, &a, &e);
    if (rc == 1)
        return 0;
    if (rc == 0)
        rc = cluster_open(a.coordinator, a.run_dir, &c, &e);
    if (rc == 0 && a.count == 1)
        rc = cluster_table(c, a.words[0], &only, &e);
    struct json *list = json_new_array();
    for (uint32_t i = 0; rc == 0 && i < cluster_tables(c); i++) {
        uint64_t rows, digest;
        if (a.count == 1 && i != only)
            continue;
        rc = cluster_digest(c, i, &rows, &digest, &e);
        if (rc != 0)
            break;
        if (!a.as_json)
            printf("%-16s %12" PRIu64 " rows  0x%016" PRIx64 "\n", cluster_schema(c, i)->name, rows,
                   digest);
        struct json *t = json_new_object();
        (void)json_set_string(t, "name", cluster_schema(c, i)->name);
        (void)json_set_int(t, "rows", (int64_t)rows);
        (void)json_set_hex(t, "digest", digest);
        (void)json_append(list, t);
    }
    if (rc == 0 && a.as_json)
        cli_json_print(list);
    json_free(list);
    if (c != NULL)
        cluster_close(c);
    return rc == 0 ? 0 : cli_fail("digest", &e);
}
