/* sight.c: visitors, and sentences on what is wrong; those on servers: sight_servers.c. */
#include "server/coord/job/sight.h"

#include "proto/base/array.h"
#include "proto/base/minmax.h"
#include "proto/base/text.h"
#include "server/coord/core/awaited.h"
#include "server/coord/core/core.h"
#include "server/coord/core/phase.h"
#include "server/coord/figures/notes.h"
#include "server/coord/job/crew.h"
#include "server/coord/job/sight_inner.h"
#include "server/coord/keep/checkpoint.h"
#include "server/coord/work/pace.h"
#include "server/coord/work/ring_job.h"
#include "server/coord/work/stall.h"
#include "server/coord/work/task.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECOND_NS UINT64_C(1000000000)
/* A round trip is slow above SLOW_US, if it takes SLOW_TIMES as long as those of the others. */
#define SLOW_US 20000u
#define SLOW_TIMES 5u
/* A server whose beat is later than that may have ended: its answers are not slow. */
#define LATE_NS (WIRE_BEAT_MS * UINT64_C(1500000))
#define LOST_NS (60 * SECOND_NS) /* a dead worker is told for so long */

/* ---- visitors -------------------------------------------------------------------------------- */

static struct coord_visitor *visitor_of(struct coord_visitors *v, const char *name, uint32_t pid)
{
    for (uint32_t i = 0; i < v->count; i++)
        if (v->visitor[i].pid == pid && strcmp(v->visitor[i].name, name) == 0)
            return &v->visitor[i];
    return NULL;
}

/* Returns the visitor, heard now; NULL: there are too many. */
static struct coord_visitor *visitor_note(struct coord_fleet *f, const char *name, uint32_t pid)
{
    struct coord_visitors *v = f->visitors;
    struct coord_visitor *at = visitor_of(v, name, pid);
    if (at == NULL &&
        (v->count == LIMIT_WORKERS || array_room(&v->visitor, v->count, &v->capacity, 16) != 0))
        return NULL;
    if (at == NULL)
        at = &v->visitor[v->count++];
    *at = (struct coord_visitor){.pid = pid, .heard_ns = env_now_ns(f->env)};
    (void)snprintf(at->name, sizeof at->name, "%s", name);
    return at;
}

void coord_sight_visit(struct coord_fleet *f, const struct wire_WORKER_JOIN *join, peer_t from,
                       const char *why)
{
    struct coord_visitors *v = f->visitors;
    struct coord_visitor *at;
    if (why == NULL && (at = visitor_of(v, join->name, join->pid)) != NULL)
        *at = v->visitor[--v->count];
    if (why == NULL || (at = visitor_note(f, join->name, join->pid)) == NULL)
        return;
    (void)snprintf(at->why, sizeof at->why, "%s", why);
    at->lanes = MIN(join->lanes_max, LIMIT_LANES);
    at->peer = from;
    at->external = coord_crew_external(join);
}

void coord_sight_gone(struct coord_fleet *f, peer_t peer)
{
    struct coord_visitors *v = f->visitors;
    for (uint32_t i = 0; i < v->count;)
        if (v->visitor[i].peer == peer)
            v->visitor[i] = v->visitor[--v->count];
        else
            i++;
}

static bool is_free(const struct coord_fleet *f, bool external, const struct coord_visitor *v)
{
    return v->external == external && !v->lost && v->why[0] == 0 &&
           env_now_ns(f->env) - v->heard_ns <= COORD_UNHEARD_NS;
}

uint32_t coord_sight_places(const struct coord_fleet *f, bool external, uint32_t most,
                            uint32_t *workers)
{
    uint32_t with[LIMIT_LANES + 1] = {0}, places = 0;
    *workers = 0;
    for (uint32_t i = 0; i < f->visitors->count; i++)
        if (is_free(f, external, &f->visitors->visitor[i])) {
            with[f->visitors->visitor[i].lanes]++;
            (*workers)++;
        }
    uint32_t left = most == 0 ? *workers : MIN(most, *workers);
    for (uint32_t lanes = 0; lanes <= LIMIT_LANES; lanes++) {
        uint32_t taken = MIN(left, with[lanes]);
        places += taken * lanes;
        left -= taken;
    }
    return places;
}

