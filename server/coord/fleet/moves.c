/* moves.c: the invariants are in moves.h. */
#include "server/coord/fleet/moves.h"

#include "proto/base/assert.h"
#include "proto/base/log.h"
#include "proto/base/minmax.h"
#include "proto/base/text.h"
#include "server/coord/fleet/fleet.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TAKING_NS UINT64_C(10000000000) /* a group that takes longer is given up */
#define RETRY_NS UINT64_C(1000000000)   /* after a group that was given up */
#define SIZE_FIRST 4u

static const char PLAN_KEY[] = "moves", GROUP_KEY[] = "moves-group";

struct plan_record { /* value of "moves", then the goal, u16 each */
    uint32_t kind, unused, tablets, total;
    char drained[LIMIT_NAME];
};

static size_t group_bytes(const struct coord_group *g)
{
    return offsetof(struct coord_group, tablet) + g->count * sizeof g->tablet[0];
}

/* ---- the store ---- */

/* False: the store failed, or out of memory. */
static bool plan_put(struct coord_fleet *f)
{
    const struct coord_moves *m = &f->moves;
    struct plan_record r = {.kind = m->kind, .tablets = m->tablets, .total = m->total};
    size_t bytes = sizeof r + m->tablets * sizeof *m->goal;
    char *value = malloc(bytes);
    if (value == NULL)
        return false;
    memcpy(r.drained, m->drained, sizeof r.drained);
    memcpy(value, &r, sizeof r);
    memcpy(value + sizeof r, m->goal, m->tablets * sizeof *m->goal);
    bool good = coord_put(f, PLAN_KEY, value, bytes);
    free(value);
    return good;
}

static int group_load(struct coord_fleet *f, struct err *e)
{
    struct coord_group *g = &f->moves.group;
    void *value;
    size_t bytes;
    int rc = coord_store_get(f->store, GROUP_KEY, &value, &bytes, e);
    if (rc != 0)
        return coord_store_optional(rc);
    if (bytes <= sizeof *g)
        memcpy(g, value, bytes);
    bool fits = bytes >= offsetof(struct coord_group, tablet) && g->count <= WIRE_MOVE_TABLETS &&
                bytes == group_bytes(g);
    free(value);
    if (!fits)
        return err_set(e, SHOAL_E_CORRUPT, "the stored group of tablets has %zu bytes", bytes);
    return 0;
}

int coord_moves_open(struct coord_fleet *f, struct err *e)
{
    struct coord_moves *m = &f->moves;
    struct plan_record r = {0};
    void *value;
    size_t bytes;
    int rc = coord_store_get(f->store, PLAN_KEY, &value, &bytes, e);
    if (rc != 0)
        return coord_store_optional(rc);
    if (bytes >= sizeof r)
        memcpy(&r, value, sizeof r);
    if (bytes < sizeof r || bytes != sizeof r + r.tablets * sizeof *m->goal ||
        r.kind > MOVES_DRAIN || r.kind == MOVES_NONE) {
        free(value);
        return err_set(e, SHOAL_E_CORRUPT, "the stored plan of moves has %zu bytes", bytes);
    }
    memmove(value, (char *)value + sizeof r, bytes - sizeof r);
    *m = (struct coord_moves){.kind = (enum coord_moves_kind)r.kind,
                              .goal = value,
                              .tablets = r.tablets,
                              .total = r.total,
                              .size = SIZE_FIRST,
                              .all = r.tablets > 0};
    (void)snprintf(m->drained, sizeof m->drained, "%.*s", (int)sizeof r.drained - 1, r.drained);
    for (uint32_t i = 0; i < r.tablets; i++)
        if (!coord_member_used(&f->members, m->goal[i]))
            return err_set(e, SHOAL_E_CORRUPT, "the stored plan moves tablet %u to shard %u", i,
                           m->goal[i]);
    return group_load(f, e);
}

void coord_moves_close(struct coord_fleet *f)
{
    free(f->moves.goal);
    f->moves = (struct coord_moves){0};
}

/* ---- the plan ---- */

