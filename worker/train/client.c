/* client.c: connections, requests in flight, the map.
 *
 * 1. A request in flight is in exactly one chain of the table and has a due time; the timer is
 *    never later than the earliest one. [assert: request_link]
 *    [test: client_sends_again_with_the_same_id]
 * 2. A reply counts only if its id and type are those of a request in flight and it comes from the
 *    peer that the request is for. [test: client_is_not_fooled_by_another_type]
 * 3. A shard that is sought is asked for at a bounded rate, and its requests follow it.
 *    [test: client_finds_a_shard_at_its_new_place, client_asks_seldom_for_what_stays_away]
 * 4. The request leaves the table before `reply` is called, so that its owner may start, change or
 *    free it, but not start it and also return LATER or NOW. [assert: request_answer] */
#include "worker/train/client.h"

#include "proto/base/assert.h"
#include "proto/base/container_of.h"
#include "proto/base/log.h"
#include "proto/base/minmax.h"
#include "proto/wire/coordinators.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    CHAINS = 1024,
    TRIES_BEFORE_SLOWING = 3,
    PAUSE_FIRST_MS = 50,
    PAUSE_LAST_MS = 1000,
    MAP_PAUSE_MS = 200,
    PAUSES_SAID = 20,
    TRIES_SAID = 8,
    SILENT_MS = 1000, /* without an answer to a ping */
    SLOW_MS = 5000,   /* an answer to a ping that comes later follows an absence */
    ROUNDS = 3,       /* answers to pings whose times are kept */
    SEEK_FIRST_MS = 50,
    SEEK_FAST = 40, /* questions at that interval; then it doubles, up to: */
    SEEK_LAST_MS = 1000
};
#define MS UINT64_C(1000000)

struct connection {
    peer_t peer; /* 0: none yet */
    char endpoint[MAP_ENDPOINT_BYTES];
    char key[MAP_KEY_BYTES];        /* key that the peer must show */
    struct ping {                   /* a shard's ping */
        uint64_t id;                /* id of the ping in flight; 0: it is answered */
        uint64_t begun_ns, sent_ns; /* first and last time that it was sent */
        uint64_t round_ns[ROUNDS];  /* times from sending to answer, the newest ones */
        uint32_t rounds;            /* answers so far */
        bool unnamed;
    } ping;
    struct seek {          /* where the shard is looked for */
        bool closed;       /* until it answers a ping */
        bool refused;      /* NOT_LEADER, until it answers in another way */
        bool silent;       /* it owes a sign of life */
        uint64_t order;    /* requests sent up to here may be lost with the connection */
        uint64_t begun_ns; /* a request has waited for the shard since then; 0: none has */
    } seek;
};

struct client {
    struct env *env;               /* borrowed */
    struct client_options options; /* without the coordinator */
    struct coordinators coordinators;
    struct connection *shard; /* owned (shard_count) */
    uint32_t shard_count;
    struct map map; /* the newest complete map */
    struct request *chain[CHAINS];
    uint64_t last_id, last_order;
    struct env_timer timer, seek_timer;
    uint32_t seek_tries; /* questions of this search */
    uint64_t absence_ns; /* longest time of a request without a shard that was sought */
    struct request map_get;
    uint64_t heard_ns;
    uint32_t resend_ms;
    bool muted;
    struct { /* checks the address of a silent shard */
        struct env_work work;
        bool busy;
        uint32_t shard;
        char endpoint[MAP_ENDPOINT_BYTES], numeric[256];
        int status;
        struct err error;
    } look;
};

/* ---- connections ----------------------------------------------------------------------------- */

/* The first message on a connection names this worker; its id is 0, and the reply is ignored. Later
 * ones are pings. */
static void connection_hello(struct client *c, peer_t peer, uint64_t id)
{
    struct wire w;
    memset(&w, 0, sizeof w);
    w.type = WIRE_TYPE_HELLO;
    w.id = id;
    w.u.HELLO.version = WIRE_VERSION;
    snprintf(w.u.HELLO.role, sizeof w.u.HELLO.role, "worker");
    struct msg *m = wire_encode(&w);
    if (m != NULL)
        (void)env_send(c->env, peer, m);
}

