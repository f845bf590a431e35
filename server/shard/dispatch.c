/* dispatch.c: from a decoded type to its handler. */
#include "server/shard/dispatch.h"

#include "server/shard/admin.h"
#include "server/shard/group.h"
#include "server/shard/inspect.h"
#include "server/shard/keys.h"
#include "server/shard/pull.h"
#include "server/shard/push.h"
#include "server/shard/shard.h"

#define SETTLE true /* pushes admitted so far are applied first */
#define AS_IT_IS false
#define AWAY_TOO true /* also while tablets are away, after a start */
#define BACK_ONLY false

/* X(TYPE, settle first, when, handler): the types that a shard answers; all others are somebody
 * else's. */
#define DISPATCH_MAP(X)                                                                            \
    X(HELLO, AS_IT_IS, AWAY_TOO, admin_hello)                                                      \
    X(PULL, AS_IT_IS, AWAY_TOO, pull_on_message)                                                   \
    X(PUSH, AS_IT_IS, BACK_ONLY, push_on_message)                                                  \
    X(TABLE_CREATE, SETTLE, BACK_ONLY, admin_table_create)                                         \
    X(RUN_OPEN, SETTLE, BACK_ONLY, admin_run_open)                                                 \
    X(RUN_DROP, SETTLE, BACK_ONLY, admin_run_drop)                                                 \
    X(FENCE, SETTLE, BACK_ONLY, admin_fence)                                                       \
    X(MAP_SET, SETTLE, AWAY_TOO, admin_map_set)                                                    \
    X(HOLD, SETTLE, BACK_ONLY, hold_on_hold)                                                       \
    X(GO, SETTLE, BACK_ONLY, hold_on_go)                                                           \
    X(RESTORE, SETTLE, BACK_ONLY, hold_on_restore)                                                 \
    X(CUT_DROP, SETTLE, BACK_ONLY, hold_on_cut_drop)                                               \
    X(CUT_KEEP, SETTLE, BACK_ONLY, hold_on_cut_keep)                                               \
    X(CUT_EXPORT, SETTLE, BACK_ONLY, checkpoint_on_export)                                         \
    X(LOAD, SETTLE, BACK_ONLY, checkpoint_on_load)                                                 \
    X(LOAD_DROP, SETTLE, BACK_ONLY, checkpoint_on_load_drop)                                       \
    X(DIGEST, SETTLE, BACK_ONLY, digest_on_message)                                                \
    X(INSPECT, SETTLE, AWAY_TOO, inspect_on_message)                                               \
    X(BLAME, SETTLE, BACK_ONLY, audit_on_blame)                                                    \
    X(KEYS, SETTLE, BACK_ONLY, keys_on_message)                                                    \
    X(TABLE_STATS, SETTLE, BACK_ONLY, table_stats_on_message)                                      \
    X(SHARD_STATUS, SETTLE, AWAY_TOO, inspect_on_status)                                           \
    X(STOP, SETTLE, AWAY_TOO, admin_stop)

struct handler {
    void (*run)(struct shard *s, peer_t from, struct msg *m);
    bool settle, away;
};

static struct handler handler_of(enum wire_type type)
{
    switch (type) {
#define X(name, first, when, function)                                                             \
    case WIRE_TYPE_##name:                                                                         \
        return (struct handler){function, first, when};
        DISPATCH_MAP(X)
#undef X
    default:
        return (struct handler){0};
    }
}

/* false: no such type, which only a header of another protocol version can leave behind: it cannot
 * be answered. */
static bool count(struct dispatch_counts *c, enum wire_type type)
{
    switch (type) {
#define X(name, number, request_frames, reply_frames)                                              \
    case WIRE_TYPE_##name:                                                                         \
        c->name++;                                                                                 \
        return true;
        WIRE_MAP(X)
#undef X
    default:
        return false;
    }
}

void dispatch_message(struct shard *s, peer_t from, struct msg *m)
{
    struct err e = {0};
    struct wire *w = &s->in;
    w->type = WIRE_TYPE_NONE;
    w->reply = false;
    w->id = 0;
    int rc = wire_decode(m, w, &e);
    bool known = count(&s->dispatched, w->type);
    if (rc) {
        s->counts.malformed++;
        if (known && !w->reply)
            shard_refuse(s, from, w->type, w->id, rc, "%s", e.text);
        msg_free(m);
        return;
    }
    if (w->reply) {
        if (w->type == WIRE_TYPE_SHARD_BEAT)
            beat_on_reply(s, from);
        msg_free(m);
        return;
    }
    struct handler h = handler_of(w->type);
    if (h.run == NULL) {
        shard_refuse(s, from, w->type, w->id, SHOAL_E_USAGE,
                     "%s is not for a shard; ask the coordinator", wire_type_name(w->type));
        msg_free(m);
    } else if (!h.away && !engine_back(s->engine)) {
        shard_refuse(s, from, w->type, w->id, SHOAL_E_AGAIN,
                     "shard %s reads its rows back after a start; ask again", s->name);
        msg_free(m);
    } else if (h.settle && group_settle(s)) {
        msg_free(m);
    } else {
        h.run(s, from, m);
    }
}
