/* doctor_cluster_check.c: the checks of a cluster. */
#include "deploy/cli/doctor_cluster.h"
#include "proto/base/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GIB (1024.0 * 1024 * 1024)
#define SILENT_MS 10000
#define DISK_FULL 0.9    /* share of the budget */
#define BUDGET_TIMES 2.0 /* budgets that differ by more */
#define ROWS_UNEVEN 1.5  /* times the mean, which is above ROWS_MANY */
#define ROWS_MANY 100000.0

static const char *string(const struct json *j, const char *path)
{
    return json_get_string(j, path, "");
}

/* ---- what the coordinator knows -------------------------------------------------------------- */

void doctor_cluster_known(const struct doctor_view *v, struct doctor_report *r)
{
    uint32_t wrong = r->problems;
    bool known = string(v->cluster, "id")[0] != '\0';
    if (!known)
        doctor_wrong(r,
                     "no cluster yet: its %.0f shards have not all come, or do not agree: start "
                     "the servers that are missing, or see in their logs why they ended",
                     cli_count(v->cluster, "shards"));
    if (known && !json_get_bool(v->cluster, "names", true))
        doctor_wrong(r, "not all servers have said yet what the fields of their tables are called: "
                        "wait until each is heard, or start those that are missing");
    if (r->problems == wrong)
        doctor_fine(r, "founded, and its fields have names");
}

void doctor_cluster_problems(const struct doctor_view *v, struct doctor_report *r)
{
    char text[DOCTOR_TEXT];
    size_t i = 0;
    while (cli_problem_text(v->status, i, text, sizeof text)) {
        doctor_wrong(r, "%s", text);
        i++;
    }
    if (i == 0)
        doctor_fine(r, "the coordinator knows of none");
}

void doctor_cluster_notes(const struct doctor_view *v, struct doctor_report *r)
{
    const struct json *notes = json_get(v->status, "notes");
    for (size_t i = 0; i < json_count(notes); i++)
        doctor_note(r, "%s", json_as_string(json_array_at(notes, i), "?"));
}

/* ---- shards ---------------------------------------------------------------------------------- */

const char *doctor_cluster_name(const struct json *shard, char out[DOCTOR_NAME])
{
    (void)snprintf(out, DOCTOR_NAME, "%s/%.0f", text_unless_empty(string(shard, "name"), "?"),
                   cli_count(shard, "index"));
    return out;
}

const struct doctor_state *doctor_cluster_state(const struct json *shard,
                                                const struct json *cluster)
{
    static const struct doctor_state
        absent = {"has not come", "start its server, or see in its log why it ended"},
        unheard = {"not heard since the coordinator started",
                   "start its server, or see in its log why it does not reach the coordinator"},
        silent = {"silent", NULL},
        reads = {"reads its rows back", "wait; a large store takes minutes"},
        lost = {"does not know yet where it belongs",
                "wait for its next beat; if it stays so, see its log"},
        older = {"has an older map", "wait for its next beat; if it stays so, see its log"},
        full = {"takes no pushes: too little of its disk is free", NULL};
    int64_t silent_ms = json_get_int(shard, "silent_ms", -1);
    if (string(shard, "name")[0] == '\0')
        return &absent;
    if (silent_ms < 0)
        return &unheard;
    if (!json_get_bool(shard, "heard", silent_ms <= SILENT_MS))
        return &silent;
    if (!json_get_bool(shard, "ready", false))
        return &reads;
    if (!json_get_bool(shard, "placed", false))
        return &lost;
    if (cli_count(shard, "map_epoch") < cli_count(cluster, "map_epoch"))
        return &older;
    if (json_get_bool(shard, "disk_short", false))
        return &full;
    return NULL;
}

/* Tells the state of a shard, with the number of shards behind it whose server is in the same one;
 * those are then told: their state becomes NULL. */
static void state_say(const struct doctor_view *v, size_t i, const struct doctor_state **state,
                      struct doctor_report *r)
{
    const struct json *s = json_array_at(v->servers, i);
    const char *server = string(s, "name");
    size_t more = 0;
    char name[DOCTOR_NAME], others[40];
    for (size_t k = i + 1; k < json_count(v->servers); k++)
        if (state[k] == state[i] &&
            strcmp(string(json_array_at(v->servers, k), "name"), server) == 0) {
            state[k] = NULL;
            more++;
        }
    (void)snprintf(others, sizeof others, ", and %zu more", more);
    doctor_wrong(r, "shard %.0f (server %s%s) %s: %s", cli_count(s, "shard"),
                 doctor_cluster_name(s, name), text_if(more > 0, others), state[i]->text,
                 state[i]->advice);
}

void doctor_cluster_shards(const struct doctor_view *v, struct doctor_report *r)
{
    uint32_t wrong = r->problems;
    size_t fit = 0, shards = json_count(v->servers);
    const struct doctor_state **state = calloc(shards + 1, sizeof *state);
    for (size_t i = 0; state != NULL && i < shards; i++) {
        state[i] = doctor_cluster_state(json_array_at(v->servers, i), v->cluster);
        fit += state[i] == NULL;
    }
    for (size_t i = 0; state != NULL && i < shards; i++)
        if (state[i] != NULL && state[i]->advice != NULL)
            state_say(v, i, state, r);
    free(state);
    if (r->problems == wrong)
        doctor_fine(r, "%zu of %zu serve", fit, shards);
}