uint32_t coord_sight_free(const struct coord_fleet *f, bool external, peer_t but)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < f->visitors->count; i++)
        count += (but == 0 || f->visitors->visitor[i].peer != but) &&
                 is_free(f, external, &f->visitors->visitor[i]);
    return count;
}

void coord_sight_lost(struct coord_fleet *f, const struct coord_worker *w)
{
    struct coord_visitor *at = visitor_note(f, w->name, w->pid);
    if (at != NULL)
        at->lost = true;
}

void coord_sight_tick(struct coord_fleet *f)
{
    struct coord_visitors *v = f->visitors;
    uint64_t now = env_now_ns(f->env);
    for (uint32_t i = 0; i < v->count;) {
        uint64_t kept_ns = 3 * coord_fleet_lease_ns(f);
        if (v->visitor[i].lost)
            kept_ns = LOST_NS;
        if (now - v->visitor[i].heard_ns > kept_ns)
            v->visitor[i] = v->visitor[--v->count];
        else
            i++;
    }
}

void coord_sight_forgive(struct coord_fleet *f, uint64_t gap_ns, uint64_t now_ns)
{
    struct coord_visitors *v = f->visitors;
    for (uint32_t i = 0; i < v->count; i++)
        v->visitor[i].heard_ns = coord_later(v->visitor[i].heard_ns, gap_ns, now_ns);
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
        if (v->lost)
            continue;
        struct json *item = json_new_object();
        json_set_string(item, "name", v->name);
        json_set_int(item, "pid", v->pid);
        json_set_string(item, "why", v->why);
        json_set_int(item, "silent_ms", (int64_t)((env_now_ns(f->env) - v->heard_ns) / 1000000));
        json_append(list, item);
    }
    return list;
}

/* ---- problems -------------------------------------------------------------------------------- */

void coord_sight_say(struct json *list, const char *problem, const char *of, const char *form, ...)
{
    char text[2 * ERR_TEXT_MAX], fact[sizeof text];
    struct json *item = json_new_object();
    va_list values;
    va_start(values, form);
    (void)vsnprintf(text, sizeof text, form, values);
    va_end(values);
    json_set_string(item, "problem", problem);
    json_set_string(item, "of", of);
    json_set_string(item, "text", text);
    json_append(list, item);
    coord_since_fact(text, fact, sizeof fact);
    coord_sight_fact(list, text_unless_empty(of, fact));
}

void coord_sight_fact(struct json *list, const char *fact)
{
    struct json *item = json_array_at(list, json_count(list) - 1);
    char text[2 * ERR_TEXT_MAX];
    (void)snprintf(text, sizeof text, "%s %s", json_as_string(json_get(item, "problem"), ""), fact);
    json_set_string(item, "fact", text);
}

static void cluster_say(const struct coord_job *j, struct json *list)
{
    const struct coord_options *o = &j->fleet->options;
    struct json *daemon = json_new_array();
    char text[ERR_TEXT_MAX];
    if (j->fleet->cluster.taken_over && j->at.phase == PHASE_NONE)
        coord_sight_say(
            list, "taken_over", "",
            "this coordinator began with an empty data_dir and took the cluster over from its "
            "servers: a job that ran before is not known here; %s; --start-from fleet begins a job "
            "with the rows as they are",
            j->fleet->cluster.way_back);
    if (o->problems != NULL)
        o->problems(o->context, daemon);
    if (coord_writes_problem(&j->fleet->writes, text_or(o->store, "memory"),
                             env_now_ns(j->fleet->env), text, sizeof text))
        coord_sight_say(list, "store_slow", "", "%s", text);
    for (size_t i = 0; i < json_count(daemon); i++)
        coord_sight_say(list, "keys", "", "%s", json_as_string(json_array_at(daemon, i), ""));
    json_free(daemon);
}

