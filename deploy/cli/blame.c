/* blame.c: `shoal blame`: which pushes changed a row. */
#include "deploy/cli/cluster.h"
#include "deploy/cli/key.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char blame_help[] =
    "usage: shoal blame TABLE KEY [options]\n"
    "       shoal blame TABLE --field NAME --value TEXT [options]\n"
    "\n"
    "The pushes that changed a row, newest first: event time, lane and batch, the worker that "
    "computed it, the positions\n"
    "of the epoch's order that it read, and the norm of the row's gradient. It looks back as far "
    "as the journal and its\n"
    "archive reach (journal.keep). KEY as in `shoal inspect`.\n"
    "\n"
    "  --limit N         at most so many (20)\n"
    "  --field NAME, --value TEXT   instead of KEY\n"
    "  --job JOB.yaml    where names of fields come from (job.yaml of the run folder)\n"
    "  --coordinator EP  endpoint of a running cluster's coordinator, such as "
    "tcp://127.0.0.1:7000\n"
    "  --run-dir DIR     run folder of `shoal local`, running or ended (an ended one does not know "
    "workers any more)\n"
    "  --json            JSON instead of text\n";

enum { LIMIT, FIELD, VALUE, JOB, COORDINATOR, RUN_DIR, JSON, HELP, COUNT };

static void push_print(const struct json *p)
{
    const struct json *who = json_get(p, "who");
    time_t at = (time_t)json_as_int(json_get(p, "event_time"), 0);
    int64_t first = json_as_int(json_get(who, "position"), 0),
            rows = json_as_int(json_get(who, "rows"), 0);
    char when[32] = "-", worker[48] = "-", input[64] = "-";
    if (at != 0)
        (void)strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S", gmtime(&at));
    if (!json_absent(who)) {
        (void)snprintf(worker, sizeof worker, "%" PRId64 " %.30s",
                       json_as_int(json_get(who, "worker"), 0),
                       json_as_string(json_get(who, "name"), "?"));
        (void)snprintf(input, sizeof input, "epoch %" PRId64 ", %" PRId64 " to %" PRId64,
                       json_as_int(json_get(who, "epoch"), 0), first, (first + rows - (rows > 0)));
    }
    printf("%-19s %6" PRId64 " %10" PRId64 " %6" PRId64 "  %-24s %-34s %12.6g\n", when,
           json_as_int(json_get(p, "lane"), 0), json_as_int(json_get(p, "batch"), 0),
           json_as_int(json_get(p, "run"), 0), worker, input,
           json_as_number(json_get(p, "norm"), 0));
}

static void blame_print(const struct json *found)
{
    const struct json *pushes = json_get(found, "pushes");
    bool complete = json_as_bool(json_get(found, "complete"), false);
    if (json_count(pushes) > 0)
        printf("%-19s %6s %10s %6s  %-24s %-34s %12s\n", "event time (UTC)", "lane", "batch", "run",
               "worker", "input: positions of the order", "gradient");
    for (size_t i = 0; i < json_count(pushes); i++)
        push_print(json_array_at(pushes, i));
    if (json_count(pushes) == 0)
        puts(complete ? "no push ever had this key"
                      : "no push in the journal has this key; older ones are no longer kept");
    else if (!complete)
        puts("there may be older ones: past --limit, or no longer kept (journal.keep)");
}

static int blame(const char *const *words, int count, const struct cli_option *o, struct err *e)
{
    struct key_place place = {o[JOB].value, o[RUN_DIR].value};
    struct json *found = NULL;
    struct cluster *c = NULL;
    uint32_t table = 0;
    uint64_t key = 0;
    int64_t limit = 0;
    if (count < 1)
        return err_set(e, SHOAL_E_USAGE, "name a table and a key; see `shoal blame --help`");
    int rc = cli_number(&o[LIMIT], 1, 65536, &limit, e);
    if (rc == 0)
        rc = key_take(&place, count > 1 ? words[1] : NULL, o[FIELD].value, o[VALUE].value, &key, e);
    if (rc == 0)
        rc = cluster_open(o[COORDINATOR].value, o[RUN_DIR].value, &c, e);
    if (rc == 0)
        rc = cluster_table(c, words[0], &table, e);
    if (rc == 0)
        rc = cluster_blame(c, table, key, (uint32_t)limit, &found, e);
    if (rc == 0 && o[JSON].value != NULL)
        cli_json_print(found);
    else if (rc == 0)
        blame_print(found);
    json_free(found);
    if (c != NULL)
        cluster_close(c);
    return rc;
}

int cli_blame(int argc, char **argv)
{
    struct cli_option options[COUNT + 1] = {[LIMIT] = {"--limit", false, "20", NULL},
                                            [FIELD] = {"--field", false, NULL, NULL},
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
        fputs(blame_help, stdout);
        return 0;
    }
    if (rc == 0)
        rc = blame(words, count, options, &e);
    return rc == 0 ? 0 : cli_fail("blame", &e);
}
