/* sight_servers.c: what is wrong with servers and copies; sight.h.
 *
 * A server has one sentence for each kind of fault, whatever the number of its shards: the shards
 * with the fault are counted first (struct ill), and told then. */
#include "proto/base/array.h"
#include "proto/base/hash.h"
#include "proto/base/text.h"
#include "server/coord/core/awaited.h"
#include "server/coord/core/core.h"
#include "server/coord/fleet/add.h"
#include "server/coord/job/sight.h"
#include "server/coord/job/sight_inner.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECOND_NS UINT64_C(1000000000)
/* A server whose disk hangs says so every second: after this silence the server has ended. */
#define HANG_TOLD_NS (5 * SECOND_NS)
/* A sync that has lasted for longer is told. */
#define SYNC_MS 2000u

/* ---- disks and loops that hang --------------------------------------------------------------- */

int coord_sight_disk(struct coord_fleet *f, struct coord_ask *a)
{
    const struct wire_SERVER_DISK *told = &a->request->u.SERVER_DISK;
    int rc = coord_allowed_claim(f, told->server, &a->who, &a->e);
    for (uint32_t i = 0; rc == 0 && i < f->members.shards; i++) {
        struct coord_shard *s = &f->members.shard[i];
        if (s->server[0] == 0 || strcmp(s->server, told->server) != 0)
            continue;
        s->hang_s = told->seconds;
        s->loop_s = 0;
        if (s->index == told->shard_index)
            s->loop_s = told->loop_seconds;
        s->hang_ns = 0;
        if (s->hang_s > 0 || s->loop_s > 0)
            s->hang_ns = env_now_ns(f->env);
    }
    return rc;
}

/* Returns the seconds of a hang now that had lasted `seconds` when it was told; 0: none was, or its
 * server no longer says so. */
static uint64_t hang_now(const struct coord_fleet *f, const struct coord_shard *s, uint32_t seconds)
{
    uint64_t passed = env_now_ns(f->env) - s->hang_ns;
    if (s->hang_ns == 0 || seconds == 0 || passed > HANG_TOLD_NS)
        return 0;
    return seconds + passed / SECOND_NS;
}

uint64_t coord_sight_hangs(const struct coord_fleet *f, uint32_t shard)
{
    const struct coord_shard *s = &f->members.shard[shard];
    uint64_t hangs = hang_now(f, s, s->hang_s), passed = env_now_ns(f->env) - s->beat_ns;
    if (hangs == 0 && s->seen && s->figures.sync_ms > SYNC_MS && passed < HANG_TOLD_NS)
        hangs = s->figures.sync_ms / 1000;
    return hangs;
}

bool coord_sight_hung(const struct coord_job *j, uint32_t shard)
{
    const struct coord_shard *s = &j->fleet->members.shard[shard];
    return coord_sight_hangs(j->fleet, shard) > 0 || hang_now(j->fleet, s, s->loop_s) > 0 ||
           coord_awaited_unheard(j, s);
}

/* ---- servers that belong here ---------------------------------------------------------------- */

/* A later fault explains an earlier one of another shard of the server, other than SHORT. */
enum fault { FAULT_NONE, FAULT_SHORT, FAULT_SILENT, FAULT_LOOP, FAULT_DISK };

/* The shards of one server that have a fault. */
struct ill {
    enum fault fault;      /* the one that explains those of all of them */
    uint32_t shard, count; /* the first with that fault; all of them */
    uint64_t seconds;      /* the longest */
};

struct ills {
    struct ill *ill; /* owned (count) */
    uint32_t count, capacity;
};

static enum fault fault_of(const struct coord_job *j, uint32_t shard, uint64_t *seconds)
{
    const struct coord_fleet *f = j->fleet;
    const struct coord_shard *s = &f->members.shard[shard];
    if ((*seconds = coord_sight_hangs(f, shard)) > 0)
        return FAULT_DISK;
    if ((*seconds = hang_now(f, s, s->loop_s)) > 0)
        return FAULT_LOOP;
    *seconds = coord_awaited_silent_ns(j, s) / SECOND_NS;
    if (coord_awaited_unheard(j, s))
        return FAULT_SILENT;
    *seconds = (env_now_ns(f->env) - s->short_ns) / SECOND_NS;
    if (s->short_ns != 0)
        return FAULT_SHORT;
    return FAULT_NONE;
}

/* Counts a shard to those of its server with faults of the same kind. Without memory it is not
 * told. */
