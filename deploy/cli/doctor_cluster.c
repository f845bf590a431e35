/* doctor_cluster.c: `shoal doctor --cluster`: the owners in a cluster, and what does not fit. What
 * the coordinator knows to be wrong is its own list (`problems` of the status). The checks here add
 * what shows only from outside, or when all daemons are compared. */
#include "deploy/cli/doctor_cluster.h"
#include "deploy/cli/doctor.h"
#include "proto/base/text.h"
#include "proto/base/time.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    void (*run)(const struct doctor_view *v, struct doctor_report *r);
} checks[] = {
    {"cluster", doctor_cluster_known},   {"problems", doctor_cluster_problems},
    {"notes", doctor_cluster_notes},     {"shards", doctor_cluster_shards},
    {"answers", doctor_cluster_answers}, {"builds", doctor_cluster_builds},
    {"clocks", doctor_cluster_clocks},   {"budgets", doctor_cluster_budgets},
    {"room", doctor_cluster_room},       {"map", doctor_cluster_map},
};

/* ---- the owners of shards and tablets, as text ----------------------------------------------- */

static void shards_print(const struct doctor_view *v)
{
    printf("%-5s  %-24s %-26s %8s %12s  %s\n", "shard", "server", "endpoint", "tablets", "rows",
           "");
    for (size_t i = 0; i < json_count(v->servers); i++) {
        const struct json *s = json_array_at(v->servers, i);
        char name[DOCTOR_NAME];
        const struct doctor_state *state = doctor_cluster_state(s, v->cluster);
        printf("%-5" PRId64 "  %-24s %-26s %8" PRId64 " %12" PRId64 "  %s\n",
               json_get_int(s, "shard", 0), doctor_cluster_name(s, name),
               json_get_string(s, "endpoint", "?"), json_get_int(s, "tablets", 0),
               json_get_int(s, "rows", 0), state != NULL ? state->text : "fits");
        cli_copies_print(json_get(v->cluster, "copies"), json_get_int(s, "shard", 0));
    }
}

static void come_print(const struct json *cluster)
{
    const struct json *come = json_get(cluster, "come");
    for (size_t i = 0; i < json_count(come); i++)
        printf("waits for the others: server %s/%" PRId64 "\n",
               json_get_string(json_array_at(come, i), "name", "?"),
               json_get_int(json_array_at(come, i), "index", 0));
}

static void jobs_print(const struct json *status)
{
    printf("workers: %zu of the job at hand, %zu without a job\n",
           json_count(json_get(status, "workers")), json_count(json_get(status, "idle")));
    if (!json_absent(json_get(status, "error")))
        printf("the last job, %s, ended: %s\n", json_get_string(status, "job", "?"),
               json_get_string(status, "error", "?"));
}

static void cluster_print(const struct doctor_view *v, const struct doctor_report *r)
{
    const char *id = json_get_string(v->cluster, "id", "");
    if (id[0] != '\0')
        printf("cluster %s: %" PRId64 " shards, map of epoch %" PRId64 ", %" PRId64 " tablets\n",
               id, json_get_int(v->cluster, "shards", 0), json_get_int(v->cluster, "map_epoch", 0),
               json_get_int(v->cluster, "tablets", 0));
    shards_print(v);
    come_print(v->cluster);
    cli_copies_beside_print(json_get(v->cluster, "copies"));
    jobs_print(v->status);
    doctor_print(r);
}

/* ---- the verb -------------------------------------------------------------------------------- */

/* By how much a daemon's calendar is ahead of ours; NAN where it tells none. */
static double ahead_s(uint64_t wall_s)
{
    if (wall_s == 0 || wall_s > UINT32_MAX)
        return (double)NAN;
    return (double)wall_s - (double)(time_wall_ns() / UINT64_C(1000000000));
}

static const struct json *copies_at(const struct doctor_view *v, size_t i)
{
    return json_get(json_array_at(json_get(v->cluster, "copies"), i), "copies");
}

