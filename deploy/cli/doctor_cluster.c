/* doctor_cluster.c: `shoal doctor --cluster`: the owners in a cluster, its contradictions, and the
 * servers that do not answer this machine. */
#include "deploy/cli/doctor.h"
#include "deploy/cli/reader.h"
#include "proto/base/text.h"

#include <inttypes.h>
#include <stdio.h>

/* The fault that a shard's own status shows, or "". */
static const char *shard_wrong(const struct json *shard, const struct json *cluster)
{
    int64_t silent = json_as_int(json_get(shard, "silent_ms"), -1);
    if (json_as_string(json_get(shard, "name"), "")[0] == 0)
        return "has not come";
    if (silent < 0)
        return "not heard since the coordinator started";
    if (silent > 10000)
        return "silent";
    if (!json_as_bool(json_get(shard, "ready"), false))
        return "reads its rows back";
    if (!json_as_bool(json_get(shard, "placed"), false))
        return "does not know yet where it belongs";
    if (json_as_int(json_get(shard, "map_epoch"), 0) <
        json_as_int(json_get(cluster, "map_epoch"), 0))
        return "has an older map";
    if (json_as_bool(json_get(shard, "disk_short"), false))
        return "takes no pushes: too little of its disk is free";
    return "";
}

static uint32_t shards_print(const struct json *servers, const struct json *cluster)
{
    uint32_t wrong = 0;
    printf("%-5s  %-24s %-26s %8s %12s  %s\n", "shard", "server", "endpoint", "tablets", "rows",
           "");
    for (size_t i = 0; i < json_count(servers); i++) {
        const struct json *s = json_array_at(servers, i);
        const char *what = shard_wrong(s, cluster);
        char name[LIMIT_NAME + 16];
        (void)snprintf(name, sizeof name, "%s/%" PRId64, json_as_string(json_get(s, "name"), "?"),
                       json_as_int(json_get(s, "index"), 0));
        printf("%-5" PRId64 "  %-24s %-26s %8" PRId64 " %12" PRId64 "  %s\n",
               json_as_int(json_get(s, "shard"), 0), name,
               json_as_string(json_get(s, "endpoint"), "?"), json_as_int(json_get(s, "tablets"), 0),
               json_as_int(json_get(s, "rows"), 0), text_unless_empty(what, "fits"));
        cli_copies_print(json_get(cluster, "copies"), json_as_int(json_get(s, "shard"), 0));
        wrong += what[0] != 0;
    }
    return wrong;
}

static void come_print(const struct json *cluster)
{
    const struct json *come = json_get(cluster, "come");
    for (size_t i = 0; i < json_count(come); i++)
        printf("waits for the others: server %s/%" PRId64 "\n",
               json_as_string(json_get(json_array_at(come, i), "name"), "?"),
               json_as_int(json_get(json_array_at(come, i), "index"), 0));
}

/* Asks each server from here, as a worker on this machine would, and returns how many do not
 * answer. Servers that are silent to the coordinator too have been reported already. */
static uint32_t servers_dial(struct reader *c, const struct json *servers)
{
    uint32_t wrong = 0;
    for (size_t i = 0; i < json_count(servers); i++) {
        const struct json *s = json_array_at(servers, i);
        struct err e = {0};
        if (!json_as_bool(json_get(s, "ready"), false) ||
            reader_dial(c, (uint32_t)json_as_int(json_get(s, "shard"), 0),
                        json_as_string(json_get(s, "endpoint"), ""), &e) == 0)
            continue;
        printf("problem: server %s/%" PRId64 " does not answer this machine, though it beats to "
               "the coordinator: %s\n",
               json_as_string(json_get(s, "name"), "?"), json_as_int(json_get(s, "index"), 0),
               text_clean(e.text));
        wrong++;
    }
    return wrong;
}

/* For information only: none of it counts as a problem. */
static void workers_print(const struct json *status)
{
    size_t members = json_count(json_get(status, "workers")),
           idle = json_count(json_get(status, "idle"));
    printf("workers: %zu of the job at hand, %zu without a job\n", members, idle);
    if (!json_absent(json_get(status, "error")))
        printf("the last job, %s, ended: %s\n", json_as_string(json_get(status, "job"), "?"),
               json_as_string(json_get(status, "error"), "?"));
}

/* Prints the cluster; returns the number of faults. */
static uint32_t cluster_print(struct reader *c, const struct json *status)
{
    const struct json *cluster = json_get(status, "cluster");
    const char *id = json_as_string(json_get(cluster, "id"), "");
    if (id[0] == 0)
        printf("no cluster yet: its %" PRId64 " shards have not all come, or do not agree\n",
               json_as_int(json_get(cluster, "shards"), 0));
    else
        printf("cluster %s: %" PRId64 " shards, map of epoch %" PRId64 ", %" PRId64 " tablets\n",
               id, json_as_int(json_get(cluster, "shards"), 0),
               json_as_int(json_get(cluster, "map_epoch"), 0),
               json_as_int(json_get(cluster, "tablets"), 0));
    uint32_t wrong = shards_print(json_get(status, "servers"), cluster);
    bool named = id[0] == 0 || json_as_bool(json_get(cluster, "names"), true);
    if (!named)
        printf("not all servers have said yet what the fields of their tables are called\n");
    come_print(cluster);
    cli_copies_beside_print(json_get(cluster, "copies"));
    workers_print(status);
    /* silent and refused servers are among the problems too */
    uint32_t problems = (uint32_t)cli_problems_print(status, "");
    return wrong + problems + servers_dial(c, json_get(status, "servers")) + (id[0] == 0) + !named;
}

int doctor_cluster(struct option_line *o, struct err *e)
{
    struct reader *c = NULL;
    struct json *status = NULL, *shown = NULL;
    int rc = reader_open_live(o, &c, e);
    if (rc == 0)
        rc = reader_status(c, &status, e);
    if (rc == 0 && option_given(o, "json"))
        cli_json_print(json_get(status, "cluster"));
    else if (rc == 0 && cluster_print(c, shown = json_printable(status)) > 0)
        rc = err_set(e, SHOAL_E_UNAVAILABLE, "not all of it fits: see above");
    if (!option_given(o, "json") && cli_units_print("") > 0 && rc == 0)
        rc = err_set(e, SHOAL_E_UNAVAILABLE, "units of this machine fail to start: see above");
    json_free(shown);
    json_free(status);
    reader_close(c);
    return rc;
}
