/* client_seek.c: the search for a shard that is led elsewhere, or that stays away.
 *
 * 1. A shard that is sought is asked for at a bounded rate.
 *    [test: client_asks_seldom_for_what_stays_away]
 * 2. Its requests follow it. [test: client_finds_a_shard_at_its_new_place] */
#include "worker/train/client_inner.h"

#include "proto/base/container_of.h"
#include "proto/base/log.h"
#include "proto/base/minmax.h"

#include <inttypes.h>

enum {
    SEEK_FIRST_MS = 50,
    SEEK_FAST = 40, /* questions at that interval; then it doubles, up to: */
    SEEK_LAST_MS = 1000
};

/* True while it is not known where the shard is led. */
static bool sought(const struct seek *seek)
{
    return seek->closed || seek->refused || seek->silent;
}

/* A request waits for a shard that is sought. */
static void absence_note(struct seek *seek, uint64_t since_ns)
{
    if (seek->begun_ns == 0)
        seek->begun_ns = since_ns;
}

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
        client_hello(c, to->peer, to->ping.id);
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
    c->map_get.pause_ms = CLIENT_MAP_PAUSE_MS;
}

/* since_ns: a request that waits for the shard may be lost since then. */
static void seek_begin(struct client *c, uint32_t shard, uint64_t since_ns)
{
    if (client_awaits(c, shard))
        absence_note(&c->shard[shard].seek, since_ns);
    c->seek_tries = 0;
    seek_ask(c);
}

void client_seek_silent(struct client *c, uint32_t shard)
{
    struct connection *to = &c->shard[shard];
    uint64_t now = env_now_ns(c->env);
    if (to->seek.silent || to->seek.closed || to->ping.id == 0 ||
        now - to->ping.begun_ns < CLIENT_SILENT_MS * MS)
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
        client_hello(c, to->peer, to->ping.id);
        seek_begin(c, s, to->ping.sent_ns);
    }
}

void client_seek_sent(struct client *c, uint32_t shard)
{
    struct seek *seek = &c->shard[shard].seek;
    if (sought(seek))
        absence_note(seek, env_now_ns(c->env));
}

void client_seek_heard(struct client *c, uint32_t shard, int status)
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

void client_seek_init(struct client *c)
{
    c->seek_timer.fire = seek_fire;
}

uint64_t client_absence_ns(const struct client *c)
{
    return c->absence_ns;
}