/* A worker that counts as dead is a visitor that is lost. */
static void visitors_say(const struct coord_fleet *f, struct json *list)
{
    for (uint32_t i = 0; i < f->visitors->count; i++) {
        const struct coord_visitor *v = &f->visitors->visitor[i];
        if (v->lost)
            coord_sight_say(
                list, "worker_lost", v->name,
                "worker %s was not heard for its lease, and counts as dead for %" PRIu64
                " s: its lanes go to others; see its log and its machine, and start it again if it "
                "has ended",
                v->name, (env_now_ns(f->env) - v->heard_ns) / SECOND_NS);
        else if (v->why[0] != 0)
            coord_sight_say(list, "worker_refused", v->name,
                            "worker %s is there and is not taken: %s", v->name, v->why);
    }
}

static void worker_say(const struct coord_job *j, const struct coord_worker *w, struct json *list)
{
    char text[ERR_TEXT_MAX];
    uint64_t now = env_now_ns(j->fleet->env), silent = now - w->beat_ns;
    if (silent > MIN(COORD_UNHEARD_NS, coord_lease_ns(j) / 2))
        coord_sight_say(
            list, "worker_silent", w->name,
            "worker %s is not heard for %" PRIu64
            " s: see if its process runs, its machine and its network; after %.3g s its lanes go "
            "to others",
            w->name, silent / SECOND_NS, (double)coord_lease_ns(j) * 1e-9);
    if (coord_stall_cut_seen(j, w)) {
        coord_stall_cut_text(j->fleet, w, text, sizeof text);
        coord_sight_say(list, "worker_cut_off", w->name, "%s", text);
    }
    if (coord_pace_text(j, w, text, sizeof text))
        coord_sight_say(list, "worker_behind", w->name, "%s", text);
    if (w->barred_ns > now)
        coord_sight_say(list, "worker_stalled", w->name,
                        "worker %s gets no work for another %" PRIu64
                        " s: it beats, and has not got on with what it had, %u times in a row",
                        w->name, (w->barred_ns - now) / SECOND_NS, w->stalls);
}

static void ring_say(const struct coord_job *j, struct json *list)
{
    const struct coord_unable *u = &j->ring->unable;
    char text[ERR_TEXT_MAX];
    if (coord_ring_late(j, text, sizeof text))
        coord_sight_say(list, "ring_late", j->spec.name, "%s", text);
    for (uint32_t i = 0; i < COORD_UNABLE_MOST && coord_phase_running(j); i++)
        if (coord_unable_text(u, i, coord_now_ns(j), text, sizeof text))
            coord_sight_say(list, "ring_unable", u->of[i].name, "%s", text);
}

/* True when other jobs run, which may have all workers that there are (crew.h). */
static bool beside_others(const struct coord_job *j)
{
    bool others = false;
    COORD_EACH_SPACE (j->fleet, s)
        others = others || (s != j->space && j->fleet->spaces.use(j->fleet, s).runs);
    return others;
}

static void workers_say(const struct coord_job *j, struct json *list)
{
    uint64_t without = env_now_ns(j->fleet->env) - MAX(j->watch.worker_ns, j->phase_ns);
    for (uint32_t i = 0; i < j->workers.count; i++)
        worker_say(j, &j->workers.worker[i], list);
    ring_say(j, list);
    visitors_say(j->fleet, list);
    if (coord_phase_running(j) && j->workers.count == 0 && without > COORD_UNHEARD_NS)
        coord_sight_say(
            list, "no_workers", j->spec.name,
            "job %s has no worker for %" PRIu64
            " s%s: start a worker (systemctl start shoal-worker@NAME), or read in its log why it "
            "does not come%s%.300s",
            j->spec.name, without / SECOND_NS,
            text_if(beside_others(j), ", and gets one when another job gives one back or ends"),
            text_if(j->watch.failed[0] != 0, "; the last one left, "), j->watch.failed);
}

static void folders_say(const struct coord_job *j, struct json *list)
{
    char text[ERR_TEXT_MAX];
    for (uint32_t i = 0; coord_errand_hangs(j->fleet, i, text, sizeof text); i++)
        coord_sight_say(
            list, "folder_hangs", "",
            "%s: see its file system and the network to it; what is to be done there waits", text);
    if (coord_checkpoint_late(j, text, sizeof text))
        coord_sight_say(list, "checkpoint_late", j->spec.name, "%s", text);
}

/* ---- slow ways ------------------------------------------------------------------------------- */

static bool slower(uint32_t us, uint32_t than_us)
{
    return us > SLOW_US && us / SLOW_TIMES > than_us;
}