/* Makes room for the answers of all shards that lead or follow. */
static int met_make(struct doctor_view *v, struct err *e)
{
    size_t count = json_count(v->servers);
    for (size_t i = 0; i < json_count(json_get(v->cluster, "copies")); i++)
        count += json_count(copies_at(v, i));
    v->met = calloc(count + 1, sizeof *v->met);
    if (v->met == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for the answers of the servers");
    return 0;
}

/* Adds a shard, which has not answered yet. False: it is not to be asked, since another one of its
 * server has not answered. */
static bool met_add(struct doctor_view *v, const struct json *of)
{
    struct doctor_met *m = &v->met[v->mets++];
    m->server = json_get_string(of, "name", "");
    m->index = (uint32_t)json_get_int(of, "index", 0);
    m->answers = true;
    m->ahead_s = (double)NAN;
    for (size_t i = 0; i + 1 < v->mets; i++)
        if (!v->met[i].answers && strcmp(v->met[i].server, m->server) == 0) {
            v->met[i].unasked++;
            return false;
        }
    return true;
}

/* Takes what the shard that was added last said. */
static void met_take(struct doctor_view *v, int rc)
{
    struct doctor_met *m = &v->met[v->mets - 1];
    m->answers = rc == 0;
    m->ahead_s = ahead_s(m->hello.wall_s);
}

static void leaders_ask(struct reader *c, struct doctor_view *v)
{
    for (size_t i = 0; i < json_count(v->servers); i++) {
        const struct json *s = json_array_at(v->servers, i);
        struct doctor_met *m = &v->met[v->mets];
        bool there = json_get_bool(s, "ready", false) && json_get_bool(s, "heard", true);
        if (met_add(v, s) && there)
            met_take(v, reader_dial(c, (uint32_t)json_get_int(s, "shard", 0),
                                    json_get_string(s, "endpoint", ""), &m->hello, &m->wrong));
    }
}

/* A copy that follows listens at an endpoint of its own: workers go there when it leads. */
static void followers_ask(struct doctor_view *v, const struct json *copies)
{
    for (size_t i = 0; i < json_count(copies); i++) {
        const struct json *s = json_array_at(copies, i);
        struct doctor_met *m = &v->met[v->mets];
        if (!json_get_bool(s, "leads", false) && met_add(v, s) && json_get_bool(s, "ready", false))
            met_take(v, reader_dial_key(json_get_string(s, "endpoint", ""),
                                        json_get_string(s, "key", ""), &m->hello, &m->wrong));
    }
}

/* Asks the daemons from here, one after the other, for a second each. Silent ones are not
 * asked: the coordinator's list has them. */
static void daemons_ask(struct reader *c, struct doctor_view *v)
{
    struct err e;
    v->coordinator.answers = reader_hello(c, &v->coordinator.hello, &e) == 0;
    v->coordinator.ahead_s = ahead_s(v->coordinator.hello.wall_s);
    leaders_ask(c, v);
    for (size_t i = 0; i < json_count(json_get(v->cluster, "copies")); i++)
        followers_ask(v, copies_at(v, i));
}

static void json_out(const struct doctor_report *r, const struct json *status)
{
    struct json *j = doctor_json(r);
    json_set(j, "cluster", json_hold(json_get(status, "cluster")));
    cli_json_print(j);
    json_free(j);
}

static void checks_run(const struct doctor_view *v, struct doctor_report *r)
{
    *r = (struct doctor_report){.count = 0};
    for (size_t i = 0; i < sizeof checks / sizeof checks[0]; i++) {
        r->check = checks[i].name;
        checks[i].run(v, r);
    }
    r->check = "units";
    doctor_check_units(NULL, r);
}

static int status_ask(struct option_line *o, struct reader **c, struct json **status, struct err *e)
{
    const char *coordinator;
    int rc = 0;
    if (reader_folder(o) == NULL && (rc = cli_coordinator(o, &coordinator, e)) == 0)
        rc = doctor_names_wait(coordinator, e);
    if (rc == 0)
        rc = reader_open_live(o, c, e);
    if (rc == 0)
        rc = reader_status(*c, status, e);
    return rc;
}

static int look(struct option_line *o, struct reader *c, struct json *status, struct err *e)
{
    static struct doctor_report report;
    struct json *shown = json_printable(status);
    struct doctor_view v = {.status = shown,
                            .cluster = json_get(shown, "cluster"),
                            .servers = json_get(shown, "servers"),
                            .workers = json_get(shown, "workers")};
    int rc = met_make(&v, e);
    if (rc == 0) {
        daemons_ask(c, &v);
        checks_run(&v, &report);
        if (option_given(o, "json"))
            json_out(&report, status);
        else
            cluster_print(&v, &report);
        rc = doctor_end(&report, e);
    }
    free(v.met);
    json_free(shown);
    return rc;
}

int doctor_cluster(struct option_line *o, struct err *e)
{
    struct reader *c = NULL;
    struct json *status = NULL;
    int rc = status_ask(o, &c, &status, e);
    if (rc == 0)
        rc = look(o, c, status, e);
    json_free(status);
    reader_close(c);
    return rc;
}
