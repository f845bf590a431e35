/* client_ping.c: pings to the shards, and what their answers tell: which shard owes one, and how
 * long answers take. */
#include "worker/train/client_inner.h"

#include "proto/base/container_of.h"
#include "proto/base/log.h"
#include "proto/base/minmax.h"

#include <string.h>

enum { SLOW_MS = 5000 /* an answer to a ping that comes later follows an absence */ };

/* ---- the address of a silent shard ----------------------------------------------------------- */

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

/* ---- pings ----------------------------------------------------------------------------------- */

/* An answer within SLOW_MS is that to the first sending, over a slow way; a later one follows an
 * absence, and is that to the last sending. */
static void ping_took(struct ping *p, uint64_t now_ns)
{
    uint64_t took = now_ns - p->begun_ns;
    if (took > SLOW_MS * MS)
        took = now_ns - p->sent_ns;
    p->round_ns[p->rounds++ % CLIENT_ROUNDS] = took + 1;
}

/* Returns how long an answer takes now: the median of the newest ones, which one slow answer does
 * not change, or what the ping in flight takes so far, from CLIENT_SILENT_MS on. 0: too few answers
 * came yet. */
static uint64_t ping_round(const struct ping *p, uint64_t now_ns)
{
    uint64_t a = p->round_ns[0], b = p->round_ns[1], c = p->round_ns[2];
    if (p->rounds < CLIENT_ROUNDS)
        return 0;
    uint64_t median = MAX(MIN(a, b), MIN(MAX(a, b), c));
    if (p->id != 0 && now_ns - p->begun_ns > CLIENT_SILENT_MS * MS)
        return MAX(median, now_ns - p->begun_ns);
    return median;
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
            client_seek_silent(c, s);
        }
        p->sent_ns = now;
        client_hello(c, c->shard[s].peer, p->id);
    }
}

void client_ping_answer(struct client *c, peer_t from, uint64_t id)
{
    for (uint32_t s = 0; s < c->shard_count && id != 0; s++) {
        struct ping *p = &c->shard[s].ping;
        if (c->shard[s].peer != from || p->id != id)
            continue;
        ping_took(p, env_now_ns(c->env));
        p->id = 0;
        p->unnamed = false;
        if (c->shard[s].seek.closed)
            client_hasten(c, s, c->shard[s].seek.order);
        c->shard[s].seek.closed = c->shard[s].seek.silent = false;
    }
}

/* ---- what they tell -------------------------------------------------------------------------- */

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

void client_ping_init(struct client *c)
{
    c->look.work.run = look_run;
    c->look.work.done = look_done;
}
