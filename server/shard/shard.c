/* shard.c: the shard's tick and what its modules share. */
#include "server/shard/shard.h"

#include "proto/base/assert.h"
#include "proto/base/container_of.h"
#include "proto/base/json.h"
#include "proto/base/log.h"
#include "server/shard/pull.h"
#include "server/shard/push.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A pull behind a group waits for all of it. So many keys take up to 5 ms where every one is a new
 * row in memory that was never touched; larger groups would not be written to the journal any
 * faster. */
#define GROUP_KEYS 8192u

/* ---- the loop's three calls ---- */

/* The order is the durability rule: see shard.h. */
void shard_tick(struct shard *s)
{
    park_pushes(s);
    if (push_settle(s))
        return;
    pull_tick(s);
    engine_flush_step(s->engine);
    if (!s->sync.due_ns && engine_unsynced(s->engine))
        env_timer_start(s->env, &s->sync, SHARD_SYNC_NS);
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
        push_synced(s);
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

void shard_fatal(struct shard *s, const struct err *e)
{
    if (s->fatal.code)
        return;
    s->fatal = *e;
    if (!s->fatal.code)
        s->fatal.code = SHOAL_E_IO;
    log_error("shard %s stops: %s", s->name, e->text);
    if (s->options.on_fatal != NULL)
        s->options.on_fatal(s->options.context, &s->fatal);
    else
        env_stop(s->env);
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
    push_settle(s);
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

/* ---- for the modules ---- */

int shard_settle(struct shard *s)
{
    return push_settle(s);
}

static void purge_list(struct shard *s, struct request_list *l, bool pulls)
{
    struct request_list all = *l;
    struct request *q;
    *l = (struct request_list){0};
    while ((q = request_pop(&all)) != NULL) {
        uint32_t mode, lanes;
        bool open =
            engine_run_mode(s->engine, pulls ? q->pull.run : q->push.r.run, &mode, &lanes) == 0;
        if (open || (pulls && q->pull.lane == UINT32_MAX))
            request_append(l, q);
        else
            shard_refuse_request(s, q, SHOAL_E_OLD_RUN, "this run was dropped or replaced");
    }
}

/* Pulls that wait at a gate whose run is gone come out at the next tick and are refused there. */
void shard_purge(struct shard *s)
{
    SHOAL_ASSERT(s->group.head == NULL);
    bsp_purge(s);
    purge_list(s, &s->hold.queue, false);
    purge_list(s, &s->park.pushes, false);
    purge_list(s, &s->park.pulls, true);
    purge_list(s, &s->arrived, true);
}

struct wire *shard_reply(struct shard *s, enum wire_type type, uint64_t id)
{
    struct wire *w = &s->out;
    w->type = type;
    w->reply = true;
    w->id = id;
    w->status = 0;
    w->error[0] = 0;
    return w;
}

void shard_send_reply(struct shard *s, peer_t to)
{
    shard_send(s, to, wire_encode(&s->out));
}

void shard_send(struct shard *s, peer_t to, struct msg *m)
{
    if (m == NULL || env_send(s->env, to, m))
        s->counts.unsent++;
}

void shard_send_json(struct shard *s, peer_t to, struct json *j)
{
    char *text = json_text(j, 0);
    json_free(j);
    size_t bytes = text != NULL ? strlen(text) : 0;
    struct msg *m = text != NULL ? wire_encode(&s->out) : NULL;
    void *frame = m != NULL ? msg_add(m, bytes) : NULL;
    if (frame != NULL) {
        memcpy(frame, text, bytes);
        shard_send(s, to, m);
    } else {
        msg_free(m);
        shard_refuse(s, to, s->out.type, s->out.id, SHOAL_E_NOMEM,
                     "shard %s: no memory for the reply", s->name);
    }
    free(text);
}

void shard_refuse(struct shard *s, peer_t to, enum wire_type type, uint64_t id, int status,
                  const char *format, ...)
{
    struct wire *w = shard_reply(s, type, id);
    memset(&w->u, 0, sizeof w->u); /* what the last reply left there is of another type */
    va_list args;
    va_start(args, format);
    vsnprintf(w->error, sizeof w->error, format, args);
    va_end(args);
    w->status = status;
    s->counts.refused++;
    shard_send_reply(s, to);
}

bool shard_lacks_table(struct shard *s, peer_t to, enum wire_type type, uint64_t id, uint32_t table)
{
    if (!lead_ready(&s->lead))
        shard_refuse(s, to, type, id, SHOAL_E_AGAIN,
                     "shard %s has no map yet for table %u; ask again", s->name, table);
    else if (engine_table(s->engine, table) == NULL)
        shard_refuse(s, to, type, id, SHOAL_E_NO_TABLE, "shard %s has no table %u", s->name, table);
    else
        return false;
    return true;
}

void shard_refuse_request(struct shard *s, struct request *q, int status, const char *text)
{
    shard_refuse(s, q->peer, q->type, q->id, status, "shard %s: %s", s->name, text);
    request_give(&s->pool, q);
}