/* key: that in the map. */
static int connection_open(struct client *c, struct connection *to, const char *endpoint,
                           const char *key)
{
    bool same = strcmp(to->key, key) == 0;
    if (to->peer != 0 && same && strcmp(to->endpoint, endpoint) == 0)
        return 0;
    if (to->peer != 0)
        env_disconnect(c->env, to->peer);
    to->peer = 0;
    SHOAL_ASSERT(strlen(endpoint) < sizeof to->endpoint);
    snprintf(to->endpoint, sizeof to->endpoint, "%s", endpoint);
    snprintf(to->key, sizeof to->key, "%s", key);
    int rc = env_connect(c->env, endpoint, key, &to->peer);
    if (rc != 0) {
        to->peer = 0;
        return rc;
    }
    to->ping = (struct ping){0};
    to->seek = (struct seek){.begun_ns = to->seek.begun_ns};
    connection_hello(c, to->peer, 0);
    return 0;
}

static peer_t peer_of(const struct client *c, uint32_t target)
{
    if (target == CLIENT_COORDINATOR)
        return c->coordinators.peer;

    if (target < c->shard_count)
        return c->shard[target].peer;

    return 0;
}

/* True while it is not known where the shard is led. */
static bool sought(const struct seek *seek)
{
    return seek->closed || seek->refused || seek->silent;
}

/* ---- the table ------------------------------------------------------------------------------- */

static void request_link(struct client *c, struct request *r)
{
    struct request **chain = &c->chain[r->id % CHAINS];
    SHOAL_ASSERT(r->id != 0 && r->back == NULL); /* 1 */
    r->next = *chain;
    r->back = chain;
    if (r->next != NULL)
        r->next->back = &r->next;
    *chain = r;
}

static void request_unlink(struct request *r)
{
    SHOAL_ASSERT(*r->back == r);
    *r->back = r->next;
    if (r->next != NULL)
        r->next->back = r->back;
    r->next = NULL;
    r->back = NULL;
}

static void request_due(struct client *c, struct request *r, uint64_t delay_ns)
{
    r->due_ns = env_now_ns(c->env) + delay_ns;
    if (c->timer.due_ns == 0 || r->due_ns < c->timer.due_ns)
        env_timer_start(c->env, &c->timer, delay_ns);
}

static uint64_t pause_ns(const struct request *r)
{
    uint64_t ms = r->pause_ms;
    if (ms == 0)
        ms = MIN((uint64_t)PAUSE_FIRST_MS << MIN(r->pauses, 5), PAUSE_LAST_MS);
    return ms * MS;
}

static uint64_t resend_ns(const struct client *c, const struct request *r)
{
    uint32_t slow;
    if (r->tries <= TRIES_BEFORE_SLOWING)
        slow = 0;
    else
        slow = r->tries - TRIES_BEFORE_SLOWING;
    return ((uint64_t)c->resend_ms << (slow < 3 ? slow : 3)) * MS;
}

static void seek_silent(struct client *c, uint32_t shard);

/* A request waits for a shard that is sought. */
static void absence_note(struct seek *seek, uint64_t since_ns)
{
    if (seek->begun_ns == 0)
        seek->begun_ns = since_ns;
}

static void request_send(struct client *c, struct request *r)
{
    peer_t peer = peer_of(c, r->target);
    if (peer == 0 || (r->write && c->muted)) {
        request_due(c, r, MAP_PAUSE_MS * MS);
        if (peer == 0)
            client_map_refresh(c);
        return;
    }
    SHOAL_ASSERT(request_active(r));
    struct msg *m = r->build(r);
    if (m == NULL || env_send(c->env, peer, m) != 0) {
        r->pauses++;
        request_due(c, r, pause_ns(r));
        return;
    }
    r->order = ++c->last_order;
    /* logged at powers of two, because a coordinator may be away for days */
    if (++r->tries >= TRIES_SAID && (r->tries & (r->tries - 1)) == 0)
        log_warn(
            "%s has not been answered by %s after %u tries; sent again", wire_type_name(r->type),
            r->target == CLIENT_COORDINATOR ? client_coordinator(c) : c->shard[r->target].endpoint,
            r->tries - 1);
    if (r->target == CLIENT_COORDINATOR)
        coordinators_asked(&c->coordinators);
    else if (sought(&c->shard[r->target].seek))
        absence_note(&c->shard[r->target].seek, env_now_ns(c->env));
    request_due(c, r, resend_ns(c, r));
    if (r->tries > TRIES_BEFORE_SLOWING && r->target != CLIENT_COORDINATOR) {
        client_map_refresh(c);
        seek_silent(c, r->target);
    }
}