static void ill_count(const struct coord_job *j, struct ills *all, uint32_t shard, enum fault fault,
                      uint64_t seconds)
{
    const struct coord_shard *member = j->fleet->members.shard;
    uint32_t i = all->count;
    for (; i > 0; i--) /* mostly the last one: a server's numbers are given one after the other */
        if ((all->ill[i - 1].fault == FAULT_SHORT) == (fault == FAULT_SHORT) &&
            strcmp(member[all->ill[i - 1].shard].server, member[shard].server) == 0)
            break;
    if (i == 0) {
        if (array_room(&all->ill, all->count, &all->capacity, 16) != 0)
            return;
        i = ++all->count;
        all->ill[i - 1] = (struct ill){.fault = FAULT_NONE};
    }
    struct ill *ill = &all->ill[i - 1];
    ill->count++;
    if (fault > ill->fault) {
        ill->fault = fault;
        ill->shard = shard;
        ill->seconds = 0;
    }
    if (fault == ill->fault && seconds > ill->seconds)
        ill->seconds = seconds;
}

/* Writes "shard 3", "30 shards" or "12 of its 30 shards". */
static const char *shards_text(const struct coord_job *j, const struct ill *ill, char out[48])
{
    uint32_t all = coord_replace_shards(j->fleet, j->fleet->members.shard[ill->shard].server);
    if (ill->count == 1)
        (void)snprintf(out, 48, "shard %u", ill->shard);
    else if (ill->count == all)
        (void)snprintf(out, 48, "%u shards", all);
    else
        (void)snprintf(out, 48, "%u of its %u shards", ill->count, all);
    return out;
}

static void silent_say(const struct coord_job *j, const struct ill *ill, const char *shards,
                       struct json *list)
{
    const struct coord_shard *s = &j->fleet->members.shard[ill->shard];
    bool away = coord_awaited_silent(j, s); /* before that it may come back */
    char ways[ERR_TEXT_MAX];
    coord_sight_say(list, "server_silent", s->server,
                    "server %s (%s, %s%s) is not heard for %" PRIu64
                    " s: see if its process runs, its machine and its network; if it has ended, "
                    "start it again%s%s",
                    s->server, shards, text_if(ill->count > 1, "the first at "),
                    text_unless_empty(s->endpoint, "not seen yet"), ill->seconds,
                    text_if(away, "; "), text_if(away, coord_add_ways(j->fleet, s->server, ways)));
}

static void ill_say(const struct coord_job *j, const struct ill *ill, struct json *list)
{
    const struct coord_shard *s = &j->fleet->members.shard[ill->shard];
    char shards[48];
    shards_text(j, ill, shards);
    if (ill->fault == FAULT_DISK)
        coord_sight_say(list, "disk_hangs", s->server,
                        "server %s (%s): its disk has not answered for %" PRIu64
                        " s: look at that disk and its machine's kernel log; a restart would hang "
                        "as well",
                        s->server, shards, ill->seconds);
    else if (ill->fault == FAULT_LOOP)
        coord_sight_say(
            list, "loop_hangs", s->server,
            "server %s (%s): its loop has made no progress for %" PRIu64
            " s, though its process runs: it waits for a file system, so see its disk, or it is "
            "stuck: `shoal doctor --bundle` there packs what is known, and a restart ends it",
            s->server, shards, ill->seconds);
    else if (ill->fault == FAULT_SILENT)
        silent_say(j, ill, shards, list);
    else
        coord_sight_say(list, "disk_short", s->server,
                        "server %s (%s) takes no pushes for %" PRIu64
                        " s: too little of its disk is free: free some, or lower its disk_free%s",
                        s->server, shards, ill->seconds,
                        text_if(s->figures.disk_max > 0, ", or raise its disk"));
}

static void members_say(const struct coord_job *j, struct json *list)
{
    struct ills all = {.ill = NULL};
    uint64_t seconds;
    for (uint32_t i = 0; i < j->fleet->members.shards; i++) {
        const struct coord_shard *s = &j->fleet->members.shard[i];
        if (s->server[0] == 0 || coord_cluster_refused(j->fleet, s->server, s->index) != NULL)
            continue;
        enum fault fault = fault_of(j, i, &seconds);
        if (fault != FAULT_NONE)
            ill_count(j, &all, i, fault, seconds);
    }
    for (uint32_t i = 0; i < all.count; i++)
        ill_say(j, &all.ill[i], list);
    free(all.ill);
}

/* ---- sentences that are alike ---------------------------------------------------------------- */

struct alike {
    uint64_t words; /* a hash */
    uint32_t first, count;
};

struct alikes {
    struct alike *alike; /* owned (count) */
    uint32_t count, capacity;
};

/* Counts one to those with the same words. Without memory it is not told. */
static void alike_count(struct alikes *all, uint64_t words, uint32_t one)
{
    uint32_t i = all->count;
    while (i > 0 && all->alike[i - 1].words != words)
        i--;
    if (i > 0)
        all->alike[i - 1].count++;
    else if (array_room(&all->alike, all->count, &all->capacity, 16) == 0)
        all->alike[all->count++] = (struct alike){words, one, 1};
}

/* ---- servers that are not taken -------------------------------------------------------------- */

/* Counts the shards of servers that were drained, or of the other ones that are not taken: by
 * server and reason. */
