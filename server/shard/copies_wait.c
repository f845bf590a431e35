/* copies_wait.c: messages that wait for the copies: the answers to pushes, and the replies to the
 * coordinator. */
#include "proto/base/json.h"
#include "proto/base/minmax.h"
#include "server/shard/copies.h"
#include "server/shard/shard.h"

#include <stdlib.h>

#define REPLIES_MAX 1024u

struct copies_reply {
    struct copies_reply *next;
    uint64_t sequence;
    peer_t to;
    struct msg *m;
};

uint64_t copies_newest(const struct shard *s)
{
    return engine_sequence(s->engine);
}

bool copies_leased(const struct shard *s)
{
    const struct copies *c = &s->copies;
    return c->role == COPIES_LEADS && c->begun && !c->over &&
           env_now_ns(s->env) < c->lease_until_ns;
}

void copies_base(struct shard *s)
{
    if (s->copies.role == COPIES_LEADS)
        s->copies.base = copies_newest(s);
}

uint64_t copies_acknowledged(struct shard *s, uint64_t own)
{
    struct copies *c = &s->copies;
    uint32_t in_sync = c->in_sync | 1u << c->place;
    if (!copies_leased(s) || (uint32_t)__builtin_popcount(in_sync) < c->min_in_sync)
        return 0; /* 3. */
    for (uint32_t i = 0; i < LIMIT_COPIES; i++)
        if (i != c->place && ((c->in_sync | c->asked | c->joining) >> i & 1) != 0) /* 2. */
            own = MIN(own, c->follower[i].have);
    c->acknowledged = MAX(c->acknowledged, own);
    return own;
}

/* True for a reply that tells nothing of the rows. */
static bool tells_nothing(enum wire_type type)
{
    return type == WIRE_TYPE_HELLO || type == WIRE_TYPE_SHARD_STATUS || type == WIRE_TYPE_STOP ||
           type == WIRE_TYPE_KEYLIST || type == WIRE_TYPE_SHARES;
}

bool copies_every(const struct wire *w)
{
    switch (w->type) {
    case WIRE_TYPE_HELLO:
    case WIRE_TYPE_FOLLOW: /* refused by a copy that does not lead */
    case WIRE_TYPE_COPY:
    case WIRE_TYPE_MAP_SET:
    case WIRE_TYPE_MAP_HELD:
    case WIRE_TYPE_NAMES_SET:
    case WIRE_TYPE_NAMES_HELD:
    case WIRE_TYPE_TAKEN_SET:
    case WIRE_TYPE_TAKEN_HELD:
    case WIRE_TYPE_CUT_DROP:
    case WIRE_TYPE_CUT_KEEP:
    case WIRE_TYPE_SHARD_STATUS:
    case WIRE_TYPE_KEYLIST:
    case WIRE_TYPE_SHARES:
    case WIRE_TYPE_STOP:
        return true;
    case WIRE_TYPE_KEYS:
        return !w->reply && w->u.KEYS.action == WIRE_KEY_SCRUB;
    default:
        return false;
    }
}

bool copies_delay(struct shard *s, peer_t to, struct msg *m)
{
    struct copies *c = &s->copies;
    bool keys = s->out.type == WIRE_TYPE_KEYS, tells = to == s->beat.coordinator || keys;
    if (!s->out.reply || !tells || m == NULL || tells_nothing(s->out.type))
        return false;
    if (c->role == COPIES_FOLLOWS) {
        if (s->out.status != 0 || keys ||
            copies_every(&s->out)) /* keys: a scrub of its own files */
            return false;
        msg_free(m); /* work that this copy began when it led: another one leads now */
        return true;
    }
    uint64_t sequence = copies_newest(s);
    if (c->reply == NULL && sequence <= copies_acknowledged(s, engine_acknowledged(s->engine)))
        return false;
    struct copies_reply *r = malloc(sizeof *r);
    if (r == NULL || c->replies == REPLIES_MAX) {
        free(r);
        msg_free(m); /* the coordinator asks again */
        s->counts.unsent++;
        return true;
    }
    *r = (struct copies_reply){NULL, sequence, to, m};
    *c->reply_end = r;
    c->reply_end = &r->next;
    c->replies++;
    return true;
}

/* Takes the first reply out. */
static struct msg *reply_pop(struct copies *c, peer_t *to)
{
    struct copies_reply *r = c->reply;
    struct msg *m = r->m;
    *to = r->to;
    c->reply = r->next;
    c->replies--;
    if (c->reply == NULL)
        c->reply_end = &c->reply;
    free(r);
    return m;
}

void copies_replies_drop(struct copies *c)
{
    peer_t to;
    while (c->reply != NULL)
        msg_free(reply_pop(c, &to));
}

void copies_flush(struct shard *s)
{
    struct copies *c = &s->copies;
    peer_t to;
    if (c->reply == NULL)
        return;
    uint64_t through = copies_acknowledged(s, engine_acknowledged(s->engine));
    while (c->reply != NULL && c->reply->sequence <= through) {
        struct msg *m = reply_pop(c, &to);
        if (env_send(s->env, to, m))
            s->counts.unsent++;
    }
}

/* ---- told ---- */

struct json *copies_json(const struct shard *s)
{
    static const char *const role[] = {"alone", "leads", "follows"};
    const struct copies *c = &s->copies;
    struct json *j = json_new_object();
    uint32_t in_sync = c->in_sync | (c->role == COPIES_LEADS ? 1u << c->place : 0);
    json_set_string(j, "role", role[c->role]);
    json_set_int(j, "place", c->place);
    json_set_int(j, "of", c->count);
    json_set_int(j, "term", (int64_t)c->term);
    json_set_int(j, "in_sync", in_sync);
    json_set_int(j, "min_in_sync", c->min_in_sync);
    if (c->role == COPIES_FOLLOWS) {
        json_set_string(j, "leader", s->follow.leader);
        json_set_int(j, "last", (int64_t)s->follow.last);
        json_set_int(j, "copied", (int64_t)s->follow.bytes);
        json_set_int(j, "to_copy", (int64_t)s->follow.bytes_of);
        return j;
    }
    uint64_t now = env_now_ns(s->env);
    int64_t left = 0;
    if (c->lease_until_ns > now)
        left = (int64_t)((c->lease_until_ns - now) / 1000000);
    json_set_int(j, "lease_ms", left);
    json_set_bool(j, "short", (uint32_t)__builtin_popcount(in_sync) < c->min_in_sync);
    json_set_int(j, "replies", c->replies);
    struct json *list = json_new_array();
    for (uint32_t i = 0; i < c->count; i++) {
        if (i == c->place)
            continue;
        const struct copies_follower *f = &c->follower[i];
        struct json *one = json_new_object();
        json_set_int(one, "place", i);
        json_set_int(one, "have", (int64_t)f->have);
        json_set_int(one, "lag", (int64_t)(copies_newest(s) - MIN(f->have, copies_newest(s))));
        json_set_int(one, "silent_ms", (int64_t)((now - f->heard_ns) / 1000000));
        json_set_bool(one, "copies", f->copying);
        json_append(list, one);
    }
    json_set(j, "followers", list);
    return j;
}
