/* client_shards.c: fetches the map and connects the shards that it names. */
#include "worker/train/client_inner.h"

#include "proto/base/assert.h"
#include "proto/base/container_of.h"
#include "proto/base/log.h"
#include "proto/base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- connections ----------------------------------------------------------------------------- */

void client_hello(struct client *c, peer_t peer, uint64_t id)
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
    client_hello(c, to->peer, 0);
    return 0;
}

peer_t client_peer_of(const struct client *c, uint32_t target)
{
    if (target == CLIENT_COORDINATOR)
        return c->coordinators.peer;

    if (target < c->shard_count)
        return c->shard[target].peer;

    return 0;
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
                client_hasten(c, s, c->last_order);
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

/* ---- the map --------------------------------------------------------------------------------- */

static struct msg *map_get_build(struct request *r)
{
    struct client *c = container_of(r, struct client, map_get);
    struct wire w;
    client_head(r, &w);
    w.u.MAP_GET.map_epoch = c->map.epoch;
    w.u.MAP_GET.reads = c->options.reads;
    text_copy(w.u.MAP_GET.space, LIMIT_NAME, text_or(c->options.space, ""));
    return wire_encode(&w);
}

/* Tells the owner why no map has come. */
static enum request_verdict map_refused(const struct client *c, int status, const char *text)
{
    if (c->options.on_refused != NULL)
        c->options.on_refused(c->options.context, status, text);
    return REQUEST_LATER;
}

/* A coordinator of one space gives that one's tables, whatever name it was asked for. */
static bool other_space(const struct client *c, const char *is, struct err *e)
{
    const char *asked = text_or(c->options.space, "");
    if (c->options.on_refused == NULL || asked[0] == '\0' || is[0] == '\0' ||
        strcmp(asked, is) == 0)
        return false;
    (void)err_set(e, SHOAL_E_NOT_FOUND, "there is no space %s there, but %s", asked, is);
    return true;
}

static enum request_verdict map_get_reply(struct request *r, const struct wire *w,
                                          const struct msg *m)
{
    struct client *c = container_of(r, struct client, map_get);
    struct map taken;
    struct err e = {0};
    if (w->status != 0)
        return map_refused(c, w->status, wire_error(w));
    if (other_space(c, w->u.MAP_GET_reply.space, &e))
        return map_refused(c, e.code, e.text);
    map_init(&taken);
    int rc = map_take(&taken, &w->u.MAP_GET_reply, &m->frame[1], &m->frame[2], &e);
    if (rc == 0)
        rc = shards_connect(c, &taken);
    if (rc != 0)
        log_warn("the coordinator's map was not taken: %s", e.text);
    if (rc != 0 || !map_complete(&taken)) {
        map_close(&taken);
        return REQUEST_LATER; /* servers are still starting */
    }
    shards_leave(c, &taken);
    bool changed = !map_same(&taken, &c->map);
    map_close(&c->map);
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

void client_shards_init(struct client *c)
{
    map_init(&c->map);
    c->map_get = (struct request){.type = WIRE_TYPE_MAP_GET,
                                  .target = CLIENT_COORDINATOR,
                                  .pause_ms = CLIENT_MAP_PAUSE_MS,
                                  .build = map_get_build,
                                  .reply = map_get_reply};
}

void client_shards_close(struct client *c)
{
    for (uint32_t s = 0; s < c->shard_count; s++)
        if (c->shard[s].peer != 0)
            env_disconnect(c->env, c->shard[s].peer);
    map_close(&c->map);
    free(c->shard);
}