static uint32_t left(const struct coord_fleet *f)
{
    const struct coord_moves *m = &f->moves;
    uint32_t count = 0;
    for (uint32_t i = 0; i < MIN(m->tablets, f->cluster.tablets); i++)
        count += m->goal[i] != f->cluster.shard_of[i];
    return count;
}

/* Takes the plan, whose goal is copied, and stores it. NOMEM, IO. */
static int plan_take(struct coord_fleet *f, const struct coord_moves *plan, const uint16_t *goal,
                     struct err *e)
{
    struct coord_moves *m = &f->moves;
    uint32_t tablets = f->cluster.tablets;
    uint16_t *copy = malloc(tablets * sizeof *copy + 1);
    if (copy == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for a plan of %u tablets", tablets);
    memcpy(copy, goal, tablets * sizeof *copy);
    *m = *plan;
    m->goal = copy;
    m->tablets = tablets;
    m->size = SIZE_FIRST;
    m->plan_ns = env_now_ns(f->env);
    if (plan_put(f))
        return 0;
    coord_moves_close(f);
    return coord_store_failed(e);
}

int coord_moves_begin(struct coord_fleet *f, enum coord_moves_kind kind, const char *drained,
                      const uint16_t *goal, struct err *e)
{
    const struct coord_cluster *cl = &f->cluster;
    struct coord_moves plan = {.kind = kind};
    SHOAL_ASSERT(kind != MOVES_NONE && coord_cluster_ready(cl));
    SHOAL_ASSERT(cl->tablets > 0 || kind == MOVES_DRAIN);
    if (f->moves.kind != MOVES_NONE)
        return err_set(e, SHOAL_E_EXISTS,
                       "tablets are being moved already (%u are left): wait for the end of that "
                       "plan (shoal status), or stop it first (shoal rebalance --stop)",
                       left(f));
    text_copy(plan.drained, sizeof plan.drained, drained);
    for (uint32_t i = 0; i < cl->tablets; i++)
        plan.total += goal[i] != cl->shard_of[i];
    if (plan.total == 0 && kind != MOVES_DRAIN) /* an empty server is retired at once */
        return err_set(e, SHOAL_E_NOT_FOUND, "no tablet has to move");
    int rc = plan_take(f, &plan, goal, e);
    if (rc == 0)
        log_info("%u of %u tablets are to move", plan.total, cl->tablets);
    return rc;
}

/* Tells every shard the newest map, which only givers and takers have followed. */
static void map_tell_all(struct coord_fleet *f);

void coord_moves_end(struct coord_fleet *f)
{
    struct coord_moves *m = &f->moves;
    char ended[ERR_TEXT_MAX];
    log_info("the plan of moves has ended: %u tablets have moved, %" PRIu64 " bytes, frozen for "
             "%.1f ms at most",
             m->moved, m->bytes, (double)m->longest_ns * 1e-6);
    if (!coord_remove(f, PLAN_KEY) || !coord_remove(f, GROUP_KEY))
        return;
    text_copy(ended, sizeof ended, m->ended);
    coord_moves_close(f);
    text_copy(m->ended, sizeof m->ended, ended);
    map_tell_all(f);
}

bool coord_moves_emptied(const struct coord_fleet *f)
{
    const struct coord_moves *m = &f->moves;
    return m->kind == MOVES_DRAIN && m->state == MOVES_IDLE && !m->all && !m->stops &&
           m->tablets == f->cluster.tablets && left(f) == 0;
}

int coord_moves_stop(struct coord_fleet *f, struct err *e)
{
    if (f->moves.kind == MOVES_NONE)
        return err_set(e, SHOAL_E_NOT_FOUND, "no tablets are being moved");
    f->moves.stops = true;
    return 0;
}

/* Returns a shard that is not on the server that is to be empty; `from`, if it is none. */
static uint16_t stays(const struct coord_fleet *f, uint16_t from, uint32_t tablet)
{
    const struct coord_members *m = &f->members;
    for (uint32_t i = 0; i <= m->shards && coord_copies_on(f, from, f->moves.drained); i++) {
        uint32_t next = (from + tablet + i) % m->shards;
        if (coord_member_used(m, next) && !coord_copies_on(f, next, f->moves.drained))
            return (uint16_t)next;
    }
    return from;
}

void coord_moves_map_changed(struct coord_fleet *f)
{
    struct coord_moves *m = &f->moves;
    uint32_t tablets = f->cluster.tablets;
    m->at = 0; /* the tables may be others, of as many tablets */
    if (m->kind == MOVES_NONE || m->tablets == tablets)
        return;
    uint16_t *goal = malloc(tablets * sizeof *goal);
    if (goal == NULL) {
        m->stops = true;
        return;
    }
    for (uint32_t i = 0; i < tablets; i++) {
        goal[i] = f->cluster.shard_of[i];
        if (i < m->tablets)
            goal[i] = m->goal[i];
        else if (m->kind == MOVES_DRAIN)
            goal[i] = stays(f, goal[i], i);
    }
    free(m->goal);
    m->goal = goal;
    m->tablets = tablets;
    (void)plan_put(f);
}

/* ---- telling ---- */

static void told(void *context, const struct coord_call *call, int status, const char *text);

/* Tells a shard the map, with the group's tablets, which may leave it. */
static bool map_tell(struct coord_fleet *f, uint32_t shard, bool gone, coord_call_done done)
{
    const struct coord_cluster *cl = &f->cluster;
    const struct coord_group *g = &f->moves.group;
    struct wire w;
    size_t bytes = coord_cluster_map_wire(cl, &w);
    const struct wire_MAP_SET map = w.u.MAP_SET;
    w.type = WIRE_TYPE_MOVE_MAP;
    w.u.MOVE_MAP = (struct wire_MOVE_MAP){map.map_epoch, map.tablet_count, map.cluster_high,
                                          map.cluster_low, gone ? g->count : 0};
    return coord_call_start(
        &f->calls, &(struct coord_call){.context = f,
                                        .request = w,
                                        .frame = cl->shard_of,
                                        .frame_bytes = bytes,
                                        .more = (void *)g->tablet,
                                        .more_bytes = gone ? g->count * sizeof g->tablet[0] : 0,
                                        .target = shard,
                                        .owner = shard,
                                        .on_done = done});
}

static void told_last(void *context, const struct coord_call *call, int status, const char *text)
{
    struct coord_fleet *f = context;
    struct coord_shard *s = &f->members.shard[call->owner];
    if (status == 0)
        s->figures.map_epoch = call->request.u.MOVE_MAP.map_epoch;
    else
        log_warn("server %s refused the map: %s", s->server, text);
}

static void map_tell_all(struct coord_fleet *f)
{
    COORD_EACH_SHARD (&f->members, s)
        if (f->members.shard[s].figures.map_epoch != f->cluster.map_epoch)
            (void)map_tell(f, s, false, told_last); /* else its next setup tells it */
}

/* The size of the next group, after one that took so long. */
static void size_next(struct coord_moves *m, uint64_t took)
{
    bool grows = took < COORD_MOVE_FREEZE_NS / 2;
    bool shrinks = took > COORD_MOVE_FREEZE_NS;
    if (m->took_bytes <= COORD_MOVE_BYTES / 2)
        grows = grows || m->size < COORD_MOVE_LIGHT;
    if (m->took_bytes <= COORD_MOVE_BYTES)
        shrinks = shrinks && m->size > COORD_MOVE_LIGHT;
    if (grows)
        m->size = MIN(2 * m->size, WIRE_MOVE_TABLETS);
    else if (shrinks) /* bytes may have kept the group smaller */
        m->size = MAX(MIN(m->size, m->group.count) / 2, 1);
}

/* The group is over. */
static void group_end(struct coord_fleet *f)
{
    struct coord_moves *m = &f->moves;
    uint64_t now = env_now_ns(f->env), took = now - m->began_ns, pause = 1;
    if (m->trains && m->job[0] == 0)
        pause = COORD_MOVE_PAUSE;
    m->state = MOVES_IDLE;
    m->all = false;
    coord_call_let_go(&f->calls);
    if (m->given_up) {
        m->next_ns = now + RETRY_NS;
        m->size = MAX(m->size / 2, 1);
        return;
    }
    m->fails = false;
    m->moved += m->group.count;
    m->longest_ns = MAX(m->longest_ns, took);
    m->next_ns = now + pause * took;
    size_next(m, took);
}

/* Tells the next shard; false when out of memory: the next step tries again. */
static void tell_next(struct coord_fleet *f)
{
    struct coord_moves *m = &f->moves;
    if (m->state != MOVES_TELLING || coord_call_open_type(&f->calls, f, WIRE_TYPE_MOVE_MAP))
        return;
    if (m->telling == COORD_NOBODY)
        group_end(f);
    else
        (void)map_tell(f, m->telling, !m->given_up || m->all, told);
}

/* Returns the next shard from here on that is told; COORD_NOBODY: all are. */
static uint32_t telling_after(const struct coord_fleet *f, uint32_t shard)
{
    shard = coord_member_next(&f->members, shard);
    return shard < f->members.shards ? shard : COORD_NOBODY;
}

static void told(void *context, const struct coord_call *call, int status, const char *text)
{
    struct coord_fleet *f = context;
    struct coord_moves *m = &f->moves;
    struct coord_shard *s = &f->members.shard[call->owner];
    SHOAL_ASSERT(m->state == MOVES_TELLING && call->owner == m->telling);
    if (status != 0) {
        log_error("server %s refused the map of epoch %" PRIu64 ": %s", s->server,
                  f->cluster.map_epoch, text);
        (void)snprintf(m->text, sizeof m->text, "server %s refused the map: %s", s->server, text);
        m->fails = true;
        return; /* the next step tells it again */
    }
    s->figures.map_epoch = call->request.u.MOVE_MAP.map_epoch;
    if (m->all)
        m->telling = telling_after(f, m->telling + 1);
    else if (m->telling == m->group.taker) /* 3. */
        m->telling = m->group.giver;
    else
        m->telling = COORD_NOBODY;
}

/* Stores the next map, with the group's new owners unless it is given up, and tells it. */
static void map_change(struct coord_fleet *f, bool given_up)
{
    struct coord_moves *m = &f->moves;
    const struct coord_group *g = &m->group;
    m->given_up = given_up;
    if (!coord_cluster_move(f, g->tablet, given_up ? 0 : g->count, g->taker))
        return;
    if (!given_up && !coord_put(f, GROUP_KEY, g, group_bytes(g)))
        return;
    m->state = MOVES_TELLING;
    m->telling = m->all ? telling_after(f, 0) : g->taker;
    tell_next(f);
}

/* ---- taking ---- */

static void give_up(struct coord_fleet *f, const char *why)
{
    struct coord_moves *m = &f->moves;
    m->tries++;
    log_warn("%u tablets stay with shard %u for now: %s", m->group.count, m->group.giver, why);
    text_copy(m->text, sizeof m->text, why);
    m->fails = true;
    coord_call_cancel(&f->calls, f, WIRE_TYPE_MOVE_TAKE, UINT64_MAX);
    map_change(f, true);
}

/* True when giver and taker are the processes that began the group. */
static bool same_processes(const struct coord_fleet *f)
{
    const struct coord_moves *m = &f->moves;
    return f->members.shard[m->group.giver].incarnation == m->giver_incarnation &&
           f->members.shard[m->group.taker].incarnation == m->taker_incarnation;
}

static void taken_reply(void *context, const struct coord_call *call, uint32_t shard,
                        const struct wire *reply, const struct msg *msg)
{
    struct coord_fleet *f = context;
    (void)call;
    (void)shard;
    (void)msg;
    f->moves.rows += reply->u.MOVE_TAKE_reply.rows;
    f->moves.bytes += reply->u.MOVE_TAKE_reply.bytes;
    f->moves.took_bytes = reply->u.MOVE_TAKE_reply.bytes;
}

/* A tablet is too large for a message, or for the taker's journal. Tablets that go home for a job
 * that goes back have moved before, so those are tried again. */
static void too_big(struct coord_fleet *f, const char *text)
{
    struct coord_moves *m = &f->moves;
    if (m->job[0] == 0) {
        m->stops = true;
        text_copy(m->ended, sizeof m->ended, text);
        log_error("the plan of moves ends early: %s", text);
    }
    give_up(f, text);
}

/* The taker does not have a table, whose schema is not known since the store was lost: its tablets
 * stay where they are, and the plan goes on with others. */
static void leave_out(struct coord_fleet *f)
{
    struct coord_moves *m = &f->moves;
    const struct coord_group *g = &m->group;
    const struct coord_cluster *cl = &f->cluster;
    for (uint32_t i = 0; i < g->count; i++) {
        uint32_t first = g->tablet[i], end = first + 1;
        for (uint32_t n = 0; n < cl->tables; n++)
            if (coord_map_place(cl, n) && g->tablet[i] >= cl->first[n] &&
                g->tablet[i] - cl->first[n] < 1u << cl->bits[n]) {
                first = cl->first[n];
                end = first + (1u << cl->bits[n]);
            }
        for (uint32_t k = first; k < MIN(end, m->tablets); k++)
            if (m->goal[k] == g->taker)
                m->goal[k] = cl->shard_of[k];
    }
    (void)plan_put(f); /* a store that fails stops the coordinator */
}

static void taken(void *context, const struct coord_call *call, int status, const char *text)
{
    struct coord_fleet *f = context;
    char why[ERR_TEXT_MAX];
    SHOAL_ASSERT(f->moves.state == MOVES_TAKING);
    (void)call;
    if (status == SHOAL_E_NO_TABLE && f->moves.kind == MOVES_REBALANCE)
        leave_out(f);
    if (status == SHOAL_E_NO_TABLE) {
        (void)snprintf(why, sizeof why,
                       "%.100s: the coordinator knows its schema when a job of its space has run",
                       text);
        give_up(f, why);
    } else if (status == SHOAL_E_TOO_BIG)
        too_big(f, text);
    else if (status != 0)
        give_up(f, text);
    else if (!same_processes(f)) /* 1. */
        give_up(f, "a server started again meanwhile");
    else
        map_change(f, false);
}

static bool both_heard(const struct coord_fleet *f)
{
    const struct coord_shard *shard = f->members.shard;
    return coord_fleet_heard(f, &shard[f->moves.group.giver]) &&
           coord_fleet_heard(f, &shard[f->moves.group.taker]);
}

/* Returns the shard that is to lead a tablet now. */
static uint16_t goal_of(const struct coord_fleet *f, const struct coord_home *home, uint32_t homes,
                        uint32_t tablet)
{
    for (uint32_t i = 0; i < homes; i++)
        if (tablet < home[i].tablets && home[i].owner[tablet] != COORD_HOME_ANY)
            return home[i].owner[tablet];
    if (homes > 0)
        return f->cluster.shard_of[tablet];
    return f->moves.goal[tablet];
}

/* Returns the bytes of a tablet when the shards last told them; 0: they are not known. */
static uint64_t bytes_of(const struct coord_fleet *f, uint32_t tablet)
{
    const struct coord_heat *h = &f->heat;
    if (!h->complete || h->tablets != f->cluster.tablets)
        return 0;
    return h->of[tablet].bytes;
}

/* Chooses the next tablets that go from one shard to another. False: none is left. */
static bool group_choose(struct coord_fleet *f, const struct coord_home *home, uint32_t homes)
{
    struct coord_moves *m = &f->moves;
    const uint16_t *owner = f->cluster.shard_of;
    struct coord_group *g = &m->group;
    uint32_t end = MIN(m->tablets, f->cluster.tablets), at = m->at;
    while (at < end && goal_of(f, home, homes, at) == owner[at])
        at++;
    m->at = homes > 0 ? 0 : at; /* while tablets go home, and after it, the goal is another one */
    if (at == end)
        return false;
    *g = (struct coord_group){.epoch = f->cluster.map_epoch + 1,
                              .giver = owner[at],
                              .taker = goal_of(f, home, homes, at)};
    uint64_t bytes = 0, most = MAX(COORD_MOVE_BYTES, 2 * m->took_bytes);
    const bool spare = coord_map_spare(&f->cluster, at);
    for (uint32_t i = at; i < end && g->count < m->size; i++) {
        if (owner[i] != g->giver || goal_of(f, home, homes, i) != g->taker ||
            coord_map_spare(&f->cluster, i) != spare)
            continue;
        bytes += bytes_of(f, i);
        if (g->count > 0 && bytes > most)
            break;
        g->tablet[g->count++] = i;
    }
    return true;
}

/* ---- jobs that go back ---- */

/* Returns how many tablets of the job are not where the cut has them. */
static uint32_t away(const struct coord_fleet *f, const struct coord_home *home)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < MIN(home->tablets, f->cluster.tablets); i++)
        count += home->owner[i] != COORD_HOME_ANY && home->owner[i] != f->cluster.shard_of[i];
    return count;
}

