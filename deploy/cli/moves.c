/* moves.c: `shoal rebalance`, `shoal drain` and `shoal add`: tablets go to other shards while jobs
 * run, servers leave and join. */
#include "deploy/cli/cli.h"
#include "proto/base/json.h"
#include "proto/base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOVES_MS = 60000 };

/* A line for each shard: its part of the bytes and of the load, before and after. */
static void plan_print(const struct json *plan, bool dry_run)
{
    const struct json *shards = json_get(plan, "shards");
    double load = 0;
    if (cli_count(plan, "tablets") == 0) {
        puts("no tablet has to move");
        return;
    }
    printf("%.0f tablets%s move, %.1f MB\n", cli_count(plan, "tablets"), dry_run ? " would" : "",
           cli_count(plan, "bytes") * 1e-6);
    for (size_t i = 0; i < json_count(shards); i++)
        load += cli_count(json_array_at(shards, i), "load");
    for (size_t i = 0; i < json_count(shards); i++) {
        const struct json *s = json_array_at(shards, i);
        printf("  shard %-3.0f %-16s %6.0f -> %-6.0f tablets %10.1f -> %-10.1f MB",
               cli_count(s, "shard"), json_get_string(s, "server", "?"), cli_count(s, "tablets"),
               cli_count(s, "tablets_after"), cli_count(s, "bytes") * 1e-6,
               cli_count(s, "bytes_after") * 1e-6);
        if (load > 0)
            printf("  load %3.0f -> %.0f %%", 100 * cli_count(s, "load") / load,
                   100 * cli_count(s, "load_after") / load);
        putchar('\n');
    }
}

/* A line for each shard of the servers that joined. */
static void added_print(const struct json *added)
{
    const struct json *shards = json_get(added, "shards");
    for (size_t i = 0; i < json_count(shards); i++) {
        const struct json *s = json_array_at(shards, i);
        printf("shard %.0f is on server %s\n", cli_count(s, "shard"),
               json_get_string(s, "server", "?"));
    }
    puts("shards without tablets get some by `shoal rebalance`");
}

/* A line for each server that gets a copy. */
static void copies_print(const struct json *copies, bool dry_run)
{
    for (size_t i = 0; i < json_count(copies); i++) {
        const struct json *c = json_array_at(copies, i);
        printf("server %s%s a copy of shard %.0f, of which two are in one zone; it is in zone %s\n",
               json_get_string(c, "server", "?"), dry_run ? " would get" : " gets",
               cli_count(c, "shard"), json_get_string(c, "zone", "?"));
    }
}

/* Prints what the coordinator answers: a plan, or the shards of servers that joined or left. */
static void answer_print(const struct json *told, const struct wire_MOVES *order)
{
    if (json_get(told, "retired") != NULL) {
        puts("the server is away and led no tablet: its shards are retired, and no job awaits it");
        return;
    }
    if (order->order == WIRE_MOVES_ADD)
        added_print(told);
    else
        plan_print(told, order->dry_run);
    copies_print(json_get(told, "copies"), order->dry_run);
    if (order->order == WIRE_MOVES_DRAIN && !order->dry_run)
        puts("once it leads no tablet, no job awaits the server any more: `shoal status` does not "
             "list it, and it may be switched off");
    else if (order->order == WIRE_MOVES_REBALANCE && !order->dry_run &&
             cli_count(told, "tablets") > 0)
        puts("they move now, a few at a time; `shoal status` shows how far they are");
}

static int moves_ask(struct option_line *o, struct wire *w, struct err *e)
{
    struct wire reply;
    struct json *plan = NULL;
    bool stop = w->u.MOVES.order == WIRE_MOVES_STOP;
    int rc = cli_coordinator_ask(o, w, MOVES_MS, 0, &reply, stop ? NULL : &plan, e);
    if (rc != 0)
        return rc;
    if (stop)
        puts("no further tablets move");
    else if (option_given(o, "json"))
        cli_json_print(plan);
    else
        answer_print(plan, &w->u.MOVES);
    json_free(plan);
    return 0;
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
    text_copy(w.u.MOVES.server, sizeof w.u.MOVES.server, o->word[0]);
    return moves_ask(o, &w, e);
}

int cli_add(struct option_line *o, struct err *e)
{
    struct wire w = {.type = WIRE_TYPE_MOVES};
    size_t n = 0;
    w.u.MOVES.order = WIRE_MOVES_ADD;
    for (int i = 0; i < o->words && n < sizeof w.u.MOVES.server; i++)
        n += (size_t)snprintf(w.u.MOVES.server + n, sizeof w.u.MOVES.server - n, "%s%s",
                              i > 0 ? " " : "", o->word[i]);
    if (o->words == 0)
        return err_set(e, SHOAL_E_USAGE,
                       "name the servers that wait for a place; `shoal status` shows them");
    if (n >= sizeof w.u.MOVES.server)
        return err_set(e, SHOAL_E_USAGE, "the names have more than %zu bytes: name fewer servers",
                       sizeof w.u.MOVES.server - 1);
    return moves_ask(o, &w, e);
}
