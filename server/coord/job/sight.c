/* sight.c: visitors, and sentences on what is wrong. */
#include "server/coord/job/sight.h"

#include "proto/base/array.h"
#include "proto/base/text.h"
#include "server/coord/core/awaited.h"
#include "server/coord/core/core.h"
#include "server/coord/fleet/add.h"
#include "server/coord/keep/checkpoint.h"
#include "server/coord/work/stall.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECOND_NS UINT64_C(1000000000)
/* A round trip is slow above SLOW_US, if it takes SLOW_TIMES as long as those of the others. */
#define SLOW_US 20000u
#define SLOW_TIMES 5u
/* A server whose disk hangs says so every 2 s: after this silence the server has ended. */
#define HANG_TOLD_NS (10 * SECOND_NS)

/* ---- visitors -------------------------------------------------------------------------------- */

static struct coord_visitor *visitor_of(struct coord_visitors *v,
                                        const struct wire_WORKER_JOIN *join)
{
    for (uint32_t i = 0; i < v->count; i++)
        if (v->visitor[i].pid == join->pid && strcmp(v->visitor[i].name, join->name) == 0)
            return &v->visitor[i];
    return NULL;
}

void coord_sight_visit(struct coord_fleet *f, const struct wire_WORKER_JOIN *join, const char *why)
{
    struct coord_visitors *v = f->visitors;
    struct coord_visitor *at = visitor_of(v, join);
    if (why == NULL) {
        if (at != NULL)
            *at = v->visitor[--v->count];
        return;
    }
    if (at == NULL &&
        (v->count == LIMIT_WORKERS || array_room(&v->visitor, v->count, &v->capacity, 16) != 0))
        return;
    if (at == NULL) {
        at = &v->visitor[v->count++];
        *at = (struct coord_visitor){.pid = join->pid};
        memcpy(at->name, join->name, sizeof at->name);
    }
    (void)snprintf(at->why, sizeof at->why, "%s", why);
    at->heard_ns = env_now_ns(f->env);
}

void coord_sight_tick(struct coord_fleet *f)
{
    struct coord_visitors *v = f->visitors;
    uint64_t now = env_now_ns(f->env);
    for (uint32_t i = 0; i < v->count;)
        if (now - v->visitor[i].heard_ns > 3 * coord_fleet_lease_ns(f))
            v->visitor[i] = v->visitor[--v->count];
        else
            i++;
}

void coord_sight_close(struct coord_visitors *v)
{
    free(v->visitor);
    *v = (struct coord_visitors){0};
}

struct json *coord_sight_idle(const struct coord_fleet *f)
{
    struct json *list = json_new_array();
    for (uint32_t i = 0; i < f->visitors->count; i++) {
        const struct coord_visitor *v = &f->visitors->visitor[i];
        struct json *item = json_new_object();
        json_set_string(item, "name", v->name);
        json_set_int(item, "pid", v->pid);
        json_set_string(item, "why", v->why);
        json_set_int(item, "silent_ms", (int64_t)((env_now_ns(f->env) - v->heard_ns) / 1000000));
        json_append(list, item);
    }
    return list;
}

/* ---- disks that hang ------------------------------------------------------------------------- */

int coord_sight_disk(struct coord_fleet *f, struct coord_ask *a)
{
    const struct wire_SERVER_DISK *told = &a->request->u.SERVER_DISK;
    int rc = coord_allowed_claim(f, told->server, &a->who, &a->e);
    for (uint32_t i = 0; rc == 0 && i < f->members.shards; i++) {
        struct coord_shard *s = &f->members.shard[i];
        if (s->server[0] == 0 || strcmp(s->server, told->server) != 0)
            continue;
        s->hang_ns = told->seconds > 0 ? env_now_ns(f->env) : 0;
        s->hang_s = told->seconds;
    }
    return rc;
}

uint64_t coord_sight_hangs(const struct coord_fleet *f, uint32_t shard)
{
    const struct coord_shard *s = &f->members.shard[shard];
    uint64_t passed = env_now_ns(f->env) - s->hang_ns;
    if (s->hang_ns == 0 || passed > HANG_TOLD_NS)
        return 0;
    return s->hang_s + passed / SECOND_NS;
}