void client_start(struct client *c, struct request *r)
{
    SHOAL_ASSERT(r->id == 0 && r->build != NULL && r->reply != NULL);
    r->id = ++c->last_id;
    r->order = 0;
    r->tries = 0;
    r->pauses = 0;
    request_link(c, r);
    request_send(c, r);
}

void client_again(struct client *c, struct request *r)
{
    SHOAL_ASSERT(r->id != 0 && r->back != NULL);
    request_send(c, r);
}

void client_cancel(struct client *c, struct request *r)
{
    (void)c;
    if (r->id == 0)
        return;
    if (r->back != NULL)
        request_unlink(r);
    r->id = 0;
}

/* Sends the requests to a target, those last sent up to `order`, at the next turn of the loop. */
static void requests_hasten(struct client *c, uint32_t target, uint64_t order)
{
    for (uint32_t i = 0; i < CHAINS; i++)
        for (struct request *r = c->chain[i]; r != NULL; r = r->next)
            if (r->target == target && r->order <= order) {
                r->pauses = 0;
                request_due(c, r, 0);
            }
}

static bool requests_wait(const struct client *c, uint32_t target)
{
    for (uint32_t i = 0; i < CHAINS; i++)
        for (const struct request *r = c->chain[i]; r != NULL; r = r->next)
            if (r->target == target)
                return true;
    return false;
}

static void coordinator_moved(struct coordinators *of, peer_t before)
{
    struct client *c = container_of(of, struct client, coordinators);
    if (before != 0)
        connection_hello(c, of->peer, 0);
    requests_hasten(c, CLIENT_COORDINATOR, c->last_order);
}

/* Visits the table once: sends due requests, then sets the timer for the next due time (1). */
static void client_fire(struct env_timer *t)
{
    struct client *c = container_of(t, struct client, timer);
    uint64_t now = env_now_ns(c->env), next = UINT64_MAX;
    for (uint32_t i = 0; i < CHAINS; i++)
        for (struct request *r = c->chain[i], *after; r != NULL; r = after) {
            after = r->next;
            if (r->due_ns <= now)
                request_send(c, r);
            if (r->due_ns < next)
                next = r->due_ns;
        }
    /* started during the visit, perhaps in a chain that was visited already */
    if (request_active(&c->map_get) && c->map_get.due_ns < next)
        next = c->map_get.due_ns;
    if (next != UINT64_MAX)
        env_timer_start(c->env, &c->timer, next > now ? next - now : 1);
}

/* ---- pings ----------------------------------------------------------------------------------- */

static void look_run(struct env_work *w) /* on a thread of the pool */
{
    struct client *c = container_of(w, struct client, look.work);
    c->look.status = c->options.resolve(c->look.endpoint, c->look.numeric, &c->look.error);
}

static void look_done(struct env_work *w)
{
    struct client *c = container_of(w, struct client, look.work);
    struct connection *to = &c->shard[c->look.shard];
    c->look.busy = false;
    if (strcmp(to->endpoint, c->look.endpoint) != 0)
        return; /* the shard has another endpoint by now */
    bool unnamed = c->look.status != 0;
    if (unnamed && !to->ping.unnamed)
        log_warn("shard %u at %s cannot be reached: %s", c->look.shard, to->endpoint,
                 c->look.error.text);
    to->ping.unnamed = unnamed;
}

static void look_start(struct client *c, uint32_t shard)
{
    if (c->options.resolve == NULL || c->look.busy)
        return;
    c->look.busy = true;
    c->look.shard = shard;
    memcpy(c->look.endpoint, c->shard[shard].endpoint, sizeof c->look.endpoint);
    env_work_start(c->env, &c->look.work);
}

