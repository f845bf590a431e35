/* blame.c: `shoal blame`: which pushes changed a row. */
#include "deploy/cli/cluster.h"
#include "deploy/cli/key.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

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

static int blame(const struct option_line *o, struct err *e)
{
    struct json *found = NULL;
    struct cluster *c = NULL;
    uint32_t table = 0;
    uint64_t key = 0;
    if (o->words < 1)
        return err_set(e, SHOAL_E_USAGE, "name a table and a key; see `shoal blame --help`");
    int rc = key_option(o, &key, e);
    if (rc == 0)
        rc = cluster_open_option(o, &c, e);
    if (rc == 0)
        rc = cluster_table(c, o->word[0], &table, e);
    if (rc == 0)
        rc = cluster_blame(c, table, key, (uint32_t)option_int(o, "limit"), &found, e);
    if (rc == 0 && option_given(o, "json"))
        cli_json_print(found);
    else if (rc == 0)
        blame_print(found);
    json_free(found);
    cluster_close(c);
    return rc;
}

int cli_blame(int argc, char **argv)
{
    struct option_line o;
    struct err e = {0};
    int rc = cli_options("shoal blame", argc, argv, &o, &e);
    if (rc == 0)
        rc = blame(&o, &e);
    return cli_end(rc, &o, &e);
}