/* ---- problems -------------------------------------------------------------------------------- */

__attribute__((format(printf, 2, 3))) static void say(struct json *list, const char *form, ...)
{
    char text[2 * ERR_TEXT_MAX];
    va_list values;
    va_start(values, form);
    (void)vsnprintf(text, sizeof text, form, values);
    va_end(values);
    json_append_string(list, text);
}

static void strangers_say(const struct coord_fleet *f, struct json *list)
{
    for (uint32_t i = 0; i < f->cluster.strangers; i++) {
        const struct coord_stranger *s = &f->cluster.stranger[i];
        if (coord_cluster_stranger_heard(f, s))
            say(list, "server %s (shard %u of it) is there and is not taken: %s", s->server,
                s->index, s->text);
    }
    if (f->cluster.unlisted_ns != 0 &&
        env_now_ns(f->env) - f->cluster.unlisted_ns <= 2 * coord_fleet_lease_ns(f))
        say(list,
            "more than %u shards are there and are not taken: the others read the reason in their "
            "own logs",
            COORD_STRANGERS);
}

static void copies_say(const struct coord_fleet *f, struct json *list)
{
    char text[ERR_TEXT_MAX];
    for (uint32_t i = 0; i < f->members.shards; i++) {
        if (coord_copies_problem(f, i, text, sizeof text))
            json_append_string(list, text);
        if (coord_copies_one_zone(f, i, text, sizeof text))
            json_append_string(list, text);
    }
    if (coord_claims_waits(f, text, sizeof text) || coord_moves_problem(f, text, sizeof text))
        json_append_string(list, text);
}

static void servers_say(const struct coord_job *j, struct json *list)
{
    char ways[ERR_TEXT_MAX];
    uint64_t hangs;
    for (uint32_t i = 0; i < j->fleet->members.shards; i++) {
        const struct coord_shard *s = &j->fleet->members.shard[i];
        if (s->server[0] == 0 || coord_cluster_refused(j->fleet, s->server, s->index) != NULL)
            continue;
        if ((hangs = coord_sight_hangs(j->fleet, i)) > 0)
            say(list,
                "server %s (shard %u): its disk has not answered for %" PRIu64
                " s: look at that disk and its machine's kernel log; a restart would hang as well",
                s->server, i, hangs);
        else if (coord_awaited_silent(j, s))
            say(list, "server %s (shard %u, %s) is not heard for %" PRIu64 " s: start it again; %s",
                s->server, i, text_unless_empty(s->endpoint, "not seen yet"),
                coord_awaited_silent_ns(j, s) / SECOND_NS,
                coord_add_ways(j->fleet, s->server, ways));
        else if (s->short_ns != 0)
            say(list,
                "server %s (shard %u) takes no pushes for %" PRIu64
                " s: too little of its disk is free",
                s->server, i, (env_now_ns(j->fleet->env) - s->short_ns) / SECOND_NS);
    }
}

static void workers_say(const struct coord_job *j, struct json *list)
{
    char text[ERR_TEXT_MAX];
    uint64_t now = env_now_ns(j->fleet->env);
    for (uint32_t i = 0; i < j->workers.count; i++) {
        const struct coord_worker *w = &j->workers.worker[i];
        if (coord_stall_cut(j, w) != COORD_NOBODY) {
            coord_stall_cut_text(j->fleet, w, text, sizeof text);
            say(list, "%s", text);
        }
        if (w->barred_ns > now)
            say(list,
                "worker %s gets no work for another %" PRIu64
                " s: it beats, and has not got on with what it had, %u times in a row",
                w->name, (w->barred_ns - now) / SECOND_NS, w->stalls);
    }
    for (uint32_t i = 0; i < j->fleet->visitors->count; i++)
        if (j->fleet->visitors->visitor[i].why[0] != 0)
            say(list, "worker %s is there and is not taken: %s",
                j->fleet->visitors->visitor[i].name, j->fleet->visitors->visitor[i].why);
}