void client_ping(struct client *c)
{
    uint64_t now = env_now_ns(c->env);
    for (uint32_t s = 0; s < c->map.shard_count && s < c->shard_count; s++) {
        struct ping *p = &c->shard[s].ping;
        if (c->shard[s].peer == 0)
            continue;
        if (p->id == 0) {
            p->id = ++c->last_id;
            p->begun_ns = now;
        } else {
            look_start(c, s);
            seek_silent(c, s);
        }
        p->sent_ns = now;
        connection_hello(c, c->shard[s].peer, p->id);
    }
}

/* An answer within SLOW_MS is that to the first sending, over a slow way; a later one follows an
 * absence, and is that to the last sending. */
static void ping_took(struct ping *p, uint64_t now_ns)
{
    uint64_t took = now_ns - p->begun_ns;
    if (took > SLOW_MS * MS)
        took = now_ns - p->sent_ns;
    p->round_ns[p->rounds++ % ROUNDS] = took + 1;
}

/* Returns how long an answer takes now: the median of the newest ones, which one slow answer does
 * not change, or what the ping in flight takes so far, from SILENT_MS on. 0: too few answers came
 * yet. */
static uint64_t ping_round(const struct ping *p, uint64_t now_ns)
{
    uint64_t a = p->round_ns[0], b = p->round_ns[1], c = p->round_ns[2];
    if (p->rounds < ROUNDS)
        return 0;
    uint64_t median = MAX(MIN(a, b), MIN(MAX(a, b), c));
    if (p->id != 0 && now_ns - p->begun_ns > SILENT_MS * MS)
        return MAX(median, now_ns - p->begun_ns);
    return median;
}

static void ping_answer(struct client *c, peer_t from, uint64_t id)
{
    for (uint32_t s = 0; s < c->shard_count && id != 0; s++) {
        struct ping *p = &c->shard[s].ping;
        if (c->shard[s].peer != from || p->id != id)
            continue;
        ping_took(p, env_now_ns(c->env));
        p->id = 0;
        p->unnamed = false;
        if (c->shard[s].seek.closed)
            requests_hasten(c, s, c->shard[s].seek.order);
        c->shard[s].seek.closed = c->shard[s].seek.silent = false;
    }
}

static uint32_t microseconds(uint64_t ns)
{
    if (ns / 1000 < UINT32_MAX)
        return (uint32_t)(ns / 1000);

    return UINT32_MAX;
}

bool client_way(const struct client *c, uint32_t shard, uint64_t *late_ns, uint64_t *round_ns)
{
    if (shard >= c->map.shard_count || shard >= c->shard_count)
        return false;
    const struct ping *p = &c->shard[shard].ping;
    *late_ns = 0;
    if (p->id != 0)
        *late_ns = env_now_ns(c->env) - p->begun_ns;
    *round_ns = ping_round(p, env_now_ns(c->env));
    return true;
}

void client_reach(const struct client *c, struct client_reach *out)
{
    uint64_t late_ns, round_ns;
    *out = (struct client_reach){0};
    for (uint32_t s = 0; client_way(c, s, &late_ns, &round_ns); s++) {
        uint32_t us = microseconds(round_ns);
        if (late_ns > out->late_ns) {
            out->late_shard = s;
            out->late_ns = late_ns;
            out->unnamed = c->shard[s].ping.unnamed;
        }
        if (us > out->slow_us) {
            out->usual_us = out->slow_us;
            out->slow_us = us;
            out->slow_shard = s;
        } else if (us > out->usual_us) {
            out->usual_us = us;
        }
    }
}

/* ---- a shard that is sought ------------------------------------------------------------------ */

static uint32_t seek_ms(const struct client *c)
{
    uint32_t slow = 0;
    if (c->seek_tries > SEEK_FAST)
        slow = MIN(c->seek_tries - SEEK_FAST, 5);
    return MIN((uint32_t)SEEK_FIRST_MS << slow, SEEK_LAST_MS);
}

