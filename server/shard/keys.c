/* keys.c: keys by name, from the wire to the engine. */
#include "server/shard/keys.h"

#include "proto/base/assert.h"
#include "proto/base/json.h"
#include "server/shard/shard.h"

/* ---- a search of the journal ---- */

static bool taken(struct shard *s, peer_t from, enum wire_type type, uint64_t id)
{
    if (s->audit.peer == 0)
        return false;
    /* else the same request again: its answer comes */
    if (s->audit.peer != from || s->audit.id != id)
        shard_refuse(s, from, type, id, SHOAL_E_BUSY,
                     "shard %s is searching its journal already; ask again later", s->name);
    return true;
}

/* The search, or the erasing, has ended. True: it failed, and so it is answered. */
static bool failed(struct shard *s, enum wire_type type, int status, const char *text)
{
    const struct audit a = s->audit;
    SHOAL_ASSERT(a.peer != 0 && a.scrub == (type == WIRE_TYPE_KEYS));
    s->audit.peer = 0;
    if (status)
        shard_refuse(s, a.peer, type, a.id, status, "shard %s: %s", s->name, text);
    return status != 0;
}

static struct json *entry_json(const struct blame_entry *in)
{
    struct json *j = json_new_object();
    json_set_int(j, "sequence", (int64_t)in->sequence);
    json_set_int(j, "run", (int64_t)in->run);
    json_set_int(j, "lane", in->lane);
    json_set_int(j, "generation", (int64_t)in->generation);
    json_set_int(j, "batch", (int64_t)in->batch);
    if (in->event_time != 0)
        json_set_int(j, "event_time", in->event_time);
    else
        json_set_null(j, "event_time");
    json_set_number(j, "norm", in->norm);
    json_set_number(j, "lr_scale", (double)in->lr_scale);
    json_set_number(j, "show", (double)in->show);
    json_set_number(j, "click", (double)in->click);
    return j;
}

static void blame_done(void *context, int status, const char *text, const struct blame_entry *entry,
                       uint32_t count, bool complete)
{
    struct shard *s = context;
    const struct audit a = s->audit;
    if (failed(s, WIRE_TYPE_BLAME, status, text))
        return;
    SHOAL_ASSERT(count <= ENGINE_BLAME_MAX);
    struct json *list = json_new_array();
    for (uint32_t i = 0; i < count; i++)
        json_append(list, entry_json(&entry[i]));
    shard_reply(s, WIRE_TYPE_BLAME, a.id)->u.BLAME_reply.complete = complete;
    shard_send_json(s, a.peer, list);
}

void keys_on_blame(struct shard *s, peer_t from)
{
    const struct wire_BLAME in = s->in.u.BLAME;
    uint64_t id = s->in.id;
    struct err e = {0};
    if (taken(s, from, WIRE_TYPE_BLAME, id))
        return;
    int rc = in.limit == 0 || in.limit > ENGINE_BLAME_MAX
                 ? err_set(&e, SHOAL_E_USAGE, "a limit is 1 to %u", ENGINE_BLAME_MAX)
                 : 0;
    s->audit = (struct audit){from, id, false};
    if (rc == 0)
        rc = engine_blame(s->engine, in.table, in.key, in.limit, blame_done, s, &e);
    if (rc)
        failed(s, WIRE_TYPE_BLAME, rc, e.text);
}

static void scrub_done(void *context, int status, const char *text, uint64_t sequence)
{
    struct shard *s = context;
    const struct audit a = s->audit;
    if (failed(s, WIRE_TYPE_KEYS, status, text))
        return;
    shard_reply(s, WIRE_TYPE_KEYS, a.id)->u.KEYS_reply.changed = sequence;
    shard_send_reply(s, a.peer);
}

static void on_scrub(struct shard *s, peer_t from)
{
    const struct wire_KEYS in = s->in.u.KEYS;
    uint64_t id = s->in.id;
    struct err e = {0};
    if (taken(s, from, WIRE_TYPE_KEYS, id))
        return;
    s->audit = (struct audit){from, id, true};
    int rc =
        engine_scrub(s->engine, in.table, s->m->frame[1].data, in.key_count, scrub_done, s, &e);
    if (rc)
        failed(s, WIRE_TYPE_KEYS, rc, e.text);
}

void keys_peer_gone(struct shard *s, peer_t peer)
{
    if (s->audit.peer == peer && !s->audit.scrub)
        engine_audit_stop(s->engine);
}

/* ---- keys changed ---- */

_Static_assert((int)WIRE_KEY_ERASE == (int)KEY_ERASE && (int)WIRE_KEY_BLOCK == (int)KEY_BLOCK &&
                   (int)WIRE_KEY_ALLOW == (int)KEY_ALLOW && (int)WIRE_KEY_RESET == (int)KEY_RESET,
               "the wire's actions are the engine's");

void keys_on_message(struct shard *s, peer_t from)
{
    const struct wire_KEYS r = s->in.u.KEYS;
    uint64_t id = s->in.id, changed = 0;
    struct err e = {0};
    if (r.action == WIRE_KEY_SCRUB) {
        on_scrub(s, from);
        return;
    }
    int rc = lead_ready(&s->lead) ? engine_keys(s->engine, r.table, (enum key_action)r.action,
                                                s->m->frame[1].data, r.key_count, &changed, &e)
                                  : err_set(&e, SHOAL_E_AGAIN, "it has no map yet; ask again");
    if (rc) {
        shard_refuse(s, from, WIRE_TYPE_KEYS, id, rc, "shard %s: %s", s->name, e.text);
        return;
    }
    SHOAL_ASSERT(changed <= r.key_count);
    shard_reply(s, WIRE_TYPE_KEYS, id)->u.KEYS_reply.changed = changed;
    shard_send_reply(s, from);
}
