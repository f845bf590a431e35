/* heat.c: `shoal tables --heat`; heat.h. */
#include "deploy/cli/heat.h"

#include "deploy/cli/cli.h"
#include "proto/base/minmax.h"
#include "proto/base/text.h"

#include <stdio.h>
#include <stdlib.h>

enum { HOTTEST = 5 };

static struct json *figures_json(const struct reader_heat *h)
{
    struct json *j = json_new_object();
    json_set_int(j, "shard", h->shard);
    json_set_int(j, "rows", (int64_t)h->rows);
    json_set_int(j, "bytes", (int64_t)h->bytes);
    json_set_int(j, "pull_ns", (int64_t)h->pull_ns);
    json_set_int(j, "push_ns", (int64_t)h->push_ns);
    return j;
}

static void add(struct reader_heat *sum, const struct reader_heat *h)
{
    sum->shard = h->shard;
    sum->rows += h->rows;
    sum->bytes += h->bytes;
    sum->pull_ns += h->pull_ns;
    sum->push_ns += h->push_ns;
}

/* ---- one table as JSON: everything that is told ---- */

static int table_json(struct reader *r, uint32_t table, struct json *list, struct err *e)
{
    const struct table_schema *s = reader_schema(r, table);
    uint32_t tablets = 1u << s->tablet_bits;
    struct reader_heat *heat = calloc(tablets, sizeof *heat);
    struct reader_heat *shard = calloc(LIMIT_SHARDS, sizeof *shard);
    uint32_t *led = calloc(LIMIT_SHARDS, sizeof *led);
    int rc = SHOAL_E_NOMEM;
    if (heat == NULL || shard == NULL || led == NULL)
        err_set(e, rc, "out of memory");
    else
        rc = reader_heat(r, table, heat, e);
    struct json *item = json_new_object(), *shards = json_new_array(), *all = json_new_array();
    for (uint32_t i = 0; rc == 0 && i < tablets; i++) {
        struct json *one = figures_json(&heat[i]);
        json_set_int(one, "tablet", i);
        json_append(all, one);
        add(&shard[heat[i].shard], &heat[i]);
        led[heat[i].shard]++;
    }
    for (uint32_t i = 0; rc == 0 && i < LIMIT_SHARDS; i++) {
        if (led[i] == 0)
            continue;
        struct json *one = figures_json(&shard[i]);
        json_set_int(one, "tablets", led[i]);
        json_append(shards, one);
    }
    json_set_string(item, "table", s->name);
    json_set(item, "shards", shards);
    json_set(item, "tablets", all);
    json_append(list, item);
    free(heat);
    free(shard);
    free(led);
    return rc;
}

static double load_of(const struct json *figures)
{
    return json_get_number(figures, "pull_ns", 0) + json_get_number(figures, "push_ns", 0);
}

static double load_sum(const struct json *list)
{
    double sum = 0;
    for (size_t i = 0; i < json_count(list); i++)
        sum += load_of(json_array_at(list, i));
    return sum;
}

/* Sets each shard's and table's share of all load. */
static void shares_set(struct json *list)
{
    double all = 0;
    for (size_t i = 0; i < json_count(list); i++)
        all += load_sum(json_get(json_array_at(list, i), "shards"));
    for (size_t i = 0; i < json_count(list); i++) {
        struct json *table = json_array_at(list, i);
        const struct json *shards = json_get(table, "shards");
        json_set_number(table, "load", load_sum(shards) / MAX(all, 1));
        for (size_t k = 0; k < json_count(shards); k++) {
            struct json *shard = json_array_at(shards, k);
            json_set_number(shard, "load", load_of(shard) / MAX(all, 1));
        }
    }
}

/* ---- as text ---- */

/* Returns the hottest tablet that is not hotter than `before`, which was returned last (NULL: none
 * yet); equal ones come by number. */
static const struct json *hottest(const struct json *tablets, const struct json *before)
{
    const struct json *best = NULL;
    for (size_t i = 0; i < json_count(tablets); i++) {
        const struct json *j = json_array_at(tablets, i);
        bool later =
            before == NULL || load_of(j) < load_of(before) ||
            (load_of(j) == load_of(before) && cli_count(j, "tablet") > cli_count(before, "tablet"));
        if (later && load_of(j) > 0 && (best == NULL || load_of(j) > load_of(best)))
            best = j;
    }
    return best;
}

static void hottest_print(const struct json *tablets, double all)
{
    const struct json *j = NULL;
    for (int i = 0; i < HOTTEST && (j = hottest(tablets, j)) != NULL; i++)
        printf("%s%.0f (shard %.0f, %.1f %%)", i == 0 ? "  hottest tablets: " : ", ",
               cli_count(j, "tablet"), cli_count(j, "shard"), 100 * load_of(j) / all);
    if (hottest(tablets, NULL) != NULL)
        putchar('\n');
}

static void table_print(const struct json *table, double all)
{
    const struct json *shards = json_get(table, "shards");
    char bytes[32];
    printf("%s: %.1f %% of the load\n", json_get_string(table, "table", "?"),
           100 * cli_count(table, "load"));
    printf("  %8s %9s %14s %10s %10s %10s %8s\n", "shard", "tablets", "rows", "bytes", "pull s",
           "push s", "load");
    for (size_t i = 0; i < json_count(shards); i++) {
        const struct json *s = json_array_at(shards, i);
        printf("  %8.0f %9.0f %14.0f %10s %10.3f %10.3f %6.1f %%\n", cli_count(s, "shard"),
               cli_count(s, "tablets"), cli_count(s, "rows"),
               cli_size_text(cli_count(s, "bytes"), bytes), cli_count(s, "pull_ns") / 1e9,
               cli_count(s, "push_ns") / 1e9, 100 * cli_count(s, "load"));
    }
    hottest_print(json_get(table, "tablets"), all);
}

/* Prints each shard's share of the load of all tables. */
static void shards_print(const struct json *list)
{
    double share[LIMIT_SHARDS] = {0};
    bool has[LIMIT_SHARDS] = {false};
    for (size_t i = 0; i < json_count(list); i++) {
        const struct json *shards = json_get(json_array_at(list, i), "shards");
        for (size_t k = 0; k < json_count(shards); k++) {
            const struct json *s = json_array_at(shards, k);
            uint32_t n = (uint32_t)cli_count(s, "shard");
            share[n] += cli_count(s, "load");
            has[n] = true;
        }
    }
    printf("all tables:");
    for (uint32_t n = 0; n < LIMIT_SHARDS; n++)
        if (has[n])
            printf(" shard %u %.1f %%", n, 100 * share[n]);
    putchar('\n');
}

static void print(const struct json *list)
{
    struct json *shown = json_printable(list);
    double all = 0;
    for (size_t i = 0; i < json_count(shown); i++)
        all += load_sum(json_get(json_array_at(shown, i), "shards"));
    if (all == 0)
        printf("no pulls or pushes in the last minutes\n");
    for (size_t i = 0; i < json_count(shown); i++)
        table_print(json_array_at(shown, i), all);
    if (json_count(shown) > 1)
        shards_print(shown);
    json_free(shown);
}

int heat_tell(struct reader *r, uint32_t only, bool as_json, struct err *e)
{
    struct json *list = json_new_array();
    int rc = 0;
    for (uint32_t t = 0; rc == 0 && t < reader_tables(r); t++)
        if (only == UINT32_MAX || only == t)
            rc = table_json(r, t, list, e);
    shares_set(list);
    if (rc == 0 && as_json)
        cli_json_print(list);
    else if (rc == 0)
        print(list);
    json_free(list);
    return rc;
}