/* Asks the coordinator, and once a second the shard itself: a ping may be lost. */
static void seek_ask(struct client *c)
{
    uint64_t now = env_now_ns(c->env);
    c->seek_tries++;
    c->map_get.pause_ms = seek_ms(c);
    client_map_refresh(c);
    for (uint32_t s = 0; s < c->shard_count; s++) {
        struct connection *to = &c->shard[s];
        if (to->peer == 0 || !to->seek.closed || now - to->ping.sent_ns < SEEK_LAST_MS * MS)
            continue;
        to->ping.sent_ns = now;
        connection_hello(c, to->peer, to->ping.id);
    }
    env_timer_start(c->env, &c->seek_timer, seek_ms(c) * MS);
}

static void seek_fire(struct env_timer *t)
{
    struct client *c = container_of(t, struct client, seek_timer);
    for (uint32_t s = 0; s < c->shard_count; s++)
        if (sought(&c->shard[s].seek)) {
            seek_ask(c);
            return;
        }
    c->map_get.pause_ms = MAP_PAUSE_MS;
}

/* since_ns: a request that waits for the shard may be lost since then. */
static void seek_begin(struct client *c, uint32_t shard, uint64_t since_ns)
{
    if (requests_wait(c, shard))
        absence_note(&c->shard[shard].seek, since_ns);
    c->seek_tries = 0;
    seek_ask(c);
}

/* A shard whose machine stands still, or is cut off, closes no connection: another copy may lead by
 * now. A shard that answers pings only lets a request wait. */
static void seek_silent(struct client *c, uint32_t shard)
{
    struct connection *to = &c->shard[shard];
    uint64_t now = env_now_ns(c->env);
    if (to->seek.silent || to->seek.closed || to->ping.id == 0 ||
        now - to->ping.begun_ns < SILENT_MS * MS)
        return;
    to->seek.silent = true;
    seek_begin(c, shard, to->ping.begun_ns);
}

/* The ping has a new number: an answer from before the end of the connection counts for nothing. */
void client_peer_gone(struct client *c, peer_t peer)
{
    coordinators_gone(&c->coordinators, peer);
    for (uint32_t s = 0; s < c->shard_count; s++) {
        struct connection *to = &c->shard[s];
        if (to->peer != peer || to->seek.closed)
            continue;
        to->seek.closed = true;
        to->seek.order = c->last_order;
        to->ping.sent_ns = env_now_ns(c->env);
        if (to->ping.id == 0)
            to->ping.begun_ns = to->ping.sent_ns;
        to->ping.id = ++c->last_id;
        connection_hello(c, to->peer, to->ping.id);
        seek_begin(c, s, to->ping.sent_ns);
    }
}

static void seek_heard(struct client *c, uint32_t shard, int status)
{
    struct seek *seek = &c->shard[shard].seek;
    bool before = seek->refused;
    seek->refused = status == SHOAL_E_NOT_LEADER;
    if (seek->refused && !before)
        seek_begin(c, shard, env_now_ns(c->env));
    if (status != 0 || seek->begun_ns == 0)
        return;
    uint64_t took_ns = env_now_ns(c->env) - seek->begun_ns;
    log_info("shard %u at %s answers again: %" PRIu64 " ms without it", shard,
             c->shard[shard].endpoint, took_ns / MS);
    seek->begun_ns = 0;
    c->absence_ns = MAX(c->absence_ns, took_ns);
}

/* ---- replies --------------------------------------------------------------------------------- */

static struct request *request_find(struct client *c, peer_t from, const struct wire *w)
{
    struct request *r = c->chain[w->id % CHAINS];
    while (r != NULL && r->id != w->id)
        r = r->next;
    if (r == NULL || !w->reply || r->type != w->type || peer_of(c, r->target) != from)
        return NULL;
    return r;
}

static void request_answer(struct client *c, struct request *r, const struct wire *w,
                           const struct msg *m)
{
    uint64_t id = r->id;
    request_unlink(r); /* (4) */
    r->id = 0;
    enum request_verdict verdict = r->reply(r, w, m);
    if (verdict == REQUEST_DONE)
        return;
    SHOAL_ASSERT(r->id == 0); /* 4 */
    r->id = id;
    r->tries = 0; /* it was answered */
    request_link(c, r);
    if (verdict == REQUEST_NOW) {
        request_send(c, r);
        return;
    }
    uint64_t delay = pause_ns(r);
    /* a request with a pause of its own is expected to wait */
    if (++r->pauses % PAUSES_SAID == 0 && r->pause_ms == 0)
        log_warn("%s is refused for the %uth time and sent again: %s", wire_type_name(r->type),
                 r->pauses, wire_error(w));
    request_due(c, r, delay);
}

