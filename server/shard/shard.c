/* shard.c: the shard's tick, its beginning and its end. */
#include "server/shard/shard.h"

#include "proto/base/container_of.h"
#include "proto/base/log.h"
#include "server/shard/group.h"
#include "server/shard/pull.h"
#include "server/shard/push.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A pull behind a group waits for all of it. So many keys take up to 5 ms where every one is a new
 * row in memory that was never touched; larger groups would not be written to the journal any
 * faster. */
#define GROUP_KEYS 8192u

/* ---- the loop's three calls ---- */

/* The order is the durability rule: see shard.h. */
static void shard_tick(struct shard *s)
{
    push_parked(s);
    if (group_settle(s))
        return;
    pull_tick(s);
    engine_flush_step(s->engine);
    if (!s->sync.due_ns && engine_unsynced(s->engine))
        env_timer_start(s->env, &s->sync, SHARD_SYNC_NS);
}

static void park_cb(struct env_timer *t)
{
    struct shard *s = container_of(t, struct shard, park.timer);
    s->park.pushes_due |= s->park.short_of_room;
    shard_tick(s);
}

static void shard_on_message(void *core, peer_t from, struct msg *m)
{
    struct shard *s = core;
    if (s->fatal.code) {
        msg_free(m); /* nothing is acknowledged any more */
        return;
    }
    dispatch_message(s, from, m);
    if (s->group_keys >= GROUP_KEYS)
        shard_tick(s);
}

static void shard_on_drained(void *core)
{
    shard_tick(core);
}

/* A sync under way when it fires may not cover all: then it fires once more. */
static void sync_cb(struct env_timer *t)
{
    struct shard *s = container_of(t, struct shard, sync);
    if (!s->fatal.code && engine_sync_due(s->engine))
        env_timer_start(s->env, t, SHARD_SYNC_NS);
}

/* Its waiting pulls would be answered to nobody. Its held pushes stay: they are the lane's, until a
 * newer generation fences them. */
static void shard_on_peer_gone(void *core, peer_t peer)
{
    struct shard *s = core;
    struct request_list gone = {0};
    struct request *q;
    audit_peer_gone(s, peer);
    clock_peer_gone(&s->clock, peer, &gone);
    park_peer_gone(s, peer, &gone);
    while ((q = request_pop(&gone)) != NULL)
        request_give(&s->pool, q);
}

const struct env_handler shard_handler = {
    .on_message = shard_on_message,
    .on_drained = shard_on_drained,
    .on_peer_gone = shard_on_peer_gone,
};

/* ---- from the engine ---- */

static void shard_synced_cb(void *context)
{
    struct shard *s = context;
    if (!s->fatal.code)
        group_synced(s);
}

static void shard_fetched_cb(void *context)
{
    park_fetched(context);
}

static void shard_recovered_cb(void *context)
{
    struct shard *s = context;
    log_info("shard %s: all rows are back", s->name);
    beat_now(s);
}

static void shard_fatal_cb(void *context, const struct err *e)
{
    shard_fatal(context, e);
}

/* ---- life ---- */

static int open_parts(struct shard *s, struct err *e)
{
    if (request_pool_init(&s->pool, s->options.waiting_max) || clock_init(&s->clock))
        return err_set(e, SHOAL_E_NOMEM, "shard %s: no memory for its request pool", s->name);
    struct engine_options o = s->options.engine;
    o.on_synced = shard_synced_cb;
    o.on_fetched = shard_fetched_cb;
    o.on_recovered = shard_recovered_cb;
    o.on_fatal = shard_fatal_cb;
    o.context = s;
    int rc = engine_open(&o, s->env, &s->engine, e);
    if (rc) {
        err_wrap(e, rc, "shard %s", s->name);
        return rc;
    }
    struct engine_stats stats;
    engine_stats_get(s->engine, &stats);
    s->sequence = stats.sequence;
    return 0;
}

int shard_open(const struct shard_options *options, struct env *env, struct shard **out,
               struct err *e)
{
    struct shard *s = calloc(1, sizeof *s);
    if (s == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for a shard");
    s->env = env;
    s->options = *options;
    snprintf(s->name, sizeof s->name, "%.50s/%u", options->server, options->shard_index);
    lead_init(&s->lead);
    park_init(s);
    hold_init(s);
    digest_init(s);
    table_stats_init(s);
    beat_init(s);
    s->sync.fire = sync_cb;
    s->park.timer.fire = park_cb;
    int rc = open_parts(s, e);
    if (rc) {
        request_pool_close(&s->pool);
        clock_close(&s->clock);
        free(s);
        return rc;
    }
    *out = s;
    return 0;
}

int shard_start(struct shard *s, const char *endpoint, struct err *e)
{
    snprintf(s->endpoint, sizeof s->endpoint, "%s", endpoint);
    return beat_start(s, e);
}

int shard_close(struct shard *s, bool flush_all)
{
    group_settle(s);
    park_close(s);
    hold_close(s);
    digest_close(s);
    table_stats_close(s);
    beat_close(s);
    env_timer_stop(s->env, &s->sync);
    int rc = engine_close(s->engine, flush_all && !s->fatal.code);
    bsp_close(&s->bsp);
    clock_close(&s->clock);
    lead_close(&s->lead);
    request_pool_close(&s->pool);
    free(s);
    return rc;
}
