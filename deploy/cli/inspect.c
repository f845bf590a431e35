/* inspect.c: `shoal inspect`: one row; `shoal blame`: the pushes that changed it. */
#include "deploy/cli/key.h"
#include "deploy/cli/reader.h"
#include "proto/base/key.h"
#include "proto/base/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void floats_print(const char *name, const struct json *list)
{
    size_t n = json_count(list);
    for (size_t i = 0; i < n; i++) {
        if (i % 8 == 0)
            printf("  %-9s", text_if(i == 0, name));
        printf(" %12.6g%s", json_as_number(json_array_at(list, i), 0),
               text_if(i % 8 == 7 || i + 1 == n, "\n"));
    }
}

static void stats_print(const struct json *s)
{
    time_t at = (time_t)json_get_int(s, "time", 0);
    char when[32] = "never told";
    if (at != 0)
        (void)strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S UTC", gmtime(&at));
    printf("  stats     shows %g, clicks %g, score %g, last event %s, vector %s\n",
           json_get_number(s, "show", 0), json_get_number(s, "click", 0),
           json_get_number(s, "score", 0), when,
           json_get_bool(s, "has_vector", true) ? "begun" : "not yet");
}

static void row_print(const struct json *found, const struct json *named)
{
    struct json *row = json_printable(found), *fields = json_printable(named);
    int64_t field = json_get_int(row, "field", 0);
    const char *name = key_field_name(fields, (uint64_t)field),
               *key = json_get_string(row, "key", "?");
    uint64_t value = strtoull(key, NULL, 16) & KEY_ID_MAX;
    char id[32] = "";
    if (key_field_is_id(fields, (uint64_t)field))
        (void)snprintf(id, sizeof id, ", id %" PRIu64, value);
    printf("%s %s: field %" PRId64 "%s%s%s%s, tablet %" PRId64 ", shard %s, in %s\n",
           json_get_string(row, "table", "?"), key, field, text_if(name[0] != 0, " ("), name,
           text_if(name[0] != 0, ")"), id, json_get_int(row, "tablet", 0),
           json_get_string(row, "shard", "?"), json_get_string(row, "tier", "?"));
    floats_print("weights", json_get(row, "weights"));
    floats_print("state", json_get(row, "state"));
    if (json_get(row, "stats") != NULL)
        stats_print(json_get(row, "stats"));
    if (!json_absent(json_get(row, "named")))
        printf("  by name   %s\n", json_get_string(row, "named", "?"));
    json_free(fields);
    json_free(row);
}

/* The reason why there is no row: the key was never seen, or still waits for admission. */
static int none(const struct json *row, const char *table, uint64_t key, struct err *e)
{
    const struct json *waiting = json_get(row, "waiting");
    uint32_t field = (uint32_t)(key >> 48);
    if (!json_absent(json_get(row, "named")))
        return err_set(e, SHOAL_E_NOT_FOUND,
                       "table %s has no row with key 0x%016" PRIx64 ": the key is %s by name",
                       table, key, json_get_string(row, "named", "?"));
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

/* Opens the cluster that the line names, and finds its table and its key there. */
static int key_of_line(const struct option_line *o, const char *verb, struct reader **c,
                       uint32_t *table, uint64_t *key, struct err *e)
{
    if (o->words < 1)
        return err_set(e, SHOAL_E_USAGE, "name a table and a key; see `shoal %s --help`", verb);
    int rc = reader_open(o, c, e);
    if (rc == 0)
        rc = reader_table(*c, o->word[0], table, e);
    if (rc != 0)
        return rc;
    return key_option(o, *c, key, e);
}

int cli_inspect(struct option_line *o, struct err *e)
{
    struct json *row = NULL, *fields = NULL;
    struct reader *c = NULL;
    bool found = false;
    uint32_t table = 0;
    uint64_t key = 0;
    int rc = key_of_line(o, "inspect", &c, &table, &key, e);
    if (rc == 0)
        rc = reader_inspect(c, table, key, &found, &row, e);
    if (rc == 0 && !found)
        rc = none(row, o->word[0], key, e);
    if (rc == 0 && option_given(o, "json")) {
        cli_json_print(row);
    } else if (rc == 0) {
        struct key_place place;
        if (key_place_open(o, c, &place, NULL) == 0)
            fields = key_fields(&place);
        key_place_close(&place);
        row_print(row, fields);
    }
    json_free(fields);
    json_free(row);
    reader_close(c);
    return rc;
}

/* ---- blame ----------------------------------------------------------------------------------- */

static void push_print(const struct json *p)
{
    const struct json *who = json_get(p, "who");
    time_t at = (time_t)json_get_int(p, "event_time", 0);
    int64_t first = json_get_int(who, "position", 0), rows = json_get_int(who, "rows", 0);
    char when[32] = "-", worker[48] = "-", input[64] = "-", norm[32];
    if (at != 0)
        (void)strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S", gmtime(&at));
    if (!json_absent(who)) {
        (void)snprintf(worker, sizeof worker, "%" PRId64 " %.30s", json_get_int(who, "worker", 0),
                       json_get_string(who, "name", "?"));
        (void)snprintf(input, sizeof input, "epoch %" PRId64 ", %" PRId64 " to %" PRId64,
                       json_get_int(who, "epoch", 0), first, (first + rows - (rows > 0)));
    }
    if (json_get_bool(p, "assigned", false))
        (void)snprintf(norm, sizeof norm, "assigned");
    else
        (void)snprintf(norm, sizeof norm, "%.6g", json_get_number(p, "norm", 0));
    printf("%-19s %6" PRId64 " %10" PRId64 " %6" PRId64 "  %-24s %-34s %12s\n", when,
           json_get_int(p, "lane", 0), json_get_int(p, "batch", 0), json_get_int(p, "run", 0),
           worker, input, norm);
}

static void away_print(const struct json *away)
{
    for (size_t i = 0; i < json_count(away); i++) {
        const struct json *one = json_array_at(away, i);
        printf("not searched: shard %" PRId64
               ", which may have led the tablet before it moved: %s\n",
               json_get_int(one, "shard", 0), json_get_string(one, "why", "?"));
    }
}

static void blame_print(const struct json *blame)
{
    struct json *found = json_printable(blame);
    const struct json *pushes = json_get(found, "pushes");
    bool complete = json_get_bool(found, "complete", false);
    if (json_count(pushes) > 0)
        printf("%-19s %6s %10s %6s  %-24s %-34s %12s\n", "event time (UTC)", "lane", "batch", "run",
               "worker", "input: positions of the order", "gradient");
    for (size_t i = 0; i < json_count(pushes); i++)
        push_print(json_array_at(pushes, i));
    if (json_count(pushes) == 0)
        puts(complete ? "no push ever had this key"
                      : "no push in the journal has this key; older ones are no longer kept");
    else if (!complete)
        puts("there may be others: past --limit, or no longer kept (journal.keep)");
    away_print(json_get(found, "not_asked"));
    json_free(found);
}

int cli_blame(struct option_line *o, struct err *e)
{
    struct json *found = NULL;
    struct reader *c = NULL;
    uint32_t table = 0;
    uint64_t key = 0;
    int rc = key_of_line(o, "blame", &c, &table, &key, e);
    if (rc == 0)
        rc = reader_blame(c, table, key, (uint32_t)option_int(o, "limit"), &found, e);
    if (rc == 0 && option_given(o, "json"))
        cli_json_print(found);
    else if (rc == 0)
        blame_print(found);
    json_free(found);
    reader_close(c);
    return rc;
}