void client_message(struct client *c, peer_t from, struct msg *m)
{
    struct wire w;
    struct err e = {0};
    int rc = wire_decode(m, &w, &e);
    if (rc != 0) {
        log_warn("a message was dropped: %s", e.text);
    } else if (!coordinators_heard(&c->coordinators, from, &w)) {
        struct request *r = request_find(c, from, &w);
        if (from == c->coordinators.peer && w.reply)
            c->heard_ns = env_now_ns(c->env);
        if (w.reply && w.type == WIRE_TYPE_HELLO)
            ping_answer(c, from, w.id);
        if (r != NULL && r->target != CLIENT_COORDINATOR)
            seek_heard(c, r->target, w.status);
        if (r != NULL)
            request_answer(c, r, &w, m);
        else if (w.reply && w.status == SHOAL_E_VERSION)
            log_error("refused: %s", w.error);
    }
    msg_free(m);
}

void client_head(const struct request *r, struct wire *w)
{
    SHOAL_ASSERT(request_active(r));
    memset(w, 0, sizeof *w);
    w->type = r->type;
    w->id = r->id;
}

bool client_passing(int status)
{
    switch (status) {
    case SHOAL_E_BUSY:
    case SHOAL_E_AGAIN:
    case SHOAL_E_NO_SPACE:
    case SHOAL_E_TIMEOUT:
    case SHOAL_E_UNAVAILABLE:
    case SHOAL_E_NO_TABLE:
    case SHOAL_E_IO:
    case SHOAL_E_NOMEM:
    case SHOAL_E_STOPPED:
        return true;
    default:
        return false;
    }
}

/* ---- the map --------------------------------------------------------------------------------- */

static struct msg *map_get_build(struct request *r)
{
    struct client *c = container_of(r, struct client, map_get);
    struct wire w;
    client_head(r, &w);
    w.u.MAP_GET.map_epoch = c->map.epoch;
    w.u.MAP_GET.reads = c->options.reads;
    return wire_encode(&w);
}

static int shards_connect(struct client *c, const struct map *m)
{
    if (m->shard_count > c->shard_count) {
        struct connection *more = realloc(c->shard, m->shard_count * sizeof *more);
        if (more == NULL)
            return SHOAL_E_NOMEM;
        memset(more + c->shard_count, 0, (m->shard_count - c->shard_count) * sizeof *more);
        c->shard = more;
        c->shard_count = m->shard_count;
    }
    SHOAL_ASSERT(m->shard_count <= c->shard_count);
    for (uint32_t s = 0; s < m->shard_count; s++)
        if (m->endpoint[s][0] != '\0') {
            peer_t before = c->shard[s].peer;
            int rc = connection_open(c, &c->shard[s], m->endpoint[s], m->key[s]);
            if (rc == 0 && c->shard[s].peer != before)
                requests_hasten(c, s, c->last_order);
            if (rc != 0)
                log_warn("shard %u at %s cannot be reached: %s", s, m->endpoint[s], err_text(rc));
        }
    return 0;
}

/* A shard that a complete map names no endpoint of leads no tablet: its server was drained, and may
 * be switched off. It is neither asked nor sought any more. */
static void shards_leave(struct client *c, const struct map *m)
{
    for (uint32_t s = 0; s < c->shard_count; s++) {
        if (c->shard[s].peer == 0 || (s < m->shard_count && m->endpoint[s][0] != '\0'))
            continue;
        env_disconnect(c->env, c->shard[s].peer);
        c->shard[s] = (struct connection){0};
    }
}

