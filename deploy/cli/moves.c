/* moves.c: `shoal rebalance` and `shoal drain`: tablets go to other shards while jobs run. */
#include "deploy/cli/cli.h"
#include "proto/base/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOVES_MS = 60000 };

static double number(const struct json *j, const char *key)
{
    return json_as_number(json_get(j, key), 0);
}

/* A line for each shard: its part of the bytes and of the load, before and after. */
static void plan_print(const struct json *plan, bool dry_run)
{
    const struct json *shards = json_get(plan, "shards");
    double load = 0;
    if (number(plan, "tablets") == 0) {
        puts("no tablet has to move");
        return;
    }
    printf("%.0f tablets%s move, %.1f MB\n", number(plan, "tablets"), dry_run ? " would" : "",
           number(plan, "bytes") * 1e-6);
    for (size_t i = 0; i < json_count(shards); i++)
        load += number(json_array_at(shards, i), "load");
    for (size_t i = 0; i < json_count(shards); i++) {
        const struct json *s = json_array_at(shards, i);
        printf("  shard %-3.0f %-16s %6.0f -> %-6.0f tablets %10.1f -> %-10.1f MB",
               number(s, "shard"), json_as_string(json_get(s, "server"), "?"), number(s, "tablets"),
               number(s, "tablets_after"), number(s, "bytes") * 1e-6,
               number(s, "bytes_after") * 1e-6);
        if (load > 0)
            printf("  load %3.0f -> %.0f %%", 100 * number(s, "load") / load,
                   100 * number(s, "load_after") / load);
        putchar('\n');
    }
}

static int moves_ask(struct option_line *o, struct wire *w, struct err *e)
{
    struct wire reply;
    struct ask *ask = NULL;
    struct msg *m = NULL;
    const char *endpoint = NULL;
    int rc = cli_coordinator(o, &endpoint, e);
    if (rc == 0)
        rc = cli_ask_open(endpoint, NULL, &ask, e);
    if (rc == 0)
        rc = cli_ask(ask, w, NULL, MOVES_MS, &reply, &m, e);
    if (rc == 0 && w->u.MOVES.order != WIRE_MOVES_STOP) {
        struct json *plan = NULL;
        rc = json_parse(m->frame[1].data, m->frame[1].bytes, &plan, e);
        if (rc == 0 && option_given(o, "json"))
            cli_json_print(plan);
        else if (rc == 0)
            plan_print(plan, w->u.MOVES.dry_run);
        if (rc == 0 && !w->u.MOVES.dry_run && !option_given(o, "json") &&
            number(plan, "tablets") > 0)
            puts("they move now, a few at a time; `shoal status` shows how far they are");
        json_free(plan);
    } else if (rc == 0) {
        puts("no further tablets move");
    }
    msg_free(m);
    cli_ask_close(ask);
    return rc;
}

int cli_rebalance(struct option_line *o, struct err *e)
{
    struct wire w = {.type = WIRE_TYPE_MOVES};
    if (o->words != 0)
        return err_set(e, SHOAL_E_USAGE, "no word belongs behind it; see `shoal rebalance --help`");
    if (option_given(o, "stop") && option_given(o, "dry-run"))
        return err_set(e, SHOAL_E_USAGE, "--stop and --dry-run do not go together");
    w.u.MOVES.order = WIRE_MOVES_REBALANCE;
    if (option_given(o, "stop"))
        w.u.MOVES.order = WIRE_MOVES_STOP;
    w.u.MOVES.dry_run = option_given(o, "dry-run");
    return moves_ask(o, &w, e);
}

int cli_drain(struct option_line *o, struct err *e)
{
    struct wire w = {.type = WIRE_TYPE_MOVES};
    if (o->words != 1 || strlen(o->word[0]) >= sizeof w.u.MOVES.server)
        return err_set(e, SHOAL_E_USAGE, "name one server; see `shoal drain --help`");
    w.u.MOVES.order = WIRE_MOVES_DRAIN;
    w.u.MOVES.dry_run = option_given(o, "dry-run");
    (void)snprintf(w.u.MOVES.server, sizeof w.u.MOVES.server, "%s", o->word[0]);
    return moves_ask(o, &w, e);
}