static void strangers_count(const struct coord_fleet *f, bool drained, struct alikes *all)
{
    for (uint32_t i = 0; i < f->cluster.strangers; i++) {
        const struct coord_stranger *s = &f->cluster.stranger[i];
        if (s->drained == drained && coord_cluster_stranger_heard(f, s))
            alike_count(all, hash_bytes(s->server, strlen(s->server), coord_since_words(s->text)),
                        i);
    }
}

static void strangers_say(const struct coord_fleet *f, struct json *list)
{
    struct alikes all = {.alike = NULL};
    char shards[32];
    strangers_count(f, false, &all);
    for (uint32_t i = 0; i < all.count; i++) {
        const struct coord_stranger *s = &f->cluster.stranger[all.alike[i].first];
        (void)snprintf(shards, sizeof shards, "shard %u", s->index);
        if (all.alike[i].count > 1)
            (void)snprintf(shards, sizeof shards, "%u shards", all.alike[i].count);
        coord_sight_say(list, "server_refused", s->server,
                        "server %s (%s of it) is there and is not taken: %s", s->server, shards,
                        s->text);
    }
    free(all.alike);
    if (f->cluster.unlisted_ns != 0 &&
        env_now_ns(f->env) - f->cluster.unlisted_ns <= 2 * coord_fleet_lease_ns(f))
        coord_sight_say(
            list, "server_refused", "",
            "more than %u shards are there and are not taken: the others read the reason in their "
            "own logs",
            COORD_STRANGERS);
}

void coord_sight_drained(const struct coord_job *j, struct json *notes)
{
    const struct coord_fleet *f = j->fleet;
    struct alikes all = {.alike = NULL};
    char text[ERR_TEXT_MAX];
    strangers_count(f, true, &all);
    for (uint32_t i = 0; i < all.count; i++) {
        const char *server = f->cluster.stranger[all.alike[i].first].server;
        const char *what = "it: switch it off";
        if (coord_copies_on_any(f, server))
            what = "these: its other shards go on";
        (void)snprintf(text, sizeof text, "server %s is drained (shards: %u), and no job needs %s",
                       server, all.alike[i].count, what);
        json_append_string(notes, text);
    }
    free(all.alike);
}

/* ---- copies ---------------------------------------------------------------------------------- */

/* A problem of a shard's copies, and the servers that the fact is about, whatever is told of them;
 * NULL: the sentence up to the advice is the fact. */
struct copies_look {
    const char *problem;
    bool (*find)(const struct coord_fleet *f, uint32_t shard, char *text, size_t bytes);
    void (*servers)(const struct coord_fleet *f, uint32_t shard, char *text, size_t bytes);
};

/* text: found of the shard, "shard N: ..."; it may become the fact's. */
static void copies_fact(const struct coord_fleet *f, const struct copies_look *look, uint32_t shard,
                        char text[ERR_TEXT_MAX], struct json *list)
{
    char servers[ERR_TEXT_MAX] = "";
    if (look->servers != NULL)
        look->servers(f, shard, servers, sizeof servers);
    text[strcspn(text, ";")] = '\0';
    coord_sight_fact(list, text_unless_empty(servers, &text[strcspn(text, ":")]));
}

/* Tells one problem of copies of all shards: of those alike the first, with the number of the
 * others. */
static void copies_say(const struct coord_fleet *f, const struct copies_look *look,
                       struct json *list)
{
    struct alikes all = {.alike = NULL};
    char text[ERR_TEXT_MAX], shard[16], others[64] = "";
    for (uint32_t i = 0; i < f->members.shards; i++)
        if (look->find(f, i, text, sizeof text))
            alike_count(&all, coord_since_words(text), i);
    for (uint32_t i = 0; i < all.count; i++) {
        const struct alike *a = &all.alike[i];
        (void)look->find(f, a->first, text, sizeof text);
        (void)snprintf(shard, sizeof shard, "%u", a->first);
        (void)snprintf(others, sizeof others, "; the same holds for %u other shard%s", a->count - 1,
                       text_if(a->count > 2, "s"));
        coord_sight_say(list, look->problem, shard, "%s%s", text, text_if(a->count > 1, others));
        copies_fact(f, look, a->first, text, list);
    }
    free(all.alike);
}

void coord_sight_servers(const struct coord_job *j, struct json *list)
{
    const struct coord_fleet *f = j->fleet;
    char text[ERR_TEXT_MAX];
    static const struct copies_look behind = {"copies", coord_copies_problem, coord_copies_behind},
                                    zone = {"one_zone", coord_copies_one_zone, NULL};
    copies_say(f, &behind, list);
    copies_say(f, &zone, list);
    if (coord_claims_waits(f, text, sizeof text))
        coord_sight_say(list, "claims", "", "%s", text);
    else if (coord_moves_problem(f, text, sizeof text))
        coord_sight_say(list, "moves", "", "%s", text);
    members_say(j, list);
    strangers_say(f, list);
}