static enum request_verdict map_get_reply(struct request *r, const struct wire *w,
                                          const struct msg *m)
{
    struct client *c = container_of(r, struct client, map_get);
    struct map taken;
    struct err e = {0};
    if (w->status != 0)
        return REQUEST_LATER;
    client_map_init(&taken);
    int rc = client_map_take(&taken, &w->u.MAP_GET_reply, &m->frame[1], &m->frame[2], &e);
    if (rc == 0)
        rc = shards_connect(c, &taken);
    if (rc != 0)
        log_warn("the coordinator's map was not taken: %s", e.text);
    if (rc != 0 || !client_map_complete(&taken)) {
        client_map_close(&taken);
        return REQUEST_LATER; /* servers are still starting */
    }
    shards_leave(c, &taken);
    bool changed = !client_map_same(&taken, &c->map);
    client_map_close(&c->map);
    c->map = taken;
    if (changed && c->options.on_map != NULL)
        c->options.on_map(c->options.context);
    return REQUEST_DONE;
}

void client_map_refresh(struct client *c)
{
    if (!request_active(&c->map_get))
        client_start(c, &c->map_get);
}

const struct map *client_map(const struct client *c)
{
    if (c->map.tablet_count == 0)
        return NULL;

    return &c->map;
}

/* ---- life ------------------------------------------------------------------------------------ */