/* Returns the beat of a worker that finds a server slower than all its others; NULL: it finds none.
 * A server that hangs or has ended is not slow: coord_sight_servers tells of it. */
static const struct wire_WORKER_BEAT *slow_found(const struct coord_job *j, uint32_t worker)
{
    const struct coord_worker *w = &j->workers.worker[worker];
    const struct wire_WORKER_BEAT *f = &w->figures;
    const struct coord_members *m = &j->fleet->members;
    if (f->usual_us == 0 || !slower(f->slow_us, f->usual_us) || f->slow_shard >= m->shards ||
        coord_stall_cut_seen(j, w) || coord_sight_hung(j, f->slow_shard) ||
        coord_awaited_silent_ns(j, &m->shard[f->slow_shard]) > LATE_NS)
        return NULL;
    return f;
}

/* True when no other worker finds the server slower than this one. *more: another one finds it
 * slow. */
static bool slowest(const struct coord_job *j, uint32_t worker, bool *more)
{
    const struct coord_shard *member = j->fleet->members.shard;
    const struct wire_WORKER_BEAT *own = slow_found(j, worker);
    *more = false;
    for (uint32_t i = 0; own != NULL && i < j->workers.count; i++) {
        const struct wire_WORKER_BEAT *f = slow_found(j, i);
        if (i == worker || f == NULL ||
            strcmp(member[f->slow_shard].server, member[own->slow_shard].server) != 0)
            continue;
        *more = true;
        if (f->slow_us > own->slow_us || (f->slow_us == own->slow_us && i < worker))
            return false;
    }
    return own != NULL;
}

/* Reports each server that a worker finds slower than all its others, once a server: by the worker
 * that finds it slowest. */
static void slow_servers_say(const struct coord_job *j, struct json *list)
{
    bool more;
    for (uint32_t i = 0; i < j->workers.count; i++) {
        const struct wire_WORKER_BEAT *f = &j->workers.worker[i].figures;
        if (!slowest(j, i, &more))
            continue;
        const char *server = j->fleet->members.shard[f->slow_shard].server;
        const char *see = ": see the network between the two";
        if (more)
            see = "; more workers find it slow: see its machine and network";
        coord_sight_say(list, "server_slow", server,
                        "server %s (shard %u) answers worker %s in %u ms, the others in %.1f ms%s",
                        server, f->slow_shard, j->workers.worker[i].name, f->slow_us / 1000,
                        (double)f->usual_us * 1e-3, see);
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
            coord_sight_say(
                list, "worker_slow", w->name,
                "worker %s gets answers of servers in %u ms, the other workers in %.1f ms: see its "
                "machine and network",
                w->name, usual_us(w) / 1000, (double)others * 1e-3);
    }
}

struct json *coord_sight_found(const struct coord_job *j)
{
    struct json *list = json_new_array();
    cluster_say(j, list);
    coord_sight_servers(j, list);
    workers_say(j, list);
    folders_say(j, list);
    slow_servers_say(j, list);
    slow_workers_say(j, list);
    return list;
}

struct json *coord_sight_notes(const struct coord_job *j)
{
    struct json *notes = json_new_array();
    char text[160];
    uint32_t every = j->fleet->traces.every;
    coord_sight_drained(j, notes);
    if (coord_phase_running(j))
        coord_notes_lanes(j, coord_worker_heard(&j->workers), notes);
    coord_shares_notes(j->fleet, notes);
    if (every == 0)
        return notes;
    (void)snprintf(text, sizeof text,
                   "one batch in %u of each lane is traced: `shoal trace` lists them, `shoal trace "
                   "--every 0` ends it",
                   every);
    json_append_string(notes, text);
    return notes;
}

struct json *coord_sight_texts(const struct json *found)
{
    struct json *list = json_new_array();
    for (size_t i = 0; i < json_count(found); i++)
        json_append_string(list, json_as_string(json_get(json_array_at(found, i), "text"), ""));
    return list;
}

double coord_sight_seconds(struct coord_fleet *f, const struct json *problem)
{
    return coord_since_seconds(&f->since, json_as_string(json_get(problem, "fact"), ""),
                               env_now_ns(f->env));
}