static void folders_say(const struct coord_job *j, struct json *list)
{
    char text[ERR_TEXT_MAX];
    for (uint32_t i = 0; coord_errand_hangs(j->fleet, i, text, sizeof text); i++)
        say(list, "%s: see its file system and the network to it; what is to be done there waits",
            text);
    if (coord_checkpoint_late(j, text, sizeof text))
        say(list, "%s", text);
}

/* ---- slow ways ------------------------------------------------------------------------------- */

static bool slower(uint32_t us, uint32_t than_us)
{
    return us > SLOW_US && us / SLOW_TIMES > than_us;
}

/* Reports each server that a worker finds slower than all its others, once a server: by the worker
 * that finds it slowest. */
static void slow_servers_say(const struct coord_job *j, struct json *list)
{
    for (uint32_t s = 0; s < j->fleet->members.shards; s++) {
        const struct wire_WORKER_BEAT *worst = NULL;
        const char *name = "";
        uint32_t found = 0;
        for (uint32_t i = 0; i < j->workers.count; i++) {
            const struct wire_WORKER_BEAT *f = &j->workers.worker[i].figures;
            if (f->slow_shard != s || f->usual_us == 0 || !slower(f->slow_us, f->usual_us))
                continue;
            found++;
            if (worst == NULL || f->slow_us > worst->slow_us) {
                worst = f;
                name = j->workers.worker[i].name;
            }
        }
        if (coord_awaited_silent(j, &j->fleet->members.shard[s]))
            continue; /* servers_say tells of it: it is not slow, but away */
        const char *see = ": see the network between the two";
        if (found > 1)
            see = "; more workers find it slow: see its machine and network";
        if (worst != NULL)
            say(list, "server %s (shard %u) answers worker %s in %u ms, the others in %.1f ms%s",
                j->fleet->members.shard[s].server, s, name, worst->slow_us / 1000,
                (double)worst->usual_us * 1e-3, see);
    }
}

/* Returns how long servers take to answer a worker, without its slowest server if there are
 * others. */
static uint32_t usual_us(const struct coord_worker *w)
{
    if (w->figures.usual_us != 0)
        return w->figures.usual_us;
    return w->figures.slow_us;
}

/* Reports each worker that finds all servers slower than any other worker does. */
static void slow_workers_say(const struct coord_job *j, struct json *list)
{
    for (uint32_t i = 0; i < j->workers.count; i++) {
        const struct coord_worker *w = &j->workers.worker[i];
        uint32_t others = 0;
        for (uint32_t k = 0; k < j->workers.count; k++)
            if (k != i && usual_us(&j->workers.worker[k]) > others)
                others = usual_us(&j->workers.worker[k]);
        if (others != 0 && slower(usual_us(w), others))
            say(list,
                "worker %s gets answers of servers in %u ms, the other workers in %.1f ms: see its "
                "machine and network",
                w->name, usual_us(w) / 1000, (double)others * 1e-3);
    }
}

struct json *coord_sight_problems(const struct coord_job *j)
{
    struct json *list = json_new_array();
    if (j->fleet->cluster.taken_over && j->at.phase == PHASE_NONE)
        say(list,
            "this coordinator began with an empty data_dir and took the cluster over from its "
            "servers: a job that ran before is not known here; %s; --start-from fleet begins a job "
            "with the rows as they are",
            j->fleet->cluster.way_back);
    if (j->fleet->options.problems != NULL)
        j->fleet->options.problems(j->fleet->options.context, list);
    copies_say(j->fleet, list);
    servers_say(j, list);
    strangers_say(j->fleet, list);
    workers_say(j, list);
    folders_say(j, list);
    slow_servers_say(j, list);
    slow_workers_say(j, list);
    return list;
}

struct json *coord_sight_seconds(struct coord_fleet *f, const struct json *sentences)
{
    struct json *list = json_new_array();
    for (size_t i = 0; i < json_count(sentences); i++)
        json_append_number(
            list, coord_since_seconds(&f->since, json_as_string(json_array_at(sentences, i), ""),
                                      env_now_ns(f->env)));
    return list;
}