void doctor_cluster_answers(const struct doctor_view *v, struct doctor_report *r)
{
    uint32_t wrong = r->problems;
    char others[64];
    for (size_t i = 0; i < v->mets; i++) {
        const struct doctor_met *m = &v->met[i];
        (void)snprintf(others, sizeof others, " (its other shards, %u, were not asked)",
                       m->unasked);
        if (!m->answers)
            doctor_wrong(r,
                         "server %s/%u does not answer this machine, though it beats to the "
                         "coordinator: %s%s; see firewalls and routes between the two, and "
                         "`advertise` in the server's file",
                         m->server, m->index, m->wrong.text, text_if(m->unasked > 0, others));
    }
    if (r->problems == wrong)
        doctor_fine(r, "all servers that are ready answer this machine");
}

/* ---- daemons compared ------------------------------------------------------------------------ */

/* True for the first shard of each server that tells its version: it stands for the server. */
static bool stands(const struct doctor_view *v, size_t i)
{
    const struct doctor_met *m = &v->met[i];
    for (size_t k = 0; k < i; k++)
        if (v->met[k].hello.version != 0 && strcmp(v->met[k].server, m->server) == 0)
            return false;
    return m->server[0] != '\0' && m->hello.version != 0;
}

struct built {
    const char *name, *build;
};

/* True, and said, when a daemon has not the version `than`. */
static bool version_look(struct doctor_report *r, const char *kind, const struct built *d,
                         const char *than)
{
    int bytes = (int)strcspn(d->build, " "), than_bytes = (int)strcspn(than, " ");
    if (d->build[0] == '\0')
        doctor_wrong(r,
                     "%s %s does not tell its version, so it is older than the coordinator's, "
                     "%.*s: install one release on all machines, and restart it",
                     kind, d->name, than_bytes, than);
    else if (bytes != than_bytes || strncmp(d->build, than, (size_t)bytes) != 0)
        doctor_wrong(r,
                     "%s %s has version %.*s, and the coordinator %.*s: install one release on all "
                     "machines, and restart what is older",
                     kind, d->name, bytes, d->build, than_bytes, than);
    else
        return false;
    return true;
}

/* The build that most daemons of a kind have. */
static const struct built *most_built(const struct built *d, size_t count)
{
    const struct built *most = d;
    size_t most_times = 0;
    for (size_t i = 0; i < count; i++) {
        size_t times = 0;
        for (size_t k = 0; k < count; k++)
            times += strcmp(d[i].build, d[k].build) == 0;
        if (times > most_times) {
            most = &d[i];
            most_times = times;
        }
    }
    return most;
}

static void kind_look(struct doctor_report *r, const char *kind, const struct built *d,
                      size_t count, const char *than)
{
    const struct built *most = most_built(d, count);
    int bytes = (int)strcspn(than, " ");
    for (size_t i = 0; i < count; i++)
        if (!version_look(r, kind, &d[i], than) && strcmp(d[i].build, most->build) != 0 &&
            strncmp(most->build, than, (size_t)bytes + 1) == 0)
            doctor_wrong(r,
                         "%ss %s and %s have version %.*s from two builds (%s, %s): install the "
                         "same packages on both, and restart them",
                         kind, most->name, d[i].name, bytes, than, most->build + bytes + 1,
                         d[i].build + bytes + 1);
}

void doctor_cluster_builds(const struct doctor_view *v, struct doctor_report *r)
{
    const char *than = v->coordinator.hello.build;
    uint32_t wrong = r->problems;
    size_t count = 0, workers = json_count(v->workers);
    struct built *d = calloc(v->mets + workers + 1, sizeof *d);
    if (d == NULL || !v->coordinator.answers || than[0] == '\0') {
        free(d);
        return;
    }
    (void)version_look(r, "this", &(struct built){"command", SHOAL_VERSION}, than);
    for (size_t i = 0; i < v->mets; i++)
        if (stands(v, i))
            d[count++] = (struct built){v->met[i].server, v->met[i].hello.build};
    kind_look(r, "server", d, count, than);
    for (size_t i = 0; i < workers; i++)
        d[i] = (struct built){string(json_array_at(v->workers, i), "name"),
                              string(json_array_at(v->workers, i), "build")};
    kind_look(r, "worker", d, workers, than);
    free(d);
    if (r->problems == wrong)
        doctor_fine(r, "all have version %.*s", (int)strcspn(than, " "), than);
}

static void clock_look(struct doctor_report *r, const char *kind, const char *name, double ahead_s)
{
    if (!(fabs(ahead_s) > DOCTOR_CLOCK_S))
        return;
    doctor_wrong(r, "the calendar of %s %s is %.0f s %s the coordinator's: " DOCTOR_CLOCK_ADVICE,
                 kind, name, fabs(ahead_s), ahead_s > 0 ? "ahead of" : "behind");
}

