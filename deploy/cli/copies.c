/* copies.c: the copies of a shard, for people: one line under the shard in `shoal status` and
 * `shoal doctor`. */
#include "deploy/cli/cli.h"

#include <string.h>

/* "server b (zone east)" */
static void server_print(const char *before, const char *name, const struct json *copy)
{
    const char *zone = json_get_string(copy, "zone", "");
    printf("%s server %s", before, name);
    if (zone[0] != 0)
        printf(" (zone %s)", zone);
}

/* "12 records (3.4 kB, 250 ms) behind, not in sync for 35 s" */
static void follower_print(const struct json *c)
{
    const struct json *copying = json_get(c, "copying");
    char done[32], all[32];
    server_print(";", json_get_string(c, "name", "?"), c);
    fputs(": ", stdout);
    if (!json_get_bool(c, "ready", false)) {
        printf("not heard");
    } else if (!json_absent(copying)) {
        printf("copies the leader's rows, %s of %s",
               cli_size_text(cli_count(copying, "bytes"), done),
               cli_size_text(cli_count(copying, "of"), all));
        if (cli_count(copying, "seconds_left") >= 0)
            printf(", about %.0f s left", cli_count(copying, "seconds_left"));
    } else {
        printf("%.0f records (", cli_count(c, "lag"));
        if (!json_absent(json_get(c, "lag_bytes")))
            printf("%s, ", cli_size_text(cli_count(c, "lag_bytes"), done));
        printf("%.0f ms) behind", cli_count(c, "lag_ms"));
    }
    if (!json_get_bool(c, "in_sync", false))
        printf(", not in sync");
    if (!json_absent(json_get(c, "out_ms")))
        printf(" for %.0f s", cli_count(c, "out_ms") / 1000);
}

/* Counts the lease down once half of it has passed without a beat. */
static void lease_print(const struct json *of, const struct json *leader)
{
    const struct json *left = json_get(of, "lease_left_ms");
    if (json_absent(left) || cli_count(leader, "silent_ms") <= json_as_number(left, 0))
        return;
    if (json_as_number(left, 0) > 0)
        printf(", silent, its lease ends in %.1f s", json_as_number(left, 0) / 1000);
    else
        printf(", silent, its lease is over");
}

static void of_print(const struct json *of)
{
    const struct json *copies = json_get(of, "copies"), *leader = NULL;
    for (size_t k = 0; k < json_count(copies); k++)
        if (json_get_bool(json_array_at(copies, k), "leads", false))
            leader = json_array_at(copies, k);
    printf("            term %.0f, %.0f of %zu copies in sync;", cli_count(of, "term"),
           cli_count(of, "in_sync"), json_count(copies));
    server_print(" leads:", json_get_string(of, "leader", "?"), leader);
    if (leader != NULL)
        lease_print(of, leader);
    for (size_t k = 0; k < json_count(copies); k++)
        if (!json_get_bool(json_array_at(copies, k), "leads", false))
            follower_print(json_array_at(copies, k));
    putchar('\n');
}

void cli_copies_print(const struct json *list, int64_t shard)
{
    for (size_t i = 0; i < json_count(list); i++)
        if (json_get_int(json_array_at(list, i), "shard", -1) == shard)
            of_print(json_array_at(list, i));
}

void cli_copies_beside_print(const struct json *list)
{
    for (size_t i = 0; i < json_count(list); i++) {
        const struct json *of = json_array_at(list, i), *copies = json_get(of, "copies");
        for (size_t k = 0; k < json_count(copies); k++) {
            const struct json *c = json_array_at(copies, k);
            const char *name = json_get_string(c, "name", "?"),
                       *other = json_get_string(c, "beside", "");
            if (other[0] != 0 && strcmp(name, other) < 0)
                printf("note: shard %.0f: servers %s and %s are on one machine: both copies are "
                       "away when it is\n",
                       cli_count(of, "shard"), name, other);
        }
    }
}