bool coord_moves_at_home(const struct coord_fleet *f, const struct coord_home *home)
{
    const struct coord_moves *m = &f->moves;
    return m->state == MOVES_IDLE && !m->all && away(f, home) == 0;
}

/* Where no plan is under way, one begins that ends with the present owners. */
static void home_begin(struct coord_fleet *f, const struct coord_home *home, uint32_t homes)
{
    struct coord_moves plan = {.kind = MOVES_REBALANCE};
    struct err e = {0};
    for (uint32_t i = 0; i < homes; i++)
        plan.total += away(f, &home[i]);
    if (f->moves.kind != MOVES_NONE || plan.total == 0)
        return;
    if (plan_take(f, &plan, f->cluster.shard_of, &e) != 0)
        log_warn("%s", e.text); /* the next step tries again */
}

static void group_begin(struct coord_fleet *f)
{
    struct coord_moves *m = &f->moves;
    const struct coord_group *g = &m->group;
    const struct coord_shard *giver = &f->members.shard[g->giver];
    struct wire w = {.type = WIRE_TYPE_MOVE_TAKE};
    m->began_ns = env_now_ns(f->env);
    m->took_bytes = 0;
    if (coord_map_spare(&f->cluster, g->tablet[0])) { /* the giver has nothing of them */
        coord_call_hold(&f->calls);
        map_change(f, false);
        return;
    }
    w.u.MOVE_TAKE.map_epoch = g->epoch;
    w.u.MOVE_TAKE.tablet_count = g->count;
    memcpy(w.u.MOVE_TAKE.endpoint, giver->endpoint, sizeof w.u.MOVE_TAKE.endpoint);
    memcpy(w.u.MOVE_TAKE.key, giver->key, sizeof w.u.MOVE_TAKE.key);
    coord_call_hold(&f->calls); /* 2. */
    if (!coord_call_start(&f->calls,
                          &(struct coord_call){.context = f,
                                               .request = w,
                                               .frame = (void *)g->tablet,
                                               .frame_bytes = g->count * sizeof g->tablet[0],
                                               .target = g->taker,
                                               .on_reply = taken_reply,
                                               .on_done = taken})) {
        coord_call_let_go(&f->calls);
        return; /* out of memory: the next step tries again */
    }
    m->state = MOVES_TAKING;
    m->giver_incarnation = giver->incarnation;
    m->taker_incarnation = f->members.shard[g->taker].incarnation;
}