int client_new(struct env *env, const struct client_options *options, struct client **out,
               struct err *e)
{
    SHOAL_ASSERT(env != NULL && options->coordinator != NULL);
    struct client *c = calloc(1, sizeof *c);
    if (c == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for the client");
    c->env = env;
    c->options = *options;
    c->resend_ms = 1000;
    c->timer.fire = client_fire;
    c->seek_timer.fire = seek_fire;
    c->look.work.run = look_run;
    c->look.work.done = look_done;
    c->map_get = (struct request){.type = WIRE_TYPE_MAP_GET,
                                  .target = CLIENT_COORDINATOR,
                                  .pause_ms = MAP_PAUSE_MS,
                                  .build = map_get_build,
                                  .reply = map_get_reply};
    client_map_init(&c->map);
    c->coordinators = (struct coordinators){.moved = coordinator_moved, .logs = true};
    int rc = coordinators_open(&c->coordinators, env, options->coordinator, e);
    if (rc != 0) {
        free(c);
        return rc;
    }
    c->options.coordinator = NULL;
    connection_hello(c, c->coordinators.peer, 0);
    *out = c;
    return 0;
}

void client_free(struct client *c)
{
    if (c == NULL)
        return;
    env_timer_stop(c->env, &c->timer);
    env_timer_stop(c->env, &c->seek_timer);
    for (uint32_t s = 0; s < c->shard_count; s++)
        if (c->shard[s].peer != 0)
            env_disconnect(c->env, c->shard[s].peer);
    coordinators_close(&c->coordinators);
    client_map_close(&c->map);
    free(c->shard);
    free(c);
}

const char *client_coordinator(const struct client *c)
{
    return coordinators_endpoint(&c->coordinators);
}

void client_set_resend(struct client *c, uint32_t resend_ms)
{
    SHOAL_ASSERT(resend_ms > 0);
    c->resend_ms = resend_ms;
}

void client_mute(struct client *c, bool muted)
{
    if (c->muted == muted)
        return;
    c->muted = muted;
    if (muted)
        return;
    for (uint32_t i = 0; i < CHAINS; i++)
        for (struct request *r = c->chain[i]; r != NULL; r = r->next)
            if (r->write)
                request_due(c, r, 0);
}

uint64_t client_now_ns(const struct client *c)
{
    return env_now_ns(c->env);
}

uint64_t client_heard_ns(const struct client *c)
{
    return c->heard_ns;
}

uint64_t client_absence_ns(const struct client *c)
{
    return c->absence_ns;
}

/* ---- a map ----------------------------------------------------------------------------------- */

void client_map_init(struct map *m)
{
    memset(m, 0, sizeof *m);
}

void client_map_close(struct map *m)
{
    free(m->shard);
    free(m->endpoint);
    free(m->key);
    client_map_init(m);
}

/* Parses "ENDPOINT" or "ENDPOINT KEY". False: it is too long, or empty. */
static bool line_take(struct map *m, uint32_t shard, const char *text, size_t length)
{
    const char *blank = memchr(text, ' ', length);
    size_t endpoint = length, key = 0;
    if (blank != NULL) {
        endpoint = (size_t)(blank - text);
        key = length - endpoint - 1;
    }
    if (endpoint >= MAP_ENDPOINT_BYTES || key >= MAP_KEY_BYTES || memchr(text, 0, length) != NULL)
        return false;
    memcpy(m->endpoint[shard], text, endpoint);
    if (key > 0)
        memcpy(m->key[shard], blank + 1, key);
    return true;
}

/* Parses one line for each shard, each ended by LF. */
static int endpoints_take(struct map *m, const char *text, size_t bytes, struct err *e)
{
    const char *end = text + bytes;
    for (uint32_t s = 0; s < m->shard_count; s++) {
        const char *line_end = NULL;
        if (text != end)
            line_end = memchr(text, '\n', (size_t)(end - text));
        if (line_end == NULL)
            return err_set(e, SHOAL_E_MALFORMED, "the map names %u shards but has endpoints of %u",
                           m->shard_count, s);
        size_t length = (size_t)(line_end - text);
        if (!line_take(m, s, text, length))
            return err_set(e, SHOAL_E_MALFORMED,
                           "the endpoint of shard %u in the map is no text of at most %u bytes", s,
                           MAP_ENDPOINT_BYTES - 1);
        text = line_end + 1;
    }
    return 0;
}

int client_map_take(struct map *m, const struct wire_MAP_GET_reply *reply,
                    const struct frame *shards, const struct frame *endpoints, struct err *e)
{
    struct map taken;
    int rc;
    if (reply->shards > LIMIT_SHARDS || reply->tablet_count > LIMIT_TABLES * LIMIT_TABLETS ||
        shards->bytes != (size_t)reply->tablet_count * 2)
        return err_set(e, SHOAL_E_MALFORMED, "the map has %u shards and %u tablets in %zu bytes",
                       reply->shards, reply->tablet_count, shards->bytes);
    client_map_init(&taken);
    taken.epoch = reply->map_epoch;
    taken.tablet_count = reply->tablet_count;
    taken.shard_count = reply->shards;
    taken.tables = reply->tables;
    taken.shard = malloc(shards->bytes + 2);
    taken.endpoint = calloc((size_t)reply->shards + 1, MAP_ENDPOINT_BYTES);
    taken.key = calloc((size_t)reply->shards + 1, MAP_KEY_BYTES);
    if (taken.shard == NULL || taken.endpoint == NULL || taken.key == NULL) {
        rc = err_set(e, SHOAL_E_NOMEM, "no memory for a map of %u tablets", reply->tablet_count);
        goto refuse;
    }
    if (shards->bytes > 0)
        memcpy(taken.shard, shards->data, shards->bytes);
    for (uint32_t t = 0; t < taken.tablet_count; t++)
        if (taken.shard[t] >= taken.shard_count) {
            rc = err_set(e, SHOAL_E_MALFORMED, "the map gives tablet %u to shard %u of %u", t,
                         taken.shard[t], taken.shard_count);
            goto refuse;
        }
    rc = endpoints_take(&taken, endpoints->data, endpoints->bytes, e);
    if (rc != 0)
        goto refuse;
    client_map_close(m);
    *m = taken;
    return 0;
refuse:
    client_map_close(&taken);
    return rc;
}

bool client_map_complete(const struct map *m)
{
    if (m->tablet_count == 0)
        return false;
    for (uint32_t t = 0; t < m->tablet_count; t += client_map_stretch(m, t, m->tablet_count))
        if (m->endpoint[m->shard[t]][0] == '\0')
            return false;
    return true;
}

bool client_map_same(const struct map *a, const struct map *b)
{
    return a->tablet_count == b->tablet_count && a->tables == b->tables &&
           (a->tablet_count == 0 || memcmp(a->shard, b->shard, (size_t)a->tablet_count * 2) == 0);
}

uint32_t client_map_stretch(const struct map *m, uint32_t first, uint32_t end)
{
    SHOAL_ASSERT(first < end && end <= m->tablet_count);
    uint32_t t = first + 1;
    while (t < end && m->shard[t] == m->shard[first])
        t++;
    return t - first;
}