void doctor_cluster_clocks(const struct doctor_view *v, struct doctor_report *r)
{
    uint32_t wrong = r->problems;
    clock_look(r, "this", "machine", -v->coordinator.ahead_s);
    for (size_t i = 0; i < v->mets; i++)
        if (stands(v, i))
            clock_look(r, "server", v->met[i].server, v->met[i].ahead_s - v->coordinator.ahead_s);
    for (size_t i = 0; i < json_count(v->workers); i++)
        clock_look(r, "worker", string(json_array_at(v->workers, i), "name"),
                   cli_count(json_array_at(v->workers, i), "clock_ahead_s"));
    if (r->problems == wrong)
        doctor_fine(r, "agree within %d s", DOCTOR_CLOCK_S);
}

/* ---- room and balance ------------------------------------------------------------------------ */

/* Compares one budget of all shards; 0: no bound. */
static void budget_look(const struct doctor_view *v, struct doctor_report *r, const char *figure,
                        const char *key)
{
    const struct json *least = NULL, *most = NULL;
    for (size_t i = 0; i < json_count(v->servers); i++) {
        const struct json *s = json_array_at(v->servers, i);
        if (cli_count(s, figure) <= 0)
            continue;
        if (least == NULL || cli_count(s, figure) < cli_count(least, figure))
            least = s;
        if (most == NULL || cli_count(s, figure) > cli_count(most, figure))
            most = s;
    }
    if (least == NULL || cli_count(most, figure) < BUDGET_TIMES * cli_count(least, figure))
        return;
    doctor_note(r,
                "%s: server %s has %.1f GiB for a shard, and server %s %.1f GiB, whose %s is full "
                "first: give both the same",
                key, string(most, "name"), cli_count(most, figure) / GIB, string(least, "name"),
                cli_count(least, figure) / GIB, key);
}

void doctor_cluster_budgets(const struct doctor_view *v, struct doctor_report *r)
{
    uint32_t count = r->count;
    budget_look(v, r, "memory_max", "memory");
    budget_look(v, r, "disk_max", "disk");
    if (r->count == count)
        doctor_fine(r, "alike on all servers");
}

void doctor_cluster_room(const struct doctor_view *v, struct doctor_report *r)
{
    uint32_t count = r->count;
    char name[DOCTOR_NAME];
    for (size_t i = 0; i < json_count(v->servers); i++) {
        const struct json *s = json_array_at(v->servers, i);
        double disk = cli_count(s, "disk_bytes"), disk_max = cli_count(s, "disk_max"),
               stored = cli_count(s, "rows_store"), rows = cli_count(s, "rows_memory") + stored;
        doctor_cluster_name(s, name);
        if (disk_max > 0 && disk > DISK_FULL * disk_max)
            doctor_wrong(r,
                         "server %s has filled %.0f %% of its disk (%.1f of %.1f GiB), and refuses "
                         "pushes when it is full: raise disk in its file, or let other servers "
                         "have some (shoal add, shoal rebalance)",
                         name, 100 * disk / disk_max, disk / GIB, disk_max / GIB);
        if (stored > rows / 2)
            doctor_note(r,
                        "server %s has %.0f %% of its rows on disk alone: its tables are larger "
                        "than its memory, %.1f GiB, and pulls wait for the disk: raise memory in "
                        "its file, or let other servers have some (shoal add, shoal rebalance)",
                        name, 100 * stored / rows, cli_count(s, "memory_max") / GIB);
    }
    if (r->count == count)
        doctor_fine(r, "no disk is nearly full, and no table mostly on disk");
}

void doctor_cluster_map(const struct doctor_view *v, struct doctor_report *r)
{
    uint32_t count = r->count;
    size_t shards = json_count(v->servers);
    const struct json *most = NULL;
    double rows = 0;
    char name[DOCTOR_NAME];
    if (!json_absent(json_get(v->cluster, "moves"))) {
        doctor_fine(r, "tablets move: `shoal status` shows how far they are");
        return;
    }
    for (size_t i = 0; i < shards; i++) {
        const struct json *s = json_array_at(v->servers, i);
        rows += cli_count(s, "rows");
        if (most == NULL || cli_count(s, "rows") > cli_count(most, "rows"))
            most = s;
        if (cli_count(s, "tablets") == 0 && cli_count(v->cluster, "tablets") > 0)
            doctor_note(r,
                        "shard %.0f (server %s) leads no tablet: `shoal rebalance` gives it some",
                        cli_count(s, "shard"), doctor_cluster_name(s, name));
    }
    if (rows > ROWS_MANY && cli_count(most, "rows") > ROWS_UNEVEN * rows / (double)shards)
        doctor_note(r,
                    "shard %.0f (server %s) has %.0f %% of the rows of %zu shards: `shoal "
                    "rebalance --dry-run` shows what would move",
                    cli_count(most, "shard"), doctor_cluster_name(most, name),
                    100 * cli_count(most, "rows") / rows, shards);
    if (r->count == count)
        doctor_fine(r, "even");
}