/* A group may begin: both shards are there, and no call would meet it. */
static bool group_may_begin(const struct coord_fleet *f)
{
    const struct coord_moves *m = &f->moves;
    return env_now_ns(f->env) >= m->next_ns && coord_call_quiet(&f->calls) && both_heard(f);
}

static void idle_step(struct coord_fleet *f, const struct coord_home *home, uint32_t homes)
{
    struct coord_moves *m = &f->moves;
    if (m->all &&
        coord_call_quiet(&f->calls)) { /* a former coordinator may have ended in a group */
        coord_call_hold(&f->calls);
        m->began_ns = env_now_ns(f->env);
        map_change(f, true);
    }
    if (m->all)
        return;
    bool chosen = (homes > 0 || !m->stops) && group_choose(f, home, homes);
    if (chosen && group_may_begin(f))
        group_begin(f);
    else if (!chosen && homes == 0 && (m->stops || m->kind != MOVES_DRAIN))
        coord_moves_end(f);
}

void coord_moves_step(struct coord_fleet *f, const struct coord_home *home, uint32_t homes,
                      bool trains)
{
    struct coord_moves *m = &f->moves;
    if (!coord_cluster_ready(&f->cluster) || f->fatal != 0)
        return;
    if (f->cluster.tablets == 0 && m->stops) /* a drain before there are tables */
        coord_moves_end(f);
    if (f->cluster.tablets == 0)
        return;
    home_begin(f, home, homes);
    if (m->kind == MOVES_NONE)
        return;
    m->trains = trains;
    m->job[0] = 0;
    if (homes > 0) {
        text_copy(m->job, sizeof m->job, home->job);
        m->at = 0;
    }
    switch (m->state) {
    case MOVES_IDLE:
        idle_step(f, home, homes);
        break;
    case MOVES_TAKING:
        if (!same_processes(f) || !both_heard(f))
            give_up(f, "a server is away, or has started again");
        else if (env_now_ns(f->env) - m->began_ns > TAKING_NS)
            give_up(f, "they were not taken for 10 s");
        break;
    case MOVES_TELLING:
        tell_next(f);
        break;
    }
}

/* ---- people ---- */

bool coord_moves_problem(const struct coord_fleet *f, char *text, size_t bytes)
{
    const struct coord_moves *m = &f->moves;
    const struct coord_shard *shard = f->members.shard;
    char advice[LIMIT_NAME + 80] = "end the plan (shoal rebalance --stop)";
    if (m->kind == MOVES_NONE && m->ended[0] != 0) {
        (void)snprintf(text, bytes,
                       "the last plan of moves ended early: %.300s. Mend that, and order it again "
                       "(shoal rebalance, shoal drain)",
                       m->ended);
        return true;
    }
    if (m->kind == MOVES_NONE || !m->fails)
        return false;
    if (m->job[0] != 0)
        (void)snprintf(advice, sizeof advice,
                       "stop job %s, which waits for them to go back to its best epoch", m->job);
    (void)snprintf(text, bytes,
                   "tablets do not get from server %s (shard %u) to server %s (shard %u): %.160s. "
                   "It is tried again each second: mend that, or %s",
                   shard[m->group.giver].server, m->group.giver, shard[m->group.taker].server,
                   m->group.taker, m->text, advice);
    return true;
}

struct json *coord_moves_json(const struct coord_fleet *f)
{
    static const char *const kind[] = {"", "rebalance", "drain"};
    const struct coord_moves *m = &f->moves;
    if (m->kind == MOVES_NONE)
        return NULL;
    uint32_t rest = left(f);
    double seconds = (double)(env_now_ns(f->env) - m->plan_ns) * 1e-9;
    struct json *j = json_new_object();
    json_set_string(j, "kind", kind[m->kind]);
    if (m->kind == MOVES_DRAIN)
        json_set_string(j, "drains", m->drained);
    json_set_int(j, "tablets", m->total);
    json_set_int(j, "left", rest);
    json_set_int(j, "rows", (int64_t)m->rows);
    json_set_int(j, "bytes", (int64_t)m->bytes);
    json_set_number(j, "longest_freeze_ms", (double)m->longest_ns * 1e-6);
    json_set_number(j, "seconds", seconds);
    if (m->moved > 0)
        json_set_number(j, "seconds_left", seconds * rest / m->moved);
    json_set_int(j, "given_up", (int64_t)m->tries);
    json_set_string(j, "last_failure", m->text);
    json_set_string(j, "goes_back", m->job);
    return j;
}
